"""`topoopt import chakra` and `topoopt import astrasim-network`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from topoopt.cli.output import JsonOption, Output
from topoopt.core.errors import InputError, Problem

if TYPE_CHECKING:
    from topoopt.formats.trace_content import TraceContent

OutOption = Annotated[Path, typer.Option("--out", "-o", help="Instance file to write.")]
NameOption = Annotated[str | None, typer.Option(help="Name of the instance; default: of the file.")]
QueuesOption = Annotated[
    int, typer.Option(min=1, max=2, help="Queues per dimension of ASTRA-sim: a ring runs one way with 1, both with 2.")
]
SHOWN_COLLECTIVES = 1000


def one_of(option: str, value: str, allowed: tuple[str, ...]) -> str:
    """The value of an option that must be one of a few words.

    Raises:
        InputError: it is not.
    """
    from topoopt.io.faults import nearest_text, value_text

    if value not in allowed:
        raise InputError(
            [Problem("unknown value", None, None, option, value_text(value), nearest_text(value, allowed))]
        )
    return value


def parse_dims(text: str) -> list[dict[str, Any]]:
    """Dimensions of `ring:16,fully-connected:8,switch:32` as they stand in an instance.

    Raises:
        InputError: another shape of text.
    """
    from topoopt.formats.astrasim import BLOCKS

    dimensions, problems = [], []
    for place, part in enumerate(text.split(","), 1):
        block, _, size = part.strip().partition(":")
        if block not in BLOCKS.values() or not size.isascii() or not size.isdigit() or not 2 <= len(size.zfill(2)) <= 8:
            allowed = f"BLOCK:SIZE parted by commas, BLOCK one of {', '.join(BLOCKS.values())}"
            problems.append(Problem("not a dimension", None, None, "--dims", ascii(part[:40]), allowed))
        else:
            dimensions.append({"name": f"dim{place}", "block": block, "size": int(size)})
    if problems:
        raise InputError(problems)
    return dimensions


def _shape(
    dims: str | None, network: Path | None, total: float | None, queues: int
) -> tuple[list[dict[str, Any]], float]:
    """Dimensions and total bandwidth of a hierarchical instance."""
    from topoopt.io.astrasim_network import dimension_documents, npu_bandwidths, read_network

    if (dims is None) == (network is None):
        raise InputError(
            [Problem("this kind needs the dimensions", path="--dims", allowed="--dims or --network, one of them")]
        )
    if network is not None:
        content = read_network(network)
        return dimension_documents(content), total or sum(npu_bandwidths(content, queues))
    if total is None:
        raise InputError([Problem("missing", path="--total-gbytes-per-s", allowed="GB/s per NPU over all dimensions")])
    return parse_dims(dims or ""), total


def _finish(
    document: dict[str, Any], out: Path, output: Output, summary: dict[str, Any], line: str, notes: list[str]
) -> int:
    """Write the instance, then say so."""
    from topoopt.io.instance_file import write_instance

    write_instance(document, out)
    result = {"instance": str(out), "kind": document["kind"], "name": document["name"], **summary, "notes": notes}

    def show(console: Any) -> None:
        console.print(f"written: {out} ({document['kind']}; {line})", soft_wrap=True, highlight=False, markup=False)
        for note in notes:
            console.print(f"note: {note}", soft_wrap=True, highlight=False, markup=False)

    output.result(result, show)
    return 0


def _summary(content: TraceContent, compute_ns: float) -> dict[str, Any]:
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
        "compute_ns": compute_ns,
        "collectives": shown,
        "collectives_total": len(content.uses),
        "point_to_point_bytes": int(content.sent_bytes.sum()),
    }


def chakra(
    path: Annotated[Path, typer.Argument(help="Folder or prefix of PREFIX.RANK.et files, or one .et file.")],
    kind: Annotated[str, typer.Option("--as", help="co-optimisation, topology or hierarchical-bandwidth.")],
    out: OutOption,
    ranks: Annotated[int | None, typer.Option(help="Number of ranks, for the trace of a single one.")] = None,
    comm_groups: Annotated[Path | None, typer.Option(help="JSON file of process groups: name to ranks.")] = None,
    peak_tflops: Annotated[float | None, typer.Option(help="Rate of compute nodes that state operations only.")] = None,
    algorithm: Annotated[str, typer.Option(help="topology: ring, direct or halving-doubling.")] = "ring",
    all_to_all: Annotated[str, typer.Option(help="topology: direct, or ring (relayed).")] = "direct",
    gpus_per_server: Annotated[int, typer.Option(min=1, max=4096, help="Consecutive ranks that share a server.")] = 1,
    degree: Annotated[int, typer.Option(min=1, max=64, help="Optical interfaces per server.")] = 4,
    link_gbps: Annotated[float, typer.Option(help="Gbit/s of one interface.")] = 100.0,
    links: Annotated[str, typer.Option(help="bidirectional or unidirectional.")] = "bidirectional",
    dims: Annotated[str | None, typer.Option(help="hierarchical: BLOCK:SIZE,... innermost first.")] = None,
    network: Annotated[Path | None, typer.Option(help="hierarchical: ASTRA-sim network yml instead of --dims.")] = None,
    total_gbytes_per_s: Annotated[float | None, typer.Option(help="hierarchical: GB/s per NPU in all.")] = None,
    loop: Annotated[str, typer.Option(help="hierarchical: no-overlap or dag.")] = "no-overlap",
    dependencies: Annotated[str, typer.Option(help="dag: all, or data (control dependencies left out).")] = "all",
    ring_queues: QueuesOption = 1,
    name: NameOption = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Chakra execution traces, one file a rank: traffic, collectives and compute of a job."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.cli.imports import name_of, positive, workload_instance
        from topoopt.io import chakra_instances as instances
        from topoopt.io.chakra_hierarchy import hierarchical_document, layers_workload
        from topoopt.io.chakra_tasks import tasks_workload
        from topoopt.io.chakra_trace import read_chakra
        from topoopt.io.chakra_traffic import Algorithm, refuse_unsupported, traffic_matrix
        from topoopt.io.chakra_workload import workload_of_trace

        one_of("--as", kind, ("co-optimisation", "topology", "hierarchical-bandwidth"))
        one_of("--algorithm", algorithm, tuple(Algorithm))
        one_of("--all-to-all", all_to_all, ("direct", "ring"))
        one_of("--loop", loop, ("no-overlap", "dag"))
        one_of("--dependencies", dependencies, ("all", "data"))
        for option, value in (
            ("--peak-tflops", peak_tflops),
            ("--link-gbps", link_gbps),
            ("--total-gbytes-per-s", total_gbytes_per_s),
        ):
            positive(option, value)
        hierarchical = kind == "hierarchical-bandwidth"
        dimensions, total = _shape(dims, network, total_gbytes_per_s, ring_queues) if hierarchical else ([], 0.0)
        sizes = tuple(dimension["size"] for dimension in dimensions)
        content = read_chakra(path, ranks=ranks, comm_groups=comm_groups, dims=sizes)
        refuse_unsupported(content.uses, str(path))
        per_rank, told = instances.compute_ns(content, peak_tflops)
        busiest = float(per_rank.max())
        notes = [*content.notes, *told]
        summary = _summary(content, busiest)
        line = f"{content.ranks} ranks, {content.nodes} nodes"
        chosen = name or name_of(path)
        if hierarchical:
            if loop == "dag":
                workload, more = tasks_workload(
                    path,
                    content.name,
                    sizes,
                    content.ranks,
                    comm_groups=comm_groups,
                    peak_tflops=peak_tflops,
                    control=dependencies == "all",
                )
            else:
                workload, more = layers_workload(content, sizes, busiest)
            document = hierarchical_document(chosen, dimensions, total, workload)
            return _finish(document, out, output, summary, line, [*notes, *more])
        if kind == "topology":
            servers = instances.servers_of(content, gpus_per_server)
            demand = traffic_matrix(content, Algorithm(algorithm), Algorithm(all_to_all))
            demand = instances.between_servers(demand, servers)
            if busiest:
                notes.append(f"this kind has no compute: {busiest / 1e6:.6g} ms of the busiest rank are left out")
            document = instances.topology_document(chosen, demand, degree=degree, links=links, link_gbps=link_gbps)
            summary["traffic_bytes"] = float(demand.sum())
            return _finish(document, out, output, summary, line, [*notes, instances.THETA_NOTE])
        made = workload_of_trace(content, gpus_per_server, busiest / 1e6)
        cluster = {
            "servers": made.servers,
            "gpus_per_server": gpus_per_server,
            "degree": degree,
            "link_gbps": link_gbps,
            "links": links,
            "gpu_memory_gib": None,
        }
        document = workload_instance(chosen, cluster, made.workload)
        return _finish(document, out, output, summary, line, [*notes, *made.notes])

    output.run(command)


def astrasim_network(
    file: Annotated[Path, typer.Argument(help="Analytical network yml of ASTRA-sim.")],
    out: OutOption,
    all_reduce_bytes: Annotated[
        float, typer.Option(help="The workload: one all-reduce of so many bytes over all NPUs.")
    ] = 2.0**30,
    compute_ns: Annotated[float, typer.Option(min=0, help="Compute time beside it, nanoseconds.")] = 0.0,
    ring_queues: QueuesOption = 1,
    name: NameOption = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """A network of ASTRA-sim as an instance that divides its bandwidth anew; import chakra --network adds a job."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.cli.imports import name_of, positive
        from topoopt.io.astrasim_network import dimension_documents, npu_bandwidths, read_network
        from topoopt.io.chakra_hierarchy import hierarchical_document

        positive("--all-reduce-bytes", all_reduce_bytes)
        content = read_network(file)
        bandwidth = npu_bandwidths(content, ring_queues)
        phase = {"compute_ns": compute_ns, "collectives": [{"collective": "all-reduce", "bytes": all_reduce_bytes}]}
        workload = {"name": "all-reduce", "layers": [{"name": "iteration", "forward": phase}]}
        document = hierarchical_document(name or name_of(file), dimension_documents(content), sum(bandwidth), workload)
        notes = [
            "bandwidths of the file are GiB/s of a link; here they are GB/s (10^9 bytes/s) of an NPU",
            f"workload: an all-reduce of {all_reduce_bytes:.10g} bytes over all NPUs (the file has none)",
        ]
        if any(content.latency_ns):
            notes.append("latencies are left out: this kind has none")
        summary = {
            "dimensions": document["network"]["dimensions"],
            "bandwidth_gbytes_per_s": list(bandwidth),
            "latency_ns": list(content.latency_ns),
        }
        line = ", ".join(f"{one['block']} {one['size']}" for one in document["network"]["dimensions"])
        return _finish(document, out, output, summary, line, notes)

    output.run(command)
