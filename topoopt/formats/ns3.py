"""Topology text of ns-3: ASTRA-sim's first line has three fields, SimAI's six; every link is full duplex.

A file whose first line counts otherwise than its body is refused with both numbers, for simulators drop what is beyond.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError, Problem
from topoopt.core.rated_network import RatedNetwork
from topoopt.files.issues import value_text
from topoopt.files.link_attributes import unit_notes
from topoopt.files.reader_fields import FieldTable, noted, used
from topoopt.files.untrusted import read_text
from topoopt.formats.exporter import decimal_text, refuse
from topoopt.formats.networks import GBPS_PER_GBYTES, NetworkLink

Ns3Link = tuple[int, int, float, float, float]
"""A full-duplex link: source, target, rate in Gbit/s each way, delay in ms, error rate."""


@dataclass(frozen=True)
class Ns3Topology:
    """Nodes 0..nodes-1, of which some are switches; the others are hosts and do not forward."""

    nodes: int
    switches: tuple[int, ...]
    links: tuple[Ns3Link, ...]


def ns3_text(topology: Ns3Topology) -> str:
    """`nodes switches links`, the switches, then `source target rate delay error` of every link."""
    lines = [f"{topology.nodes} {len(topology.switches)} {len(topology.links)}"]
    lines.append(" ".join(str(switch) for switch in topology.switches))
    for source, target, gbps, delay_ms, error_rate in topology.links:
        rate, delay = decimal_text(gbps), decimal_text(delay_ms)
        lines.append(f"{source} {target} {rate}Gbps {delay}ms {decimal_text(error_rate)}")
    return "\n".join(lines) + "\n"


def ns3_of_network(network: RatedNetwork) -> Ns3Topology:
    """Ranks first, then switches; parallel links are one line with the sum of their rates.

    Raises:
        InputError: links of one direction, or of another rate or latency back.
    """
    order = [*network.ranks.tolist(), *np.flatnonzero(network.is_switch).tolist()]
    number = {node: at for at, node in enumerate(order)}
    rows = zip(network.arcs.tolist(), network.gbytes_per_s.tolist(), network.latency_us.tolist(), strict=True)
    given = {(tail, head): (rate, latency) for (tail, head), rate, latency in rows}
    links = []
    for (tail, head), (rate, latency) in given.items():
        if given.get((head, tail)) != (rate, latency):
            shown = f"{network.names[tail]} -> {network.names[head]}"
            raise refuse("a link that is not alike both ways", value=shown, allowed="full-duplex links")
        if number[tail] < number[head]:
            links.append((number[tail], number[head], round(rate * GBPS_PER_GBYTES, 9), latency / 1000, 0.0))
    ranks = len(network.ranks)
    return Ns3Topology(len(order), tuple(range(ranks, len(order))), tuple(sorted(links)))


MAX_TEXT = 256 * MIB
MOST_NODES = 8192
_WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)
_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?"
_RATE = re.compile(rf"({_NUMBER})([KMGT]?)bps", re.ASCII)
_DELAY = re.compile(rf"({_NUMBER})(ns|us|ms|s)", re.ASCII)
GBPS = {"": Fraction(1, 10**9), "K": Fraction(1, 10**6), "M": Fraction(1, 1000), "G": Fraction(1), "T": Fraction(1000)}
US = {"ns": Fraction(1, 1000), "us": Fraction(1), "ms": Fraction(1000), "s": Fraction(10**6)}

FIELDS: FieldTable = {
    "nodes": used("nodes, from 0; those that are no switches are ranks"),
    "gpus_per_server": used("of SimAI: nodes before the switches are GPUs, so many a server"),
    "nvswitches": used("of SimAI: the first of the switches"),
    "switches": used("how many: other than NVSwitches in SimAI, all in ASTRA-sim"),
    "links": used("how many; must be as many as there are lines of links"),
    "gpu": noted("type of the GPU"),
    "switch ids": used("all switches, in the second line"),
    "source": used("end of a link"),
    "target": used("the other end"),
    "rate": used("with its unit (Gbps), each way"),
    "delay": used("with its unit (ms, us, ns)"),
    "error": noted("rate of errors: links lose nothing here"),
}

Line = tuple[int, list[str]]
"""Number and cells of a line of text."""


@dataclass(frozen=True)
class Ns3Network:
    """A topology text as it was read.

    Attributes:
        nodes: name of each, and whether it is a switch.
        links: full duplex.
        gpus_per_server: of SimAI; 0 in a file of ASTRA-sim.
        nvswitches: how many of the switches are inside servers.
        notes: what was not used.
    """

    nodes: tuple[tuple[str, bool], ...]
    links: tuple[NetworkLink, ...]
    gpus_per_server: int
    nvswitches: int
    notes: tuple[str, ...]


def header_fields(lines: Sequence[Line]) -> int:
    """3 for text of ASTRA-sim, 6 for text of SimAI, 0 for any other file."""
    head = lines[0][1] if len(lines) > 1 else []
    whole = {3: 3, 6: 5}.get(len(head), 0)
    return len(head) if whole and all(_WHOLE.fullmatch(cell) for cell in head[:whole]) else 0


def lines_of(path: str | os.PathLike[str]) -> list[Line]:
    """Lines that are not empty."""
    lines = [(number, raw.split()) for number, raw in enumerate(read_text(path, MAX_TEXT).splitlines(), 1)]
    return [(number, cells) for number, cells in lines if cells]


def read_ns3(path: str | os.PathLike[str], lines: Sequence[Line]) -> Ns3Network:
    """A topology text, of which `header_fields` knows the first line.

    Raises:
        InputError: everything that is wrong with it, counts of the first line among it.
    """
    file, (first, head) = os.fspath(path), lines[0]
    simai = len(head) == 6
    total, *middle, declared_links = map(int, head[:5] if simai else head)
    per_server, nvswitches, others = middle if simai else (0, 0, *middle)
    tool = "SimAI" if simai else "ASTRA-sim"
    problems: list[Problem] = []

    def refuse(message: str, line: int, value: object, allowed: str | None = None) -> None:
        problems.append(Problem(message, file, line, None, value_text(value), allowed))

    second, listed = (lines[1][0], lines[1][1]) if nvswitches + others else (first, [])
    body = lines[2:] if nvswitches + others else lines[1:]
    switches = [int(cell) for cell in listed if _WHOLE.fullmatch(cell)]
    if len(switches) != len(listed) or len(set(switches)) != nvswitches + others:
        text = f"the first line says {nvswitches + others} switches, {len(listed)} are listed"
        refuse(f"topology text of ns-3 ({tool}): {text}", second, " ".join(listed), "an id of each switch, once")
    if not 2 <= total <= MOST_NODES or any(switch >= total for switch in switches):
        refuse("nodes", first, total, f"2 to {MOST_NODES}, more than the id of any switch")
    if len(body) != declared_links:
        text = f"the first line says {declared_links} links, {len(body)} stand in the file"
        line = body[declared_links][0] if len(body) > declared_links else first
        refuse(f"topology text of ns-3 ({tool}): {text}", line, " ".join(head), str(len(body)))
    links: list[NetworkLink] = []
    rates: list[tuple[str, Fraction]] = []
    errors = 0
    for line, cells in body:
        link = _link(cells, total)
        if isinstance(link, str):
            refuse("not a link", line, " ".join(cells), link)
            continue
        links.append(link)
        rates.append((f"line {line}", link.gbytes_per_s * GBPS_PER_GBYTES))
        errors += float(cells[4]) > 0
    joined = {end for link in links for end in (link.tail, link.head)}
    dark = [node for node in range(min(total, MOST_NODES)) if node not in joined]
    if dark and not problems:
        refuse("nodes without a link", first, ", ".join(map(str, dark[:8])), f"links of all {total} nodes")
    ranks = total - len(switches)
    if simai and not problems and (per_server < 1 or ranks % per_server):
        refuse("GPUs do not fill servers", first, f"{ranks} GPUs, {per_server} a server", "a whole number of servers")
    if problems:
        raise InputError(problems[:50])
    inside, switch_ids = set(switches[:nvswitches]), set(switches)
    word = "gpu" if simai else "host"
    nodes = tuple(
        (f"{'nvswitch' if node in inside else 'switch' if node in switch_ids else word}{node}", node in switch_ids)
        for node in range(total)
    )
    notes = [f"not used: gpu (the type {value_text(head[5])})"] if simai else []
    if errors:
        notes.append(f"not used: error of {errors} links: links lose nothing here")
    return Ns3Network(nodes, tuple(links), per_server, nvswitches, (*notes, *unit_notes(rates, "Gbit/s")))


def _link(cells: Sequence[str], nodes: int) -> NetworkLink | str:
    """A link, or what is allowed."""
    allowed = "source target 400Gbps 0.0005ms error"
    if len(cells) != 5 or not all(_WHOLE.fullmatch(cell) for cell in cells[:2]):
        return allowed
    rate, delay = _RATE.fullmatch(cells[2]), _DELAY.fullmatch(cells[3])
    if rate is None or delay is None or not re.fullmatch(_NUMBER, cells[4]):
        return allowed
    source, target = int(cells[0]), int(cells[1])
    if source == target or max(source, target) >= nodes:
        return f"two of the nodes 0 to {nodes - 1}"
    gbps, latency = Fraction(rate[1]) * GBPS[rate[2]], Fraction(delay[1]) * US[delay[2]]
    if not Fraction(1, 10**5) <= gbps <= 10**6 or latency > 10**6:
        return "1e-5 to 1e6 Gbit/s, at most 1 s"
    return NetworkLink(source, target, gbps / GBPS_PER_GBYTES, float(latency))
