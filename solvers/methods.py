"""The methods of `topoopt solve` on a co-optimisation instance, one line each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from solvers.heuristics.alternate import Alternation, LoopResult, LoopSettings, Progress
from solvers.joint_method import run_joint
from solvers.stop import Stop
from topoopt.core.cluster import Cluster
from topoopt.core.workload import Workload


@dataclass(frozen=True)
class Method:
    """Which halves of the alternating loop are searched."""

    summary: str
    search_strategy: bool
    search_topology: bool


METHODS: Mapping[str, Method] = {
    "alternating": Method("strategy and topology in turn, as TopoOpt does", True, True),
    "fixed-topology": Method("strategy search on the TotientPerms topology", True, False),
    "data-parallel": Method("topology search for data parallelism, no strategy search", False, True),
    "joint": Method("alternating, held against the joint optimum of a tiny job (5 servers at most)", True, True),
}

DEFAULT_METHOD = "alternating"
"""What `auto` stands for."""

TASKS_PER_BUDGET = 150_000_000
"""Default budget: about this many tasks are simulated in all (tens of seconds on one core)."""


def default_budget(cluster: Cluster, workload: Workload) -> int:
    """Proposals that take tens of seconds, from the size of the job alone, so that results stay reproducible."""
    compute_tasks = sum(2 * min(cluster.servers, max(s.parts for s in op.splits)) for op in workload.operators)
    edges = sum(len(operator.inputs) for operator in workload.operators) * cluster.servers
    return max(500, min(60_000, TASKS_PER_BUDGET // max(1, compute_tasks + 2 * edges)))


def candidate_limit(servers: int) -> int:
    """Topologies tried per strategy: many where that is cheap."""
    return 48 if servers <= 20 else 24 if servers <= 40 else 10 if servers <= 160 else 4


def run_method(
    name: str,
    cluster: Cluster,
    workload: Workload,
    *,
    budget: int,
    seed: int,
    stop: Stop,
    progress: Progress | None = None,
) -> LoopResult:
    """Run a method of the table.

    Raises:
        KeyError: unknown method (the reader of instances refuses it before).
        InfeasibleError: no plan satisfies the constraints.
        InputError: the job is too large for the method.
    """
    method = METHODS[DEFAULT_METHOD if name == "auto" else name]
    settings = LoopSettings(
        budget=budget,
        topologies=candidate_limit(cluster.servers),
        search_strategy=method.search_strategy,
        search_topology=method.search_topology,
    )
    if name == "joint":
        return run_joint(cluster, workload, settings, seed=seed, stop=stop, progress=progress)
    return Alternation(cluster, workload, settings, seed=seed, stop=stop, progress=progress).run()
