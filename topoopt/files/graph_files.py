"""Topologies in files of other tools: GraphML, node-link JSON, lists of links. All are files of unknown origin."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from topoopt.core.errors import InputError, Problem
from topoopt.core.units import MIB
from topoopt.files.documents import Limits, load_document
from topoopt.files.faults import value_text
from topoopt.files.untrusted import parsing, read_text, read_xml_text, refusal

MAX_TEXT = 32 * MIB
MAX_PARALLEL = 4096

MAX_ELEMENTS = 600_000
"""Opening and closing tags of a GraphML file, which is parsed in Python."""

Link = tuple[int, int, int]
"""Tail, head, parallel links."""


@dataclass(frozen=True)
class ListedGraph:
    """A graph as a file states it.

    Attributes:
        servers: nodes of the file, 0 if it lists links only.
        links: as the file has them.
        directed: what the file says, None if it says nothing.
        names: of the servers in their order, when they are not just their numbers.
    """

    servers: int
    links: tuple[Link, ...]
    directed: bool | None
    names: tuple[str, ...] = ()


def _numbered(labels: list[str], file: str) -> tuple[dict[str, int], tuple[str, ...]]:
    """Number of every node: its own label if the labels are 0..n-1, else its place in the file."""
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise refusal("a node more than once", file, value=twice)
    if set(labels) == {str(number) for number in range(len(labels))}:
        return {label: int(label) for label in labels}, ()
    return {label: number for number, label in enumerate(labels)}, tuple(labels)


def _parallel(value: object, file: str) -> int:
    """Number of parallel links from an attribute."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_PARALLEL:
        raise refusal(
            "not a number of parallel links", file, value=value, allowed=f"a whole number 1 to {MAX_PARALLEL}"
        )
    return value


def parsed_graphml(file: str) -> Any:
    """The one graph of a GraphML file, as a graph of networkx.

    Raises:
        InputError: not GraphML, a document type declaration (it could define entities), no nodes.
    """
    text = read_xml_text(file, MAX_TEXT)
    if text.count("<") > MAX_ELEMENTS:
        raise refusal("too large", file, allowed=f"GraphML of at most {MAX_ELEMENTS} elements, or a list of links")
    import networkx as nx

    with parsing(file, "GraphML"):
        graphs = list(nx.readwrite.graphml.GraphMLReader(node_type=str)(string=text))
    if len(graphs) != 1:
        raise refusal("not one graph", file, value=len(graphs), allowed="one graph in a file")
    return graphs[0]


def read_graphml(path: str | os.PathLike[str]) -> ListedGraph:
    """GraphML; an edge attribute `multiplicity` counts parallel links.

    Raises:
        InputError: as `parsed_graphml`, and a number of links that is none.
    """
    file = os.fspath(path)
    graph = parsed_graphml(file)
    numbers, names = _numbered([str(node) for node in graph.nodes()], file)
    links = [
        (numbers[str(tail)], numbers[str(head)], _parallel(data.get("multiplicity", 1), file))
        for tail, head, data in graph.edges(data=True)
    ]
    return ListedGraph(len(numbers), tuple(links), bool(graph.is_directed()), names)


def read_node_link(path: str | os.PathLike[str]) -> ListedGraph:
    """Node-link JSON (networkx, d3): nodes with `id`, `links` or `edges` with `source` and `target`.

    Raises:
        InputError: not of that shape, an edge to a node that is not listed.
    """
    file = os.fspath(path)
    document = load_document(path, Limits(json_bytes=MAX_TEXT))
    data = document.data
    nodes = data.get("nodes") if isinstance(data, dict) else None
    edges = data.get("links", data.get("edges")) if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(nodes, list) or not isinstance(edges, list):
        raise refusal("not a node-link graph", file, value=data, allowed="a mapping with nodes and links (or edges)")
    directed = data.get("directed")
    if directed is not None and not isinstance(directed, bool):
        raise refusal("directed is not true or false", file, value=directed)
    numbers, names = _numbered([_identity(node, "id", file) for node in nodes], file)
    links = []
    for position, edge in enumerate(edges):
        ends = [_identity(edge, key, file) for key in ("source", "target")]
        for end in ends:
            if end not in numbers:
                line = document.line(("links" if "links" in data else "edges", position))
                raise refusal(
                    "a link to a node that is not listed", file, line=line, value=end, allowed="an id of nodes"
                )
        links.append((numbers[ends[0]], numbers[ends[1]], _parallel(edge.get("multiplicity", 1), file)))
    return ListedGraph(len(numbers), tuple(links), directed, names)


def _identity(entry: object, key: str, file: str) -> str:
    """Text of a node's name, which is text or a whole number."""
    value = entry.get(key) if isinstance(entry, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise refusal(f"a node or link without a proper {key}", file, value=value, allowed="text or a whole number")
    return str(value)


def read_link_list(path: str | os.PathLike[str]) -> ListedGraph:
    """One link a line: tail, head and, if there are several, their number, parted by commas or blanks; # comments.

    A first line of words (`tail,head,links`) is skipped.

    Raises:
        InputError: a line that is not of that shape, all of them listed.
    """
    file = os.fspath(path)
    links: list[Link] = []
    problems: list[Problem] = []
    seen_any = False
    for number, raw in enumerate(read_text(path, MAX_TEXT, "a list of links").splitlines(), start=1):
        cells = re.split(r"[,;\s]+", raw.partition("#")[0].strip(" \t,;"))
        if cells == [""]:
            continue
        first, seen_any = not seen_any, True
        if all(re.fullmatch(r"[0-9]{1,9}", cell, re.ASCII) for cell in cells) and 2 <= len(cells) <= 3:
            tail, head, count = (*(int(cell) for cell in cells), 1)[:3]
            if 1 <= count <= MAX_PARALLEL:
                links.append((tail, head, count))
                continue
        elif first and not any(cell[:1].isdigit() or cell[:1] in "+-." for cell in cells):
            continue
        allowed = "two numbers of servers, and a number of parallel links if more than one"
        problems.append(Problem("not a link", file=file, line=number, value=value_text(raw), allowed=allowed))
    if problems:
        hidden = len(problems) - 50
        more = [Problem(f"{hidden} further lines are wrong", file=file)] if hidden > 0 else []
        raise InputError([*problems[:50], *more])
    return ListedGraph(0, tuple(links), None)


GRAPH_READERS: Mapping[str, Callable[[Any], ListedGraph]] = {
    ".graphml": read_graphml,
    ".json": read_node_link,
    ".csv": read_link_list,
    ".txt": read_link_list,
    ".edges": read_link_list,
}


def read_graph(path: str | os.PathLike[str]) -> ListedGraph:
    """A graph, by the ending of the file's name.

    Raises:
        InputError: unknown ending, and whatever the reader finds.
    """
    suffix = FilePath(os.fspath(path)).suffix.lower()
    if suffix not in GRAPH_READERS:
        raise refusal("unknown kind of graph file", os.fspath(path), value=suffix, allowed=", ".join(GRAPH_READERS))
    return GRAPH_READERS[suffix](path)
