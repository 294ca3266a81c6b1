"""Jobs as graphs of tasks and transfers, whose circuits are then asked for."""

from __future__ import annotations

from typing import Any

from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.errors import InputError, Problem
from topoopt.core.job import CoOptimisation
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.library.training_exports import training_program
from topoopt.simulate.dag.job_graph import job_graph
from topoopt.simulate.fabrics import plan_network
from topoopt.simulate.llm_training.pod_graph import PodSetting, pod_graph
from topoopt.simulate.lower import build_task_graph
from topoopt.simulate.time_models.evaluate import simulate


def graph_of_job(problem: Any, solution: Any, pods: PodSetting | None, fabric: str | None) -> DagTopologyProblem:
    """One iteration of the plan of a solution.

    Args:
        problem: that was solved.
        pods: of a language model in training.
        fabric: whose plan; None: that of the solution's own plan.

    Raises:
        InputError: pods are missing or split groups, or the strategy's ranks are not told one by one.
    """
    if isinstance(problem, LlmTrainingProblem):
        if pods is None:
            text, allowed = "needed: how many GPUs share the ports of a pod", "multiples of a tensor group"
            raise InputError([Problem(text, path="--pod-gpus", allowed=allowed)])
        return pod_graph(problem, training_program(problem, solution, fabric), pods)
    if not isinstance(problem, CoOptimisation):
        raise InputError([Problem("this target needs a job", path="--instance", value=problem.kind)])
    graph = build_task_graph(problem.cluster, problem.workload, solution.plan.strategy)
    begins = simulate(graph, plan_network(problem.cluster, solution.plan)).start_ms
    return job_graph(problem.name, problem.cluster, graph, begins)
