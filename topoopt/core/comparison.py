"""Runs set side by side: methods on an instance, jobs on fabrics, and delays of circuits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from topoopt.core.proofs import Bound, StopReason, Tolerance, beats, gap, meets


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


ROUNDS = "rounds"
FLOW_LEVEL = "flow-level"
"""Time models of rows."""


@dataclass(frozen=True)
class FabricRow:
    """What was found on a fabric; figures are None where nothing was.

    Attributes:
        name: of the fabric, or `plan` for the given direct-connect plan.
        outcome: `found`, `left out`, or why the search ended early: `time`, `interrupted`.
        description: the fabric in words; for one left out, why.
        iteration_time_ms: of the best strategy found, by `time_model`.
        compute_ms, model_parallel_ms, allreduce_ms, idle_ms: along its critical path; they sum to the iteration time.
        links_per_byte: links that a demanded byte crosses on average, those to and from switches included.
        fullest_over_mean: bytes of the fullest link by the mean over the links that carry any.
        proposals: strategies proposed by the search.
        wall_s: seconds.
        time_model: `rounds`, or `flow-level` where circuits follow demand (max-min fair shares); only times by the
            same model compare.
        flow_level_ms: of the same strategy by the flow-level model; None if not asked for.
    """

    name: str
    outcome: str
    description: str
    iteration_time_ms: float | None = None
    compute_ms: float | None = None
    model_parallel_ms: float | None = None
    allreduce_ms: float | None = None
    idle_ms: float | None = None
    links_per_byte: float | None = None
    fullest_over_mean: float | None = None
    proposals: int = 0
    wall_s: float = 0.0
    time_model: str = ROUNDS
    flow_level_ms: float | None = None


PLAN = "plan"
"""Name of the row of a direct-connect plan."""


@dataclass(frozen=True)
class DelayPoint:
    """A scheme at one reconfiguration delay.

    Attributes:
        delay_ms: of the optical switch.
        iteration_time_ms: of the job, simulated, or of all steps of a trace of demands.
        choice: strategy or schedule that was best there.
        reconfigurations: in an iteration.
        dark_ms: time of an iteration in which circuits were being changed.
    """

    delay_ms: float
    iteration_time_ms: float
    choice: str
    reconfigurations: int
    dark_ms: float


WhenBetter = Literal["never", "up to", "at every delay tried", "not decided in time"]
"""When a scheme beats the one-shot network."""


@dataclass(frozen=True)
class BreakEven:
    """Largest delay at which a scheme beats the one-shot network.

    Attributes:
        verdict: `never`: not even without delay; `up to`: between the two points, both simulated.
        wins: the largest delay found at which the scheme is faster; None: there is none.
        loses: the next larger delay tried, at which it is not; None: there is none.
    """

    verdict: WhenBetter
    wins: DelayPoint | None = None
    loses: DelayPoint | None = None


@dataclass(frozen=True)
class Scheme:
    """One way to reconfigure.

    Attributes:
        name, description: for people; the first scheme of a sweep is `one-shot`.
        points: by ascending delay.
        break_even: against one-shot; None for one-shot itself.
        break_even_rerouted: against one-shot with routes set anew at every step of a trace of demands.
        thetas: of every step of a trace of demands, largest link utilisation without any delay.
    """

    name: str
    description: str
    points: tuple[DelayPoint, ...]
    break_even: BreakEven | None = None
    break_even_rerouted: BreakEven | None = None
    thetas: tuple[float, ...] = ()


@dataclass(frozen=True)
class ReconfigurationSweep:
    """Time of a job, or of a trace of demands, over reconfiguration delays.

    Attributes:
        name: of the instance.
        servers, degree, link_gbps: n, d, B.
        schemes: one-shot first.
        strategies: names of the strategies tried on the demand-driven fabrics.
        stopped_by: whether everything was simulated.
        seed, instance_sha256, versions: where the figures come from.
        notes: what was assumed.
    """

    name: str
    servers: int
    degree: int
    link_gbps: float | None
    schemes: tuple[Scheme, ...]
    strategies: tuple[str, ...]
    stopped_by: StopReason
    seed: int
    instance_sha256: str
    versions: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
