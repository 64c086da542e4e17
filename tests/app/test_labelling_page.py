"""What the page to give labels on shows of a request."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from stream_can.app.labelling.request_message import RequestMessage
from stream_can.app.labelling.requests import Pending
from stream_can.app.labelling.shown_request import shown

pytestmark = pytest.mark.fast


def test_what_the_classifier_says_is_apart() -> None:
    """Whoever sees it answers as it does."""
    content = {
        "id": 7, "text": "fraud", "amount": 12.5, "passenger_class": "economy", "stopped": 3,
        "topic": 4, "class": "economy",
    }  # fmt: skip
    says = {
        "prediction": "fraud", "pred_label": "fine", "score": 0.93, "top1": "fraud",
        "model_confidence": 0.5, "class_probabilities": {"fraud": 0.5}, "classId": 1,
    }  # fmt: skip
    message = content | says | {"probs": [0.5, 0.5], "probs_raw": [0.4, 0.6]}
    asked = RequestMessage(
        "7", "margin", 5, [0.5, 0.5], [0.4, 0.6], message=msgspec.Raw(json.dumps(message).encode())
    )
    pending: Any = SimpleNamespace(
        classes=["fraud", "fine"], probs_path=["probs"], raw_path=["probs_raw"]
    )
    found = json.loads(shown(Pending(0, 1, None, asked), pending))
    assert found["message"] == content
    assert found["said"] == says
