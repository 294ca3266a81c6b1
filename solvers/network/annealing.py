"""Annealing exchanges link ends on the demand-weighted hop total, from free topologies or from a running network.

Annealing on the demand-weighted hop total, in pieces between which it can be stopped.

Optimal splittable routing comes within a few per cent of sum D dist / (number of links) on such topologies for
balanced demand, so the hop total, thousands of times cheaper, stands in for theta.

Annealing of a running network on its demand-weighted hop total, giving up no more of its links than allowed.

Few networks are within reach of a few changes, so that each is evaluated afresh; `anneal` is the search without such a
limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from solvers.network.assembly import assemble
from solvers.processes import Tell, in_order, processes
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.topology import Topology
from topoopt.native import search


@dataclass(frozen=True, eq=False)
class LinkTable:
    """Heads and tails of every server's links.

    Attributes:
        links: bidirectional links are held in both directions.
        out: int64[n, d], heads; into: int64[n, d], tails. A dark port points to its own server in both.
    """

    links: LinkDirection
    out: Ints
    into: Ints

    @property
    def paired(self) -> bool:
        return self.links is LinkDirection.BIDIRECTIONAL


def table_of_arcs(n: int, degree: int, links: LinkDirection, arcs: Ints) -> LinkTable:
    """Table of unit arcs, int64[m, 2] with one row per parallel link, at most `degree` a server each way."""
    out = np.repeat(np.arange(n, dtype=np.int64)[:, None], degree, axis=1)
    into = out.copy()
    sent, received = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for tail, head in arcs:
        out[tail, sent[tail]] = head
        into[head, received[head]] = tail
        sent[tail] += 1
        received[head] += 1
    return LinkTable(links, out, into)


def table_of(topology: Topology) -> LinkTable:
    arcs = np.repeat(topology.arcs.astype(np.int64), topology.multiplicity, axis=0)
    return table_of_arcs(topology.servers, topology.degree, topology.links, arcs)


def arcs_of(out: Ints) -> Ints:
    """int64[m, 2]: unit arcs of a table of heads, dark ports left out."""
    n, degree = out.shape
    tails = np.repeat(np.arange(n, dtype=np.int64), degree)
    heads = out.ravel()
    lit = tails != heads
    return np.column_stack((tails[lit], heads[lit]))


def topology_of(out: Ints, links: LinkDirection, origin: str) -> Topology:
    """Topology of a table of heads.

    Raises:
        InfeasibleError: some server cannot reach another one.
    """
    n, degree = out.shape
    return assemble(n, degree, links, [arcs_of(out)], origin)


def tails_of(out: Ints) -> Ints:
    """int64[n, d]: tails that go with heads; dark ports stay dark."""
    n, degree = out.shape
    return table_of_arcs(n, degree, LinkDirection.UNIDIRECTIONAL, arcs_of(out)).into


def diameter(out: Ints) -> int:
    """Most hops between two servers of a table of heads; n when some pair is not joined."""
    n = len(out)
    near = np.eye(n, dtype=np.bool_)
    for hops in range(n):
        if near.all():
            return hops
        near = near | near[out].any(axis=1)
    return n


PIECES = 25
"""Between two pieces the clock is read and the hop total summed afresh."""

CUT_SHARE = 0.6
"""Part of the proposals judged by hop counts that are cut off early where that is faster."""

_CONNECT = 1e-6
"""Extra demand of every pair, against its mean: pairs without demand should be joined, too."""


HOT, COLD = 5e-4, 1e-5
"""Temperatures at start and end, against the hop total."""

COLD_BY_DEMAND = 2e-5
"""At the end, where swaps are drawn by demand: below, hardly one in 100 000 is accepted."""


def moore_levels(n: int, d: int) -> int:
    """Least k with 1 + d + ... + d^k >= n."""
    within, at, k = 1, 1, 0
    while within < n:
        at *= d
        within += at
        k += 1
    return k


def hops_of(out: Ints, demand: Floats) -> float:
    """sum D dist of a topology; pairs that no path joins count n hops."""
    return search.hop_total(np.ascontiguousarray(out), np.ascontiguousarray(demand))


def anneal(
    table: LinkTable,
    demand: Floats,
    allowed: Bools,
    proposals: int,
    *,
    hot: float = HOT,
    group: Ints | None = None,
    parallel: bool = True,
    by_demand: bool = False,
    seed: int = 0,
    stop: Stop | None = None,
) -> Ints:
    """int64[n, d]: heads of the topology of least hop total found; degrees stay as they are.

    Args:
        allowed: bool[n, n], arcs that may be made, False on the diagonal.
        proposals: swaps proposed.
        hot: temperature at the start.
        group: int64[n], of each server, which keeps as many links inside its group; None: all are of one.
        parallel: whether a swap may make a parallel link.
        by_demand: whether swaps are drawn by demand, and given up early: ten times fewer do where it is skewed.
    """
    n, d = table.out.shape
    need = moore_levels(n, d) if d > 1 else n - 1
    full = min(n - 1, need + (1 if d > 2 else 2))
    cut = min(full, max(3, need - 1)) if d > 2 and not by_demand else full
    out, into = table.out.copy(), table.into.copy()
    best = out.copy()
    demand = np.ascontiguousarray(demand + _CONNECT * float(demand.mean()) * (1.0 - np.eye(n)))
    allowed = np.ascontiguousarray(allowed)
    best_total = hops_of(best, demand)
    scale = search.cut_hop_total(out, demand, full)
    seeds = np.random.default_rng(seed).integers(0, 2**31 - 1, PIECES)
    ratio = (COLD_BY_DEMAND if by_demand else COLD) / hot
    ahead = np.zeros((full + 1 if by_demand else 0, 3))
    group = np.zeros(n, dtype=np.int64) if group is None else group
    count = max(1, proposals // PIECES)
    for piece in range(PIECES):
        if stop is not None and stop.reason() is not None:
            break
        start, end = (scale * hot * ratio ** ((piece + part) / PIECES) for part in (0, 1))
        levels = cut if piece < CUT_SHARE * PIECES else full
        heads = search.anneal(
            out, into, demand, allowed, group, levels, table.paired, parallel, start, end, count,
            int(seeds[piece]), ahead,
        )  # fmt: skip
        total = hops_of(heads, demand)
        if total < best_total:
            best, best_total = heads, total
        elif piece >= CUT_SHARE * PIECES and search.cut_hop_total(out, demand, full) > 1.02 * best_total:
            out, into = best.copy(), tails_of(best)  # strayed far while it is already cool
    return best


Run = tuple[Floats, int]
"""Demand, float64[n, n], and seed."""


class AnnealRuns:
    """What the runs have in common; a member of a team does one when it is called."""

    def __init__(
        self, stop: Stop, start: LinkTable, allowed: Bools, proposals: int, hot: float, parallel: bool
    ) -> None:
        self.stop, self._given = stop, (start, allowed, proposals, hot, parallel)

    def __call__(self, run: Run, tell: Tell | None = None) -> Ints:
        start, allowed, proposals, hot, parallel = self._given
        demand, seed = run
        return anneal(
            start, demand, allowed, proposals, hot=hot, parallel=parallel, by_demand=True, seed=seed, stop=self.stop
        )

    def in_order(self, runs: Sequence[Run], jobs: int) -> Iterator[Ints]:
        """int64[n, d] of every run, heads of its best topology; the same for any number of processes."""
        if min(jobs, len(runs)) == 1:
            yield from map(self, runs)
            return
        with processes(min(jobs, len(runs)))(AnnealRuns, self._given, self.stop) as crew:
            yield from in_order(crew(runs, lambda: None))


REWIRING_PIECES = 20
"""Between two pieces the clock is read."""

HOT, COLD = 2e-3, 1e-5
"""Temperatures at start and end, against the hop total."""


def default_proposals(n: int, d: int) -> int:
    """Proposals of an annealing run that takes a few seconds."""
    return int(min(200_000, 1.5e9 / (n * n * d)))


def rewire(
    table: LinkTable,
    demand: Floats,
    allowed: Bools,
    kept: Ints,
    most_changed: int,
    *,
    proposals: int,
    parallel: bool = True,
    seed: int = 0,
    stop: Stop | None = None,
) -> Ints:
    """int64[n, d]: heads of the best topology met that gives up at most so many links of `kept`.

    Args:
        table: where to start; within the limit.
        allowed: bool[n, n], arcs that may be made.
        kept: int64[n, n], links of the network as it stands.
        most_changed: of these; a fibre pair counts once.
    """
    n = len(demand)
    out, into, best = table.out.copy(), table.into.copy(), table.out.copy()
    demand = np.ascontiguousarray(demand + _CONNECT * float(demand.mean()) * (1.0 - np.eye(n)))
    allowed, kept = np.ascontiguousarray(allowed), np.ascontiguousarray(kept)
    limit = most_changed * (2 if table.paired else 1)
    scale = search.hop_total(out, demand)
    seeds = np.random.default_rng(seed).integers(0, 2**31 - 1, REWIRING_PIECES)
    least = scale
    for piece in range(REWIRING_PIECES):
        if stop is not None and stop.reason() is not None:
            break
        hot, cold = (scale * HOT * (COLD / HOT) ** ((piece + part) / REWIRING_PIECES) for part in (0, 1))
        least = search.rewire(
            out, into, best, demand, allowed, kept, limit, table.paired, parallel, hot, cold,
            max(1, proposals // REWIRING_PIECES), int(seeds[piece]), least,
        )  # fmt: skip
    return best


TRIES = 200
"""Exchanges tried per bad link before giving up."""


def bad_links(arcs: Ints, allowed: Bools, parallel: bool) -> Ints:
    """Rows of arcs (int64[m, 2]) that are not allowed, or repeat an earlier row where parallel links are not."""
    bad = ~allowed[arcs[:, 0], arcs[:, 1]]
    if not parallel:
        first = np.unique(arcs[:, 0] * len(allowed) + arcs[:, 1], return_index=True)[1]
        again = np.ones(len(arcs), dtype=np.bool_)
        again[first] = False
        bad |= again
    return np.flatnonzero(bad)


def repaired(table: LinkTable, allowed: Bools, parallel: bool, seed: int) -> LinkTable | None:
    """The table without bad links, by random exchanges that never make more of them; None when that fails.

    Args:
        allowed: bool[n, n], symmetric for fibre pairs, False on the diagonal.
    """
    n, degree = table.out.shape
    rng = np.random.default_rng(seed)
    arcs = arcs_of(table.out)
    if table.paired:
        arcs = arcs[arcs[:, 0] < arcs[:, 1]]  # fibre pairs once

    def whole(links: Ints) -> Ints:
        return np.vstack((links, links[:, ::-1])) if table.paired else links

    def key(links: Ints) -> Ints:
        return np.sort(links, axis=1) if table.paired else links

    bad = bad_links(key(arcs), allowed, parallel)
    for _ in range(TRIES * max(1, len(bad))):
        if len(bad) == 0:
            return table_of_arcs(n, degree, table.links, whole(arcs))
        first, second = int(rng.choice(bad)), int(rng.integers(len(arcs)))
        new = arcs.copy()
        if table.paired and rng.random() < 0.5:
            new[second] = new[second, ::-1]
        new[first, 1], new[second, 1] = new[second, 1], new[first, 1]
        if (new[:, 0] == new[:, 1]).any():
            continue
        new_bad = bad_links(key(new), allowed, parallel)
        if len(new_bad) <= len(bad):
            arcs, bad = new, new_bad
    return None
