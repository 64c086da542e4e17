"""What learning from sums of rows costs, beside learning from the rows, on recorded streams.

    python benchmarks/row_sums.py FOLDER [FOLDER ...] [--streams] [--only WORD] [--every ROWS ...]
                                   [--delay ROWS]

A FOLDER holds .npz files with probs (n, m), labels (n,), train_counts (m,) and val_probs and
val_labels; a file without the last two uses those of the file whose name is its own up to the last
underscore. Where a stream repeats rows, labels of one half of the distinct rows are learned and the
other half is scored. Labels come 100 rows late (--delay), each with the receipt of its prediction.

- one: a corrector processes each row and learns each label at once.
- rows: workers correct by a state, one learner plays each row and label in order (as today).
- rows, one in 10: the same, but of the rows it observes one in ten.
- sums: workers correct by a state and add up their rows; the learner adds the sums of a commit and
  then learns the labels that came, in the order of time. It sees no row without a label.
- slices: a worker sends sums of every 100 rows of the stream, so labels are learned between them.

A commit is every 100 or 1,000 rows (--every); the state behind it corrects the rows after the next
commit. Rows go round the partitions. Figures: change against the rows as they came, accuracy in
points and log loss in nats, mean / worst stream; then the same less that of `rows`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stream_can import Corrector
from stream_can.method.sums import add_up
from stream_can.row_sums import RowSums

CONDITIONS = {  # share of labels that come, and whether validation rows were fitted
    "every label": (1.0, False),
    "1 in 20": (0.05, False),
    "every label, fit": (1.0, True),
    "1 in 20, fit": (0.05, True),
    "no label, fit": (0.0, True),
}


class Way(NamedTuple):
    """A way of correcting and learning."""

    learns: str
    """one, rows or sums."""
    every: int = 0
    """Rows between two commits."""
    partitions: int = 1
    merge: str = "in turn"
    """How sums of partitions are added: one behind the other, or without an order ("batch")."""
    later: int = 0
    """How many commits more a label needs to reach the learner."""
    slice: int = 0
    """Rows after which sums begin anew, so that labels between them are learned there; 0: never."""
    one_in: int = 1
    """Of rows: the learner observes one in so many."""

    def __str__(self) -> str:
        if self.learns == "one":
            return "one corrector"
        what = f"{self.learns}, {self.every:,}"
        if self.learns == "sums":
            what += f", {self.partitions} part."
        what += ", no order" if self.merge == "batch" else ""
        what += f", slices of {self.slice:,}" if self.slice else ""
        what += f", one in {self.one_in}" if self.one_in > 1 else ""
        return what + (f", labels {self.later} commit later" if self.later else "")


def ways(commits: list[int]) -> list[Way]:
    """Those that are compared, with a commit each so many rows."""
    found = [Way("one")]
    for every in commits:
        found += [Way("rows", every), Way("rows", every, one_in=10)]
        found += [Way("sums", every, partitions) for partitions in (1, 8, 64)]
        found.append(Way("sums", every, 64, merge="batch"))
        if every > 100:
            found.append(Way("sums", every, 8, merge="batch", slice=100))
        found.append(Way("sums", every, 64, later=1))
    return found


class Stream(NamedTuple):
    """A recorded stream; which labels may be learned, and which rows are scored."""

    name: str
    P: np.ndarray
    y: np.ndarray
    learned: np.ndarray
    scored: np.ndarray
    begun: dict[bool, bytes]
    """Snapshots to begin with, without and with fit."""


def read(folders: list[str]) -> Iterator[Stream]:
    for file in sorted(file for folder in folders for file in Path(folder).glob("*.npz")):
        with np.load(file) as held:
            data = dict(held)
        if "val_probs" not in data:
            with np.load(file.with_name(file.stem.rsplit("_", 1)[0] + ".npz")) as held:
                data |= {name: held[name] for name in ("val_probs", "val_labels")}
        for name in ("probs", "val_probs"):
            data[name] = np.float64(data[name]) / np.float64(data[name]).sum(1, keepdims=True)
        P = data["probs"]
        source = np.unique(P, axis=0, return_inverse=True)[1].ravel()
        learned = scored = np.ones(len(P), bool)
        if source.max() + 1 < 0.95 * len(P):
            half = np.random.default_rng(7).random(source.max() + 1) < 0.5
            learned, scored = half[source], ~half[source]
        corrector = Corrector(P.shape[1], train_counts=data["train_counts"])
        begun = {False: corrector.to_bytes()}
        corrector.fit(data["val_probs"], data["val_labels"].astype(np.int64))
        begun[True] = corrector.to_bytes()
        yield Stream(file.stem, P, data["labels"].astype(np.int64), learned, scored, begun)


def at_once(
    corrector: Corrector, P: np.ndarray, y: np.ndarray, given: np.ndarray, delay: int
) -> np.ndarray:
    """Every row as one corrector sends it, which learns each label as it comes."""
    out, receipts = np.empty_like(P), np.empty((len(P), width(corrector)), np.float32)
    for t in range(len(P)):
        out[t], receipts[t] = corrector.process_one(P[t], receipt=True)
        if t >= delay and given[t - delay]:
            corrector.learn_one(P[t - delay], y[t - delay], receipt=receipts[t - delay])
    return out


def width(corrector: Corrector) -> int:
    """Numbers of a receipt."""
    return corrector.n_sent * len(corrector.classes) + 1


def without_order(corrector: Corrector, found: list[np.ndarray]) -> np.ndarray:
    """Sums of rows that weigh the same, of sums without decay (as `stream_can.spark.sums`)."""
    total = np.sum(found, axis=0)
    add_up(RowSums(corrector).parts, total, 2.0 ** (-1 / corrector.settings["half_life"]))
    return total


def by_states(
    learner: Corrector, P: np.ndarray, y: np.ndarray, given: np.ndarray, delay: int, way: Way
) -> np.ndarray:
    """Every row as the worker of its partition sends it; `learner` learns."""
    out, receipts = np.empty_like(P), np.empty((len(P), width(learner)), np.float32)
    states = [learner.to_bytes()] * 2
    for begin in range(0, len(P), way.every):
        end = min(begin + way.every, len(P))
        behind = delay + way.later * way.every
        batch = way.merge == "batch"
        state = Corrector.from_bytes(states[0], **({"half_life": np.inf} if batch else {}))
        if way.learns == "rows":
            out[begin:end], receipts[begin:end] = state.correct_many(P[begin:end], receipt=True)
            for t in range(begin, end):
                if t % way.one_in == 0:
                    learner.observe_one(P[t])
                if t >= behind and given[t - behind]:
                    learner.learn_one(P[t - behind], y[t - behind], receipt=receipts[t - behind])
        else:
            worker = RowSums(state)
            for first in range(begin, end, way.slice or way.every):
                last, found = min(end, first + (way.slice or way.every)), []
                for partition in range(way.partitions):
                    rows = np.arange(first + (partition - first) % way.partitions, last,
                                     way.partitions)  # fmt: skip
                    if len(rows):
                        found.append(worker.zeros())
                        answer = worker.correct(P[rows], found[-1], receipt=True)
                        out[rows], receipts[rows] = answer
                for sums in [without_order(learner, found)] if batch else found:
                    RowSums(learner).add(sums)
                late = np.arange(max(0, first - behind), max(0, last - behind))
                late = late[given[late]]
                if len(late):
                    learner.learn_many(P[late], y[late], receipts=receipts[late])
        states = [states[1], learner.to_bytes()]
    return out


def changes(stream: Stream, way: Way, rate: float, fit: bool, delay: int) -> tuple[float, float]:
    """Change of accuracy in points and of log loss in nats."""
    P, y = stream.P, stream.y
    given = stream.learned & (np.random.default_rng(0).random(len(y)) < rate)
    learner = Corrector.from_bytes(stream.begun[fit])
    if way.learns == "one":
        out = at_once(learner, P, y, given, delay)
    else:
        out = by_states(learner, P, y, given, delay, way)
    at = np.arange(len(y)), y
    hits = (out.argmax(1) == y) * 1.0 - (P.argmax(1) == y)
    losses = np.log(np.maximum(P[at], 1e-6)) - np.log(np.maximum(out[at], 1e-6))
    return 100 * hits[stream.scored].mean(), losses[stream.scored].mean()


def show(condition: str, found: dict[Way, np.ndarray], names: list[str], each: bool) -> None:
    """A table of a condition; of each way the changes of each stream, (streams, 2)."""
    print(f"\n### {condition}, {len(names)} streams\n")
    print("| way | points: mean / worst | nats: mean / worst | less rows: points mean / worst"
          " | nats mean / worst |")  # fmt: skip
    print("|---|--:|--:|--:|--:|")
    for way, values in found.items():
        cells = [f"{np.mean(values[:, 0]):+.2f} / {min(values[:, 0]):+.2f}"]
        cells.append(f"{np.mean(values[:, 1]):+.4f} / {max(values[:, 1]):+.4f}")
        if way.learns == "sums" or way.one_in > 1:
            less = values - found[Way("rows", way.every)]
            cells.append(f"{np.mean(less[:, 0]):+.3f} / {min(less[:, 0]):+.2f}")
            cells.append(f"{np.mean(less[:, 1]):+.4f} / {max(less[:, 1]):+.4f}")
        else:
            cells += ["", ""]
        print(f"| {way} | {' | '.join(cells)} |")
    if not each:
        return
    few = [way for way in found if not way.later and way.one_in == 1]
    print(f"\n| points | {' | '.join(map(str, few))} |\n|---|{'--:|' * len(few)}")
    for i, name in enumerate(names):
        print(f"| {name} | {' | '.join(f'{found[way][i, 0]:+.2f}' for way in few)} |")


def main() -> None:
    asked: Any = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("folders", nargs="+", metavar="FOLDER")
    asked.add_argument("--streams", action="store_true", help="each stream too")
    asked.add_argument("--only", default="", help="streams whose names have this in them")
    asked.add_argument("--every", type=int, nargs="+", default=[100, 1000], help="rows of a commit")
    asked.add_argument("--delay", type=int, default=100, help="rows by which labels are late")
    asked = asked.parse_args()
    streams = [one for one in read(asked.folders) if asked.only in one.name]
    for condition, (rate, fit) in CONDITIONS.items():
        begin = time.perf_counter()
        found = {}
        for way in ways(asked.every):
            if way.later and not rate:
                continue
            found[way] = np.array([changes(one, way, rate, fit, asked.delay) for one in streams])
        show(condition, found, [one.name for one in streams], asked.streams)
        print(f"\n({time.perf_counter() - begin:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
