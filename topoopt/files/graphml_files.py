"""GraphML: nodes, links and their attributes, defaults of keys among them; what is read stands in a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from topoopt.core.units import MIB
from topoopt.files.known_fields import FieldLog, Fields, noted, refused, used
from topoopt.files.link_attributes import LINK, NODE, LinkEntry
from topoopt.files.untrusted import parsing, read_xml_text, refusal

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


@dataclass(frozen=True)
class _Key:
    name: str
    levels: tuple[str, ...]
    default: str | None


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
    keys = _keys(root, log)
    return _graph(graphs[0], keys, log)


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
        keys[identity] = _Key(element.get("attr.name", identity), of, default)
    return keys


def _data(element: Element, level: str, keys: Mapping[str, _Key], log: FieldLog) -> dict[str, object]:
    """Attributes of an element, with the defaults of those that it does not state."""
    found: dict[str, object] = {
        key.name: key.default for key in keys.values() if key.default is not None and level in key.levels
    }
    stated = set()
    for child in element:
        if _tag(child) != "data":
            continue
        _meet_fields(child, log)
        _meet_children(child, log)
        key = keys.get(child.get("key", ""))
        if key is None:
            log.refuse("data of a key that is not declared", value=child.get("key", ""), allowed=", ".join(keys))
        elif level not in key.levels:
            log.refuse(f"the key {key.name} is not for an {level}", allowed="a key `for` what has it")
        elif key.name in stated:
            log.refuse(f"{level} {key.name} more than once", value=child.text or "")
        else:
            stated.add(key.name)
            found[key.name] = child.text or ""
    for name in found:
        log.meet(level, name)
    return found


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
