"""Run one process of ``stream-can run``: logging, signals, exit codes."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading

from stream_can.app.loading import injected
from stream_can.app.logs import set_up_logging
from stream_can.app.server import NoPort
from stream_can.errors import StreamCANError
from stream_can.kafka.client.guards import DeniedError, FencedError, RetryError
from stream_can.kafka.corrections import UnreadableRecord
from stream_can.kafka.settings import Settings
from stream_can.kafka.worker import Worker

log = logging.getLogger(__name__)

STOP_SECONDS = 9.0
"""Seconds from the first signal to the forced end."""
EXIT_CODES = {0: "stopped by a signal, or --check found nothing wrong",
              1: "a bug, with its traceback",
              2: "settings are wrong",
              3: "refused: topics, rights, sizes, or state that cannot be restored",
              4: "no broker within connect_seconds, or 20 failures in a row and nothing committed",
              5: "another process runs under the same application_id and instance",
              6: "the newest record cannot be read (--check), or any (--errors fail)"}  # fmt: skip
"""Exit codes of ``stream-can run``."""


def run(settings: Settings, *, corrects: bool = True, reset: bool = False) -> int:
    """Run ``stream-can run`` or ``learn``: set up logging, work until SIGTERM or SIGINT.

    Parameters
    ----------
    settings, corrects, reset
        See `Worker`.

    Returns
    -------
    One of `EXIT_CODES`.
    """
    # First of all, since starting takes seconds; a check that was interrupted must not exit with 0.
    signal.signal(signal.SIGTERM, signal.SIG_DFL if settings.check else _stopped_before_it_began)
    set_up_logging(settings.log_format, settings.log_level, settings.secrets)
    if names := injected(os.environ):
        log.info("no settings, Kubernetes made them for a Service: %s", ", ".join(names))
    try:
        worker = Worker(settings, corrects=corrects, reset=reset)
    except (StreamCANError, ValueError) as error:  # a Corrector raises ValueError for its settings
        return _fail(2, error)
    try:
        if settings.check:
            partitions = worker.check()
            if worker.doubts:
                log.warning(
                    "topics, rights and sizes are well, and the newest record of %d topics is not"
                    " what the settings expect, see above", worker.doubts,
                )  # fmt: skip
                return 6
            log.info(
                "all is well: %d partitions, %d classes", partitions, len(worker.start.classes)
            )
            return 0

        def stop(number: int, _: object) -> None:
            log.info("%s: stopping", signal.Signals(number).name)
            worker.stop()
            end = threading.Timer(STOP_SECONDS, _leave)
            end.daemon = True
            end.start()
            signal.signal(number, signal.SIG_DFL)  # a second one ends the process

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        worker.run()
        return 0
    except (DeniedError, NoPort) as error:
        return _fail(3, error)
    except RetryError as error:
        return _fail(4, error)
    except FencedError as error:
        return _fail(5, error)
    except UnreadableRecord as error:
        return _fail(6, error)
    except Exception:
        log.exception("this is a bug; nothing is lost: a restart goes on from the last commit")
        return 1


def _stopped_before_it_began(*_: object) -> None:
    os._exit(0)


def _leave() -> None:
    """Exit at once: brokers do not answer; uncommitted work will be repeated."""
    log.warning(
        "not stopped in order within %g s: the next owner waits for the session", STOP_SECONDS
    )
    sys.stderr.flush()
    os._exit(0)


def _fail(code: int, error: Exception) -> int:
    log.error("%s", error)
    sys.stderr.flush()
    return code
