"""A search stops at a limit of time or memory, or at an interrupt, and asks for these between short batches of work.

One that divides a problem again and again looks at the part of the least bound first.

The limit of memory is on what this process and the solvers it started hold resident, as that is what a machine runs
out of. A single allocation far beyond the limit is refused by the system (`RLIMIT_DATA`), so that it does not have to
be held first.
"""

from __future__ import annotations

import heapq
import itertools
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, Generic, TypeVar

from topoopt.core.arrays import Ints
from topoopt.core.process import SIGNALS, end_if_interrupted, end_if_left, hear, interrupt, take
from topoopt.core.proofs import StopReason

if sys.platform != "win32":
    import resource

SPARE_BYTES = 1 << 30
"""What may be promised beyond the limit: libraries and stacks of threads are given much that they never use."""

LEAST_BYTES = 1 << 28
"""What may be promised beyond what is, however small the limit: what is held is looked at all the same."""

Pid = int


@dataclass
class Memory:
    """What a run may hold.

    Attributes:
        limit_bytes: resident bytes of this process and `children` together; None for no limit.
        children: processes of solvers that are at work.
        exceeded: set once it was too much.
    """

    limit_bytes: int | None = None
    children: set[Pid] = field(default_factory=set)
    exceeded: threading.Event = field(default_factory=threading.Event)

    def look(self) -> bool:
        """Whether the run holds more than it may at the moment."""
        if self.limit_bytes is None:
            return False
        used = resident_bytes(os.getpid()) + sum(resident_bytes(child) for child in tuple(self.children))
        if used > self.limit_bytes:
            self.exceeded.set()
        return used > self.limit_bytes

    @contextmanager
    def child(self, pid: Pid) -> Iterator[None]:
        """Count a process inside the block; the system refuses it more than the limit."""
        if self.limit_bytes is not None and hasattr(resource, "prlimit"):
            with suppress(OSError):  # it has ended already
                resource.prlimit(pid, resource.RLIMIT_DATA, (self.limit_bytes, self.limit_bytes))
        self.children.add(pid)
        try:
            yield
        finally:
            self.children.discard(pid)

    @contextmanager
    def refused(self) -> Iterator[None]:
        """The system refuses this process what is far beyond the limit inside the block: MemoryError."""
        if self.limit_bytes is None:
            yield
            return
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        # A thread that is refused its first bytes never says that it has started, and would be waited for for ever.
        most = max(self.limit_bytes + SPARE_BYTES, promised_bytes() + LEAST_BYTES)
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def promised_bytes() -> int:
    """What this process may write to, held or not, as `RLIMIT_DATA` counts it; 0 where /proc is not to be had."""
    try:
        with open("/proc/self/statm", "rb") as stream:
            return int(stream.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def resident_bytes(pid: Pid) -> int:
    """Resident memory of a process; 0 where /proc is not to be had, or the process has ended."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as stream:
            return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


@dataclass
class Stop:
    """Shared by everything that works on one solve.

    Attributes:
        deadline: value of `time.monotonic()` after which to stop; None for no limit.
        interrupted: set by the first Ctrl-C, SIGTERM or SIGHUP: end soon with the best so far.
        second_interrupt: set by the second: end now with what is there.
        memory: what the run may hold.
    """

    deadline: float | None = None
    interrupted: threading.Event = field(default_factory=threading.Event)
    second_interrupt: threading.Event = field(default_factory=threading.Event)
    memory: Memory = field(default_factory=Memory)

    def reason(self) -> StopReason | None:
        """Why to stop now, or None to go on; a step that was left ends here."""
        end_if_left()
        if self.interrupted.is_set():
            return StopReason.INTERRUPTED
        if self.memory.exceeded.is_set():
            return StopReason.MEMORY
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return StopReason.TIME
        return None

    def within(self, seconds: float | None) -> Stop:
        """The same interrupt, with a deadline no later than so many seconds from now; None: the same."""
        if seconds is None:
            return self
        deadline = time.monotonic() + seconds
        return replace(self, deadline=deadline if self.deadline is None else min(deadline, self.deadline))

    def until(self, deadline: float | None) -> Stop:
        """The same interrupt with another deadline."""
        return replace(self, deadline=deadline)

    def remaining_s(self) -> float | None:
        """Seconds left, None without a limit."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


def first_part(stop: Stop, share: float, most_s: float) -> Stop:
    """The same interrupt; the deadline after that part of the time left, and after `most_s` seconds in any case."""
    left = stop.remaining_s()
    return stop.until(time.monotonic() + (most_s if left is None else min(most_s, share * left)))


def at_most(stop: Stop, seconds: float) -> Stop:
    """The same, with a deadline after so many seconds where there is none."""
    return stop if stop.deadline is not None else stop.until(time.monotonic() + seconds)


@contextmanager
def stop_on_signals(
    time_limit_s: float | None, *, two_stage: bool = False, notify: Callable[[int], None] | None = None
) -> Iterator[Stop]:
    """A `Stop` that Ctrl-C, SIGTERM and SIGHUP set while the block runs; one more raises KeyboardInterrupt.

    Outside the main thread signals are left alone, and so is SIGHUP where it is ignored (`nohup`).

    Args:
        time_limit_s: from now on; None for no limit.
        two_stage: whether a second signal sets `second_interrupt`, and only a third one raises.
        notify: called in the handler with the number of signals so far.
    """
    stop = Stop(None if time_limit_s is None else time.monotonic() + time_limit_s)
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    flags = (stop.interrupted, stop.second_interrupt) if two_stage else (stop.interrupted,)

    def handle(number: int, frame: FrameType | None) -> None:
        hear()
        for count, flag in enumerate(flags, start=1):
            if not flag.is_set():
                flag.set()
                if notify is not None:
                    notify(count)
                return
        interrupt(number, frame)

    end_if_interrupted()
    ours = [number for number in SIGNALS if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, handle) for number in ours}
    try:
        yield stop
        end_if_interrupted()
    finally:
        take()
        for number, handler in previous.items():
            signal.signal(number, handler)


Node = TypeVar("Node")


@dataclass
class Incumbent:
    """The best circuits so far.

    Attributes:
        value: of what is sought.
        circuits: int64[pairs].
    """

    value: float
    circuits: Ints


class BestFirst(Generic[Node]):
    """Open nodes of a search, least bound first; equal ones come by rank, then in the order of their arrival."""

    def __init__(self) -> None:
        self._heap: list[tuple[Any, ...]] = []
        self._number = itertools.count()

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Node]:
        return (entry[-1] for entry in self._heap)

    @property
    def bound(self) -> float:
        """Least bound of an open node; infinite where none is left."""
        return float(self._heap[0][0]) if self._heap else math.inf

    def add(self, bound: float, node: Node, *rank: Any) -> None:
        """Open a node; `rank` decides between nodes of the same bound."""
        heapq.heappush(self._heap, (bound, *rank, next(self._number), node))

    def pop(self) -> Node:
        node: Node = heapq.heappop(self._heap)[-1]
        return node
