"""Solve in a child process that is killed when it overruns: a time limit that holds whatever the solver does.

The child streams better solutions as its solver finds them, so that a kill loses none of them. It ends by itself when
the parent does.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from contextlib import suppress
from typing import IO

from formulations.parts.arrays import LpArrays
from solvers.backends.backend import refuse, trivial
from solvers.backends.evaluate import judged
from solvers.backends.result import Claim, LpResult, OnIncumbent, Options, SolverLimits
from solvers.backends.table import solver_named
from solvers.processes.pipe import receive, send
from solvers.processes.start import ended, started
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError
from topoopt.core.proofs import Status, StopReason

# Time for the child to start, import its library and hand back the result, beyond the solver's own limit.
GRACE_S = 5.0

KILLED = {
    StopReason.TIME: "killed: over its time limit",
    StopReason.INTERRUPTED: "killed: interrupted",
    StopReason.MEMORY: "killed: over the memory limit",
}
"""Why a child was killed, for people."""

CHILD = (sys.executable, "-c", "from solvers.backends.guard_child import serve; serve()")
"""Starts a child: not with -m, as the package that imports this module would load it twice."""

# How often an interrupt is looked for.
_LOOK_S = 0.1


def solve_guarded(
    name: str,
    program: LpArrays,
    limits: SolverLimits | None = None,
    options: Options | None = None,
    start: Floats | None = None,
    *,
    grace_s: float = GRACE_S,
    on_incumbent: OnIncumbent | None = None,
    stop: Stop | None = None,
    command: tuple[str, ...] = CHILD,
) -> LpResult:
    """Solve by a backend of the table in a child process, killed `grace_s` seconds after the time limit.

    Args:
        name: of the backend.
        program, limits, options, start, on_incumbent: see `LpBackend`; without a time limit nothing is killed.
        grace_s: how long the child may overrun.
        stop: once interrupted or over its memory limit, the child is killed; its deadline is not looked at, `limits`
            is for that.
        command: starts the child; for tests.

    Returns:
        The backend's result, or, if the child was killed or died, the best of the start and the solutions streamed,
        with stopped_by TIME, MEMORY, INTERRUPTED or ERROR.

    Raises:
        InputError: as the backend's, and for an unknown name.
    """
    limits, options, backend = limits or SolverLimits(), options or {}, solver_named(name)
    refuse(backend, program, options, start)
    if (claim := trivial(program)) is not None:
        return judged(program, limits, claim, start)
    child = started(command)
    listener = _Listener(child.answers, program, limits, on_incumbent)
    try:
        listener.start()
        with suppress(OSError):  # the child died; the listener sees the end of its output
            send(child.requests, (name, program, limits, dict(options), start))
        with (stop or Stop()).memory.child(child.process.pid):
            killed = listener.wait(None if limits.time_s is None else limits.time_s + grace_s, stop)
    finally:
        ended(child, listener)
    if listener.refusal is not None:
        raise listener.refusal
    result = listener.result
    if result is not None and (result.x is not None or listener.best is None):
        return result
    if result is not None:
        # The last solution streamed is a candidate too, should the final one fail its check.
        return judged(
            program, limits, Claim(result.status, result.stopped_by, result.message, listener.best, result.bound), start
        )
    stopped_by, reason = StopReason.ERROR, f"ended without a result (exit code {child.process.returncode})"
    if killed is not None:
        stopped_by, reason = killed, KILLED[killed]
    return judged(program, limits, Claim(Status.UNKNOWN, stopped_by, f"{name} {reason}", listener.best), start)


class _Listener(threading.Thread):
    """Reads what the child says until it has ended."""

    def __init__(
        self, stream: IO[bytes], program: LpArrays, limits: SolverLimits, on_incumbent: OnIncumbent | None
    ) -> None:
        super().__init__(daemon=True)
        self._stream, self._program, self._limits, self._on_incumbent = stream, program, limits, on_incumbent
        self.best: Floats | None = None
        self.result: LpResult | None = None
        self.refusal: InputError | None = None

    def run(self) -> None:
        """Thread body."""
        while (message := receive(self._stream)) is not None:
            kind, content = message
            if kind == "incumbent":
                self._take(content)
            elif kind == "result":
                self.result = content
                return
            else:
                self.refusal = InputError(content)
                return

    def wait(self, seconds: float | None, stop: Stop | None) -> StopReason | None:
        """Until the child has ended by itself (None), the seconds are over, or `stop` says that it must end."""
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        while self.is_alive() and (left := deadline - time.monotonic()) > 0:
            if stop is not None and stop.interrupted.is_set():
                return StopReason.INTERRUPTED
            if stop is not None and stop.memory.look():
                return StopReason.MEMORY
            self.join(min(left, _LOOK_S))
        return StopReason.TIME if self.is_alive() else None

    def _take(self, x: Floats) -> None:
        checked = judged(self._program, self._limits, Claim(Status.UNKNOWN, StopReason.TIME, "", x), self.best)
        if checked.x is not None and not checked.from_start:
            self.best = checked.x
            if self._on_incumbent is not None:
                self._on_incumbent(checked.x)
