"""Correct JSON lines or Avro records from standard input to standard output."""

from stream_can.pipe.lines import Stop, read_lines
from stream_can.pipe.pipe_run import BadLine
from stream_can.pipe.run import pipe
from stream_can.pipe.statefile import StateInUse

__all__ = ["BadLine", "StateInUse", "Stop", "pipe", "read_lines"]
