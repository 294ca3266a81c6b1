"""Networks of ASTRA-sim as instances that divide their bandwidth anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from topoopt.formats.astrasim.read import dimension_documents, npu_bandwidths, read_network
from topoopt.formats.chakra.hierarchy import hierarchical_document
from topoopt.formats.importer import Imported, Importer, NameOption, QueuesOption, name_of, require_positive


def import_network(
    file: Annotated[Path, typer.Argument(help="Analytical network yml of ASTRA-sim.")],
    all_reduce_bytes: Annotated[
        float, typer.Option(help="The workload: one all-reduce of so many bytes over all NPUs.")
    ] = 2.0**30,
    compute_ns: Annotated[float, typer.Option(min=0, help="Compute time beside it, nanoseconds.")] = 0.0,
    ring_queues: QueuesOption = 1,
    name: NameOption = None,
) -> Imported:
    """A network of ASTRA-sim as an instance that divides its bandwidth anew; import chakra --network adds a job."""
    require_positive("--all-reduce-bytes", all_reduce_bytes)
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
    return Imported(document, line, summary, tuple(notes))


IMPORTER: Importer = import_network
