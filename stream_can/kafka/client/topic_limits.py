"""Limits of a topic's configuration, so that a record it would always refuse is never sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from stream_can.kafka.client.options import MESSAGE_BYTES
from stream_can.messages.records import Output

OVERHEAD_BYTES = 1_024
"""Upper bound of a single-record batch's size beside key, value and headers."""
EVER = 1 << 62
SKEW = 60_000
"""Tolerance in milliseconds for clock differences and delays in sending."""


class TopicLimits(NamedTuple):
    """Limits of one topic."""

    max_bytes: int = MESSAGE_BYTES
    compacted: bool = False
    before_ms: int = EVER
    after_ms: int = EVER
    """Maximum distance of a timestamp into the past and into the future."""

    @classmethod
    def from_configs(cls, configs: Mapping[str, Mapping[str, Any]]) -> Self:
        """Read the result of ``describe_configs``; without it timestamps are unlimited."""

        def number(name: str, otherwise: int) -> int:
            return int(configs.get(name, {}).get("value") or otherwise)

        difference_ms = number("message.timestamp.difference.max.ms", EVER)  # brokers before 3.6
        past_ms = number("message.timestamp.before.max.ms", difference_ms)
        future_ms = number("message.timestamp.after.max.ms", difference_ms)
        if configs.get("message.timestamp.type", {}).get("value") == "LogAppendTime":
            past_ms = future_ms = EVER
        policy = configs.get("cleanup.policy", {}).get("value") or ""
        return cls(
            number("max.message.bytes", MESSAGE_BYTES), "compact" in policy, past_ms, future_ms
        )

    def times(self, now: int) -> tuple[int, int]:
        """The earliest and latest timestamp, in ms, that the topic certainly accepts now."""
        past_ms, future_ms = (b - min(SKEW, b // 10) for b in (self.before_ms, self.after_ms))
        return now - past_ms, now + future_ms

    def refuses(self, out: Output, now: int) -> str | None:
        """Why the topic would refuse a record; None where it would not."""
        first, last = self.times(now)
        if self.compacted and out.key is None:
            return "no key, and the topic is compacted"
        if out.timestamp > last:
            ahead = f"{(out.timestamp - now) / 1000:.0f} s ahead"
            bound = f"message.timestamp.after.max.ms={self.after_ms}"
            return f"its timestamp, {out.timestamp}, is {ahead}, and the topic has {bound}"
        if 0 <= out.timestamp < first:
            age = f"{(now - out.timestamp) / 1000:.0f} s old"
            bound = f"message.timestamp.before.max.ms={self.before_ms}"
            return f"its timestamp, {out.timestamp}, is {age}, and the topic has {bound}"
        if (size := weight(out)) > self.max_bytes:
            return f"it takes {size} bytes, and the topic has max.message.bytes={self.max_bytes}"
        return None


def weight(out: Output) -> int:
    """Upper bound of a record's size in a batch of its own."""
    size = len(out.key or b"") + len(out.value or b"") + OVERHEAD_BYTES
    return size + sum(4 * len(name) + len(value or b"") + 10 for name, value in out.headers)
