"""A strategy and a topology given by hand: rings and routes made for them by the steps that end every search."""

from __future__ import annotations

import numpy as np

from solvers.job.candidate_plan import plan_of
from solvers.job.loop import Candidate, LoopResult, LoopSettings
from solvers.job.realise import pairs_routed, realise
from solvers.job.topology_step import TopologyStep
from solvers.stop import Stop
from topoopt.core.cluster import Cluster
from topoopt.core.job import ConvergencePoint
from topoopt.core.proofs import StopReason
from topoopt.core.search_settings import AllReduceChoice
from topoopt.core.topology import Topology
from topoopt.core.workload import Strategy, Workload
from topoopt.simulate.demand import demand_of


def plan_on(
    cluster: Cluster,
    workload: Workload,
    topology: Topology,
    strategy: Strategy,
    *,
    programs: tuple[str, ...] = (),
    allreduce: AllReduceChoice = AllReduceChoice.RINGS,
    seed: int = 0,
    stop: Stop,
) -> LoopResult:
    """The plan of a strategy on a connected topology: rings of its groups, routes balanced for its demand.

    Args:
        cluster, workload: of the job.
        topology, strategy: given; neither is changed.
        allreduce: what AllReduces run on.
        programs: whose ring mixes are tried as well (`solvers.job.program_topologies`).
        seed: of tie-breaks.
        stop: looked at before the programs.
    """
    settings = LoopSettings(0, 1, search_strategy=False, search_topology=False, programs=programs, allreduce=allreduce)
    step = TopologyStep(cluster, workload, settings, seed=seed, stop=stop)
    graph = step.graph(strategy)
    demand = demand_of(graph)
    groups = [group.members for group in demand.allreduce]
    plain = realise(cluster, topology, groups, seed=seed, pairs=pairs_routed(demand))
    first = step.timed(graph, Candidate("given", strategy, plain, np.inf))
    best = step.best_routes(first)
    return LoopResult(
        plan=plan_of(step, best),
        iteration_time_ms=best.iteration_time_ms,
        initial_ms=first.iteration_time_ms,
        convergence=(ConvergencePoint(0, "routes", best.iteration_time_ms),),
        stopped_by=stop.reason() or StopReason.CONVERGED,
        proposals=0,
        notes=("strategy and topology were given, rings and routes made for them",),
    )
