"""The corrector on Spark DataFrames and in Structured Streaming."""

from stream_can.spark.application import send
from stream_can.spark.by_key import correct_by_key
from stream_can.spark.decisions import decide
from stream_can.spark.fixed import correct
from stream_can.spark.learning import Learning

__all__ = ["Learning", "correct", "correct_by_key", "decide", "send"]
