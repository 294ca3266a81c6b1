"""When to stop a search: a time limit, an interrupt, or both. A search asks between short batches of work."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType

from topoopt.core.verdict import StopReason


@dataclass
class Stop:
    """Shared by everything that works on one solve.

    Attributes:
        deadline: `time.monotonic()` value after which to stop; None for no limit.
        interrupted: set by Ctrl-C.
    """

    deadline: float | None = None
    interrupted: threading.Event = field(default_factory=threading.Event)

    def reason(self) -> StopReason | None:
        """Why to stop now, or None to go on."""
        if self.interrupted.is_set():
            return StopReason.INTERRUPTED
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return StopReason.TIME
        return None

    def within(self, seconds: float | None) -> Stop:
        """The same interrupt, with a deadline no later than so many seconds from now; None: the same."""
        if seconds is None:
            return self
        deadline = time.monotonic() + seconds
        return replace(self, deadline=deadline if self.deadline is None else min(deadline, self.deadline))

    def remaining_s(self) -> float | None:
        """Seconds left, None without a limit."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


def first_part(stop: Stop, share: float, most_s: float) -> Stop:
    """The same interrupt; the deadline after that part of the time left, and after `most_s` seconds in any case."""
    left = stop.remaining_s()
    return replace(stop, deadline=time.monotonic() + (most_s if left is None else min(most_s, share * left)))


def at_most(stop: Stop, seconds: float) -> Stop:
    """The same, with a deadline after so many seconds where there is none."""
    return stop if stop.deadline is not None else replace(stop, deadline=time.monotonic() + seconds)


@contextmanager
def stop_on_signals(time_limit_s: float | None) -> Iterator[Stop]:
    """A `Stop` that Ctrl-C and SIGTERM set while the block runs; a second Ctrl-C raises KeyboardInterrupt as usual.

    Outside the main thread signals are left alone.
    """
    stop = Stop(None if time_limit_s is None else time.monotonic() + time_limit_s)
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.interrupted.is_set():
            raise KeyboardInterrupt
        stop.interrupted.set()

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
