"""Rows of groups as single values, Arrow streams: what Spark takes for each value is paid once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa


def pack_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make the rows of each group one value: an Arrow stream."""
    for batch in batches:
        groups = batch.column(batch.num_columns - 1).to_numpy()
        places = np.argsort(groups, kind="stable")
        group_ids, starts = np.unique(groups[places], return_index=True)
        batch = batch.take(pa.array(places))
        parts = [
            stream_of(batch.slice(start, end - start))
            for start, end in zip(starts, [*starts[1:], batch.num_rows], strict=True)
        ]
        yield pa.RecordBatch.from_arrays([pa.array(group_ids), pa.array(parts)], ["group", "rows"])


def unpack_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the rows of values."""
    for batch in batches:
        if batch.num_rows:
            yield rows_of(batch.column(0).to_pylist())


def stream_of(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def rows_of(values: Iterable[bytes]) -> pa.RecordBatch:
    tables = [pa.ipc.open_stream(value).read_all() for value in values]
    return pa.concat_tables(tables).combine_chunks().to_batches()[0]
