"""SCCL and msccl-tools (JSON) state algorithms as steps of rounds, and topologies as links[dst][src]; both are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any
from xml.etree import ElementTree

import typer

from topoopt.core.collective import ALL_RANKS, REDUCING, UNKNOWN, ChunkProgram, CollectiveOp
from topoopt.core.rated_network import RatedNetwork
from topoopt.files.documents import Document
from topoopt.files.reader_fields import FieldTable, notes_of
from topoopt.files.untrusted import parsing, read_xml_text, refusal
from topoopt.formats.schedules import (
    MAX_FILE_BYTES,
    MOST_RANKS,
    NAMES,
    BytesOption,
    Piece,
    PieceSends,
    ProgramBuilder,
    ScheduleOptions,
    add_sends,
    collective_document,
    collective_named,
    no_collective,
    parameters_of,
    read_object,
)
from topoopt.formats.table import Imported, Importer, NameOption, name_of, require_positive

WHAT = "an SCCL algorithm (JSON with msccl_type algorithm)"
FIELDS: FieldTable = {
    "msccl_type": ("used", "algorithm"),
    "name": ("used", "name of the program"),
    "collective.msccl_type": ("used", "collective"),
    "collective.name": ("used", "which collective, unless runtime_name or --collective says it"),
    "collective.runtime_name": ("used", "which collective"),
    "collective.nodes": ("used", "number of ranks"),
    "collective.triggers": ("noted", "chunks that a rank also needs once another has them"),
    "collective.chunks[].msccl_type": ("used", "chunk"),
    "collective.chunks[].pre[]": ("used", "ranks that have the chunk before"),
    "collective.chunks[].post[]": ("used", "ranks that have it after"),
    "collective.chunks[].addr": ("used", "its address"),
    "steps[].msccl_type": ("used", "step"),
    "steps[].rounds": ("used", "rounds of the step, for capacities"),
    "steps[].sends[][]": ("used", "address, source, destination"),
    "input_map.*[]": ("used", "compared with the chunks"),
    "output_map.*[]": ("used", "compared with the chunks"),
    "instance": ("noted", "what was asked of the solver of SCCL"),
    "topology.msccl_type": ("used", "topology"),
    "topology.name": ("used", "name of the network that the schedule is compared with"),
    "topology.links[][]": ("used", "links[dst][src], chunks a round; of a rank to itself noted"),
    "topology.switches[][]": ("used", "sources, destinations, chunks a round, name: limits of sums of links"),
    "topology.switches[][][]": ("used", "ranks at a switch"),
}


def read_schedule(path: Path, options: ScheduleOptions) -> ChunkProgram:
    """An algorithm; steps are synchronous.

    Raises:
        InputError: not such a file.
    """
    document, lines = read_object(path, WHAT)
    if document.get("msccl_type") != "algorithm":
        raise refusal(f"not {WHAT}", str(path), value=document.get("msccl_type"), allowed="algorithm")
    notes = notes_of(lines, FIELDS)
    with parsing(str(path), WHAT):
        return _program(path, document, options, notes)


def _program(path: Path, document: Mapping[str, Any], options: ScheduleOptions, notes: Sequence[str]) -> ChunkProgram:
    wanted = document["collective"]
    check_types(document)
    ranks = whole(wanted["nodes"], 2, MOST_RANKS)
    name = str(wanted.get("runtime_name") or wanted["name"])
    collective = options.collective or collective_named(name) or collective_named(str(wanted["name"]))
    if collective is None:
        raise no_collective(str(path), name)
    chunks: dict[int, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {}
    for chunk in wanted["chunks"]:
        ends = [tuple(sorted(whole(rank, 0, ranks - 1) for rank in chunk[key])) for key in ("pre", "post")]
        chunks.setdefault(whole(chunk["addr"], 0, 10**9), []).append((ends[0], ends[1]))
    builder = ProgramBuilder(str(path), tuple(map(str, range(ranks))), ("step", "send"))
    addresses = sorted(chunks)
    number = {address: index for index, address in enumerate(addresses)}
    summed = collective in REDUCING
    pieces = [Piece(1, tuple(dict.fromkeys(r for pre, _ in chunks[a] for r in pre)), summed) for a in addresses]
    if any(not piece.holders for piece in pieces):
        raise refusal("a chunk that no rank has", str(path), allowed=WHAT)
    sends = [
        (number[whole(address, 0, 10**9)], *(whole(end, 0, ranks - 1) for end in ends), step, UNKNOWN, step, index)
        for step, entry in enumerate(document["steps"])
        for index, (address, *ends) in enumerate(entry["sends"])
    ]
    first = add_sends(builder, pieces, PieceSends.of_rows(sends, 2), timed=False)
    for address in addresses:
        for rank in sorted({rank for _, post in chunks[address] for rank in post}):
            whose = ALL_RANKS if summed else pieces[number[address]].holders[0]
            builder.required.append((first[rank] + number[address], number[address], whose))
    builder.notes.extend(notes)
    builder.notes.extend(_odd_maps(document, chunks, ranks))
    units = len(pieces) // ranks if collective is CollectiveOp.ALL_TO_ALL else len(pieces)
    topology = document.get("topology")
    network = None
    if isinstance(topology, Mapping):
        links, switches = square(topology["links"]), topology.get("switches") or []
        builder.notes.extend(loops(links))
        _check_rounds(builder, document["steps"], links, switches)
        network = None if switches else network_of_links(links, str(topology.get("name", "")))
    return builder.built(
        str(document.get("name") or path.stem), collective, max(units, 1), per_share=False, topology=network
    )


def _odd_maps(
    document: Mapping[str, Any], chunks: Mapping[int, Sequence[tuple[tuple[int, ...], tuple[int, ...]]]], ranks: int
) -> list[str]:
    """Maps from ranks to addresses that are not what the chunks say; composed algorithms are known to have such."""
    notes = []
    for end, key in enumerate(("input_map", "output_map")):
        declared = {int(rank): sorted(addresses) for rank, addresses in (document.get(key) or {}).items()}
        for rank in range(ranks) if declared else ():
            expected = sorted(
                address for address, ends in chunks.items() if any(rank in rank_of[end] for rank_of in ends)
            )
            if (given := declared.get(rank, [])) != expected:
                notes.append(
                    f"{key} gives rank {rank} the addresses {_listed(given)}, its chunks {_listed(expected)}: "
                    "converters that go by the map make something else of the algorithm"
                )
                break
    return notes


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + (" ..." if len(numbers) > 8 else "") if numbers else "none"


def check_types(document: Mapping[str, Any]) -> None:
    """What each part of an algorithm says it is.

    Raises:
        ValueError: something else.
    """
    parts = [("collective", document["collective"]), *(("chunk", chunk) for chunk in document["collective"]["chunks"])]
    parts += [("step", chunk) for chunk in document["steps"]]
    parts += [("topology", document["topology"])] if document.get("topology") else []
    for kind, part in parts:
        if part.get("msccl_type", kind) != kind:
            raise ValueError(f"msccl_type {part['msccl_type']!r}, where {kind} stands")


def square(links: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
    """links[dst][src], of as many columns as rows.

    Raises:
        ValueError: it is not.
    """
    if any(len(row) != len(links) for row in links):
        raise ValueError(f"links of {len(links)} rows, each of which should have as many columns")
    return links


def loops(links: Sequence[Sequence[int]]) -> list[str]:
    """A note of links from a rank to itself."""
    looped = [rank for rank, row in enumerate(links) if row[rank]]
    return [f"not used: links of ranks to themselves, {_listed(looped)}"] if looped else []


def whole(value: object, low: int, high: int) -> int:
    """A whole number within limits.

    Raises:
        ValueError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{value!r} is no whole number from {low} to {high}")
    return value


