"""What `topoopt export` reads: solutions, and what else an exporter needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from topoopt.core.errors import InputError, Problem
from topoopt.kinds import kind_named

if TYPE_CHECKING:
    from topoopt.core.rank_program import RankProgram
    from topoopt.core.taskgraph import TaskGraph
    from topoopt.core.topology import Topology


def task_graph_of(instance: Path, solution: Any) -> TaskGraph:
    """The iteration that a solution's strategy makes of its instance.

    Raises:
        InputError: the instance cannot be read, or is not the one that was solved.
    """
    from topoopt.core.job import CoOptimisation
    from topoopt.kinds.instance_file import read_instance
    from topoopt.simulate.lower import build_task_graph

    found = read_instance(instance)
    if not isinstance(found, CoOptimisation):
        message = "this target needs a job"
        raise InputError([Problem(message, str(instance), None, "kind", found.kind, "co-optimisation")])
    if found.sha256 != solution.instance_sha256:
        message = "not the instance that was solved"
        raise InputError([Problem(message, str(instance), None, "--instance", found.sha256, solution.instance_sha256)])
    return build_task_graph(found.cluster, found.workload, solution.plan.strategy)


def program_of(instance: Path, solution: Any, fabric: str | None) -> RankProgram:
    """What ranks do in one iteration of a language model.

    Args:
        fabric: whose plan; None: that of the solution's own plan.

    Raises:
        InputError: the instance cannot be read, or is not the one that was solved.
    """
    from topoopt.core.llm_training import LlmTrainingProblem
    from topoopt.kinds.instance_file import read_instance
    from topoopt.library.training_exports import training_program

    found = read_instance(instance)
    if not isinstance(found, LlmTrainingProblem) or found.sha256 != solution.instance_sha256:
        message = "not the instance that was solved"
        raise InputError([Problem(message, str(instance), None, "--instance", found.sha256, solution.instance_sha256)])
    return training_program(found, solution, fabric)


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
