"""The corrector between two topics as a library: what `stream-can run` does, in ten lines.

Run it, beside a broker, with STREAM_CAN_BOOTSTRAP_SERVERS=127.0.0.1:9092 in the environment.
"""

import os
import signal

from stream_can.kafka import Worker, load

settings = {"application_id": "fraud", "input": "predictions", "output": "corrected"}
settings |= {"labels": "labels", "classes": ["fraud", "fine"], "create_topics": True}
worker = Worker(load(None, settings, os.environ))
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: worker.stop())
worker.run()  # until a signal; every prediction corrected exactly once
