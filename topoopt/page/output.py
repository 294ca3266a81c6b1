"""A command writes tables for people, or one JSON object for programs; control characters are shown, never obeyed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.text import Text

from topoopt.core.errors import CheckError, InfeasibleError, InputError, MachineError, TopooptError, is_of_machine
from topoopt.core.process import (
    INTERRUPTED,
    end_if_interrupted,
    hold_interrupts,
    interrupted_document,
    is_pending,
    quiet,
    raise_on_interrupt,
)
from topoopt.core.proofs import Status, StopReason

if TYPE_CHECKING:
    from topoopt.core.result import CheckResult


_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters (ECMA-48, sets C0 and C1) but tab and line feed; marks that turn the direction of text."""


def shown(text: str) -> str:
    """The text with what a terminal would obey written out: `\\x1b`."""
    return _OBEYED.sub(lambda match: ascii(match[0])[1:-1], text)


class SafeConsole(Console):
    """A console for text of unknown origin; colours and positions are its own alone."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Text of a string, its control characters shown."""
        return super().render_str(shown(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments of anything; what was made of strings elsewhere is looked through as well."""
        for segment in super().render(renderable, options):
            if segment.control or not _OBEYED.search(segment.text):
                yield segment
            else:
                yield Segment(shown(segment.text), segment.style)


def say(console: Console, *lines: str, notes: Iterable[str] = (), written: Iterable[Path | str | None] = ()) -> None:
    """Print lines as they stand, then notes, then the files that were written."""
    files = (f"written: {file}" for file in written if file is not None)
    for line in (*lines, *(f"note: {note}" for note in notes), *files):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


EXIT_OF_STOP = {StopReason.TIME: 4, StopReason.MEMORY: 4, StopReason.INTERRUPTED: INTERRUPTED}
"""Exit codes of a run that ended early with a plan; all others are 0."""


CLAIMED = 8
"""Exit code where nothing is wrong, and the value or the bound rests on what was not recomputed."""


@dataclass(frozen=True)
class Output:
    """Output of one command.

    Attributes:
        as_json: one JSON object on standard output instead of text.
        console: for text meant for people (standard error when `as_json`).
        errors: standard error, for errors alone.
        remarks: standard error, for progress and what else people may want to know meanwhile.
    """

    as_json: bool
    console: Console
    errors: Console
    remarks: Console

    @staticmethod
    def choose(as_json: bool) -> Output:
        """Text on standard output, or JSON there and text on standard error; errors alone with `--quiet`."""
        errors = SafeConsole(stderr=True)
        remarks = SafeConsole(quiet=True) if quiet() else errors
        return Output(as_json, remarks if as_json or quiet() else SafeConsole(), errors, remarks)

    def result(self, document: Mapping[str, Any], show: Callable[[Console], None], answer: str = "") -> None:
        """Print the outcome: `document` as JSON, or whatever `show` prints.

        Args:
            document: plain data.
            show: prints what people read.
            answer: one sentence that answers the question, before all else; empty where nothing was asked.
        """
        end_if_interrupted()
        if self.as_json:
            self._print_json({"answer": answer, **document} if answer else document)
        else:
            with _standard_output():
                if answer:
                    self.console.print(answer, markup=False, highlight=False)
                show(self.console)
                sys.stdout.flush()

    def run(self, command: Callable[[], int]) -> None:
        """Run a command and leave with its exit code; errors become messages, never tracebacks."""
        try:
            code = self._heeding(command)
        except BrokenPipeError:  # the reader of our output went away: nothing left to say
            _silence_stdout()
            code = 1
        except _StandardOutputError as error:
            _silence_stdout()
            self.say_error(f"standard output cannot be written: {error.cause.strerror or error.cause}")
            code = MachineError.exit_code if is_of_machine(error.cause) else InputError.exit_code
        raise typer.Exit(code)

    def _heeding(self, command: Callable[[], int]) -> int:
        """The same code, or that of an interrupt, also of one that came too late to end anything."""
        try:
            raise_on_interrupt()
            code = self._guarded(command)
            return INTERRUPTED if hold_interrupts() and code == 0 else code
        except KeyboardInterrupt:
            hold_interrupts()
            if self.as_json:
                self._print_json(interrupted_document())
            self.errors.print("interrupted")
            return INTERRUPTED

    def _guarded(self, command: Callable[[], int]) -> int:
        try:
            return self._undisguised(command)
        except TopooptError as error:
            return self.fail(error)
        except MemoryError:
            return self.fail(TopooptError("out of memory"))
        except BrokenPipeError:
            raise
        except OSError as error:
            where = "" if error.filename is None else f"{error.filename}: "
            kind = MachineError if is_of_machine(error) else TopooptError
            return self.fail(kind(f"{where}{error.strerror or error}"))

    def _undisguised(self, command: Callable[[], int]) -> int:
        """The code of a command; what compiled code made of an interrupt is one again."""
        try:
            return command()
        except Exception:  # any: compiled code makes what it likes of an interrupt; raised again if none is pending
            if is_pending():
                raise KeyboardInterrupt from None
            raise

    def fail(self, error: TopooptError, columns: Mapping[str, Any] | None = None) -> int:
        """Say what was wrong: every problem on its own line, and in the JSON object, with what else is `columns`.

        Returns:
            The exit code of the error.
        """
        problems = error.problems if isinstance(error, InputError) else ()
        if self.as_json:
            self._print_json(
                {
                    **(columns or {}),
                    "status": Status.INFEASIBLE if error.exit_code == InfeasibleError.exit_code else Status.UNKNOWN,
                    "stopped_by": StopReason.ERROR,
                    "exit_code": error.exit_code,
                    "error": str(error),
                    "problems": [asdict(problem) for problem in problems],
                }
            )
        for line in str(error).splitlines():
            self.say_error(line)
        return error.exit_code

    def exit_code(self, check: CheckResult, stopped_by: StopReason, *, searched: bool = True) -> int:
        """The exit code of a run that found something; says what the checker rejects, where it `searched` itself.

        A limit that ended the search counts before what is only claimed.
        """
        if not check.ok:
            for line in ("the checker rejects the solution:", *check.violations) if searched else ():
                self.say_error(line)
            return CheckError.exit_code
        ended = EXIT_OF_STOP.get(stopped_by, 0) if searched else 0
        return ended or (CLAIMED if check.claimed else 0)

    def say_error(self, line: str) -> None:
        """One line of an error for people; lost where standard error takes nothing either."""
        with contextlib.suppress(OSError):
            self.errors.print(f"[bold red]error[/] {escape(line)}", highlight=False, soft_wrap=True)

    def _print_json(self, document: Mapping[str, Any]) -> None:
        text = json.dumps(document, indent=2, allow_nan=False) + "\n"
        with _standard_output():
            sys.stdout.write(text)
            sys.stdout.flush()


class _StandardOutputError(Exception):
    """Standard output takes nothing, so nothing more can be said there."""

    def __init__(self, cause: OSError) -> None:
        self.cause = cause
        super().__init__(str(cause))


@contextlib.contextmanager
def _standard_output() -> Iterator[None]:
    """What is written in here goes to standard output: its errors are not those of a file."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None:
            raise
        raise _StandardOutputError(error) from None


def _silence_stdout() -> None:
    """Send what is still buffered nowhere, or the interpreter would stumble over it again when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
