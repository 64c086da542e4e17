"""How the last transaction of a transactional id ended, as its coordinator says."""

from __future__ import annotations

import logging
import time
from typing import Any, Literal, NamedTuple

from kafka import errors as kafka_errors
from kafka.protocol.producer.transaction import EndTxnRequest

from stream_can.kafka.client.admin import COORDINATOR_SECONDS, Admin
from stream_can.kafka.client.guards import DeniedError, RetryError

log = logging.getLogger(__name__)

_NO_COORDINATOR_YET = (
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.CoordinatorLoadInProgressError,
    kafka_errors.NotCoordinatorError,
)


class Ended(NamedTuple):
    """How it ended, or will, and whose it was."""

    how: Literal["commit", "abort"]
    producer_id: int
    epoch: int


def last_ended(admin: Admin, transactional_id: str, *, abort_open: bool = False) -> Ended | None:
    """How the last transaction of an id ended, or will; None where it never had one.

    Parameters
    ----------
    abort_open
        Abort one that is open. Otherwise it counts as aborted, which whoever takes the id over
        makes true, unless its owner lives and is faster.

    Raises
    ------
    RetryError
        Its coordinator does not answer (yet).
    DeniedError
        There is no right to the id.
    """
    deadline = time.monotonic() + COORDINATOR_SECONDS
    while True:
        try:
            described = admin.ask(15, "describe_transactions", [transactional_id])
        except DeniedError as error:
            lacking = f"rights missing: WRITE on transactional id {transactional_id}"
            raise DeniedError(lacking) from error
        except RetryError as error:
            if isinstance(error.__cause__, kafka_errors.TransactionalIdNotFoundError):
                return None
            loading = isinstance(error.__cause__, _NO_COORDINATOR_YET)
            if not loading or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
            continue
        found = described[transactional_id]
        if not abort_open or found.state.value != "Ongoing":
            committed = found.state.value in ("PrepareCommit", "CompleteCommit")
            return Ended(
                "commit" if committed else "abort", found.producer_id, found.producer_epoch
            )
        if time.monotonic() > deadline:
            raise RetryError(f"the transaction of {transactional_id} stays open")
        _abort(admin, transactional_id, found)


def _abort(admin: Admin, transactional_id: str, found: Any) -> None:
    """Abort a transaction in its owner's name; refused where the owner has ended it meanwhile."""
    request = EndTxnRequest(
        transactional_id=transactional_id, producer_id=found.producer_id,
        producer_epoch=found.producer_epoch, committed=False,
        max_version=3,  # as kafka-python's producer; from 5 on, each end changes the epoch
    )  # fmt: skip
    error = kafka_errors.for_code(admin.send(request, found.coordinator_id).error_code)
    if error is not kafka_errors.NoError:
        log.info("the transaction of %s is not aborted: %s", transactional_id, error.__name__)
        time.sleep(0.05)
