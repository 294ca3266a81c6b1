"""Topologies of SCCL and msccl-tools (JSON: links[dst][src] in chunks a round) as instances."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from topoopt.core.collective import CollectiveOp
from topoopt.files.untrusted import parsing, refusal
from topoopt.formats.importer import Imported, Importer, NameOption, name_of, require_positive
from topoopt.formats.sccl.read import whole
from topoopt.formats.schedules.importer import BytesOption, collective_document
from topoopt.formats.schedules.json_file import read_object
from topoopt.formats.schedules.states import collective_named

WHAT = "a topology or algorithm of SCCL (JSON with msccl_type)"


def import_topology(
    file: Annotated[Path, typer.Argument(help="Topology or algorithm of SCCL (JSON).")],
    chunk_gbytes_per_s: Annotated[float, typer.Option(help="GB/s of a link that takes one chunk a round.")] = 1.0,
    vector_bytes: BytesOption = 1 << 30,
    name: NameOption = None,
) -> Imported:
    """A topology of SCCL, or that of an algorithm with its collective, as an instance."""
    require_positive("--chunk-gbytes-per-s", chunk_gbytes_per_s)
    document = read_object(file, WHAT)
    collective = CollectiveOp.ALLGATHER
    with parsing(str(file), WHAT):
        if document.get("msccl_type") == "algorithm":
            collective = collective_named(str(document["collective"]["name"])) or collective
            document = document["topology"]
        if document.get("msccl_type") != "topology":
            raise refusal(f"not {WHAT}", str(file), value=document.get("msccl_type"), allowed="topology, algorithm")
        if document.get("switches"):
            text = "switches of SCCL limit sums of links, which an instance cannot say"
            raise refusal(text, str(file), value=f"{len(document['switches'])} switches", allowed="none")
        links = [
            [tail, head, whole(rate, 0, 10**6) * chunk_gbytes_per_s]
            for head, row in enumerate(document["links"])
            for tail, rate in enumerate(row)
            if rate and tail != head
        ]
        ranks = whole(len(document["links"]), 2, 8192)
    topology = {"links": links, "nodes": ranks}
    figures = {"collective": collective.value, "ranks": ranks, "links": len(links)}
    line = f"{collective.value} of {ranks} ranks over {len(links)} links"
    imported = collective_document(name or name_of(file), topology, collective, vector_bytes)
    return Imported(imported, line, figures, ("links[dst][src]: row 2, column 5 is the link from 5 to 2",))


IMPORTER: Importer = import_topology
