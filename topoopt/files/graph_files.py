"""Networks in files of other tools: GraphML, node-link JSON, tables of links; all are of unknown origin."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from topoopt.core.arrays import MIB
from topoopt.files.documents import Limits, load_document
from topoopt.files.issues import value_text
from topoopt.files.link_attributes import (
    GBPS,
    LINK,
    NODE,
    LinkEntry,
    LinkRates,
    NetworkUse,
    fields_of,
    is_switch,
    link_latencies,
    link_rates,
    parallel_of,
    unit_notes,
    unit_of,
)
from topoopt.files.reader_fields import FieldLog, Fields, FieldTable, bare, listed, noted, refused, used
from topoopt.files.untrusted import parsing, read_text, read_xml_text, refusal

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


MAX_TEXT = 32 * MIB
MAX_ELEMENTS = 600_000
"""Opening and closing tags of a file, which is parsed in Python."""

GRAPH = "attribute of the graph"

_XSI = "{http://www.w3.org/2001/XMLSchema-instance}"
_FOR = "value of for in <key>"

_DESC = noted("a description")
_FORMAL_NAME = used("a name: formal, without effect")
_PORT = refused("links that end at nodes; ports are not known here")

GRAPHML_FIELDS: Fields = {
    "element in <graphml>": {
        "key": used("an attribute: id, for, attr.name, attr.type, and the <default> of nodes and links without it"),
        "graph": used("the one graph"),
        "desc": _DESC,
        "data": noted("it says nothing of the links"),
    },
    "element in <key>": {"default": used("value where a node or link states none"), "desc": _DESC},
    "element in <graph>": {
        "node": used("a server or switch"),
        "edge": used("a link"),
        "hyperedge": refused("links of two ends; join the nodes by a switch, or by a link each"),
        "data": used("an attribute of the graph: formal, for its name is noted"),
        "desc": _DESC,
        "locator": refused("a graph that stands in the file itself"),
    },
    "element in <node>": {
        "data": used("an attribute"),
        "graph": refused("one level of nodes; graphs inside nodes are not known here"),
        "port": _PORT,
        "desc": _DESC,
        "locator": refused("a node that stands in the file itself"),
    },
    "element in <edge>": {
        "data": used("an attribute"),
        "graph": refused("one level of nodes; graphs inside links are not known here"),
        "desc": _DESC,
    },
    "field of <graphml>": {"xsi:schemaLocation": used("where the schema of GraphML is: formal, without effect")},
    "field of <key>": {
        "id": used("what <data> refers to"),
        "for": used("node, edge, graph or all"),
        "attr.name": used("name of the attribute"),
        "attr.type": used("type of the attribute: formal, for values are read as they are written"),
    },
    _FOR: {
        **{name: used(f"the attribute is one of {what}") for name, what in (("node", "nodes"), ("edge", "links"))},
        "graph": used("the attribute is one of the graph"),
        "all": used("the attribute is one of nodes, links and the graph; the default"),
        **{name: noted("nothing that is read has it") for name in ("port", "endpoint", "hyperedge", "graphml")},
    },
    "field of <data>": {"key": used("id of the attribute"), "id": _FORMAL_NAME},
    "field of <graph>": {
        "edgedefault": used("directed or undirected"),
        "id": _FORMAL_NAME,
        **{
            f"parse.{name}": used("sizes for parsers: formal, without effect")
            for name in ("nodes", "edges", "nodeids", "edgeids", "order", "maxindegree", "maxoutdegree")
        },
    },
    "field of <node>": {"id": used("name of the node")},
    "field of <edge>": {
        "id": _FORMAL_NAME,
        "source": used("tail"),
        "target": used("head"),
        "directed": used("true or false, which must be as edgedefault says"),
        "sourceport": _PORT,
        "targetport": _PORT,
    },
}
"""What becomes of the elements and XML attributes; attributes of nodes and links are in `link_attributes`."""


@dataclass
class RawGraph:
    """A graph as a file has it.

    Attributes:
        nodes: names, with their attributes; empty where the file lists links only.
        links: in the order of the file.
        directed: what the file says, None if it says nothing.
    """

    nodes: dict[str, Mapping[str, object]] = field(default_factory=dict)
    links: list[LinkEntry] = field(default_factory=list)
    directed: bool | None = None


_Key = tuple[str, tuple[str, ...], str | None]
"""Name, levels and default of a key of GraphML."""


def read_graphml(path: str, log: FieldLog) -> RawGraph:
    """The one graph of a GraphML file.

    Raises:
        InputError: not GraphML, a document type declaration (it could define entities), not one graph, links that name
            no node.
    """
    text = read_xml_text(path, MAX_TEXT)
    if text.count("<") > MAX_ELEMENTS:
        raise refusal("too large", path, allowed=f"GraphML of at most {MAX_ELEMENTS} elements, or a list of links")
    from xml.etree.ElementTree import fromstring

    with parsing(path, "GraphML"):
        # A type declaration was refused above, so no entity can multiply.
        root = fromstring(text.encode())
        if _tag(root) != "graphml":
            raise ValueError(f"the root is {_tag(root)}")
    _meet_fields(root, log)
    _meet_children(root, log)
    graphs = [child for child in root if _tag(child) == "graph"]
    if len(graphs) != 1:
        raise refusal("not one graph", path, value=len(graphs), allowed="one graph in a file")
    return _graph(graphs[0], _keys(root, log), log)


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _meet_children(element: Element, log: FieldLog) -> None:
    for child in element:
        log.meet(f"element in <{_tag(element)}>", _tag(child))


def _meet_fields(element: Element, log: FieldLog) -> None:
    for name in element.attrib:
        log.meet(f"field of <{_tag(element)}>", name.replace(_XSI, "xsi:"))


def _keys(root: Element, log: FieldLog) -> dict[str, _Key]:
    levels = {"node": (NODE,), "edge": (LINK,), "graph": (GRAPH,), "all": (NODE, LINK, GRAPH)}
    keys: dict[str, _Key] = {}
    for element in root:
        if _tag(element) != "key":
            continue
        _meet_fields(element, log)
        _meet_children(element, log)
        identity = element.get("id", "")
        if identity in keys:
            log.refuse("a key more than once", value=identity)
        defaults = [child for child in element if _tag(child) == "default"]
        for child in defaults:
            _meet_fields(child, log)
            _meet_children(child, log)
        if len(defaults) > 1:
            log.refuse("a default more than once", value=identity)
        default = defaults[0].text or "" if defaults else None
        log.meet(_FOR, element.get("for", "all"))
        of = levels.get(element.get("for", "all"), ())
        keys[identity] = (element.get("attr.name", identity), of, default)
    return keys


def _data(element: Element, level: str, keys: Mapping[str, _Key], log: FieldLog) -> dict[str, object]:
    values: dict[str, object] = {
        name: default for name, levels, default in keys.values() if default is not None and level in levels
    }
    given = set()
    for child in element:
        if _tag(child) != "data":
            continue
        _meet_fields(child, log)
        _meet_children(child, log)
        key = keys.get(child.get("key", ""))
        if key is None:
            log.refuse("data of a key that is not declared", value=child.get("key", ""), allowed=", ".join(keys))
        elif level not in key[1]:
            log.refuse(f"the key {key[0]} is not for an {level}", allowed="a key `for` what has it")
        elif key[0] in given:
            log.refuse(f"{level} {key[0]} more than once", value=child.text or "")
        else:
            given.add(key[0])
            values[key[0]] = child.text or ""
    for name in values:
        log.meet(level, name)
    return values


def _graph(element: Element, keys: Mapping[str, _Key], log: FieldLog) -> RawGraph:
    _meet_fields(element, log)
    _meet_children(element, log)
    _data(element, GRAPH, keys, log)
    directed = element.get("edgedefault")
    if directed not in ("directed", "undirected"):
        log.refuse("edgedefault is not stated", value=directed, allowed="directed or undirected")
    graph = RawGraph(directed=directed == "directed")
    for child in element:
        if _tag(child) == "node":
            _meet_fields(child, log)
            _meet_children(child, log)
            name = child.get("id", "")
            if name in graph.nodes:
                log.refuse("a node more than once", value=name)
            graph.nodes[name] = _data(child, NODE, keys, log)
    for child in element:
        if _tag(child) == "edge":
            _link(child, graph, keys, log)
    return graph


def _link(element: Element, graph: RawGraph, keys: Mapping[str, _Key], log: FieldLog) -> None:
    _meet_fields(element, log)
    _meet_children(element, log)
    ends = element.get("source", ""), element.get("target", "")
    for end in ends:
        if end not in graph.nodes:
            log.refuse("a link to a node that is not listed", value=end, allowed="an id of a node")
    own = element.get("directed")
    if own is not None and own != ("true" if graph.directed else "false"):
        log.refuse("a link that is not directed as the graph is", value=f"{ends[0]} -> {ends[1]}", allowed="all alike")
    graph.links.append((*ends, _data(element, LINK, keys, log)))


KEY, NODE_KEY, LINK_KEY = "key of the graph", "key of a node", "key of a link"

NODE_LINK_FIELDS: Fields = {
    KEY: {
        "nodes": used("nodes with `id`"),
        "links": used("links with `source` and `target`"),
        "edges": used("the same by another name"),
        "directed": used("true or false; default: the links are directed"),
        "multigraph": used("whether a pair may have several links: formal, for they add up"),
        "graph": used("attributes of the graph: formal, for their names are noted"),
        "hyperedges": refused("links of two ends; join the nodes by a switch, or by a link each"),
    },
    NODE_KEY: {"id": used("name of the node")},
    LINK_KEY: {
        "source": used("tail"),
        "target": used("head"),
        "key": used("tells parallel links apart: formal, for they add up"),
    },
}
"""What becomes of the keys of a file; attributes of nodes and links are in `link_attributes`."""

_IDENTITY = {NODE: NODE_LINK_FIELDS[NODE_KEY], LINK: NODE_LINK_FIELDS[LINK_KEY]}
"""Keys of entries that are no attributes."""


def read_node_link(path: str, log: FieldLog) -> RawGraph:
    """Nodes with `id`, and `links` or `edges` with `source` and `target`.

    Raises:
        InputError: not of that shape, both links and edges, a link to a node that is not listed.
    """
    document = load_document(path, Limits(json_bytes=MAX_TEXT))
    data = document.data
    given = [key for key in ("links", "edges") if isinstance(data, dict) and key in data]
    nodes = data.get("nodes") if isinstance(data, dict) else None
    listed = data.get(given[0]) if isinstance(data, dict) and given else None
    if not isinstance(data, dict) or not isinstance(nodes, list) or not isinstance(listed, list):
        raise refusal("not a node-link graph", path, value=data, allowed="a mapping with nodes and links (or edges)")
    for key in data:
        log.meet(KEY, key)
    whole = data.get("graph")
    if whole is not None and not isinstance(whole, dict):
        log.refuse("graph is no mapping", value=whole, allowed="attributes of the graph by name")
    for name in whole if isinstance(whole, dict) else ():
        log.meet(GRAPH, name)
    if len(given) > 1:
        log.refuse("both links and edges", line=document.line(("edges",)), allowed="one of them")
    directed = data.get("directed")
    if directed is not None and not isinstance(directed, bool):
        raise refusal("directed is not true or false", path, value=directed)
    graph = RawGraph(directed=directed)
    for node in nodes:
        name = _identity(node, "id", path)
        if name in graph.nodes:
            raise refusal("a node more than once", path, value=name)
        graph.nodes[name] = _attributes(node, NODE, log)
    for index, link in enumerate(listed):
        ends = _identity(link, "source", path), _identity(link, "target", path)
        for end in ends:
            if end not in graph.nodes:
                line, allowed = document.line((given[0], index)), "an id of nodes"
                raise refusal("a link to a node that is not listed", path, line=line, value=end, allowed=allowed)
        graph.links.append((*ends, _attributes(link, LINK, log)))
    return graph


def _attributes(entry: Mapping[str, object], level: str, log: FieldLog) -> Mapping[str, object]:
    attributes = {name: value for name, value in entry.items() if name not in _IDENTITY[level]}
    for name in attributes:
        log.meet(level, name)
    return attributes


def _identity(entry: object, key: str, file: str) -> str:
    value = entry.get(key) if isinstance(entry, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise refusal(f"a node or link without a proper {key}", file, value=value, allowed="text or a whole number")
    return str(value)


SOURCES = ("source", "tail", "src", "from")
TARGETS = ("target", "head", "dst", "destination", "to")
COUNTS = ("links", "count", "parallel")

COLUMNS: FieldTable = {
    **{name: used("tail of the link") for name in SOURCES},
    **{name: used("head of the link") for name in TARGETS},
    **{name: used("as multiplicity") for name in COUNTS},
}
"""Columns besides those that attributes of links name (`link_attributes`)."""

THIRD: Mapping[NetworkUse, str] = {"links": "multiplicity", "rates": "rate"}
"""What a third column without a name is."""

_HEADER = "other columns need a first line with their names: source, target, capacity, ..."
ALLOWED: Mapping[NetworkUse, str] = {
    "links": f"two numbers of servers, and a number of parallel links if more than one; {_HEADER}",
    "rates": f"tail, head and a rate above 0 in GB/s; {_HEADER}",
}
"""What stands in a line of a table without names of columns."""


class Row(NamedTuple):
    """A line that is not empty: its number, and its cells."""

    line: int
    cells: tuple[str, ...]


def table_rows(path: str | os.PathLike[str], max_bytes: int, allowed: str | None = None) -> Iterator[Row]:
    """The lines of a table, parted by commas, semicolons, tabs or blanks, whichever the first has; # comments."""
    first, mark = True, None
    for number, raw in enumerate(read_text(path, max_bytes, allowed).splitlines(), start=1):
        text = raw.partition("#")[0].strip(" \r\n")
        if not text.strip(" \t,;"):
            continue
        if first:
            first, mark = False, next((sign for sign in ",;\t" if sign in text), None)
        cells = text.split()
        if mark is not None:
            with parsing(os.fspath(path), "a table"):
                cells = next(csv.reader([text], delimiter=mark, skipinitialspace=True))
        yield Row(number, tuple(cell.strip() for cell in cells))


