"""A frozen corrector as an ONNX model, for the extra ``onnx``."""

from stream_can.onnx.export import to_onnx

__all__ = ["to_onnx"]
