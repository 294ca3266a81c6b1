"""The section `workloads` of a hierarchical instance: jobs on every shape, and all that may be wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from topoopt.core.hierarchy import HierarchicalNetwork
from topoopt.core.hierarchy_workload import (
    Collective,
    CollectiveCall,
    Communicator,
    HierarchicalWorkload,
    Layer,
    LayerPhase,
    Loop,
    Task,
)
from topoopt.files.faults import Fault, Path, nearest_text
from topoopt.kinds.hierarchy.schema import CommunicationFile, LayersWorkload, PhaseFile, ShapeFile, TasksWorkload

WHOLE = "whole network"
"""Name of the communicator of collectives that name none."""

SHOWN = 50
"""Faults of one workload listed one by one."""


def _phases(file: LayersWorkload | TasksWorkload) -> Iterator[tuple[Path, PhaseFile]]:
    if isinstance(file, TasksWorkload):
        for index, task in enumerate(file.tasks):
            yield ("tasks", index), task
        return
    for index, layer in enumerate(file.layers):
        yield ("layers", index, "forward"), layer.forward
        yield ("layers", index, "input_gradient"), layer.input_gradient
        yield ("layers", index, "weight_gradient"), layer.weight_gradient


def workload_faults(where: Path, file: LayersWorkload | TasksWorkload, shapes: Sequence[ShapeFile]) -> list[Fault]:
    """What the schema cannot state: communicators that do not fit a shape, unknown names, tasks after later ones."""
    faults: list[Fault] = []
    if WHOLE in file.communicators:
        allowed = "another name; a collective without communicator uses the whole network"
        faults.append(Fault((*where, "communicators", WHOLE), "a name that is taken", allowed=allowed))
    for shape in shapes:
        for name, ranks in file.communicators.items():
            faults += _ranks_faults((*where, "communicators", name), ranks, shape)
    for path, phase in _phases(file):
        for index, one in enumerate(phase.collectives):
            if one.communicator is not None and one.communicator not in file.communicators:
                allowed = nearest_text(one.communicator, file.communicators)
                path_of = (*where, *path, "collectives", index, "communicator")
                faults.append(Fault(path_of, "no such communicator", one.communicator, allowed))
    if isinstance(file, TasksWorkload):
        for index, task in enumerate(file.tasks):
            for place, before in enumerate(task.after):
                if before >= index:
                    allowed = f"positions before this task's, {index}"
                    faults.append(Fault((*where, "tasks", index, "after", place), "not before", str(before), allowed))
    work = any(phase.compute_ns or phase.collectives for _, phase in _phases(file))
    if not work:
        faults.append(Fault(where, "a workload without compute and collectives", allowed="at least one"))
    return faults[:SHOWN]


def _ranks_faults(where: Path, ranks: Sequence[int], shape: ShapeFile) -> list[Fault]:
    sizes = [one.size for one in shape.dimensions]
    if len(ranks) != len(sizes):
        allowed = f"{len(sizes)} numbers of ranks, one for each dimension of {shape.name}"
        return [Fault(where, "not one number for each dimension", f"a list of {len(ranks)}", allowed)]
    return [
        Fault(
            (*where, index),
            f"the ranks do not divide dimension {one.name} of {shape.name}",
            str(rank),
            f"a divisor of {one.size}",
        )
        for index, (rank, one) in enumerate(zip(ranks, shape.dimensions, strict=True))
        if one.size % rank
    ]


def workload_of(file: LayersWorkload | TasksWorkload, network: HierarchicalNetwork) -> HierarchicalWorkload:
    """A job without faults on one shape."""
    communicators = [Communicator(name, tuple(ranks)) for name, ranks in file.communicators.items()]
    names = {one.name: place for place, one in enumerate(communicators)}
    if any(one.communicator is None for _, phase in _phases(file) for one in phase.collectives):
        communicators.append(Communicator(WHOLE, tuple(one.size for one in network.dimensions)))

    def communication(one: CommunicationFile) -> CollectiveCall:
        place = len(communicators) - 1 if one.communicator is None else names[one.communicator]
        return CollectiveCall(Collective(one.collective), one.bytes, place)

    def phase(one: PhaseFile) -> LayerPhase:
        return LayerPhase(one.compute_ns, tuple(communication(each) for each in one.collectives))

    if isinstance(file, TasksWorkload):
        tasks = tuple(Task(one.name, phase(one), tuple(sorted(set(one.after)))) for one in file.tasks)
        return HierarchicalWorkload(file.name, Loop.DAG, tuple(communicators), tasks=tasks, weight=file.weight)
    layers = tuple(
        Layer(one.name, phase(one.forward), phase(one.input_gradient), phase(one.weight_gradient), one.repeat)
        for one in file.layers
    )
    return HierarchicalWorkload(file.name, Loop(file.loop), tuple(communicators), layers, weight=file.weight)