def column_of(names: tuple[str, ...], among: tuple[str, ...]) -> int | None:
    """Place of the column with one of some names; None where there is none."""
    return next((index for index, name in enumerate(names) if bare(name) in among), None)


def is_header(row: Row) -> bool:
    """Whether a line names columns, both ends of links among them."""
    return column_of(row.cells, SOURCES) is not None and column_of(row.cells, TARGETS) is not None


def read_link_table(path: str, log: FieldLog, use: NetworkUse) -> RawGraph:
    """A table of links, whose nodes are any names.

    Raises:
        InputError: lines that are none of links.
    """
    rows = list(table_rows(path, MAX_TEXT, "a list of links"))
    graph = RawGraph()
    if rows and is_header(rows[0]):
        _named(rows, graph, log)
    elif rows and not _is_bare_link(_parted(rows[0]), use) and not any(map(_begins_number, _parted(rows[0]))):
        text = "a first line of names without a column of tails or of heads"
        allowed = f"source and target, or one of {', '.join((*SOURCES[1:], *TARGETS[1:]))}"
        log.refuse(text, value=", ".join(rows[0].cells), allowed=allowed, line=rows[0].line)
    else:
        _bare(rows, graph, log, use)
    return graph


def _begins_number(cell: str) -> bool:
    return cell[:1].isdigit() or cell[:1] in "+-."


