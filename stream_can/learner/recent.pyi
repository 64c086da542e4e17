from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stream_can.learner.kinds import Blobs, Given, Id, Reason

LONGEST_ID: int
"""Maximum length of an id in bytes."""

class Recent:
    id: Id | None
    number: int
    size: int
    lane: int
    time: float
    columns: Given | None
    at: int
    blob: bytes
    asked: Reason | None
    fair: bool
    known: Any
    scored: bytes

class RecentIndex:
    def __len__(self) -> int: ...
    def of(self, id: Id | None) -> tuple[Recent, ...]: ...
    def latest(self, id: Id, lane: int) -> Recent | None: ...
    def keep(self, entries: list[Recent], requests: dict[Id, Any]) -> int: ...
    def forget(self, entry: Recent, requests: dict[Id, Any]) -> int: ...

def prediction_of(
    id: Id | None, number: int, columns: Given | None, blob: bytes, time: float, lane: int
) -> Recent: ...
def length_of(id: Id) -> int: ...
def check_ids(ids: Iterable[Any]) -> None: ...
def check_times(times: Iterable[float | None]) -> None: ...
def begin(
    ids: list[Id | None],
    first: int,
    last: int,
    number: int,
    at: int,
    lane: int,
    widths: int | Sequence[int],
    columns: list[Given | None] | None,
    times: Sequence[float | None] | None,
) -> tuple[list[Recent], list[Recent], int, float]: ...
def first_counts(known: int | None, y: int) -> tuple[int | None, int, bool]: ...
def predictions_of(
    labels: list[Any], entries: list[Recent], recent: RecentIndex, name: tuple[Any, ...]
) -> list[Recent] | None: ...
def teach(
    labels: list[Any],
    entries: list[Recent],
    lane: Any,
    call: Any,
    Joined: type,
    Taught: type,
    k: int,
    n: int,
    at_once: bool,
) -> tuple[list[Any], int]: ...
def unscored(labels: list[Any], width: int, Unscored: type) -> list[Any]: ...
def settle(entries: list[Recent], blobs: Blobs) -> None: ...
def forget_oldest(
    recent: RecentIndex,
    order: deque[Recent],
    size: int,
    bound: int,
    number: int,
    lanes: Mapping[int, Any],
) -> int: ...
def marks(order: deque[Recent]) -> tuple[bytes, list[tuple[int, Any]]]: ...
def mark(entry: Recent, flags: int) -> None: ...
