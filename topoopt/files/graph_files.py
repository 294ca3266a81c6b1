"""Networks in files of other tools: GraphML, node-link JSON, tables of links. All are files of unknown origin."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from topoopt.files.faults import value_text
from topoopt.files.graphml_files import GRAPHML_FIELDS, RawGraph, read_graphml
from topoopt.files.known_fields import FieldLog, Fields, listed
from topoopt.files.link_attributes import (
    GBPS,
    LINK,
    LinkEntry,
    LinkRates,
    NetworkUse,
    fields_of,
    is_switch,
    link_latencies,
    link_rates,
    parallel_of,
)
from topoopt.files.link_tables import COLUMNS, read_link_table
from topoopt.files.node_link_files import NODE_LINK_FIELDS, read_node_link
from topoopt.files.untrusted import refusal

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

GRAPHML_TABLE, NODE_LINK_TABLE = listed(GRAPHML_FIELDS), listed(NODE_LINK_FIELDS)
LINKS_TABLE, RATES_TABLE = (listed(fields_of(use, None)) for use in NetworkUse)
COLUMNS_TABLE = listed({"column": COLUMNS})


def read_graph(
    path: str | os.PathLike[str],
    use: NetworkUse = NetworkUse.LINKS,
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
    if suffix not in GRAPH_READERS:
        raise refusal("unknown kind of graph file", file, value=suffix, allowed=", ".join(GRAPH_READERS))
    reader, fields = GRAPH_READERS[suffix]
    log = FieldLog({**fields, **fields_of(use, rate_attribute)}, file)
    raw = reader(file, log, use)
    if not raw.links:
        log.refuse("no links in this file")
    numbers, names = _numbered(raw, use)
    if names and use is NetworkUse.LINKS:
        log.note(_numbering(file, names))
    links = _without_loops(raw.links, log)
    rates = log.attempt(lambda: link_rates(links, log, use, rate_attribute))
    latencies = log.attempt(lambda: link_latencies(links, log, latency_us)) if use is NetworkUse.RATES else None
    parallel = log.attempt(lambda: [parallel_of(link, file) for link in links])
    switches: tuple[bool, ...] | None = ()
    if use is NetworkUse.RATES:
        switches = log.attempt(lambda: tuple(is_switch(*node, file) for node in raw.nodes.items()))
        if rates is None and raw.links:
            log.refuse("links without a rate", allowed=f"{LINK} `rate` in GB/s, bandwidth_gbps, ...")
    if rates is not None and (use is NetworkUse.LINKS or rates.name != "rate"):
        log.note(_unit_note(rates, file, use))
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
            if use is NetworkUse.LINKS:
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
    if use is NetworkUse.RATES:
        return f"rates of links are {where}"
    unit = "in Gbit/s, and so is the demand" if rates.unit == GBPS else "in the unit of the demand"
    return f"capacities of links are {where}, {unit}"


def _without_loops(links: list[LinkEntry], log: FieldLog) -> list[LinkEntry]:
    loops = [f"{tail} -> {head}" for tail, head, _ in links if tail == head]
    if loops:
        more = f" and {len(loops) - SHOWN} more" if len(loops) > SHOWN else ""
        log.note(f"links from a node to itself carry nothing and were left out: {', '.join(loops[:SHOWN])}{more}")
    return [link for link in links if link[0] != link[1]]
