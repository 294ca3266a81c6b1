"""Steps of a run that can be left behind: each works in a thread of its own while the caller looks at the clock.

Searches look at their `Stop` themselves. What they cannot leave, because it is one call of a solver, of the
native module or of a checker, is left here: the caller goes on with what there is, and the step ends when it next looks
(`end_if_left`), which every look at a `Stop` and every report of progress does too. Nothing is raised into it from
outside: an error in the middle of a library that calls back from C would bring down the process. Native calls release
the interpreter, so that the caller is never kept waiting by one, and end once the flag of their step is set.

A process that ends by itself waits for the steps it left behind; the command line does not.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from topoopt.core.process import LEFT, Left, end_if_left
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
