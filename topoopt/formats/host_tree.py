"""Hosts and the packet switches above them, as schedulers see a network: a tree of sets of hosts.

Ranks of a host are consecutive. What all lies below one host (NVSwitches, PCI switches, NICs) is inside it. Switches
that reach the same hosts are one node of the tree, as the leaves of a rail-optimised unit are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.cluster import HostSetting
from topoopt.core.errors import InputError, Problem
from topoopt.core.rated_network import RatedNetwork
from topoopt.formats.exporter import refuse
from topoopt.formats.hosts import HOST_NAME


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
    if problems:
        raise InputError(problems[:20])
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
