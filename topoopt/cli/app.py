"""All commands together: where each is, its help, examples and completions; a command is loaded when it is called."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from topoopt.core.errors import InputError
from topoopt.core.process import be_quiet, be_verbose
from topoopt.page.output import Output, shown


class Line(NamedTuple):
    """A command.

    Attributes:
        group: its heading in `topoopt --help`, or that of the group that it is in.
        target: module and function.
        summary: first paragraph of its help.
        examples: command lines, each of which stands alone.
    """

    group: str
    target: str
    summary: str
    examples: tuple[str, ...]


COMMANDS: dict[str, Line] = {
    "init": Line(
        "Start",
        "topoopt.cli.files:init",
        "Write a first instance: a shipped example with the files that it names, or the template of a kind.",
        (
            "topoopt init --list",
            "topoopt init candle-16",
            "topoopt init topology -o my-network.yaml",
            "topoopt init -o instances",
        ),
    ),
    "describe": Line(
        "Start",
        "topoopt.cli.describe:describe",
        "Describe a kind of problem, a field of its files, the methods for an instance, or a family of topologies.",
        (
            "topoopt describe topology",
            "topoopt describe co-optimisation cluster.degree",
            "topoopt describe my-job.yaml",
            "topoopt describe topology --schema",
            "topoopt describe topology totient --servers 12 --degree 4 -o totient.svg",
        ),
    ),
    "validate": Line(
        "Start",
        "topoopt.cli.files:validate",
        "Read instance files and list everything wrong with them.",
        ("topoopt validate my-job.yaml", "topoopt validate instances/*.yaml"),
    ),
    "doctor": Line(
        "Start",
        "topoopt.cli.describe:doctor",
        "Print versions and solve a tiny problem with every solver found; exit code 1 if something is broken.",
        ("topoopt doctor",),
    ),
    "solve": Line(
        "Solve",
        "topoopt.cli.solve:solve",
        "Find a parallelization strategy, a topology and routes of least iteration time; write and check the plan.",
        (
            "topoopt solve candle-16.yaml",
            "topoopt solve candle-16.yaml --budget 500 --seed 1 -o out/candle",
            "topoopt solve dlrm-128.yaml --jobs 8 --executor slurm --executor-option partition=short",
            "topoopt solve uniform-8-2.yaml --method exact --time-limit 60 --json",
            "topoopt solve uniform-5-2.yaml --set solver=gurobi,model_hook=my_constraints.py",
        ),
    ),
    "check": Line(
        "Solve",
        "topoopt.cli.check:check",
        "Check a solution with code that shares nothing with what made it; exit code 6 if anything is wrong.",
        (
            "topoopt check out/candle-16/solution.json",
            "topoopt check candle-16.yaml out/candle-16/solution.json",
        ),
    ),
    "show": Line(
        "Solve",
        "topoopt.cli.solve:show",
        "Show the figures of a solution, computed again from its plan; with --json all of them.",
        ("topoopt show out/candle-16/solution.json", "topoopt show out/candle-16/solution.json --json"),
    ),
    "explain": Line(
        "Solve",
        "topoopt.cli.check:explain",
        "Say what limits a solution, and what more links or capacity would gain; exit code 4 if not all was checked.",
        ("topoopt explain out/uniform-8-2/solution.json --set more=1",),
    ),
    "report": Line(
        "Solve",
        "topoopt.cli.check:report",
        "Write the self-contained HTML report of a solution.",
        (
            "topoopt report out/candle-16/solution.json",
            "topoopt report out/candle-16/solution.json -o candle.html -o traffic.csv",
            "topoopt report dlrm-16.yaml --set selection=flexnet",
        ),
    ),
    "compare": Line(
        "Ask",
        "topoopt.cli.compare:compare",
        "Compare methods on instances, or with --fabrics the networks that a job could run on.",
        (
            "topoopt compare uniform-8-2.yaml --methods exact,portfolio,kautz -o methods.csv",
            "topoopt compare candle-16.yaml --fabrics fat-tree,ideal-switch --budget 500",
        ),
    ),
    "cost": Line(
        "Ask",
        "topoopt.analyses.costs:cost",
        "Bill of materials of the cluster on every fabric: price, power, optical devices, and rates of equal cost.",
        (
            "topoopt cost candle-16.yaml",
            "topoopt cost --servers 128 --degree 4 --link-gbps 100 -o prices.csv",
        ),
    ),
    "resilience": Line(
        "Ask",
        "topoopt.analyses.resilience:resilience",
        "Evaluate every single failure of a link, a server or an optical switch, and repair it at once and by "
        "re-wiring.",
        (
            "topoopt resilience out/uniform-8-2/solution.json -o failures.csv",
            "topoopt resilience out/llama3-70b-64/solution.json --days 349 --set spares=0,2,4",
        ),
    ),
    "reconfigure": Line(
        "Ask",
        "topoopt.analyses.reconfiguration:reconfigure",
        "Time of a job, or of a trace of demands, over the reconfiguration delay: one network, and links set anew.",
        ("topoopt reconfigure candle-16.yaml --delays 10us,1ms,10ms",),
    ),
    "import": Line(
        "Exchange",
        "topoopt.cli.import_:import_",
        "Turn files of another tool into an instance file.",
        (
            "topoopt import --list",
            "topoopt import flexnet profile.json --set model=dlrm -o job.yaml",
            "topoopt import flexnet graph.fbuf -o job.yaml",
            "topoopt import chakra traces/ --set as=co-optimisation,peak_tflops=312 -o job.yaml",
            "topoopt import libra gpt3.csv --set network=net.csv,cost_model=cost.csv,total_gbytes_per_s=500",
            "topoopt import msccl allreduce.xml --set link_gbps=200 -o schedule.yaml",
            "topoopt import job candle-16.yaml --set objective=throughput -o placement.yaml",
        ),
    ),
    "export": Line(
        "Exchange",
        "topoopt.cli.export:export",
        "Write a solution for another tool, with notes of what that tool cannot express, or the model of an instance.",
        (
            "topoopt export --list",
            "topoopt export out/candle-16/solution.json --to patch-list -o patches",
            "topoopt export uniform-5-2.yaml --to lp --set formulation=joint_topology -o model.lp",
        ),
    ),
    "convert": Line(
        "Exchange",
        "topoopt.cli.solve:convert",
        "Write a solution file of the release before in the present format, checked.",
        ("topoopt convert old/solution.json -o out/solution.json",),
    ),
    "study run": Line(
        "Batch",
        "topoopt.studies.command:run",
        "Do the runs that are missing, then make the table.",
        ("topoopt study run instances/studies/totient-diameter.yaml -o out/totient --jobs 2",),
    ),
    "study validate": Line(
        "Batch",
        "topoopt.studies.command:validate",
        "Expand a study file: how many runs, how long at most, and everything that is wrong.",
        ("topoopt study validate instances/studies/totient-diameter.yaml",),
    ),
    "study report": Line(
        "Batch",
        "topoopt.studies.command:report",
        "Make the table again from the directories of the runs, and one page of what the study file asks for.",
        ("topoopt study report out/totient",),
    ),
    "collective bound": Line(
        "Collectives",
        "topoopt.analyses.collective:bound",
        "Best rate of AllGather, AllReduce and All-to-All on a network, and the cut that limits it.",
        ("topoopt collective bound 'preset: dgx-a100, boxes: 2'",),
    ),
    "collective find": Line(
        "Collectives",
        "topoopt.analyses.collective:find",
        "Topologies for collectives: the Pareto front of steps, bandwidth factor and All-to-All rate.",
        ("topoopt collective find --servers 12 --degree 4",),
    ),
    "collective audit": Line(
        "Collectives",
        "topoopt.analyses.collective:audit",
        "Execute a schedule of anyone, and say whether it is right, how fast it is, and how fast any could be.",
        ("topoopt collective audit allreduce.xml --format msccl",),
    ),
    "llm evaluate": Line(
        "Language models",
        "topoopt.analyses.evaluate:evaluate",
        "Time, its parts and memory of one parallelization strategy of a large language model.",
        (
            "topoopt llm evaluate llama3-70b-64.yaml --set tensor=8,pipeline=2,data=4,micro_batch=1",
            "topoopt llm evaluate llama3-70b-64.yaml --set tensor=8,pipeline=4 --fabrics rail-only",
        ),
    ),
    "llm check": Line(
        "Language models",
        "topoopt.analyses.evaluate:check",
        "Rules that a launch of Megatron-LM, torchtitan or DeepSpeed breaks, its time, and the best beside it.",
        ("topoopt llm check train.sh cluster.yaml", "topoopt llm check train.sh --set device=h100,gpus=64"),
    ),
    "llm calibrate": Line(
        "Language models",
        "topoopt.analyses.calibrate:calibrate",
        "Measured runs of language models beside their estimates; a few numbers of the time model are fitted to them.",
        ("topoopt llm calibrate runs.csv", "topoopt llm calibrate runs.csv --keep --json"),
    ),
}
"""By the words that call it, in the order of `--help`."""

GROUPS = {
    "study": "Batches of runs over instances, methods and seeds: run, validate, report.",
    "collective": "Collectives on any network: the best rate, topologies, schedules of others audited.",
    "llm": "Large language models in training: one strategy evaluated, a launch checked, measured runs estimated.",
}
"""Words before a command, and what the commands below them are about."""

MOVED = {
    "calibrate": "llm calibrate",
    "collective job": "explain SOLUTION",
    "collective switch": "explain SOLUTION",
    "dump-model": "export INSTANCE --to lp",
    "evaluate": "llm evaluate",
    "examples": "init EXAMPLE, or init --list",
    "fabrics": "compare INSTANCE --fabrics NAMES",
    "import flexnet-profile": "import flexnet",
    "import flexnet-taskgraph": "import flexnet",
    "methods": "describe KIND, or describe INSTANCE",
    "replay": "import flexnet, then compare INSTANCE --fabrics NAMES",
    "schedule": "solve",
    "schema": "describe KIND --schema",
    "topology metrics": "describe topology FAMILY",
    "topology totient": "describe topology totient",
    "topology traffic": "report SOLUTION",
    "topology": "describe topology FAMILY",
}
"""Names of the release before, and what is called in their place."""


class LazyGroup(TyperGroup):
    """Commands of the table below some words, each loaded when it is called; `--help` names them without that."""

    path: ClassVar[tuple[str, ...]] = ()

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        depth = len(self.path)
        below = (words[depth] for words in map(str.split, COMMANDS) if tuple(words[:depth]) == self.path)
        self.commands = {name: self._headed(name) for name in dict.fromkeys(below)}

    def _headed(self, name: str) -> TyperCommand:
        """A command as `--help` has it."""
        words = " ".join((*self.path, name))
        if words in COMMANDS:
            line = COMMANDS[words]
            return TyperCommand(name, help=line.summary, rich_help_panel=None if self.path else line.group)
        group = next(line.group for called, line in COMMANDS.items() if called.startswith(f"{words} "))
        return TyperCommand(name, help=GROUPS[words], rich_help_panel=group)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called, loaded, and the words after it; arguments as of the base class."""
        moved = next((words for words in MOVED if [*self.path, *args[:2]][: len(words.split())] == words.split()), None)
        if moved is not None:
            text = f"`topoopt {moved}` is `topoopt {MOVED[moved]}` now"
            Output.choose("--json" in args).run(lambda: _refuse(text))
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else self.loaded(name), rest

    def loaded(self, name: str) -> Any:
        """A command of the table, or the group of this name below this one."""
        words = (*self.path, name)
        if " ".join(words) not in COMMANDS:
            below = typer.Typer(
                cls=type("Below", (LazyGroup,), {"path": words}),
                help=GROUPS[" ".join(words)],
                callback=lambda: None,
                no_args_is_help=True,
                rich_markup_mode="rich",
            )
            return get_group(below)
        line = COMMANDS[" ".join(words)]
        module, _, function = line.target.partition(":")
        return as_command(name, getattr(importlib.import_module(module), function), line.examples)


