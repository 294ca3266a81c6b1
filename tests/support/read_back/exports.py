"""Exports of every target are read back, compared with what they should say, and executed where they are schedules."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.read_back.linux_forwarding import interpret_forwarding
from tests.support.read_back.msccl import read_msccl
from tests.support.read_back.ovs import interpret
from tests.support.read_back.plan_files import read_megatron, read_nccl, read_ns3_topology, read_patch_list
from tests.support.read_back.pods import read_pod_circuits
from tests.support.read_back.rails import read_timetable
from tests.support.read_back.steps import read_steps
from tests.support.read_back.tables import (
    read_cables,
    read_infragraph,
    read_labels,
    read_optical,
    read_repetita,
    read_slurm,
    read_sndlib,
    read_tuner,
)
from tests.support.read_back.traffic import read_traffic
from tests.support.read_back.training_traces import read_training
from topoopt.cli.export import check_choices
from topoopt.core.collective import ChunkProgram
from topoopt.core.errors import CheckError, InputError
from topoopt.core.workload import TaskKind
from topoopt.files.graph_files import read_graph
from topoopt.formats.astrasim import read_network
from topoopt.formats.chakra.read import read_chakra
from topoopt.formats.chakra.read import read_schedule as read_traces
from topoopt.formats.chakra.write import LAYOUT_FILE
from topoopt.formats.flexnet import read_flexnet_taskgraph
from topoopt.formats.flexnet.write import comparable
from topoopt.formats.msccl import read_schedule as read_algorithm
from topoopt.formats.mscclpp import read_schedule as read_plan
from topoopt.formats.patch_list import PHASES_FILE, PODS_FILE, STEPS_FILE
from topoopt.formats.schedules import ScheduleOptions
from topoopt.formats.table import Export
from topoopt.verify.laws.schedules import OrderLimitError, execute


def _astrasim(folder: Path) -> object:
    graph = folder / "topology.txt"
    return read_ns3_topology(graph) if graph.exists() else read_network(folder / "network.yml")


def _chakra(folder: Path) -> object:
    if (folder / LAYOUT_FILE).is_file():
        return read_training(folder)
    return read_chakra(folder, comm_groups=folder / "comm_groups.json").comparable()


def _dag(folder: Path) -> object:
    return json.loads(next(folder.iterdir()).read_text())


def _flexnet(folder: Path) -> object:
    """Tasks, topology, rings and the path of every pair; None: not all are there."""
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


def _graphml(folder: Path) -> object:
    """Servers, links and whether they have a direction."""
    graph = read_graph(next(folder.iterdir()))
    links = ((*link[:3], None if link.rate is None else float(link.rate)) for link in graph.links)
    return graph.servers, tuple(sorted(links)), graph.directed


def _patch_list(folder: Path) -> object:
    """Circuits that stay, those between pods, those of a region by step, or those of rails by phase."""
    if (folder / PODS_FILE).exists():
        return read_pod_circuits(folder)
    if (folder / STEPS_FILE).exists():
        return read_steps(folder)
    return read_timetable(folder) if (folder / PHASES_FILE).exists() else read_patch_list(folder)


READERS: Mapping[str, Callable[[Path], object]] = {
    "astrasim": _astrasim,
    "astrasim-collective": lambda folder: read_traffic(read_traces(folder, ScheduleOptions())),
    "chakra": _chakra,
    "dag": _dag,
    "flexnet-taskgraph": _flexnet,
    "graphml": _graphml,
    "infragraph": read_infragraph,
    "kubernetes": read_labels,
    "linux-forwarding": interpret_forwarding,
    "megatron": read_megatron,
    "msccl": read_msccl,
    "mscclpp": lambda folder: read_traffic(read_plan(folder / "plan.json", ScheduleOptions())),
    "nccl-topology": read_nccl,
    "nccl-tuner": read_tuner,
    "netbox-cables": read_cables,
    "ovs": interpret,
    "patch-list": _patch_list,
    "rccl-tuner": read_tuner,
    "repetita": read_repetita,
    "slurm": read_slurm,
    "sndlib": read_sndlib,
    "sonic-ocs": read_optical,
    "trace": lambda folder: json.loads(next(folder.iterdir()).read_bytes()),
}
"""Of every target: what the files of a folder say, or an InputError where they contradict themselves."""


def programs_of(target: str, folder: Path, solution: Any) -> tuple[ChunkProgram, ...]:
    """Schedules of collectives in the files of an export, as they are executed."""
    options = ScheduleOptions(root=getattr(getattr(solution, "problem", None), "root", 0))
    if target == "msccl":
        return tuple(read_algorithm(file, options) for file in sorted(folder.glob("*.xml")))
    if target == "mscclpp":
        return (read_plan(folder / "plan.json", options),)
    return (read_traces(folder, options),) if target == "astrasim-collective" else ()


def write_files(export: Export, folder: Path) -> None:
    """The files of an export in a folder."""
    for name, data in export.files:
        (folder / name).write_bytes(data)


def check_export(target: str, export: Export) -> None:
    """Read the files back, and compare.

    Raises:
        CheckError: they do not say what the solution says.
    """
    with tempfile.TemporaryDirectory(prefix="topoopt-export-") as folder:
        write_files(export, Path(folder))
        try:
            same = READERS[target](Path(folder)) == export.content
        except InputError as error:
            raise CheckError(f"the export cannot be read back: {str(error).replace(folder, '.')}") from error
    if not same:
        raise CheckError("the export reads back as something else")


def check_written(target: str, export: Export, solution: Any) -> None:
    """Whether another program would read and do what the solution says.

    Raises:
        CheckError: it would not.
    """
    check_export(target, export)
    check_choices(export, solution)
    with tempfile.TemporaryDirectory(prefix="topoopt-export-") as folder:
        write_files(export, Path(folder))
        try:
            found = [execute(program) for program in programs_of(target, Path(folder), solution)]
        except (InputError, OrderLimitError) as error:
            raise CheckError(f"the export cannot be executed: {error}") from error
    if defects := [f"{one.law}: {one.message}" for execution in found for one in execution.defects]:
        raise CheckError("the export does not do what it should: " + "; ".join(defects))
