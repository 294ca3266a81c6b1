"""What `topoopt export` reads: solutions, and what else an exporter needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from topoopt.core.errors import InputError, Problem
from topoopt.kinds import kind_named

if TYPE_CHECKING:
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


def previous_topology(file: Path) -> Topology:
    """The topology of an earlier solution.

    Raises:
        InputError: not a solution with a topology.
    """
    from topoopt.files.solution_kind import solution_kind
    from topoopt.formats.graphml.graphs import topology_of

    kind = solution_kind(file, ["co-optimisation", "routing", "topology"])
    return topology_of(kind_named(kind).files.solutions.read(file))
