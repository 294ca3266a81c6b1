"""Jobs as graphs of tasks and transfers, whose circuits are then asked for."""

from __future__ import annotations

from typing import Any

from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.job import CoOptimisation
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy
from topoopt.library.training_exports import training_program
from topoopt.simulate.dag.job_graph import job_graph
from topoopt.simulate.fabrics import plan_network
from topoopt.simulate.llm_training.pod_graph import PodSetting, pod_graph
from topoopt.simulate.lower import build_task_graph
from topoopt.simulate.time_models.evaluate import simulate
from topoopt.verify.llm_training.pods import check_pod_graph


def graph_of_job(problem: Any, solution: Any, pods: PodSetting | None, fabric: str | None) -> DagTopologyProblem:
    """One iteration of the plan of a solution.

    Args:
        problem: that was solved.
        pods: of a language model in training; None: those of the instance.
        fabric: whose plan; None: that of the solution's own plan.

    Raises:
        InputError: pods are missing or split groups, or the strategy's ranks are not told one by one.
        CheckError: the graph is not that of the instance.
    """
    if isinstance(problem, LlmTrainingProblem):
        if pods is None and problem.pods is not None:
            pods = PodSetting(problem.pods.gpus, problem.pods.ports, problem.pods.circuit_gbps)
        if pods is None:
            text, allowed = "needed: how many GPUs share the ports of a pod", "multiples of a tensor group"
            raise InputError([Problem(text, path="--pod-gpus", allowed=allowed)])
        program = training_program(problem, solution, fabric)
        graph = pod_graph(problem, program, pods)
        refuse_other_graph(problem, program.strategy, pods, graph)
        return graph
    if not isinstance(problem, CoOptimisation):
        raise InputError([Problem("this target needs a job", path="--instance", value=problem.kind)])
    tasks = build_task_graph(problem.cluster, problem.workload, solution.plan.strategy)
    cluster = problem.shared_as(solution.plan.link_sharing).cluster
    begins = simulate(tasks, plan_network(cluster, solution.plan)).start_ms
    return job_graph(problem.name, problem.cluster, tasks, begins)


def refuse_other_graph(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, pods: PodSetting, graph: DagTopologyProblem
) -> None:
    """Have the checker look at the graph of an iteration.

    Raises:
        CheckError: it is not that of the instance.
    """
    wrong = check_pod_graph(problem, strategy, pods.gpus, graph).violations
    if wrong:
        raise CheckError("the checker rejects the graph of an iteration:\n" + "\n".join(map(str, wrong)))