def _parted(row: Row) -> tuple[str, ...]:
    return tuple(cell for cell in re.split(r"[,;\s]+", " ".join(row.cells)) if cell)


def _named(rows: list[Row], graph: RawGraph, log: FieldLog) -> None:
    header, tail, head = rows[0], column_of(rows[0].cells, SOURCES), column_of(rows[0].cells, TARGETS)
    assert tail is not None
    assert head is not None
    names: dict[int, str] = {}
    for index, name in enumerate(header.cells):
        if index in (tail, head):
            continue
        field = "multiplicity" if bare(name) in COUNTS else name
        if field in names.values():
            log.refuse("a column more than once", value=name, line=header.line)
        names[index] = field
        log.meet(LINK, field, line=header.line)
    for row in rows[1:]:
        if len(row.cells) != len(header.cells):
            allowed = f"{len(header.cells)} cells: {', '.join(header.cells)}"
            log.refuse("not a link", value=",".join(row.cells), allowed=allowed, line=row.line)
            continue
        data = {name: row.cells[index] for index, name in names.items() if row.cells[index]}
        graph.links.append((row.cells[tail], row.cells[head], data))


def _bare(rows: list[Row], graph: RawGraph, log: FieldLog, use: NetworkUse) -> None:
    """Rows of two ends and, if anything, one more column, whose meaning is that of the kind.

    Any commas and blanks may part them, as long as every end is a number.
    """
    third = THIRD[use]
    for row in rows:
        cells = _parted(row)
        if not _is_bare_link(cells, use):
            log.refuse("not a link", value=", ".join(row.cells), allowed=ALLOWED[use], line=row.line)
            continue
        data: dict[str, object] = {third: cells[2]} if len(cells) == 3 else {}
        graph.links.append((cells[0], cells[1], data))
    if graph.links and any(data for _, _, data in graph.links):
        log.meet(LINK, third)


