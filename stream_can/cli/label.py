"""``stream-can label``: a page on which somebody gives the labels that a worker asks for."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from stream_can import kafka
from stream_can.app.labelling.server import LabellingServer
from stream_can.app.logs import set_up_logging
from stream_can.cli.arguments import Whole
from stream_can.kafka.pending import PendingRequests


def label(
    config: Annotated[Path, Parameter(help="TOML file of the worker's settings")],
    *,
    port: Annotated[Whole, Parameter(help="port on 127.0.0.1; 0 for any free port")] = 0,
    percentages: Annotated[
        bool,
        Parameter(
            help="show the percentages of the classifier at once, not on request", negative=""
        ),
    ] = False,
) -> int:
    """Serve a page on 127.0.0.1 that shows open label requests and writes the answers.

    Prints the address of the page. It holds a secret: whoever has it can read the messages and give
    labels. Keys 1 to 9 choose a class. An answer is written after 10 s; until then, u undoes it.
    Ctrl-C stops the server.
    """
    settings = kafka.load(config, {}, os.environ)
    set_up_logging(settings.log_format, settings.log_level)
    pending = PendingRequests(settings)
    server, stop = LabellingServer(pending, port, percentages=percentages), threading.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: stop.set())
    print(server.address, flush=True)
    try:
        pending.follow(stop.is_set)
    finally:
        server.close()
        pending.close()
    return 0
