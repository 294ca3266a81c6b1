"""The best strategy on any fabric: rails whose circuits are set anew, circuits between pods, or other networks."""

from __future__ import annotations

from collections.abc import Iterable

from solvers.dag_topology.pod_search import FoundInPods, best_in_pods
from solvers.llm_training.network.fabrics import fabric_problems
from solvers.llm_training.network.plan import FoundOnFabric, best_on_fabric
from solvers.stop import Stop
from solvers.switching.strategies import FoundOnRails, best_on_rails
from topoopt.core.errors import Problem
from topoopt.core.llm_training import GpuCluster, LlmTrainingProblem
from topoopt.core.llm_training_plan import IDEAL_SWITCH, PHOTONIC_RAILS, POD_CIRCUITS, RankedStrategy

Planned = FoundOnFabric | FoundOnRails | FoundInPods | None
"""What was found on a fabric; None: the strategies on an ideal switch say all."""


def planned_on(
    problem: LlmTrainingProblem, fabric: str, candidates: Iterable[RankedStrategy], stop: Stop, count: int = 1
) -> Planned:
    """Search strategies on a fabric; arguments and errors as of `best_on_fabric`."""
    if fabric == IDEAL_SWITCH:
        return None
    if fabric == PHOTONIC_RAILS:
        return best_on_rails(problem, candidates, stop)
    if fabric == POD_CIRCUITS:
        return best_in_pods(problem, candidates, stop)
    return best_on_fabric(problem, fabric, candidates, stop, count)


def planned_problems(cluster: GpuCluster, fabrics: tuple[str, ...]) -> list[Problem]:
    """Unknown fabrics, and those that the cluster cannot have."""
    return fabric_problems(cluster, tuple(name for name in fabrics if name not in (PHOTONIC_RAILS, POD_CIRCUITS)))
