"""All regular directed networks of few hops, so that a bound by enumeration can be proven again without a solver.

For uniform demand over directed links, some best network uses all interfaces (a free sender and a free receiver can be
joined; where both are one server, a link elsewhere is led through it), and none on which servers cannot reach each
other counts. theta >= (sum of hops) / (n d) for demand 1, so that only networks with few hops in all can be better than
a claimed bound. They are listed here, each in one or more of its breadth-first numberings, and every one of them must
be among the networks whose link lengths prove the bound. Written apart from the search it checks: level by level, in
numpy, all roots alike.

A numbering: server 0 is a root whose hops are not above the average, the heads of servers 0, 1, ... are numbered in the
order in which they are found, heads of a server ascending. All numberings from one root go through its layers one after
another, so where a layer ends, the rows of the least numbering are the least that these servers can have: tables that
begin otherwise are left out, if there are not too many to look at.
"""

from __future__ import annotations

from itertools import combinations_with_replacement, permutations

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.leaving import end_if_left
from topoopt.core.network import EnumerationProof
from topoopt.core.topology import Topology
from topoopt.verify.laws.certificates import certified_theta_bound

Heads = Ints

MOST_TABLES = 1_000_000
"""Partial tables of one level beyond which the enumeration is given up."""

_CHUNK = 10_000
"""Tables that get their next row at once."""

MOST_COMPARED = 30_000
"""Tables of one level beyond which none is held against its other numberings."""

MOST_SERVERS, MOST_DEGREE = 16, 4
"""Sizes beyond which it is not tried."""


def tables_of_few_hops(n: int, d: int, most_hops: int) -> Heads | None:
    """int64[k, n, d]: every d-regular strongly connected network whose hops add up to `most_hops` at most.

    Up to renaming, in one numbering or more; parallel links are allowed, loops are not. None: too many to list.

    Args:
        n: servers, 2 to 62.
    """
    tables = np.zeros((1, 0, d), dtype=np.int64)
    for server in range(n):
        kept: list[Heads] = []
        for first in range(0, len(tables), _CHUNK):
            end_if_left()
            longer = _extended(n, d, tables[first : first + _CHUNK], server)
            kept.append(longer[_least_hops_fit(n, d, longer, most_hops)])
            if sum(map(len, kept)) > MOST_TABLES:
                return None
        tables = np.concatenate(kept) if kept else np.zeros((0, server + 1, d), dtype=np.int64)
        if len(tables) <= MOST_COMPARED:
            tables = tables[np.array([_begins_least(table) for table in tables], dtype=np.bool_)]
    return tables


def _begins_least(table: Ints) -> bool:
    """Whether no numbering of these rows (int64[rows, d]) from server 0 is less; true where they end within a layer."""
    end = 1
    while end < len(table):
        following = int(table[:end].max()) + 1
        if following == end:
            break
        end = following
    return end != len(table) or least_numbering(table, 0) == tuple(tuple(row) for row in table.tolist())


def _extended(n: int, d: int, tables: Heads, server: int) -> Heads:
    """Every table with every row that the numbering and the degrees allow for `server`."""
    count = len(tables)
    flat = tables.reshape(count, -1)
    found = np.maximum(flat.max(axis=1, initial=0), 0) + 1  # servers numbered so far
    received = np.zeros((count, n), dtype=np.int64)
    for port in range(flat.shape[1]):
        np.add.at(received, (np.arange(count), flat[:, port]), 1)
    parts: list[Heads] = []
    for row in combinations_with_replacement([v for v in range(n) if v != server], d):
        fits = np.full(count, fill_value=True)
        now = found.copy()
        for head in row:
            fits &= head <= now  # an old server, or the next number
            now = np.maximum(now, head + 1)
        for head in set(row):
            fits &= received[:, head] + row.count(head) <= d
        fits &= (now > server + 1) | (now == n)  # the next server must have been found
        if fits.any():
            new = np.broadcast_to(np.array(row, dtype=np.int64), (int(fits.sum()), 1, d))
            parts.append(np.concatenate((tables[fits], new), axis=1))
    return np.concatenate(parts) if parts else np.zeros((0, server + 1, d), dtype=np.int64)


