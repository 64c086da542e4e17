"""What one process used from its first record to its last: records, seconds, CPU (user and system).

Starting up (imports, joining the group) is left out; everything the client does for the records, on
whatever thread, is in. Peak memory is the whole process's.
"""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path


class Meter:
    """``begin`` at the first record, ``end`` once the last is committed."""

    def __init__(self) -> None:
        self.began: tuple[float, float] | None = None

    def begin(self) -> None:
        if self.began is None:
            self.began = time.perf_counter(), self._cpu()

    def end(self, records: int) -> None:
        """Print one line of JSON for the driver."""
        assert self.began is not None
        wall, cpu = time.perf_counter() - self.began[0], self._cpu() - self.began[1]
        # Not ru_maxrss, which a process inherits from the one that started it.
        status = Path("/proc/self/status").read_text()
        peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
        found = {"records": records, "seconds": wall, "cpu": cpu, "peak_mb": peak}
        print(json.dumps(found), flush=True)

    @staticmethod
    def _cpu() -> float:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime
