"""How the time of a run is divided: the search, what is left out when time runs out, and what always comes after."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from solvers.steps import LateError, step
from solvers.stop import Stop
from topoopt.core.units import GIB
from topoopt.core.verdict import StopReason

Result = TypeVar("Result")

AFTER_SIGNAL_S = 2.0
"""Time that steps have after the first interrupt to end by themselves."""


STARVED = 5
"""Times the limit that a search without any result may take on a machine that is busy with other things."""

WHY = {
    StopReason.TIME: "time limit",
    StopReason.MEMORY: "memory limit",
    StopReason.INTERRUPTED: "interrupted",
}
"""Why a step was left, for people."""


@dataclass
class Timing:
    """The clock of one run.

    Attributes:
        stop: deadline and interrupts of the whole run; the search may have an earlier deadline.
        limit_s: that the user gave; None for none.
        kept: makes what is found of the best so far; None: there is nothing yet.
        left_out: steps that were left for lack of time.
    """

    stop: Stop = field(default_factory=Stop)
    limit_s: float | None = None
    kept: Callable[[], Any] | None = None
    left_out: list[str] = field(default_factory=list)
    _signal_at: float | None = None
    _cpu_s: float = field(default_factory=time.process_time)

    def for_search(self, share: float) -> Stop:
        """Deadline of the search: that part of the time left, the rest is for what comes after it."""
        left = self.stop.remaining_s()
        return self.stop if left is None or share == 1.0 else self.stop.until(self.stop.clock.now() + share * left)

    def optional(self, name: str, work: Callable[[], Result]) -> Result | None:
        """Do what a solution can do without; None, and a line in the notes, if there is no time for it."""
        if self.stop.reason() is None:
            try:
                return step(work, lambda: self.stop.memory.look() or self.stop.reason() is not None)
            except LateError:
                pass
            except MemoryError:
                self.out_of_memory()
        self.left_out.append(name)
        return None

    def search_late(self, search: Stop) -> bool:
        """Whether a search that does not end by itself has to be left: soon after its deadline if something was kept,
        else in the last moment."""
        if self.stop.hurry.is_set() or self.stop.memory.look():
            return True
        if self.kept is not None and (self._signalled() or self._past(search.deadline, 0.2, 0.01)):
            return True
        return self._past(self.stop.deadline, 0.8, 0.05) and not self._starved()  # nothing is left to be written

    def check_late(self) -> bool:
        """Whether a check has to be left."""
        if self.stop.memory.look():
            return True
        return self.stop.hurry.is_set() or self._signalled() or self._past(self.stop.deadline, 0.3, 0.02)

    def out_of_memory(self) -> None:
        """The system refused memory: the end of the search where there is a limit.

        Raises:
            MemoryError: there is none.
        """
        if self.stop.memory.limit_bytes is None:
            raise MemoryError
        self.stop.memory.exceeded.set()

    def nothing(self) -> str:
        """Why nothing was found, for people."""
        limit = self.stop.memory.limit_bytes
        if limit is not None and self.stop.memory.exceeded.is_set():
            return f"the memory limit of {limit / GIB:.3g} GiB was reached before anything was found"
        return "the time limit came before anything was found"

    def notes(self) -> tuple[str, ...]:
        """What was left out, for people."""
        if not self.left_out:
            return ()
        why = WHY[self.stop.reason() or StopReason.TIME]
        return (f"left out ({why}): {', '.join(self.left_out)}",)

    def _signalled(self) -> bool:
        """Whether the first interrupt was some time ago."""
        if not self.stop.interrupted.is_set():
            return False
        if self._signal_at is None:
            self._signal_at = self.stop.clock.now()
        return self.stop.clock.now() - self._signal_at > AFTER_SIGNAL_S

    def _starved(self) -> bool:
        """Whether a busy machine gave this process less than the time limit of its processors: what has found nothing
        then goes on until it had that, but no longer than a few times the limit."""
        if self.limit_s is None or self.stop.memory.children:
            return False
        had = time.process_time() - self._cpu_s
        return had < self.limit_s + 0.8 and not self._past(self.stop.deadline, STARVED, STARVED)

    def _past(self, deadline: float | None, seconds: float, share: float) -> bool:
        if deadline is None or self.limit_s is None:
            return False
        return self.stop.clock.now() > deadline + seconds + share * self.limit_s
