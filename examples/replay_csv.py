"""Would it help my stream? Replay two recordings of predictions from Python.

The classes are drawn, and so is what the classifier sees of them. In one recording the classifier
is as sure as it should be and the class mix stays; in the other it is too sure and the mix moves.
The same from a shell:

    stream-can replay drifting.csv --probs p_ --label-delay 500 --report report.html

Run it: `python examples/replay_csv.py` (needs the extra report).
"""

import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from stream_can import Corrector
from stream_can.replay import Recording, replay, verdict
from stream_can.report import write_report

N, NAMES = 20_000, ["cat", "dog", "eel"]
rng = np.random.default_rng(0)


def recorded(mix, sureness):
    """What a service might have logged: a column for each class, and the label once it was known.

    ``mix`` are the shares of the classes, shape (N, 3). The classifier was trained where all three
    are as frequent; with a sureness of 1 its probabilities are then right.
    """
    truth = (rng.random((N, 1)) < np.cumsum(mix, axis=1)).argmax(axis=1)
    seen = rng.normal(size=(N, 3)) + 1.5 * np.eye(3)[truth]
    P = np.exp(1.5 * sureness * seen)
    P /= P.sum(axis=1, keepdims=True)
    log = pl.DataFrame({f"p_{name}": P[:, i] for i, name in enumerate(NAMES)})
    return log.with_columns(label=pl.Series(NAMES)[truth])


turn = np.arange(N)[:, None] / N - np.arange(3) / 3
moving = 0.1 + 0.7 * (1 + np.cos(2 * np.pi * turn)) / 3

with tempfile.TemporaryDirectory() as folder:
    for name, log in (
        ("drifting", recorded(moving, sureness=1.8)),
        ("still", recorded(np.full((N, 3), 1 / 3), sureness=1)),
    ):
        file = Path(folder, f"{name}.csv")
        log.write_csv(file)

        recording = Recording(file, probs="p_")
        result = replay(recording, Corrector(recording.classes), label_delay=500)

        print(f"{name}: {verdict(result)}\n")
        write_report(result, file.name, Path(folder, f"{name}.html"))
        Path(folder, "state.bin").write_bytes(result.corrector.to_bytes())  # for the deployment
