"""Rings that share the AllReduce of each group so that the largest link load is least.

Equally spaced groups on a circulant (all groups a strided placement makes) are solved once per size and translated;
on any other topology such a group runs along Hamiltonian cycles that together take every link inside it alike, where
there are any; what is left goes through `general_rings`. Shares come from a linear program over candidate rings
(formulations/path_split.py) with two loads: that of all translates of the group at work together, which decides, and
that of one alone; a small charge on hops breaks ties.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd

import numpy as np

from formulations.job.path_split import PathSplit, build_arrays, shares_of
from solvers.backends import BACKENDS, SolverLimits
from solvers.network.constructions.assemble import common_offsets
from solvers.network.constructions.degree_split import coset_size
from solvers.network.constructions.general_rings import general_group_rings
from solvers.network.constructions.graph import ArcGraph, arc_graph
from solvers.network.constructions.group_cycles import cycles_inside
from solvers.network.constructions.ring_candidates import RingCandidate, coset_candidates
from solvers.network.constructions.totient_perms import hop_table
from topoopt.core.arrays import Floats
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.core.routing import GroupRings, Ring
from topoopt.core.topology import Topology

ALONE_WEIGHT = 0.5
HOP_PRICE = 0.02
LEAST_SHARE = 0.01


def group_rings(
    topology: Topology, groups: Sequence[tuple[int, ...]], max_rings: int | None = None, *, seed: int = 0
) -> tuple[GroupRings, ...]:
    """Rings of every group, in the order given.

    Args:
        topology: connected.
        groups: two or more different servers each; members are kept as given.
        max_rings: most rings per group; None: the degree (two at least).
        seed: of tie-breaks on topologies that are not circulant.

    Raises:
        InputError: a group with fewer than two members, a repeated or unknown server; max_rings below 1.
        InfeasibleError: the topology is not connected.
    """
    n = topology.servers
    limit = max(2, topology.degree) if max_rings is None else max_rings
    _check(n, groups, limit)
    coins = common_offsets(n, topology.arcs, topology.multiplicity) if n > 1 else {}
    hops = hop_table(n, tuple(coins))
    connected = gcd(n, *coins) == 1
    solved: dict[int, tuple[Ring, ...]] = {}
    graph: ArcGraph | None = None
    out = []
    for members in groups:
        size = coset_size(n, members)
        if size is not None and connected and size not in solved:
            bidirectional = topology.links is LinkDirection.BIDIRECTIONAL
            candidates = coset_candidates(n, size, coins, hops, bidirectional=bidirectional)
            solved[size] = _shared(candidates, coins, limit)
        if size is not None and connected and (topology.offsets or len(solved[size][0].paths[0]) == 2):
            rings = tuple(_translated(ring, min(members), n) for ring in solved[size])
        else:
            graph = graph or arc_graph(topology)
            cycles = _along_cycles(topology, members, limit, seed) if size is not None else ()
            rings = cycles or general_group_rings(graph, members, limit, seed=seed)
        out.append(GroupRings(tuple(members), rings))
    return tuple(out)


def _along_cycles(topology: Topology, members: tuple[int, ...], limit: int, seed: int) -> tuple[Ring, ...]:
    """Rings both ways round Hamiltonian cycles of a group that together take every fibre pair inside it alike, see
    `cycles_inside`; none where there are no such cycles, or pairs for more than `limit` rings."""
    if topology.links is not LinkDirection.BIDIRECTIONAL:
        return ()
    cycles = cycles_inside(topology, members, limit, seed=seed)
    orders = [order for cycle in cycles for order in (cycle, cycle[::-1])]
    return tuple(
        Ring(order, 1.0 / len(orders), tuple(zip(order, (*order[1:], order[0]), strict=True))) for order in orders
    )


def _shared(candidates: Sequence[RingCandidate], coins: Mapping[int, int], limit: int) -> tuple[Ring, ...]:
    """The rings of the best shares, at most `limit` of them."""
    kept = [candidate for candidate in candidates if len(candidate.rings) <= limit]
    shares = _best_shares(kept, coins)
    for _ in range(3):
        chosen: list[int] = []
        rings = 0
        for index in np.argsort(-shares, kind="stable"):
            if shares[index] >= LEAST_SHARE and rings + len(kept[index].rings) <= limit:
                chosen.append(int(index))
                rings += len(kept[index].rings)
        if len(chosen) == len(kept):
            break
        kept = [kept[index] for index in sorted(chosen)]
        shares = _best_shares(kept, coins)
    rings_out: list[Ring] = []
    for candidate, share in zip(kept, shares, strict=True):
        for paths in candidate.rings:
            rings_out.append(Ring(tuple(path[0] for path in paths), float(share) / len(candidate.rings), paths))
    total = sum(ring.share for ring in rings_out)
    return tuple(Ring(ring.order, ring.share / total, ring.paths) for ring in rings_out if ring.share > 0)


def _best_shares(candidates: Sequence[RingCandidate], coins: Mapping[int, int]) -> Floats:
    """Shares of the candidates by linear program; rows are coins (all translates), then orbits (one group)."""
    if len(candidates) == 1:
        return np.ones(1)
    rows: dict[object, int] = {coin: index for index, coin in enumerate(coins)}
    classes = len(rows)
    resource: list[int] = []
    alternative: list[int] = []
    use: list[float] = []
    for index, candidate in enumerate(candidates):
        for (residue, coin), times in candidate.orbits:
            orbit = rows.setdefault((residue, coin), len(rows))
            resource += [rows[coin], orbit]
            alternative += [index, index]
            use += [times / coins[coin]] * 2
    data = PathSplit(
        demand=np.zeros(len(candidates), dtype=np.int64),
        resource=np.array(resource, dtype=np.int64),
        alternative=np.array(alternative, dtype=np.int64),
        use=np.array(use),
        resources=len(rows),
        family=(np.arange(len(rows)) >= classes).astype(np.int64),
        family_weight=(1.0, ALONE_WEIGHT),
        price=np.array([HOP_PRICE * candidate.hops for candidate in candidates]) / sum(coins.values()),
    )
    result = BACKENDS["highs-simplex"](build_arrays(data), SolverLimits())
    if result.x is None:  # the program always has a solution; equal shares are one
        return np.full(len(candidates), 1.0 / len(candidates))
    return shares_of(data, result.x)


def _translated(ring: Ring, offset: int, n: int) -> Ring:
    if offset == 0:
        return ring
    paths = tuple(tuple((node + offset) % n for node in path) for path in ring.paths)
    return Ring(tuple(path[0] for path in paths), ring.share, paths)


def _check(n: int, groups: Sequence[tuple[int, ...]], limit: int) -> None:
    problems = []
    if limit < 1:
        problems.append(Problem("too few rings", path="max_rings", value=str(limit), allowed=">= 1"))
    for index, members in enumerate(groups):
        where = f"groups[{index}]"
        if len(members) < 2:
            problems.append(Problem("an AllReduce group needs two servers", path=where, value=str(members)))
        if len(set(members)) < len(members):
            problems.append(Problem("a server is in the group twice", path=where, value=str(members)))
        if any(not 0 <= server < n for server in members):
            problems.append(Problem("unknown server", path=where, value=str(members), allowed=f"0..{n - 1}"))
    if problems:
        raise InputError(problems)
