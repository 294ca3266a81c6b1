"""The section `topology` of collectives: networks with switches and rates, by preset, family, links or file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path as FilePath
from typing import Annotated

import numpy as np
from pydantic import Discriminator, Field, Strict, Tag

from topoopt.core.clos import ClosStatement, clos_fabric
from topoopt.core.errors import InputError, Problem
from topoopt.core.rated_network import PRESETS, RatedNetwork
from topoopt.files.fields import MAX_SERVERS, FileModel, LatencyUs, is_none
from topoopt.files.findings import within
from topoopt.files.graph_files import ListedGraph, ListedLink, read_graph
from topoopt.files.issues import nearest_text
from topoopt.files.sections import (
    RATE_ATTRIBUTE,
    FamilyTopology,
    NodeName,
    RateAttribute,
    Server,
    Servers,
    existing_file,
)
from topoopt.files.topology_families import family_arcs, family_text

MAX_LINKS = 200_000
GBPS_PER_GBYTES = 8
LinkRate = Annotated[float, Field(ge=1e-6, le=1e6)]
RatedRow = Annotated[tuple[Server, Server, LinkRate], Strict(False)]


class PresetNetwork(FileModel):
    """A machine by name."""

    preset: str = Field(description="machine", json_schema_extra={"enum": [*PRESETS]})
    boxes: int = Field(default=1, ge=1, le=MAX_SERVERS, description="how many of them")


class FamilyNetwork(FamilyTopology):
    """A family of topologies, all links of one rate."""

    link_gbytes_per_s: LinkRate = Field(default=1.0, description="rate of a link, GB/s (1e9 bytes a second)")


class LinksNetwork(FileModel):
    """A network link by link."""

    links: Annotated[list[RatedRow], Field(min_length=1, max_length=MAX_LINKS)] = Field(
        description="rows of tail, head, GB/s; parallel links add up"
    )
    directed: bool = Field(default=True, description="false: every row stands for a link in both directions")
    nodes: Servers | None = Field(default=None, description="default: the highest number in use, plus one")
    switches: Annotated[list[Server], Field(max_length=MAX_SERVERS)] = Field(
        default_factory=list, description="numbers of the nodes that do not compute"
    )
    names: Annotated[list[NodeName], Field(max_length=MAX_SERVERS)] | None = Field(
        default=None, exclude_if=is_none, description="of all nodes; default: their numbers"
    )
    latencies_us: Annotated[list[LatencyUs], Field(max_length=MAX_LINKS)] | None = Field(
        default=None, exclude_if=is_none, description="us of each row of links; default: latency_us.link for all"
    )


class FileNetwork(FileModel):
    """A network from a file: GraphML or node-link JSON (edges with `rate`, nodes with `role`), or a table of links."""

    file: str = Field(min_length=1, max_length=1000, description="relative to the folder of this file")
    rate_attribute: RateAttribute = RATE_ATTRIBUTE


class ClosNetwork(FileModel):
    """A Clos fabric, by what its servers and switches have."""

    clos: ClosStatement
    server_gbytes_per_s: LinkRate | None = Field(
        default=None, description="rate of a rank into a switch inside its server, GB/s; null: servers have none"
    )


def network_shape(value: object) -> str:
    """Which shape is meant; the answer names the class."""
    if isinstance(value, PresetNetwork | FamilyNetwork | LinksNetwork | FileNetwork | ClosNetwork):
        return type(value).__name__
    keys = value.keys() if isinstance(value, dict) else ()
    if "preset" in keys:
        return "PresetNetwork"
    if "clos" in keys:
        return "ClosNetwork"
    if "family" in keys:
        return "FamilyNetwork"
    return "LinksNetwork" if "links" in keys else "FileNetwork" if "file" in keys else "PresetNetwork"


RatedSection = Annotated[
    Annotated[PresetNetwork, Tag("PresetNetwork")]
    | Annotated[FamilyNetwork, Tag("FamilyNetwork")]
    | Annotated[LinksNetwork, Tag("LinksNetwork")]
    | Annotated[FileNetwork, Tag("FileNetwork")]
    | Annotated[ClosNetwork, Tag("ClosNetwork")],
    Discriminator(network_shape),
]


def network_of(
    section: RatedSection, folder: FilePath, latency_us: float = 0.0, note: Callable[[str], None] | None = None
) -> RatedNetwork:
    """Build or read a network.

    Args:
        section: where it comes from.
        folder: of the file that names another one.
        latency_us: of a link, where a file states none.
        note: takes what is worth telling of how a file was read.

    Raises:
        InputError: paths are relative to the section.
    """
    if isinstance(section, PresetNetwork):
        return _preset(section, latency_us)
    if isinstance(section, ClosNetwork):
        return _clos(section, latency_us, note)
    if isinstance(section, FamilyNetwork):
        given = section.model_dump(exclude={"family", "link_gbytes_per_s"}, exclude_none=True)
        made = family_arcs(section.family, given, seed=0, max_servers=MAX_SERVERS)
        rate = Fraction(str(section.link_gbytes_per_s))
        links = [(tail, head, rate) for tail, head in made.arcs.tolist()]
        return checked([False] * made.servers, links, latency_us, (), family_text(section.family, given))
    if isinstance(section, LinksNetwork):
        return _of_links(section, latency_us)
    graph = read_graph(
        existing_file(folder, section.file),
        "rates",
        rate_attribute=section.rate_attribute,
        latency_us=latency_us or None,
    )
    if note is not None:
        for text in graph.notes:
            note(text)
    return _of_file(graph, FilePath(section.file).name, latency_us)


def _of_links(section: LinksNetwork, latency_us: float) -> RatedNetwork:
    rows, latencies, names = section.links, section.latencies_us, section.names
    n = section.nodes or max(max(row[:2]) for row in rows) + 1
    problems = [
        Problem("no such node", path=key, value=str(node), allowed=f"0 to {n - 1}")
        for key, nodes in (("links", {end for row in rows for end in row[:2]}), ("switches", section.switches))
        for node in sorted(nodes)
        if node >= n
    ]
    problems += [
        Problem(f"wrong number of {key}", path=key, value=str(len(listed)), allowed=f"{count}, one for each {what}")
        for key, listed, count, what in (("names", names, n, "node"), ("latencies_us", latencies, len(rows), "link"))
        if listed is not None and len(listed) != count
    ]
    if problems:
        raise InputError(problems[:20])
    links = tuple(
        ListedLink(tail, head, 1, Fraction(str(rate)) * GBPS_PER_GBYTES, None if latencies is None else latencies[row])
        for row, (tail, head, rate) in enumerate(rows)
    )
    switches = set(section.switches)
    is_switch = tuple(node in switches for node in range(n))
    graph = ListedGraph(n, links, section.directed, tuple(names or ()), is_switch)
    return _of_file(graph, "links of the instance", latency_us)


def _of_file(graph: ListedGraph, name: str, latency_us: float) -> RatedNetwork:
    """The network of a file, with its own latencies where it states them."""
    links: list[tuple[int, int, Fraction]] = []
    latency: dict[tuple[int, int], float] = {}
    for link in graph.links:
        ends = link.tail, link.head
        for arc in (ends,) if graph.directed is not False else (ends, ends[::-1]):
            links.append((*arc, (link.rate or Fraction(0)) * link.parallel / GBPS_PER_GBYTES))
            if link.latency_us is not None and latency.setdefault(arc, link.latency_us) != link.latency_us:
                shown = f"{latency[arc]:g} and {link.latency_us:g} us"
                raise InputError([Problem("parallel links of different latency", value=shown)])
    network = checked(graph.is_switch, tuple(links), latency_us, graph.names, name)
    if not latency:
        return network
    return replace(network, latency_us=np.array([latency[tail, head] for tail, head in network.arcs.tolist()]))


MAX_RANKS = 8192


def _clos(section: ClosNetwork, latency_us: float, note: Callable[[str], None] | None) -> RatedNetwork:
    """One rank for each interface; a switch stands for all spines of a pod, another for all cores."""
    design = section.clos
    if design.servers * design.degree > MAX_RANKS:
        value = f"{design.servers} x {design.degree}"
        raise InputError([Problem("too many ranks", path="clos", value=value, allowed=f"{MAX_RANKS} interfaces")])
    if design.degree == 1 and section.server_gbytes_per_s is not None:
        text, allowed = "plays no part, as a server has one interface", "null"
        value = f"{section.server_gbytes_per_s:g}"
        raise InputError([Problem(text, path="server_gbytes_per_s", value=value, allowed=allowed)])
    fabric = within("clos", lambda: clos_fabric(design))
    network = within("clos", lambda: fabric.network(section.server_gbytes_per_s))
    if note is not None:
        note(f"{fabric.text}; every rank has one interface; switches joined alike count as one of their joint rate")
    return replace(network, latency_us=np.full(len(network.arcs), latency_us))


def _preset(section: PresetNetwork, latency_us: float) -> RatedNetwork:
    if section.preset not in PRESETS:
        allowed = nearest_text(section.preset, PRESETS)
        raise InputError([Problem("no such machine", path="preset", value=section.preset, allowed=allowed)])
    build, max_boxes = PRESETS[section.preset]
    if section.boxes > max_boxes:
        allowed = f"1 to {max_boxes} of {section.preset}"
        raise InputError([Problem("too many boxes", path="boxes", value=str(section.boxes), allowed=allowed)])
    machine = build(section.boxes)
    return replace(machine, latency_us=np.full(len(machine.arcs), latency_us))


def checked(
    is_switch: list[bool] | tuple[bool, ...],
    links: list[tuple[int, int, Fraction]] | tuple[tuple[int, int, Fraction], ...],
    latency_us: float,
    names: tuple[str, ...],
    origin: str,
) -> RatedNetwork:
    """A network on which collectives can run.

    Raises:
        InputError: fewer than two ranks, rates without a common unit, ranks that cannot reach each other.
    """
    if len(is_switch) - sum(is_switch) < 2:
        raise InputError([Problem("fewer than two nodes that compute", allowed="two or more ranks")])
    try:
        network = RatedNetwork.of_links(is_switch, links, latency_us=latency_us, names=names, origin=origin)
    except ValueError as error:
        raise InputError([Problem(str(error), path="links")]) from None
    apart = network.unreachable()
    if apart is not None:
        text = f"no way from {network.names[apart[0]]} to {network.names[apart[1]]}"
        parts = _parts(network)
        if len(parts) > 1:
            text += f": {len(parts)} parts that no links join"
        shown = "; ".join(", ".join(part) for part in parts[:4]) if len(parts) > 1 else None
        raise InputError([Problem(text, value=shown, allowed="every rank reaches every other")])
    return network


def _parts(network: RatedNetwork) -> list[list[str]]:
    """Names of the ranks of each part that links join in either direction."""
    part = np.arange(network.nodes)
    tails, heads = network.arcs[:, 0], network.arcs[:, 1]
    while True:
        least = np.minimum(part[tails], part[heads])
        lower = part.copy()
        np.minimum.at(lower, tails, least)
        np.minimum.at(lower, heads, least)
        if np.array_equal(lower, part):
            break
        part = lower
    ranks = network.ranks
    return [[network.names[rank] for rank in ranks[part[ranks] == root]] for root in np.unique(part[ranks])]