def network_of_links(links: Sequence[Sequence[int]], name: str) -> RatedNetwork | None:
    """Network of links[dst][src], one GB/s for every chunk a round; None where some rank cannot be reached."""
    rows = [
        (tail, head, Fraction(whole(rate, 0, 10**6)))
        for head, row in enumerate(links)
        for tail, rate in enumerate(row)
        if rate and tail != head
    ]
    network = RatedNetwork.of_links([False] * len(links), rows, origin=name or "topology of the file")
    return network if rows and network.unreachable() is None else None


def _check_rounds(
    builder: ProgramBuilder, steps: Sequence[Any], links: Sequence[Sequence[int]], switches: Sequence[Any]
) -> None:
    """No more sends over a link, or through a switch, than the rounds of a step take."""
    shared = [
        (frozenset(sources), frozenset(targets), whole(rate, 0, 10**6), str(name))
        for sources, targets, rate, name in switches
    ]
    for number, step in enumerate(steps):
        rounds = whole(step["rounds"], 1, 10**6)
        load: dict[tuple[int, int], int] = {}
        for _, tail, head in step["sends"]:
            load[tail, head] = load.get((tail, head), 0) + 1
        for (tail, head), count in load.items():
            rate = whole(links[head][tail], 0, 10**6)
            if rate == 0:
                builder.defect("link", f"no link {tail} -> {head}, which carries {count} sends in step {number}")
            elif count > rate * rounds:
                text = f"link {tail} -> {head} is given {count} sends in step {number}, it takes {rate * rounds}"
                builder.defect("capacity", text)
        for sources, targets, rate, name in shared:
            through = sum(count for (tail, head), count in load.items() if tail in sources and head in targets)
            if through > rate * rounds:
                text = f"switch {name} is given {through} sends in step {number}, it takes {rate * rounds}"
                builder.defect("capacity", text)


