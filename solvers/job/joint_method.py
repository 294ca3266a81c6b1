"""Method `joint`: the alternating loop held against the joint optimum of a tiny job, and the faster of the two plans.

The joint program (`solvers.job.joint_small`) minimises its bulk-synchronous time; its strategy and links are then
realised with the rings of the program and with those of the loop, and simulated by `rounds` like any plan. The notes
state the joint optimum, who proved it, and how far from it the plan of the loop is in the same model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from solvers.job.alternate import Alternation
from solvers.job.joint_proof import AIM, prove_joint
from solvers.job.joint_small import JointOptimum, plan_time, solve_joint
from solvers.job.joint_tables import joint_problems, joint_tables
from solvers.job.loop import LoopResult, LoopSettings, Progress
from solvers.job.realise import Realisation, demand_routed, realise, routes_of_pairs
from solvers.network.constructions.assemble import assemble
from solvers.stop import Stop
from topoopt.core.arrays import Ints
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InputError, LimitError
from topoopt.core.job import ConvergencePoint, JointBound
from topoopt.core.plan import Plan
from topoopt.core.routing import GroupRings, Ring
from topoopt.core.topology import Topology
from topoopt.core.workload import Workload, strided_groups
from topoopt.simulate.demand import demand_of
from topoopt.simulate.fabrics.direct_connect import direct_connect_network
from topoopt.simulate.lower import build_task_graph
from topoopt.simulate.time_models.evaluate import simulate


def run_joint(
    cluster: Cluster,
    workload: Workload,
    settings: LoopSettings,
    *,
    seed: int,
    stop: Stop,
    progress: Progress | None,
    jobs: int = 1,
) -> LoopResult:
    """Run the loop, then the joint program with the loop's plan as incumbent, and return the faster plan by `rounds`.

    Raises:
        InputError: the job is too large for the joint program; the limits are named.
        InfeasibleError, LimitError: as the loop.
    """
    problems = joint_problems(cluster, workload)
    if problems:
        raise InputError(problems)
    loop = Alternation(cluster, workload, settings, seed=seed, stop=stop, progress=progress, jobs=jobs).run()
    if stop.reason() is not None:
        return replace(loop, notes=(*loop.notes, "stopped before the joint program"))
    try:
        known = [(loop.plan.strategy, loop.plan.topology)]
        optimum = solve_joint(cluster, workload, extra=known, time_s=stop.remaining_s())
    except LimitError as error:
        return replace(loop, notes=(*loop.notes, str(error)))
    if optimum is None:  # contradicts the plan at hand
        return replace(loop, notes=(*loop.notes, "the joint program finds no plan that fits the memory"))
    ours = plan_time(cluster, workload, loop.plan.strategy, loop.plan.topology)
    found, time_ms = realised(cluster, workload, optimum, seed=seed)
    joint = proven(cluster, workload, optimum, stop)
    claim = f"{optimum.bound_ms:.6g} (claimed by HiGHS, not verified)"
    least = claim if joint is None else f"{joint.bound_ms:.6g} (proven)"
    notes = (
        f"joint program: {optimum.time_ms:.6g} ms by the bulk-synchronous model, no plan below {least}; "
        f"simulated {time_ms:.6g} ms",
        f"alternating loop: {ours:.6g} ms by the same model, {_above(ours, optimum.time_ms)} the joint optimum; "
        f"simulated {loop.iteration_time_ms:.6g} ms",
    )
    if time_ms >= loop.iteration_time_ms:
        return replace(loop, notes=(*loop.notes, *notes), joint=joint, stopped_by=stop.reason() or loop.stopped_by)
    return replace(
        loop,
        plan=found,
        iteration_time_ms=time_ms,
        convergence=(*loop.convergence, ConvergencePoint(loop.proposals, "joint program", time_ms)),
        stopped_by=stop.reason() or loop.stopped_by,
        notes=("start: joint program", *notes),
        joint=joint,
    )


def proven(cluster: Cluster, workload: Workload, optimum: JointOptimum, stop: Stop) -> JointBound | None:
    """A proof that nothing is faster than the joint optimum, by its model; None where none is found."""
    bound_ms = optimum.time_ms * (1 - AIM)
    tree = prove_joint(joint_tables(cluster, workload, optimum.time_ms).data, bound_ms, stop)
    return None if tree is None else JointBound(bound_ms, tree)


def _above(value: float, least: float) -> str:
    return f"{100 * (value - least) / least:.2f} % above" if least > 0 else "not compared with"


def realised(cluster: Cluster, workload: Workload, optimum: JointOptimum, *, seed: int) -> tuple[Plan, float]:
    """The plan of a joint optimum, and its time by `rounds`: the best of several rings and routes."""
    graph = build_task_graph(cluster, workload, optimum.strategy)
    demand = demand_of(graph)
    topology = topology_of(cluster, optimum.counts)
    weights = demand.model_parallel_bytes
    best: tuple[float, Realisation] | None = None
    for base in _realisations(cluster, topology, [group.members for group in demand.allreduce], optimum):
        for each in (base, *demand_routed(cluster, base, weights, seed=seed)):
            time_ms = simulate(graph, each.network).iteration_time_ms
            if best is None or time_ms < best[0]:
                best = (time_ms, each)
    assert best is not None
    time_ms, chosen = best
    return Plan(optimum.strategy, topology, routes_of_pairs(chosen.routes, weights > 0), chosen.rings), time_ms


def _realisations(
    cluster: Cluster, topology: Topology, groups: list[tuple[int, ...]], optimum: JointOptimum
) -> Iterator[Realisation]:
    """With the rings of the loop, and with those of the program, every hop over a shortest path."""
    import networkx as nx

    base = realise(cluster, topology, groups)
    yield base
    paths = dict(nx.all_pairs_shortest_path(nx.DiGraph([tuple(arc) for arc in topology.arcs.tolist()])))
    orders = dict(zip(strided_groups(cluster.servers), optimum.rings, strict=True))
    rings = []
    for members in groups:
        total = sum(ms for _, ms in orders[members])
        if total <= 0:
            return
        rings.append(
            GroupRings(
                members,
                tuple(
                    Ring(order, ms / total, tuple(tuple(paths[a][b]) for a, b in _hops(order)))
                    for order, ms in orders[members]
                ),
            )
        )
    network = direct_connect_network(cluster, topology, base.routes, tuple(rings))
    yield replace(base, rings=tuple(rings), network=network)


def _hops(order: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    return zip(order, (*order[1:], order[0]), strict=True)


def topology_of(cluster: Cluster, counts: Ints) -> Topology:
    """The topology of link counts, with links added where two servers have interfaces to spare (they do no harm)."""
    counts = counts.copy()
    n, both = cluster.servers, cluster.links is LinkDirection.BIDIRECTIONAL
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            spare = cluster.degree - max(int(counts[i].sum()), int(counts[:, j].sum()))
            if both:
                spare = cluster.degree - max(int(counts[i].sum()), int(counts[j].sum()))
                counts[j, i] += max(0, spare)
            counts[i, j] += max(0, spare)
    arcs = np.repeat(np.argwhere(counts > 0), counts[counts > 0], axis=0).astype(np.int64)
    return assemble(n, cluster.degree, cluster.links, [arcs], "joint program")
