"""Topologies of SCCL and msccl-tools (JSON: links[dst][src] in chunks a round) as instances."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from topoopt.core.collective import CollectiveOp
from topoopt.files.reader_fields import FieldTable, notes_of
from topoopt.files.untrusted import parsing, refusal
from topoopt.formats.importer import Imported, Importer, NameOption, name_of, require_positive
from topoopt.formats.sccl.read import check_types, loops, square, whole
from topoopt.formats.schedules.importer import BytesOption, collective_document
from topoopt.formats.schedules.json_file import read_object
from topoopt.formats.schedules.states import NAMES, collective_named, parameters_of

WHAT = "a topology or algorithm of SCCL (JSON with msccl_type)"
SWITCHES = "switches of SCCL limit sums of links, which an instance cannot say"
TOPOLOGY_FIELDS: FieldTable = {
    "msccl_type": ("used", "topology"),
    "name": ("noted", "name of the network"),
    "links[][]": ("used", "links[dst][src], chunks a round; of a rank to itself noted"),
    "switches": ("refused", SWITCHES),
}
ALGORITHM_FIELDS: FieldTable = {
    "msccl_type": ("used", "algorithm"),
    "name": ("noted", "name of the algorithm"),
    "instance": ("noted", "what was asked of the solver of SCCL"),
    "collective.msccl_type": ("used", "collective"),
    "collective.name": ("used", "which collective, and its root; other parameters but n are refused"),
    "collective.runtime_name": ("used", "which collective"),
    "collective.nodes": ("used", "number of ranks, as in the links"),
    "collective.chunks": ("noted", "who has what before and after, which the name of the collective says"),
    "collective.triggers": ("noted", "chunks that a rank also needs once another has them"),
    "input_map": ("noted", "of the schedule"),
    "output_map": ("noted", "of the schedule"),
    "steps": ("noted", "the schedule: see collective audit"),
    "topology.msccl_type": ("used", "topology"),
    "topology.name": ("noted", "name of the network"),
    "topology.links[][]": ("used", "links[dst][src], chunks a round; of a rank to itself noted"),
    "topology.switches": ("refused", SWITCHES),
}
ROOTED = (CollectiveOp.BROADCAST, CollectiveOp.REDUCE)


def import_topology(
    file: Annotated[Path, typer.Argument(help="Topology or algorithm of SCCL (JSON).")],
    chunk_gbytes_per_s: Annotated[float, typer.Option(help="GB/s of a link that takes one chunk a round.")] = 1.0,
    vector_bytes: BytesOption = 1 << 30,
    name: NameOption = None,
) -> Imported:
    """A topology of SCCL, or that of an algorithm with its collective, as an instance."""
    require_positive("--chunk-gbytes-per-s", chunk_gbytes_per_s)
    document, lines = read_object(file, WHAT)
    collective, more = CollectiveOp.ALLGATHER, dict[str, Any]()
    tables = {"topology": TOPOLOGY_FIELDS, "algorithm": ALGORITHM_FIELDS}
    kind = document.get("msccl_type")
    if not isinstance(kind, str) or kind not in tables:
        raise refusal(f"not {WHAT}", str(file), value=kind, allowed="topology, algorithm")
    notes = notes_of(lines, tables[kind])
    with parsing(str(file), WHAT):
        if kind == "algorithm":
            check_types(document)
            collective, more = _collective(document["collective"], str(file))
            nodes, rows = document["collective"]["nodes"], len(document["topology"]["links"])
            if nodes != rows:
                raise ValueError(f"a collective of {nodes} nodes, links of {rows}")
            document = document["topology"]
        links = [
            [tail, head, whole(rate, 0, 10**6) * chunk_gbytes_per_s]
            for head, row in enumerate(square(document["links"]))
            for tail, rate in enumerate(row)
            if rate and tail != head
        ]
        ranks = whole(len(document["links"]), 2, 8192)
        looped = loops(document["links"])
    topology = {"links": links, "nodes": ranks}
    figures = {"collective": collective.value, "ranks": ranks, "links": len(links)}
    line = f"{collective.value} of {ranks} ranks over {len(links)} links"
    imported = collective_document(name or name_of(file), topology, collective, vector_bytes, **more)
    order = "links[dst][src]: row 2, column 5 is the link from 5 to 2"
    stated = () if kind == "algorithm" else ("the file names no collective: allgather is assumed",)
    return Imported(imported, line, figures, (order, *stated, *notes, *looped))


def _collective(section: Mapping[str, Any], file: str) -> tuple[CollectiveOp, dict[str, Any]]:
    """What a section `collective` asks for: the operation, and its root where it has one."""
    name, runtime = str(section["name"]), str(section.get("runtime_name") or "")
    found = collective_named(runtime or name)
    if found is None or (runtime and collective_named(name) not in (None, found)):
        value = f"{name}, runtime_name {runtime}" if runtime else name
        raise refusal("not a collective that an instance can ask for", file, value=value, allowed=", ".join(NAMES))
    given = parameters_of(name)
    more = {"root": int(given["root"])} if found in ROOTED and "root" in given else {}
    unused = given.keys() - {"n", *more}
    if unused or int(given.get("n", section["nodes"])) != section["nodes"]:
        allowed = f"n={section['nodes']}" + (", root" if found in ROOTED else "")
        raise refusal("parameters of the collective that cannot be used", file, value=name, allowed=allowed)
    return found, more


IMPORTER: Importer = import_topology