IMPORTED = "a topology or algorithm of SCCL (JSON with msccl_type)"
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
    link_gbps: Annotated[float, typer.Option(help="Gbit/s of a link that takes one chunk a round.")] = 8.0,
    vector_bytes: BytesOption = 1 << 30,
    name: NameOption = None,
) -> Imported:
    """A topology of SCCL, or that of an algorithm with its collective, as an instance."""
    require_positive("--link-gbps", link_gbps)
    document, lines = read_object(file, IMPORTED)
    collective, more = CollectiveOp.ALLGATHER, dict[str, Any]()
    tables = {"topology": TOPOLOGY_FIELDS, "algorithm": ALGORITHM_FIELDS}
    kind = document.get("msccl_type")
    if not isinstance(kind, str) or kind not in tables:
        raise refusal(f"not {IMPORTED}", str(file), value=kind, allowed="topology, algorithm")
    notes = notes_of(lines, tables[kind])
    with parsing(str(file), IMPORTED):
        if kind == "algorithm":
            check_types(document)
            collective, more = _collective(document["collective"], str(file))
            nodes, rows = document["collective"]["nodes"], len(document["topology"]["links"])
            if nodes != rows:
                raise ValueError(f"a collective of {nodes} nodes, links of {rows}")
            document = document["topology"]
        links = [
            [tail, head, whole(rate, 0, 10**6) * link_gbps / 8]
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
    assumed = () if kind == "algorithm" else ("the file names no collective: allgather is assumed",)
    return Imported(imported, line, figures, (order, *assumed, *notes, *looped))


def _collective(section: Mapping[str, Any], file: str) -> tuple[CollectiveOp, dict[str, Any]]:
    name, runtime = str(section["name"]), str(section.get("runtime_name") or "")
    operation = collective_named(runtime or name)
    if operation is None or (runtime and collective_named(name) not in (None, operation)):
        value = f"{name}, runtime_name {runtime}" if runtime else name
        raise refusal("not a collective that an instance can ask for", file, value=value, allowed=", ".join(NAMES))
    given = parameters_of(name)
    more = {"root": int(given["root"])} if operation in ROOTED and "root" in given else {}
    unused = given.keys() - {"n", *more}
    if unused or int(given.get("n", section["nodes"])) != section["nodes"]:
        allowed = f"n={section['nodes']}" + (", root" if operation in ROOTED else "")
        raise refusal("parameters of the collective that cannot be used", file, value=name, allowed=allowed)
    return operation, more


IMPORTER: Importer = import_topology


TREES = "trees of ForestColl (XML: Algo, tree, send)"
TREE_FIELDS: FieldTable = {
    "@nchunkspernode": ("used", "chunks of each node"),
    "tree[].@root": ("used", "node whose chunks go down the tree"),
    "tree[].@nchunks": ("used", "how many of them"),
    "tree[].@index": ("noted", "number of the tree"),
    "tree[].@height": ("noted", "which the sends say"),
    "tree[].send[].@src": ("used", "node that sends"),
    "tree[].send[].@dst": ("used", "node that receives"),
    "tree[].send[].@path": ("used", "nodes between"),
    "any other": ("noted", "written by other versions of ForestColl"),
}
TAKEN = (CollectiveOp.ALLGATHER, CollectiveOp.REDUCE_SCATTER, CollectiveOp.ALLREDUCE)
_NODE = re.compile(r"\([^()]*\)|[^,()\s]+")


Send = tuple[str, str, tuple[str, ...]]
SendTree = tuple[str, int, list[Send]]
"""Root of a tree, how many chunks it carries, and its sends: tail, head, nodes between."""


def read_trees(path: Path, options: ScheduleOptions) -> ChunkProgram:
    """An AllGather down the trees; a ReduceScatter up them, an AllReduce both, where the options say so.

    Raises:
        InputError: not such a file.
    """
    collective = options.collective or CollectiveOp.ALLGATHER
    if collective not in TAKEN:
        raise refusal("trees make no such collective", str(path), value=collective.value, allowed=", ".join(TAKEN))
    with parsing(str(path), TREES):
        root = ElementTree.fromstring(read_xml_text(path, MAX_FILE_BYTES))
        if root.tag != "Algo":
            raise refusal(f"not {TREES}", str(path), value=root.tag)
        notes = notes_of(Document(str(path), root, lambda _: {}), TREE_FIELDS)
        return _program_of_trees(path, _trees(root), _count(root.attrib["nchunkspernode"]), collective, notes)


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 10**6:
        raise ValueError(f"{text} is no number of chunks")
    return number


def _trees(root: ElementTree.Element) -> list[SendTree]:
    trees = []
    for tree in root.findall("tree"):
        sends = []
        for send in tree.findall("send"):
            tail, head = send.attrib["src"].strip(), send.attrib["dst"].strip()
            path = _NODE.findall(send.attrib.get("path", ""))
            if path and (path[0] != tail or path[-1] != head):
                raise ValueError(f"a path from {path[0]} to {path[-1]} for a send {tail} -> {head}")
            sends.append((tail, head, tuple(path[1:-1])))
        trees.append((tree.attrib["root"].strip(), _count(tree.attrib["nchunks"]), sends))
    return trees


def node_order(name: str) -> tuple[tuple[int, int, str], ...]:
    """Nodes in the order of their numbers, else of their letters."""
    words = re.findall(r"-?\d+|[^\s,()']+", name)
    return tuple((0, int(word), "") if re.fullmatch(r"-?\d{1,9}", word) else (1, 0, word) for word in words)


def _program_of_trees(
    path: Path, trees: Sequence[SendTree], per_node: int, collective: CollectiveOp, notes: Sequence[str]
) -> ChunkProgram:
    names = sorted(
        {root for root, _, _ in trees} | {end for _, _, sends in trees for send in sends for end in send[:2]},
        key=node_order,
    )
    if not 2 <= len(names) <= MOST_RANKS:
        raise refusal("wrong number of ranks", str(path), value=len(names), allowed=f"2 to {MOST_RANKS}")
    rank = {name: index for index, name in enumerate(names)}
    builder = ProgramBuilder(str(path), tuple(names), ("tree", "send"))
    builder.notes.extend(notes)
    for name in names:
        carried = sum(chunks for root, chunks, _ in trees if root == name)
        if carried != per_node:
            builder.defect("blocks", f"the trees of rank {name} carry {carried} chunks, not {per_node}")
    summed = collective is not CollectiveOp.ALLGATHER
    pieces, sends = [], []
    for number, (root, chunks, own_sends) in enumerate(trees):
        pieces.append(Piece(chunks, tuple(range(len(names))) if summed else (rank[root],), summed))
        depth = _depths(root, own_sends)
        height = max(depth.values())
        for index, (tail, head, via) in enumerate(own_sends):
            level = depth.get(tail, 0)
            if summed:
                route = builder.path_index(via[::-1]) if via else UNKNOWN
                sends.append((number, rank[head], rank[tail], height - 1 - level, route, number, index))
            if collective is not CollectiveOp.REDUCE_SCATTER:
                route = builder.path_index(via) if via else UNKNOWN
                later = height if summed else 0
                sends.append((number, rank[tail], rank[head], later + level, route, number, index))
    first = add_sends(builder, pieces, PieceSends.of_rows(sends, 2), timed=False)
    for number, (root, _, _) in enumerate(trees):
        only_root = collective is CollectiveOp.REDUCE_SCATTER
        for own in [rank[root]] if only_root else range(len(names)):
            builder.required.append((first[own] + number, number, ALL_RANKS if summed else rank[root]))
    return builder.built(path.stem, collective, per_node * len(names), per_share=False)


def _depths(root: str, sends: Sequence[Send]) -> dict[str, int]:
    out: dict[str, list[str]] = {}
    for tail, head, _ in sends:
        out.setdefault(tail, []).append(head)
    depth = {root: 0}
    queue = [root]
    for node in queue:
        for head in out.get(node, ()):
            if head not in depth:
                depth[head] = depth[node] + 1
                queue.append(head)
    return depth
