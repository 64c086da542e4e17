"""Log formats for people and machines."""

from __future__ import annotations

import base64
import json
import logging
import time
from collections.abc import Iterable


class JsonLines(logging.Formatter):
    """One JSON object per line: time (UTC), level, logger, message and, if any, error."""

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
    """Removes secrets from another formatter's lines, however they are escaped.

    kafka-python logs a client's whole configuration at level DEBUG.
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
    """Log to standard error; of kafka-python only errors, since it reports every reconnect.

    Parameters
    ----------
    form
        "text" or "json".
    level
        Lowest level shown.
    secrets
        Texts to remove from every line.
    """
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(Redacted(JsonLines() if form == "json" else text, secrets))
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.getLogger("kafka").setLevel(logging.DEBUG if level == "DEBUG" else logging.CRITICAL)
    logging.captureWarnings(True)
