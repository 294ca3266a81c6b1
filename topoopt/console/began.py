"""When the run that is under way was asked for: a time limit counts from there, loading the program included."""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import NamedTuple


class Moment(NamedTuple):
    """`time.monotonic()` and `time.process_time()` at once."""

    at_s: float
    cpu_s: float


_BEGAN: ContextVar[Moment] = ContextVar("began")


def _now() -> Moment:
    return Moment(time.monotonic(), time.process_time())


def begin() -> None:
    """To be called first of all where the program starts."""
    _BEGAN.set(_now())


def began() -> Moment:
    """The start of the program; now, where it was not started for this run alone."""
    return _BEGAN.get(_now())
