"""A limit on the memory of a run: what this process and the solvers it started hold resident.

Looked at while steps run, as resident memory is what a machine runs out of; a single allocation far beyond the limit is
refused by the system (`RLIMIT_DATA`), so that it does not have to be held first.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

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
