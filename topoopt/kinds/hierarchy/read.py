"""Instances of kind `hierarchical-bandwidth`: what a user writes, and the problem that it states.

A file has a network (one shape, or shapes to choose from) and workloads: layer by layer, as a graph of tasks, or by the
sizes of a transformer, whose parallelisation is chosen too. `HierarchicalInstance` is the file; `resolve` makes every
design of it, or reports all errors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le, Len
from pydantic import Discriminator, Field, Tag

from topoopt.core.data import STRICT, FileName, SchemaVersion
from topoopt.core.errors import InputError, Problem
from topoopt.core.hierarchy import (
    MAX_DESIGNS,
    MAX_DIMENSIONS,
    MAX_POINTS,
    Block,
    Collective,
    CollectiveCall,
    Communicator,
    Design,
    Dimension,
    HierarchicalNetwork,
    HierarchicalProblem,
    HierarchicalWorkload,
    Layer,
    LayerPhase,
    LinearConstraint,
    Task,
)
from topoopt.core.result import SearchSettings
from topoopt.files import codec
from topoopt.files.codec import FileModel, Label, or_text
from topoopt.files.documents import Document, canonical_sha256
from topoopt.files.issues import Issue, Path, nearest_text, value_text
from topoopt.files.reader_fields import Findings
from topoopt.workloads.language_models import (
    MAX_RANKS,
    PARALLELISMS,
    Npu,
    Strategies,
    Transformer,
    mappings,
    transformer_workload,
)

MAX_LAYERS = 20_000
MAX_TASKS = 500_000
MAX_WORKLOADS = 1000

Bandwidth = Annotated[float, Field(ge=0, le=1e9)]
Speed = Annotated[float, Field(gt=0, le=1e9)]
Price = Annotated[float, Field(gt=0, le=1e9)]
Money = Annotated[float, Field(gt=0, le=1e18)]
TimeNs = Annotated[float, Field(ge=0, le=1e18)]
_SIZE = Annotated[float, Field(gt=0, le=1e18)]
SizeBytes = Annotated[_SIZE, or_text(_SIZE)]
Ranks = Annotated[int, Field(ge=1, le=MAX_RANKS)]
Side = Annotated[float, Field(ge=-1e12, le=1e12)]


class DimensionFile(FileModel):
    """One dimension of the network; the first one is innermost."""

    name: FileName
    block: Literal["ring", "fully-connected", "switch"] = Field(description="what joins its NPUs")
    size: int = Field(ge=2, le=MAX_RANKS, description="NPUs along it")
    tier: FileName | None = Field(default=None, description="which prices of network.tiers hold here")
    min_gbytes_per_s: Bandwidth = 0.0
    max_gbytes_per_s: Speed | None = None
    speeds_gbytes_per_s: Annotated[list[Speed], Field(min_length=1, max_length=1000)] | None = Field(
        default=None, description="the speeds there are, per NPU; null: any"
    )


class ShapeFile(FileModel):
    """A candidate for the shape of the network."""

    name: FileName
    dimensions: Annotated[list[DimensionFile], Field(min_length=1, max_length=MAX_DIMENSIONS)]


class TierFile(FileModel):
    """Prices in US dollars for 1 GB/s of one NPU; a switch dimension pays link, switch and NIC, others the link."""

    link: Price
    switch: Price | None = None
    nic: Price | None = None


class ConstraintFile(FileModel):
    """A linear constraint on the bandwidths: at_least <= sum of coefficient x bandwidth <= at_most."""

    name: FileName
    terms: Annotated[dict[str, Side], Field(min_length=1, max_length=MAX_DIMENSIONS)] = Field(
        description="coefficient of each dimension, by name"
    )
    at_least: Side | None = None
    at_most: Side | None = None
    equals: Side | None = None


class HierarchicalNetworkFile(FileModel):
    """Shape, or shapes to choose from, and what is asked of the bandwidths (GB/s per NPU, 1 GB/s = 10^9 bytes/s)."""

    dimensions: Annotated[list[DimensionFile], Field(min_length=1, max_length=MAX_DIMENSIONS)] | None = None
    shapes: Annotated[list[ShapeFile], Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="instead of dimensions: candidates, one of which is chosen"
    )
    total_gbytes_per_s: Speed | None = Field(default=None, description="sum over all dimensions, to be used up")
    total_at_most_gbytes_per_s: Speed | None = Field(default=None, description="the same as a limit")
    constraints: Annotated[list[ConstraintFile], Field(max_length=200)] = Field(default=[])
    tiers: Annotated[dict[str, TierFile], Field(max_length=50)] = Field(default={}, description="prices by tier")
    fixed_cost_usd: float = Field(default=0.0, ge=0, le=1e18, description="cost whatever the bandwidths")


class CommunicationFile(FileModel):
    """One collective."""

    collective: Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "point-to-point"]
    bytes: SizeBytes = Field(description="buffer of a rank; of an all-gather the shard a rank starts with")
    communicator: str | None = Field(
        default=None, max_length=200, description="name in communicators; null: the whole network"
    )


class PhaseFile(FileModel):
    """Compute, then collectives one after the other."""

    compute_ns: TimeNs = 0.0
    collectives: Annotated[list[CommunicationFile], Field(max_length=1000)] = Field(default=[])


class LayerFile(FileModel):
    """One layer."""

    name: Label
    repeat: int = Field(default=1, ge=1, le=10**9, description="so many equal layers")
    forward: PhaseFile = PhaseFile()
    input_gradient: PhaseFile = PhaseFile()
    weight_gradient: PhaseFile = PhaseFile()


class TaskFile(PhaseFile):
    """One node of a dependency graph."""

    name: Label
    after: Annotated[list[Annotated[int, Field(ge=0, lt=MAX_TASKS)]], Field(max_length=MAX_TASKS)] = Field(
        default=[], description="positions in tasks, counted from 0, of tasks listed before this one"
    )


CommunicatorsFile = Annotated[
    dict[str, Annotated[list[Ranks], Field(min_length=1, max_length=MAX_DIMENSIONS)]], Field(max_length=1000)
]


class LayersWorkload(FileModel):
    """A job layer by layer."""

    name: Label
    weight: float = Field(default=1.0, gt=0, le=1e12, description="of its iteration time in the objective")
    loop: Literal["no-overlap", "dp-overlap"] = "no-overlap"
    communicators: CommunicatorsFile = Field(default={}, description="ranks of a group in each dimension, 1: not used")
    layers: Annotated[list[LayerFile], Field(min_length=1, max_length=MAX_LAYERS)]


class TasksWorkload(FileModel):
    """A job as a dependency graph; an iteration takes as long as its longest path."""

    name: Label
    weight: float = Field(default=1.0, gt=0, le=1e12, description="of its iteration time in the objective")
    communicators: CommunicatorsFile = Field(default={}, description="ranks of a group in each dimension, 1: not used")
    tasks: Annotated[list[TaskFile], Field(min_length=1, max_length=MAX_TASKS)]


class TransformerWorkload(FileModel):
    """A job by the sizes of its model; parallelization and its dimensions are chosen with the bandwidths."""

    name: Label
    weight: float = Field(default=1.0, gt=0, le=1e12, description="of its iteration time in the objective")
    loop: Literal["no-overlap", "dp-overlap"] = "no-overlap"
    model: Transformer
    npu: Npu
    strategies: Strategies = Strategies()


def workload_shape(value: object) -> str:
    """Which shape of a workload is meant; the answer names the class."""
    if isinstance(value, LayersWorkload | TasksWorkload | TransformerWorkload):
        return type(value).__name__
    keys = value.keys() if isinstance(value, dict) else ()
    return "TransformerWorkload" if "model" in keys else "TasksWorkload" if "tasks" in keys else "LayersWorkload"


WorkloadFile = Annotated[
    Annotated[LayersWorkload, Tag("LayersWorkload")]
    | Annotated[TasksWorkload, Tag("TasksWorkload")]
    | Annotated[TransformerWorkload, Tag("TransformerWorkload")],
    Discriminator(workload_shape),
    Field(description="a mapping with name and one of layers, tasks and model"),
]


@dataclass(frozen=True, kw_only=True)
class HierarchicalInstance:
    """Bandwidth of every dimension of a hierarchical network."""

    __pydantic_config__ = STRICT

    schema_version: SchemaVersion = 1
    """version of this file format"""
    kind: Literal["hierarchical-bandwidth"] = "hierarchical-bandwidth"
    name: FileName = "hierarchy"
    network: HierarchicalNetworkFile
    workloads: Annotated[list[WorkloadFile], Len(1, MAX_WORKLOADS)]
    objective: Literal["time", "time-times-cost", "cost"] = "time"
    fleet: Literal["weighted-sum", "worst-case"] = "weighted-sum"
    """what time means for several workloads: sum or maximum of weight x time"""
    cost_cap_usd: Money | None = None
    """most the network may cost"""
    time_limit_ns: TimeNs | None = None
    """longest time, for the objective cost"""
    pareto_points: Annotated[int, Ge(0), Le(MAX_POINTS)] = 0
    """points of the front of time and cost"""
    search: SearchSettings = SearchSettings()  # noqa: RUF009 - frozen


# Network.


TOTAL = "total"
"""Name of the constraint on the sum of all dimensions."""


def shapes_of(file: HierarchicalNetworkFile) -> list[tuple[Path, ShapeFile]]:
    """Every candidate shape and where it stands below `network`; empty when none or both forms are given."""
    if (file.dimensions is None) == (file.shapes is None):
        return []
    if file.dimensions is not None:
        return [((), ShapeFile(name="network", dimensions=file.dimensions))]
    return [(("shapes", index), shape) for index, shape in enumerate(file.shapes or ())]


def network_errors(file: HierarchicalNetworkFile) -> list[Issue]:
    """What the schema cannot state; paths begin with `network`."""
    errors: list[Issue] = []
    shapes = shapes_of(file)
    if not shapes:
        errors.append(Issue((), "which shape?", allowed="exactly one of dimensions and shapes"))
    errors += _repeated([(("shapes", index, "name"), shape.name) for index, (_, shape) in enumerate(shapes)])
    for path, shape in shapes:
        rows = [((*path, "dimensions", index), item) for index, item in enumerate(shape.dimensions)]
        errors += _repeated([((*where, "name"), item.name) for where, item in rows])
        for where, item in rows:
            errors += _dimension_errors(where, item, file)
    counts = {math.prod(item.size for item in shape.dimensions) for _, shape in shapes}
    if len(counts) > 1:
        listed = ", ".join(str(count) for count in sorted(counts))
        errors.append(Issue(("shapes",), "shapes of different numbers of NPUs", listed, "the same product of sizes"))
    if file.total_gbytes_per_s is not None and file.total_at_most_gbytes_per_s is not None:
        errors.append(Issue(("total_at_most_gbytes_per_s",), "two totals", allowed="one of the two"))
    errors += _repeated([(("constraints", k, "name"), item.name) for k, item in enumerate(file.constraints)], (TOTAL,))
    for index, constraint in enumerate(file.constraints):
        errors += _constraint_errors(("constraints", index), constraint, [shape for _, shape in shapes])
    return [Issue(("network", *error.path), error.message, error.value, error.allowed) for error in errors]


def _repeated(named: Sequence[tuple[Path, str]], taken: Sequence[str] = ()) -> list[Issue]:
    seen = set(taken)
    errors = []
    for path, name in named:
        if name in seen:
            errors.append(Issue(path, "name used twice", name, "a name of its own"))
        seen.add(name)
    return errors


def _dimension_errors(where: Path, item: DimensionFile, file: HierarchicalNetworkFile) -> list[Issue]:
    errors = []
    most = math.inf if item.max_gbytes_per_s is None else item.max_gbytes_per_s
    if item.min_gbytes_per_s > most:
        allowed = f"at most max_gbytes_per_s, {most:g}"
        errors.append(Issue((*where, "min_gbytes_per_s"), "above the maximum", f"{item.min_gbytes_per_s:g}", allowed))
    speeds = item.speeds_gbytes_per_s
    if speeds is not None and not any(item.min_gbytes_per_s <= speed <= most for speed in speeds):
        allowed = f"a speed from {item.min_gbytes_per_s:g} to {most:g}"
        errors.append(Issue((*where, "speeds_gbytes_per_s"), "no speed within the bounds", value_text(speeds), allowed))
    if item.tier is None:
        if file.tiers:
            errors.append(Issue((*where, "tier"), "missing price", allowed=nearest_text("", file.tiers)))
    elif item.tier not in file.tiers:
        errors.append(Issue((*where, "tier"), "unknown tier", item.tier, nearest_text(item.tier, file.tiers)))
    elif item.block == "switch" and file.tiers[item.tier].switch is None:
        errors.append(
            Issue(("tiers", item.tier), "missing price: a dimension of this tier is a switch", allowed="switch")
        )
    return errors


def _constraint_errors(where: Path, item: ConstraintFile, shapes: Sequence[ShapeFile]) -> list[Issue]:
    errors = []
    names = list(dict.fromkeys(dimension.name for shape in shapes for dimension in shape.dimensions))
    for name in item.terms:
        if shapes and name not in names:
            errors.append(Issue((*where, "terms", name), "no such dimension", name, nearest_text(name, names)))
    if not errors and shapes and not any(_applies(item, shape) for shape in shapes):
        errors.append(Issue((*where, "terms"), "no shape has all these dimensions", ", ".join(item.terms)))
    if not any(item.terms.values()):
        errors.append(Issue((*where, "terms"), "all coefficients are 0", allowed="one that is not 0"))
    if item.equals is None and item.at_least is None and item.at_most is None:
        errors.append(Issue(where, "a constraint without a side", allowed="at_least, at_most or equals"))
    elif item.equals is not None and (item.at_least is not None or item.at_most is not None):
        errors.append(Issue((*where, "equals"), "equals beside at_least or at_most", allowed="one of them"))
    elif item.at_least is not None and item.at_most is not None and item.at_least > item.at_most:
        errors.append(Issue((*where, "at_least"), "above at_most", f"{item.at_least:g}", f"at most {item.at_most:g}"))
    return errors


def _applies(constraint: ConstraintFile, shape: ShapeFile) -> bool:
    """A constraint holds for the shapes that have all its dimensions."""
    return set(constraint.terms) <= {dimension.name for dimension in shape.dimensions}


def _price(block: str, tier: TierFile) -> float:
    """US dollars for 1 GB/s of one NPU (every block's links and ports reduce to this)."""
    if Block(block) is not Block.SWITCH:
        return tier.link
    return tier.link + (tier.switch or 0.0) + (tier.nic or 0.0)


def _dimension(item: DimensionFile, tiers: dict[str, TierFile]) -> Dimension:
    most = math.inf if item.max_gbytes_per_s is None else item.max_gbytes_per_s
    speeds = sorted({speed for speed in item.speeds_gbytes_per_s or () if item.min_gbytes_per_s <= speed <= most})
    return Dimension(
        name=item.name,
        block=Block(item.block),
        size=item.size,
        tier=item.tier or "",
        usd_per_gbytes_per_s=None if item.tier is None else _price(item.block, tiers[item.tier]),
        min_gbytes_per_s=speeds[0] if speeds else item.min_gbytes_per_s,
        max_gbytes_per_s=speeds[-1] if speeds else most,
        speeds_gbytes_per_s=tuple(speeds),
    )


def _constraint(item: ConstraintFile, names: Sequence[str]) -> LinearConstraint:
    least = item.equals if item.equals is not None else item.at_least
    most = item.equals if item.equals is not None else item.at_most
    return LinearConstraint(
        name=item.name,
        coefficients=tuple(item.terms.get(name, 0.0) for name in names),
        at_least=-math.inf if least is None else least,
        at_most=math.inf if most is None else most,
    )


def networks_of(file: HierarchicalNetworkFile) -> tuple[HierarchicalNetwork, ...]:
    total = file.total_gbytes_per_s or file.total_at_most_gbytes_per_s
    networks = []
    for _, shape in shapes_of(file):
        names = [item.name for item in shape.dimensions]
        constraints = [_constraint(item, names) for item in file.constraints if _applies(item, shape)]
        if total is not None:
            least = total if file.total_gbytes_per_s is not None else -math.inf
            constraints.insert(0, LinearConstraint(TOTAL, (1.0,) * len(names), least, total))
        networks.append(
            HierarchicalNetwork(
                name=shape.name,
                dimensions=tuple(_dimension(item, file.tiers) for item in shape.dimensions),
                constraints=tuple(constraints),
                total_gbytes_per_s=total,
                fixed_cost_usd=file.fixed_cost_usd,
            )
        )
    return tuple(networks)


# Workloads.


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


def workload_errors(where: Path, file: LayersWorkload | TasksWorkload, shapes: Sequence[ShapeFile]) -> list[Issue]:
    """What the schema cannot state: communicators that do not fit a shape, unknown names, tasks after later ones."""
    errors: list[Issue] = []
    if WHOLE in file.communicators:
        allowed = "another name; a collective without communicator uses the whole network"
        errors.append(Issue((*where, "communicators", WHOLE), "a name that is taken", allowed=allowed))
    for shape in shapes:
        for name, ranks in file.communicators.items():
            errors += _ranks_errors((*where, "communicators", name), ranks, shape)
    for path, phase in _phases(file):
        for index, item in enumerate(phase.collectives):
            if item.communicator is not None and item.communicator not in file.communicators:
                allowed = nearest_text(item.communicator, file.communicators)
                path_of = (*where, *path, "collectives", index, "communicator")
                errors.append(Issue(path_of, "no such communicator", item.communicator, allowed))
    if isinstance(file, TasksWorkload):
        for index, task in enumerate(file.tasks):
            for position, before in enumerate(task.after):
                if before >= index:
                    allowed = f"positions before this task's, {index}"
                    errors.append(
                        Issue((*where, "tasks", index, "after", position), "not before", str(before), allowed)
                    )
    work = any(phase.compute_ns or phase.collectives for _, phase in _phases(file))
    if not work:
        errors.append(Issue(where, "a workload without compute and collectives", allowed="at least one"))
    return errors[:SHOWN]


def _ranks_errors(where: Path, ranks: Sequence[int], shape: ShapeFile) -> list[Issue]:
    sizes = [item.size for item in shape.dimensions]
    if len(ranks) != len(sizes):
        allowed = f"{len(sizes)} numbers of ranks, one for each dimension of {shape.name}"
        return [Issue(where, "not one number for each dimension", f"a list of {len(ranks)}", allowed)]
    return [
        Issue(
            (*where, index),
            f"the ranks do not divide dimension {item.name} of {shape.name}",
            str(rank),
            f"a divisor of {item.size}",
        )
        for index, (rank, item) in enumerate(zip(ranks, shape.dimensions, strict=True))
        if item.size % rank
    ]


def workload_of(file: LayersWorkload | TasksWorkload, network: HierarchicalNetwork) -> HierarchicalWorkload:
    communicators = [Communicator(name, tuple(ranks)) for name, ranks in file.communicators.items()]
    names = {item.name: position for position, item in enumerate(communicators)}
    if any(item.communicator is None for _, phase in _phases(file) for item in phase.collectives):
        communicators.append(Communicator(WHOLE, tuple(item.size for item in network.dimensions)))

    def communication(item: CommunicationFile) -> CollectiveCall:
        position = len(communicators) - 1 if item.communicator is None else names[item.communicator]
        return CollectiveCall(Collective(item.collective), item.bytes, position)

    def phase(item: PhaseFile) -> LayerPhase:
        return LayerPhase(item.compute_ns, tuple(communication(call) for call in item.collectives))

    if isinstance(file, TasksWorkload):
        tasks = tuple(Task(item.name, phase(item), tuple(sorted(set(item.after)))) for item in file.tasks)
        return HierarchicalWorkload(file.name, "dag", tuple(communicators), tasks=tasks, weight=file.weight)
    layers = tuple(
        Layer(item.name, phase(item.forward), phase(item.input_gradient), phase(item.weight_gradient), item.repeat)
        for item in file.layers
    )
    return HierarchicalWorkload(file.name, file.loop, tuple(communicators), layers, weight=file.weight)


# The problem.


def resolve(document: Document) -> HierarchicalProblem:
    """Check and build.

    Raises:
        InputError: everything wrong with the file, so far as one fault does not hide another.
    """
    findings = Findings()
    file = findings.shaped(HierarchicalInstance, document)
    findings.add(_errors(file))
    candidates = None if findings.issues else findings.attempt(lambda: _designs(file), ("workloads",))
    designs = findings.settled(document, candidates)
    return HierarchicalProblem(
        name=file.name,
        designs=designs,
        objective=file.objective,
        fleet=file.fleet,
        cost_cap_usd=file.cost_cap_usd,
        time_limit_ns=file.time_limit_ns,
        pareto_points=file.pareto_points,
        search=file.search,
        sha256=canonical_sha256(codec.plain(file)),
    )


def _errors(file: HierarchicalInstance) -> list[Issue]:
    errors = network_errors(file.network)
    shapes = [shape for _, shape in shapes_of(file.network)]
    seen: set[str] = set()
    for index, workload in enumerate(file.workloads):
        if workload.name in seen:
            errors.append(Issue(("workloads", index, "name"), "name used twice", workload.name, "a name of its own"))
        seen.add(workload.name)
        if isinstance(workload, TransformerWorkload):
            model = workload.model
            if model.experts_per_token > model.experts:
                where = ("workloads", index, "model", "experts_per_token")
                errors.append(Issue(where, "more than there are", str(model.experts_per_token), str(model.experts)))
        else:
            errors += workload_errors(("workloads", index), workload, shapes)
    return errors + _objective_errors(file)


def _objective_errors(file: HierarchicalInstance) -> list[Issue]:
    """Limits that do not go with the objective, and cost without prices."""
    errors = []
    if file.objective == "cost" and file.time_limit_ns is None:
        errors.append(Issue(("time_limit_ns",), "the objective cost needs a limit on time", allowed="nanoseconds"))
    if file.objective != "cost" and file.time_limit_ns is not None:
        errors.append(Issue(("time_limit_ns",), "a limit on time without the objective cost", allowed="null"))
    if file.objective == "cost" and file.cost_cap_usd is not None:
        errors.append(Issue(("cost_cap_usd",), "a cost cap beside the objective cost", allowed="null"))
    if not file.network.tiers:
        priced = {
            "objective": file.objective != "time",
            "cost_cap_usd": file.cost_cap_usd is not None,
            "pareto_points": file.pareto_points > 0,
        }
        for key in (key for key, used in priced.items() if used):
            value = str(getattr(file, key))
            errors.append(Issue((key,), "missing prices", value, "network.tiers, and a tier in every dimension"))
    return errors


def _designs(file: HierarchicalInstance) -> tuple[Design, ...]:
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
    candidates = mappings(file.model, file.npu, file.strategies, [dimension.size for dimension in network.dimensions])
    for mapping in itertools.islice(candidates, MAX_DESIGNS + 1):
        yield transformer_workload(
            file.model,
            file.npu,
            mapping,
            name=file.name,
            loop=file.loop,
            weight=file.weight,
            microbatches=file.strategies.microbatches,
        )


def _name(
    network: HierarchicalNetwork, networks: Sequence[HierarchicalNetwork], chosen: Sequence[HierarchicalWorkload]
) -> str:
    parts = [network.name] if len(networks) > 1 else []
    parts += [f"{item.name}: {strategy_text(item)}" for item in chosen if item.strategy]
    return "; ".join(parts) or network.name


def strategy_text(workload: HierarchicalWorkload) -> str:
    """`tensor 16 (16, 1, 1), data 256 (1, 8, 32)`: degrees above one, with their ranks in each dimension."""
    ranks = {item.name: item.ranks for item in workload.communicators}
    parts = [f"{name} {degree} {ranks[name]}" for name, degree in workload.strategy if degree > 1]
    return ", ".join(parts) or "one rank"


def _no_strategy(file: HierarchicalInstance, networks: Sequence[HierarchicalNetwork]) -> Problem:
    for index, workload in enumerate(file.workloads):
        if not any(next(_options(workload, network), None) for network in networks):
            allowed = (
                f"degrees of {', '.join(PARALLELISMS)} parallelism that multiply to the NPUs, divide width, blocks, "
                "experts and batch, and leave the weights in memory"
            )
            return Problem("no strategy fits", path=f"workloads[{index}].strategies", allowed=allowed)
    return Problem("no shape has strategies for all workloads", path="workloads")
