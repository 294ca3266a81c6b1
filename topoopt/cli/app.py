"""All commands together: where each is, its help, examples and completions; a command is loaded when it is called."""

from __future__ import annotations

import contextlib
import importlib
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from topoopt.core.errors import InputError
from topoopt.page.output import Output, shown
from topoopt.page.process import be_quiet, be_verbose

EXAMPLES: dict[str, tuple[str, ...]] = {
    "solve": (
        "topoopt solve candle-16.yaml",
        "topoopt solve candle-16.yaml --budget 500 --seed 1 --out out/candle",
        "topoopt solve dlrm-128.yaml --jobs 8 --executor slurm --executor-option partition=short",
        "topoopt solve uniform-8-2.yaml --method exact --time-limit 60 --json",
        "topoopt solve uniform-5-2.yaml --solver gurobi --model-hook my_constraints.py",
    ),
    "check": ("topoopt check out/candle-16/solution.json", "topoopt check candle-16.yaml out/candle-16/solution.json"),
    "compare": ("topoopt compare uniform-8-2.yaml --methods exact,portfolio,kautz --csv methods.csv",),
    "cost": (
        "topoopt cost candle-16.yaml",
        "topoopt cost --servers 128 --degree 4 --rate 100 --csv prices.csv",
    ),
    "show": ("topoopt show out/candle-16/solution.json", "topoopt show out/candle-16/solution.json --json"),
    "report": ("topoopt report out/candle-16/solution.json",),
    "convert": ("topoopt convert old/solution.json -o out/solution.json",),
    "validate": ("topoopt validate my-job.yaml", "topoopt validate instances/*.yaml"),
    "schema": ("topoopt schema topology",),
    "describe": ("topoopt describe topology", "topoopt describe co-optimisation cluster.degree"),
    "examples": (
        "topoopt examples",
        "topoopt examples candle-16 -o my-job.yaml",
        "topoopt examples -o instances",
    ),
    "init": ("topoopt init topology", "topoopt init co-optimisation -o my-job.yaml"),
    "methods": ("topoopt methods topology", "topoopt methods my-job.yaml"),
    "dump-model": (
        "topoopt dump-model --list",
        "topoopt dump-model uniform-5-2.yaml --formulation joint_topology -o model.lp",
    ),
    "explain": ("topoopt explain out/uniform-8-2/solution.json --more 1",),
    "export": (
        "topoopt export --list",
        "topoopt export out/candle-16/solution.json --to patch-list --out patches",
    ),
    "evaluate": (
        "topoopt evaluate llama3-70b-64.yaml --tensor 8 --pipeline 2 --data 4 --micro-batch 1",
        "topoopt evaluate llama3-70b-64.yaml --tensor 8 --pipeline 4",
    ),
    "calibrate": ("topoopt calibrate a100.yaml --measured runs-a100.csv",),
    "fabrics": ("topoopt fabrics candle-16.yaml --fabrics fat-tree,ideal-switch --budget 500",),
    "replay": ("topoopt replay graph.fbuf --fabric ideal-switch --link-gbps 100",),
    "resilience": (
        "topoopt resilience out/uniform-8-2/solution.json --csv failures.csv",
        "topoopt resilience out/llama3-70b-64/solution.json --days 349 --spares 0,2,4",
    ),
    "reconfigure": ("topoopt reconfigure candle-16.yaml --delays 10us,1ms,10ms",),
    "doctor": ("topoopt doctor",),
    "import flexnet-profile": ("topoopt import flexnet-profile profile.json --model dlrm -o job.yaml",),
    "import flexnet-taskgraph": ("topoopt import flexnet-taskgraph graph.fbuf -o job.yaml",),
    "import chakra": ("topoopt import chakra traces/ --as co-optimisation --peak-tflops 312 -o job.yaml",),
    "import astrasim-network": ("topoopt import astrasim-network network.yml -o network.yaml",),
    "import libra": (
        "topoopt import libra --network net.csv --cost-model cost.csv --workload gpt3.csv --total-gbytes-per-s 500",
    ),
    "import dnn-partitioning": ("topoopt import dnn-partitioning graph.json --objective throughput -o place.yaml",),
    "import msccl": ("topoopt import msccl allreduce.xml --link-gbytes-per-s 25 -o schedule.yaml",),
    "import mscclpp": ("topoopt import mscclpp plan.json --link-gbytes-per-s 25 -o schedule.yaml",),
    "import astrasim-collective": ("topoopt import astrasim-collective trace.et --link-gbytes-per-s 25 -o c.yaml",),
    "import sccl": ("topoopt import sccl algorithm.json --chunk-gbytes-per-s 25 -o schedule.yaml",),
    "import teccl": ("topoopt import teccl schedule.json -o schedule.yaml",),
    "import expert-split": ("topoopt import expert-split gnmt-inference.json solution.json -o expert.json",),
    "import job": ("topoopt import job candle-16.yaml --objective throughput -o placement.yaml",),
    "study validate": ("topoopt study validate instances/studies/totient-diameter.yaml",),
    "study run": (
        "topoopt study run instances/studies/totient-diameter.yaml --out out/totient --jobs 2",
        "topoopt study run instances/studies/totient-diameter.yaml --out out/totient --again 3fa9",
    ),
    "study report": ("topoopt study report out/totient",),
    "topology totient": ("topoopt topology totient --servers 12 --degree 4",),
    "topology metrics": ("topoopt topology metrics --family generalized-kautz --servers 16 --degree 4",),
    "topology traffic": ("topoopt topology traffic out/candle-16/solution.json --plot traffic.html",),
    "collective bound": ("topoopt collective bound 'preset: dgx-a100, boxes: 2'",),
    "collective audit": ("topoopt collective audit allreduce.xml --format msccl",),
    "collective job": ("topoopt collective job candle-16.yaml out/candle-16/solution.json",),
    "collective switch": ('topoopt collective switch --ranks 64 --bytes "100 MB"',),
    "collective find": ("topoopt collective find --servers 12 --degree 4",),
}
"""By command; each line stands alone."""


