"""Streams of tenants as files, for `correct_by_key`."""

import numpy as np

from stream_can import Corrector

CLASSES = ["a", "b", "c"]
SCHEMA = "tenant string, id long, time double, probs array<double>, label string, batch int"


def events(n, seed):
    """Predictions and, up to two batches later, their labels, of two tenants."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet([0.6, 0.6, 0.6], n)
    ys = [CLASSES[y] for y in P[:, ::-1].argmax(1)]
    found = []
    for i, (p, y) in enumerate(zip(P.tolist(), ys, strict=True)):
        time, tenant = float(i // 2), "ab"[i % 2]
        found.append((tenant, i, time, p, None, i * 4 // n))
        if i % 3:
            late = i + n // 4
            found.append((tenant, i, float(late // 2), None if i % 7 == 0 else p, y, late * 4 // n))
    return found


def folded(rows, start):
    """{id: corrected} and {tenant: its corrector} of one process that takes batch after batch."""
    expected, correctors = {}, {}
    for tenant, i, _, p, label, _ in sorted(
        rows,
        key=lambda row: (
            row[5], row[2], row[4] is not None, str(row[4]), np.array(row[3] or []).tobytes(),
        ),
    ):  # fmt: skip
        if tenant not in correctors:
            correctors[tenant] = Corrector.from_bytes(start.to_bytes())
        if label is None:
            expected[i] = correctors[tenant].process_one(p).tolist()
        else:
            correctors[tenant].learn_one(p, label)
    return expected, correctors


def write(spark, rows, folder):
    """A file for each batch, oldest first."""
    for batch in range(1 + max(row[-1] for row in rows)):
        part = [row for row in rows if row[-1] == batch]
        df = spark.createDataFrame(part[::-1], SCHEMA).coalesce(1)
        df.write.mode("append").parquet(str(folder))


def stream(spark, folder):
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return source.parquet(str(folder))


def run(corrected, folder, out):
    query = corrected.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    query.format("parquet").option("path", str(out)).trigger(
        availableNow=True
    ).start().awaitTermination()
