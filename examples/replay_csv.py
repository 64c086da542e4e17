"""Would it help my stream? Replay a csv of recorded predictions from Python.

The same from a shell:

    stream-can replay stream.csv --probs p_ --label-delay 500 --report report.html

Run it: `python examples/replay_csv.py` (needs the extra report).
"""

import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from stream_can import Corrector
from stream_can.replay import Recording, replay
from stream_can.replay.verdict import verdict
from stream_can.report import write_report

# What a service might have logged: a column for each class, and the label once it was known.
rng = np.random.default_rng(0)
truth = rng.choice(3, 8000, p=[0.2, 0.3, 0.5])
evidence = rng.normal(size=(8000, 3)) + 1.5 * np.eye(3)[truth]
P = np.exp(1.8 * evidence) / np.exp(1.8 * evidence).sum(axis=1, keepdims=True)
log = pl.DataFrame({f"p_{name}": P[:, i] for i, name in enumerate(["cat", "dog", "eel"])})
log = log.with_columns(label=pl.Series(["cat", "dog", "eel"])[truth])

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "stream.csv")
    log.write_csv(file)

    recording = Recording(file, probs="p_")
    result = replay(recording, Corrector(recording.classes), label_delay=500)

    print(verdict(result))
    write_report(result, "stream.csv", Path(folder, "report.html"))
    Path(folder, "state.bin").write_bytes(result.corrector.to_bytes())  # for the deployment
