"""Steps of a run that can be left behind: each works in a thread of its own while the caller looks at the clock.

Searches look at their `Stop` themselves. What they cannot leave, because it is one call of a solver, of a compiled
kernel or of a checker, is left here: the caller goes on with what there is, and the step ends at its next line of
Python. Kernels release the interpreter, so that the caller is never kept waiting by one.
"""

from __future__ import annotations

import contextvars
import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")

STEP = "topoopt step"
"""Name of the threads of steps; where one is alive at the end of a process, nobody may wait for it."""

AGAIN_S = 0.5
"""After this long a step that goes on is told again to end."""

LOOK_S = 0.02
"""How often the clock is looked at."""


class LateError(Exception):
    """The step had to be left before it had ended."""


class _Left(SystemExit):
    """Raised inside a step that was left; handlers of errors do not catch it, and a thread ends by it in silence."""


class _Step(threading.Thread, Generic[Result]):
    def __init__(self, work: Callable[[], Result]) -> None:
        super().__init__(name=STEP, daemon=True)
        self._work, self._context = work, contextvars.copy_context()
        self.done, self.left = threading.Event(), threading.Event()
        self.results: list[Result] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            if not self.left.is_set():
                self.results.append(self._context.run(self._work))
        except _Left:
            pass
        except BaseException as error:  # raised again by the caller
            self.error = error
        finally:
            self.done.set()

    def leave(self) -> None:
        """Have it end at its next line of Python, or before its first."""
        self.left.set()
        if not self.done.is_set():
            _be_silent()
            threading.Thread(target=self._insist, name="topoopt leaves a step", daemon=True).start()

    def _insist(self) -> None:
        """Ask until it has ended: where C calls back, as compilers do, what is raised is lost."""
        while True:
            if self.ident is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(_Left))
            if self.done.wait(AGAIN_S):
                return


def _be_silent() -> None:
    """Have the interpreter say nothing of what a callback from C made of leaving a step."""
    others = sys.unraisablehook
    if getattr(others, "leaves_steps", False):
        return

    def hook(lost: Any) -> None:
        if lost.exc_type is not _Left:
            others(lost)

    hook.leaves_steps = True  # type: ignore[attr-defined]
    sys.unraisablehook = hook


def step(work: Callable[[], Result], late: Callable[[], bool]) -> Result:
    """Do some work, and leave it once `late` says so.

    Args:
        work: changes nothing that is looked at after it was left.
        late: asked every few hundredths of a second.

    Raises:
        LateError: it was left. Anything that the work raises.
    """
    thread = _Step(work)
    try:
        thread.start()
        while not thread.done.wait(LOOK_S):
            if late() and not thread.done.is_set():
                raise LateError
    except BaseException:
        thread.leave()
        raise
    if thread.error is not None:
        raise thread.error
    return thread.results[0]
