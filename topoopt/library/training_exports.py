"""What exporters are handed of a plan: links on switches, circuits of rails, and graphs of tasks and transfers."""

from __future__ import annotations

from typing import Any

import numpy as np

from solvers.network.assembly import switched
from solvers.switching import RailSteps, switch_mode
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.job import CoOptimisation
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import REGIONAL, FabricPlan, PodCircuits
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.result import Result
from topoopt.core.switching import RailTimetable, StagePorts
from topoopt.core.topology import Topology
from topoopt.formats.table import plan_on
from topoopt.simulate.dag import job_graph
from topoopt.simulate.fabrics import plan_network
from topoopt.simulate.llm_training.ranks import PodSetting, TrainingProgram, pod_graph, program_of
from topoopt.simulate.network import build_task_graph
from topoopt.simulate.rail_job import rail_timetable
from topoopt.simulate.time_models.evaluate import simulate
from topoopt.verify.llm_training.pods import check_pod_graph
from topoopt.verify.llm_training.rail_steps import check_timetable


def training_topology(result: Result[Any, Any], fabric: str | None) -> Topology:
    """Links between servers, each on an optical switch; as many switches as a server has links at most.

    Args:
        fabric: whose plan; None: that of the solution's own plan.

    Raises:
        InputError: no plan for the fabric, or one that joins servers by switches of packets.
    """
    plan = plan_on(result, fabric)
    servers = result.figures.problem.cluster.servers
    if not _direct(plan, servers):
        able = [other.fabric for other in result.plan.fabrics if _direct(other, servers)]
        text, value = "no links join its servers to each other", plan.network.fabric
        allowed = ", ".join(able) or "a solution with direct-connect, torus-3d or regional-circuits among its fabrics"
        raise InputError([Problem(text, path="--fabric", value=value, allowed=allowed)])
    rows = np.array(_between_servers(plan, servers), dtype=np.int64)
    arcs = np.repeat(rows[:, :2], rows[:, 2], axis=0)
    return switched(Topology.of_arcs(servers, arcs, origin=plan.network.fabric))


def _between_servers(plan: FabricPlan, servers: int) -> list[tuple[int, int, int]]:
    return [link for link in plan.network.links if max(link[:2]) < servers]


def _direct(plan: FabricPlan, servers: int) -> bool:
    """Whether all links do; of regional circuits those that do are the circuits, beside one electrical network."""
    between = _between_servers(plan, servers)
    return bool(between) and (len(between) == len(plan.network.links) or plan.network.fabric == REGIONAL)


def rails_of_plan(result: Result[Any, Any], fabric: str | None) -> tuple[StagePorts, ...]:
    """Return the ports of the plan for a fabric; empty: it has no circuits that are reconfigured."""
    return plan_on(result, fabric).ports


def pods_of_plan(result: Result[Any, Any], fabric: str | None) -> PodCircuits | None:
    """Return the circuits between the pods of the plan for a fabric; None: it has none."""
    plan = plan_on(result, fabric)
    if plan.pods is None:
        return None
    figures = next(figures for figures in result.figures.fabrics if figures.fabric == plan.fabric)
    circuits: PodCircuits = figures.pods.circuits
    return circuits


def circuits_of_rails(problem: LlmTrainingProblem, result: Result[Any, Any], fabric: str | None) -> RailTimetable:
    """Circuits of all rails over one step of a plan on rails, looked at by the checker.

    Args:
        fabric: whose plan; None: that of the solution's own plan.

    Raises:
        CheckError: they do not carry what the step exchanges.
    """
    strategy, ports, settings = plan_on(result, fabric).strategy, rails_of_plan(result, fabric), problem.switching
    assert settings is not None
    steps = RailSteps(problem, strategy, settings)
    step = steps.stepped(ports, 0.0, settings.delay_s, switch_mode(settings), events=True)
    timetable = rail_timetable(steps.job, steps.strategy, problem.cluster.gpus_per_server, step)
    wrong = check_timetable(problem, strategy, ports, timetable).violations
    if wrong:
        raise CheckError("the checker rejects circuits of the rails:\n" + "\n".join(map(str, wrong)))
    return timetable


def training_program(problem: LlmTrainingProblem, result: Result[Any, Any], fabric: str | None) -> TrainingProgram:
    """What ranks do in one iteration of a plan.

    Args:
        fabric: whose plan; None: that of the solution's own plan.

    Raises:
        InputError: no plan for the fabric, or a strategy whose ranks are not told one by one.
    """
    return program_of(problem, plan_on(result, fabric).strategy)


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
            raise InputError([Problem(text, path="--set pod_gpus", allowed=allowed)])
        program = training_program(problem, solution, fabric)
        graph = pod_graph(problem, program, pods)
        refuse_other_graph(problem, program.strategy, pods, graph)
        return graph
    if not isinstance(problem, CoOptimisation):
        raise InputError([Problem("this target needs a job", path="instance", value=problem.kind)])
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
