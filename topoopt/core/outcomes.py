"""What analyses compute of plans: runs set side by side, and what failures do to them."""

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


LinkEnds = tuple[int, int]
"""Tail and head of a link; of a fibre pair the smaller server first."""


@dataclass(frozen=True, order=True)
class Failure:
    """What is broken at once.

    Attributes:
        links: ends of each failed link, once per parallel link lost.
        servers: failed servers.
        planes: failed optical switches, rows of `Topology.switches`; packet switches, in their order, where there are
            any.
    """

    links: tuple[LinkEnds, ...] = ()
    servers: tuple[int, ...] = ()
    planes: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """For people: `link 3-16`, `server 5`, `switch 2`."""
        parts = []
        for word, items in (
            ("link", [f"{tail}-{head}" for tail, head in self.links]),
            ("server", [str(server) for server in self.servers]),
            ("switch", [str(plane) for plane in self.planes]),
        ):
            if items:
                parts.append(f"{word}{'s' if len(items) > 1 and word != 'switch' else ''} {', '.join(items)}")
        return "; ".join(parts) or "nothing"


RepairTrial = tuple[str, float | None]
"""A repair strategy that was tried, and its value; None: it does not apply or cannot deliver all."""


@dataclass(frozen=True)
class FailureOutcome:
    """What one failure does.

    Attributes:
        failure: what broke.
        disconnected_pairs: ordered pairs of working servers that no path joins.
        diameter: in hops over the working servers; None if some pair is not connected.
        mean_hops: likewise.
        broken_rings: AllReduce rings that used a dead arc.
        rings: AllReduce rings in all.
        rerouted_pairs: ordered pairs that had a route over a dead arc.
        value: iteration time or theta with the best repair; None if no repair delivers everything.
        repair: its strategy, `none needed` where nothing the job uses is broken.
        trials: every strategy tried.
        bound: proven lower bound on the value over all repairs; None where none is known.
        spare_circuits: circuits to be set to put a spare in the place of the failed servers (0 for other failures).
    """

    failure: Failure
    disconnected_pairs: int
    diameter: int | None
    mean_hops: float | None
    broken_rings: int
    rings: int
    rerouted_pairs: int
    value: float | None
    repair: str
    trials: tuple[RepairTrial, ...] = ()
    bound: float | None = None
    spare_circuits: int = 0

    def slowdown(self, nominal: float) -> float | None:
        """Value over the value without failure; None if nothing can be delivered."""
        if self.value is None:
            return None
        return self.value / nominal if nominal > 0 else 1.0


@dataclass(frozen=True)
class SampledFailures:
    """Random failures of k parts at once, and what can be said of the mean of all of them.

    Attributes:
        part: `links` or `servers`.
        count: k.
        samples: number drawn, independently and uniformly.
        seed: of the draw.
        delivered: samples after which everything could be delivered.
        delivered_low, delivered_high: 95 % confidence interval of that probability (Clopper-Pearson).
        mean_slowdown: over the samples delivered; None without any.
        mean_low, mean_high: 95 % confidence interval of that mean (Student t); None below two samples.
        p95_slowdown: 95th percentile of the samples delivered.
        worst: outcome of the worst sample.
    """

    part: str
    count: int
    samples: int
    seed: int
    delivered: int
    delivered_low: float
    delivered_high: float
    mean_slowdown: float | None
    mean_low: float | None
    mean_high: float | None
    p95_slowdown: float | None
    worst: FailureOutcome


@dataclass(frozen=True)
class WorstFailure:
    """The worst failure of k parts found.

    Attributes:
        part: `links` or `servers`.
        count: k.
        outcome: of that failure.
        proven: no failure of k parts is worse.
        how: what found or proved it.
        evaluated: failures evaluated.
    """

    part: str
    count: int
    outcome: FailureOutcome
    proven: bool
    how: str
    evaluated: int


@dataclass(frozen=True)
class Rewiring:
    """What re-wiring makes of a failure.

    Attributes:
        failure: the links that stay dark.
        removed: surviving links given up, at most the number allowed.
        added: links set up instead.
        allowed: circuits that may be given up.
        before, after: value with the best repair at once, and after re-wiring; before is None if nothing helped.
        method: what found it.
        bound: proven lower bound on `after` over all such re-wirings; None where none is known.
        violations: what the checker says of the re-wired plan; empty for a good one.
    """

    failure: Failure
    removed: tuple[LinkEnds, ...]
    added: tuple[LinkEnds, ...]
    allowed: int
    before: float | None
    after: float
    method: str
    bound: float | None = None
    violations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Resilience:
    """Result of `topoopt resilience`.

    Attributes:
        name, kind: of the solution.
        objective, unit: `iteration_time` ms or `theta`.
        nominal: its value without any failure.
        links, servers, planes: outcomes of all single failures asked for, in order.
        sampled: random failures of several parts.
        worst: worst failures found, single ones included.
        rewirings: what re-wiring gains.
        violations: what the checker says of the repairs; empty when all are good.
        checked: repairs the checker looked at.
        notes: what was assumed, for people.
        seed: of every random choice.
        complete: False when a limit ended the work early.
    """

    name: str
    kind: str
    objective: str
    unit: str
    nominal: float
    links: tuple[FailureOutcome, ...] = ()
    servers: tuple[FailureOutcome, ...] = ()
    planes: tuple[FailureOutcome, ...] = ()
    sampled: tuple[SampledFailures, ...] = ()
    worst: tuple[WorstFailure, ...] = ()
    rewirings: tuple[Rewiring, ...] = ()
    violations: tuple[str, ...] = ()
    checked: int = 0
    notes: tuple[str, ...] = ()
    seed: int = 0
    complete: bool = True

    @property
    def switch(self) -> str:
        """What fails beside links and servers, in a word."""
        return "switch" if self.kind == "llm-training" else "optical switch"


@dataclass(frozen=True)
class OutageRow:
    """Days with so many spare servers.

    Attributes:
        spares: servers beside those of the plan.
        circuits: whether any servers make a copy of the model.
        mean, p99, worst: part of the throughput of the plan: mean of the days, what 99 % of them reach, least.
        whole_days: part of the days on which nothing is missing.
        exchanged: servers that copies get in place of others, a day in the mean.
        p99_step_s, worst_step_s: seconds for as many sequences as an iteration of the plan takes; None: none is done.
    """

    spares: int
    circuits: bool
    mean: float
    p99: float
    worst: float
    whole_days: float
    exchanged: float
    p99_step_s: float | None
    worst_step_s: float | None


@dataclass(frozen=True, eq=False)
class OutageStudy:
    """A plan over days.

    Attributes:
        name: of the instance.
        copies, servers_each: whole copies of the model, where experts are on as many ranks as share them, and the
            servers that hold one.
        seed: of the draw.
        down: servers of the plan that are down, by day.
        rows: without spare servers and circuits, then with circuits for each number of spare servers.
        left: part of the throughput of the plan for each row, by day.
    """

    name: str
    copies: int
    servers_each: int
    seed: int
    down: tuple[int, ...]
    rows: tuple[OutageRow, ...]
    left: tuple[tuple[float, ...], ...]

    @property
    def days(self) -> int:
        return len(self.down)
