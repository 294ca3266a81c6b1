"""Evaluate a proof of a bound on theta over all topologies: a tree over the links, without a solver, in integers.

Let x_ij be the links i -> j of any topology the problem allows, lambda its throughput, D the demand. Lengths l >= 0 of
all ordered pairs make every path of i -> j at least dist_l(i, j) long, the shortest over all pairs, linked or not, so

    lambda S <= sum l_ij x_ij,  S = sum D_ij dist_l(i, j),  and  theta = 1 / lambda >= L  where  sum l_ij x_ij <= S / L.

Servers have at most d interfaces, so that any prices v >= 0 of interfaces bound that sum from above,

    unidirectional   sum l_ij x_ij <= sum (l_ij - v_j) x_ij + d sum v,  as at most d links lead into a server,
    bidirectional    sum_{i < j} (l_ij + l_ji) x_ij <= sum_{i < j} (l_ij + l_ji - v_i - v_j) x_ij + d sum v,

by a sum over servers i, each of which has its choice of links. At a node of the tree the first servers have chosen; for
all others the best choice each is taken. The node is a leaf where that is at most S / L for one of the multipliers.

A topology to which an allowed link can be added is left out: with that link it carries as much, and it still meets a
hop limit and keeps as many links of the network as it stands. Left out, too, is what the problem forbids: a hop limit
out of reach even with all links not chosen yet, too many links of the network as it stands given up.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.link_tree import LARGEST, MOST_CASES, MOST_CHOICES, MOST_WORK, LinkTree
from topoopt.core.network import TopologyProblem

_CELLS = 4_000_000
"""Numbers of one step: nodes times multipliers."""


@dataclass(frozen=True, eq=False)
class _Rules:
    """What the problem allows, servers renamed by their place in the order.

    Attributes:
        both: whether links are bidirectional.
        degree, most: links of a server, and of a pair.
        allowed: bool[n, n].
        kept: int64[n, n], links as they stand, 0 where all may go; may_lose: how many may be given up.
        hops: limit; None for none.
    """

    both: bool
    degree: int
    most: int
    allowed: Bools
    kept: Ints
    may_lose: int
    hops: int | None


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Nodes of one depth: int64[c, n, n] links chosen, int64[c, n] interfaces used, int64[c] links given up,
    int64[c, k] bounds on the left side."""

    links: Ints
    used: Ints
    lost: Ints
    most: Ints

    def part(self, which: slice | Ints | Bools) -> _Nodes:
        """Some of them."""
        return _Nodes(self.links[which], self.used[which], self.lost[which], self.most[which])


def tree_bound(problem: TopologyProblem, proof: LinkTree, claimed: float) -> float:
    """`claimed`, a bound on theta over all topologies of a problem with one demand, if the proof shows it.

    Raises:
        InputError: the proof is malformed, too large to be looked at, or has no multipliers for some topology.
    """
    n, cases = problem.servers, len(proof.multipliers)
    faults = {
        f"{cases} multipliers, 1 to {MOST_CASES} expected": not 1 <= cases <= MOST_CASES,
        "multipliers of the wrong shape": proof.multipliers.shape != (cases, n, n),
        "an order that does not have every server once": sorted(proof.order.tolist()) != list(range(n)),
        "a bound that is no positive number": not 0 < claimed < np.inf,
        "more than one demand": problem.demand.ndim != 2,
    }
    wrong = [text for text, here in faults.items() if here]
    if not wrong and ((proof.multipliers < 0) | (proof.multipliers > LARGEST)).any():
        wrong = [f"multipliers below 0 or above {LARGEST}"]
    if wrong:
        raise InputError(f"tree over the links: {'; '.join(wrong)}")
    place = np.ix_(proof.order, proof.order)
    lengths = proof.multipliers[:, place[0], place[1]]
    prices = np.einsum("kii->ki", lengths).copy()
    np.einsum("kii->ki", lengths)[:] = 0
    rules = _rules(problem, place)
    limit = _limits(problem.demand[place], lengths, claimed)
    value = lengths if not rules.both else lengths + lengths.transpose(0, 2, 1) - prices[:, :, None]
    value = value - prices[:, None, :]
    choices = [_choices(rules, server) for server in range(n)]
    if sum(len(each) for each in choices) * cases > MOST_CHOICES:
        raise InputError("tree over the links: too many choices of links")
    worth = [rows @ value[:, server, :].T for server, rows in enumerate(choices)]
    _walk(rules, choices, worth, rules.degree * prices.sum(axis=1), limit)
    return claimed


def _rules(problem: TopologyProblem, place: tuple[Ints, ...]) -> _Rules:
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
    return _Rules(
        both,
        problem.degree,
        problem.degree if problem.parallel_links else 1,
        allowed[place],
        kept[place],
        may_lose or 0,
        problem.max_hops,
    )


