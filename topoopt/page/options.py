"""The options that several commands have: one type, one unit and one text for each name."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from solvers.stop import stop_on_signals
from solvers.timing import LateError, Timing, step
from topoopt.core.arrays import SIZES, bytes_of
from topoopt.core.errors import InputError, LimitError, Problem, raise_any
from topoopt.core.process import Moment, began
from topoopt.page.output import Output, say

MAX_SEED = 2**63 - 1


def complete_from(words: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """A completion of the shell: the words that begin with what is typed so far."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words() if word.startswith(incomplete)]

    return complete


Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output, all else on standard error.")
]
OutputOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="File or folder to write; where there are several sorts, the ending says which. May be repeated.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
Listed = Annotated[bool, typer.Option("--list", help="List what can be named here.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting, or several parted by commas. May be repeated."),
]
TimeLimit = Annotated[
    float | None, typer.Option(min=0.0, help="Seconds of a run from its start; what is there by then is kept.")
]
MemoryLimit = Annotated[
    str | None, typer.Option(help="Resident memory of a run and its solvers together, such as 4GiB or 500MB.")
]
Seed = Annotated[
    int | None,
    typer.Option(min=0, max=MAX_SEED, help="Seed of everything random; default: of the instance, or 0."),
]
Budget = Annotated[
    int | None, typer.Option(min=0, max=10**12, help="Proposals of the search in all; results are reproducible then.")
]
Method = Annotated[str | None, typer.Option(help="Name of a method: `topoopt describe INSTANCE` lists them.")]
Jobs = Annotated[
    int | None, typer.Option(min=1, max=4096, help="Parts or runs at the same time; results stay the same.")
]
Executor = Annotated[
    str | None,
    typer.Option(
        help="Who does the parts or runs: local, slurm, dask, or MODULE:CALLABLE for a concurrent.futures.Executor."
    ),
]
ExecutorSettings = Annotated[
    list[str] | None, typer.Option("--executor-option", help="KEY=VALUE for the executor. May be repeated.")
]
Prices = Annotated[Path | None, typer.Option(help="Price book (YAML or JSON); 2023 (default) and h200 are shipped.")]
Fabrics = Annotated[str | None, typer.Option(help="Networks or schemes by name, parted by commas.")]
Fabric = Annotated[str | None, typer.Option(help="Of llm-training: the plan on this fabric.")]
Delays = Annotated[
    str | None,
    typer.Option(
        help="Durations to set circuits, parted by commas, or devices: tunable-lasers, silicon-photonics, rotornet, "
        "2d-mems, 3d-mems, patch-panel."
    ),
]
Servers = Annotated[int | None, typer.Option(min=1, max=10_000_000, help="Number of servers n.")]
Degree = Annotated[int | None, typer.Option(min=1, max=64, help="Interfaces per server d.")]
Links = Annotated[str, typer.Option(help="bidirectional or unidirectional.")]
LinkGbps = Annotated[float | None, typer.Option(min=1e-6, max=1e6, help="Rate of a link or interface, Gbit/s.")]
Bytes = Annotated[
    str | None,
    typer.Option(
        "--bytes",
        help="Size of the whole vector with its unit, like 1MB. A table takes several, parted by commas, and ranges: "
        "1MB:8GB doubles up to the last, 1MB:8GB:4 takes four times the one before.",
    ),
]
Collective = Annotated[str | None, typer.Option(help="Name of a collective, like allreduce or all-to-all.")]


def settings_of(
    words: Sequence[str] | None, allowed: Iterable[str] | None = None, *, option: str = "--set"
) -> dict[str, str]:
    """Settings by their keys, whose words are joined by underscores.

    Args:
        words: of the option.
        allowed: keys; None: any.
        option: its name.

    Raises:
        InputError: every word that is no setting, every unknown key, every key that is given twice.
    """
    keys = None if allowed is None else tuple(allowed)
    settings: dict[str, str] = {}
    problems: list[Problem] = []
    for word in (part for text in words or () for part in re.split(r",(?=[\w.-]+=)", text)):
        name, sign, value = word.partition("=")
        key = name.strip().replace("-", "_")
        if not sign or not key or not value.strip():
            problems.append(Problem("not a setting", path=option, value=word, allowed="KEY=VALUE"))
        elif key in settings:
            problems.append(Problem("set twice", path=f"{option} {key}", value=value.strip()))
        elif keys is not None and key not in keys:
            message = ", ".join(keys) or "no settings"
            problems.append(Problem("no such setting", path=option, value=name.strip(), allowed=message))
        settings.setdefault(key, value.strip())
    raise_any(problems)
    return settings


def typed_settings(settings: Mapping[str, str], types: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as values of the types of their keys.

    Raises:
        InputError: every value that its type refuses.
    """
    from pydantic import TypeAdapter, ValidationError

    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for key, text in settings.items():
        try:
            values[key] = TypeAdapter(types[key]).validate_python(text)
        except ValidationError as error:
            problems.append(Problem("wrong value", path=f"--set {key}", value=text, allowed=error.errors()[0]["msg"]))
    raise_any(problems)
    return values


def size_of(text: str, option: str = "--bytes") -> int:
    """Bytes of a size with its unit.

    Raises:
        InputError: it is no size, or not of whole bytes.
    """
    from topoopt.core.arrays import SIZES, bytes_of

    size = bytes_of(text)
    if size is None:
        allowed = f"a number and one of {', '.join(filter(None, SIZES))}"
        raise InputError([Problem("not a size", path=option, value=text, allowed=allowed)])
    return size


MOST_SIZES = 64
"""Sizes that a range may have."""


def sizes_of(text: str, option: str = "--bytes") -> tuple[int, ...]:
    """Bytes of sizes and of ranges of sizes, ascending and each once.

    Args:
        text: `1MB`, `1MB,64MB`, `1MB:8GB` (each twice the one before) or `1MB:8GB:4` (four times).

    Raises:
        InputError: no size, a range that falls or has more than `MOST_SIZES` sizes, a factor that is no whole number
            above 1.
    """
    sizes: set[int] = set()
    for part in text.split(","):
        ends = part.strip().split(":")
        bounds = [size_of(end, option) for end in ends[:2]]
        factor = int(ends[2]) if len(ends) == 3 and ends[2].isdecimal() else 2 * (len(ends) < 3)
        if len(ends) > 3 or factor < 2 or bounds[0] > bounds[-1] or bounds[-1] > bounds[0] * factor**MOST_SIZES:
            allowed = f"FIRST:LAST or FIRST:LAST:FACTOR, at most {MOST_SIZES} sizes that rise by a whole factor above 1"
            raise InputError([Problem("not a range of sizes", path=option, value=part.strip(), allowed=allowed)])
        size = bounds[0]
        while size < bounds[-1]:
            sizes.add(size)
            size *= factor
        sizes.add(bounds[-1])
    return tuple(sorted(sizes))


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
                say(output.remarks, f"{what}: {done} of {total}")

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
