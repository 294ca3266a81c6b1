"""Rows of `topoopt fabrics` for demand-driven circuits: several strategies tried, each by the flow-level simulator."""

from __future__ import annotations

import time
from dataclasses import dataclass

from solvers.job.annealing import overflow_bytes
from solvers.job.fabrics import FabricJob, search_strategy
from solvers.job.starts import starting_strategies
from solvers.stop import Stop
from topoopt.core.comparison import FLOW_LEVEL, FabricRow
from topoopt.core.switching import delay_text
from topoopt.core.workload import Strategy, strided_groups
from topoopt.simulate.circuits import DYNAMIC_FABRICS, CircuitRun, CircuitTiming, simulate_circuits
from topoopt.simulate.fabrics import FABRICS, FabricOptions
from topoopt.simulate.lower import build_task_graph

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
    began, policy, timing = time.monotonic(), DYNAMIC_FABRICS[name], CircuitTiming(search.delay_ms)
    tried: list[tuple[float, str, CircuitRun]] = []

    def simulated(strategy: Strategy, label: str) -> None:
        graph = build_task_graph(job.cluster, job.workload, strategy)
        run = simulate_circuits(graph, job.cluster, policy, timing, seed=search.seed)
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
        found = search_strategy(job, switch, proposals=search.proposals, seed=search.seed, stop=stop)
        proposals, whole = found.proposals, found.proposals >= search.proposals
        if found.strategy not in strategies:
            simulated(found.strategy, "searched on an ideal switch")
    reason = None if whole else stop.reason()
    best_ms, best, run = min(tried, key=lambda one: one[0])
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
