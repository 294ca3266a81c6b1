"""Hosts, packet switches and cables as others list them: Slurm, Kubernetes and NetBox."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from topoopt.core.arrays import MIB, Ints
from topoopt.core.cluster import HostSetting
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.result import Result
from topoopt.core.topology import Topology
from topoopt.files.atomic import csv_text
from topoopt.files.issues import value_text
from topoopt.files.reader_fields import FieldTable, bare, noted, used
from topoopt.files.untrusted import read_csv_rows
from topoopt.formats.hosts import HOST_NAME, named_servers
from topoopt.formats.table import NOTES_FILE, Export, Exporter, ExportOptions, notes_bytes, refuse, written_topology
from topoopt.page.text import counted


@dataclass(frozen=True)
class TreeSwitch:
    """Switches that reach the same hosts.

    Attributes:
        name: of the first of them.
        switches: all of them, by name.
        hosts: numbers of the hosts below, ascending.
        parent: index of the next larger set; -1: none.
    """

    name: str
    switches: tuple[str, ...]
    hosts: tuple[int, ...]
    parent: int


@dataclass(frozen=True)
class HostTree:
    """Hosts by name, and the switches above them, small sets of hosts first."""

    hosts: tuple[str, ...]
    switches: tuple[TreeSwitch, ...]

    def above(self, host: int) -> list[TreeSwitch]:
        """The switches over a host, the leaf first."""
        at = next((row for row, switch in enumerate(self.switches) if host in switch.hosts), -1)
        path = []
        while at >= 0:
            path.append(self.switches[at])
            at = self.switches[at].parent
        return path

    def children(self, at: int) -> tuple[list[int], list[int]]:
        """Switches right below a switch, and hosts that hang on it itself."""
        below = [row for row, switch in enumerate(self.switches) if switch.parent == at]
        covered = {host for row in below for host in self.switches[row].hosts}
        return below, [host for host in self.switches[at].hosts if host not in covered]


def host_names(hosts: int, settings: Sequence[HostSetting]) -> tuple[str, ...]:
    """`server0`, ... or the names of the settings.

    Raises:
        InputError: settings of servers that are not there, names that no file should hold, names of two hosts.
    """
    names = [f"server{host}" for host in range(hosts)]
    number = {name: host for host, name in enumerate(names)}
    problems = []
    for setting in settings:
        if setting.server not in number:
            allowed = f"server0 to server{hosts - 1}"
            problems.append(
                Problem("no such server in the solution", path="hosts", value=setting.server, allowed=allowed)
            )
        elif setting.name is not None:
            names[number[setting.server]] = setting.name
    problems += [
        Problem(
            "not a name of a host", path="hosts", value=repr(name[:80]), allowed="letters, digits, . _ -, at most 63"
        )
        for name in names
        if not HOST_NAME.fullmatch(name)
    ]
    if len(set(names)) < len(names):
        problems.append(Problem("a name of two hosts", path="hosts", allowed="a name of its own for each"))
    raise_any(problems[:20])
    return tuple(names)


def host_of_ranks(network: RatedNetwork, gpus_per_server: int | None) -> Ints:
    """int64[V]: host of every rank, -1 of switches.

    Raises:
        InputError: it is not stated how many ranks are a host, or they do not fill hosts.
    """
    ranks = len(network.ranks)
    if gpus_per_server is None:
        allowed = "ranks of a host, as 8 (4 of a tray of GB200)"
        raise refuse(
            "the solution does not say which ranks are one host", path="--set gpus_per_server", allowed=allowed
        )
    if ranks % gpus_per_server:
        raise refuse(
            "ranks do not fill hosts", path="--set gpus_per_server", value=gpus_per_server, allowed=f"of {ranks}"
        )
    host = np.full(network.nodes, -1, dtype=np.int64)
    host[network.ranks] = np.arange(ranks) // gpus_per_server
    return host


def hosts_below(network: RatedNetwork, host: Ints) -> list[frozenset[int]]:
    """Hosts of each node: its own of a rank, of a switch those of its neighbours that are nearer to ranks."""
    neighbours: dict[int, set[int]] = defaultdict(set)
    for tail, head in network.arcs.tolist():
        neighbours[tail].add(head)
        neighbours[head].add(tail)
    level = np.where(host >= 0, 0, -1)
    front = network.ranks.tolist()
    order: list[int] = []
    while front:
        reached = sorted({peer for node in front for peer in neighbours[node] if level[peer] < 0})
        for node in reached:
            level[node] = 1 + min(int(level[peer]) for peer in neighbours[node] if level[peer] >= 0)
        order += reached
        front = reached
    below = [frozenset([int(number)]) if number >= 0 else frozenset[int]() for number in host.tolist()]
    for node in order:
        below[node] = frozenset().union(*(below[peer] for peer in neighbours[node] if 0 <= level[peer] < level[node]))
    return below


def host_tree(network: RatedNetwork, gpus_per_server: int | None, settings: Sequence[HostSetting]) -> HostTree:
    """The tree of a network.

    Args:
        network: ranks and switches.
        gpus_per_server: ranks of a host.
        settings: names of hosts.

    Raises:
        InputError: no switches between hosts, or sets of hosts of which neither holds the other and that share some.
    """
    host = host_of_ranks(network, gpus_per_server)
    below = hosts_below(network, host)
    merged: dict[frozenset[int], list[str]] = defaultdict(list)
    for node, members in enumerate(below):
        if host[node] < 0 and len(members) > 1:
            merged[members].append(network.names[node])
    if not merged:
        raise refuse(
            "no packet switch joins two hosts", allowed="a collective on a network with switches between hosts"
        )
    sets = sorted(merged, key=lambda members: (len(members), min(members)))
    parents = []
    for row, members in enumerate(sets):
        above = [at for at in range(row + 1, len(sets)) if members < sets[at]]
        crossing = [other for other in sets[row + 1 :] if members & other and not members <= other]
        if crossing:
            shown = f"{merged[members][0]} and {merged[crossing[0]][0]}"
            raise refuse("switches that share some hosts are no tree", value=shown, allowed="sets of hosts that nest")
        parents.append(min(above, default=-1))
    switches = tuple(
        TreeSwitch(merged[members][0], tuple(merged[members]), tuple(sorted(members)), parent)
        for members, parent in zip(sets, parents, strict=True)
    )
    return HostTree(host_names(int(host.max()) + 1, settings), switches)


MOST_NAME = 64
"""Characters of the name of a switch in Slurm."""

TIER = "fabric.topograph.run/tier-"
MOST_LABEL = 63


def _tree(solution: Result[Any, Any], options: ExportOptions) -> HostTree:
    return host_tree(solution.figures.problem.network, options.gpus_per_server, options.hosts)


def hostlist(names: Sequence[str]) -> str:
    """Names as Slurm writes them: `n[0-3,7],x`; the inverse of `scontrol show hostnames`."""
    groups: dict[tuple[str, int], list[int]] = {}
    for name in names:
        stem, digits = re.fullmatch(r"(.*?)([0-9]*)", name).groups()  # type: ignore[union-attr]
        width = len(digits) if digits.startswith("0") and len(digits) > 1 else 0
        groups.setdefault((stem, width if digits else -1), []).append(int(digits or 0))
    texts = []
    for (stem, width), numbers in groups.items():
        if width < 0:
            texts.append(stem)
            continue
        runs: list[list[int]] = []
        for number in sorted(numbers):
            if runs and number == runs[-1][1] + 1:
                runs[-1][1] = number
            else:
                runs.append([number, number])
        shown = [f"{low:0{width}d}" if low == high else f"{low:0{width}d}-{high:0{width}d}" for low, high in runs]
        single = len(runs) == 1 and runs[0][0] == runs[0][1]
        texts.append(f"{stem}{shown[0]}" if single else f"{stem}[{','.join(shown)}]")
    return ",".join(texts)


def _plain(name: str, most: int) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:most].rstrip("-._") or "switch"


def switch_names(tree: HostTree, most: int) -> list[str]:
    """A name for each switch, no two alike, with letters that Slurm and Kubernetes take."""
    names: list[str] = []
    for row, switch in enumerate(tree.switches):
        name = _plain(switch.name, most)
        names.append(name if name not in names else f"{name[: most - 6]}-{row}")
    return names


def block_sizes(smallest: int, blocks: int) -> list[int]:
    """Hosts of the smallest block, and its doubles up to what all blocks hold together."""
    return [smallest << power for power in range(blocks.bit_length())]


def build_slurm(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """The tree as `topology.conf`, tree and blocks as `topology.yaml`.

    Raises:
        InputError: no packet switches between hosts, sets of hosts that are no tree, hosts that are not stated.
    """
    tree = _tree(solution, options)
    names = switch_names(tree, MOST_NAME)
    conf, rows = [], list[dict[str, str]]()
    for row in range(len(tree.switches)):
        below, own = tree.children(row)
        entry = {"switch": names[row]}
        if below:
            entry["children"] = hostlist([names[at] for at in below])
        if own and not below:
            entry["nodes"] = hostlist([tree.hosts[host] for host in own])
        rows.append(entry)
        what = f"Switches={entry['children']}" if below else f"Nodes={entry['nodes']}"
        conf.append(f"SwitchName={names[row]} {what}")
    leaves = [row for row in range(len(tree.switches)) if not tree.children(row)[0]]
    sizes = [len(tree.switches[row].hosts) for row in leaves]
    notes = [*_tree_notes(tree), *_mixed(tree)]
    blocks = [
        {"block": names[row], "nodes": hostlist([tree.hosts[host] for host in tree.switches[row].hosts])}
        for row in leaves
    ]
    topologies: list[dict[str, Any]] = [{"topology": "tree", "cluster_default": True, "tree": {"switches": rows}}]
    covered = sum(sizes) == len(tree.hosts)
    if covered:
        block: dict[str, Any] = {"block_sizes": block_sizes(min(sizes), len(leaves)), "blocks": blocks}
        topologies.append({"topology": "block", "cluster_default": False, "block": block})
        notes.append(
            f"blocks are the {len(leaves)} smallest sets of hosts under one switch, {min(sizes)} hosts or more"
        )
    else:
        notes.append("no blocks: some hosts are under no leaf")
    notes.append("Slurm ignores topology.conf where topology.yaml stands beside it: install one of the two")
    files = (
        ("topology.conf", "\n".join((*conf, "")).encode()),
        ("topology.yaml", _yaml(topologies).encode()),
        (NOTES_FILE, notes_bytes("Topology of a cluster for Slurm", tuple(notes))),
    )
    content = (tuple(conf), topologies)
    return Export(files, content, tuple(notes), {"hosts": len(tree.hosts), "switches": len(tree.switches)})


def _mixed(tree: HostTree) -> Iterable[str]:
    for row, switch in enumerate(tree.switches):
        below, own = tree.children(row)
        if below and own:
            shown = ", ".join(tree.hosts[host] for host in own[:8])
            yield f"{switch.name} has switches and hosts below it; Slurm takes the switches: left out are {shown}"


def _tree_notes(tree: HostTree) -> Iterable[str]:
    for switch in tree.switches:
        if len(switch.switches) > 1:
            shown = ", ".join(switch.switches[:4]) + (", ..." if len(switch.switches) > 4 else "")
            yield f"{switch.name} stands for {len(switch.switches)} switches that reach the same hosts: {shown}"


def _yaml(topologies: list[dict[str, Any]]) -> str:
    """Block style, text in quotes: what YAML and its subset JSON read alike."""
    lines = []
    for topology in topologies:
        lines.append(f"- topology: {topology['topology']}")
        lines.append(f"  cluster_default: {'true' if topology['cluster_default'] else 'false'}")
        if "tree" in topology:
            lines += ["  tree:", "    switches:"]
            for entry in topology["tree"]["switches"]:
                texts = [f"{key}: {json.dumps(value)}" for key, value in entry.items()]
                lines += [f"      - {texts[0]}", *(f"        {text}" for text in texts[1:])]
        if "block" in topology:
            sizes = ", ".join(map(str, topology["block"]["block_sizes"]))
            lines += ["  block:", f"    block_sizes: [{sizes}]", "    blocks:"]
            for entry in topology["block"]["blocks"]:
                texts = [f"{key}: {json.dumps(value)}" for key, value in entry.items()]
                lines += [f"      - {texts[0]}", *(f"        {text}" for text in texts[1:])]
    return "\n".join((*lines, ""))


def build_kubernetes(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """Labels of every node: the switch above it in each tier, 0 the leaf.

    Raises:
        InputError: as of Slurm.
    """
    tree = _tree(solution, options)
    names = dict(zip(tree.switches, switch_names(tree, MOST_LABEL), strict=True))
    labels = {
        name: {f"{TIER}{tier}": names[switch] for tier, switch in enumerate(tree.above(host))}
        for host, name in enumerate(tree.hosts)
    }
    documents = []
    for name, given in labels.items():
        rows = "".join(f"    {key}: {json.dumps(value)}\n" for key, value in given.items())
        documents.append(f"apiVersion: v1\nkind: Node\nmetadata:\n  name: {json.dumps(name)}\n  labels:\n{rows}")
    notes = (
        *_tree_notes(tree),
        "kubectl apply --server-side -f labels.yaml sets the labels of nodes that are there, and no others",
        "labels of NVLink domains (accelerator.topograph.run/domain, nvidia.com/gpu.clique) are not written: the GPU "
        "operator knows them",
    )
    files = (
        ("labels.yaml", "---\n".join(documents).encode()),
        (NOTES_FILE, notes_bytes("Labels of nodes for Kubernetes", notes)),
    )
    return Export(files, labels, notes, {"hosts": len(labels)})


SLURM = Exporter(
    kinds=("collective",),
    makes="topology.conf (tree of switches) and topology.yaml (tree and blocks); gpus_per_server says which ranks "
    "are a host",
    limits=(
        "a tree alone: switches that reach the same hosts are one, and rates and rails are not written",
        "nodes are hosts: what lies inside one (NVSwitches, NICs) is left out",
    ),
    folder=True,
    build=build_slurm,
)
KUBERNETES = Exporter(
    kinds=("collective",),
    makes="labels.yaml: the switch above each node, by tier, as topograph labels it",
    limits=("the same tree as of slurm; values have at most 63 of the characters A-Z a-z 0-9 . _ -",),
    folder=True,
    build=build_kubernetes,
)


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
    raise_any(problems[:50])
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
