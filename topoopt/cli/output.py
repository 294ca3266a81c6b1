"""Where a command writes: people read tables, programs read one JSON object on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

from topoopt.core.errors import InputError, TopooptError

JsonOption = typer.Option("--json", help="Print one JSON object on standard output, all else on standard error.")


@dataclass(frozen=True)
class Output:
    """Output of one command.

    Attributes:
        as_json: one JSON object on standard output instead of text.
        console: for text meant for people (standard error when `as_json`).
        errors: standard error.
    """

    as_json: bool
    console: Console
    errors: Console

    @staticmethod
    def choose(as_json: bool) -> Output:
        """Text on standard output, or JSON there and text on standard error."""
        errors = Console(stderr=True)
        return Output(as_json, errors if as_json else Console(), errors)

    def result(self, document: dict[str, Any], show: Callable[[Console], None]) -> None:
        """Print the outcome: `document` as JSON, or whatever `show` prints."""
        if self.as_json:
            sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
            sys.stdout.flush()
        else:
            show(self.console)

    def run(self, command: Callable[[], int]) -> None:
        """Run a command and leave with its exit code; errors become messages, never tracebacks."""
        try:
            code = command()
        except TopooptError as error:
            self.fail(error)
            code = error.exit_code
        except KeyboardInterrupt:
            self.errors.print("interrupted")
            code = 130
        except BrokenPipeError:  # the reader of our output went away; nothing left to say
            sys.stderr.close()
            code = 1
        raise typer.Exit(code)

    def fail(self, error: TopooptError) -> None:
        """Say what was wrong: every problem on its own line, and in the JSON object."""
        problems = error.problems if isinstance(error, InputError) else ()
        if self.as_json:
            document = {
                "status": "error",
                "exit_code": error.exit_code,
                "error": str(error),
                "problems": [asdict(problem) for problem in problems],
            }
            sys.stdout.write(json.dumps(document, indent=2) + "\n")
        for line in str(error).splitlines():
            self.errors.print(f"[bold red]error[/] {escape(line)}", highlight=False, soft_wrap=True)
