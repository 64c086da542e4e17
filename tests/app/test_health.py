"""Whether brokers are away, by the calls that fail."""

from __future__ import annotations

import pytest

from stream_can.app import health as health_module
from stream_can.app.health import Health
from stream_can.app.port import _readiness

pytestmark = pytest.mark.fast


def test_brokers_are_away_where_failures_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though calls between them succeed; one failure, or two far apart, are none."""
    now = [100.0]
    monkeypatch.setattr(health_module.time, "monotonic", lambda: now[0])
    health = Health(120)
    health.ready = True
    assert not health.away
    assert health.missed() == 0
    now[0] += 9
    assert not health.away
    now[0] += 2
    assert health.missed() == health.away == 11
    assert _readiness(health) == "no broker has answered for 11 s"
    now[0] += 31
    assert (health.away, _readiness(health)) == (0, "ready")
    assert health.missed() == 0
    assert not health.away