class LazyGroup(TyperGroup):
    """Commands known by name until one is called, or shown by `--help`.

    Attributes:
        names: of the commands, in the order of `--help`.
        path: words before them, after `topoopt`.
    """

    names: ClassVar[Iterable[str]]
    path: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    @abstractmethod
    def load(name: str) -> Callable[..., None] | typer.Typer:
        """The function of a command, or the group below it."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        self.commands = {name: TyperCommand(name) for name in self.names}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name, None if there is none; arguments as of the base class."""
        return as_command((*self.path, cmd_name), self.load(cmd_name)) if cmd_name in self.commands else None


def as_command(path: tuple[str, ...], command: Callable[..., None] | typer.Typer) -> Any:
    """A function as the one command of an application, a group as it is; with what all commands have.

    Args:
        path: its name, after the groups above it.
        command: function or group.
    """
    if isinstance(command, typer.Typer):
        return _finished(path, get_group(command))
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
    alone.command(path[-1])(command)
    return _finished(path, get_command(alone))


def _finished(path: tuple[str, ...], command: Any) -> Any:
    """Add `--quiet` and `--verbose`, examples below the help, and let paragraphs fill the width they have."""
    command.help = "\n\n".join(_joined(part) for part in (command.help or "").split("\n\n"))
    if isinstance(command, LazyGroup):
        return command
    if isinstance(command, TyperGroup):
        for name, child in command.commands.items():
            _finished((*path, name), child)
        return command
    last = _last_option(command.params)
    command.params[last:last] = _shared_options()
    examples = EXAMPLES.get(" ".join(path))
    if examples is not None:
        command.epilog = "\n\n".join(("[bold]Examples[/]", *(f"  {line}".replace("[", "\\[") for line in examples)))
    return command


def _joined(paragraph: str) -> str:
    return paragraph if paragraph.startswith("\b") else " ".join(paragraph.split())


def _last_option(params: list[Any]) -> int:
    """Before `--help`, where that is already one of the options."""
    return next((i for i, param in enumerate(params) if "--help" in param.opts), len(params))


