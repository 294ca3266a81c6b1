"""Cut bounds: what must leave or enter a set of servers, over the links that can.

At most d min(|S|, n - |S|) links leave a set S of servers (d from each member, d into each other server), so
theta >= D(S, rest) / (d min(|S|, n - |S|)), and likewise for what enters S, which is what leaves the rest. One server
gives the node cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.verify.network.topology_bounds.checks import checked


@dataclass(frozen=True)
class CutCertificate:
    """The servers of S; the bound counts the demand from S to the rest."""

    senders: tuple[int, ...]


def evaluate_cut(n: int, d: int, demand: Floats, certificate: CutCertificate) -> float:
    """Bound on theta by a set of servers.

    Raises:
        InputError: bad demand, or a set that is empty, full, or has servers that do not exist.
    """
    senders = np.zeros(n, dtype=np.bool_)
    members = certificate.senders
    bad = [i for i in members if not 0 <= i < n]
    size = len(set(members))
    demand = checked(n, d, demand, {"cut names an unknown server": bool(bad), "cut is no cut": not 0 < size < n})
    senders[list(members)] = True
    return float(demand[np.ix_(senders, ~senders)].sum()) / (d * min(size, n - size))


def node_cut_bound(n: int, d: int, demand: Floats) -> tuple[float, CutCertificate]:
    """The busiest server: all it sends or receives crosses its d links."""
    demand = checked(n, d, demand)
    out, into = demand.sum(axis=1), demand.sum(axis=0)
    if out.max() >= into.max():
        certificate = CutCertificate((int(out.argmax()),))
    else:
        busiest = int(into.argmax())
        certificate = CutCertificate(tuple(i for i in range(n) if i != busiest))
    return evaluate_cut(n, d, demand, certificate), certificate


def group_cut_bound(n: int, d: int, demand: Floats, groups: Sequence[Sequence[int]]) -> tuple[float, CutCertificate]:
    """The best of given groups of servers (racks, halves), what leaves them and what enters them.

    No group beats the node cut: at most |S| busiest rows leave S, at most n - |S| busiest columns enter the rest.
    So there is no search; the groups are for people who ask which part of the network is short of links.

    Raises:
        InputError: bad demand, no group, or a group that is empty, full, or has servers that do not exist.
    """
    checked(n, d, demand, {"no group of servers is given": not groups})
    best: tuple[float, CutCertificate] | None = None
    for group in groups:
        members = set(group)
        for senders in (members, set(range(n)) - members | {i for i in members if not 0 <= i < n}):
            certificate = CutCertificate(tuple(sorted(senders)))
            value = evaluate_cut(n, d, demand, certificate)
            if best is None or value > best[0]:
                best = (value, certificate)
    assert best is not None
    return best
