"""Instance files of the kind `hierarchical-bandwidth` to domain objects: all checks, then every design."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from topoopt.core.errors import InputError, Problem
from topoopt.core.hierarchy import Design, Fleet, HierarchicalNetwork, HierarchicalObjective, HierarchicalProblem
from topoopt.core.hierarchy_workload import HierarchicalWorkload, Loop
from topoopt.core.units import GIB
from topoopt.files.canonical import canonical_sha256
from topoopt.files.documents import Document
from topoopt.files.faults import Fault
from topoopt.files.findings import Findings
from topoopt.kinds.hierarchy.network import network_faults, networks_of, shapes_of
from topoopt.kinds.hierarchy.schema import HierarchicalFile, TransformerWorkload, WorkloadFile
from topoopt.kinds.hierarchy.workloads import workload_faults, workload_of
from topoopt.workloads.hierarchical_transformer import (
    PARALLELISMS,
    DegreeChoices,
    Mapping,
    Npu,
    Transformer,
    mappings,
    transformer_workload,
)

MAX_DESIGNS = 20_000
"""Shapes x strategies of one instance."""


def read_hierarchical(document: Document) -> HierarchicalProblem:
    """Check and build.

    Raises:
        InputError: everything wrong with the file, so far as one fault does not hide another.
    """
    findings = Findings()
    file = findings.shaped(HierarchicalFile, document)
    findings.add(_faults(file))
    found = None if findings.faults else findings.attempt(lambda: _designs(file), ("workloads",))
    designs = findings.settled(document, found)
    return HierarchicalProblem(
        name=file.name,
        designs=designs,
        objective=HierarchicalObjective(file.objective),
        fleet=Fleet(file.fleet),
        cost_cap_usd=file.cost_cap_usd,
        time_limit_ns=file.time_limit_ns,
        pareto_points=file.pareto_points,
        search=file.search.build(),
        sha256=canonical_sha256(file.model_dump(mode="json")),
    )


def _faults(file: HierarchicalFile) -> list[Fault]:
    faults = network_faults(file.network)
    shapes = [shape for _, shape in shapes_of(file.network)]
    seen: set[str] = set()
    for index, workload in enumerate(file.workloads):
        if workload.name in seen:
            faults.append(Fault(("workloads", index, "name"), "name used twice", workload.name, "a name of its own"))
        seen.add(workload.name)
        if isinstance(workload, TransformerWorkload):
            model = workload.model
            if model.experts_per_token > model.experts:
                where = ("workloads", index, "model", "experts_per_token")
                faults.append(Fault(where, "more than there are", str(model.experts_per_token), str(model.experts)))
        else:
            faults += workload_faults(("workloads", index), workload, shapes)
    return faults + _objective_faults(file)


def _objective_faults(file: HierarchicalFile) -> list[Fault]:
    """Limits that do not go with the objective, and cost without prices."""
    faults = []
    if file.objective == "cost" and file.time_limit_ns is None:
        faults.append(Fault(("time_limit_ns",), "the objective cost needs a limit on time", allowed="nanoseconds"))
    if file.objective != "cost" and file.time_limit_ns is not None:
        faults.append(Fault(("time_limit_ns",), "a limit on time without the objective cost", allowed="null"))
    if file.objective == "cost" and file.cost_cap_usd is not None:
        faults.append(Fault(("cost_cap_usd",), "a cost cap beside the objective cost", allowed="null"))
    if not file.network.tiers:
        wants = {
            "objective": file.objective != "time",
            "cost_cap_usd": file.cost_cap_usd is not None,
            "pareto_points": file.pareto_points > 0,
        }
        for key in (key for key, wanted in wants.items() if wanted):
            value = str(getattr(file, key))
            faults.append(Fault((key,), "missing prices", value, "network.tiers, and a tier in every dimension"))
    return faults


def _designs(file: HierarchicalFile) -> tuple[Design, ...]:
    """Every shape with every strategy.

    Raises:
        InputError: no strategy fits, or there are too many.
    """
    designs: list[Design] = []
    networks = networks_of(file.network)
    for network in networks:
        options = [list(_options(workload, network)) for workload in file.workloads]
        count = math.prod(len(rows) for rows in options)
        if len(designs) + count > MAX_DESIGNS:
            text = f"{count} designs on {network.name}"
            allowed = f"at most {MAX_DESIGNS}; fewer degrees, or mapping inner-first"
            raise InputError([Problem("too many shapes and strategies", path="workloads", value=text, allowed=allowed)])
        for chosen in itertools.product(*options):
            designs.append(Design(_name(network, networks, chosen), network, chosen))
    if not designs:
        raise InputError([_no_strategy(file, networks)])
    return tuple(designs)


def _options(file: WorkloadFile, network: HierarchicalNetwork) -> Iterator[HierarchicalWorkload]:
    if not isinstance(file, TransformerWorkload):
        yield workload_of(file, network)
        return
    model, npu, choices = _model(file)
    found = mappings(model, npu, choices, [dimension.size for dimension in network.dimensions])
    for mapping in itertools.islice(found, MAX_DESIGNS + 1):
        yield _made(file, model, npu, mapping, choices)


def _model(file: TransformerWorkload) -> tuple[Transformer, Npu, DegreeChoices]:
    npu, own = file.npu, file.strategies
    memory = None if npu.memory_gib is None else npu.memory_gib * GIB
    choices = DegreeChoices(
        tensor=None if own.tensor is None else tuple(own.tensor),
        pipeline=None if own.pipeline is None else tuple(own.pipeline),
        expert=None if own.expert is None else tuple(own.expert),
        microbatches=own.microbatches,
        inner_first=own.mapping == "inner-first",
    )
    return Transformer(**file.model.model_dump()), Npu(npu.tflops, memory, npu.bytes_per_parameter), choices


def _made(
    file: TransformerWorkload, model: Transformer, npu: Npu, mapping: Mapping, choices: DegreeChoices
) -> HierarchicalWorkload:
    return transformer_workload(
        model, npu, mapping, name=file.name, loop=Loop(file.loop), weight=file.weight, microbatches=choices.microbatches
    )


def _name(
    network: HierarchicalNetwork, networks: Sequence[HierarchicalNetwork], chosen: Sequence[HierarchicalWorkload]
) -> str:
    parts = [network.name] if len(networks) > 1 else []
    parts += [f"{one.name}: {strategy_text(one)}" for one in chosen if one.strategy]
    return "; ".join(parts) or network.name


def strategy_text(workload: HierarchicalWorkload) -> str:
    """`tensor 16 (16, 1, 1), data 256 (1, 8, 32)`: degrees above one, with their ranks in each dimension."""
    ranks = {one.name: one.ranks for one in workload.communicators}
    parts = [f"{name} {degree} {ranks[name]}" for name, degree in workload.strategy if degree > 1]
    return ", ".join(parts) or "one rank"


def _no_strategy(file: HierarchicalFile, networks: Sequence[HierarchicalNetwork]) -> Problem:
    for index, workload in enumerate(file.workloads):
        if not any(next(_options(workload, network), None) for network in networks):
            allowed = (
                f"degrees of {', '.join(PARALLELISMS)} parallelism that multiply to the NPUs, divide width, blocks, "
                "experts and batch, and leave the weights in memory"
            )
            return Problem("no strategy fits", path=f"workloads[{index}].strategies", allowed=allowed)
    return Problem("no shape has strategies for all workloads", path="workloads")
