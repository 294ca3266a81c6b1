"""Network files in pairs: for each field of the tables, two that differ in it alone."""

from __future__ import annotations

import json
from collections.abc import Mapping

Pair = tuple[str, str]

PREFIXES = ("", "link_", "bandwidth_", "capacity_", "rate_", "speed_")
WITH_UNIT = (
    *(f"{prefix}{unit}" for unit in ("gbps", "mbps") for prefix in PREFIXES),
    "gbytes_per_s", "link_gbytes_per_s", "bandwidth_gbytes_per_s", "rate_gbytes_per_s", "LinkSpeedRaw",
)  # fmt: skip
"""Rates that state their unit."""

GRAPHML = (
    '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    '<key id="k" for="edge" attr.name="rate"/><key id="m" for="edge" attr.name="multiplicity"><default>2</default>'
    "</key>"
    '<key id="r" for="node" attr.name="role"/>'
    '<graph edgedefault="directed"><node id="a"><data key="r">switch</data></node><node id="b"/><node id="c"/>'
    '<edge source="a" target="b"><data key="k">25</data></edge>'
    '<edge source="b" target="c" directed="true"><data key="k">25</data><data key="m">3</data></edge></graph></graphml>'
)
"""Of links with rates and numbers of parallel ones."""


def graphml(*changes: Pair) -> str:
    """The file with some of its text replaced, once."""
    text = GRAPHML
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


GRAPHML_CHANGES: Mapping[str, list[Pair]] = {
    "key (element in <graphml>)": [
        ('<key id="r" for="node" attr.name="role"/>', ""), ('<data key="r">switch</data>', "")],
    "graph (element in <graphml>)": [('"directed"><node', '"undirected"><node'), (' directed="true"', "")],
    "default (element in <key>)": [("<default>2", "<default>4")],
    "node (element in <graph>)": [("</graph>", '<node id="d"/></graph>')],
    "edge (element in <graph>)": [("</graph>", '<edge source="c" target="a"><data key="k">9</data></edge></graph>')],
    "data (element in <node>)": [('<data key="r">switch</data>', "")],
    "data (element in <edge>)": [('<data key="m">3</data>', "")],
    "id (field of <key>)": [('id="k"', 'id="?"'), ('id="m"', 'id="k"'), ('id="?"', 'id="m"'),
                            ('"b"><data key="k">25</data>', '"b"><data key="m">25</data>')],
    "for (field of <key>)": [('id="m" for="edge"', 'id="m" for="all"'), ("<default>2", "<default>4")],
    "attr.name (field of <key>)": [('attr.name="role"', 'attr.name="colour"')],
    "node (value of for in <key>)": [('for="node" attr.name="role"/>', 'for="node" attr.name="role"><default>switch'
                                      "</default></key>")],
    "edge (value of for in <key>)": [('attr.name="rate"/>', 'attr.name="rate"/><key id="x" for="edge" '
                                      'attr.name="latency_us"><default>1</default></key>')],
    "graph (value of for in <key>)": [('id="m" for="edge"', 'id="m" for="graph"'), ('<data key="m">3</data>', "")],
    "all (value of for in <key>)": [('id="m" for="edge"', 'id="m" for="all"'), ("<default>2", "<default>4")],
    "edgedefault (field of <graph>)": [
        ('edgedefault="directed"', 'edgedefault="undirected"'), (' directed="true"', "")],
    "id (field of <node>)": [('<node id="c"/>', '<node id="z"/>'), ('target="c"', 'target="z"')],
    "key (field of <data>)": [('<data key="m">3</data>', ""), ('"b"><data key="k">25</data>',
                              '"b"><data key="k">25</data><data key="m">3</data>')],
    "source (field of <edge>)": [('source="a"', 'source="c"')],
    "target (field of <edge>)": [('target="c"', 'target="a"')],
    "directed (field of <edge>)": [('directed="true"', 'directed="false"')],
}  # fmt: skip
GRAPHML_PAIRS = {name: (GRAPHML, graphml(*changes)) for name, changes in GRAPHML_CHANGES.items()}

GRAPHML_FORMAL: Mapping[str, str] = {
    "data (element in <graph>)": "its attribute is noted by name",
    "xsi:schemaLocation (field of <graphml>)": "for those who validate XML",
    "attr.type (field of <key>)": "values are read as they are written",
    "id (field of <graph>)": "nothing refers to it",
    **{
        f"parse.{name} (field of <graph>)": "for parsers that take memory ahead"
        for name in ("nodes", "edges", "nodeids", "edgeids", "order", "maxindegree", "maxoutdegree")
    },
    "id (field of <data>)": "nothing refers to it",
    "id (field of <edge>)": "nothing refers to it",
}

