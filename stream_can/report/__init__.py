"""A replay as a page."""

from stream_can.report.page import report, write_report

__all__ = ["report", "write_report"]
