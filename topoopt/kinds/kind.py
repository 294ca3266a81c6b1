"""What the commands do with each kind of instance: one module a kind, one line in the table.

A module of a kind has the constant `COMMANDS`, and is loaded on first use, so that `topoopt check` of one kind does not
load the solvers of the others.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from topoopt.console.interrupt import INTERRUPTED
from topoopt.core.errors import CheckError, Problem
from topoopt.core.solution import Bound, CheckResult, Objective
from topoopt.core.verdict import Status, StopReason

if TYPE_CHECKING:
    from topoopt.console.output import Output
    from topoopt.core.price_book import PriceBook
    from topoopt.verify.laws.findings import Violation

EXIT_OF_STOP = {StopReason.TIME: 4, StopReason.INTERRUPTED: INTERRUPTED}
"""Exit codes of a run that ended early with a plan; all others are 0."""


@dataclass(frozen=True)
class Wishes:
    """Options of `topoopt solve`; None: as the instance says, `book` None: the shipped prices."""

    seed: int | None = None
    time_limit_s: float | None = None
    budget: int | None = None
    method: str | None = None
    book: PriceBook | None = None


class Found(Protocol):
    """What `topoopt compare` reads of a solution."""

    @property
    def status(self) -> Status:
        """What is known."""

    @property
    def stopped_by(self) -> StopReason:
        """Why the run ended."""

    @property
    def objective(self) -> Objective:
        """What was reached."""

    @property
    def bound(self) -> Bound:
        """What was proven."""

    @property
    def check(self) -> CheckResult:
        """Verdict of the checker."""


@dataclass(frozen=True)
class Contest:
    """How `topoopt compare` runs the methods of a kind.

    Attributes:
        methods: names of the methods for an instance; all but `auto` are compared when none are named.
        run: (instance, wishes) -> checked solution. Raises InputError where the method does not cover the instance,
            InfeasibleError, LimitError.
        takes_budget: whether `wishes.budget` means something.
        maximise: whether a larger objective of this instance is better.
        worth: solution -> iterations a second that a million dollars of its network buy; None without a price.
    """

    methods: Callable[[Any], Sequence[str]]
    run: Callable[[Any, Wishes], Found]
    takes_budget: bool = False
    maximise: Callable[[Any], bool] = lambda _: False
    worth: Callable[[Any], float | None] = lambda _: None


@dataclass(frozen=True)
class KindCommands:
    """One kind of instance at the command line.

    Attributes:
        solve: (instance, output, directory, wishes) -> exit code; writes solution.json and report.html, shows the
            summary. Errors are raised.
        check: (instance, solution file) -> violations, found without a solver.
        report: solution file -> self-contained HTML.
        search_problems: what is wrong with the search settings of an instance, known only where the solvers are.
        contest: how methods are compared; None: they are not.
        takes_prices: whether `wishes.book` means something.
    """

    solve: Callable[[Any, Output, Path, Wishes], int]
    check: Callable[[Any, Path], Sequence[Violation]]
    report: Callable[[Path], str]
    search_problems: Callable[[Any], list[Problem]]
    contest: Contest | None = None
    takes_prices: bool = False


KINDS: dict[str, str] = {
    "co-optimisation": "topoopt.kinds.job.commands",
    "hierarchical-bandwidth": "topoopt.kinds.hierarchy.commands",
    "routing": "topoopt.kinds.network.commands",
    "topology": "topoopt.kinds.network.commands",
    "allocation": "topoopt.kinds.allocation.commands",
    "placement": "topoopt.kinds.placement.commands",
    "shared-cluster": "topoopt.kinds.shared_cluster.commands",
    "robust-network": "topoopt.kinds.network.several_demands.commands",
}
"""Module of each kind."""


def commands_of(kind: str) -> KindCommands:
    """The commands of a kind in the table."""
    commands: KindCommands = importlib.import_module(KINDS[kind]).COMMANDS
    return commands


def nothing_found(problem: Any, seed: int | None, wall_s: float) -> dict[str, Any]:
    """The keys of the JSON object of a solving command that found nothing."""
    from topoopt.core.versions import versions

    return {
        "kind": problem.kind,
        "name": problem.name,
        "objective": None,
        "bound": None,
        "gap": None,
        "check": None,
        "seed": problem.search.seed if seed is None else seed,
        "wall_s": round(wall_s, 3),
        "versions": dict(versions()),
        "instance_sha256": problem.sha256,
        "solution": None,
    }


def exit_code(output: Output, check: CheckResult, stopped_by: StopReason) -> int:
    """The exit code of a run that found something; says what the checker rejects."""
    if not check.ok:
        for line in ("the checker rejects the solution:", *check.violations):
            output.say_error(line)
        return CheckError.exit_code
    return EXIT_OF_STOP.get(stopped_by, 0)
