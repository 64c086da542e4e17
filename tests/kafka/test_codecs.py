"""Compressed records: read whatever the codec, written with the one that is set."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
from pathlib import Path

from tests.kafka.broker.broker import Broker
from tests.kafka.streams import STAMP, App, label, prediction, run_once, write_config
from tests.kafka.topics import produce
from tests.programs import PATIENCE

CODECS = ["gzip", "snappy", "lz4", "zstd"]


def fill(app: App, codec: str, partition: int, seed: int) -> None:
    rng = random.Random(seed)
    records = []
    for i in range(50):
        key, value, truth = prediction(rng, i)
        stamp = STAMP + seed * 1000 + i
        records.append((app.given["input"], partition, key, value, [("h", b"1")], stamp))
        records.append((app.given["labels"], partition, key, label(truth), [], stamp + 5))
    # In few batches: one that compressing makes no smaller is stored as it is.
    produce(app.servers, records, compression_type=codec, linger_ms=10_000)


def stored(broker: Broker, topic: str, partition: int) -> set[int]:
    """The codecs of a partition's batches of records, as numbers."""
    found = set()
    for segment in (broker.directory / "data" / f"{topic}-{partition}").glob("*.log"):
        data = segment.read_bytes()
        while len(data) > 61 and (size := struct.unpack_from(">i", data, 8)[0]):
            (attributes,) = struct.unpack_from(">h", data, 21)
            if not attributes & 0x20:  # the end of a transaction
                found.add(attributes & 7)
            data = data[12 + size :]
    return found


def test_each_codec_comes_in_and_goes_out(our_broker: Broker) -> None:
    app = App(our_broker.bootstrap_servers, partitions=len(CODECS))
    for seed, codec in enumerate(CODECS):
        for partition, read in enumerate(CODECS):
            fill(app, read, partition, seed)
        run_once(app, compression=codec)
        for partition in range(app.partitions):
            written = stored(our_broker, app.given["output"], partition)
            assert written == set(range(1, seed + 2))
    assert stored(our_broker, app.given["input"], 3) == {4}
    assert app.verify() == 50 * len(CODECS) ** 2


def test_a_codec_that_is_not_installed_is_named_by_check_and_by_run(
    broker: Broker, tmp_path: Path
) -> None:
    app = App(broker.bootstrap_servers)
    fill(app, "snappy", 1, 0)
    without = "import sys; sys.modules['snappy'] = None; "
    code = without + "from stream_can.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-W", "ignore", "-c", code, "run", write_config(app, tmp_path)]
    for more in (["--check"], []):
        done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 3, done.stderr
        assert "Libraries for snappy compression codec not found" in done.stderr
        assert "pip install 'stream_can[kafka]'" in done.stderr
