"""Topologies on their own: TotientPerms circulants, TopologyFinder, rings and balanced routes (`topoopt topology`)."""

from __future__ import annotations

from solvers.network.constructions import (
    FinderSettings,
    Selection,
    TotientResult,
    balanced_routes,
    candidate_topologies,
    circulant_routes,
    circulant_topology,
    find_topology,
    group_rings,
    hop_table,
)
from solvers.network.constructions import totient as _totient
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem

__all__ = [
    "FinderSettings",
    "Selection",
    "TotientResult",
    "balanced_routes",
    "candidate_topologies",
    "circulant_routes",
    "circulant_topology",
    "find_topology",
    "group_rings",
    "hop_table",
    "totient",
]


def totient(servers: int, degree: int, links: str = "bidirectional", selection: str = "paper") -> TotientResult:
    """Ring distances of TotientPerms and what they give (NSDI'23, section 4.3 and theorem 1).

    Args:
        servers: n, at least 2.
        degree: d, interfaces per server.
        links: `bidirectional` or `unidirectional`.
        selection: `paper` (nearest to a geometric sequence), `flexnet` (the reference's rounding) or `best` (searched).

    Raises:
        InputError: a value is out of range or unknown; all problems are listed.
        InfeasibleError: no such network is connected.
    """
    problems = [
        Problem(f"unknown {what}", path=what, value=value, allowed=", ".join(kinds))
        for what, value, kinds in (("links", links, list(LinkDirection)), ("selection", selection, list(Selection)))
        if value not in kinds
    ]
    problems += [
        Problem("out of range", path=what, value=str(value), allowed=f"{low} to {high}")
        for what, value, low, high in (("servers", servers, 2, 10_000_000), ("degree", degree, 1, 64))
        if not low <= value <= high
    ]
    if problems:
        raise InputError(problems)
    return _totient(servers, degree, LinkDirection(links), Selection(selection))