_STRANGE, _ELEMENT = 'never_heard_of="7"', "<never_heard_of/>"
GRAPHML_STRANGE = [
    *(
        graphml((f"<{start}", f"<{start} {_STRANGE} "))
        for start in ("graphml", "key", "default", "graph ", "node", "edge", "data")
    ),
    *(
        graphml((end, f"{_ELEMENT}{end}"))
        for end in ("</graphml>", "</key>", "</default>", "</graph>", "</node>", "</edge>", "</data>")
    ),
    *(
        graphml(('<key id="r"', f'<key id="x" for="{level}" attr.name="never_heard_of"/><key id="r"'), (where, new))
        for level, where, new in (
            ("node", '<node id="b"/>', '<node id="b"><data key="x">7</data></node>'),
            ("edge", "</edge>", '<data key="x">7</data></edge>'),
            ("graph", "</graph>", '<data key="x">7</data></graph>'),
        )
    ),
    graphml(('<key id="r"', '<key id="x" for="never_heard_of"/><key id="r"')),
]
_ANY = "<desc>text</desc>"
GRAPHML_NOTED = graphml(
    ("</graphml>", f"{_ANY}<data key='k'>1</data></graphml>"),
    ("<default>", f"{_ANY}<default>"),
    ("</graph>", f"{_ANY}</graph>"),
    ("</node>", f"{_ANY}</node>"),
    ("</edge>", f"{_ANY}</edge>"),
    (
        '<key id="r"',
        "".join(f'<key id="{name}" for="{name}"/>' for name in ("port", "endpoint", "hyperedge", "graphml"))
        + '<key id="r"',
    ),
)


def node_link(**changes: object) -> str:
    """A small graph in JSON, with some of its keys changed."""
    nodes = [{"id": 0}, {"id": 1}, {"id": 2}]
    links = [{"source": 0, "target": 1}, {"source": 1, "target": 2}]
    made = {"directed": True, "nodes": nodes, "links": links, **changes}
    return json.dumps({key: value for key, value in made.items() if value is not None})


_LINK, _NODES = {"source": 0, "target": 1}, [{"id": 0}, {"id": 1}, {"id": 2}]
NODE_LINK_PAIRS: Mapping[str, Pair] = {
    "nodes (key of the graph)": (node_link(), node_link(nodes=[*_NODES, {"id": 3}])),
    "links (key of the graph)": (node_link(), node_link(links=[_LINK])),
    "edges (key of the graph)": (
        node_link(links=None, edges=[_LINK]),
        node_link(links=None, edges=[_LINK, {"source": 0, "target": 2}]),
    ),
    "directed (key of the graph)": (node_link(), node_link(directed=False)),
    "id (key of a node)": (node_link(nodes=[*_NODES, {"id": 3}]), node_link(nodes=[*_NODES, {"id": "x"}])),
    "source (key of a link)": (node_link(links=[_LINK]), node_link(links=[{"source": 2, "target": 1}])),
    "target (key of a link)": (node_link(links=[_LINK]), node_link(links=[{"source": 0, "target": 2}])),
}
NODE_LINK_FORMAL: Mapping[str, str] = {
    "multigraph (key of the graph)": "links of a pair add up",
    "graph (key of the graph)": "its attributes are noted by name",
    "key (key of a link)": "links of a pair add up",
}
NODE_LINK_STRANGE = [
    node_link(never_heard_of=7),
    node_link(graph={"never_heard_of": 7}),
    node_link(graph="never_heard_of"),
    node_link(nodes=[*_NODES, {"id": 3, "never_heard_of": 7}]),
    node_link(links=[{**_LINK, "never_heard_of": 7}]),
]

COLUMN_PAIRS: Mapping[str, Pair] = {
    **{f"{name} (column)": (f"{name},target\n0,1\n", f"{name},target\n2,1\n")
       for name in ("source", "tail", "src", "from")},
    **{
        f"{name} (column)": (f"source,{name}\n0,1\n", f"source,{name}\n0,2\n")
        for name in ("target", "head", "dst", "destination", "to")
    },
    **{
        f"{name} (column)": (f"source,target,{name}\n0,1,2\n", f"source,target,{name}\n0,1,3\n")
        for name in ("links", "count", "parallel")
    },
}  # fmt: skip


def _links(name: str, *values: str, beside: str = "", cells: str = "") -> Pair:
    one, two = (f"source,target,{name}{beside}\n0,1,{value}{cells}\n" for value in values)
    return one, two


LINK_PAIRS: Mapping[str, Pair] = {
    **{
        f"{name} (attribute of links)": _links(name, "2", "3")
        for name in (*WITH_UNIT, "multiplicity", "capacity", "bandwidth", "rate", "speed", "LinkSpeed")
    },
    "LinkSpeedUnits (attribute of links)": _links("LinkSpeedUnits", "G", "M", beside=",LinkSpeed", cells=",10"),
}
LINKS_NOTED = json.dumps(
    {
        "nodes": [{"id": 0, "role": "switch"}, {"id": 1}],
        "links": [{**_LINK, **dict.fromkeys(
            ("weight", "latency_us", "latency_ns", "latency_ms", "latency", "delay"), 1)}],
    }
)  # fmt: skip

_ROLES = [
    node_link(nodes=[{"id": 0, "role": role}, {"id": 1}], links=[{**_LINK, "rate": 1}]) for role in ("gpu", "switch")
]
RATE_PAIRS: Mapping[str, Pair] = {
    **{f"{name} (attribute of links)": _links(name, "2", "3") for name in (*WITH_UNIT, "rate")},
    **{
        f"{name} (attribute of links)": _links(name, "2", "3", beside=",rate", cells=",5")
        for name in ("multiplicity", "latency_us", "latency_ns", "latency_ms")
    },
    "LinkSpeed (attribute of links)": _links("LinkSpeed", "2", "3", beside=",LinkSpeedUnits", cells=",G"),
    "LinkSpeedUnits (attribute of links)": _links("LinkSpeedUnits", "G", "M", beside=",LinkSpeed", cells=",10"),
    "role (attribute of nodes)": (_ROLES[0], _ROLES[1]),
}
RATES_NOTED = "source,target,rate,weight\n0,1,2,3\n"
