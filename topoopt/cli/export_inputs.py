"""What `topoopt export` reads: solutions, and what else an exporter needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from topoopt.core.errors import InputError, Problem
from topoopt.kinds import kind_named

if TYPE_CHECKING:
    from topoopt.core.topology import Topology


LINKED = ("graphml", "patch-list")
"""Targets that write the circuits of a language model."""


def from_instance(
    to: str,
    told: tuple[str, ...],
    instance: Path | None,
    solution: Any,
    file: Path,
    fabric: str | None,
    pod_gpus: int | None,
    pod_ports: int | None,
    circuit_gbps: float | None,
) -> dict[str, Any]:
    """What an exporter is told of the instance beside the solution: fields of `ExportOptions`.

    Args:
        told: kinds whose instance the target is told of.
        instance: None: for these kinds the one that stands in the solution, if one does.
        file: of the solution.
        fabric: of a language model, whose plan; None: that of the solution's own plan.
        pod_gpus, pod_ports, circuit_gbps: of a pod of a language model, and of a circuit.

    Raises:
        InputError: the instance cannot be read, is not the one that was solved, or its groups do not fit into pods.
    """
    if to == "patch-list" or (instance is None and (solution.kind not in told or solution.instance is None)):
        return {}
    problem = _solved(instance, solution, file)
    if to == "dag":
        from topoopt.library.job_graphs import graph_of_job
        from topoopt.simulate.llm_training.pod_graph import PodSetting

        pods = None if pod_gpus is None else PodSetting(pod_gpus, pod_ports, circuit_gbps)
        return {"job_graph": graph_of_job(problem, solution, pods, fabric)}
    if solution.kind == "llm-training":
        from topoopt.library.training_exports import training_program

        return {"program": training_program(problem, solution, fabric)}
    if solution.kind == "co-optimisation":
        from topoopt.simulate.lower import build_task_graph

        return {"task_graph": build_task_graph(problem.cluster, problem.workload, solution.plan.strategy)}
    return {}


def _solved(instance: Path | None, solution: Any, file: Path) -> Any:
    """The instance of a solution; None: the one that stands in its file.

    Raises:
        InputError: there is none, it cannot be read, or is not the one that was solved.
    """
    from topoopt.kinds.files import embedded_problem, read_instance

    found = embedded_problem(solution, file) if instance is None else read_instance(instance)
    place, path = (str(file), "instance") if instance is None else (str(instance), "--instance")
    if found.kind != solution.kind:
        message = "this target needs a job"
        raise InputError([Problem(message, place, None, "kind", found.kind, solution.kind)])
    if found.sha256 != solution.instance_sha256:
        message = "not the instance that was solved"
        raise InputError([Problem(message, place, None, path, found.sha256, solution.instance_sha256)])
    return found


def circuits_of(to: str, solution: Any, file: Path, instance: Path | None, fabric: str | None) -> dict[str, Any]:
    """The circuits of a language model's plan, of rails over a step, of pods or of servers: fields of `ExportOptions`.

    Args:
        file: of the solution.
        instance: None: the one that stands in the solution.

    Raises:
        InputError: no links join its servers to each other, or no instance says what a step on rails does.
    """
    if solution.kind != "llm-training" or to not in LINKED:
        return {}
    from topoopt.library.training_exports import circuits_of_rails, pods_of_plan, rails_of_plan

    plan = pods_of_plan(solution, fabric)
    if plan is not None and to == "patch-list":
        return {"pods": plan}
    if to == "graphml" or not rails_of_plan(solution, fabric):
        return {"topology": links_of(solution, fabric)}
    return {"timetable": circuits_of_rails(_solved(instance, solution, file), solution, fabric)}


def links_of(solution: Any, fabric: str | None) -> Topology:
    """The links of a solution.

    Args:
        fabric: of a language model, whose plan; None: that of the solution's own plan.

    Raises:
        InputError: no links join its servers to each other.
    """
    from topoopt.formats.exporter import topology_of
    from topoopt.library.training_exports import training_topology

    if solution.kind == "llm-training":
        return training_topology(solution, fabric)
    return topology_of(solution)


def previous_topology(file: Path, fabric: str | None) -> Topology:
    """The topology of an earlier solution.

    Args:
        fabric: of a language model, as for the solution that is written.

    Raises:
        InputError: not a solution with a topology.
    """
    from topoopt.files.results import solution_kind

    kind = solution_kind(file, ["co-optimisation", "llm-training", "routing", "topology"])
    return links_of(kind_named(kind).files.solutions.read(file), fabric)
