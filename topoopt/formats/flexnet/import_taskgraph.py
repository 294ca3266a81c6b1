"""Task graphs of the FlexNet search as instances."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from topoopt.files.reader_fields import named
from topoopt.formats.flexnet.read_taskgraph import read_flexnet_taskgraph
from topoopt.formats.flexnet.workload import local_allreduce_gbps, workload_of_taskgraph
from topoopt.formats.importer import (
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


def import_taskgraph(
    file: Annotated[Path, typer.Argument(help="Task graph (.fbuf) of the FlexNet search.")],
    degree: DegreeOption = 4,
    link_gbps: LinkOption = 100.0,
    links: LinksOption = "bidirectional",
    name: NameOption = None,
) -> Imported:
    """A job whose strategy is already chosen: every operator keeps its split and servers, the network is searched.

    A server has one GPU, or two where the graph reduces inside servers.
    """
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


IMPORTER: Importer = import_taskgraph
