"""Networks in files of other tools, and two data sets of them: the Topology Zoo and REPETITA."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import networkx as nx
import numpy as np
import typer

from topoopt.core.arrays import MIB, Floats
from topoopt.core.collective import CollectiveOp
from topoopt.core.data import MAX_SERVERS
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.result import Result
from topoopt.files.graph_files import GRAPHML_FIELDS, read_graphml
from topoopt.files.issues import value_text
from topoopt.files.link_attributes import RATE_NAMES, LinkEntry, fields_of, link_rates, number_of
from topoopt.files.reader_fields import FieldLog, FieldTable, noted, used
from topoopt.files.untrusted import parsing, read_text, refusal
from topoopt.formats.schedules import collective_document, collective_named
from topoopt.formats.table import (
    Export,
    Exporter,
    ExportOptions,
    Imported,
    Importer,
    NameOption,
    decimal_text,
    name_of,
    plain_name,
    refuse,
    require_choice,
    require_positive,
    written_topology,
)
from topoopt.workloads.demands import DEMAND_FAMILIES

CollectiveOption = Annotated[
    str, typer.Option(help="allreduce, allgather, reduce-scatter, all-to-all, broadcast or reduce.")
]
VectorOption = Annotated[int, typer.Option("--bytes", min=1, help="The whole vector of the collective.")]
GBPS_PER_GBYTES = 8


@dataclass(frozen=True)
class NetworkLink:
    """A full-duplex link: its ends by number, GB/s each way, us."""

    tail: int
    head: int
    gbytes_per_s: Fraction
    latency_us: float = 0.0


def exact(text: object) -> Fraction | None:
    """A number as it is written, not negative; None for anything else, and beyond 10^18."""
    value = None if "_" in str(text) else number_of(text)
    return value if value is not None and value >= 0 else None


def chosen_collective(name: str) -> CollectiveOp:
    """The collective of an option.

    Raises:
        InputError: there is none of that name.
    """
    collective = collective_named(name)
    if collective is None:
        allowed = ", ".join(collective.value for collective in CollectiveOp)
        raise InputError([Problem("no such collective", path="--collective", value=value_text(name), allowed=allowed)])
    return collective


def parts_of(nodes: int, links: Iterable[NetworkLink]) -> list[list[int]]:
    """Nodes that links join, the largest set first, each ascending."""
    parent = list(range(nodes))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for link in links:
        parent[root(link.tail)] = root(link.head)
    parts: dict[int, list[int]] = {}
    for node in range(nodes):
        parts.setdefault(root(node), []).append(node)
    return sorted(parts.values(), key=lambda part: (-len(part), part))


def collective_instance(
    name: str,
    nodes: Sequence[tuple[str, bool]],
    links: Sequence[NetworkLink],
    collective: CollectiveOp,
    vector_bytes: int,
    file: str,
) -> dict[str, Any]:
    """Instance document of a collective over all ranks of a network.

    Args:
        name: of the instance.
        nodes: name, and whether it is a switch.
        links: of the network, full duplex.
        collective: which one.
        vector_bytes: of the whole vector.
        file: where the network is from, for messages.

    Raises:
        InputError: fewer than two ranks, ranks that no links join: both parts are named.
    """
    ranks = {node for node, (_, is_switch) in enumerate(nodes) if not is_switch}
    if len(ranks) < 2:
        raise refusal("fewer than two ranks", file, value=len(ranks), allowed="two or more")
    with_ranks = [part for part in parts_of(len(nodes), links) if ranks & set(part)]
    if len(with_ranks) > 1:
        shown = "; ".join(", ".join(nodes[node][0] for node in part if node in ranks) for part in with_ranks[:4])
        raise refusal(f"{len(with_ranks)} parts that no links join", file, value=shown, allowed="one network")
    latencies = [link.latency_us for link in links]
    section: dict[str, Any] = {
        "links": [[link.tail, link.head, float(link.gbytes_per_s)] for link in links],
        "directed": False,
        "nodes": len(nodes),
        "switches": [node for node, (_, is_switch) in enumerate(nodes) if is_switch],
        "names": [name for name, _ in nodes],
    }
    if any(latencies):
        section["latencies_us"] = latencies
    return collective_document(name, section, collective, vector_bytes)


def routing_instance(
    name: str,
    nodes: Sequence[str],
    arcs: Sequence[tuple[int, int, Fraction]],
    demand: Mapping[tuple[int, int], Fraction] | str,
    directed: bool,
    file: str,
) -> Imported:
    """Instance of kind `routing`, capacities and demands in Gbit/s.

    Args:
        name: of the instance.
        nodes: their names, in order.
        arcs: tail, head, Gbit/s; parallel ones add up.
        demand: Gbit/s by pair of nodes; or a family, 1 Gbit/s a pair in the mean.
        directed: false: every arc stands for a link in both directions.
        file: where it is from, for messages.

    Raises:
        InputError: no links, too many nodes, a demand between nodes that are one.
    """
    if not arcs or not 2 <= len(nodes) <= MAX_SERVERS:
        shown = f"{len(nodes)} nodes, {len(arcs)} links"
        raise refusal("no network", file, value=shown, allowed=f"2 to {MAX_SERVERS} nodes, and links")
    loops = sum(tail == head for tail, head, _ in arcs)
    notes = [f"{loops} links from a node to itself carry nothing and were left out"] if loops else []
    links = [(tail, head, rate) for tail, head, rate in arcs if tail != head]
    if len(set(nodes)) < len(nodes):
        repeated = next(label for at, label in enumerate(nodes) if label in nodes[:at])
        raise refusal("a name of two nodes", file, value=repeated, allowed="a name of its own for each")
    matrix: Floats = np.zeros((len(nodes), len(nodes)))
    section: dict[str, Any] = {"family": demand, "scale": 1.0, "unit": "gbps"}
    if not isinstance(demand, str):
        for (source, sink), amount in demand.items():
            if source == sink:
                raise refusal("a demand from a node to itself", file, value=nodes[source], allowed="two nodes")
            matrix[source, sink] = float(amount)
        section = {"matrix": matrix.tolist(), "unit": "gbps"}
    document = {
        "schema_version": 1,
        "kind": "routing",
        "name": name,
        "topology": {
            "servers": len(nodes),
            "names": list(nodes),
            "links": [[tail, head] for tail, head, _ in links],
            "directed": directed,
            "capacities": [float(rate) for _, _, rate in links],
        },
        "link_gbps": 1.0,
        "demand": section,
    }
    figures = {"nodes": len(nodes), "links": len(links), "demands": int((matrix > 0).sum())}
    line = f"{len(nodes)} nodes, {len(links)} links, {figures['demands'] or 'uniform'} demands"
    return Imported(document, line, figures, tuple(notes))


def build_graphml(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """A GraphML file that instances of kind `routing` can refer to.

    Raises:
        InputError: a plan that joins servers by switches of packets.
    """
    topology = written_topology(solution, options)
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(str(server) for server in range(topology.servers))
    links = []
    for (tail, head), count, capacity in zip(
        topology.arcs.tolist(), topology.multiplicity.tolist(), topology.capacity.tolist(), strict=True
    ):
        rate = None if topology.rates is None else capacity / count
        graph.add_edge(str(tail), str(head), multiplicity=count, **({} if rate is None else {"capacity": rate}))
        links.append((tail, head, count, rate))
    text = "\n".join(nx.generate_graphml(graph)) + "\n"
    name = f"{plain_name(solution.name)}.graphml"
    return Export(((name, text.encode()),), (topology.servers, tuple(links), True), GRAPHML_EXPORTER.limits)


GRAPHML_EXPORTER = Exporter(
    kinds=("co-optimisation", "llm-training", "routing", "topology"),
    makes="one GraphML file: the topology",
    limits=("links only: no rates but those of a routing's own links, no switch settings, no routes",),
    folder=False,
    build=build_graphml,
)


MAX_ZOO_TEXT = 32 * MIB
ZOO_FIELDS: FieldTable = {
    "LinkSpeedRaw": used("capacity, bit/s"),
    "LinkSpeed": used("capacity in the unit of LinkSpeedUnits; must agree with LinkSpeedRaw"),
    "LinkSpeedUnits": used("K, M, G or T bits a second"),
    "source": used("end of a link"),
    "target": used("the other end"),
    "id": used("of a node: formal, for links refer to it and nothing else does"),
    "label": used("of a node: its name, where no other has it"),
    "directed": used("of the graph: 1 for links of one direction"),
    "LinkLabel": noted("free text, at times a range of speeds"),
    "LinkType": noted("free text"),
    "LinkNote": noted("free text"),
    "hyperedge": noted("of a node that stands for a shared medium: it counts as a server"),
    "any other": noted("its name, and how many links or nodes have it"),
}
SPEEDS = ("LinkSpeedRaw", "LinkSpeed", "LinkSpeedUnits")
FORMAL = ("id", "key", "label", "source", "target")


def import_topology_zoo(
    file: Annotated[Path, typer.Argument(help="Network of the Topology Zoo (.gml or .graphml).")],
    missing_gbps: Annotated[float | None, typer.Option(help="Gbit/s of links whose speed the file lacks.")] = None,
    demand: Annotated[str, typer.Option(help=f"Family of the demand: {', '.join(DEMAND_FAMILIES)}.")] = "uniform",
    name: NameOption = None,
) -> Imported:
    """A network of the Topology Zoo as an instance of kind routing, with a demand of a family (the file has none)."""
    require_positive("--missing-gbps", missing_gbps)
    require_choice("--demand", demand, tuple(DEMAND_FAMILIES))
    nodes, links, directed, notes = read_zoo(file)
    log = FieldLog(fields_of("links", None), str(file))
    has_rate = [any(name in data for name in RATE_NAMES) for _, _, data in links]
    rated = [link for link, given in zip(links, has_rate, strict=True) if given]
    rates = link_rates(rated, log, "links", None) if rated else None
    if rates is not None and not rates.unit:
        allowed = "LinkSpeedRaw, or LinkSpeed with LinkSpeedUnits"
        raise refusal("speeds without a unit", str(file), value=rates.name, allowed=allowed)
    if len(rated) < len(links) and missing_gbps is None:
        first = links[has_rate.index(False)]
        text = f"{len(links) - len(rated)} of {len(links)} links state no speed, the first {first[0]} - {first[1]}"
        raise refusal(text, str(file), value=_given(first[2]), allowed="--set missing_gbps=10, their rate in Gbit/s")
    speeds = iter(() if rates is None else rates.values)
    default = exact(missing_gbps) or Fraction(1)
    number = {node: at for at, (node, _) in enumerate(nodes)}
    arcs = [
        (number[tail], number[head], next(speeds) if given else default)
        for (tail, head, _), given in zip(links, has_rate, strict=True)
    ]
    made = routing_instance(name or name_of(file), _labels(nodes), arcs, demand, directed, str(file))
    if len(rated) < len(links):
        notes.append(f"{len(links) - len(rated)} links state no speed: {float(default):g} Gbit/s is taken")
    notes.append(f"demand: {demand}, 1 Gbit/s a pair in the mean (the file has none)")
    figures = {**made.figures, "links_without_speed": len(links) - len(rated)}
    return Imported(made.document, made.line, figures, (*made.notes, *notes))


def _given(data: Mapping[str, object]) -> str | None:
    label = data.get("LinkLabel")
    return None if label is None else f"LinkLabel {value_text(label)}"


def _labels(nodes: Sequence[tuple[str, Mapping[str, object]]]) -> list[str]:
    """Labels where each is of one node, else what links refer to."""
    labels = [str(data.get("label", name)) for name, data in nodes]
    count = Counter(labels)
    return [label if count[label] == 1 else f"{label} ({name})" for label, (name, _) in zip(labels, nodes, strict=True)]


Node = tuple[str, Mapping[str, object]]


def read_zoo(file: Path) -> tuple[list[Node], list[LinkEntry], bool, list[str]]:
    """Nodes and links with their attributes, whether links have a direction, and notes of what is not used.

    Raises:
        InputError: neither GML nor GraphML, no links.
    """
    if file.suffix.lower() == ".graphml":
        log = FieldLog(GRAPHML_FIELDS, str(file))
        raw = read_graphml(str(file), log)
        nodes, links, directed = list(raw.nodes.items()), raw.links, bool(raw.directed)
        of_graph = log.settle()
    else:
        nodes, links, directed, of_graph = _read_gml(file)
    if not links:
        raise refusal("no links in this file", str(file), allowed="edges between nodes")
    notes = list(of_graph)
    for what, entries in (("links", [link[2] for link in links]), ("nodes", [data for _, data in nodes])):
        count = Counter(name for data in entries for name in data if name not in (*FORMAL, *SPEEDS, *RATE_NAMES))
        if count:
            rows = ", ".join(f"{name} ({times} {what})" for name, times in sorted(count.items()))
            notes.append(f"not used, attributes of {what}: {rows}")
    return nodes, links, directed, notes


def _read_gml(file: Path) -> tuple[list[Node], list[LinkEntry], bool, tuple[str, ...]]:
    text = read_text(file, MAX_ZOO_TEXT, "GML or GraphML")
    if not re.search(r"^\s*multigraph\s+1", text, re.MULTILINE):  # parallel links of the Zoo are not announced
        text = re.sub(r"^(\s*graph\s*\[)", r"\1\n multigraph 1", text, count=1, flags=re.MULTILINE)
    with parsing(str(file), "GML", "a network of the Topology Zoo (.gml or .graphml)"):
        graph: Any = nx.parse_gml(text.splitlines(), label="id")
        nodes: list[Node] = [(str(node), dict(data)) for node, data in graph.nodes(data=True)]
        links: list[LinkEntry] = [(str(a), str(b), dict(data)) for a, b, data in graph.edges(data=True)]
        of_graph = sorted(set(graph.graph) - {"multigraph", "directed"})
    notes = (f"not used, attributes of the graph: {', '.join(of_graph)}",) if of_graph else ()
    return nodes, links, bool(graph.is_directed()), notes


ZOO: Importer = import_topology_zoo


MAX_TEXT = 64 * MIB
KBPS = Fraction(1, 10**6)
"""Gbit/s of a kbit/s."""

NODE_HEAD, EDGE_HEAD = "label x y", "label src dest weight bw delay"
DEMAND_HEAD = "label src dest bw"
REPETITA_FIELDS: FieldTable = {
    "node label": used("name of the node"),
    "node x": noted("where it is"),
    "node y": noted("where it is"),
    "edge label": noted("its name"),
    "edge src": used("position of its tail in the list of nodes"),
    "edge dest": used("position of its head"),
    "edge weight": noted("of shortest-path routing, which plans do not follow"),
    "edge bw": used("capacity, kbit/s"),
    "edge delay": noted("latencies play no part here"),
    "demand label": noted("its name"),
    "demand src": used("position of the node that sends"),
    "demand dest": used("position of the node that receives"),
    "demand bw": used("kbit/s; those of a pair add up"),
}
UNUSED = (
    "not used: node x, node y, edge label, edge weight (of shortest-path routing), edge delay (latencies play no part "
    "here), demand label"
)

Row = tuple[int, list[str]]


def read_block(file: str, lines: Sequence[tuple[int, str]], word: str, head: str, problems: list[Problem]) -> list[Row]:
    """The rows of a block: `WORD count`, names of columns, then `count` lines.

    Raises:
        InputError: there is no such block.
    """
    start = next((at for at, (_, text) in enumerate(lines) if text.split()[:1] == [word]), None)
    if start is None:
        raise refusal(f"no {word} in this file", file, allowed=f"{word} and their number, then: {head}")
    line, text = lines[start]
    count = text.split()[1:]
    below = lines[start + 1 :]
    if not below or below[0][1].split() != head.split():
        shown = value_text(below[0][1]) if below else None
        problems.append(Problem(f"columns of {word}", file, line + 1, None, shown, head))
        return []
    stop = next((at for at, (_, below_text) in enumerate(below) if below_text.split()[0].isupper()), len(below))
    rows = [(number, row.split()) for number, row in below[1:stop]]
    if count != [str(len(rows))]:
        message = f"the file says {' '.join(count)} {word}, {len(rows)} stand in it"
        problems.append(Problem(message, file, line, None, value_text(text), str(len(rows))))
    width = len(head.split())
    for number, cells in rows:
        if len(cells) != width:
            problems.append(Problem(f"a line of {word}", file, number, None, value_text(" ".join(cells)), head))
    return [row for row in rows if len(row[1]) == width]


def numbered_lines(path: Path) -> list[tuple[int, str]]:
    """Lines that are not empty, with their numbers."""
    text = read_text(path, MAX_TEXT, "REPETITA: NODES, EDGES, DEMANDS")
    return [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def pairs_of(
    file: str, rows: Sequence[Row], columns: tuple[int, int, int], nodes: int, problems: list[Problem]
) -> list[tuple[int, int, Fraction]]:
    """Two positions and a number of kbit/s, as Gbit/s, of each row."""
    made = []
    for line, cells in rows:
        ends, rate = [cells[columns[0]], cells[columns[1]]], exact(cells[columns[2]])
        if not all(end.isdecimal() and end.isascii() and int(end[:9]) < nodes for end in ends):
            allowed = f"positions 0 to {nodes - 1}"
            problems.append(Problem("no such node", file, line, None, value_text(" ".join(cells)), allowed))
        elif rate is None:
            problems.append(Problem("no rate", file, line, None, value_text(cells[columns[2]]), "kbit/s, 0 or more"))
        else:
            made.append((int(ends[0]), int(ends[1]), rate * KBPS))
    return made


def import_repetita(
    file: Annotated[Path, typer.Argument(help="Network of REPETITA (.graph).")],
    demands: Annotated[Path | None, typer.Option(help="Demands (.demands); default: the one beside FILE.")] = None,
    name: NameOption = None,
) -> Imported:
    """A network and demands of REPETITA as an instance of kind routing, in Gbit/s."""
    problems: list[Problem] = []
    lines = numbered_lines(file)
    nodes = [cells[0] for _, cells in read_block(str(file), lines, "NODES", NODE_HEAD, problems)]
    edges = read_block(str(file), lines, "EDGES", EDGE_HEAD, problems)
    arcs = pairs_of(str(file), edges, (1, 2, 4), len(nodes), problems)
    chosen = demands or _beside(file)
    listed = read_block(str(chosen), numbered_lines(chosen), "DEMANDS", DEMAND_HEAD, problems)
    demand: dict[tuple[int, int], Fraction] = {}
    for source, sink, amount in pairs_of(str(chosen), listed, (1, 2, 3), len(nodes), problems):
        demand[source, sink] = demand.get((source, sink), Fraction(0)) + amount
    zero = next((line for (line, cells) in edges if exact(cells[4]) == 0), None)
    if zero is not None:
        problems.append(Problem("a link without capacity", str(file), zero, None, "0", "more than 0 kbit/s"))
    raise_any(problems[:50])
    made = routing_instance(name or name_of(file), nodes, arcs, demand, directed=True, file=str(file))
    taken = () if demands is not None else (f"demands are those of {chosen.name}",)
    return Imported(made.document, made.line, made.figures, (*made.notes, *taken, UNUSED))


def _beside(file: Path) -> Path:
    """The one file of demands beside a network.

    Raises:
        InputError: none, or several.
    """
    listed = sorted(file.parent.glob(f"{file.name.removesuffix('.graph')}.*demands"))
    if len(listed) != 1:
        shown = ", ".join(path.name for path in listed[:8]) or None
        text = "no demands beside the network" if not listed else "several demands beside the network"
        raise InputError([Problem(text, path="--demands", value=shown, allowed="a file of REPETITA (.demands)")])
    return listed[0]


REPETITA: Importer = import_repetita


RatedPair = tuple[int, int, float]
"""Two nodes by number, and Gbit/s."""


def routing_tables(solution: Result[Any, Any], options: ExportOptions) -> tuple[int, list[RatedPair], list[RatedPair]]:
    """Number of nodes, capacities of arcs, and the demand of each pair that has some.

    Raises:
        InputError: several demands, rates of which nobody says what they are in Gbit/s.
    """
    problem = solution.figures.problem
    if problem.demand.ndim != 2:
        raise refuse("several demands", allowed="one matrix")
    unit = problem.link_gbps if problem.link_gbps is not None else options.link_gbps
    if unit is None:
        raise refuse("the solution does not say the rate of a link", path="--link-gbps", allowed="Gbit/s")
    topology, demand = problem.topology, problem.demand.tolist()
    arcs = [
        (tail, head, capacity * unit)
        for (tail, head), capacity in zip(topology.arcs.tolist(), topology.capacity.tolist(), strict=True)
    ]
    pairs = [
        (source, sink, amount * unit)
        for source, row in enumerate(demand)
        for sink, amount in enumerate(row)
        if amount > 0
    ]
    return topology.servers, arcs, pairs


def build_repetita(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """The network and the demand of a routing.

    Raises:
        InputError: several demands, rates of which nobody says what they are in Gbit/s.
    """
    servers, arcs, pairs = routing_tables(solution, options)
    nodes = [f"{node} 0 0" for node in range(servers)]
    edges, demand = ([(tail, head, _kbps(rate)) for tail, head, rate in rows] for rows in (arcs, pairs))
    stem = plain_name(solution.name)
    graph = [f"NODES {len(nodes)}", NODE_HEAD, *nodes, "", f"EDGES {len(edges)}", EDGE_HEAD]
    graph += [f"edge_{at} {tail} {head} 1 {rate} 0" for at, (tail, head, rate) in enumerate(edges)]
    sent = [f"DEMANDS {len(demand)}", DEMAND_HEAD]
    sent += [f"demand_{at} {source} {sink} {rate}" for at, (source, sink, rate) in enumerate(demand)]
    files = tuple((f"{stem}.{ending}", "\n".join((*rows, "")).encode()) for ending, rows in
                  (("graph", graph), ("0000.demands", sent)))  # fmt: skip
    return Export(files, (len(nodes), tuple(edges), tuple(demand)), REPETITA_EXPORTER.limits)


def _kbps(gbps: float) -> str:
    return decimal_text(round(gbps * 1e6, 6))


REPETITA_EXPORTER = Exporter(
    kinds=("routing",),
    makes="NAME.graph and NAME.0000.demands: links with their capacities, and the demand, kbit/s",
    limits=(
        "REPETITA has no parallel links of their own: those of a pair are one with the sum of their capacities",
        "weights are 1 and delays 0; names of nodes are their numbers; no routes: REPETITA's solvers find them",
    ),
    folder=True,
    build=build_repetita,
)
