"""What `topoopt export` reads: solutions, and what else an exporter needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from topoopt.core.errors import InputError, Problem
from topoopt.kinds import kind_named

if TYPE_CHECKING:
    from topoopt.core.dag_topology import DagTopologyProblem
    from topoopt.core.rank_program import RankProgram
    from topoopt.core.taskgraph import TaskGraph
    from topoopt.core.topology import Topology


def task_graph_of(instance: Path, solution: Any) -> TaskGraph:
    """The iteration that a solution's strategy makes of its instance.

    Raises:
        InputError: the instance cannot be read, or is not the one that was solved.
    """
    from topoopt.simulate.lower import build_task_graph

    found = _solved(instance, solution)
    return build_task_graph(found.cluster, found.workload, solution.plan.strategy)


def _solved(instance: Path, solution: Any) -> Any:
    """The instance of a solution.

    Raises:
        InputError: the instance cannot be read, or is not the one that was solved.
    """
    from topoopt.kinds.instance_file import read_instance

    found = read_instance(instance)
    if found.kind != solution.kind:
        message = "this target needs a job"
        raise InputError([Problem(message, str(instance), None, "kind", found.kind, solution.kind)])
    if found.sha256 != solution.instance_sha256:
        message = "not the instance that was solved"
        raise InputError([Problem(message, str(instance), None, "--instance", found.sha256, solution.instance_sha256)])
    return found


def program_of(instance: Path, solution: Any, fabric: str | None) -> RankProgram:
    """What ranks do in one iteration of a language model.

    Args:
        fabric: whose plan; None: that of the solution's own plan.

    Raises:
        InputError: the instance cannot be read, or is not the one that was solved.
    """
    from topoopt.library.training_exports import training_program

    return training_program(_solved(instance, solution), solution, fabric)


def job_graph_of(
    instance: Path, solution: Any, fabric: str | None, gpus: int | None, ports: int | None, gbps: float | None
) -> DagTopologyProblem:
    """One iteration as a graph of tasks and transfers between pods.

    Args:
        fabric: of a language model, whose plan; None: that of the solution's own plan.
        gpus, ports, gbps: of a pod of a language model, and of a circuit.

    Raises:
        InputError: the instance cannot be read, is not the one that was solved, or its groups do not fit into pods.
    """
    from topoopt.library.job_graphs import graph_of_job
    from topoopt.simulate.llm_training.pod_graph import PodSetting

    pods = None if gpus is None else PodSetting(gpus, ports, gbps)
    return graph_of_job(_solved(instance, solution), solution, pods, fabric)


def links_of(solution: Any, fabric: str | None) -> Topology:
    """The links of a solution.

    Args:
        fabric: of a language model, whose plan; None: that of the solution's own plan.

    Raises:
        InputError: no links join its servers to each other.
    """
    from topoopt.core.llm_training_solution import LlmTrainingSolution
    from topoopt.formats.graphml.graphs import topology_of
    from topoopt.library.training_exports import training_topology

    if isinstance(solution, LlmTrainingSolution):
        return training_topology(solution, fabric)
    return topology_of(solution)


def previous_topology(file: Path, fabric: str | None) -> Topology:
    """The topology of an earlier solution.

    Args:
        fabric: of a language model, as for the solution that is written.

    Raises:
        InputError: not a solution with a topology.
    """
    from topoopt.files.solution_kind import solution_kind

    kind = solution_kind(file, ["co-optimisation", "llm-training", "routing", "topology"])
    return links_of(kind_named(kind).files.solutions.read(file), fabric)
