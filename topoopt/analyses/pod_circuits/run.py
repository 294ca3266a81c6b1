"""Circuits for one iteration of a plan: the best, those of matrices, and as few as do as well as the best matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from solvers.dag_topology.box import crowded
from solvers.dag_topology.matrices import MATRIX_METHODS
from solvers.stop import Stop, first_part
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.dag_topology_solution import DagTopologySolution
from topoopt.core.errors import InputError, Problem
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.verdict import StopReason
from topoopt.formats.dag_topology.write import dag_document
from topoopt.kinds.explanation import options_within
from topoopt.kinds.instance_file import read_instance, write_instance
from topoopt.kinds.pipeline import solve
from topoopt.library.job_graphs import graph_of_job
from topoopt.simulate.llm_training.pod_graph import PodSetting

PLAN_SHARE, BEST_SHARE = 0.3, 0.6
"""Parts of the time left: for the plan, for its circuits; the rest is for fewest circuits."""

SAME = 1e-9
"""Part of a makespan that is rounding."""

Tell = Callable[[str, int, int | None], None]


@dataclass(frozen=True, eq=False)
class PodCircuits:
    """Circuits of a graph, chosen in several ways; all solutions are checked.

    Attributes:
        graph: of one iteration.
        best: circuits by the graph.
        matrices: by the name of the method.
        early: as few circuits as were found to be as early as the best matrix.
    """

    graph: DagTopologyProblem
    best: DagTopologySolution
    matrices: Mapping[str, DagTopologySolution]
    early: DagTopologySolution

    @property
    def best_matrix(self) -> str:
        """The name of the method whose circuits are done first, of several the first of the table."""
        least = min(each.objective.value for each in self.matrices.values())
        return next(name for name, each in self.matrices.items() if each.objective.value <= least * (1 + SAME))

    @property
    def stopped_by(self) -> StopReason:
        """CONVERGED if both searches were to the end."""
        reasons = (self.best.stopped_by, self.early.stopped_by)
        return next((one for one in reasons if one is not StopReason.CONVERGED), StopReason.CONVERGED)


def pod_circuits(
    problem: LlmTrainingProblem, setting: PodSetting, max_hops: int, file: Path, stop: Stop, tell: Tell
) -> PodCircuits:
    """Solve an instance, write an iteration of its plan as a graph, and choose circuits for it.

    Args:
        max_hops: of the graph.
        file: to write the graph to, an instance of kind `dag-topology`.

    Raises:
        InputError: pods split groups, hold no whole part of a stage, or forward with too few ports for matrices.
        InfeasibleError: nothing fits, or ports are too few.
        LimitError: the limit came before there was a plan.
        CheckError: the graph is not that of the instance.
    """
    tell("plan", 0, None)
    plan = solve(problem, options_within(_part(stop, PLAN_SHARE)))
    graph = replace(graph_of_job(problem, plan, setting, None), max_hops=max_hops)
    write_instance(dag_document(graph), file)
    read = read_instance(file)
    assert isinstance(read, DagTopologyProblem)
    if read.forwarding and crowded(read):
        text = "matrices give every pair circuits of its own, for which ports are too few"
        allowed = "more; topoopt export --to dag and topoopt solve choose circuits with routes alone"
        raise InputError([Problem(text, path="--pod-ports", value=str(read.ports[0]), allowed=allowed)])
    tell("circuits", 0, None)
    best = solve(read, options_within(_part(stop, BEST_SHARE)))
    matrices = {}
    for done, name in enumerate(MATRIX_METHODS):
        tell("matrices", done, len(MATRIX_METHODS))
        matrices[name] = solve(replace(read, max_hops=1, sha256="", document=None), options_within(stop, name))
    least = min(each.objective.value for each in matrices.values())
    early = best
    if least > best.objective.value * (1 + SAME):
        tell("fewest circuits", 0, None)
        slack = 100.0 * (least / best.objective.value - 1.0)
        early = solve(replace(read, slack_percent=slack, sha256="", document=None), options_within(stop, "auto"))
    return PodCircuits(read, best, matrices, early)


def _part(stop: Stop, share: float) -> Stop:
    return first_part(stop, share, math.inf) if stop.deadline is not None else stop
