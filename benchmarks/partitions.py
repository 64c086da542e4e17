"""What partitions cost that learn together: one stream over 1 to 64 of them, beside one corrector.

    python benchmarks/partitions.py FOLDER

FOLDER is as for validation.py. Rows go round the partitions; every 200 rows of the whole stream the
partitions commit, and what they commit is folded by all, through the bytes of the entries, as the
Kafka worker does. "one corrector" learns each label at once, as a library user would. Each label
brings what its receipt gave it. Figures are the mean change in accuracy (points) over the streams.
"""

from __future__ import annotations

import sys
from collections import deque
from pathlib import Path

import numpy as np
from recorded import halves
from validation import load

from stream_can import Corrector
from stream_can.method.receipts import gave_all, none_known
from stream_can.stream import entry

EVERY = 200
COLUMNS = {"every label, 100 late": (1.0, 100, False), "1000 late": (1.0, 1000, False),
           "1 in 20": (0.05, 100, False), "fit: none": (0.0, 100, True),
           "fit: every": (1.0, 100, True)}  # fmt: skip
PARTITIONS = (1, 4, 16, 64)


def new(data: dict[str, np.ndarray], fit: bool) -> Corrector:
    corrector = Corrector(data["probs"].shape[1], train_counts=data["train_counts"])
    if fit:
        corrector.fit(data["val_probs"], data["val_labels"].astype(np.int64))
    return corrector


def alone(
    corrector: Corrector, P: np.ndarray, y: np.ndarray, given: np.ndarray, delay: int
) -> np.ndarray:
    """Every row as one corrector sends it."""
    out, receipts = np.empty_like(P), deque[np.ndarray](maxlen=delay + 1)
    for t in range(len(P)):
        out[t], receipt = corrector.process_one(P[t], receipt=True)
        receipts.append(receipt)
        if t >= delay and given[t - delay]:
            corrector.learn_one(P[t - delay], int(y[t - delay]), receipt=receipts[0])
    return out


def together(
    corrector: Corrector, P: np.ndarray, y: np.ndarray, given: np.ndarray, delay: int, count: int
) -> np.ndarray:
    """Every row as its partition sends it."""
    out, known = np.empty_like(P), none_known(len(P), corrector.n_sent)
    for begin in range(0, len(P), EVERY):
        end, opened = min(begin + EVERY, len(P)), []
        for partition in range(count):
            part = entry.OpenPart(corrector, 0, 0)
            rows = np.arange(begin, end)
            rows = rows[rows % count == partition]
            out[rows], receipts = corrector.correct_and_sum(P[rows], part.sums, receipt=True)
            known[rows] = gave_all(receipts, y[rows], corrector.n_sent)
            late = np.arange(max(0, begin - delay), max(0, end - delay))
            for t in late[(late % count == partition) & given[late]]:
                part.add(0, 0, int(y[t]), known[t].tobytes(), P[t].tobytes())
            opened.append((partition, part, (0, 0)))
        for data in entry.entries(corrector, 0, opened, app=b"measured"):
            entry.fold(corrector, entry.read(data))
    return out


def main(folder: str) -> None:
    streams = [data for file in sorted(Path(folder).glob("*.npz")) if (data := load(file))]
    found: dict[str, list[list[float]]] = {}
    for rate, delay, fit in COLUMNS.values():
        cells: dict[str, list[float]] = {}
        for data in streams:
            P, y = data["probs"], data["labels"].astype(np.int64)
            learned, scored = halves(P)
            given = learned & (np.random.default_rng(0).random(len(y)) < rate)
            raw = (P.argmax(1) == y)[scored].mean()
            begun = new(data, fit).to_bytes()
            outs = {"one corrector": alone(Corrector.from_bytes(begun), P, y, given, delay)}
            for count in PARTITIONS:
                outs[str(count)] = together(Corrector.from_bytes(begun), P, y, given, delay, count)
            for name, out in outs.items():
                gain = 100 * ((out.argmax(1) == y)[scored].mean() - raw)
                cells.setdefault(name, []).append(gain)
        for name, gains in cells.items():
            found.setdefault(name, []).append(gains)
        print(".", end="", file=sys.stderr, flush=True)
    print(f"\n{len(streams)} streams")
    print(f"| partitions | {' | '.join(COLUMNS)} |")
    print(f"|---|{'--:|' * len(COLUMNS)}")
    for name, columns in found.items():
        print(f"| {name} | {' | '.join(f'{np.mean(gains):+.2f}' for gains in columns)} |")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
