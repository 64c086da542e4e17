"""Topics of labels: what settings each may have of its own, and what they say of its messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from stream_can.app.model_settings import Name
from stream_can.kafka.format_settings import Format
from stream_can.messages.fields import KEY, Fields

__all__ = ["OF_LABELS", "LabelTopic", "check_map", "fields_of_labels"]

OF_LABELS = (
    "label", "label_id", "label_time", "label_map", "labels_format", "protobuf_label_message",
)  # fmt: skip
"""Settings that a topic of labels may have of its own."""


class LabelTopic(
    msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True, omit_defaults=True
):
    """Settings of a further topic of labels, `OF_LABELS`: ``[label_topics.TOPIC]``."""

    label: str | None = None
    label_id: str | None = None
    label_time: str | None = None
    label_map: dict[str, Name] | None = None
    labels_format: Format | None = None
    protobuf_label_message: str | None = None


def fields_of_labels(
    fields: Fields,
    label: str,
    id: str | None,
    time: str | None,
    label_map: dict[str, Name],
    *,
    where: str,
) -> Fields:
    """Fields of labels, given those of predictions, and a topic's settings; an id that is not set
    is that of the prediction. ValueError where they are inconsistent; its text begins with
    ``where``."""
    id = fields.id if id is None else None if id == KEY else id
    label = fields.label if label == Fields().label else label
    try:
        return msgspec.structs.replace(fields, id=id, label=label, time=time, label_map=label_map)
    except ValueError as error:
        raise ValueError(f"{where}{error}") from None


def check_map(
    label_map: Mapping[str, Name],
    class_names: Collection[str],
    *,
    closed: bool,
    answers: bool,
) -> None:
    """Raise ValueError where a word stands for no class, or an answer to a label request, which is
    a class, would be read as another one.

    Parameters
    ----------
    class_names
        Names of the declared classes, if any.
    closed
        Whether there are no others.
    answers
        Whether answers to label requests come in the topic.
    """
    for text, name in label_map.items():
        if class_names and closed and str(name) not in (*class_names, ""):
            raise ValueError(f"label_map: {text!r} stands for {name!r}, which is no class")
    wrong = [text for text in class_names if str(label_map.get(text, text)) != text]
    if wrong and answers:
        raise ValueError(
            f"label_map: {wrong[0]!r} is a class itself, and answers to label requests name it"
        )
