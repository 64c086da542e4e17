"""Serialise calls on an object shared by threads."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

__all__ = ["one_at_a_time"]


class _Locked(Protocol):
    _lock: threading.RLock


S = TypeVar("S", bound=_Locked)
P = ParamSpec("P")
T = TypeVar("T")


def one_at_a_time(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Decorate a method to hold the object's ``_lock`` while it runs."""

    @functools.wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            return method(self, *args, **kwargs)

    return call
