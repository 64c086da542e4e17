"""Loop: run a role over Kafka and recover from errors: retry, resume at the committed offsets, or
rejoin the group."""

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
    MadeAgain,
    NoRight,
    RebuildError,
    RetryError,
    within,
)
from stream_can.kafka.retry import RetryPolicy
from stream_can.kafka.schema_lookups import RegistryAway
from stream_can.kafka.settings import Settings

__all__ = ["Loop", "Role"]

log = logging.getLogger(__name__)

CLOSE_SECONDS = 30.0
"""Time limit in seconds for closing all clients; each has its own time-out too."""
EXPLAIN_SECONDS = 15.0
"""Time limit for finding the cause of an error, and pause between attempts while no broker
answers."""
EXPLAIN_TRIES, EXPLAIN_PAUSE = 3, 1.0
"""Interval of rights checks after a refusal: other brokers may not know of a change yet."""
STOP_SECONDS = 10.0
"""Time limit for the last commit after SIGTERM."""
TURN_SECONDS = 3.0
"""How long one of those that take turns leaves another alone that took over."""
STEP_MS = 100
"""Maximum milliseconds that a step waits for records."""


class Role(Protocol):
    """The task of a process."""

    client: Client

    @property
    def committed(self) -> int:
        """Number of records committed by this process, or of states."""

    def check(self) -> None:
        """Check topics, rights and sizes; create missing topics where allowed."""

    def step(self, wait_ms: int) -> None:
        """Do one round of work; wait at most this long for records."""

    def drop(self) -> None:
        """Drop uncommitted work."""

    def commit(self) -> None:
        """Commit the open work, if any."""

    def close(self) -> None:
        """Close everything but the client."""


class Loop:
    """Runs a role until it is stopped.

    Parameters
    ----------
    role
        The task.
    settings
        The application's settings.
    health
        Receives liveness and readiness.
    takes_turns
        Whether being fenced is normal: the processes that learn take turns.
    """

    def __init__(
        self, role: Role, settings: Settings, health: Health, *, takes_turns: bool = False
    ) -> None:
        self.role, self.settings, self.health = role, settings, health
        self._takes_turns = takes_turns
        self.stopping = threading.Event()
        self.patience = RetryPolicy(
            settings.connect_seconds, settings.name, self.stopping, health.beat
        )
        self._explained = -EXPLAIN_SECONDS

    def stop(self) -> None:
        """End `run` after the current records. May be called from any thread."""
        self.stopping.set()

    def run(self) -> None:
        """Work until `stop`; then commit and leave the group.

        Raises
        ------
        DeniedError, FencedError, RetryError, StreamCANError
            An error from which it cannot recover.
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
            # Where no broker answers, leaving the group is pointless.
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
        """Step until `stop`, and recover from errors.

        RetryError: nothing happened, step again. RebuildError: resume at the committed offsets.
        FencedError: rejoin the group. Any other error ends the loop.
        """
        role = self.role
        while not self.stopping.is_set():
            self.health.beat()
            try:
                role.step(STEP_MS)
            except RegistryAway:  # it has waited already; polled records are gone
                raise
            except RetryError as error:
                away = self.health.missed()
                if not away or time.monotonic() - self._explained > EXPLAIN_SECONDS:
                    self._explain()
                if away > self.settings.connect_seconds:
                    raise
                log.warning("%s; trying again, for %.0f s by now, at most %.0f", error, away,
                            self.settings.connect_seconds)  # fmt: skip
                self.stopping.wait(0.2)
            except RebuildError as error:
                if error.__cause__ is not None or isinstance(error, MadeAgain):
                    self._explain()
                log.warning("%s; beginning again at what is committed", error)
                role.drop()
                self.patience.before_restore(error, role.committed)
                self.patience.until_joined(role.client.rebuild, role.client.rejoin)
            except FencedError as error:
                role.drop()
                if self._takes_turns:  # let it do what it took over for
                    self.stopping.wait(TURN_SECONDS)
                else:
                    self.patience.note_fence(error)
                self.patience.until_joined(role.client.rejoin, role.client.rejoin)

    def _explain(self) -> None:
        """Raise DeniedError where a topic that was deleted, or made again otherwise, or a revoked
        right has caused an error whose own text does not say so; missing topics are created where
        allowed.
        """
        self.health.beat()
        for ask in (self.role.check, self.role.client.require_identity):
            with contextlib.suppress(RetryError):
                within(EXPLAIN_SECONDS, ask, otherwise=RetryError)
        self._explained = time.monotonic()
