"""Without sets: a copy of a corrector that makes no prediction sets."""

from stream_can import snapshot
from stream_can.corrector.corrector import Corrector
from stream_can.method.settings import PROMISE
from stream_can.method.state import SETS


def without_sets(corrector: Corrector) -> Corrector:
    """Copy a corrector, without prediction sets."""
    if corrector.sets is None:
        return corrector
    head, arrays = snapshot.decode(corrector.to_bytes())
    head = {name: value for name, value in head.items() if name not in PROMISE}
    remaining = {name: array for name, array in arrays.items() if name not in SETS}
    if "values" in remaining:
        remaining["values"][:, -2:] = 0
    return Corrector.from_bytes(snapshot.encode(head, remaining))
