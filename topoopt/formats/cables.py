"""Cables of a network as NetBox imports them, and what of a built network is plugged otherwise than planned.

What is built comes as a cable list, or as neighbours that LLDP reports, where each cable should appear from both ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from topoopt.core.arrays import MIB
from topoopt.core.cluster import HostSetting
from topoopt.core.errors import InputError, Problem
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.result import Result
from topoopt.core.topology import Topology
from topoopt.files.atomic import csv_text
from topoopt.files.issues import value_text
from topoopt.files.reader_fields import FieldTable, bare, noted, used
from topoopt.files.untrusted import read_csv_rows
from topoopt.formats.exporter import NOTES_FILE, Export, Exporter, ExportOptions, notes_bytes, refuse, written_topology
from topoopt.formats.host_tree import host_names, host_of_ranks, hosts_below
from topoopt.formats.hosts import named_servers
from topoopt.page.text import counted

Port = tuple[str, str]
"""Device and interface."""

Cable = tuple[Port, Port]
"""Both ends, the lesser first."""

MAX_TEXT = 64 * MIB
NETBOX_HEAD = ("side_a_device", "side_a_type", "side_a_name", "side_b_device", "side_b_type", "side_b_name", "status")
INTERFACE = "dcim.interface"
HEADS: Mapping[str, tuple[str, str, str, str]] = {
    "NetBox": ("side_a_device", "side_a_name", "side_b_device", "side_b_name"),
    "SONiC": ("StartDevice", "StartPort", "EndDevice", "EndPort"),
    "LLDP": ("local_device", "local_port", "remote_device", "remote_port"),
    "LLDP, ids": ("local_device", "local_port", "remote_chassis_id", "remote_port_id"),
}
"""Columns of both ends by form; names are read in any case, with or without blanks, hyphens and underscores."""

FIELDS: FieldTable = {
    **{name: used(f"an end of a cable, as {form} names it") for form, names in HEADS.items() for name in names},
    "any other": noted("types, speeds, labels: not compared"),
}
DIFFERENCE_HEAD = ("difference", "device", "port", "planned_device", "planned_port", "built_device", "built_port")


def cable(first: Port, other: Port) -> Cable:
    """A cable whatever the order of its ends."""
    return (first, other) if first <= other else (other, first)


def topology_cables(topology: Topology, settings: tuple[HostSetting, ...]) -> list[Cable]:
    """A cable for each pair of opposite links, between the interfaces that the plan has for them.

    Raises:
        InputError: links of one direction, packet switches, names that cannot be written.
    """
    if topology.packet_switches:
        raise refuse("packet switches of this kind have no names of ports", allowed="servers alone, or a collective")
    hosts = named_servers(topology, settings)
    count = np.zeros((topology.servers, topology.servers), dtype=np.int64)
    count[topology.arcs[:, 0], topology.arcs[:, 1]] = topology.multiplicity
    if not np.array_equal(count, count.T):
        tail, head = (int(end) for end in np.argwhere(count != count.T)[0])
        shown = f"links from server {tail} to {head}: {count[tail, head]}, back: {count[head, tail]}"
        raise refuse("a cable has both directions", value=shown, allowed="links both ways, or --to patch-list")
    ports: dict[tuple[int, int], list[int]] = defaultdict(list)
    free = np.zeros(topology.servers, dtype=np.int64)
    if (topology.switches >= 0).any():
        for row, server in np.argwhere(topology.switches >= 0).tolist():
            ports[server, int(topology.switches[row, server])].append(row)
    else:
        for tail, head in topology.arcs.tolist():
            for _ in range(int(count[tail, head])):
                ports[tail, head].append(int(free[tail]))
                free[tail] += 1
    cables = []
    for (tail, head), mine in sorted(ports.items()):
        if tail < head:
            for near, distant in zip(mine, ports[head, tail], strict=True):
                ends = [(hosts[s].name, hosts[s].links[p].interface) for s, p in ((tail, near), (head, distant))]
                cables.append(cable(ends[0], ends[1]))
    return cables


def network_cables(network: RatedNetwork, options: ExportOptions) -> tuple[list[Cable], list[str]]:
    """Cables outside hosts, so many for each link as its rate has ports of `link_gbps`, and notes.

    Raises:
        InputError: hosts or the rate of a port are not stated, a rate that is no whole number of ports, one-way links.
    """
    host = host_of_ranks(network, options.gpus_per_server)
    below = hosts_below(network, host)
    names = host_names(int(host.max()) + 1, options.hosts)
    if options.link_gbps is None:
        raise refuse("the solution does not say the rate of a port", path="--set link_gbps", allowed="Gbit/s")
    port_rate = Fraction(str(options.link_gbps)) / 8
    units = {
        (tail, head): rate for (tail, head), rate in zip(network.arcs.tolist(), network.units.tolist(), strict=True)
    }
    inside = [len(below[node]) == 1 for node in range(network.nodes)]
    used_ports: dict[str, int] = defaultdict(int)
    cables, skipped = list[Cable](), 0

    def next_port(node: int) -> Port:
        device = names[min(below[node])] if inside[node] else network.names[node]
        used_ports[device] += 1
        return device, f"{'eth' if inside[node] else 'port'}{used_ports[device]}"

    for (tail, head), rate in units.items():
        if units.get((head, tail)) != rate:
            shown = f"{network.names[tail]} -> {network.names[head]}"
            raise refuse("a cable has both directions", value=shown, allowed="links of one rate both ways")
        if tail > head:
            continue
        if inside[tail] and inside[head] and below[tail] == below[head]:
            skipped += 1
            continue
        number = rate * network.unit_gbytes_per_s / port_rate
        if number.denominator != 1:
            shown = f"{network.names[tail]} - {network.names[head]}: {float(number * port_rate * 8):g} Gbit/s"
            raise refuse(
                "no whole number of ports", path="--set link_gbps", value=shown, allowed="a divisor of all rates"
            )
        cables += [cable(next_port(tail), next_port(head)) for _ in range(int(number))]
    notes = [f"{counted(skipped, 'link')} inside hosts: no cables"] if skipped else []
    notes.append(
        "interfaces and ports are numbered in the order of the links: eth1, ... of hosts, port1, ... of switches"
    )
    return cables, notes


def read_cables(file: Path) -> tuple[list[Cable], list[Cable], list[str]]:
    """Cables of a table, those that LLDP reports from one end alone, and columns that were not used.

    Raises:
        InputError: no columns of both ends, an empty cell, a port with two cables.
    """
    rows = read_csv_rows(file, MAX_TEXT)
    names = list(rows[0]) if rows else []
    by_bare = {bare(name): name for name in names}
    form = next((f for f, head in HEADS.items() if all(bare(name) in by_bare for name in head)), None)
    if form is None:
        allowed = "; ".join(f"{form}: {', '.join(head)}" for form, head in HEADS.items())
        raise InputError([Problem("not a table of cables", str(file), 1, None, value_text(", ".join(names)), allowed)])
    columns = [by_bare[bare(name)] for name in HEADS[form]]
    lldp, seen, problems = form.startswith("LLDP"), dict[Port, tuple[Port, int]](), list[Problem]()
    for line, row in enumerate(rows, 2):
        cells = [row[column].strip() for column in columns]
        if not all(cells):
            shown = value_text(",".join(row.values()))
            problems.append(Problem("a cable without both ends", str(file), line, None, shown, ", ".join(columns)))
            continue
        near, distant = (cells[0], cells[1]), (cells[2], cells[3])
        for end, peer in ((near, distant),) if lldp else ((near, distant), (distant, near)):
            if end in seen:
                shown = f"{' '.join(end)}, also in line {seen[end][1]}"
                problems.append(Problem("a port with two cables", str(file), line, None, value_text(shown), "one"))
            seen[end] = (peer, line)
    if problems:
        raise InputError(problems[:50])
    cables = sorted({cable(end, peer) for end, (peer, _) in seen.items()})
    one_sided = [c for c in cables if not all(seen.get(e, (None, 0))[0] == p for e, p in (c, c[::-1]))]
    return cables, one_sided, [name for name in names if name not in columns]


def differences(
    planned: Iterable[Cable], built: Iterable[Cable], one_sided: Iterable[Cable] = ()
) -> list[tuple[str, ...]]:
    """Rows of what is plugged otherwise than planned.

    `wrong`: a port of the plan is plugged into another one; `missing`: both ends of a planned cable are free; `extra`:
    a cable between ports that the plan leaves free; `one-sided`: one end alone reports it.
    """
    planned, built = set(planned), set(built)
    peer_built = {end: peer for c in sorted(built) for end, peer in (c, c[::-1])}
    rows: list[tuple[str, ...]] = []
    for first, other in sorted(planned - built):
        plugged = [end for end in (first, other) if end in peer_built]
        for end in plugged or [first]:
            wanted = other if end == first else first
            rows.append(("wrong" if plugged else "missing", *end, *wanted, *peer_built.get(end, ("", ""))))
    ports = {end for c in planned for end in c}
    rows += [("extra", *c[0], "", "", *c[1]) for c in sorted(built - planned) if not ports & set(c)]
    rows += [("one-sided", *c[0], "", "", *c[1]) for c in sorted(one_sided)]
    return rows


def build(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """Cables, and with `against` what is plugged otherwise.

    Raises:
        InputError: links that are no cables, names that cannot be written, a table of cables that cannot be read.
    """
    notes: list[str] = []
    if solution.kind == "collective":
        cables, notes = network_cables(solution.figures.problem.network, options)
    else:
        cables = topology_cables(written_topology(solution, options), options.hosts)
        notes.append(
            "optical switches and patch panels between are left out: a cable is what LLDP sees; --to patch-list"
        )
    rows = [(*a[:1], INTERFACE, a[1], b[0], INTERFACE, b[1], "planned") for a, b in cables]
    files = [("cables.csv", csv_text(NETBOX_HEAD, rows).encode())]
    content: dict[str, Any] = {"cables": frozenset(cables)}
    figures: dict[str, Any] = {"cables": len(cables)}
    if options.against is not None:
        built, one_sided, unused = read_cables(options.against)
        rows_apart = differences(cables, built, one_sided)
        files.append(("differences.csv", csv_text(DIFFERENCE_HEAD, rows_apart).encode()))
        content["differences"] = tuple(rows_apart)
        figures["differences"] = [dict(zip(DIFFERENCE_HEAD, row, strict=True)) for row in rows_apart]
        right = len(set(cables) & set(built))
        notes.append(f"{right} of {len(cables)} planned cables are plugged as planned; {len(built)} are built")
        notes += [_said(row) for row in rows_apart[:20]]
        if len(rows_apart) > 20:
            notes.append(f"{len(rows_apart) - 20} more differences are in differences.csv")
        if unused:
            notes.append(f"not compared, columns of {options.against.name}: {', '.join(unused)}")
    files.append((NOTES_FILE, notes_bytes(f"{counted(len(cables), 'cable')}", tuple(notes))))
    return Export(tuple(files), content, tuple(notes), figures)


def _said(row: tuple[str, ...]) -> str:
    what, device, port, planned_device, planned_port, built_device, built_port = row
    if what == "wrong":
        return (
            f"{device} {port} is plugged into {built_device} {built_port}, planned is {planned_device} {planned_port}"
        )
    if what == "missing":
        return f"no cable from {device} {port} to {planned_device} {planned_port}"
    if what == "extra":
        return f"a cable that is not planned: {device} {port} - {built_device} {built_port}"
    return f"one end alone reports {device} {port} - {built_device} {built_port}"


EXPORTER = Exporter(
    kinds=("collective", "co-optimisation", "llm-training", "routing", "topology"),
    makes="cables.csv for NetBox's import, end to end; with --against differences.csv: what is plugged otherwise",
    limits=(
        "lengths, types and labels of cables are not written; a link of one direction is no cable",
        "of collectives: gpus_per_server says which ranks are a host, link_gbps how many ports a link takes",
    ),
    folder=True,
    build=build,
    compares=True,
)
