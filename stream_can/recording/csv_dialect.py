"""The dialect of a csv file, judged by its first lines."""

from __future__ import annotations

import re
from typing import Any


def dialect_of(start: bytes) -> dict[str, Any]:
    """Options of polars for a CSV file, by its first lines: the separator, decimal commas, and
    lines before the header."""
    lines = start.decode(errors="replace").removeprefix("\ufeff").splitlines() or [""]
    options: dict[str, Any] = {}
    if declared := re.fullmatch(r"sep=(.)", lines[0]):  # as Excel writes it
        options["skip_lines"] = 1
        lines = lines[1:] or [""]
    plain = [re.sub(r'"[^"]*"', "", line) for line in lines]
    uncommented = [line for line in plain if not line.startswith("#")] or [""]
    header = uncommented[0]
    separator = declared[1] if declared else max(",;\t|", key=header.count)
    if plain[0].startswith("#") and plain[0].count(separator) != header.count(separator):
        options["comment_prefix"] = "#"
    else:
        uncommented = plain
    second = uncommented[1] if len(uncommented) > 1 else ""
    comma = separator == ";" and bool(re.search(r"(^|;)-?\d*,\d+( ?%)?(;|\r?$)", second))
    return options | {"separator": separator, "decimal_comma": comma}
