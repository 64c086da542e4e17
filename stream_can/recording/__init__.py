"""Read files of recorded predictions and labels in chunks, checking every row."""

from stream_can.recording.arrays import from_arrays
from stream_can.recording.recording import Chunk, Recording
from stream_can.recording.several import MultiLabelChunk, MultiLabelRecording
from stream_can.recording.table import InvalidRecording

__all__ = [
    "Chunk",
    "InvalidRecording",
    "MultiLabelChunk",
    "MultiLabelRecording",
    "Recording",
    "from_arrays",
]
