"""Files of recorded predictions and labels, chunk by chunk, every row checked."""

from stream_can.recording.recording import Chunk, Recording, from_arrays
from stream_can.recording.table import InvalidRecording

__all__ = ["Chunk", "InvalidRecording", "Recording", "from_arrays"]
