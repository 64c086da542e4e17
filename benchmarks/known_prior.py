"""What a known class mix gains on the first rows of recorded streams, and what a wrong one costs.

    python benchmarks/known_prior.py FOLDER

FOLDER is that of `validation.py`. The known mix is `prior_start` of a stream, where it has that,
else the mix of its first 2,000 labels; the wrong one has every second class three times too large.
Streams: those whose mix differs from that of training by more than .05 nats (Kullback-Leibler).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from validation import load, play

from stream_can import Corrector, laplace

ROWS, STRETCHES = 2000, (500, 2000)


def mixes(data: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, float]:
    """The known mix, a wrong one, and how far the known one is from that of training."""
    train = laplace(data["train_counts"])
    m = len(train)
    labels = np.bincount(data["labels"][:ROWS].astype(np.int64), minlength=m)
    known = np.asarray(data.get("prior_start", labels), float)
    known = 0.999 * known / known.sum() + 0.001 / m
    wrong = train * np.where(np.arange(m) % 2, 1, 3)
    return known, wrong / wrong.sum(), float((known * np.log(known / train)).sum())


def main(folder: str) -> None:
    streams = [data for file in sorted(Path(folder).glob("*.npz")) if (data := load(file))]
    streams = [data for data in streams if mixes(data)[2] > 0.05]
    print(f"{len(streams)} streams; points of accuracy and nats: first 500 rows; first 2,000 rows")
    print("| labels | without | known | wrong |\n|---|---|---|---|")
    for labels in ("0%", "1%", "100%"):
        cells = []
        for way in (None, 0, 1):
            gains = np.zeros((len(streams), len(STRETCHES), 2))
            for i, data in enumerate(streams):
                mix = None if way is None else mixes(data)[way]
                corrector = Corrector(
                    data["probs"].shape[1], train_counts=data["train_counts"], prior=mix
                )
                played = play(data, labels=labels, rows=ROWS, corrector=corrector)
                for j, n in enumerate(STRETCHES):
                    gains[i, j] = 100 * played.hits[:n].mean(), played.losses[:n].mean()
            worst = gains[:, :, 1].max(axis=0)
            cells.append(
                "; ".join(
                    f"{points:+.2f}, {nats:+.3f} / {most:+.3f}"
                    for (points, nats), most in zip(gains.mean(axis=0), worst, strict=True)
                )
            )
        print(f"| {labels} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1])
