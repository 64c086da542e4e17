"""A replay as a page."""

from stream_can.report.page import NoLabels, report, write_report

__all__ = ["NoLabels", "report", "write_report"]
