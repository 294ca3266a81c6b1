"""Methods set side by side: runs, and the gaps of each to the best found and the best proven on the same instance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from topoopt.core.proofs import Bound
from topoopt.core.verdict import Tolerance, beats, gap, meets


@dataclass(frozen=True)
class ComparedRun:
    """One method on one instance with one seed.

    Attributes:
        file, instance, kind: of the instance; the file tells instances apart.
        method, seed: what was run.
        outcome: status of the solution; or `not covered`, `infeasible`, `limit`, `error` where there is none.
        stopped_by: why the run ended; empty where there is no solution.
        objective, unit: what was minimised (or maximised); empty where there is no solution.
        value: of the solution; None without one.
        bound: on it, verified; None without a solution.
        claimed_bound: a tighter one that is not verified; None where there is none.
        reason: why there is no solution; empty where there is one.
        checked: whether the checker accepts the solution.
        wall_s: seconds.
        maximise: whether more is better, and the bound an upper one.
        value_per_million_usd: iterations a second that a million dollars of its network buy; None without a price.
    """

    file: str
    instance: str
    kind: str
    method: str
    seed: int
    outcome: str
    stopped_by: str
    objective: str
    unit: str
    value: float | None
    bound: Bound | None
    claimed_bound: Bound | None
    reason: str
    checked: bool
    wall_s: float
    maximise: bool = False
    value_per_million_usd: float | None = None

    @property
    def rejected(self) -> bool:
        """Whether there is a solution that the checker does not accept."""
        return self.value is not None and not self.checked


@dataclass(frozen=True)
class Comparison:
    """A run beside the others on the same instance.

    Attributes:
        run: the run.
        gap_to_best: the larger of its value and the best one over the smaller, less 1; None without a solution, or if
            only the smaller is 0.
        gap_to_bound: the distance of its value from the tightest bound of any method, over the larger of the two.
        proven: whether the best value meets the tightest bound, so that both gaps are to the optimum.
    """

    run: ComparedRun
    gap_to_best: float | None
    gap_to_bound: float | None
    proven: bool


COLUMNS = (
    "file", "instance", "kind", "method", "seed", "outcome", "stopped_by", "objective", "value", "unit", "theta",
    "lambda", "bound", "proved_by", "claimed_bound", "claimed_by", "reason", "gap_to_best", "gap_to_bound", "proven",
    "checked", "iterations_per_s_per_million_usd", "wall_s",
)  # fmt: skip


def record(row: Comparison) -> dict[str, Any]:
    """A row as `topoopt compare` writes it: `COLUMNS`, plain values."""
    run = row.run
    theta = run.value if run.objective == "theta" else None
    bound, proved_by = (None, None) if run.bound is None else (run.bound.value, run.bound.argument.value)
    claimed = (None, None) if run.claimed_bound is None else (run.claimed_bound.value, run.claimed_bound.argument.value)
    values = (
        run.file, run.instance, run.kind, run.method, run.seed, run.outcome, run.stopped_by, run.objective, run.value,
        run.unit, theta, 1.0 / theta if theta else None, bound, proved_by, *claimed, run.reason, row.gap_to_best,
        row.gap_to_bound, row.proven, run.checked, run.value_per_million_usd, round(run.wall_s, 3),
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


@dataclass(frozen=True)
class Best:
    """The best value and the tightest verified bound of an instance, among runs that the checker accepts.

    None where there is none. Claimed bounds prove nothing, and show no value wrong.

    Attributes:
        value, bound: the numbers.
        by: the run that proved the bound.
        proven: whether the value meets the bound.
        contradicted: whether the value is better than the bound, so that one of them is wrong.
    """

    value: float | None
    bound: Bound | None
    by: ComparedRun | None
    proven: bool
    contradicted: bool


def best_of(runs: Sequence[ComparedRun]) -> Best:
    """The best of the runs on one instance."""
    sign = -1.0 if any(run.maximise for run in runs) else 1.0
    values = [run.value for run in runs if run.checked and run.value is not None]
    bounds = [(sign * run.bound.value, run) for run in runs if run.checked and run.bound is not None]
    value = min(values, key=lambda number: sign * number, default=None)
    _, by = max(bounds, key=lambda pair: pair[0], default=(0.0, None))
    if value is None or by is None or by.bound is None:
        return Best(value, None, None, False, False)
    maximise = sign < 0
    proven = meets(value, by.bound.value, Tolerance.LINEAR_PROGRAM, maximise=maximise)
    contradicted = beats(value, by.bound.value, Tolerance.LINEAR_PROGRAM, maximise=maximise)
    return Best(value, by.bound, by, proven, contradicted)


def compared(runs: Sequence[ComparedRun]) -> list[Comparison]:
    """Gaps of all runs, each within its instance; rejected runs set no best."""
    best = {file: best_of([run for run in runs if run.file == file]) for file in {run.file for run in runs}}
    return [_beside(run, best[run.file]) for run in runs]


def _beside(run: ComparedRun, best: Best) -> Comparison:
    if run.value is None or best.value is None or best.bound is None:
        return Comparison(run, None, None, False)
    larger, smaller = (best.value, run.value) if run.maximise else (run.value, best.value)
    to_best = larger / smaller - 1.0 if smaller else (None if larger else 0.0)
    return Comparison(run, to_best, gap(run.value, best.bound.value, maximise=run.maximise), best.proven)
