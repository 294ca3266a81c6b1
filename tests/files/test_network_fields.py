"""Network files: every field is used, noted or refused by name; defaults of keys apply, headers are read."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from topoopt.core.errors import InputError
from topoopt.files.graph_files import COLUMNS, GRAPHML_FIELDS, NODE_LINK_FIELDS, ListedGraph, read_graph
from topoopt.files.link_attributes import LINK_FIELDS, NODE_FIELDS, NetworkUse

RATES = "rates"
HEAD = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
NODES = '<node id="a"/><node id="b"/><node id="c"/>'


def graphml(folder: Path, body: str, keys: str = "", graph: str = 'edgedefault="undirected"') -> Path:
    """A file with one graph."""
    path = folder / "net.graphml"
    path.write_text(f"{HEAD}{keys}<graph {graph}>{body}</graph></graphml>")
    return path


def key(name: str, default: str | None = None, of: str = "edge") -> str:
    """A declared attribute whose id is its name."""
    inner = "" if default is None else f"<default>{default}</default>"
    return f'<key id="{name}" for="{of}" attr.name="{name}" attr.type="string">{inner}</key>'


def edge(tail: str, head: str, **data: object) -> str:
    inner = "".join(f'<data key="{name}">{value}</data>' for name, value in data.items())
    return f'<edge source="{tail}" target="{head}">{inner}</edge>'


def table(folder: Path, text: str) -> Path:
    path = folder / "net.csv"
    path.write_text(text)
    return path


def refused(path: Path, use: NetworkUse = "links") -> str:
    with pytest.raises(InputError) as caught:
        read_graph(path, use)
    return "\n".join(map(str, caught.value.problems))


def notes(graph: ListedGraph) -> str:
    return "\n".join(graph.notes)


def test_defaults_of_keys_apply(tmp_path: Path) -> None:
    """To edges and nodes that state nothing; what they state wins."""
    body = (
        '<node id="s"/>'
        + '<node id="r"><data key="role">rank</data></node>' * 1
        + '<node id="q"><data key="role">gpu</data></node>'
    )
    links = edge("s", "r", rate=2) + edge("s", "q", rate=3, multiplicity=1)
    graph = read_graph(
        graphml(tmp_path, body + links, key("multiplicity", "4") + key("rate") + key("role", "switch", "node")), RATES
    )
    assert graph.is_switch == (True, False, False)
    assert [(link.parallel, link.rate) for link in graph.links] == [(4, 16), (1, 24)]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('<node id="d"><graph edgedefault="undirected"><node id="x"/></graph></node>', "<node> 'graph' cannot be read"),
        ('<hyperedge><endpoint node="a"/><endpoint node="b"/></hyperedge>', "<graph> 'hyperedge' cannot be read"),
        ('<node id="d"><port name="p"/></node>', "<node> 'port' cannot be read"),
        ('<edge source="a" target="b" sourceport="p"/>', "<edge> 'sourceport' cannot be read"),
        ('<edge source="a" target="z"/>', "a link to a node that is not listed"),
        ('<edge source="a" target="b" directed="true"/>', "not directed as the graph is"),
        ('<node id="a"/>', "a node more than once"),
        (edge("a", "b", nothing=1), "a key that is not declared"),
        (edge("a", "b", role=1), "the key role is not for"),
    ],
)
def test_what_graphml_may_hold_and_is_not_read_is_refused(tmp_path: Path, body: str, words: str) -> None:
    keys = key("role", of="node")
    assert words in refused(graphml(tmp_path, NODES + edge("a", "c") + edge("b", "c") + body, keys))


def test_a_key_has_one_default_for_what_is_known(tmp_path: Path) -> None:
    """Of a key with two, or for a misspelt kind of element, a default would be lost."""
    body = NODES + edge("a", "b")
    twice = key("multiplicity", "2").replace("</key>", "<default>3</default></key>")
    assert "a default more than once (value: 'multiplicity')" in refused(graphml(tmp_path, body, twice))
    assert "did you mean edge?" in refused(graphml(tmp_path, body, key("multiplicity", "2", "Edge")))
    found = notes(read_graph(graphml(tmp_path, body, key("multiplicity", "2", "link"))))
    assert "value of for in <key> 'link' of net.graphml is not understood and was not read" in found


def test_the_direction_must_be_stated(tmp_path: Path) -> None:
    assert "edgedefault" in refused(graphml(tmp_path, NODES + edge("a", "b"), graph=""))


def test_unknown_attributes_are_noted_and_near_ones_refused(tmp_path: Path) -> None:
    """A name written almost like one that is used is refused."""
    keys = key("Longitude", of="node") + key("colour") + key("delay")
    body = '<node id="a"><data key="Longitude">1</data></node><node id="b"/>' + edge("a", "b", colour="red", delay=3)
    found = notes(read_graph(graphml(tmp_path, body, keys)))
    assert "attribute of nodes 'Longitude' of net.graphml is not understood and was not read" in found
    assert "attribute of links 'colour' of net.graphml is not understood" in found
    assert "'delay' of net.graphml was not read: latencies play no part here" in found
    path = graphml(tmp_path, NODES + edge("a", "b", Multiplicity=3), key("Multiplicity"))
    assert "'Multiplicity' is not known; allowed: did you mean multiplicity?" in refused(path)


def test_the_weights_of_networkx_are_no_capacities(tmp_path: Path) -> None:
    path = graphml(tmp_path, NODES + edge("a", "b", weight=5), key("weight"))
    graph = read_graph(path)
    assert (graph.rate_attribute, graph.links[0].rate) == ("", None)
    assert "rate_attribute: weight" in notes(graph)
    assert read_graph(path, rate_attribute="weight").links[0].rate == 5


@pytest.mark.parametrize(
    ("name", "value", "gbps"),
    [
        ("capacity", "2.5", None),
        ("bandwidth", "2.5", None),
        ("speed", "2.5", None),
        ("rate", "2.5", None),
        ("gbps", "2.5", "2.5"),
        ("link_gbps", "2.5", "2.5"),
        ("bandwidth_gbps", "2.5", "2.5"),
        ("bandwidth_mbps", "2500", "2.5"),
        ("gbytes_per_s", "0.3125", "2.5"),
        ("LinkSpeedRaw", "2500000000.0", "2.5"),
    ],
)
def test_rates_by_their_names(tmp_path: Path, name: str, value: str, gbps: str | None) -> None:
    """Exactly as written; in Gbit/s where the name says the unit, and said so."""
    graph = read_graph(table(tmp_path, f"source,target,{name}\n0,1,{value}\n1,0,{value}\n"))
    assert (graph.rate_attribute, graph.gbps) == (name, gbps is not None)
    assert {link.rate for link in graph.links} == {Fraction(gbps or value)}
    assert f"{name!r} of net.csv, in {'Gbit/s' if gbps else 'the unit of the demand'}" in notes(graph)


def test_speeds_with_a_column_of_units(tmp_path: Path) -> None:
    graph = read_graph(table(tmp_path, "source,target,LinkSpeed,LinkSpeedUnits\n0,1,10,G\n1,0,155,M\n"))
    assert [link.rate for link in graph.links] == [10, Fraction("0.155")]
    text = refused(table(tmp_path, "source,target,LinkSpeed,LinkSpeedUnits\n0,1,10,G\n1,0,155,\n"))
    assert "links without a proper LinkSpeed: 1 -> 0" in text


def test_units_of_speeds_without_speeds(tmp_path: Path) -> None:
    """They would say nothing; beside another attribute that is asked for they are noted."""
    text = "source,target,capacity,LinkSpeedUnits\n0,1,10,G\n"
    assert "LinkSpeedUnits, and no LinkSpeed" in refused(table(tmp_path, text))
    graph = read_graph(table(tmp_path, text), rate_attribute="capacity")
    assert "'LinkSpeedUnits' of net.csv was not read: rate_attribute names 'capacity'" in notes(graph)


def test_two_candidates_are_one_only_where_they_agree(tmp_path: Path) -> None:
    """With their units; else both are named, and `rate_attribute` chooses."""
    same = table(tmp_path, "source,target,LinkSpeedRaw,bandwidth_gbps\n0,1,1e10,10\n1,0,1e9,1\n")
    assert [link.rate for link in read_graph(same).links] == [10, 1]
    for text in ("capacity,bandwidth\n0,1,10,10\n", "LinkSpeedRaw,gbps\n0,1,1e10,1\n", "gbps,capacity\n0,1,1,1\n"):
        path = table(tmp_path, f"source,target,{text}")
        message = refused(path)
        names = text.partition("\n")[0].split(",")
        assert "several attributes may be the rate" in message
        assert all(name in message for name in names)
        chosen = read_graph(path, rate_attribute=names[1])
        assert chosen.rate_attribute == names[1]
        assert f"{names[0]!r} of net.csv was not read: rate_attribute names {names[1]!r}" in notes(chosen)
    with pytest.raises(InputError, match="no link has this attribute"):
        read_graph(path, rate_attribute="bw")


@pytest.mark.parametrize("value", ["0", "-1", "", "x", "nan", "inf", "1e999999999", "1e16"])
def test_every_link_needs_a_proper_rate(tmp_path: Path, value: str) -> None:
    text = refused(table(tmp_path, f"source,target,capacity\n0,1,5\n1,0,{value}\n"))
    assert "links without a proper capacity: 1 -> 0" in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("source,target,capacity\n0,1\n", "net.csv:2: not a link"),
        ("source,capacity\n0,1\n", "without a column of tails or of heads"),
        ("a,b\n0,1\n", "without a column of tails or of heads"),
        ("0,1,2.5\n", "source, target, capacity"),
        ("0,1,2,3\n", "source, target, capacity"),
        ("A,B\nB,A\n", "without a column of tails or of heads"),
        ("source,target,links,count\n0,1,2,2\n", "a column more than once"),
        ("source,target,links\n0,1,2.5\n", "0 -> 1: not a number of parallel links"),
        ("source,target,Links-\n0,1,2\n", None),
        ("source,target,multi_plicity\n0,1,2\n", "did you mean multiplicity?"),
    ],
)
def test_headers_are_read(tmp_path: Path, text: str, words: str | None) -> None:
    """A first line of names says what columns are; what is not clear is refused with what is missing."""
    path = table(tmp_path, text)
    if words is None:
        assert read_graph(path).links[0].parallel == 2
    else:
        assert words in refused(path)


def test_tables_in_other_dress(tmp_path: Path) -> None:
    """Other names of ends, quoted names of nodes with commas, columns in any order, other marks."""
    graph = read_graph(table(tmp_path, 'dst;capacity;src\n"New York, NY";2;Bern\nBern;3;"New York, NY"\n'))
    assert graph.names == ("Bern", "New York, NY")
    assert [(link.tail, link.head, link.rate) for link in graph.links] == [(0, 1, 2), (1, 0, 3)]
    graph = read_graph(table(tmp_path, "# a ring\n0 1\n1, 0 2\n"))
    assert [link[:3] for link in graph.links] == [(0, 1, 1), (1, 0, 2)]
    graph = read_graph(table(tmp_path, "source,target,length\n0,1,7\n"))
    assert "'length' of net.csv is not understood and was not read" in notes(graph)


def test_links_of_a_node_to_itself_are_left_out_and_noted(tmp_path: Path) -> None:
    graph = read_graph(table(tmp_path, "source,target,capacity\n0,1,2\n1,1,9\n1,0,2\n"))
    assert [link[:2] for link in graph.links] == [(0, 1), (1, 0)]
    assert "carry nothing and were left out: 1 -> 1" in notes(graph)


def node_link(folder: Path, **document: object) -> Path:
    path = folder / "net.json"
    whole = {"nodes": [{"id": 0}, {"id": 1}], "links": [{"source": 0, "target": 1}], **document}
    path.write_text(json.dumps(whole))
    return path


def test_keys_of_node_link_graphs(tmp_path: Path) -> None:
    """Both lists of links and hyperedges are refused, attributes of the graph and unknown keys noted."""
    text = refused(node_link(tmp_path, edges=[{"source": 1, "target": 0}], hyperedges=[[0, 1]]))
    assert "both links and edges" in text
    assert "graph is no mapping (value: 'x')" in refused(node_link(tmp_path, graph="x"))
    assert "'hyperedges' cannot be read" in text
    graph = read_graph(node_link(tmp_path, multigraph=True, graph={"name": "x"}, colour=1))
    assert "key of the graph 'colour' of net.json is not understood" in notes(graph)
    assert "attribute of the graph 'name' of net.json is not understood" in notes(graph)
    links = [{"source": 0, "target": 1, "key": 0, "capacity": 0.1}, {"source": 1, "target": 0, "key": 0, "capacity": 3}]
    assert [link.rate for link in read_graph(node_link(tmp_path, links=links)).links] == [Fraction("0.1"), 3]
    nodes = [{"id": 0, "role": "switch"}, {"id": 1}]
    assert "'role' of net.json was not read: every node counts as a server" in notes(
        read_graph(node_link(tmp_path, nodes=nodes))
    )


def test_rates_of_collectives(tmp_path: Path) -> None:
    """`rate` is GB/s, names with units count, those without are refused; parallel links and latencies are read."""
    text = "source,target,rate,links,latency_ns\n0,1,25,4,500\n1,0,25,4,500\n"
    graph = read_graph(table(tmp_path, text), RATES)
    assert [(link.rate, link.parallel, link.latency_us) for link in graph.links] == [(200, 4, 0.5)] * 2
    assert read_graph(table(tmp_path, "source,target,gbps\n0,1,25\n"), RATES).links[0].rate == 25
    assert "'capacity' cannot be read" in refused(table(tmp_path, "source,target,capacity\n0,1,25\n"), RATES)
    assert read_graph(tmp_path / "net.csv", RATES, rate_attribute="capacity").links[0].rate == 200
    assert "links without a rate" in refused(table(tmp_path, "source,target,links\n0,1,25\n"), RATES)
    assert "'latency' cannot be read" in refused(table(tmp_path, "source,target,rate,latency\n0,1,2,5\n"), RATES)
    some = table(tmp_path, "source,target,rate,latency_us\n0,1,2,5\n1,0,2,\n")
    assert "the link 1 -> 0 has no proper latency_us" in refused(some, RATES)
    assert [link.latency_us for link in read_graph(some, RATES, latency_us=1.5).links] == [5, 1.5]


def test_roles_are_known_ones(tmp_path: Path) -> None:
    body = '<node id="a"><data key="role">Switch</data></node><node id="b"/>' + edge("a", "b", rate=1)
    path = graphml(tmp_path, body, key("role", of="node") + key("rate"))
    assert "an unknown role of node 'a' (value: 'Switch'); allowed: switch, rank" in refused(path, RATES)


def test_every_field_that_is_listed_has_a_meaning() -> None:
    """The tables are what documentation is made of."""
    tables = [
        *GRAPHML_FIELDS.values(),
        *NODE_LINK_FIELDS.values(),
        *LINK_FIELDS.values(),
        *NODE_FIELDS.values(),
        COLUMNS,
    ]
    for fields in tables:
        for name, field in fields.items():
            assert name
            assert field[0] in ("used", "noted", "refused")
            assert field[1]
