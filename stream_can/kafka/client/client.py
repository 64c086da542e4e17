"""Client: group member, transaction and readers of a worker, managed together.

Nothing outside this folder imports kafka-python.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafka import errors as kafka_errors

from stream_can.kafka.client.admin import Admin
from stream_can.kafka.client.assigning import OneOwner, RangeOwners
from stream_can.kafka.client.guards import (
    ClientError,
    MadeAgain,
    RebuildError,
    RetryError,
    errors_as,
)
from stream_can.kafka.client.member import Member
from stream_can.kafka.client.options import Options
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.client.topic_check import check_topics
from stream_can.kafka.client.transaction import Transaction, positions
from stream_can.kafka.client.transaction_status import last_transaction

log = logging.getLogger(__name__)


class Client:
    """The connections of one instance, opened, renewed and closed together.

    Parameters
    ----------
    bootstrap_servers, options
        See `Options`.
    application_id
        Consumer group; with ``instance`` the transactional id and the static member id.
    instance
        Name of this process, stable across restarts and unique among running ones.
    input
        Input topic.
    compression, skip_damaged
        See `Options`.
    transactional_id
        Set where several instances share it, one of which owns all partitions;
        ``transaction.take_over`` takes it over.
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
        identity = f"{application_id}/{instance}"  # no application has a slash in its name
        self._shared_id = transactional_id is not None
        assignor = OneOwner if self._shared_id else RangeOwners
        self.member = Member(self.options, application_id, identity, input, assignor)
        self.transaction = Transaction(self.options, application_id, transactional_id or identity)
        self.readers = Readers(self.options)
        self._admin: Admin | None = None

    def check_topics(
        self, foreign_topics: Mapping[str, set[str]], own_topics: Mapping[str, Any], *,
        input: str | None = None, create: bool = False, has_begun: Callable[[], bool] = bool,
    ) -> dict[str, int]:  # fmt: skip
        """Run `topic_check.check_topics` for this client's group, and keep the limits of the
        application's topics."""
        with Admin(self.options, self.group) as admin:
            topic_of_input = self.input if input is None else input
            counts, limits = check_topics(
                admin,
                topic_of_input,
                foreign_topics,
                own_topics,
                create=create,
                has_begun=has_begun,
            )
        self.transaction.topic_limits = {
            name: limits[name] for name, topic in own_topics.items() if "WRITE" in topic.rights
        }
        return counts

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Run :meth:`Admin.topic_ids`, over a connection that is kept: each commit asks."""
        self._admin = self._admin or Admin(self.options, self.group)
        try:
            return self._admin.topic_ids(names)
        except ClientError:
            self._close_admin()
            raise

    def require_same(self, ids: Mapping[str, str]) -> None:
        """Raise where a topic is not the one of this id any more: what was read may be another's.

        Raises
        ------
        RetryError
            It is gone, or no broker answers.
        MadeAgain
            It was.
        """
        current_ids = self.topic_ids(ids) if ids else {}
        for name, id in ids.items():
            if name not in current_ids:
                raise RetryError(f"the brokers do not know {name!r}")
            if current_ids[name] != id:
                raise MadeAgain(f"topic {name!r} was deleted and made again")

    def _close_admin(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def look(self) -> None:
        """Check what only reading shows: the input's codecs, and the right to the transactional id.

        Reads the newest batch of every partition and asks how the last transaction ended. Changes
        nothing, so it may run beside a worker of the same name.

        Raises
        ------
        RetryError, DeniedError
            See `Admin`.
        """
        self.readers.newest(self.input)
        self.require_identity()

    def require_identity(self) -> None:
        """Raise DeniedError where the right to the transactional id is missing."""
        with Admin(self.options, self.group) as admin:
            last_transaction(admin, self.transaction.identity)

    def open(self) -> None:
        """Join the group and take over the transactional id, settling an earlier owner's
        transaction.

        A shared transactional id is not taken over here: it stays with its owner until the new one
        has been assigned its partition.
        """
        try:
            with errors_as(RetryError):
                self.member.join()
                if not self._shared_id:
                    self.transaction.take_over()
        except ClientError:
            self.transaction.close()
            raise

    def rebuild(self) -> None:
        """Open a new producer with the same id; the next ``take_rebalance`` asks for a restore."""
        self.transaction.close()
        self.readers.close()
        self._close_admin()
        self.member.ask_again()
        self.open()

    def rejoin(self) -> None:
        """Open a new consumer too, after the old one was fenced."""
        self.member.drop()
        self.rebuild()

    def close(self, leave: bool = True) -> None:
        """Close everything. The next producer of this id aborts an open transaction.

        ``leave`` releases the partitions at once. Otherwise the group keeps them for the static
        member until its session times out.
        """
        self.transaction.close()
        self.readers.close()
        self._close_admin()
        self.member.close(leave=leave)

    def commit(
        self,
        offsets: Mapping[tuple[str, int], int],
        token: Any,
        notes: Mapping[tuple[str, int], str] | None = None,
    ) -> None:
        """Commit the transaction with the offsets of its input, and notes beside these.

        Raises
        ------
        RebuildError
            The outcome is unknown, or a rebalance came in between: restore.
        """
        self.member.require(token)
        try:
            self.transaction.commit(offsets, token, notes)
        except RebuildError as error:
            # Trap: the group no longer knows this member. A consumer whose instance was fenced
            # briefly does not notice, and would present the same membership for ever.
            if isinstance(error.__cause__, kafka_errors.CommitFailedError):
                self.member.drop()
            raise

    def group_is_new(self) -> bool:
        """Whether the group has no members and no committed offsets."""
        with Admin(self.options, self.group) as admin:
            return admin.group_is_new()

    def committed(self) -> dict[int, int]:
        """Next offset of each partition of the input that the group has committed."""
        with Admin(self.options, self.group) as admin:
            return admin.committed(self.input)

    def set_offsets(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets of a group without members."""
        with Admin(self.options, self.group) as admin:
            admin.set_offsets(positions(offsets))