def _least_hops_fit(n: int, d: int, tables: Heads, most_hops: int) -> Bools:
    """Whether the hops can stay within the limit: counted from every server, and to every server."""
    count, rows, _ = tables.shape
    out, into = np.zeros((count, n), dtype=np.int64), np.zeros((count, n), dtype=np.int64)
    open_out, open_into = np.full((count, n), d), np.full((count, n), d)
    open_out[:, :rows] = 0
    every = np.arange(count)
    for v in range(rows):
        for port in range(d):
            head = tables[:, v, port]
            out[:, v] |= np.int64(1) << head
            into[every, head] |= np.int64(1) << v
            open_into[every, head] -= 1
    sent = np.array([_least_hops(n, d, out, open_out, v) for v in range(n)])
    received = np.array([_least_hops(n, d, into, open_into, v) for v in range(n)])
    return np.asarray(
        (sent.sum(axis=0) <= most_hops) & (received.sum(axis=0) <= most_hops) & (sent[0] <= most_hops // n)
    )


def _least_hops(n: int, d: int, near: Ints, free: Ints, start: int) -> Ints:
    """int64[k]: fewest hops from `start` to all others, every free port leading to somebody new."""
    count = len(near)
    seen = np.full(count, np.int64(1) << start)
    frontier, strangers, known = seen.copy(), np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    hops, reached = np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.int64)
    for _ in range(n):
        hops += n - reached
        after, fresh = np.zeros(count, dtype=np.int64), strangers * d
        for v in range(n):
            here = (frontier >> v) & 1 == 1
            after |= np.where(here, near[:, v], 0)
            fresh += np.where(here, free[:, v], 0)
        frontier = after & ~seen
        seen |= frontier
        strangers = np.minimum(fresh, n)
        known = np.minimum(known + strangers, n)
        reached = np.minimum(n, np.bitwise_count(seen).astype(np.int64) + known)
        if ((reached == n) | ((frontier == 0) & (strangers == 0))).all():
            break
    return hops + np.where(reached < n, n * n * n, 0)  # beyond any sum that is allowed


def least_numbering(heads: Ints, root: int) -> tuple[tuple[int, ...], ...]:
    """The table (rows of ascending heads) of the breadth-first numbering from `root` that is lexicographically least.

    Args:
        heads: int64[k, d], heads of servers 0 to k - 1, which are all servers that are found from the root, or all
            within some hops of it.
    """
    orders: list[tuple[int, ...]] = [(root,)]
    rows: list[tuple[int, ...]] = []
    table = heads.tolist()
    for position in range(len(table)):
        if position == len(orders[0]):  # nobody else can be reached
            break
        least: tuple[int, ...] | None = None
        following: list[tuple[int, ...]] = []
        for order in orders:
            mine = table[order[position]]
            for arranged in permutations(sorted({*mine} - {*order})):
                longer = order + arranged
                row = tuple(sorted(longer.index(v) for v in mine))
                if least is None or row < least:
                    least, following = row, []
                if row == least:
                    following.append(longer)
        assert least is not None
        rows.append(least)
        orders = following
    return tuple(rows)


def enumeration_bound(n: int, d: int, proof: EnumerationProof, claimed: float) -> float:
    """Bound on theta over all directed networks of degree d for a demand of 1 between all servers, `claimed` at most.

    Raises:
        InputError: the proof is malformed, misses a network, or needs too many of them to be looked at.
    """
    heads, lengths = proof.heads, proof.lengths
    if not 3 <= n <= MOST_SERVERS or not 1 <= d <= MOST_DEGREE:
        raise InputError(f"enumeration: {n} servers of degree {d}, more than can be listed")
    if heads.ndim != 3 or heads.shape[1:] != (n, d) or lengths.shape != heads.shape:
        raise InputError(f"enumeration: heads of shape {heads.shape}, lengths of shape {lengths.shape}")
    if ((heads < 0) | (heads >= n)).any() or not np.isfinite(claimed):
        raise InputError("enumeration: a head that is no server, or a claim that is no number")
    most_hops = int(np.ceil(claimed * n * d * (1 - 1e-9))) - 1
    tables = tables_of_few_hops(n, d, most_hops)
    if tables is None:
        raise InputError(f"enumeration: more than {MOST_TABLES} tables of at most {most_hops} hops")
    bound = min(claimed, (most_hops + 1) / (n * d))
    known: set[tuple[tuple[int, ...], ...]] = set()
    for network, ports in zip(heads, lengths, strict=True):
        bound = min(bound, _bound_of(n, d, network, ports))
        known |= {least_numbering(network, root) for root in range(n)}
    missing = sum(least_numbering(table, 0) not in known for table in tables)
    if missing:
        raise InputError(f"enumeration: {missing} of {len(tables)} tables of at most {most_hops} hops are not covered")
    return bound


def _bound_of(n: int, d: int, heads: Ints, ports: Floats) -> float:
    """What lengths prove of one network; parallel links must have one length."""
    arcs, place, links = np.unique(
        np.column_stack((np.repeat(np.arange(n), d), heads.ravel())), axis=0, return_inverse=True, return_counts=True
    )
    lengths = np.full(len(arcs), np.inf)
    np.minimum.at(lengths, place.ravel(), ports.ravel())  # the shorter of two is a valid choice for both
    topology = Topology(
        servers=n,
        degree=d,
        links=LinkDirection.UNIDIRECTIONAL,
        arcs=arcs.astype(np.int32),
        multiplicity=links.astype(np.int32),
        switches=np.zeros((0, n), dtype=np.int32),
    )
    return certified_theta_bound(topology, np.ones((n, n)) - np.eye(n), lengths)
