"""Proofs of bounds on theta by trees over the links, and by all regular networks of few hops, without a solver."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, permutations

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.network import (
    DEGREE,
    LARGEST_PRICE,
    MOST_BLOCK_NODES,
    BlockTree,
    EnumerationProof,
    LinkTree,
    TopologyProblem,
)
from topoopt.core.process import end_if_left
from topoopt.core.topology import Topology
from topoopt.verify.laws.link_tree import LeafCases, LinkRules, distances, parts_of, proven_by_leaves
from topoopt.verify.laws.routing import certified_theta_bound


def tree_bound(problem: TopologyProblem, proof: LinkTree, claimed: float) -> float:
    """What a proof shows of theta on all topologies of a problem with one demand, `claimed` or a little more.

    Raises:
        InputError: the proof is malformed, too large to be looked at, or has no multipliers for some topology.
    """
    if not 0 < claimed < np.inf or problem.several:
        raise InputError("tree over the links: more than one demand, or a bound that is no positive number")
    by_order, lengths, prices = parts_of(proof, problem.servers)
    cases = _cases(problem.demand[by_order], lengths, claimed)
    return max(claimed, proven_by_leaves(_rules(problem, by_order), lengths, prices, cases))


def _rules(problem: TopologyProblem, by_order: tuple[Ints, ...]) -> LinkRules:
    n, both, may_lose = problem.servers, problem.links is LinkDirection.BIDIRECTIONAL, problem.max_changed
    allowed = ~np.eye(n, dtype=np.bool_)
    for tail, head in problem.forbidden:
        allowed[tail, head] = False
        if both:
            allowed[head, tail] = False
    kept = np.zeros((n, n), dtype=np.int64)
    for tail, head in problem.kept if may_lose is not None else ():
        kept[tail, head] += 1
    if both:
        kept = np.maximum(kept, kept.T)
    return LinkRules(
        both,
        problem.degree,
        problem.degree if problem.parallel_links else 1,
        allowed[by_order],
        kept[by_order],
        may_lose or 0,
        problem.max_hops,
    )


def _cases(demand: Floats, lengths: Ints, claimed: float) -> LeafCases:
    """One: the limits are S / L rounded down, or -1, which no leaf reaches, where S is 0 and says nothing of lambda."""
    exact = [[Fraction(value) for value in row] for row in demand.tolist()]
    unit = max(value.denominator for row in exact for value in row)  # all are powers of 2
    whole = np.array([[int(value * unit) for value in row] for row in exact], dtype=object)
    sums = (distances(lengths).astype(object) * whole).sum(axis=(1, 2)).tolist()
    divisor = Fraction(claimed) * unit
    limit = np.array([min(2**62, int(entry / divisor)) if entry else -1 for entry in sums], dtype=np.int64)
    carried = np.array([float(Fraction(entry, unit)) for entry in sums])
    return LeafCases(limit[:, None], np.zeros(1), carried[:, None])


ROUNDING = 1e-10
"""Part of the sums compared that rounding may take."""

MOST_SERVERS = 12
_BATCH = 100


Open = tuple[Bools, Bools, Bools]
"""What some nodes leave open: bool[b, n, q] choices of links in, and out, of each server, bool[b, n, n] links ruled
out."""


def blocks_bound(problem: TopologyProblem, proof: BlockTree) -> float:
    """Theta of the proof.

    Raises:
        InputError: the proof is malformed, or a node is neither closed nor divided into all that is open.
    """
    _refuse(problem, proof)
    n = problem.servers
    demand = np.array(problem.demand, dtype=np.float64)
    unit = float(demand.sum()) / (n * (n - 1))
    if not unit > 0:
        raise InputError("tree of blocks: there is no demand")
    pairs = np.array(list(combinations_with_replacement(range(n), DEGREE)))
    rows = _rows(proof, n)
    children: list[set[int]] = [set() for _ in rows]
    for node in range(1, len(rows)):
        children[int(proof.parent[node])].add(int(np.flatnonzero((pairs == np.sort(proof.heads[node])).all(axis=1))[0]))
    for start in range(0, len(rows), _BATCH):
        end_if_left()
        part = slice(start, start + _BATCH)
        choices = _left(rows[part], pairs)
        closed, divided = _closed(demand / unit, proof.theta / unit, proof, part, choices, pairs)
        for at, node in enumerate(range(len(rows))[part]):
            server = int(proof.server[node])
            if server < 0:
                if not closed[at]:
                    raise InputError(f"tree of blocks: node {node} is not closed")
                continue
            open_choices = set(np.flatnonzero(choices[1][at, server] & ~divided[at]).tolist())
            if not open_choices <= children[node]:
                raise InputError(f"tree of blocks: node {node} has a choice of server {server} that is not closed")
    return proof.theta


def _refuse(problem: TopologyProblem, proof: BlockTree) -> None:
    n, count = problem.servers, len(proof.parent)
    plain = not problem.several and not problem.forbidden and problem.parallel_links
    plain = plain and problem.max_hops is None and problem.max_changed is None
    if not plain or problem.links is not LinkDirection.UNIDIRECTIONAL or problem.degree != DEGREE:
        raise InputError("tree of blocks: for one demand, unidirectional links, degree 2, no further constraint")
    tables = (proof.price, proof.relief, proof.shift)
    rows = (proof.parent, proof.server, proof.bar)
    before = np.arange(count)
    issues = {
        f"{n} servers, 4 to {MOST_SERVERS} expected": not 4 <= n <= MOST_SERVERS,
        f"{count} nodes, 1 to {MOST_BLOCK_NODES} expected": not 1 <= count <= MOST_BLOCK_NODES,
        "numbers of the wrong shape": any(entry.shape != (count,) for entry in rows)
        or any(entry.shape != (count, n, n) for entry in tables)
        or proof.heads.shape != (count, DEGREE),
        "theta must be positive and finite": not 0.0 < proof.theta < np.inf,
    }
    wrong = [text for text, here in issues.items() if here]
    if not wrong:
        issues = {
            "the root must be first, and a parent before its children": bool(
                proof.parent[0] != -1 or (proof.parent[1:] < 0).any() or (proof.parent >= before).any()
            ),
            "servers that do not exist": bool((proof.server < -1).any() or (proof.server >= n).any())
            or bool((proof.heads[1:] < 0).any() or (proof.heads >= n).any()),
            "a negative price, relief or bar": any(bool((t < 0).any()) for t in (proof.price, proof.relief, proof.bar)),
            f"a number above {LARGEST_PRICE}": any(
                bool((np.abs(t) > LARGEST_PRICE).any()) for t in (*tables, proof.bar)
            ),
        }
        wrong = [text for text, here in issues.items() if here]
    if wrong:
        raise InputError(f"tree of blocks: {'; '.join(wrong)}")


def _rows(proof: BlockTree, n: int) -> Ints:
    """int64[k, n, 2]: heads that each server has chosen at every node, -1 where none."""
    rows = np.full((len(proof.parent), n, DEGREE), -1, dtype=np.int64)
    for node in range(1, len(rows)):
        parent = int(proof.parent[node])
        server = int(proof.server[parent])
        if server < 0 or rows[parent, server, 0] >= 0:
            raise InputError(f"tree of blocks: node {node} is no choice of a server of its parent")
        rows[node] = rows[parent]
        rows[node, server] = np.sort(proof.heads[node])
    chosen = rows[np.arange(len(rows)), np.maximum(proof.server, 0), 0] >= 0
    if (chosen & (proof.server >= 0)).any():
        raise InputError("tree of blocks: a node is divided by a server that has chosen")
    return rows


def _left(rows: Ints, pairs: Ints) -> Open:
    count, n = rows.shape[:2]
    chosen = rows[:, :, 0] >= 0
    servers = np.arange(n)
    sent = np.zeros((count, n, n), dtype=np.int64)  # links chosen, by tail and head
    for port in range(DEGREE):
        sent += (rows[:, :, port, None] == servers).astype(np.int64)
    received = sent.sum(axis=1)
    of_pair = (pairs[:, :, None] == servers).sum(axis=1)  # int64[q, n], links of a choice by the server at their end
    apart = of_pair.T == 0  # bool[n, q]: choices of other servers
    # A choice of tails has all links known, and further ones from servers that have not chosen.
    fixed = sent.transpose(0, 2, 1)[:, :, None, :] <= of_pair
    extra = (of_pair > sent.transpose(0, 2, 1)[:, :, None, :]) & chosen[:, None, None, :]
    ins = fixed.all(axis=3) & ~extra.any(axis=3) & apart
    fits = (received[:, None, :] + of_pair[None] <= DEGREE).all(axis=2)
    own = (sent[:, :, None, :] == of_pair).all(axis=3)
    outs = np.where(chosen[:, :, None], own, fits[:, None, :]) & apart
    full = received >= DEGREE
    absent = np.where(chosen[:, :, None], sent == 0, full[:, None, :]) | np.eye(n, dtype=np.bool_)
    return ins, outs, absent


def _far(price: Floats) -> Floats:
    """float64[b, n, n]: least price of three links or more, which may pass a server twice from the fourth on."""
    n = price.shape[1]
    far = np.full_like(price, np.inf)
    servers = np.arange(n)
    for a in servers:
        for b in servers[servers != a]:
            by = price[:, :, a, None] + price[:, a, b, None, None] + price[:, b, None, :]
            by[:, [a, b], :] = np.inf
            by[:, :, [a, b]] = np.inf
            far = np.minimum(far, by)
    for _ in range(n):
        before = far
        for b in servers:
            by = far[:, :, b, None] + price[:, b, None, :]
            by[:, b, :] = np.inf
            by[:, :, b] = np.inf
            far = np.minimum(far, by)
        if (far == before).all():
            break
    far[:, servers, servers] = 0.0
    return far


def _closed(
    demand: Floats, theta: float, proof: BlockTree, part: slice, choices: Open, pairs: Ints
) -> tuple[Bools, Bools]:
    """bool[b]: nodes that their prices close; bool[b, q]: choices of the dividing server that they close."""
    n, (first, second), (ins, outs, absent) = len(demand), pairs.T, choices
    price, relief, shift = (t[part].astype(np.float64) for t in (proof.price, proof.relief, proof.shift))
    price = np.where(absent, proof.bar[part].astype(np.float64)[:, None, None], price)
    server = np.maximum(proof.server[part], 0)
    far = _far(price)
    owed = (demand * (far - relief)).sum(axis=(1, 2))
    size = (demand * (far + relief)).sum(axis=(1, 2))
    gain = np.maximum(far - price - relief, 0.0)
    half = 0.5 * (theta * price + gain * np.minimum(demand, theta))
    again = 0.5 * (theta * price + gain * np.clip(demand - theta, 0.0, theta))
    double = first == second
    total = np.zeros(len(price))
    split = np.zeros((len(price), len(pairs)))
    of_pair = (pairs[:, :, None] == np.arange(n)).sum(axis=1)
    at = np.arange(len(price))
    for k in range(n):
        into, out = half[:, :, k] + shift[:, :, k], half[:, k, :] - shift[:, k, :]
        tails = into[:, first] + np.where(double, again[:, first, k], into[:, second])
        heads = out[:, first] + np.where(double, again[:, k, first], out[:, second])
        saved = np.maximum(far - relief - price[:, :, k, None] - price[:, k, None, :], 0.0)
        saved[:, np.arange(n), np.arange(n)] = 0.0
        over_one, two = saved * np.minimum(demand, theta), saved * np.minimum(demand, 2 * theta)
        by_tails = over_one[:, first] + np.where(double[:, None], 0.0, over_one[:, second])
        between = by_tails[:, :, first] + np.where(double, 0.0, by_tails[:, :, second])
        single = np.flatnonzero(double)
        corner = np.ix_(at, single, single)
        between[corner] = two[np.ix_(at, first[single], first[single])]
        link_value = np.where(ins[:, k, :, None] & outs[:, k, None, :], 0.0, -np.inf)
        link_value += tails[:, :, None] + heads[:, None, :] + between
        by_in, by_out = link_value.max(axis=2), link_value.max(axis=1)
        total += by_in.max(axis=1)
        size += np.where(np.isfinite(by_in), np.abs(by_in), 0.0).max(axis=1)
        # By how many links of the dividing server lead into k.
        links = of_pair[:, server].T
        times = np.array([np.where(links == r, by_in, -np.inf).max(axis=1) for r in range(DEGREE + 1)])
        chosen = times[of_pair[:, k], :].T
        split += np.where((server == k)[:, None], by_out, chosen)
    margin = ROUNDING * size
    return owed - total > margin, owed[:, None] - split > margin[:, None]


Heads = Ints

MOST_TABLES = 1_000_000
"""Partial tables of one level beyond which the enumeration is given up."""

_CHUNK = 10_000
"""Tables that get their next row at once."""

MOST_COMPARED = 30_000
"""Tables of one level beyond which none is held against its other numberings."""

MOST_LISTED_SERVERS, MOST_LISTED_DEGREE = 16, 4
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
    numbered = np.maximum(flat.max(axis=1, initial=0), 0) + 1  # servers numbered so far
    received = np.zeros((count, n), dtype=np.int64)
    for port in range(flat.shape[1]):
        np.add.at(received, (np.arange(count), flat[:, port]), 1)
    parts: list[Heads] = []
    for row in combinations_with_replacement([v for v in range(n) if v != server], d):
        fits = np.full(count, fill_value=True)
        now = numbered.copy()
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
    frontier, strangers, unseen = seen.copy(), np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
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
        unseen = np.minimum(unseen + strangers, n)
        reached = np.minimum(n, np.bitwise_count(seen).astype(np.int64) + unseen)
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
    if not 3 <= n <= MOST_LISTED_SERVERS or not 1 <= d <= MOST_LISTED_DEGREE:
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
    covered: set[tuple[tuple[int, ...], ...]] = set()
    for network, ports in zip(heads, lengths, strict=True):
        bound = min(bound, _bound_of(n, d, network, ports))
        covered |= {least_numbering(network, root) for root in range(n)}
    missing = sum(least_numbering(table, 0) not in covered for table in tables)
    if missing:
        raise InputError(f"enumeration: {missing} of {len(tables)} tables of at most {most_hops} hops are not covered")
    return bound


def _bound_of(n: int, d: int, heads: Ints, ports: Floats) -> float:
    """What lengths prove of one network; parallel links must have one length."""
    arcs, arc_of_port, links = np.unique(
        np.column_stack((np.repeat(np.arange(n), d), heads.ravel())), axis=0, return_inverse=True, return_counts=True
    )
    lengths = np.full(len(arcs), np.inf)
    np.minimum.at(lengths, arc_of_port.ravel(), ports.ravel())  # the shorter of two is a valid choice for both
    topology = Topology(
        servers=n,
        degree=d,
        links=LinkDirection.UNIDIRECTIONAL,
        arcs=arcs.astype(np.int32),
        multiplicity=links.astype(np.int32),
        switches=np.zeros((0, n), dtype=np.int32),
    )
    return certified_theta_bound(topology, np.ones((n, n)) - np.eye(n), lengths)
