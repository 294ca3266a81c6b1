"""A strategy is searched on each fabric for a job or a language model, beside its direct-connect plan."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from solvers.job.annealing import overflow_bytes
from solvers.job.fabrics import FabricJob, FabricSearch, best_on, fabric_job, left_out, search_strategy
from solvers.job.starts import starting_strategies
from solvers.llm_training.plan import TRAINING_FABRICS
from solvers.llm_training.plan import fabric_problems as training_fabric_problems
from solvers.stop import Stop, first_part
from topoopt.analyses.fabrics.report import FabricBars
from topoopt.core.errors import CheckError, InputError, Problem, raise_any
from topoopt.core.job import DEFAULT_FABRICS, CoOptimisation, FabricChoice, JobPlan
from topoopt.core.llm_training import LlmTrainingProblem, StepBreakdown
from topoopt.core.outcomes import FLOW_LEVEL, PLAN, FabricRow
from topoopt.core.result import Result
from topoopt.core.switching import delay_text
from topoopt.core.workload import Strategy, strided_groups
from topoopt.kinds.job.methods import fabric_problems
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.llm_training.figures import fabric_bounds_s
from topoopt.kinds.llm_training.words import NAMES, fabric_name, seconds, strategy_words
from topoopt.kinds.pipeline import solve
from topoopt.page.render import TerminalTable
from topoopt.simulate.circuits import (
    DYNAMIC_FABRICS,
    CircuitRun,
    Phase,
    simulate_circuits,
    simulate_stages,
)
from topoopt.simulate.fabrics import FABRICS, FabricOptions, plan_network
from topoopt.simulate.network import Network, build_task_graph
from topoopt.simulate.time_models.evaluate import bandwidth_tax, breakdown, simulate
from topoopt.verify.checker import BRIEF
from topoopt.verify.job.check import CHECKER

IDEAL = "ideal-switch"


@dataclass(frozen=True)
class CircuitSearch:
    """What strategies are tried on demand-driven circuits.

    Attributes:
        delay_ms: of a reconfiguration; circuits stay 4 times the dark time before, 10 us at least.
        proposals, seed: of the strategy search on the ideal switch; the seed is also that of the circuits.
        plan: strategy of a given plan; None: there is none.
    """

    delay_ms: float
    proposals: int
    seed: int
    plan: Strategy | None = None


def circuit_row(job: FabricJob, name: str, search: CircuitSearch, stop: Stop) -> FabricRow:
    """The best of the strategies on a fabric of `DYNAMIC_FABRICS`, all by the flow-level simulator.

    Once `stop` says so no further strategy is tried; one always is.

    Raises:
        InputError: the servers of the cluster cannot be joined by such circuits, or a bad delay.
    """
    began, policy = time.monotonic(), DYNAMIC_FABRICS[name]
    tried: list[tuple[float, str, CircuitRun]] = []

    def simulated(strategy: Strategy, label: str) -> None:
        graph = build_task_graph(job.cluster, job.workload, strategy)
        run = simulate_circuits(graph, job.cluster, policy, search.delay_ms, seed=search.seed)
        tried.append((run.iteration_time_ms, label, run))

    text = f"{policy.description}; {delay_text(search.delay_ms)} to reconfigure; flow-level model"
    strategies = _strategies(job, search)
    if not strategies:
        text = f"{text}: no strategy found fits into the memory of the servers"
        return FabricRow(name, "left out", text, wall_s=time.monotonic() - began)
    for strategy, label in strategies.items():
        if tried and stop.reason() is not None:
            break
        simulated(strategy, label)
    proposals, whole = 0, False
    if stop.reason() is None:
        switch = FABRICS[IDEAL].build(job.cluster, strided_groups(job.cluster.servers), FabricOptions(seed=search.seed))
        solution = search_strategy(job, switch, proposals=search.proposals, seed=search.seed, stop=stop)
        proposals, whole = solution.proposals, solution.proposals >= search.proposals
        if solution.strategy not in strategies:
            simulated(solution.strategy, "searched on an ideal switch")
    reason = None if whole else stop.reason()
    best_ms, best, run = min(tried, key=lambda candidate: candidate[0])
    times = ", ".join(f"{label} {time_ms:.5g} ms" for time_ms, label, _ in tried)
    return FabricRow(
        name=name,
        outcome="found" if reason is None else reason.value,
        description=f"{text}; switched {run.reconfigurations} times; strategy: {best}; tried: {times}",
        iteration_time_ms=best_ms,
        links_per_byte=run.bandwidth_tax if run.sent_bytes.any() else None,
        proposals=proposals,
        wall_s=time.monotonic() - began,
        time_model=FLOW_LEVEL,
        flow_level_ms=best_ms,
    )


def _strategies(job: FabricJob, search: CircuitSearch) -> dict[Strategy, str]:
    """Distinct strategies that fit in memory with their names."""
    named: dict[Strategy, str] = {} if search.plan is None else {search.plan: "strategy of the plan"}
    for start in starting_strategies(job.cluster, job.workload):
        named.setdefault(start.strategy, start.name)
    return {
        strategy: name for strategy, name in named.items() if overflow_bytes(job.arrays, strategy, job.capacity) == 0
    }


RELATIVE = 1e-9


def named_fabrics(instance: CoOptimisation, names: Sequence[str] | None) -> tuple[FabricChoice, ...]:
    """Fabrics of a comparison, in order.

    Args:
        instance: whose list the names are looked up in, before the table.
        names: labels of the instance, names of the table, or of demand-driven circuits; None: the list of the instance,
            or the whole table if it has none of its own.

    Raises:
        InputError: all unknown names; or what is wrong with the list of the instance.
    """
    raise_any(fabric_problems(instance))
    if names is None:
        own = instance.baselines.choices
        return own if own != DEFAULT_FABRICS else tuple(map(FabricChoice, FABRICS))
    choices = {name: FabricChoice(name) for name in (*FABRICS, *DYNAMIC_FABRICS)}
    choices |= {choice.name: choice for choice in instance.baselines.choices}
    wrong = [name for name in names if name not in choices]
    if wrong or not names:
        allowed = ", ".join(choices)
        raise InputError([Problem("no such fabric", path="--fabrics", value=n, allowed=allowed) for n in wrong or [""]])
    return tuple(choices[name] for name in dict.fromkeys(names))


def plan_row(
    instance: CoOptimisation, solution: Result[CoOptimisation, JobPlan], *, flow_level: bool = False
) -> FabricRow:
    """The row of a direct-connect plan, simulated again; also by the flow-level model if asked for.

    Raises:
        InputError: it solves another instance.
        CheckError: the checker rejects it.
    """
    if solution.instance_sha256 != instance.sha256:
        value, allowed = solution.name, f"a solution of {instance.name}, as it is now"
        raise InputError([Problem("solves another instance", path="instance", value=value, allowed=allowed)])
    violations = CHECKER(instance, solution, BRIEF).violations
    if violations:
        raise CheckError("\n".join(f"the plan: {violation}" for violation in violations))
    plan, instance = solution.plan, instance.shared_as(solution.plan.link_sharing)
    network = plan_network(instance.cluster, plan)
    text = f"direct connect: {plan.topology.origin or 'topology of the plan'}, strategy and topology searched together"
    return _row(PLAN, text, instance, plan.strategy, network, flow_level=flow_level)


def _row(
    name: str, text: str, instance: CoOptimisation, strategy: Strategy, network: Network, *, flow_level: bool
) -> FabricRow:
    graph = build_task_graph(instance.cluster, instance.workload, strategy)
    outcome = simulate(graph, network)
    parts = breakdown(graph, outcome)
    used = outcome.link_bytes[outcome.link_bytes > 0]
    flow_level_ms = None
    if flow_level:
        flow_level_ms = simulate_stages(graph, [(tuple(Phase), network)], 0.0)[0]
    return FabricRow(
        name=name,
        outcome="found",
        description=text,
        iteration_time_ms=outcome.iteration_time_ms,
        compute_ms=parts.compute_ms,
        model_parallel_ms=parts.model_parallel_ms,
        allreduce_ms=parts.allreduce_ms,
        idle_ms=parts.idle_ms,
        links_per_byte=bandwidth_tax(graph, outcome) if len(used) else None,
        fullest_over_mean=float(used.max() / np.mean(used)) if len(used) else None,
        flow_level_ms=flow_level_ms,
    )


def fabric_rows(
    instance: CoOptimisation,
    choices: Sequence[FabricChoice],
    search: FabricSearch,
    strategies: Sequence[Strategy],
    stop: Stop,
    circuits: CircuitSearch | None = None,
) -> Iterator[FabricRow]:
    """Rows one by one; after Ctrl-C no more, and a time limit is shared evenly among the fabrics still to come.

    Args:
        instance: the job.
        choices: in order; those of `DYNAMIC_FABRICS` by `circuits`, all others by `search`.
        search: with the options of the others.
        strategies: strategies to try first.
        stop: looked at between fabrics and in the searches.
        circuits: None only if no choice is demand-driven; with it every row has its flow-level time as well.

    Raises:
        CheckError: a network breaks a law, or the time of the search is not that of its strategy simulated again.
    """
    job = fabric_job(instance.cluster, instance.workload, strategies)
    options = {choice.name: option for choice, option in search.fabrics}
    for position, choice in enumerate(choices):
        if stop.interrupted.is_set():
            return
        mine = stop if stop.deadline is None else first_part(stop, 1 / (len(choices) - position), np.inf)
        try:
            if choice.fabric in DYNAMIC_FABRICS and circuits is not None:
                yield circuit_row(job, choice.fabric, circuits, mine)
            else:
                yield _searched(
                    instance, job, search, choice, options[choice.name], mine, flow_level=circuits is not None
                )
        except InputError as error:
            yield FabricRow(choice.name, "left out", left_out(choice, error))


def _searched(
    instance: CoOptimisation,
    job: FabricJob,
    search: FabricSearch,
    choice: FabricChoice,
    options: FabricOptions,
    stop: Stop,
    *,
    flow_level: bool,
) -> FabricRow:
    """The row of a fabric that stays as it is.

    Raises:
        InputError: the cluster has no such fabric.
        CheckError: as `fabric_rows`.
    """
    began = time.monotonic()
    best, network, proposals = best_on(job, search, choice, options, stop)
    if overflow_bytes(job.arrays, best.strategy, job.capacity) > 0:
        text = f"{best.description}: no strategy found fits into the memory of the servers"
        return FabricRow(choice.name, "left out", text, proposals=proposals, wall_s=time.monotonic() - began)
    row = _row(choice.name, best.description, instance, best.strategy, network, flow_level=flow_level)
    again = row.iteration_time_ms or 0.0
    if abs(again - best.iteration_time_ms) > RELATIVE * again:
        text = f"{choice.name}: the search says {best.iteration_time_ms!r} ms, the simulation {again!r}"
        raise CheckError(text)
    reason = stop.reason() if proposals < search.proposals else None
    return replace(
        row, outcome="found" if reason is None else reason.value, proposals=proposals, wall_s=time.monotonic() - began
    )


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
        chosen = tuple(name for name in TRAINING_FABRICS if not training_fabric_problems(problem.cluster, (name,)))
    else:
        chosen = tuple(dict.fromkeys(names))
        if wrong := training_fabric_problems(problem.cluster, chosen):
            raise InputError([replace(problem_message, path="--fabrics") for problem_message in wrong])
    return solve(replace(problem, fabrics=chosen), options), len(chosen)


def fabric_rows_of(solution: Result[Any, Any]) -> tuple[TrainingFabricRow, ...]:
    return tuple(
        TrainingFabricRow(
            fabric=fabric.fabric,
            iteration_time_s=fabric.iteration_time_s,
            over_first=fabric.iteration_time_s / solution.objective.value,
            bound_s=bound_s,
            form=fabric.note,
            strategy=strategy_words(fabric.strategy),
            breakdown_s=fabric.breakdown,
        )
        for fabric, bound_s in zip(solution.figures.fabrics, fabric_bounds_s(solution), strict=True)
    )


def document(solution: Result[Any, Any], rows: Sequence[TrainingFabricRow], requested: int) -> dict[str, Any]:
    """The JSON object; `requested`: fabrics that were to be compared."""
    return {
        "kind": "fabrics",
        "name": solution.name,
        "instance_sha256": solution.instance_sha256,
        "seed": solution.seed,
        "stopped_by": solution.stopped_by.value,
        "missing": requested - len(rows),
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
    ordered = _fastest_first(rows)
    return FabricBars(
        title=name,
        answer=answer(name, rows),
        axis="time of an iteration, s",
        bars=tuple((row.fabric, seconds(row.iteration_time_s), _parts(row.breakdown_s), False) for row in ordered),
        headings=(*HEADINGS, "form"),
        words=WORDS,
        rows=tuple((*row.cells, row.form) for row in ordered),
        note=NOTE,
    )


def _parts(breakdown: StepBreakdown) -> tuple[tuple[str, float, str, str], ...]:
    sizes = [(name, css, sum(getattr(breakdown, part) for part in parts)) for name, css, parts in PARTS]
    return tuple((name, size, seconds(size), css) for name, css, size in sizes)


def show(console: Console, rows: Sequence[TrainingFabricRow]) -> None:
    table = TerminalTable(title="a strategy searched on each fabric")
    for name in HEADINGS:
        table.add_column(name, justify="left" if name in WORDS else "right")
    for row in rows:
        table.add_row(*map(escape, row.cells))
    console.print(table)
