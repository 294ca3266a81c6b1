"""All commands together: where each is, and what `topoopt --help` says of it; loaded when called."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand

from topoopt.cli.lazy import LazyGroup
from topoopt.console.output import Output
from topoopt.console.terminal import shown
from topoopt.core.errors import InputError

UsageError: Any = typer.BadParameter.__mro__[1]
"""Base of all errors in the arguments; typer has it from click or from a copy of its own, depending on the version."""


@contextlib.contextmanager
def _shown_errors() -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        error.message = shown(error.message)
        raise


class Line(NamedTuple):
    """A command: module and name of its function or group, and its first paragraph of help."""

    module: str
    name: str
    summary: str


COMMANDS: dict[str, Line] = {
    "solve": Line(
        "topoopt.cli.solve",
        "solve",
        "Find a parallelization strategy, a topology and routes of least iteration time; write and check the plan.",
    ),
    "check": Line(
        "topoopt.cli.check",
        "check",
        "Check a solution with code that shares nothing with what made it; exit code 6 if anything is wrong.",
    ),
    "compare": Line(
        "topoopt.cli.compare",
        "compare",
        "Objective, bound, gap to the best and to the best bound, and time of every method on every instance.",
    ),
    "cost": Line(
        "topoopt.analyses.costs.command",
        "cost",
        "Bill of materials of the cluster on every fabric: price, power, optical devices, and rates of equal cost.",
    ),
    "show": Line(
        "topoopt.cli.solutions",
        "show",
        "Show the figures of a solution, computed again from its plan; with --json all of them.",
    ),
    "report": Line("topoopt.cli.solutions", "report", "Write the self-contained HTML report of a solution."),
    "validate": Line("topoopt.cli.files", "validate", "Read instance files and list everything wrong with them."),
    "schema": Line("topoopt.cli.files", "schema", "Print the JSON Schema of instance files."),
    "describe": Line(
        "topoopt.cli.describe",
        "describe",
        "Say what stands in an instance file: every field, what is allowed there, its default and its meaning.",
    ),
    "examples": Line(
        "topoopt.cli.examples",
        "examples",
        "List the instances that come with the package, print one, or copy it with the files that it names.",
    ),
    "init": Line(
        "topoopt.cli.examples",
        "init",
        "Write a first instance of a kind of problem, its fields explained, to be changed.",
    ),
    "methods": Line(
        "topoopt.cli.methods",
        "methods",
        "List the methods for a kind of problem, or for an instance, and which of them do not cover it.",
    ),
    "dump-model": Line(
        "topoopt.cli.dump_model",
        "dump_model",
        "Write the model of an instance in LP or MPS format, its variables and constraints named.",
    ),
    "explain": Line(
        "topoopt.cli.explain",
        "explain",
        "Say what limits a solution, and what more links or capacity would gain; exit code 4 if not all was checked.",
    ),
    "export": Line(
        "topoopt.cli.export",
        "export",
        "Write a solution for another tool, with notes of what that tool cannot express.",
    ),
    "convert": Line(
        "topoopt.cli.solutions",
        "convert",
        "Write a solution file of the release before in the present format, checked.",
    ),
    "evaluate": Line(
        "topoopt.analyses.evaluate.command",
        "evaluate",
        "Time, its parts and memory of one parallelization strategy of a large language model.",
    ),
    "calibrate": Line(
        "topoopt.analyses.calibrate.command",
        "calibrate",
        "Fit the efficiencies of a GPU to measured iterations of language models, judged on runs held back.",
    ),
    "fabrics": Line(
        "topoopt.analyses.fabrics.command",
        "fabrics",
        "Best iteration time of a job on each fabric, with a strategy searched on it.",
    ),
    "replay": Line("topoopt.analyses.replay.command", "replay", "Simulate one iteration of a task graph on a fabric."),
    "resilience": Line(
        "topoopt.analyses.resilience.command",
        "resilience",
        "Evaluate every single failure of a link, a server or an optical switch, and repair it at once and by "
        "re-wiring.",
    ),
    "reconfigure": Line(
        "topoopt.analyses.reconfiguration.command",
        "reconfigure",
        "Time of a job, or of a trace of demands, over the reconfiguration delay: one network, and links set anew.",
    ),
    "doctor": Line(
        "topoopt.cli.doctor",
        "doctor",
        "Print versions and solve a tiny problem with every solver found; exit code 1 if something is broken.",
    ),
    "import": Line("topoopt.cli.import_", "app", "Turn files of other tools into instance files."),
    "study": Line(
        "topoopt.studies.command",
        "app",
        "Batches of runs over instances, methods and seeds: run, resume, compare, report.",
    ),
    "topology": Line("topoopt.analyses.topologies.command", "app", "Topologies on their own."),
    "collective": Line(
        "topoopt.analyses.collective.command",
        "app",
        "Collectives on any network: the best rate and what limits it, schedules of others audited.",
    ),
}


class Commands(LazyGroup):
    """The commands of the table; says errors in the arguments as one JSON object when that was asked for."""

    names: ClassVar = COMMANDS

    @staticmethod
    def load(name: str) -> Callable[..., None] | typer.Typer:
        """The function or group of a command in the table."""
        line = COMMANDS[name]
        found: Callable[..., None] | typer.Typer = getattr(importlib.import_module(line.module), line.name)
        return found

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command that `--help` can name without loading it."""
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name].summary) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called, loaded, and the words after it; arguments as of the base class."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else super().get_command(ctx, name), rest

    def make_context(self, *values: Any, **extra: Any) -> Any:
        """As of the base class; what an error repeats of the arguments is shown, never obeyed by a terminal."""
        with _shown_errors():
            return super().make_context(*values, **extra)

    def invoke(self, ctx: Any) -> Any:
        """As of the base class; errors as above."""
        with _shown_errors():
            return super().invoke(ctx)

    def main(self, *values: Any, **extra: Any) -> Any:
        """Parse and run; arguments as of the base class."""
        given = values[0] if values else extra.get("args")
        words = sys.argv[1:] if given is None else given
        if "--json" not in words or not extra.get("standalone_mode", True):
            return super().main(*values, **extra)
        try:
            code = super().main(*values, **{**extra, "standalone_mode": False})
        except Exception as error:
            if not isinstance(error, UsageError):
                raise
            code = Output.choose(True).fail(InputError(error.format_message()))
        sys.exit(code)


def _version(wanted: bool) -> None:
    if wanted:
        from topoopt import __version__

        typer.echo(f"topoopt {__version__}")
        raise typer.Exit


def start(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version, and no more.")
    ] = False,
) -> None:
    """Before every command: nothing."""


app = typer.Typer(
    name="topoopt",
    cls=Commands,
    help="Co-optimise topology, routing and parallelization strategy of machine-learning training clusters.",
    callback=start,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
