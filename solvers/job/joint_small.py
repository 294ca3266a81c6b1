"""The joint optimum of strategy, topology, rings and routes on tiny clusters, in the bulk-synchronous time model.

`formulations.job.joint_plan` states the model: compute phase C, then communication phase theta. `solve_joint` finds its
optimum by branch and bound; `plan_time` evaluates a strategy on a topology in the same model, with the best rings and
routes it allows, so that any plan can be held against the optimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from formulations.job.joint_plan import JointChoice
from formulations.job.joint_plan_arrays import build_arrays, chosen, fixed
from solvers.backends import SOLVERS, LpResult, SolverLimits
from solvers.job.joint_tables import JointTables, joint_tables
from solvers.job.strategy.starts import starting_strategies
from solvers.network.constructions import candidate_topologies
from topoopt.core.arrays import Ints
from topoopt.core.cluster import Cluster
from topoopt.core.errors import LimitError
from topoopt.core.proofs import Status
from topoopt.core.topology import Topology
from topoopt.core.workload import Strategy, Workload
from topoopt.simulate.demand import demand_of
from topoopt.simulate.lower import build_task_graph

NODES = 50_000
"""Most nodes of the branch and bound: a count, so that results do not depend on the machine."""

SLACK = 1e-6
"""Relative room above the incumbent's theta, so that rounding does not cut it off."""


@dataclass(frozen=True, eq=False)
class JointOptimum:
    """Outcome of the joint program.

    Attributes:
        strategy: placements.
        counts: int64[n, n], links; the network is connected.
        ring_ms: per group of `strided_groups(n)` that all-reduces: its orders and the ms of a hop in each.
        time_ms: C + theta of the plan, recomputed by `plan_time`.
        compute_ms: C.
        bound_ms: HiGHS claims that no plan takes less in this model.
    """

    strategy: Strategy
    counts: Ints
    rings: tuple[tuple[tuple[tuple[int, ...], float], ...], ...]
    time_ms: float
    compute_ms: float
    bound_ms: float


def plan_time(cluster: Cluster, workload: Workload, strategy: Strategy, topology: Topology) -> float:
    """C + theta of a strategy on a topology with the best rings and routes, ms, in the model of the joint program.

    Raises:
        InputError: the job is too large for the joint program.
    """
    tables = joint_tables(cluster, workload, _any_theta(cluster, workload))
    return _evaluate(tables, strategy, topology.adjacency())[0]


def _any_theta(cluster: Cluster, workload: Workload) -> float:
    """A theta that no plan on a connected network exceeds: every byte of the largest demands crosses one link."""
    tables = joint_tables(cluster, workload, 1.0)
    moved = sum(float(table.sum(axis=(2, 3)).max()) for table in tables.data.demand)
    sent = [
        [sum(len(tables.groups[g]) * ms for g, ms in option.reduced.items()) for option in options]
        for options in tables.data.options
    ]
    return (moved + sum(max(of, default=0.0) for of in sent)) * (1 + SLACK) or 1.0


def _evaluate(
    tables: JointTables, strategy: Strategy, counts: Ints
) -> tuple[float, float, tuple[tuple[float, ...], ...]]:
    """(C + theta, C, ms per ring) with strategy and links fixed: a linear program."""
    data = tables.data
    options = tuple(of.index(p) for of, p in zip(tables.placements, strategy.placements, strict=True))
    program = fixed(data, build_arrays(data), options, counts)
    result = SOLVERS["highs-simplex"](replace(program, integer=None))
    if result.x is None or result.objective is None:
        raise LimitError(f"the routing program of a given plan was not solved: {result.message}")
    assert program.column_names is not None
    compute = float(result.x[program.column_names.index("C")])
    return float(result.objective), compute, chosen(data, program, result.x).ring_ms


def incumbent(cluster: Cluster, workload: Workload, extra: Sequence[tuple[Strategy, Topology]] = ()) -> float:
    """C + theta of the best of some plans: every start on the topology found for it, and `extra`."""
    tables = joint_tables(cluster, workload, _any_theta(cluster, workload))
    known = [(strategy, topology) for strategy, topology in extra]
    for start in starting_strategies(cluster, workload):
        demand = demand_of(build_task_graph(cluster, workload, start.strategy))
        known += [(start.strategy, topology) for topology in candidate_topologies(cluster, demand, limit=1, seed=0)]
    memory = cluster.server_memory_bytes
    values = [
        _evaluate(tables, strategy, topology.adjacency())[0]
        for strategy, topology in known
        if memory is None or _fits(tables, strategy)
    ]
    return min(values, default=np.inf)


def _fits(tables: JointTables, strategy: Strategy) -> bool:
    used = sum(
        options[of.index(p)].memory
        for options, of, p in zip(tables.data.options, tables.placements, strategy.placements, strict=True)
    )
    return bool(np.max(used) <= 1.0)


def solve_joint(
    cluster: Cluster,
    workload: Workload,
    *,
    extra: Sequence[tuple[Strategy, Topology]] = (),
    time_s: float | None = None,
    nodes: int = NODES,
) -> JointOptimum | None:
    """The joint optimum; None if no plan fits the memory.

    Args:
        cluster, workload: the job.
        extra: plans known; the program looks for nothing that is worse.
        time_s: limit of the solver; with one the result may depend on the machine.
        nodes: limit of the branch and bound; where it is met, `bound_ms` stays below `time_ms`.

    Raises:
        InputError: the job is too large.
        LimitError: a limit came before any plan was found.
    """
    best = incumbent(cluster, workload, extra)
    anything = _any_theta(cluster, workload)
    tables = joint_tables(cluster, workload, anything)
    least = _least_compute(tables)
    most = min(anything, best - least + SLACK * best) if np.isfinite(best) else anything
    data = replace(tables.data, theta_most=most)
    program = build_arrays(data)
    result: LpResult = SOLVERS["highs"](program, SolverLimits(time_s=time_s), {"mip_max_nodes": nodes})
    if result.status is Status.INFEASIBLE:
        return None
    if result.x is None:
        raise LimitError(f"the joint program gave no plan: {result.message}")
    choice: JointChoice = chosen(data, program, result.x)
    strategy = Strategy(tuple(of[a] for of, a in zip(tables.placements, choice.options, strict=True)))
    time_ms, compute_ms, ring_ms = _evaluate(tables, strategy, choice.counts)
    rings = tuple(
        tuple((order, ms) for order, ms in zip(orders, spent, strict=True) if ms > 0)
        for orders, spent in zip(data.rings, ring_ms, strict=True)
    )
    bound = result.bound if result.bound is not None else 0.0
    return JointOptimum(strategy, choice.counts, rings, time_ms, compute_ms, min(max(bound, least), time_ms))


def _least_compute(tables: JointTables) -> float:
    """A bound on C: all work, at its least, shared by all servers."""
    work = sum(min((float(option.load.sum()) for option in of), default=0.0) for of in tables.data.options)
    return work / tables.data.servers
