"""Log lines for people or machines."""

from __future__ import annotations

import base64
import json
import logging
import time
from collections.abc import Iterable


class JsonLines(logging.Formatter):
    """One JSON object a line: time (UTC), level, logger, message and, where there is one, error."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class Redacted(logging.Formatter):
    """Another formatter's lines, without secrets, whoever puts them in and however escaped.

    kafka-python writes a client's whole configuration at the level DEBUG.
    """

    def __init__(self, inner: logging.Formatter, secrets: Iterable[str]) -> None:
        super().__init__()
        self._inner = inner
        plain = {
            form
            for secret in secrets
            for form in (
                secret,
                repr(secret)[1:-1],
                repr(secret.encode())[2:-1],
                json.dumps(secret)[1:-1],
                base64.b64encode(secret.encode()).decode(),
            )
        }
        forms = plain | {json.dumps(form, ensure_ascii=False)[1:-1] for form in plain}
        self._forms = sorted(forms, key=len, reverse=True)

    def format(self, record: logging.LogRecord) -> str:
        text = self._inner.format(record)
        for form in self._forms:
            text = text.replace(form, "***")
        return text


def set_up_logging(form: str, level: str, secrets: Iterable[str] = ()) -> None:
    """Log to standard error. kafka-python tells every reconnect; its errors alone are shown.

    Parameters
    ----------
    form
        "text" or "json".
    level
        The least to be shown.
    secrets
        What no line may hold.
    """
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(Redacted(JsonLines() if form == "json" else text, secrets))
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.getLogger("kafka").setLevel(logging.DEBUG if level == "DEBUG" else logging.CRITICAL)
    logging.captureWarnings(True)
