"""What `topoopt export` reads: solutions, and what else an exporter needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topoopt.core.errors import InputError, Problem

if TYPE_CHECKING:
    from topoopt.core.taskgraph import TaskGraph
    from topoopt.core.topology import Topology


def _read_co_optimisation(path: Path) -> Any:
    from topoopt.kinds.job.solution_file import SOLUTION_FILE

    return SOLUTION_FILE.read(path)


def _read_network(path: Path) -> Any:
    from topoopt.kinds.network.solution_file import read_network_solution

    return read_network_solution(path)


def _read_hierarchical(path: Path) -> Any:
    from topoopt.kinds.hierarchy.solution_file import SOLUTION_FILE

    return SOLUTION_FILE.read(path)


def _read_placement(path: Path) -> Any:
    from topoopt.kinds.placement.solution_file import SOLUTION_FILE

    return SOLUTION_FILE.read(path)


def _read_allocation(path: Path) -> Any:
    from topoopt.kinds.allocation.solution_file import SOLUTION_FILE

    return SOLUTION_FILE.read(path)


SOLUTION_READERS: Mapping[str, Callable[[Path], Any]] = {
    "co-optimisation": _read_co_optimisation,
    "routing": _read_network,
    "topology": _read_network,
    "hierarchical-bandwidth": _read_hierarchical,
    "placement": _read_placement,
    "allocation": _read_allocation,
}
"""Reader of the solution files of each kind that some target takes."""


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


def previous_topology(file: Path) -> Topology:
    """The topology of an earlier solution.

    Raises:
        InputError: not a solution with a topology.
    """
    from topoopt.files.solution_kind import solution_kind
    from topoopt.formats.graphml.graphs import topology_of

    kind = solution_kind(file, ["co-optimisation", "routing", "topology"])
    return topology_of(SOLUTION_READERS[kind](file))
