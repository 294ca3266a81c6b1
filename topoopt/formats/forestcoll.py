"""Reader of ForestColl trees (XML): for every root trees of sends, whose nodes are tuples of Python in print."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from topoopt.core.collective import ALL_RANKS, UNKNOWN, ChunkProgram, CollectiveOp
from topoopt.files.documents import Document
from topoopt.files.reader_fields import FieldTable, notes_of
from topoopt.files.untrusted import parsing, read_xml_text, refusal
from topoopt.formats.schedules import MAX_FILE_BYTES, MOST_RANKS, ScheduleOptions
from topoopt.formats.schedules.builder import Piece, PieceSends, ProgramBuilder, add_sends

WHAT = "trees of ForestColl (XML: Algo, tree, send)"
FIELDS: FieldTable = {
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


def read_schedule(path: Path, options: ScheduleOptions) -> ChunkProgram:
    """An AllGather down the trees; a ReduceScatter up them, an AllReduce both, where the options say so.

    Raises:
        InputError: not such a file.
    """
    collective = options.collective or CollectiveOp.ALLGATHER
    if collective not in TAKEN:
        allowed = ", ".join(TAKEN)
        raise refusal("trees make no such collective", str(path), value=collective.value, allowed=allowed)
    with parsing(str(path), WHAT):
        root = ElementTree.fromstring(read_xml_text(path, MAX_FILE_BYTES))
        if root.tag != "Algo":
            raise refusal(f"not {WHAT}", str(path), value=root.tag)
        notes = notes_of(Document(str(path), root, lambda _: {}), FIELDS)
        per_node = _count(root.attrib["nchunkspernode"])
        return _program(path, _trees(root), per_node, collective, notes)


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


def _program(
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
