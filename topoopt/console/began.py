"""When the run that is under way was asked for: a time limit counts from there, loading the program included."""

from __future__ import annotations

import time
from contextvars import ContextVar

_BEGAN: ContextVar[float] = ContextVar("began")


def begin() -> None:
    """To be called first of all where the program starts."""
    _BEGAN.set(time.monotonic())


def began() -> float:
    """`time.monotonic()` at the start of the program; now, where it was not started for this run alone."""
    return _BEGAN.get(time.monotonic())
