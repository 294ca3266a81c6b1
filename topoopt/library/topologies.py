"""Topologies by name, as `topoopt.topologies`: well-known families, circulants, and the ring distances of TotientPerms.

    topoopt.topologies.family("torus", dims=[4, 4]).adjacency()
    topoopt.topologies.circulant(16, topoopt.topologies.totient(16, 4).distances)

Links by hand are `topoopt.Topology.from_edges`; searches are problems of kind `topology`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from solvers.network.assembly import switched
from solvers.network.distances import Selection, TotientResult
from solvers.network.distances import totient as _totient
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.topology import Topology
from topoopt.files.codec import MAX_SERVERS
from topoopt.files.sections import make_topology
from topoopt.files.topology_families import FAMILIES, family_arcs, family_text

__all__ = ["circulant", "families", "family", "totient"]


def families() -> dict[str, tuple[str, ...]]:
    """Names of the families, each with the sizes it needs."""
    return {name: entry.needs for name, entry in FAMILIES.items()}


def family(name: str, *, seed: int = 0, **sizes: Any) -> Topology:
    """A topology of a well-known family, its links given to optical switches.

    Args:
        name: `ring`, `torus`, `hypercube`, ... (`families()` lists them with their sizes).
        seed: of a random family.
        **sizes: what the family needs (`servers`, `degree`, `dims`, ...), and `links` where it comes in both.

    Raises:
        InputError: unknown family, sizes missing, needless or out of range, not connected.
    """
    given = {key: list(value) if isinstance(value, tuple) else value for key, value in sizes.items()}
    if given.get("links", LinkDirection.BIDIRECTIONAL) not in list(LinkDirection):
        raise InputError([_unknown("links", str(given["links"]), list(LinkDirection))])
    made = family_arcs(name, given, seed=seed, max_servers=MAX_SERVERS)
    return switched(make_topology(made.servers, made.arcs, None, family_text(name, given)))


def circulant(servers: int, offsets: Sequence[int], *, links: str = "bidirectional") -> Topology:
    """Server i linked to i + o modulo n for every offset o (back as well, if bidirectional).

    Raises:
        InputError: an offset links a server to itself; not connected.
    """
    return family("circulant", servers=servers, offsets=list(offsets), links=links)


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
        _unknown(what, value, kinds)
        for what, value, kinds in (("links", links, list(LinkDirection)), ("selection", selection, list(Selection)))
        if value not in kinds
    ]
    problems += [
        Problem("out of range", path=what, value=str(value), allowed=f"{low} to {high}")
        for what, value, low, high in (("servers", servers, 2, 10_000_000), ("degree", degree, 1, 64))
        if not low <= value <= high
    ]
    raise_any(problems)
    return _totient(servers, degree, LinkDirection(links), Selection(selection))


def _unknown(what: str, value: str, allowed: Sequence[str]) -> Problem:
    return Problem(f"unknown {what}", path=what, value=value, allowed=", ".join(allowed))
