"""Execution traces as instances of three kinds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from topoopt.core.errors import InputError, Problem
from topoopt.formats.astrasim.content import BLOCKS
from topoopt.formats.astrasim.read import dimension_documents, npu_bandwidths, read_network
from topoopt.formats.chakra.hierarchy import hierarchical_document, layers_workload
from topoopt.formats.chakra.instances import (
    ORDER_NOTE,
    THETA_NOTE,
    between_servers,
    compute_ns,
    servers_of,
    topology_document,
)
from topoopt.formats.chakra.read import read_chakra
from topoopt.formats.chakra.tasks import tasks_workload
from topoopt.formats.chakra.trace_content import TraceContent
from topoopt.formats.chakra.traffic import Algorithm, refuse_unsupported, traffic_matrix
from topoopt.formats.chakra.workload import workload_of_trace
from topoopt.formats.importer import (
    DegreeOption,
    Imported,
    Importer,
    LinkOption,
    LinksOption,
    NameOption,
    QueuesOption,
    job_of_workload,
    name_of,
    require_choice,
    require_positive,
)

SHOWN_COLLECTIVES = 1000
GROUPS_FILE = "comm_groups.json"


def parse_dims(text: str) -> list[dict[str, Any]]:
    """Dimensions of `ring:16,fully-connected:8,switch:32` as they stand in an instance.

    Raises:
        InputError: another shape of text.
    """
    dimensions, problems = [], []
    for place, part in enumerate(text.split(","), 1):
        block, _, size = part.strip().partition(":")
        if block in BLOCKS.values() and re.fullmatch(r"[0-9]{1,8}", size):
            dimensions.append({"name": f"dim{place}", "block": block, "size": int(size)})
        else:
            allowed = f"BLOCK:SIZE parted by commas, BLOCK one of {', '.join(BLOCKS.values())}"
            problems.append(Problem("not a dimension", None, None, "--dims", ascii(part[:40]), allowed))
    if problems:
        raise InputError(problems)
    return dimensions


def _shape(
    dims: str | None, network: Path | None, total: float | None, queues: int
) -> tuple[list[dict[str, Any]], float, list[str]]:
    """Dimensions and total bandwidth of a hierarchical instance, and what of the network is not used."""
    if (dims is None) == (network is None):
        raise InputError(
            [Problem("this kind needs the dimensions", path="--dims", allowed="--dims or --network, one of them")]
        )
    if network is not None:
        content = read_network(network)
        left_out = [f"{network}: latencies are left out: this kind has none"] if any(content.latency_ns) else []
        return dimension_documents(content), total or sum(npu_bandwidths(content, queues)), left_out
    if total is None:
        raise InputError([Problem("missing", path="--total-gbytes-per-s", allowed="GB/s per NPU over all dimensions")])
    return parse_dims(dims or ""), total, []


@dataclass(frozen=True)
class _Job:
    """A job as its traces have it; compute time of its busiest rank."""

    name: str
    content: TraceContent
    compute_ns: float


@dataclass(frozen=True)
class _Made:
    """An instance, what was assumed to make it, and figures of its own."""

    document: dict[str, Any]
    notes: Sequence[str]
    figures: dict[str, Any] = field(default_factory=dict)


def _layers(job: _Job, dimensions: list[dict[str, Any]], total: float) -> _Made:
    sizes = tuple(dimension["size"] for dimension in dimensions)
    workload, notes = layers_workload(job.content, sizes, job.compute_ns)
    return _Made(hierarchical_document(job.name, dimensions, total, workload), notes)


def _graph(
    job: _Job,
    path: Path,
    dimensions: list[dict[str, Any]],
    total: float,
    comm_groups: Path | None,
    peak_tflops: float | None,
    *,
    control: bool,
) -> _Made:
    workload, notes = tasks_workload(
        path,
        job.content.name,
        tuple(dimension["size"] for dimension in dimensions),
        job.content.ranks,
        comm_groups=comm_groups,
        peak_tflops=peak_tflops,
        control=control,
    )
    return _Made(hierarchical_document(job.name, dimensions, total, workload), notes, {"tasks": len(workload["tasks"])})


def _topology(
    job: _Job, ranks_per_server: int, interfaces: dict[str, Any], algorithms: tuple[Algorithm, Algorithm]
) -> _Made:
    servers = servers_of(job.content, ranks_per_server)
    demand = between_servers(traffic_matrix(job.content, *algorithms), servers)
    left_out = f"this kind has no compute: {job.compute_ns / 1e6:.6g} ms of the busiest rank are left out"
    notes = [*([left_out] if job.compute_ns else []), ORDER_NOTE, THETA_NOTE]
    return _Made(topology_document(job.name, demand, **interfaces), notes, {"traffic_bytes": float(demand.sum())})


def _workload(job: _Job, ranks_per_server: int, interfaces: dict[str, Any]) -> _Made:
    made = workload_of_trace(job.content, ranks_per_server, job.compute_ns / 1e6)
    cluster = {"servers": made.servers, "gpus_per_server": ranks_per_server, **interfaces, "gpu_memory_gib": None}
    return _Made(job_of_workload(job.name, cluster, made.workload), made.notes)


def _groups_beside(path: Path, given: Path | None) -> tuple[Path | None, list[str]]:
    """The file of process groups: as given, else that of the folder of the traces, if it is there."""
    beside = (path if path.is_dir() else path.parent) / GROUPS_FILE
    if given is not None or not beside.is_file():
        return given, []
    return beside, [f"process groups from {beside}"]


def _summary(job: _Job) -> dict[str, Any]:
    content = job.content
    shown = [
        {
            "collective": use.collective.name.lower().replace("_", "-"),
            "members": list(use.members),
            "bytes": use.size_bytes,
            "calls": max(use.calls),
        }
        for use in content.uses[:SHOWN_COLLECTIVES]
    ]
    return {
        "ranks": content.ranks,
        "nodes": content.nodes,
        "compute_ns": job.compute_ns,
        "collectives": shown,
        "collectives_total": len(content.uses),
        "point_to_point_bytes": int(content.sent_bytes.sum()),
    }


def import_traces(
    path: Annotated[Path, typer.Argument(help="Folder or prefix of PREFIX.RANK.et files, or one .et file.")],
    kind: Annotated[str, typer.Option("--as", help="co-optimisation, topology or hierarchical-bandwidth.")],
    ranks: Annotated[int | None, typer.Option(help="Number of ranks, for the trace of a single one.")] = None,
    comm_groups: Annotated[
        Path | None, typer.Option(help="JSON file of process groups; default: comm_groups.json beside the traces.")
    ] = None,
    peak_tflops: Annotated[float | None, typer.Option(help="Rate of compute nodes that state operations only.")] = None,
    algorithm: Annotated[str, typer.Option(help="topology: ring, direct or halving-doubling.")] = "ring",
    all_to_all: Annotated[str, typer.Option(help="topology: direct, or ring (relayed).")] = "direct",
    gpus_per_server: Annotated[int, typer.Option(min=1, max=4096, help="Consecutive ranks that share a server.")] = 1,
    degree: DegreeOption = 4,
    link_gbps: LinkOption = 100.0,
    links: LinksOption = "bidirectional",
    dims: Annotated[str | None, typer.Option(help="hierarchical: BLOCK:SIZE,... innermost first.")] = None,
    network: Annotated[Path | None, typer.Option(help="hierarchical: ASTRA-sim network yml instead of --dims.")] = None,
    total_gbytes_per_s: Annotated[float | None, typer.Option(help="hierarchical: GB/s per NPU in all.")] = None,
    loop: Annotated[str, typer.Option(help="hierarchical: no-overlap or dag.")] = "no-overlap",
    dependencies: Annotated[str, typer.Option(help="dag: all, or data (control dependencies left out).")] = "all",
    ring_queues: QueuesOption = 1,
    name: NameOption = None,
) -> Imported:
    """Chakra execution traces, one file a rank: traffic, collectives and compute of a job."""
    require_choice("--as", kind, ("co-optimisation", "topology", "hierarchical-bandwidth"))
    require_choice("--algorithm", algorithm, tuple(Algorithm))
    require_choice("--all-to-all", all_to_all, ("direct", "ring"))
    require_choice("--loop", loop, ("no-overlap", "dag"))
    require_choice("--dependencies", dependencies, ("all", "data"))
    for option, value in (
        ("--peak-tflops", peak_tflops),
        ("--link-gbps", link_gbps),
        ("--total-gbytes-per-s", total_gbytes_per_s),
    ):
        require_positive(option, value)
    hierarchical = kind == "hierarchical-bandwidth"
    shape = _shape(dims, network, total_gbytes_per_s, ring_queues) if hierarchical else ([], 0.0, list[str]())
    dimensions, total, left_out = shape
    sizes = tuple(dimension["size"] for dimension in dimensions)
    groups, found = _groups_beside(path, comm_groups)
    content = read_chakra(path, ranks=ranks, comm_groups=groups, dims=sizes)
    refuse_unsupported(content.uses, str(path))
    per_rank, told = compute_ns(content, peak_tflops)
    job = _Job(name or name_of(path), content, float(per_rank.max()))
    interfaces = {"degree": degree, "link_gbps": link_gbps, "links": links}
    if hierarchical and loop == "dag":
        made = _graph(job, path, dimensions, total, groups, peak_tflops, control=dependencies == "all")
    elif hierarchical:
        made = _layers(job, dimensions, total)
    elif kind == "topology":
        made = _topology(job, gpus_per_server, interfaces, (Algorithm(algorithm), Algorithm(all_to_all)))
    else:
        made = _workload(job, gpus_per_server, interfaces)
    line = f"{content.ranks} ranks, {content.nodes} nodes"
    notes = [*found, *left_out, *content.notes, *told, *made.notes]
    return Imported(made.document, line, {**_summary(job), **made.figures}, tuple(notes))


IMPORTER: Importer = import_traces
