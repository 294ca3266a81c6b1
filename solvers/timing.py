"""The time of a run is divided among the search, steps that can be left out, and what always comes after.

Searches look at their `Stop` themselves. A `step` is what they cannot leave, because it is one call of a solver, of
the native module or of a checker: it works in a thread of its own while the caller looks at the clock. The caller
goes on with what there is, and the step ends when it next looks (`end_if_left`), which every look at a `Stop` and
every report of progress does too. Nothing is raised into it from outside: an error in the middle of a library that
calls back from C would bring down the process. Native calls release the interpreter, so that the caller is never kept
waiting by one, and end once the flag of their step is set.

A process that ends by itself waits for the steps it left behind; the command line does not.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from solvers.stop import Stop
from topoopt.core.arrays import GIB
from topoopt.core.process import LEFT, Left, end_if_left
from topoopt.core.proofs import StopReason
from topoopt.native import StopFlag, Stopped

Result = TypeVar("Result")

LOOK_S = 0.02
"""How often the clock is looked at."""


class LateError(Exception):
    """The step had to be left before it had ended."""


class _Step(threading.Thread, Generic[Result]):
    def __init__(self, work: Callable[[], Result]) -> None:
        super().__init__(name="topoopt step", daemon=False)
        self._work, self._context = work, contextvars.copy_context()
        self.done, self.left, self._flag = threading.Event(), threading.Event(), StopFlag()
        self._context.run(LEFT.set, self.left)
        self.results: list[Result] = []
        self.error: BaseException | None = None

    def leave(self) -> None:
        """Nobody waits for it any more."""
        self.left.set()
        self._flag.set()

    def run(self) -> None:
        self._flag.watch()
        try:
            self._context.run(end_if_left)
            self.results.append(self._context.run(self._work))
        except (Left, Stopped):
            pass
        except BaseException as error:  # raised again by the caller
            self.error = error
        finally:
            self.done.set()


def step(work: Callable[[], Result], late: Callable[[], bool], grace_s: float = 0.0) -> Result:
    """Do some work, and leave it once `late` says so.

    Args:
        work: changes nothing that is looked at after it was left; not begun when it is late already.
        late: asked every few hundredths of a second.
        grace_s: how long to wait, once it is late, for work that returns what it has where it next looks.

    Raises:
        LateError: it was left. Anything that the work raises.
    """
    if late():
        raise LateError
    thread = _Step(work)
    try:
        thread.start()
        while not thread.done.wait(LOOK_S):
            end_if_left()  # a step inside a step ends with it
            if late() and not thread.done.is_set():
                thread.leave()
                if not thread.done.wait(grace_s) or not (thread.results or thread.error):
                    raise LateError
    except BaseException:
        thread.leave()
        raise
    if thread.error is not None:
        raise thread.error
    return thread.results[0]


AFTERWARDS = 1.5
"""Time kept for what follows a search, in times of the first plan: figures, check and files of a job on 1024 servers
take that long."""

SPARE_S = 0.3
"""Seconds after the limit that are as good as within it: what comes after the search has a second, but that it may be
slower than measured."""

CHECK_SPARE_S = 0.35
"""The same for a check: what comes after it is the file, as measured, and what is shown."""

CHECK_S, CHECK_SHARE = 3.0, 0.15
"""Time kept for the check from figures that a solution can do without: a job on 16 servers takes two seconds, and more
is cut off with the limit; of a short limit so large a part."""

FIGURES_SPARE_S, FIGURES_SHORT_S = 0.85, 0.4
"""The same for the figures, which nobody measured where the first plan came late; what they may take at any time, with
a twentieth of the limit."""

MEASURED_FROM, MEASURED_FROM_S = 0.1, 0.3
"""Part of the limit, and seconds, after which a search may well need all of it, and what comes after it is measured."""

STARVED = 5
"""Times the limit that a search without any result, or a check, may take on a machine busy with other things."""

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
        measure: what is found -> seconds that its figures take, and its file; None: both are short.
        file_s: seconds that the file takes, as measured last.
        cpu_began_s: `time.process_time()` at the start of the run.
    """

    stop: Stop = field(default_factory=Stop)
    limit_s: float | None = None
    kept: Callable[[], Any] | None = None
    left_out: list[str] = field(default_factory=list)
    measure: Callable[[Any], tuple[float, float]] | None = None
    file_s: float = 0.0
    cpu_began_s: float = field(default_factory=time.process_time)
    _whole: bool = False
    _measuring_s: float = 0.0
    _search_at: float = 0.0
    _signal_at: float | None = None

    def for_search(self, share: float) -> Stop:
        """Deadline of the search, which begins: that part of the time left, the rest is for what comes after it."""
        self._search_at, left = time.monotonic(), self.stop.remaining_s()
        return self.stop.until(None if left is None else self._search_at + share * left)

    def keep(self, result: Callable[[], Any], search: Stop, rough: bool = False) -> None:
        """Take the best so far; the first whole one shows how long the work on a plan of this size takes.

        What comes after the search does some of it again, so its deadline leaves that much, if there is that much left;
        and what figures and file were measured to take.

        Args:
            result: makes it.
            search: deadline of the search.
            rough: whether it was made at much less effort than the search makes one.
        """
        end_if_left()
        self.kept = result
        if self.stop.deadline is None or search.deadline is None or self.limit_s is None:
            return
        began = time.monotonic()
        latest = search.deadline
        if not (rough or self._whole):
            self._whole = True
            latest = min(latest, self.stop.deadline - AFTERWARDS * (began - self._search_at))
        searched_s = began - self._search_at
        if (
            self.measure is not None
            and searched_s > max(MEASURED_FROM_S, MEASURED_FROM * self.limit_s)
            and self._measuring_s <= 0.05 * searched_s  # part of the time of a search that goes into that
        ):
            figures_s, self.file_s = self.measure(result())
            self._measuring_s += time.monotonic() - began
            latest = min(latest, self.stop.deadline + SPARE_S - figures_s - self.file_s)
        search.deadline = min(search.deadline, max(time.monotonic(), latest))

    def before_check(self) -> Stop:
        """Deadline of what a solution can do without: the check is not what there is no time for."""
        if self.limit_s is None or self.stop.deadline is None:
            return self.stop
        return self.stop.until(self.stop.deadline - min(CHECK_S, CHECK_SHARE * self.limit_s))

    def optional(self, name: str, work: Callable[[], Result]) -> Result | None:
        """Do what a solution can do without; None, and a line in the notes, if there is no time for it."""
        stop = self.before_check()
        if stop.reason() is None:
            try:
                return step(work, lambda: stop.memory.look() or stop.reason() is not None)
            except LateError:
                pass
            except MemoryError:
                self.out_of_memory()
        self.left_out.append(name)
        return None

    def search_late(self, search: Stop) -> bool:
        """Whether a search that does not end by itself has to be left: soon after its deadline if something was kept,
        else in the last moment."""
        if self.stop.second_interrupt.is_set() or self.stop.memory.look():
            return True
        if self.kept is not None:
            return self._signalled() or self._past(search.deadline, 0.2, 0.01)
        return self.nothing_late()

    def nothing_late(self) -> bool:
        """Whether the limit is over for good where nothing was found: the last moment in which a first
        plan still gets its figures and its file in time."""
        return self._late(0.35, 0.04)

    def check_late(self) -> bool:
        """Whether a check has to be left, so that the file is there in time."""
        if self.stop.memory.look() or self.stop.second_interrupt.is_set():
            return True
        return self._signalled() or self._late(CHECK_SPARE_S - self.file_s, 0.02)

    def figures_late(self, cpu_began_s: float) -> bool:
        """Whether the figures of what was found, begun at this `time.process_time()`, take too long to be written in
        time; after an interrupt, or where something else is to blame, they never do."""
        if self.limit_s is None or self.stop.interrupted.is_set():
            return False
        short = time.process_time() - cpu_began_s <= FIGURES_SHORT_S + 0.05 * self.limit_s
        return not short and self._late(FIGURES_SPARE_S, 0.04)

    def unwritable(self) -> str | None:
        """Why what was found cannot be written in time, for people; a file of less than a second always is."""
        if self.stop.interrupted.is_set() or self.file_s < 1.0 or not self._late(1.0 - self.file_s, 0.05):
            return None
        return f"the time limit came before what was found could be written: that takes about {self.file_s:.2g} s more"

    def past_the_end(self) -> bool:
        """Whether nothing more can be begun that a solution can do without."""
        return self.stop.second_interrupt.is_set() or self._past(self.stop.deadline, 0.6, 0.04)

    def closing(self, work: Callable[[], Result]) -> Result | None:
        """Do what comes last, also after the limit or an interrupt, such as a page for people; None if it is too late
        even for that."""
        try:
            return step(work, self.past_the_end)
        except LateError:
            return None

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
        if not self.stop.interrupted.is_set():
            return False
        if self._signal_at is None:
            self._signal_at = time.monotonic()
        return time.monotonic() - self._signal_at > 2.0  # for steps to end by themselves

    def _late(self, seconds: float, share: float) -> bool:
        """Whether the limit is over by so much, also by the time that the processor gave this process: a machine that
        is busy with other things costs neither a first plan nor a verdict, unless it takes several times the limit."""
        if self.limit_s is None or not self._past(self.stop.deadline, seconds, share):
            return False
        had_s = time.process_time() - self.cpu_began_s
        enough = had_s >= (1.0 + share) * self.limit_s + seconds or bool(self.stop.memory.children)
        return enough or self._past(self.stop.deadline, STARVED, STARVED)

    def _past(self, deadline: float | None, seconds: float, share: float) -> bool:
        if deadline is None or self.limit_s is None:
            return False
        return time.monotonic() > deadline + seconds + share * self.limit_s
