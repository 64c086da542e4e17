"""What correcting by states costs: one stream over 1 to 64 partitions, beside one corrector.

    python benchmarks/partitions.py FOLDER

FOLDER is as for validation.py. Rows go round the partitions. The workers commit and the learner
writes a state every 100 or 1,000 rows of the whole stream, which are 200 ms at 500 and at 5,000
rows a second; a state corrects the rows after the next commit: as of the Kafka roles, through the
bytes of sent batches and correctors. "one corrector" learns each label at once, as a library user
would. Figures are the mean change in accuracy (points) over the streams.
"""

from __future__ import annotations

import sys
from collections import deque
from pathlib import Path

import numpy as np
from recorded import halves
from validation import load

from stream_can import Corrector, Learner
from stream_can.learner import LateLabel, SentBatch, SentVersion, in_order, read_sent

COLUMNS = {"every label, 100 late": (1.0, 100, False), "1000 late": (1.0, 1000, False),
           "1 in 20": (0.05, 100, False), "fit: none": (0.0, 100, True),
           "fit: every": (1.0, 100, True)}  # fmt: skip
CASES = ((100, 1), (100, 8), (100, 64), (1000, 1), (1000, 64))
"""Rows between two commits, and partitions."""


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
    corrector: Corrector, P: np.ndarray, y: np.ndarray, given: np.ndarray, delay: int, every: int,
    count: int,
) -> np.ndarray:  # fmt: skip
    """Every row as the worker of its partition sends it."""
    out, learner, names = np.empty_like(P), Learner(corrector, recent_mb=1024), corrector.classes
    states = [corrector.to_bytes()] * 2
    for begin in range(0, len(P), every):
        end, sent, labels = min(begin + every, len(P)), {}, {}
        state = Corrector.from_bytes(states[0])
        for partition in range(count):
            rows = np.arange(begin, end)
            rows = rows[rows % count == partition]
            if not len(rows):
                continue
            out[rows], receipts = state.correct_many(P[rows], receipt=True)
            both = [one.view(np.float32) for one in (P[rows], out[rows])]
            lane = SentVersion((None, None), names, np.concatenate([*both, receipts], axis=1))
            ids = [f"{t}" for t in rows]
            of, times = np.zeros(len(rows), np.int32), rows.astype(float)
            batch = SentBatch(ids, rows, times, [lane], of, {})
            sent[partition] = [read_sent(batch.to_bytes())]
            late = np.arange(max(0, begin - delay), max(0, end - delay))
            labels[partition] = [
                LateLabel(f"{t}", names[int(y[t])], time=float(t + delay))
                for t in late[(late % count == partition) & given[late]]
            ]
        learner.play_sent(in_order(sent, labels, learner.next_number))
        states = [states[1], next(iter(learner.correctors.values()))]
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
            for every, count in CASES:
                outs[f"{every:,} rows, {count}"] = together(
                    Corrector.from_bytes(begun), P, y, given, delay, every, count
                )
            for name, out in outs.items():
                gain = 100 * ((out.argmax(1) == y)[scored].mean() - raw)
                cells.setdefault(name, []).append(gain)
        for name, gains in cells.items():
            found.setdefault(name, []).append(gains)
        print(".", end="", file=sys.stderr, flush=True)
    print(f"\n{len(streams)} streams")
    print(f"| a commit every, partitions | {' | '.join(COLUMNS)} |")
    print(f"|---|{'--:|' * len(COLUMNS)}")
    for name, columns in found.items():
        print(f"| {name} | {' | '.join(f'{np.mean(gains):+.2f}' for gains in columns)} |")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
