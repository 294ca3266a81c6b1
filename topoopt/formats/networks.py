"""Networks in files of other tools become instances: `collective` on ranks and switches, `routing` with a demand.

Rates keep the exact value that a file states. A rate that is usual in the other unit (GB/s, Gbit/s) gives a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
import typer

from topoopt.core.arrays import Floats
from topoopt.core.collective import CollectiveOp
from topoopt.core.data import MAX_SERVERS
from topoopt.core.errors import InputError, Problem
from topoopt.files.issues import value_text
from topoopt.files.link_attributes import number_of
from topoopt.files.untrusted import refusal
from topoopt.formats.importer import Imported
from topoopt.formats.schedules import collective_named
from topoopt.formats.schedules.importer import collective_document

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
