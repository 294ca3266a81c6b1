"""Measured profiles and task graphs of the FlexNet search become instances of jobs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.workload import GRADIENT_BYTES, Operator, OperatorInput, Split, TaskGraph, TaskKind, Workload
from topoopt.files.job_document import read_profile
from topoopt.files.reader_fields import named
from topoopt.formats.flexnet import FlexnetFile, read_flexnet_taskgraph
from topoopt.formats.table import (
    DegreeOption,
    Imported,
    Importer,
    LinkOption,
    LinksOption,
    NameOption,
    imported_job,
    name_of,
    require_positive,
)
from topoopt.workloads.models import ElementSizes, build_workload, find_model
from topoopt.workloads.operators import Profile, ProfileCosts

LAYER_COUNTS: Mapping[str, Mapping[int, Mapping[str, int]]] = {
    "dlrm": {n: {"bottom_layers": 7, "top_layers": 15} for n in (16, 32, 128)},
    "candle": {
        16: {"feature_layers": 12, "dense_layers": 8},
        32: {"feature_layers": 12, "dense_layers": 8},
        128: {"feature_layers": 16, "dense_layers": 8},
    },
    "bert": {16: {"layers": 6}, 32: {"layers": 12}, 128: {"layers": 12}},
    "vgg": {},
    "resnet": {},
    "ncf": {128: {"mlp_layers": 8}},
}
"""Per model and server count, what a profile does not tell: operator counts of the released task graphs."""

COUNT_NAMES: Mapping[str, tuple[str, ...]] = {
    "dlrm": ("bottom_layers", "top_layers"),
    "candle": ("feature_layers", "dense_layers"),
    "bert": ("layers",),
    "vgg": (),
    "resnet": (),
    "ncf": ("mlp_layers",),
}

IMAGE_SIDES = range(16, 4097)


@dataclass(frozen=True)
class _Names:
    """Shapes read from the operator names of a profile."""

    profile: Profile
    gpus: int

    def shapes(self, pattern: str) -> list[tuple[int, ...]]:
        matches = (re.fullmatch(pattern, name) for name in self.profile.operators)
        return sorted(tuple(int(group) for group in match.groups()) for match in matches if match)

    @property
    def dense(self) -> list[tuple[int, ...]]:
        return self.shapes(r"Dense_(\d{1,9})_(\d{1,9})")

    def memory(self, key: str) -> tuple[int, int]:
        table = self.profile.operators[key]
        parts = max(table)
        return table[parts].gpu_memory_bytes, self.profile.samples // (parts * self.gpus)


def _one(values: list[int], what: str) -> int:
    distinct = sorted(set(values))
    if len(distinct) != 1:
        raise ValueError(f"{what}: candidates {distinct[:10]}")
    return distinct[0]


def _lookups(names: _Names, rows: int, dim: int) -> int:
    memory = names.profile.operators[f"Embed_{rows}x{dim}"][1].gpu_memory_bytes
    samples = names.profile.samples
    lookups, rest = divmod(memory - 8 * rows * dim - 8 * samples * dim, 16 * samples)
    return _one([lookups] if rest == 0 else [], "lookups per table")


def _dlrm(names: _Names) -> dict[str, int]:
    rows, dim = _one_pair(names.shapes(r"Embed_(\d{1,12})x(\d{1,6})"), "tables")
    top = _one([i for i, o in names.dense if o == 1], "width of the top MLP")
    squares = [i for i, o in names.dense if i == o]
    bottom = _one([w for w in squares if w != top] or squares, "width of the bottom MLP")
    joined = _one([i for i, o in names.dense if o == top and i != top], "inputs of the top MLP")
    tables, rest = divmod(joined - bottom, dim)
    return {
        "tables": _one([tables] if rest == 0 and tables > 0 else [], "number of tables"),
        "table_rows": rows,
        "embedding_dim": dim,
        "lookups": _lookups(names, rows, dim),
        "bottom_width": bottom,
        "top_width": top,
    }


def _one_pair(shapes: list[tuple[int, ...]], what: str) -> tuple[int, int]:
    if len(shapes) != 1:
        raise ValueError(f"{what}: candidates {shapes[:10]}")
    return shapes[0][0], shapes[0][1]


def _candle(names: _Names) -> dict[str, int]:
    return {
        "feature_width": _one([o for i, o in names.dense if i == 942], "width of the encoders"),
        "dense_width": _one([i for i, o in names.dense if o == 1 and i != 1], "width of the dense stack"),
    }


def _bert(names: _Names) -> dict[str, int]:
    hidden = _one([i for i, o in names.dense if i == o], "hidden width")
    text = str(hidden)
    joined = [str(shape[0]) for shape in names.shapes(r"MultiHeadAttention_(\d{1,18})")]
    heads = _one([int(t[len(text) :]) for t in joined if t.startswith(text) and t != text], "heads")
    memory, samples = names.memory(f"Dense_{hidden}_{hidden}")
    sequence, rest = divmod(memory - 8 * (hidden * hidden + hidden), 16 * hidden * samples)
    return {"hidden": hidden, "heads": heads, "sequence": _one([sequence] if rest == 0 else [], "sequence length")}


def _image_size(names: _Names, key: str, weights: int, output: Callable[[int], int]) -> int:
    """Side of the image from the memory of the first convolution; `output` gives the side of its output."""
    memory, samples = names.memory(key)
    sides = [s for s in IMAGE_SIDES if 4 * (weights + samples * (3 * s * s + 64 * output(s) ** 2)) == memory]
    return _one(sides, "image size")


def _vgg(names: _Names) -> dict[str, int]:
    hidden = _one([i for i, o in names.dense if i == o], "width of the dense layers")
    return {
        "hidden": hidden,
        "classes": _one([o for i, o in names.dense if i == hidden and o != hidden], "classes"),
        "image_size": _image_size(names, "Conv2D_3_3_64", 3 * 9 * 64 + 64, lambda side: side + 2),
    }


def _resnet(names: _Names) -> dict[str, int]:
    return {
        "classes": _one([o for _, o in names.dense], "classes"),
        "image_size": _image_size(names, "Conv2D_7_7_64", 3 * 49 * 64 + 64, lambda side: (side - 1) // 2 + 1),
    }


def _ncf(names: _Names) -> dict[str, int]:
    embeds = names.shapes(r"Embed_(\d{1,12})x(\d{1,6})")
    rows = _one([shape[0] for shape in embeds], "rows of the tables")
    width = _one([i for i, o in names.dense if i == o], "width of the MLP")
    product = _one([i for i, o in names.dense if o == 1 and i != width + 1], "width of the product")
    joined = _one([i for i, o in names.dense if o == width and i != width], "inputs of the MLP")
    dims = [shape[1] for shape in embeds]
    pairs = [(g, m) for g in dims for m in dims if product % g == 0 and 2 * (product // g) * m == joined]
    gmf, mlp = _one_pair([*pairs], "row widths of the tables")
    return {
        "tables": product // gmf,
        "table_rows": rows,
        "gmf_dim": gmf,
        "mlp_dim": mlp,
        "lookups": _lookups(names, rows, gmf),
        "mlp_width": width,
    }


RULES: Mapping[str, Callable[[_Names], dict[str, int]]] = {
    "dlrm": _dlrm,
    "candle": _candle,
    "bert": _bert,
    "vgg": _vgg,
    "resnet": _resnet,
    "ncf": _ncf,
}


def infer_sizes(model: str, profile: Profile, *, gpus_per_server: int = 4) -> dict[str, int]:
    """Sizes of the model a profile was measured for, its global batch, and known layer counts.

    Layer counts are those of the TopoOpt paper for the profile's server count; for other counts they are left out.

    Raises:
        InputError: the profile is not of this model, or no rule exists for the model.
    """
    find_model(model)
    file = profile.source or None
    if model not in RULES:
        raise InputError([Problem("no profile rule for model", file=file, value=model, allowed=", ".join(RULES))])
    try:
        sizes = RULES[model](_Names(profile, gpus_per_server))
    except (ValueError, KeyError, ZeroDivisionError) as error:
        text = f"missing operator {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(
            [Problem(f"not a profile of {model}: {text}", file=file, value=", ".join(sorted(profile.operators))[:200])]
        ) from None
    return {**sizes, "global_batch": profile.samples, **LAYER_COUNTS[model].get(profile.servers, {})}


def workload_from_profile(
    model: str,
    profile: Profile,
    *,
    gpus_per_server: int = 4,
    sizes: Mapping[str, int] | None = None,
    element_sizes: ElementSizes = "actual",
) -> Workload:
    """The model a profile was measured for, with the measured splits.

    Args:
        model: key of `topoopt.workloads.models.MODELS`.
        profile: measured times.
        gpus_per_server: g; the profile does not state it (4 in all of the artifact).
        sizes: sizes that are not in the profile or that shall override what is inferred from it.
        element_sizes: bytes per activation element on the network.

    Raises:
        InputError: layer counts that neither the profile nor `sizes` gives, operators the profile lacks.
    """
    inferred = {**infer_sizes(model, profile, gpus_per_server=gpus_per_server), **(sizes or {})}
    missing = [name for name in COUNT_NAMES.get(model, ()) if name not in inferred]
    if missing:
        raise InputError(
            [
                Problem(
                    f"a profile for {profile.servers} servers does not tell this count; state it",
                    file=profile.source or None,
                    path=f"sizes.{name}",
                )
                for name in missing
            ]
        )
    return build_workload(
        model,
        inferred,
        servers=profile.servers,
        gpus_per_server=gpus_per_server,
        costs=ProfileCosts(profile),
        element_sizes=element_sizes,
    )


def _sizes(texts: Sequence[str]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    problems = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[0-9]{1,18}", value.strip()):
            allowed = "NAME=WHOLE NUMBER of at most 18 digits"
            problems.append(Problem("not a size", path="--size", value=text[:80], allowed=allowed))
        elif name.strip() in sizes:
            problems.append(Problem("size given twice", path="--size", value=name.strip()))
        else:
            sizes[name.strip()] = int(value)
    raise_any(problems)
    return sizes


def import_flexnet(
    file: Annotated[Path, typer.Argument(help="Measured operator profile (.json), or task graph (.fbuf).")],
    model: Annotated[str | None, typer.Option(help="Of a profile: dlrm, candle, bert, vgg, resnet or ncf.")] = None,
    size: Annotated[list[str] | None, typer.Option(help="Of a profile: size.NAME=VALUE, sizes of the model.")] = None,
    degree: DegreeOption = 4,
    link_gbps: LinkOption = 100.0,
    links: LinksOption = "bidirectional",
    gpus_per_server: Annotated[int, typer.Option(min=1, max=64, help="GPUs per server.")] = 4,
    gpu_memory_gib: Annotated[float | None, typer.Option(help="Memory of a GPU; default: not checked.")] = None,
    intra_server_gbps: Annotated[float, typer.Option(help="Gbit/s between the GPUs of a server.")] = 2400.0,
    element_sizes: Annotated[str, typer.Option(help="actual, or flexnet (8-byte embedding outputs).")] = "actual",
    local_allreduce: Annotated[str, typer.Option(help="ring, or flexnet (the reference's formula).")] = "ring",
    reference: Annotated[
        bool,
        typer.Option(
            "--reference",
            help="As the reference search counts: element_sizes=flexnet, local_allreduce=flexnet, "
            "intra_server_gbps=200.",
        ),
    ] = False,
    name: NameOption = None,
) -> Imported:
    """A job of the FlexNet search: a model with measured operator times, or a task graph.

    Of a profile, the sizes that it tells are taken from it. Of a task graph the strategy is fixed: every operator keeps
    its split and servers, the network is searched. A server has one GPU then, or two where the graph reduces inside
    servers.
    """
    if file.suffix.lower() != ".json":
        of_profile = {"--model": model, "--size": size, "--gpu-memory-gib": gpu_memory_gib, "--reference": reference}
        raise_any([Problem("of profiles alone", path=option) for option, value in of_profile.items() if value])
        return _import_taskgraph(file, degree, link_gbps, links, name)
    if model is None:
        raise InputError([Problem("missing", path="--model", allowed="dlrm, candle, bert, vgg, resnet or ncf")])
    if reference:
        element_sizes, local_allreduce, intra_server_gbps = "flexnet", "flexnet", 200.0
    if element_sizes not in ("actual", "flexnet"):
        raise InputError([Problem("unknown element sizes", value=element_sizes, allowed="actual, flexnet")])
    require_positive("--link-gbps", link_gbps)
    profile = read_profile(file)
    workload = workload_from_profile(
        model,
        profile,
        gpus_per_server=gpus_per_server,
        sizes=_sizes(size or []),
        element_sizes="flexnet" if element_sizes == "flexnet" else "actual",
    )
    cluster = {
        "servers": profile.servers,
        "gpus_per_server": gpus_per_server,
        "degree": degree,
        "link_gbps": link_gbps,
        "links": links,
        "intra_server_gbps": intra_server_gbps,
        "local_allreduce": local_allreduce,
        "gpu_memory_gib": gpu_memory_gib,
    }
    return imported_job(name or name_of(file), cluster, workload)


UNKNOWN_TENSOR_BYTES = 1


@dataclass
class _Recovered:
    """An operator in the making: forward tasks of its parts, weights, producers, bytes of its output per sample."""

    parts: list[int]
    payloads: list[int] = field(default_factory=list)
    local_ms: float = 0.0
    producers: set[int] = field(default_factory=set)
    sample_bytes: set[int] = field(default_factory=set)


def local_allreduce_gbps(graph: TaskGraph) -> float | None:
    """Rate inside a server of two GPUs at which the reference's formula gives the file's local AllReduce times.

    None if the file has no local times.

    Raises:
        InputError: no single rate explains them.
    """
    reduced = (graph.kind == TaskKind.ALLREDUCE) & (graph.duration_ms > 0) & (graph.bytes > 0)
    if not reduced.any():
        return None
    largest = int(np.argmax(np.where(reduced, graph.bytes, 0)))
    rate = float(graph.bytes[largest]) / float(graph.duration_ms[largest])
    expected = graph.bytes[reduced] / rate
    if not np.allclose(expected, graph.duration_ms[reduced], rtol=1e-3, atol=1e-5):
        raise InputError("the AllReduce times inside servers follow no single rate")
    return rate / 125_000.0


def workload_of_taskgraph(file: FlexnetFile) -> Workload:
    """Workload with the file's strategy pinned.

    Raises:
        InputError: the tasks are not those of operators split evenly over evenly spaced servers.
    """
    graph = file.graph
    predecessors: list[list[int]] = [[] for _ in range(graph.tasks)]
    for task in range(graph.tasks):
        for successor in graph.successor[graph.successor_ptr[task] : graph.successor_ptr[task + 1]]:
            predecessors[int(successor)].append(task)
    operators, operator_of = _group_parts(graph, predecessors)
    _add_weights(graph, predecessors, operators, operator_of)
    samples = int(np.lcm.reduce([len(operator.parts) for operator in operators]))
    problems = _add_inputs(graph, predecessors, operators, operator_of, samples)
    order = _topological(operators)
    position = {index: k for k, index in enumerate(order)}
    built = []
    for k, index in enumerate(order):
        recovered = operators[index]
        label = file.operator_names[index] if index < len(file.operator_names) else f"operator{index}"
        if len(recovered.sample_bytes) > 1:
            problems.append(
                Problem(
                    "transfers of one tensor disagree on its size",
                    path=label,
                    value=str(sorted(recovered.sample_bytes)),
                )
            )
        built.append(_operator(graph, recovered, f"{label}#{k}", position, problems))
    raise_any(problems)
    return Workload("task-graph", samples, tuple(built))


def _group_parts(graph: TaskGraph, predecessors: list[list[int]]) -> tuple[list[_Recovered], dict[int, int]]:
    owner: dict[int, int] = {}  # backward task -> first AllReduce that waits for it
    for waiting in np.flatnonzero(graph.kind == TaskKind.ALLREDUCE).tolist():
        for before in predecessors[waiting]:
            owner.setdefault(before, waiting)
    backward_of: dict[int, int] = {}
    for backward in np.flatnonzero(graph.kind == TaskKind.BACKWARD).tolist():
        for before in predecessors[backward]:
            if graph.kind[before] == TaskKind.FORWARD and graph.source[before] == graph.source[backward]:
                backward_of.setdefault(before, backward)
    operators: list[_Recovered] = []
    operator_of: dict[int, int] = {}
    last_owner: int | None = None
    for task in np.flatnonzero(graph.kind == TaskKind.FORWARD).tolist():
        own = owner.get(backward_of.get(task, -1))
        last = operators[-1].parts[-1] if operators else -1
        same = (
            bool(operators)
            and own == last_owner
            and graph.source[task] > graph.source[last]
            and graph.duration_ms[task] == graph.duration_ms[last]
        )
        if not same:
            operators.append(_Recovered([]))
        operators[-1].parts.append(task)
        last_owner = own
        operator_of[task] = len(operators) - 1
        if task in backward_of:
            operator_of[backward_of[task]] = len(operators) - 1
    return operators, operator_of


def _add_weights(
    graph: TaskGraph, predecessors: list[list[int]], operators: list[_Recovered], operator_of: dict[int, int]
) -> None:
    for task in np.flatnonzero(graph.kind == TaskKind.ALLREDUCE).tolist():
        users = {operator_of[before] for before in predecessors[task] if before in operator_of}
        for index in users:
            operators[index].payloads.append(int(graph.bytes[task]))
            operators[index].local_ms += float(graph.duration_ms[task])


def _add_inputs(
    graph: TaskGraph,
    predecessors: list[list[int]],
    operators: list[_Recovered],
    operator_of: dict[int, int],
    samples: int,
) -> list[Problem]:
    problems = []
    part_of = {task: part for operator in operators for part, task in enumerate(operator.parts)}
    for index, operator in enumerate(operators):
        rows = samples // len(operator.parts)
        for part, task in enumerate(operator.parts):
            for before in predecessors[task]:
                transfer = graph.kind[before] == TaskKind.TRANSFER
                source = predecessors[before][0] if transfer and predecessors[before] else before
                if source not in part_of:
                    continue
                producer = operator_of[source]
                operator.producers.add(producer)
                if not transfer:
                    continue
                own = samples // len(operators[producer].parts)
                first = part_of[source] * own
                overlap = min(first + own, (part + 1) * rows) - max(first, part * rows)
                if overlap <= 0 or graph.bytes[before] % overlap:
                    problems.append(Problem("a transfer is not that of an even split", path=f"operator {index}"))
                    continue
                operators[producer].sample_bytes.add(int(graph.bytes[before]) // overlap)
    return problems[:20]


def _topological(operators: list[_Recovered]) -> list[int]:
    order: list[int] = []
    placed: set[int] = set()
    waiting = list(range(len(operators)))
    while waiting:
        ready = [index for index in waiting if operators[index].producers <= placed]
        if not ready:
            raise InputError("the operators of the task graph form a cycle")
        order.extend(ready)
        placed.update(ready)
        waiting = [index for index in waiting if index not in placed]
    return order


def _kind_of(name: str) -> str:
    """What a name begins with, as kinds are written: `dense` of Dense_8_8, `output-5` of output#5."""
    plain = re.sub(r"[^a-z0-9-]+", "-", name.partition("_")[0].lower()).lstrip("-0123456789")
    return plain[:50] or "operator"


