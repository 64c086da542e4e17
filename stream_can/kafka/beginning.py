"""Whose a learned log is and under which settings: compared, begun, begun anew, changed.

What is written here is an entry in a transaction of its own. All who read the log fold it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from stream_can.errors import SnapshotMismatch
from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import DeniedError
from stream_can.kafka.settings import Settings
from stream_can.kafka.start import TaskStart
from stream_can.stream import entry
from stream_can.stream.replica import Replica
from stream_can.stream.terms import Terms, digest

log = logging.getLogger(__name__)


class Beginning:
    """What one process has to say of the log before it learns there.

    Parameters
    ----------
    settings, client, start
        The topics and rules, the brokers, and the corrector to start from.
    """

    def __init__(self, settings: Settings, client: Client, start: TaskStart) -> None:
        self.settings, self.client, self.start = settings, client, start
        self.topic = settings.learned_topic
        self._told: set[int] = set()

    # -- who learns there ------------------------------------------------------------------------

    def differences(self, replica: Replica) -> list[str]:
        """What the log says otherwise than our settings, in words."""
        theirs = replica.terms.identity
        found = [] if theirs is None else theirs.differs(self.start.identity)
        try:
            self.start.require_fits(replica.corrector)
        except SnapshotMismatch as error:
            found.append(str(error))
        return found

    def refusal(self, number: int, differences: list[str], replica: Replica) -> DeniedError:
        """Why we cannot learn in that log, and both ways out."""
        what = "keeps" if self._fits(replica) else "forgets"
        return DeniedError(
            f"partition {number} of {self.topic!r} is the log of another application:"
            f" {'; '.join(differences)}. Take a new application_id, or begin anew here with"
            f" --reset-state, which {what} what was learned"
        )

    def corrector_for(self, replica: Replica) -> bytes:
        """What to begin anew with: what was learned, where it fits our settings."""
        return replica.corrector.to_bytes() if self._fits(replica) else self.start.snapshot

    def _fits(self, replica: Replica) -> bool:
        try:
            self.start.require_fits(replica.corrector)
        except SnapshotMismatch:
            return False
        return True

    def require_alone(self, number: int) -> None:
        """Refuse to begin the log anew under workers that have not been told to.

        Raises
        ------
        DeniedError
            There are some, and ``for_everyone`` is not set.
        """
        others = self.client.others()
        if others and not self.settings.for_everyone:
            raise DeniedError(
                f"--reset-state would begin partition {number} of {self.topic!r} anew under"
                f" {', '.join(others)}: stop them (one that was killed is counted until its session"
                " times out), or say --for-everyone: they then restore, or end where their settings"
                " do not fit"
            )

    def kept_lanes(self, replica: Replica) -> list[bytes]:
        """The entries by which lanes go on in a log that begins anew with our identity."""
        if self.start.fleet is None:
            return []
        mark = self.start.identity.mark
        return [
            entry.keep(mark, name, lane.corrector.to_bytes())
            for name, lane in replica.lanes.items()
        ]

    def begin(
        self, number: int, corrector: bytes, *, reset: bool, lanes: Sequence[bytes] = ()
    ) -> None:
        """Let a log start, or begin anew, with a corrector and our identity; ``lanes`` are the
        entries of those that go on."""
        fleet, name = self.start.fleet, self.settings.name
        data = entry.start(
            corrector, reset=reset, identity=self.start.identity, by=name, fleet=fleet
        )
        self._send(number, data, *lanes)

    # -- under which settings --------------------------------------------------------------------

    def tell_settings(self, number: int, replica: Replica) -> None:
        """Once: change the log's settings to ours; see :func:`changed_settings`."""
        if number in self._told:
            return
        self._told.add(number)
        given, by = self.settings.settings_generation, self.settings.name
        data = changed_settings(replica, self.start, given, by)
        if data is not None:
            self._send(number, data)

    def _send(self, number: int, *entries: bytes) -> None:
        for data in entries:
            self.client.transaction.send(self.topic, number, None, data)
        self.client.transaction.commit({}, None)


def changed_settings(
    replica: Replica, start: TaskStart, generation: int | None, by: str
) -> bytes | None:
    """The entry that changes a log's settings to ours, unless ours are those that others replaced.

    Settings that the log never held are those of a new deployment. Those that it held before are of
    a process that was not deployed anew, and it follows the log, with a warning.
    """
    have, want, terms = replica.settings, start.settings, replica.terms
    changed = {name: value for name, value in want.items() if have[name] != value}
    if not changed and start.fleet == terms.fleet:
        return None
    new = terms.generation + 1 if digest(want, start.fleet) not in terms.held else 0
    if (generation or new) > terms.generation:
        return entry.settings(changed, generation or new, app=terms.app, by=by, fleet=start.fleet)
    log.warning(
        "settings of the corrector: %s, as the log says; ours were replaced there. To bring"
        " them back for every process: settings_generation = %d",
        "; ".join(f"{n} is {have[n]!r} and not {v!r}" for n, v in changed.items())
        or "max_lanes or [models] are others",
        terms.generation + 1,
    )
    return None


def news(
    before: tuple[Terms, Mapping[str, Any]], after: tuple[Terms, Mapping[str, Any]]
) -> tuple[int, str] | None:
    """What an entry has changed for everybody, and how loud that is to be said.

    Parameters
    ----------
    before, after
        The terms and the corrector's settings, none where the log had not started.
    """
    (old, had), (new, has) = before, after
    by = f", by {new.by}" if new.by else ""
    if new.epoch != old.epoch:
        return logging.WARNING, f"the learned log begins anew{by}"
    if had and (had != has or new.fleet != old.fleet):
        changed = (
            "; ".join(
                f"{name} {had[name]!r} -> {value!r}"
                for name, value in has.items()
                if had[name] != value
            )
            or "max_lanes or [models]"
        )
        return logging.INFO, f"settings of the corrector change for every process{by}: {changed}"
    if new.app != old.app and had:
        return logging.INFO, f"the learned log says from here on whose it is{by}"
    return None
