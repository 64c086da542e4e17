"""The clients of a worker: a member of the group, a transaction and readers, kept together.

Nothing outside this folder imports kafka-python.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from kafka import errors as kafka_errors

from stream_can.kafka.client.admin import Admin
from stream_can.kafka.client.ended import last_ended
from stream_can.kafka.client.guards import ClientError, RebuildError, RetryError, errors_as
from stream_can.kafka.client.member import Member
from stream_can.kafka.client.options import Options
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.client.transaction import Transaction, positions

log = logging.getLogger(__name__)


class Client:
    """The connections of one instance, opened, renewed and closed together.

    Parameters
    ----------
    bootstrap_servers, options
        See `Options`.
    application_id
        Consumer group; with ``instance`` the transactional id and the static member's name.
    instance
        Name of this process, the same after a restart and unique among those that are alive.
    input
        The topic to read.
    compression, skip_damaged
        See `Options`.
    transactional_id
        Where it is not of this instance alone; ``transaction.open`` takes it over.
    """

    def __init__(
        self,
        bootstrap_servers: list[str],
        application_id: str,
        instance: str,
        *,
        input: str,
        options: Mapping[str, Any] | None = None,
        compression: str = "none",
        skip_damaged: bool = False,
        transactional_id: str | None = None,
    ) -> None:
        self.options = Options(
            bootstrap_servers, options, compression=compression, skip_damaged=skip_damaged
        )
        self.group = application_id
        self.input = input
        identity = f"{application_id}-{instance}"
        self._shared_id = transactional_id is not None
        self.member = Member(self.options, application_id, identity, input)
        self.transaction = Transaction(self.options, application_id, transactional_id or identity)
        self.readers = Readers(self.options)

    def check_topics(
        self, others: Mapping[str, set[str]], own: Mapping[str, Any], *,
        input: str | None = None, create: bool = False,
    ) -> dict[str, int]:  # fmt: skip
        """:meth:`Admin.check_topics`, for the group of this client; what the own topics take is
        noted."""
        with Admin(self.options, self.group) as admin:
            of = self.input if input is None else input
            counts, accepts = admin.check_topics(of, others, own, create=create)
        self.transaction.accepts = {
            name: accepts[name] for name, topic in own.items() if "WRITE" in topic.rights
        }
        return counts

    def look(self) -> None:
        """Check what only reading shows: the codecs of the input, and the right to the name.

        It reads the newest batch of every partition and asks how the last transaction ended. That
        leaves no trace, so it may be done beside a running worker of the same name.

        Raises
        ------
        RetryError, DeniedError
            See `Admin`.
        """
        self.readers.newest(self.input)
        self.require_identity()

    def require_identity(self) -> None:
        """Raise DeniedError where there is no right to the transactional id."""
        with Admin(self.options, self.group) as admin:
            last_ended(admin, self.transaction.identity)

    def open(self) -> None:
        """Join the group, take over the transactional id: what an earlier owner left is settled.

        One that is not of this instance alone is not taken over: it is its owner's until who joins
        has been given what there is to own.
        """
        try:
            with errors_as(RetryError):
                self.member.open()
                if not self._shared_id:
                    self.transaction.open()
        except ClientError:
            self.transaction.close()
            raise

    def rebuild(self) -> None:
        """A new producer under the same id; the next ``take_rebalance`` asks for a restore."""
        self.transaction.close()
        self.readers.close()
        self.member.ask_again()
        self.open()

    def rejoin(self) -> None:
        """A new consumer too, after the old one was fenced."""
        self.member.drop()
        self.rebuild()

    def close(self, leave: bool = True) -> None:
        """Close everything. The next producer of this name aborts what is open.

        ``leave`` hands the partitions over at once. Otherwise the group waits for a static member
        until its session times out.
        """
        self.transaction.close()
        self.readers.close()
        self.member.close(leave=leave)

    def commit(self, offsets: Mapping[tuple[str, int], int], token: Any) -> None:
        """Commit the transaction together with the offsets of what it was made from.

        Raises
        ------
        RebuildError
            It may or may not have been committed: restore. Also where a rebalance came in between.
        """
        self.member.require(token)
        try:
            self.transaction.commit(offsets, token)
        except RebuildError as error:
            # Trap: the group no longer knows this member. A consumer whose instance was fenced for
            # a moment never notices that, and would present the same membership for ever.
            if isinstance(error.__cause__, kafka_errors.CommitFailedError):
                self.member.drop()
            raise

    def group_is_new(self) -> bool:
        """Whether the group has no members and has committed nothing."""
        with Admin(self.options, self.group) as admin:
            return admin.group_is_new()

    def set_offsets(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets for a group without members."""
        with Admin(self.options, self.group) as admin:
            admin.set_offsets(positions(offsets))