def _operator(
    graph: TaskGraph, recovered: _Recovered, name: str, position: dict[int, int], problems: list[Problem]
) -> Operator:
    servers = [int(graph.source[task]) for task in recovered.parts]
    parts = len(servers)
    stride = graph.servers // parts
    if graph.servers % parts or servers != list(range(servers[0], graph.servers, stride)):
        problems.append(Problem("the parts are not on evenly spaced servers", path=name, value=str(servers)))
    first = recovered.parts[0]
    backward = [
        float(graph.duration_ms[task])
        for task in graph.successor[graph.successor_ptr[first] : graph.successor_ptr[first + 1]]
        if graph.kind[task] == TaskKind.BACKWARD
    ]
    return Operator(
        name=name,
        kind=_kind_of(name),
        output_elements=min(recovered.sample_bytes, default=UNKNOWN_TENSOR_BYTES),
        element_bytes=1,
        weight_elements=tuple(payload // GRADIENT_BYTES for payload in recovered.payloads),
        inputs=tuple(OperatorInput(producer) for producer in sorted(position[p] for p in recovered.producers)),
        splits=(Split(parts, float(graph.duration_ms[first]), backward[0] if backward else 0.0, 0),),
        locally_reduced=recovered.local_ms > 0,
        pinned_offset=servers[0] % stride if graph.servers % parts == 0 else 0,
    )


def _import_taskgraph(file: Path, degree: int, link_gbps: float, links: str, name: str | None) -> Imported:
    require_positive("--link-gbps", link_gbps)
    content = read_flexnet_taskgraph(file)
    workload = workload_of_taskgraph(content)
    local_gbps = local_allreduce_gbps(content.graph)
    inside: dict[str, Any] = {"intra_server_gbps": local_gbps, "local_allreduce": "flexnet"} if local_gbps else {}
    cluster = {
        "servers": content.servers,
        "gpus_per_server": 2 if local_gbps else 1,
        **inside,
        "degree": degree,
        "link_gbps": link_gbps,
        "links": links,
        "gpu_memory_gib": None,
    }
    unused = [
        f"{content.link_gbps:g} Gbit/s of an interface (netbw)",
        f"{len(content.connections)} connections (conn) with {content.switches} switches (nswitch)",
        f"{'no' if content.routes is None else len(content.routes.source)} routes",
        f"rings for {len(content.ring_jumps)} sizes of groups",
        f"{content.gpus_per_server} GPUs of a server (ngpupernode)",
        "ids and types of operators, nodes and rates of devices, rates of the machine model (intergpubw, drambw)",
    ]
    notes = named("not used, as the network is searched anew", unused)
    unknown = named("not used, and not known to this reader", content.unknown)
    return replace(imported_job(name or name_of(file), cluster, workload), notes=(*notes, *unknown))


IMPORTER: Importer = import_flexnet