def _is_bare_link(cells: tuple[str, ...], use: NetworkUse) -> bool:
    if use == "rates":
        return len(cells) == 3
    return 2 <= len(cells) <= 3 and all(re.fullmatch(r"[0-9]{1,9}", cell, re.ASCII) for cell in cells)


SHOWN = 8


class ListedLink(NamedTuple):
    """A link of a file: ends by number, parallel links, rate of each, and latency in us, where they are stated."""

    tail: int
    head: int
    parallel: int = 1
    rate: Fraction | None = None
    latency_us: float | None = None


@dataclass(frozen=True)
class ListedGraph:
    """A network as a file states it.

    Attributes:
        servers: nodes of the file, 0 if it lists links of numbered servers only.
        links: as the file has them; those from a node to itself are left out.
        directed: what the file says, None if it says nothing.
        names: of the nodes in their order, when they are not just their numbers.
        is_switch: of the nodes; empty beside `servers` 0.
        rate_attribute: where rates come from; empty where the file states none.
        gbps: whether rates are in Gbit/s; else their unit is not known.
        notes: what was assumed, and what was not read.
    """

    servers: int
    links: tuple[ListedLink, ...]
    directed: bool | None
    names: tuple[str, ...] = ()
    is_switch: tuple[bool, ...] = ()
    rate_attribute: str = ""
    gbps: bool = False
    notes: tuple[str, ...] = ()


