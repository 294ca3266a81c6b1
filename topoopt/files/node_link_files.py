"""Node-link JSON, as networkx and d3 write it; what is read stands in a table."""

from __future__ import annotations

from collections.abc import Mapping

from topoopt.files.documents import Limits, load_document
from topoopt.files.graphml_files import GRAPH, MAX_TEXT, RawGraph
from topoopt.files.known_fields import FieldLog, Fields, refused, used
from topoopt.files.link_attributes import LINK, NODE
from topoopt.files.untrusted import refusal

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
    for place, link in enumerate(listed):
        ends = _identity(link, "source", path), _identity(link, "target", path)
        for end in ends:
            if end not in graph.nodes:
                line, allowed = document.line((given[0], place)), "an id of nodes"
                raise refusal("a link to a node that is not listed", path, line=line, value=end, allowed=allowed)
        graph.links.append((*ends, _attributes(link, LINK, log)))
    return graph


def _attributes(entry: Mapping[str, object], level: str, log: FieldLog) -> Mapping[str, object]:
    found = {name: value for name, value in entry.items() if name not in _IDENTITY[level]}
    for name in found:
        log.meet(level, name)
    return found


def _identity(entry: object, key: str, file: str) -> str:
    """Text of a node's name, which is text or a whole number."""
    value = entry.get(key) if isinstance(entry, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise refusal(f"a node or link without a proper {key}", file, value=value, allowed="text or a whole number")
    return str(value)
