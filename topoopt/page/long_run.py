"""A long run has a memory limit, shows its progress, and keeps its incumbent when signals end it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from solvers.stop import stop_on_signals
from solvers.timing import LateError, Timing, step
from topoopt.core.arrays import SIZES, bytes_of
from topoopt.core.errors import InputError, LimitError, Problem
from topoopt.page.output import Output
from topoopt.page.process import Moment, began

MemoryOption = typer.Option(
    "--memory-limit", help="Resident memory of the run and its solvers together, such as 4GiB or 500MB."
)


def memory_bytes(text: str | None) -> int | None:
    """Bytes of `--memory-limit`.

    Raises:
        InputError: it is no size.
    """
    if text is None:
        return None
    size = bytes_of(text)
    if size is None:
        allowed = f"a number and one of {', '.join(filter(None, SIZES))}"
        raise InputError([Problem("not a size of memory", path="--memory-limit", value=text, allowed=allowed)])
    return size


def counting_bar(output: Output) -> Progress:
    """What is done now, how many of how many, the time, and about how long it will take; on a line that is never wider
    than the terminal, on standard error if that is one."""
    return Progress(
        TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=output.remarks,
        expand=True,
        transient=True,
        disable=not output.remarks.is_terminal,
    )


QUIET_S = 30.0
"""Seconds between lines where standard error is no terminal."""


@contextmanager
def solving_bar(output: Output) -> Iterator[Callable[[str, int, int | None], None]]:
    """The same as a function of what is done, the steps done, and of how many (None: nobody knows); where standard
    error is no terminal, a line every half minute."""
    with counting_bar(output) as bar:
        task = bar.add_task("", total=None)
        last_s = time.monotonic()

        def tell(what: str, done: int, total: int | None) -> None:
            nonlocal last_s
            bar.update(task, description=escape(what), completed=done, total=total)
            if not output.remarks.is_terminal and total is not None and time.monotonic() - last_s >= QUIET_S:
                last_s = time.monotonic()
                output.remarks.print(f"{what}: {done} of {total}", markup=False, highlight=False, soft_wrap=True)

        yield tell


Result = TypeVar("Result")

Tell = Callable[[str, int, int | None], None]


@dataclass
class AttendedRun:
    """A run that is under way.

    Attributes:
        timing: deadline and interrupts.
        began: the start of the program.
        doing: what goes on, for people; None: there is nothing yet that could be kept.
    """

    timing: Timing = field(default_factory=Timing)
    began: Moment = field(default_factory=began)
    doing: str | None = None

    def limit(self, seconds: float | None) -> None:
        """Set the time limit, from the start of the program; None for none."""
        self.timing.limit_s = seconds
        self.timing.stop.deadline = None if seconds is None else self.began.at_s + seconds

    def telling(self, show: Tell) -> Tell:
        """The same, which also remembers what is on_signal."""

        def tell(what: str, done: int, total: int | None) -> None:
            self.doing = what
            show(what, done, total)

        return tell

    def first(self, work: Callable[[], Result]) -> Result:
        """Do what has to come first, such as reading files and loading solvers: there is nothing to keep meanwhile.

        Raises:
            KeyboardInterrupt: a signal came.
            LimitError: the time limit did.
        """
        stop = self.timing.stop
        try:
            return step(work, lambda: stop.interrupted.is_set() or self.timing.nothing_late())
        except LateError:
            if stop.interrupted.is_set():
                raise KeyboardInterrupt from None
            raise LimitError(self.timing.nothing()) from None

    def part(self, work: Callable[[], Result]) -> Result:
        """Do work that looks at the limits itself, or leave it: on the second signal, and in the last moment.

        Raises:
            KeyboardInterrupt: the second signal came, or the first before there was anything to keep.
            LimitError: the time limit or that of memory did.
        """
        stop = self.timing.stop
        if stop.memory.look():
            raise LimitError(self.timing.nothing())
        try:
            with stop.memory.refused():
                return step(work, lambda: stop.memory.look() or self.timing.past_the_end())
        except LimitError:
            if stop.interrupted.is_set():
                raise KeyboardInterrupt from None
            raise
        except (LateError, MemoryError) as error:
            if stop.interrupted.is_set():
                raise KeyboardInterrupt from None
            if isinstance(error, MemoryError):
                self.timing.out_of_memory()
            raise LimitError(self.timing.nothing()) from None

    def patient(self, work: Callable[[], Result]) -> Result:
        """Do work that ends by itself soon after the limit, with what it has then; only the second signal leaves it.

        Raises:
            KeyboardInterrupt: that came, or the first before there was anything to keep.
        """
        try:
            return step(work, self.timing.stop.second_interrupt.is_set)
        except LateError:
            raise KeyboardInterrupt from None
        except LimitError:
            if self.timing.stop.interrupted.is_set():
                raise KeyboardInterrupt from None
            raise


@contextmanager
def attended(
    output: Output, time_limit_s: float | None, memory_limit_bytes: int | None = None
) -> Iterator[AttendedRun]:
    """Look after signals and say so at once on standard error.

    Args:
        output: of the command.
        time_limit_s: of the run from the start of the program; None for none.
        memory_limit_bytes: of the run and its solvers; None for none.
    """
    run = AttendedRun()

    def on_signal(signals: int) -> None:
        if run.doing is None:
            return
        doing = run.doing.split(":", 1)[0]
        text = f"finishing: {doing}; Ctrl-C again to stop with what is there" if signals == 1 else "stopping"
        os.write(2, f"\n{text}\n".encode())  # a handler of signals must not wait for a lock of the console

    with stop_on_signals(None, two_stage=True, notify=on_signal) as stop:
        run.timing.stop, run.timing.cpu_began_s = stop, run.began.cpu_s
        run.limit(time_limit_s)
        stop.memory.limit_bytes = memory_limit_bytes
        yield run
