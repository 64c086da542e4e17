"""StreamCalibrator: a scikit-learn classifier with corrected probabilities that keeps learning."""

from stream_can.errors import StreamCANError

try:
    from stream_can.sklearn.calibrator import StreamCalibrator
except ImportError as error:
    if (error.name or "").startswith("stream_can"):
        raise
    raise StreamCANError(
        "the estimator needs scikit-learn 1.8 or newer: pip install 'stream_can[compare]'"
    ) from None

__all__ = ["StreamCalibrator"]
