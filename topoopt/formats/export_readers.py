"""What `topoopt export` reads: solutions, what else an exporter needs, and its own files back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topoopt.core.errors import InputError, Problem

if TYPE_CHECKING:
    from topoopt.core.taskgraph import TaskGraph
    from topoopt.core.topology import Topology


def _read_co_optimisation(path: Path) -> Any:
    from topoopt.kinds.job.solution_file import read_solution

    return read_solution(path)


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


def _back_astrasim(folder: Path) -> object:
    from topoopt.formats.astrasim.read import read_network
    from topoopt.formats.astrasim.read_ns3 import read_ns3_topology

    graph = folder / "topology.txt"
    return read_ns3_topology(graph) if graph.exists() else read_network(folder / "network.yml")


def _back_chakra(folder: Path) -> object:
    from topoopt.formats.chakra.read import read_chakra

    return read_chakra(folder, comm_groups=folder / "comm_groups.json").comparable()


def _back_graphml(folder: Path) -> object:
    from topoopt.files.graph_files import read_graph

    graph = read_graph(next(folder.iterdir()))
    return graph.servers, tuple(sorted(graph.links)), graph.directed


def _back_ovs(folder: Path) -> object:
    from topoopt.formats.ovs.read import interpret

    return interpret(folder)


def _back_flexnet(folder: Path) -> object:
    from topoopt.core.taskgraph import TaskKind
    from topoopt.formats.flexnet.read_taskgraph import read_flexnet_taskgraph
    from topoopt.formats.flexnet.write import comparable

    file = read_flexnet_taskgraph(next(folder.iterdir()))
    if file.topology is None or file.routes is None or (file.graph.kind > TaskKind.ALLREDUCE).any():
        return None
    routes = file.routes
    first = {
        (int(source), int(target)): routes.path(int(routes.pair_ptr[pair]))
        for pair, (source, target) in enumerate(zip(routes.source, routes.target, strict=True))
        if source != target
    }
    return comparable(file.graph, file.topology, file.ring_jumps, first)


def _back_forwarding(folder: Path) -> object:
    from topoopt.formats.linux_forwarding.read import interpret_forwarding

    return interpret_forwarding(folder)


def _back_msccl(folder: Path) -> object:
    from topoopt.formats.msccl.read import read_msccl

    return read_msccl(folder)


def _back_nccl(folder: Path) -> object:
    from topoopt.formats.nccl.read import read_nccl

    return read_nccl(folder)


def _back_patch_list(folder: Path) -> object:
    from topoopt.formats.patch_list.read import read_patch_list

    return read_patch_list(folder)


READ_BACK: Mapping[str, Callable[[Path], object]] = {
    "astrasim": _back_astrasim,
    "chakra": _back_chakra,
    "flexnet-taskgraph": _back_flexnet,
    "graphml": _back_graphml,
    "linux-forwarding": _back_forwarding,
    "msccl": _back_msccl,
    "nccl-topology": _back_nccl,
    "ovs": _back_ovs,
    "patch-list": _back_patch_list,
}
"""Reader of each target, from a folder that holds its files."""


def task_graph_of(instance: Path, solution: Any) -> TaskGraph:
    """The iteration that a solution's strategy makes of its instance.

    Raises:
        InputError: the instance cannot be read, or is not the one that was solved.
    """
    from topoopt.core.job import CoOptimisation
    from topoopt.files.instance_file import read_instance
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
