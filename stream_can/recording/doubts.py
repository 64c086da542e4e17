"""Doubts: what about a recording looks as if its columns, times or ids were joined wrongly."""

from __future__ import annotations

from typing import Any

MANY_EARLY = 0.05
"""Share of labels known before their prediction above which times are doubted."""
FEW_LEARNED = 0.01
"""Share of labels that arrive before the end below which times are doubted."""
FEWEST_LABELS = 100
"""Labels from which on that is doubted."""
MANY_CHANGED = 0.05
"""Share of labels that contradict an earlier one above which ids are doubted."""
MANY_UNJOINED = 0.5
"""Share of labels without a prediction from which on ids are doubted."""


def doubts_of_recording(recording: Any, learned: int, coming: int) -> list[str]:
    """Questions about the times and ids of a recording that was read to its end; empty without
    any.

    Parameters
    ----------
    learned, coming
        Number of labels that were learned before its end, and of those that arrive at all.
    """
    doubts = []
    times, lines = recording.times, recording.label_lines
    if times.early > MANY_EARLY * times.labels:
        doubts.append(
            f"{times.early:,} of {times.labels:,} labels were known before their prediction was"
            f" made ({times.first_early}). Are these seconds and milliseconds, or is a time zone"
            " in one column alone? Give both columns in one unit and zone."
        )
    elif times.first_label and coming >= FEWEST_LABELS and learned < FEW_LEARNED * coming:
        arrived = f"only {learned:,} of {coming:,} labels" if learned else "no label"
        doubts.append(
            f"{arrived} arrived before the recording ended ({times.first_label}). Are these seconds"
            " and milliseconds? Give both columns in one unit. If they are right, replay a longer"
            " recording."
        )
    if lines.unjoined > MANY_UNJOINED * lines.n:
        doubts.append(
            f"{lines.unjoined:,} of {lines.n:,} lines with a label name no prediction before them"
            f" ({lines.first_unjoined}; the first prediction has the id {lines.first_id!r})."
            " Is it the right field? --id FIELD names another, and labels stand behind their"
            " predictions."
        )
    if recording.changed_labels > MANY_CHANGED * lines.n:
        doubts.append(
            f"{recording.changed_labels:,} of {lines.n:,} lines with a label contradict an earlier"
            f" one of the same prediction ({recording.first_changed}); the first counts. Does the"
            " id name a prediction, or something that has several? --id FIELD names another."
        )
    return doubts