Reader = Callable[[str, FieldLog, NetworkUse], RawGraph]

GRAPH_READERS: Mapping[str, tuple[Reader, Fields]] = {
    ".graphml": (lambda path, log, use: read_graphml(path, log), GRAPHML_FIELDS),
    ".json": (lambda path, log, use: read_node_link(path, log), NODE_LINK_FIELDS),
    ".csv": (read_link_table, {}),
    ".txt": (read_link_table, {}),
    ".edges": (read_link_table, {}),
}
"""Readers by the ending of a file's name, with the fields of the format beside attributes of nodes and links."""

IMPORTED: Mapping[str, str] = {
    ".xml": "topologies of NCCL are imported as nccl-topology, networks of SNDlib as sndlib",
    ".gml": "networks of the Topology Zoo are imported as topology-zoo",
    ".graph": "networks of REPETITA are imported as repetita",
    ".topo": "topologies of htsim are not read",
}
"""Endings of other formats, and where they are read."""

GRAPHML_TABLE, NODE_LINK_TABLE = listed(GRAPHML_FIELDS), listed(NODE_LINK_FIELDS)
LINKS_TABLE, RATES_TABLE = (listed(fields_of(use, None)) for use in get_args(NetworkUse))
COLUMNS_TABLE = listed({"column": COLUMNS})