def _limits(demand: Floats, lengths: Ints, claimed: float) -> Ints:
    """int64[k]: S / L rounded down; -1, which no leaf reaches, where S is 0, as that says nothing of lambda."""
    distance = lengths.copy()
    for k in range(len(demand)):
        np.minimum(distance, distance[:, :, k, None] + distance[:, None, k, :], out=distance)
    exact = [[Fraction(value) for value in row] for row in demand.tolist()]
    unit = max(value.denominator for row in exact for value in row)  # all are powers of 2
    whole = np.array([[int(value * unit) for value in row] for row in exact], dtype=object)
    sums = (distance.astype(object) * whole).sum(axis=(1, 2))
    divisor = Fraction(claimed) * unit
    return np.array([min(2**62, int(each / divisor)) if each else -1 for each in sums.tolist()], dtype=np.int64)


def _choices(rules: _Rules, server: int) -> Ints:
    """int64[o, n]: every choice of the links of a server, given those of the servers before it."""
    rows = np.zeros((1, len(rules.allowed)), dtype=np.int64)
    for head in range(server + 1 if rules.both else 0, len(rules.allowed)):
        if not rules.allowed[server, head]:
            continue
        longer = [rows]
        for links in range(1, rules.most + 1):
            more = rows[rows.sum(axis=1) + links <= rules.degree].copy()
            more[:, head] = links
            longer.append(more)
        rows = np.concatenate(longer)
        if rows.size > MOST_CHOICES:
            raise InputError("tree over the links: too many choices of links")
    return rows


def _walk(rules: _Rules, choices: list[Ints], worth: list[Ints], constant: Ints, limit: Ints) -> None:
    """Visit every node; raise InputError where a topology is in no leaf."""
    n, cases = len(choices), len(limit)
    best = np.array([each.max(axis=0) for each in worth])
    first = np.zeros((1, n, n), dtype=np.int64)
    root = _Nodes(first, first[0, :1], first[0, 0, :1], (constant + best.sum(axis=0))[None])
    if (root.most <= limit).any():
        return
    stack, work = [(0, root)], 0
    while stack:
        server, nodes = stack.pop()
        if server == n:
            links = ", ".join(f"{i} -> {j}" for i, j in np.argwhere(nodes.links[0]).tolist())
            raise InputError(f"tree over the links: no leaf for the topology {links} (servers by place in the order)")
        rows, gain = choices[server], worth[server] - best[server]
        step = max(1, _CELLS // (len(rows) * max(cases, n)))
        for start in range(0, len(nodes.lost), step):
            part = nodes.part(slice(start, start + step))
            at, row = np.nonzero(_fits(rules, server, part, rows))
            work += len(at) * cases
            if work > MOST_WORK:
                raise InputError("tree over the links: more nodes than can be looked at")
            most = part.most[at] + gain[row]
            inner = ~(most <= limit).any(axis=1)
            children = _chosen(rules, server, part.part(at[inner]), rows[row[inner]], most[inner])
            children = children.part(_possible(rules, server + 1, children))
            if len(children.lost):
                stack.append((server + 1, children))


def _lost(rules: _Rules, server: int, rows: Ints) -> Ints:
    """int64[o]: links of the network as it stands that choices of a server give up."""
    lost = np.maximum(rules.kept[server] - rows, 0)
    return np.asarray(lost[:, server + 1 if rules.both else 0 :].sum(axis=1))


def _fits(rules: _Rules, server: int, nodes: _Nodes, rows: Ints) -> Bools:
    """bool[c, o]: whether a choice fits the interfaces left at a node, and the links that must stay."""
    after = nodes.used[:, None, :] + rows[None]
    if rules.both:
        after[:, :, server] += rows.sum(axis=1)[None]
    fits = (after <= rules.degree).all(axis=2)
    return np.asarray(fits & (nodes.lost[:, None] + _lost(rules, server, rows)[None] <= rules.may_lose))


def _chosen(rules: _Rules, server: int, nodes: _Nodes, rows: Ints, most: Ints) -> _Nodes:
    """Every node with its choice."""
    links, used = nodes.links.copy(), nodes.used + rows
    links[:, server, :] += rows
    if rules.both:
        links[:, :, server] += rows
        used[:, server] += rows.sum(axis=1)
    return _Nodes(links, used, nodes.lost + _lost(rules, server, rows), most)


def _possible(rules: _Rules, chosen: int, nodes: _Nodes) -> Bools:
    """bool[c]: False where every topology of a node breaks the hop limit, or leaves room for an allowed link."""
    n = len(rules.allowed)
    done = np.zeros((n, n), dtype=np.bool_)
    done[:chosen] = True
    if rules.both:
        done[:, :chosen] = True
    open_pairs = rules.allowed & ~done
    # Interfaces that the first servers use are all known, those of others at most so many.
    most = nodes.used + rules.most * open_pairs.sum(axis=0)[None]
    sent = nodes.used if rules.both else nodes.links.sum(axis=2)
    room = rules.allowed[None, :chosen] & (nodes.links[:, :chosen] < rules.most)
    room &= (sent < rules.degree)[:, :chosen, None] & (most < rules.degree)[:, None, :]
    possible = ~room.any(axis=(1, 2))
    if rules.hops is not None and rules.hops < n - 1:
        near = (nodes.links > 0) | open_pairs[None] | np.eye(n, dtype=np.bool_)[None]
        reach = near
        for _ in range(rules.hops - 1):
            reach = reach @ near
        possible &= reach.all(axis=(1, 2))
    return np.asarray(possible)
