"""An executor of the kind that a user may name, which does what it is given in threads and loses some of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from typing import Any, ClassVar


class FakeExecutor(ThreadPoolExecutor):
    """Has options, counts what it is given, and breaks in the middle or loses tasks where it is told to."""

    submitted: ClassVar[list[int]] = []
    """tasks given to each one that was opened"""

    def __init__(self, max_workers: int, *, breaks: str = "0", loses: str = "0") -> None:
        super().__init__(max_workers)
        self.submitted.append(0)
        self.breaks = int(breaks) if len(self.submitted) == 1 else 0
        self.loses = int(loses)

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Give the task to a thread, or lose it."""
        self.submitted[-1] += 1
        if self.breaks and self.submitted[-1] > self.breaks:
            raise BrokenExecutor("a worker died")
        if self.submitted[-1] <= self.loses:
            return super().submit(_lost)
        return super().submit(function, *arguments, **named)


def _lost() -> None:
    raise OSError(f"machine {os.getpid()} is gone")


def no_executor(max_workers: int) -> int:
    """Makes something else."""
    return max_workers