def _shared_options() -> list[Any]:
    """The options as typer makes them of a function: their class has no public constructor."""
    alone = typer.Typer(add_completion=False)

    @alone.command()
    def carrier(
        quiet: Annotated[
            bool,
            typer.Option(
                "--quiet",
                "-q",
                callback=be_quiet,
                expose_value=False,
                is_eager=True,
                help="Print nothing but errors, and the object of --json.",
            ),
        ] = False,
        verbose: Annotated[
            bool,
            typer.Option(
                "--verbose",
                "-v",
                callback=be_verbose,
                expose_value=False,
                is_eager=True,
                help="Print every table in full.",
            ),
        ] = False,
    ) -> None: ...

    return get_command(alone).params[:2]


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
        "topoopt.analyses.costs",
        "cost",
        "Bill of materials of the cluster on every fabric: price, power, optical devices, and rates of equal cost.",
    ),
    "show": Line(
        "topoopt.cli.solve",
        "show",
        "Show the figures of a solution, computed again from its plan; with --json all of them.",
    ),
    "report": Line("topoopt.cli.solve", "report", "Write the self-contained HTML report of a solution."),
    "validate": Line("topoopt.cli.files", "validate", "Read instance files and list everything wrong with them."),
    "schema": Line("topoopt.cli.files", "schema", "Print the JSON Schema of instance files."),
    "describe": Line(
        "topoopt.cli.files",
        "describe",
        "Say what stands in an instance file: every field, what is allowed there, its default and its meaning.",
    ),
    "examples": Line(
        "topoopt.cli.files",
        "examples",
        "List the instances that come with the package, print one, or copy it with the files that it names.",
    ),
    "init": Line(
        "topoopt.cli.files",
        "init",
        "Write a first instance of a kind of problem, its fields explained, to be changed.",
    ),
    "methods": Line(
        "topoopt.cli.methods",
        "methods",
        "List the methods for a kind of problem, or for an instance, and which of them do not cover it.",
    ),
    "dump-model": Line(
        "topoopt.cli.methods",
        "dump_model",
        "Write the model of an instance in LP or MPS format, its variables and constraints named.",
    ),
    "explain": Line(
        "topoopt.cli.check",
        "explain",
        "Say what limits a solution, and what more links or capacity would gain; exit code 4 if not all was checked.",
    ),
    "export": Line(
        "topoopt.cli.export",
        "export",
        "Write a solution for another tool, with notes of what that tool cannot express.",
    ),
    "convert": Line(
        "topoopt.cli.solve",
        "convert",
        "Write a solution file of the release before in the present format, checked.",
    ),
    "evaluate": Line(
        "topoopt.analyses.evaluate",
        "evaluate",
        "Time, its parts and memory of one parallelization strategy of a large language model.",
    ),
    "calibrate": Line(
        "topoopt.analyses.calibrate",
        "calibrate",
        "Fit the efficiencies of a GPU to measured iterations of language models, judged on runs held back.",
    ),
    "fabrics": Line(
        "topoopt.analyses.fabrics",
        "fabrics",
        "Best iteration time of a job on each fabric, with a strategy searched on it.",
    ),
    "replay": Line("topoopt.analyses.replay", "replay_command", "Simulate one iteration of a task graph on a fabric."),
    "resilience": Line(
        "topoopt.analyses.resilience",
        "resilience",
        "Evaluate every single failure of a link, a server or an optical switch, and repair it at once and by "
        "re-wiring.",
    ),
    "reconfigure": Line(
        "topoopt.analyses.reconfiguration",
        "reconfigure",
        "Time of a job, or of a trace of demands, over the reconfiguration delay: one network, and links set anew.",
    ),
    "doctor": Line(
        "topoopt.cli.methods",
        "doctor",
        "Print versions and solve a tiny problem with every solver found; exit code 1 if something is broken.",
    ),
    "import": Line("topoopt.cli.import_", "app", "Turn files of other tools into instance files."),
    "study": Line(
        "topoopt.studies.command",
        "app",
        "Batches of runs over instances, methods and seeds: run, resume, compare, report.",
    ),
    "topology": Line("topoopt.analyses.topologies", "app", "Topologies on their own."),
    "collective": Line(
        "topoopt.analyses.collective",
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
        loaded: Callable[..., None] | typer.Typer = getattr(importlib.import_module(line.module), line.name)
        return loaded

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


def command_line(arguments: list[str]) -> int:
    """`topoopt` with these arguments; the exit code."""
    from topoopt.page.process import begin

    begin()
    sys.argv = ["topoopt", *arguments]
    try:
        app(args=arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    return 0


def _beginning(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def complete_kind(incomplete: str) -> list[str]:
    """Kinds of problems that are solved."""
    from topoopt.kinds import KINDS

    return _beginning(KINDS, incomplete)


def complete_template(incomplete: str) -> list[str]:
    """Kinds of instance files."""
    from topoopt.kinds import TEMPLATES

    return _beginning(TEMPLATES, incomplete)


def complete_example(incomplete: str) -> list[str]:
    """Names of shipped instances."""
    from topoopt.files.untrusted import shipped_files

    return _beginning((file.name for file in shipped_files()), incomplete)


def complete_target(incomplete: str) -> list[str]:
    """Formats that solutions are exported to."""
    from topoopt.formats.table import EXPORTERS

    return _beginning(EXPORTERS, incomplete)


def complete_formulation(incomplete: str) -> list[str]:
    """Formulations that can be written."""
    from formulations.table import FORMULATIONS

    return _beginning(FORMULATIONS, incomplete)


def complete_solver(incomplete: str) -> list[str]:
    """Solvers by name, whether they are found or not."""
    from solvers.backends.table import FOREIGN, SOLVERS

    return _beginning((*SOLVERS, *FOREIGN), incomplete)
