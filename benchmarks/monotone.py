"""What is left of the gain where every row keeps its likeliest class, on recorded streams.

    python benchmarks/monotone.py FOLDER

FOLDER is that of `validation.py`. Labels are 100 rows late. Each cell: the mean change of the log
loss in nats, the worst of a stream, and the mean calibration error of the top, in percent.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from validation import load, play

from stream_can import Corrector
from stream_can.scores import Scores


def ece(rows: np.ndarray, y: np.ndarray) -> float:
    scores = Scores()
    scores.add(rows, y)
    return 100 * scores.ece


def main(folder: str) -> None:
    streams = [data for file in sorted(Path(folder).glob("*.npz")) if (data := load(file))]
    print("| labels | as they came | all paths | monotone |\n|---|---|---|---|")
    for labels, fits in (("100%", 0), ("5%", 0), ("1%", 0), ("0%", 1), ("5%", 1), ("100%", 1)):
        cells = []
        for monotone in (False, True):
            changes, before, after = [], [], []
            for data in streams:
                m, counts = data["probs"].shape[1], data["train_counts"]
                corrector = Corrector(m, train_counts=counts, monotone=monotone)
                if fits:
                    corrector.fit(data["val_probs"], data["val_labels"].astype(np.int64))
                played = play(data, labels=labels, corrector=corrector)
                changes.append(played.losses.mean())
                before.append(ece(played.came, played.y))
                after.append(ece(played.sent, played.y))
                assert not monotone or not played.hits.any()
            cells.append(f"{np.mean(changes):+.3f} / {max(changes):+.3f}, {np.mean(after):.2f}")
        way = f"{labels}{', `fit`' if fits else ''}"
        print(f"| {way} | {np.mean(before):.2f} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1])