def read_graph(
    path: str | os.PathLike[str],
    use: NetworkUse = "links",
    *,
    rate_attribute: str | None = None,
    latency_us: float | None = None,
) -> ListedGraph:
    """A network, by the ending of the file's name.

    Args:
        path: of the file.
        use: what it is read for.
        rate_attribute: the attribute of links that is their rate; None: the one that is called so.
        latency_us: of links for which the file, which states latencies, has none; None: there must be none such.

    Raises:
        InputError: unknown ending, and everything wrong with the file.
    """
    file = os.fspath(path)
    suffix = FilePath(file).suffix.lower()
    if suffix in IMPORTED:
        allowed = f"{', '.join(GRAPH_READERS)}; topoopt import makes an instance of it"
        raise refusal(f"not read as a network file: {IMPORTED[suffix]}", file, value=suffix, allowed=allowed)
    if suffix not in GRAPH_READERS:
        raise refusal("unknown kind of graph file", file, value=suffix, allowed=", ".join(GRAPH_READERS))
    reader, fields = GRAPH_READERS[suffix]
    log = FieldLog({**fields, **fields_of(use, rate_attribute)}, file)
    raw = reader(file, log, use)
    if not raw.links:
        log.refuse("no links in this file")
    numbers, names = _numbered(raw, use)
    if names and use == "links":
        log.note(_numbering(file, names))
    links = _without_loops(raw.links, log)
    rates = log.attempt(lambda: link_rates(links, log, use, rate_attribute))
    latencies = log.attempt(lambda: link_latencies(links, log, latency_us)) if use == "rates" else None
    parallel = log.attempt(lambda: [parallel_of(link, file) for link in links])
    switches: tuple[bool, ...] | None = ()
    if use == "rates":
        switches = log.attempt(lambda: tuple(is_switch(*node, file) for node in raw.nodes.items()))
        if rates is None and raw.links:
            log.refuse("links without a rate", allowed=f"{LINK} `rate` in GB/s, bandwidth_gbps, ...")
    if rates is not None and (use == "links" or rates.name != "rate"):
        log.note(_unit_note(rates, file, use))
    if rates is not None and use == "rates":
        for note in _unlike_unit(rates, links):
            log.note(note)
    notes = log.settle()
    columns: list[Sequence[Any]] = [
        parallel or (),
        [None] * len(links) if rates is None else rates.values,
        [None] * len(links) if latencies is None else latencies,
    ]
    listed = tuple(
        ListedLink(numbers[tail], numbers[head], *given)
        for (tail, head, _), given in zip(links, zip(*columns, strict=True), strict=True)
    )
    return ListedGraph(
        servers=len(raw.nodes),
        links=listed,
        directed=raw.directed,
        names=names,
        is_switch=switches or (),
        rate_attribute="" if rates is None else rates.name,
        gbps=rates is not None and rates.unit == GBPS,
        notes=notes,
    )


def _numbered(raw: RawGraph, use: NetworkUse) -> tuple[dict[str, int], tuple[str, ...]]:
    """Number of every node: its own label if the labels are 0..n-1, else its place in the file.

    A table lists links alone: numbers there are those of servers, and the order of nodes on which collectives run;
    other names are numbered as they come.
    """
    labels = list(raw.nodes)
    if not labels:
        labels = list(dict.fromkeys(end for link in raw.links for end in link[:2]))
        if all(label.isdecimal() and label.isascii() and len(label) <= 9 for label in labels):
            if use == "links":
                return {label: int(label) for label in labels}, ()
            labels.sort(key=int)
        raw.nodes = {label: {} for label in labels}
    if set(labels) == {str(number) for number in range(len(labels))}:
        return {label: int(label) for label in labels}, ()
    return {label: number for number, label in enumerate(labels)}, tuple(labels)


def _numbering(file: str, names: tuple[str, ...]) -> str:
    shown = ", ".join(f"{number} = {value_text(name)}" for number, name in enumerate(names[:SHOWN]))
    more = ", ..." if len(names) > SHOWN else ""
    return f"servers are numbered in the order of {FilePath(file).name}: {shown}{more}"


def _unit_note(rates: LinkRates, file: str, use: NetworkUse) -> str:
    where = f"{value_text(rates.name)} of {FilePath(file).name}"
    if use == "rates":
        return f"rates of links are {where}"
    unit = "in Gbit/s, and so is the demand" if rates.unit == GBPS else "in the unit of the demand"
    return f"capacities of links are {where}, {unit}"


def _unlike_unit(rates: LinkRates, links: Sequence[LinkEntry]) -> tuple[str, ...]:
    """Notes of rates that are usual in the other unit, by the unit in which the file states them."""
    unit = "Gbit/s" if unit_of(rates.name) not in (None, Fraction(8)) else "GB/s"
    scale = 8 if unit == "GB/s" else 1
    named = ((f"link {tail} - {head}", rate / scale) for (tail, head, _), rate in zip(links, rates.values, strict=True))
    return unit_notes(named, unit)


def _without_loops(links: list[LinkEntry], log: FieldLog) -> list[LinkEntry]:
    loops = [f"{tail} -> {head}" for tail, head, _ in links if tail == head]
    if loops:
        more = f" and {len(loops) - SHOWN} more" if len(loops) > SHOWN else ""
        log.note(f"links from a node to itself carry nothing and were left out: {', '.join(loops[:SHOWN])}{more}")
    return [link for link in links if link[0] != link[1]]
