"""A loop over Kafka that answers each error of a step: again, from what is committed, or as a
new member of the group."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import Protocol

from stream_can.app.health import Health
from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import (
    ClientError,
    FencedError,
    NoRight,
    RebuildError,
    RetryError,
    within,
)
from stream_can.kafka.patience import Patience
from stream_can.kafka.schemas import RegistryAway
from stream_can.kafka.settings import Settings

__all__ = ["Loop", "Role"]

log = logging.getLogger(__name__)

CLOSE_SECONDS = 30.0
"""For closing all clients: each has a time-out of its own."""
EXPLAIN_SECONDS = 15.0
"""For asking what is behind an error, and between two such questions while no broker answers."""
EXPLAIN_TRIES, EXPLAIN_PAUSE = 3, 1.0
"""How often rights are asked for after a refusal: another broker may not have heard of it yet."""
STOP_SECONDS = 10.0
"""For the last commit after SIGTERM."""
STEP_MS = 100
"""Milliseconds that a step may wait for records."""


class Role(Protocol):
    """A role of a process: what it does with its topics."""

    client: Client
    committed: int
    """How much this process has committed, of all time."""

    def check(self) -> None:
        """Check topics, rights and sizes; make missing topics, where we may."""

    def step(self, wait_ms: int) -> None:
        """Do what there is to do, and wait at most so long for it."""

    def drop(self) -> None:
        """Forget what is not committed."""

    def commit(self) -> None:
        """Commit what was done since the last time, if anything."""

    def close(self) -> None:
        """Let go of all but the client."""


class Loop:
    """Runs a role until it is stopped.

    Parameters
    ----------
    role
        What is done.
    settings
        Of the application.
    health
        Told that it is alive, and whether it works.
    takes_turns
        Whether another process with its transactional id is no fault: one of several has it.
    """

    def __init__(
        self, role: Role, settings: Settings, health: Health, *, takes_turns: bool = False
    ) -> None:
        self.role, self.settings, self.health = role, settings, health
        self._takes_turns = takes_turns
        self.stopping = threading.Event()
        self.patience = Patience(
            settings.connect_seconds, settings.name, self.stopping, health.beat
        )
        self._explained = -EXPLAIN_SECONDS

    def stop(self) -> None:
        """End `run` after the records at hand. May be called from any thread."""
        self.stopping.set()

    def run(self) -> None:
        """Work until `stop`; then commit what is done and leave the group.

        Raises
        ------
        DeniedError, FencedError, RetryError, StreamCANError
            It cannot go on.
        """
        role, answered = self.role, True
        try:
            self.patience.until_answered(role.check)
            self.patience.until_joined(role.client.open, role.client.rejoin)
            self._work()
            self._last_commit()
        except NoRight:
            for _ in range(EXPLAIN_TRIES):
                self._explain()
                self.stopping.wait(EXPLAIN_PAUSE)
            raise
        except RetryError:
            answered = False
            if not self.stopping.is_set():
                raise
        finally:
            # Where no broker answers, nobody is there to hear that we leave.
            for close in (role.close, lambda: role.client.close(answered)):
                with contextlib.suppress(ClientError):
                    within(CLOSE_SECONDS if answered else 0.5, close)

    def _last_commit(self) -> None:
        try:
            within(STOP_SECONDS, self.role.commit)
        except ClientError as error:
            log.warning(
                "the last records were not committed, the next owner repeats them: %s", error
            )

    def _work(self) -> None:
        """Step until `stop`, and answer each of the errors that a step may raise.

        RetryError: nothing happened, step again. RebuildError: begin again. FencedError: join
        again. Whatever else is raised ends the loop.
        """
        role, away_since = self.role, None
        while not self.stopping.is_set():
            self.health.beat()
            try:
                role.step(STEP_MS)
                away_since = None
            except RegistryAway:  # which has waited; what was read is in no queue any more
                raise
            except RetryError as error:
                if away_since is None or time.monotonic() - self._explained > EXPLAIN_SECONDS:
                    self._explain()
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > self.settings.connect_seconds:
                    raise
                log.warning("%s; trying again", error)
                self.stopping.wait(0.2)
            except RebuildError as error:
                if error.__cause__ is not None:
                    self._explain()
                log.warning("%s; beginning again at what is committed", error)
                role.drop()
                self.patience.before_restore(error, role.committed)
                self.patience.until_joined(role.client.rebuild, role.client.rejoin)
            except FencedError as error:
                role.drop()
                if not self._takes_turns:
                    self.patience.note_fence(error)
                self.patience.until_joined(role.client.rejoin, role.client.rejoin)

    def _explain(self) -> None:
        """Raise DeniedError where a topic that is gone or a right that was revoked is behind an
        error, whose own words name another topic or none; topics are made where we may.
        """
        self.health.beat()
        for ask in (self.role.check, self.role.client.require_identity):
            with contextlib.suppress(RetryError):
                within(EXPLAIN_SECONDS, ask, otherwise=RetryError)
        self._explained = time.monotonic()