def _refuse(text: str) -> int:
    raise InputError(text)


def as_command(name: str, function: Callable[..., None], examples: tuple[str, ...]) -> Any:
    """A function as a command: paragraphs of its help fill the width they have, and examples end it."""
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
    alone.command(name)(function)
    command: Any = get_command(alone)
    command.help = "\n\n".join(
        part if part.startswith("\b") else " ".join(part.split()) for part in (command.help or "").split("\n\n")
    )
    lines = (f"  {line}".replace("[", "\\[") for line in examples)
    command.epilog = "\n\n".join(
        ("[bold]Examples[/]", *lines, f"Also: {', '.join(EVERYWHERE)}, as of `topoopt --help`.")
    )
    return command


EVERYWHERE = ("--quiet", "-q", "--verbose", "-v")
"""Options of `topoopt` itself, which may stand behind a command as well."""


UsageError: Any = typer.BadParameter.__mro__[1]
"""Base of all errors in the arguments; typer has it from click or from a copy of its own, depending on the version."""


@contextlib.contextmanager
def _shown_errors() -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        error.message = shown(error.message)
        raise


class Commands(LazyGroup):
    """The commands of the table; says errors in the arguments as one JSON object when that was asked for."""

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
        words = [*(sys.argv[1:] if given is None else given)]
        end = words.index("--") if "--" in words else len(words)
        ahead = [word for word in words[:end] if word in EVERYWHERE]
        words = [*ahead, *(word for word in words[:end] if word not in EVERYWHERE), *words[end:]]
        extra = {**extra, "args": words}
        if "--json" not in words or not extra.get("standalone_mode", True):
            return super().main(*values[1:], **extra)
        try:
            code = super().main(*values[1:], **{**extra, "standalone_mode": False})
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
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", callback=be_quiet, help="Print errors alone, and the object of --json.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", callback=be_verbose, help="Print every table in full.")
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
    from topoopt.core.process import begin

    begin()
    sys.argv = ["topoopt", *arguments]
    try:
        app(args=arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    return 0
