"""Write a replay as an HTML page."""

from stream_can.errors import StreamCANError

try:
    import matplotlib  # noqa: F401
except ImportError:
    raise StreamCANError(
        "the report is drawn by matplotlib: pip install 'stream_can[report]'"
    ) from None

from stream_can.report.page import NoLabels, report, write_report

__all__ = ["NoLabels", "report", "write_report"]
