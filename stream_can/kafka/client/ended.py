"""How the last transaction of a transactional id ended, as its coordinator says."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kafka import errors as kafka_errors

from stream_can.kafka.client.admin import Admin
from stream_can.kafka.client.guards import DeniedError, RetryError


class Ended(NamedTuple):
    """How it ended, or that it is open, and whose it was."""

    how: Literal["commit", "abort", "open"]
    producer_id: int
    epoch: int

    def at_fence(self, producer_id: int, epoch: int) -> Literal["commit", "abort"]:
        """How it has ended once a producer with this id and epoch has taken over.

        The owner may have gone on between the question and the fence. If the transaction was still
        open at the fence, the fence aborted it and the epoch went up by two. If it was open before
        and not at the fence, its owner ended it, and owners commit.
        """
        if producer_id != self.producer_id:  # all of its epochs were used up
            aborted = self.how != "commit"
        else:
            aborted = epoch > self.epoch + 1 or self.how == "abort"
        return "abort" if aborted else "commit"


def last_ended(admin: Admin, transactional_id: str) -> Ended | None:
    """How the last transaction of an id ended; None where it never had one.

    Raises
    ------
    RetryError
        Its coordinator does not answer (yet).
    DeniedError
        There is no right to the id.
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
    found = described[transactional_id]
    how: Literal["commit", "abort", "open"] = "abort"
    if found.state.value in ("PrepareCommit", "CompleteCommit"):
        how = "commit"
    elif found.state.value == "Ongoing":
        how = "open"
    return Ended(how, found.producer_id, found.producer_epoch)
