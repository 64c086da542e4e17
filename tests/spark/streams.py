"""A stream of predictions and labels as files, and what an offline fold makes of it."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stream_can import Corrector
from stream_can.row_sums import RowSums
from stream_can.spark.sums import of_batch, without_decay

CLASSES = ["a", "b", "c", "d"]
SCHEMA = "id long, time double, probs array<double>, label string"
FILES = 10
PER_BATCH = 2


def start(fitted=True):
    """A corrector to begin with; fitted, so that the class mix is estimated too."""
    found = Corrector(CLASSES, half_life=300, sets=0.8)
    if fitted:
        rng = np.random.default_rng(7)
        P = rng.dirichlet(np.full(4, 0.7), 1000)
        found.fit(P, np.array(CLASSES)[P[:, ::-1].argmax(1)].tolist())
    return found


def label(p):
    """What a row with these probabilities turns out to be: nothing that the classifier says."""
    return CLASSES[int(np.argmax(p[::-1]))]


def write(folder, seed=0, n=200):
    """Files in the order of their times, their rows in none: predictions, and labels of earlier."""
    rng = np.random.default_rng(seed)
    folder.mkdir()
    kinds = [pa.int64(), pa.float64(), pa.list_(pa.float64()), pa.string()]
    schema = pa.schema(list(zip(["id", "time", "probs", "label"], kinds, strict=True)))
    earlier = []
    for number in range(FILES):
        P = rng.dirichlet(np.full(4, 0.7), n)
        rows = [
            {"id": number * n + i, "time": float(number * n + i // 4), "probs": p, "label": None}
            for i, p in enumerate(P.tolist())
        ]
        labels = [
            row | {"label": label(row["probs"]), "time": row["time"] + 2 * n} for row in earlier
        ]
        labels = [row for row in labels if row["id"] % 3]
        labels = [row | {"probs": None} if row["id"] % 11 == 0 else row for row in labels]
        earlier = rows
        rows = rows + labels
        table = pa.Table.from_pylist([rows[i] for i in rng.permutation(len(rows))], schema)
        path = folder / f"{number:02}.parquet"
        pq.write_table(table, path)
        os.utime(path, (number, number))  # Spark takes the oldest first


def learn(corrector, before, p, y, weight=None):
    """A label without a receipt: judged by what the state before its batch makes of the row."""
    receipt = None
    if p is not None:
        _, (receipt,) = RowSums(before).correct([p], RowSums(before).zeros(), receipt=True)
    corrector.learn_one(p, y, receipt=receipt, weight=weight)


def offline(folder, corrector):
    """{batch: {id: (corrected, set)}} and {batch: the state behind it}, of one process without
    Spark."""
    outputs, states = {}, {}
    paths = sorted(folder.glob("*.parquet"))
    for batch in range(FILES // PER_BATCH):
        files = [pq.read_table(path) for path in paths[batch * PER_BATCH :][:PER_BATCH]]
        outputs[batch], sums = {}, []
        free = without_decay(corrector.to_bytes())
        for table in files:
            predictions = table.filter(pc.is_null(table["label"]))
            P = np.array(predictions["probs"].to_pylist())
            ids = predictions["id"].to_pylist()
            for i, p in zip(ids, P, strict=True):
                outputs[batch][i] = corrector.correct_one(p).tolist(), corrector.predict_set_one(p)
            sums.append(RowSums(free).zeros())
            RowSums(free).correct(P, sums[-1])
        before = Corrector.from_bytes(corrector.to_bytes())
        RowSums(corrector).add(of_batch(corrector, sums))
        rows = [row for table in files for row in table.to_pylist() if row["label"] is not None]
        for row in sorted(rows, key=lambda row: (row["time"], row["label"], row["probs"] or [])):
            learn(corrector, before, row["probs"], row["label"])
        states[batch] = corrector.to_bytes()
    return outputs, states
