"""Serialise calls on an object shared by threads, also across a fork.

A fork waits until no call is running on any such object, so that the child finds each between two
calls and its lock free. Locks are taken in the order in which calls take them.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

import stream_can.method.lock  # noqa: F401  (its hook stops loops between two rows: after ours)

P = ParamSpec("P")
T = TypeVar("T")


class Locked:
    """An object whose calls marked by `one_at_a_time` run one at a time."""

    _rank: ClassVar[int]
    """Place in the order of locks: calls on it may call objects of a higher rank."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        with _gate:
            _objects.add(self)


S = TypeVar("S", bound=Locked)


def one_at_a_time(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Decorate a method to hold the object's ``_lock`` while it runs."""

    @functools.wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if _held and self._rank == 0 and not self._lock._is_owned():  # type: ignore[attr-defined]
            with _gate:  # a lock that is taken again at once would never be free for a fork
                pass
        with self._lock:
            return method(self, *args, **kwargs)

    return call


_gate = threading.RLock()
"""Held by a fork, from before it waits for calls: none begins, and no object is made."""
_objects: weakref.WeakSet[Locked] = weakref.WeakSet()
_held: list[Any] = []
"""Locks that a fork holds or waits for."""


def _before_fork() -> None:
    _gate.acquire()
    _held.append(_gate)
    locks = [each._lock for each in sorted(_objects, key=lambda each: each._rank)]
    for lock in locks:
        lock.acquire()
        _held.append(lock)


def _after_fork() -> None:
    held = _held[::-1]
    _held.clear()  # before another fork begins, which waits at the gate
    for lock in held:
        lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
