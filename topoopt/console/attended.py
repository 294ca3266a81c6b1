"""A long run at the command line: what it does at the moment, signals, and kernels that are compiled meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from solvers.stop import Stop, stop_on_signals
from topoopt.console.output import Output
from topoopt.simulate.compilation import heard

Tell = Callable[[str, int, int | None], None]


@dataclass
class AttendedRun:
    """A run that is under way.

    Attributes:
        stop: deadline and interrupts.
        doing: what goes on, for people.
    """

    stop: Stop
    doing: str = "start"

    def telling(self, show: Tell) -> Tell:
        """The same, which also remembers what is told."""

        def tell(what: str, done: int, total: int | None) -> None:
            self.doing = what
            show(what, done, total)

        return tell


@contextmanager
def attended(output: Output, time_limit_s: float | None, began: float) -> Iterator[AttendedRun]:
    """Look after signals and say so at once on standard error; say when kernels are compiled.

    Args:
        output: of the command.
        time_limit_s: of the run, without the time of the compiler; None for none.
        began: `time.monotonic()` when it was asked for.
    """
    run = AttendedRun(Stop())
    compiling: list[float] = []

    def told(signals: int) -> None:
        doing = run.doing.split(":", 1)[0]
        text = f"finishing: {doing}; Ctrl-C again to stop with what is there" if signals == 1 else "stopping"
        os.write(2, f"\n{text}\n".encode())  # a handler of signals must not wait for a lock of the console

    def compiler_began() -> None:
        if not compiling:
            output.errors.print("compiling kernels, once: up to a minute or two", highlight=False)
        compiling.append(time.monotonic())

    with stop_on_signals(None, hurries=True, told=told) as stop:
        run.stop = stop
        if time_limit_s is not None:
            stop.deadline = began + time_limit_s
        with heard(compiler_began, lambda: None):
            yield run
    if compiling:
        text = f"kernels compiled in {stop.clock.halted_s:.1f} s, which do not count against the time limit"
        output.errors.print(text, highlight=False)
