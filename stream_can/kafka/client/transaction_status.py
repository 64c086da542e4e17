"""How the last transaction of a transactional id ended, according to its coordinator."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kafka import errors as kafka_errors

from stream_can.kafka.client.admin import Admin
from stream_can.kafka.client.guards import DeniedError, RetryError


class TransactionStatus(NamedTuple):
    """Outcome of a transaction, or that it is open, and its producer."""

    state: Literal["commit", "abort", "open"]
    producer_id: int
    epoch: int

    def at_fence(self, producer_id: int, epoch: int) -> Literal["commit", "abort"]:
        """Outcome once a producer with this id and epoch has taken over.

        The owner may have continued between query and takeover. If the transaction was still open
        at the takeover, that aborted it and raised the epoch by two. If it was open at the query
        and not at the takeover, its owner ended it, and owners commit.
        """
        if producer_id != self.producer_id:  # all its epochs were used up
            aborted = self.state != "commit"
        else:
            aborted = epoch > self.epoch + 1 or self.state == "abort"
        return "abort" if aborted else "commit"


def last_transaction(admin: Admin, transactional_id: str) -> TransactionStatus | None:
    """How the last transaction of an id ended; None where there was none.

    Raises
    ------
    RetryError
        Its coordinator does not answer (yet).
    DeniedError
        The right to the id is missing.
    """
    try:
        described = admin.ask(15, "describe_transactions", [transactional_id])
    except DeniedError as error:
        lacking = f"rights missing: WRITE on transactional id {transactional_id}"
        raise DeniedError(lacking) from error
    except RetryError as error:
        if isinstance(error.__cause__, kafka_errors.TransactionalIdNotFoundError):
            return None
        raise
    described_last = described[transactional_id]
    state: Literal["commit", "abort", "open"] = "abort"
    if described_last.state.value in ("PrepareCommit", "CompleteCommit"):
        state = "commit"
    elif described_last.state.value == "Ongoing":
        state = "open"
    return TransactionStatus(state, described_last.producer_id, described_last.producer_epoch)
