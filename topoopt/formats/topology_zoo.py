"""Networks of the Topology Zoo, GML or GraphML: links state a speed or not, and demands are not in the files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import networkx as nx
import typer

from topoopt.core.arrays import MIB
from topoopt.files.graph_files import GRAPHML_FIELDS, read_graphml
from topoopt.files.issues import value_text
from topoopt.files.link_attributes import RATE_NAMES, LinkEntry, fields_of, link_rates
from topoopt.files.reader_fields import FieldLog, FieldTable, noted, used
from topoopt.files.untrusted import parsing, read_text, refusal
from topoopt.formats.importer import Imported, Importer, NameOption, name_of, require_choice, require_positive
from topoopt.formats.networks import exact, routing_instance
from topoopt.workloads.demands import DEMAND_FAMILIES

MAX_TEXT = 32 * MIB
FIELDS: FieldTable = {
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
    text = read_text(file, MAX_TEXT, "GML or GraphML")
    if not re.search(r"^\s*multigraph\s+1", text, re.MULTILINE):  # parallel links of the Zoo are not announced
        text = re.sub(r"^(\s*graph\s*\[)", r"\1\n multigraph 1", text, count=1, flags=re.MULTILINE)
    with parsing(str(file), "GML", "a network of the Topology Zoo (.gml or .graphml)"):
        graph: Any = nx.parse_gml(text.splitlines(), label="id")
        nodes: list[Node] = [(str(node), dict(data)) for node, data in graph.nodes(data=True)]
        links: list[LinkEntry] = [(str(a), str(b), dict(data)) for a, b, data in graph.edges(data=True)]
        of_graph = sorted(set(graph.graph) - {"multigraph", "directed"})
    notes = (f"not used, attributes of the graph: {', '.join(of_graph)}",) if of_graph else ()
    return nodes, links, bool(graph.is_directed()), notes


IMPORTER: Importer = import_topology_zoo
