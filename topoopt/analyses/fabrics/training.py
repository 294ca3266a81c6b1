"""`topoopt fabrics` of a language model in training: its strategy searched anew on each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.console import Console
from rich.markup import escape

from solvers.llm_training.network.fabrics import TRAINING_FABRICS, fabric_problems
from topoopt.analyses.fabrics.bars import BarPart, ComparedFabric, FabricBars
from topoopt.console.tables import TerminalTable
from topoopt.core.errors import InputError
from topoopt.core.llm_training import LlmTrainingProblem, StepBreakdown
from topoopt.core.result import Result
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.llm_training.figures import fabric_bounds_s
from topoopt.kinds.llm_training.words import NAMES, fabric_name, seconds, strategy_words
from topoopt.kinds.pipeline import solve

HEADINGS = ("fabric", "iteration", "over the first", "bound", "strategy")
WORDS = frozenset({"fabric", "strategy", "form"})
PARTS = (
    ("passes", "c-compute", ("forward", "backward")),
    *(
        (NAMES[part], css, (part,))
        for part, css in (
            ("recompute", "bar k1"),
            ("bubble", "bar k7"),
            ("tensor", "bar k4"),
            ("context", "bar k3"),
            ("expert", "bar k5"),
            ("pipeline", "bar k2"),
            ("data", "bar k6"),
            ("optimizer", "quiet"),
        )
    ),
)
"""Parts of a bar: name, class of the colour, fields of the breakdown."""
NOTE = (
    "Each row is the best strategy found on that fabric of the same interfaces; no strategy of the space, wherever its "
    "ranks stand, is faster on any network of the fabric than the bound."
)


@dataclass(frozen=True)
class TrainingFabricRow:
    """The best strategy on a fabric.

    Attributes:
        fabric, form, strategy: in words.
        iteration_time_s, bound_s: of the solution on it.
        over_first: its time over that of the first row.
        breakdown_s: parts of the time.
    """

    fabric: str
    iteration_time_s: float
    over_first: float
    bound_s: float
    form: str
    strategy: str
    breakdown_s: StepBreakdown

    @property
    def cells(self) -> tuple[str, ...]:
        """Under `HEADINGS`."""
        times = seconds(self.iteration_time_s), f"{self.over_first:.3f}", seconds(self.bound_s)
        return (self.fabric, *times, self.strategy)


def training_on_fabrics(
    problem: LlmTrainingProblem, names: Sequence[str] | None, options: SolveOptions
) -> tuple[Result[Any, Any], int]:
    """A solution with all fabrics, the first one what the others are held against, and how many were asked for.

    Args:
        names: None: all that the cluster can have.

    Raises:
        InputError: no such fabrics, or the cluster cannot have them.
        CheckError: the checker rejects a plan.
    """
    if names is None:
        chosen = tuple(name for name in TRAINING_FABRICS if not fabric_problems(problem.cluster, (name,)))
    else:
        chosen = tuple(dict.fromkeys(names))
        if wrong := fabric_problems(problem.cluster, chosen):
            raise InputError([replace(one, path="--fabrics") for one in wrong])
    return solve(replace(problem, fabrics=chosen), options), len(chosen)


def fabric_rows_of(solution: Result[Any, Any]) -> tuple[TrainingFabricRow, ...]:
    """A row for each fabric."""
    return tuple(
        TrainingFabricRow(
            fabric=one.fabric,
            iteration_time_s=one.iteration_time_s,
            over_first=one.iteration_time_s / solution.objective.value,
            bound_s=bound_s,
            form=one.note,
            strategy=strategy_words(one.strategy),
            breakdown_s=one.breakdown,
        )
        for one, bound_s in zip(solution.figures.fabrics, fabric_bounds_s(solution), strict=True)
    )


def document(solution: Result[Any, Any], rows: Sequence[TrainingFabricRow], asked: int) -> dict[str, Any]:
    """The JSON object; `asked`: fabrics that were to be compared."""
    return {
        "kind": "fabrics",
        "name": solution.name,
        "instance_sha256": solution.instance_sha256,
        "seed": solution.seed,
        "stopped_by": solution.stopped_by.value,
        "missing": asked - len(rows),
        "checked": solution.check.ok,
        "rows": [asdict(row) for row in rows],
    }


def table_of(rows: Sequence[TrainingFabricRow]) -> tuple[list[str], list[list[object]]]:
    """Header and lines for CSV, each part of the time in a column of its own."""
    lines = []
    for row in rows:
        line = asdict(row)
        parts = line.pop("breakdown_s")
        lines.append(line | {f"breakdown_s.{part}": value for part, value in parts.items()})
    return list(lines[0]), [list(line.values()) for line in lines]


def answer(name: str, rows: Sequence[TrainingFabricRow]) -> str:
    """The fastest fabric, and the slowest beside it."""
    ordered = _fastest_first(rows)
    best, worst = ordered[0], ordered[-1]
    text = f"{name} trains fastest on {fabric_name(best.fabric)}, {seconds(best.iteration_time_s)} an iteration"
    ratio = worst.iteration_time_s / best.iteration_time_s
    return f"{text}; {ratio:.3f}× as long on {fabric_name(worst.fabric)}." if len(rows) > 1 else f"{text}."


def _fastest_first(rows: Sequence[TrainingFabricRow]) -> list[TrainingFabricRow]:
    return sorted(rows, key=lambda row: row.iteration_time_s)


def training_bars(name: str, rows: Sequence[TrainingFabricRow]) -> FabricBars:
    """The comparison for files."""
    ordered = _fastest_first(rows)
    return FabricBars(
        title=name,
        answer=answer(name, rows),
        axis="time of an iteration, s",
        bars=tuple(
            ComparedFabric(row.fabric, seconds(row.iteration_time_s), _parts(row.breakdown_s)) for row in ordered
        ),
        headings=(*HEADINGS, "form"),
        words=WORDS,
        rows=tuple((*row.cells, row.form) for row in ordered),
        note=NOTE,
    )


def _parts(breakdown: StepBreakdown) -> tuple[BarPart, ...]:
    sizes = [(name, css, sum(getattr(breakdown, part) for part in parts)) for name, css, parts in PARTS]
    return tuple(BarPart(name, size, seconds(size), css) for name, css, size in sizes)


def show(console: Console, rows: Sequence[TrainingFabricRow]) -> None:
    """A table."""
    table = TerminalTable(title="a strategy searched on each fabric")
    for name in HEADINGS:
        table.add_column(name, justify="left" if name in WORDS else "right")
    for row in rows:
        table.add_row(*map(escape, row.cells))
    console.print(table)
