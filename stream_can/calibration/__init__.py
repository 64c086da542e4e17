"""Calibration methods fitted offline to validation rows, as compared by Guo et al."""

from stream_can.errors import StreamCANError

try:
    import scipy  # noqa: F401
    import sklearn  # noqa: F401
except ImportError as error:
    raise StreamCANError(
        f"calibration uses {error.name}: pip install 'stream_can[compare]'"
    ) from None

from stream_can.calibration.binning import BBQ, HistogramBinning
from stream_can.calibration.method import Calibration
from stream_can.calibration.regression import IsotonicCalibration, PlattScaling
from stream_can.calibration.scaling import MatrixScaling, TemperatureScaling, VectorScaling
from stream_can.calibration.structured import StructuredMatrixScaling, StructuredVectorScaling

__all__ = [
    "BBQ",
    "Calibration",
    "HistogramBinning",
    "IsotonicCalibration",
    "MatrixScaling",
    "PlattScaling",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "TemperatureScaling",
    "VectorScaling",
]
