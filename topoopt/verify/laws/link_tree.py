"""Visit the nodes of a tree over the links of servers, and see that every leaf is closed: no solver, whole numbers.

Lengths l >= 0 of ordered pairs of servers and prices v >= 0 of interfaces bound the length of all links x_ij together,
since a server has at most d interfaces:

    unidirectional   sum l_ij x_ij <= sum (l_ij - v_j) x_ij + d sum v,  as at most d links lead into a server,
    bidirectional    sum_{i < j} (l_ij + l_ji) x_ij <= sum_{i < j} (l_ij + l_ji - v_i - v_j) x_ij + d sum v,

by a sum over servers i, each of which has its choice of links. At a node of the tree the first servers have chosen; for
all others the best choice each is taken. What some length of all links together excludes is for the caller to say: a
table of limits for each of the multipliers and each of the cases that must be excluded. The node is a leaf where every
case has multipliers that stay within their limit. What they prove there is a little more than what is claimed; the
least of all leaves is what the proof is worth, so that a claim below it is found out as well.

A topology to which an allowed link can be added is left out: with that link it carries as much, and it still meets a
hop limit and keeps as many links of the network as it stands. Left out, too, is what the rules forbid: a hop limit out
of reach even with all links not chosen yet, too many links of the network as it stands given up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.errors import InputError
from topoopt.core.network import LARGEST_MULTIPLIER, MOST_CASES, MOST_CHOICES, MOST_WORK, LinkTree

_CELLS = 4_000_000
"""Numbers of one step: nodes times multipliers times cases."""


@dataclass(frozen=True, eq=False)
class LinkRules:
    """What is allowed, servers renamed by their place in the order.

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
class LeafCases:
    """What leaves must show, of each of some cases.

    Attributes:
        limit: int64[k, y], length of all links up to which multipliers exclude a case.
        least: float64[y], and carried: float64[k, y]: they prove least + carried / length of the links.
    """

    limit: Ints
    least: Floats
    carried: Floats

    def closed(self, longest: Ints) -> Bools:
        """bool[c]: nodes, int64[c, k] by the length of their links at most, all cases of which are excluded."""
        excluded = np.asarray((longest[:, :, None] <= self.limit[None]).any(axis=1))
        return np.asarray(excluded.all(axis=1))

    def proven(self, longest: Ints) -> float:
        """The least that is proven at any of these nodes; infinite where there is none."""
        links = np.maximum(longest, 1)[:, :, None]
        best = (self.carried[None] / links).max(axis=1) + self.least[None]
        return float(best.min(initial=np.inf))


Nodes = tuple[Ints, Ints, Ints, Ints]
"""Nodes of one depth: int64[c, n, n] links chosen, int64[c, n] interfaces used, int64[c] links given up, int64[c, k]
bounds on the left side."""


def _part(nodes: Nodes, which: slice | Ints | Bools) -> Nodes:
    links, used, lost, most = nodes
    return links[which], used[which], lost[which], most[which]


def parts_of(proof: LinkTree, servers: int) -> tuple[tuple[Ints, ...], Ints, Ints]:
    """Index that renames servers by their place in the order, int64[k, n, n] lengths and int64[k, n] prices, renamed.

    Raises:
        InputError: the proof is malformed.
    """
    n, count = servers, len(proof.multipliers)
    issues = {
        f"{count} multipliers, 1 to {MOST_CASES} expected": not 1 <= count <= MOST_CASES,
        "multipliers of the wrong shape": proof.multipliers.shape != (count, n, n),
        "an order that does not have every server once": sorted(proof.order.tolist()) != list(range(n)),
    }
    wrong = [text for text, here in issues.items() if here]
    if not wrong and ((proof.multipliers < 0) | (proof.multipliers > LARGEST_MULTIPLIER)).any():
        wrong = [f"multipliers below 0 or above {LARGEST_MULTIPLIER}"]
    if wrong:
        raise InputError(f"tree over the links: {'; '.join(wrong)}")
    by_order = np.ix_(proof.order, proof.order)
    lengths = proof.multipliers[:, by_order[0], by_order[1]]
    prices = np.einsum("kii->ki", lengths).copy()
    np.einsum("kii->ki", lengths)[:] = 0
    return by_order, lengths, prices


def distances(lengths: Ints) -> Ints:
    """int64[k, n, n]: shortest distances by lengths of all ordered pairs."""
    distance = lengths.copy()
    for server in range(lengths.shape[1]):
        np.minimum(distance, distance[:, :, server, None] + distance[:, None, server, :], out=distance)
    return distance


def longest(rules: LinkRules, lengths: Ints, prices: Ints) -> Ints:
    """int64[k]: length of the links of any topology at most."""
    gains = _gains(rules, lengths, prices, _every_choice(rules, len(lengths)))
    return np.asarray(rules.degree * prices.sum(axis=1) + sum(values.max(axis=0) for values in gains))


def proven_by_leaves(rules: LinkRules, lengths: Ints, prices: Ints, cases: LeafCases) -> float:
    """Visit every node, one that is not closed is divided by the choices of the next server; the least of all leaves.

    Raises:
        InputError: a topology is in no leaf, or there are too many choices or nodes.
    """
    choices = _every_choice(rules, len(lengths))
    return _walk(rules, choices, _gains(rules, lengths, prices, choices), rules.degree * prices.sum(axis=1), cases)


def _gains(rules: LinkRules, lengths: Ints, prices: Ints, choices: list[Ints]) -> list[Ints]:
    """Of every server int64[o, k]: length of the links of a choice, less the prices of their interfaces."""
    value = lengths if not rules.both else lengths + lengths.transpose(0, 2, 1) - prices[:, :, None]
    value = value - prices[:, None, :]
    return [rows @ value[:, server, :].T for server, rows in enumerate(choices)]


def _every_choice(rules: LinkRules, multipliers: int) -> list[Ints]:
    choices = [_choices(rules, server) for server in range(len(rules.allowed))]
    if sum(len(rows) for rows in choices) * multipliers > MOST_CHOICES:
        raise InputError("tree over the links: too many choices of links")
    return choices


def _choices(rules: LinkRules, server: int) -> Ints:
    rows, first = np.zeros((1, len(rules.allowed)), dtype=np.int64), server + 1 if rules.both else 0
    for head in first + np.flatnonzero(rules.allowed[server, first:]):
        longer = [rows]
        for links in range(1, rules.most + 1):
            more = rows[rows.sum(axis=1) + links <= rules.degree].copy()
            more[:, head] = links
            longer.append(more)
        rows = np.concatenate(longer)
        if rows.size > MOST_CHOICES:
            raise InputError("tree over the links: too many choices of links")
    return rows


def _walk(rules: LinkRules, choices: list[Ints], gains: list[Ints], constant: Ints, cases: LeafCases) -> float:
    """The least of all leaves; raises InputError where a topology is in none."""
    n, cells = len(choices), max(cases.limit.size, len(choices))
    most_at_once = max(1, _CELLS // cells)
    best = np.array([values.max(axis=0) for values in gains])
    first = np.zeros((1, n, n), dtype=np.int64)
    at_root = (constant + best.sum(axis=0))[None]
    if cases.closed(at_root).all():
        return cases.proven(at_root)
    root: Nodes = (first, first[0, :1], first[0, 0, :1], at_root)
    stack, work, proven = [(0, root)], 0, np.inf
    while stack:
        server, nodes = stack.pop()
        if server == n:
            links = ", ".join(f"{i} -> {j}" for i, j in np.argwhere(nodes[0][0]).tolist())
            raise InputError(f"tree over the links: no leaf for the topology {links} (servers by place in the order)")
        rows, gain = choices[server], gains[server] - best[server]
        step = max(1, _CELLS // (len(rows) * cells))
        for start in range(0, len(nodes[0]), step):
            part = _part(nodes, slice(start, start + step))
            at, row = np.nonzero(_fits(rules, server, part, rows))
            work += len(at) * cases.limit.size
            if work > MOST_WORK:
                raise InputError("tree over the links: more nodes than can be looked at")
            for some in (slice(first, first + most_at_once) for first in range(0, len(at), most_at_once)):
                most = part[3][at[some]] + gain[row[some]]
                closed = cases.closed(most)
                proven = min(proven, cases.proven(most[closed]))
                chosen = rows[row[some][~closed]]
                children = _chosen(rules, server, _part(part, at[some][~closed]), chosen, most[~closed])
                children = _part(children, _possible(rules, server + 1, children))
                if len(children[0]):
                    stack.append((server + 1, children))
    return proven


def _lost(rules: LinkRules, server: int, rows: Ints) -> Ints:
    """int64[o]: links of the network as it stands that choices of a server give up."""
    lost = np.maximum(rules.kept[server] - rows, 0)
    return np.asarray(lost[:, server + 1 if rules.both else 0 :].sum(axis=1))


def _fits(rules: LinkRules, server: int, nodes: Nodes, rows: Ints) -> Bools:
    """bool[c, o]: whether a choice fits the interfaces left at a node, and the links that must stay."""
    _, used, lost, _ = nodes
    after = used[:, None, :] + rows[None]
    if rules.both:
        after[:, :, server] += rows.sum(axis=1)[None]
    fits = (after <= rules.degree).all(axis=2)
    return np.asarray(fits & (lost[:, None] + _lost(rules, server, rows)[None] <= rules.may_lose))


def _chosen(rules: LinkRules, server: int, nodes: Nodes, rows: Ints, most: Ints) -> Nodes:
    links, used = nodes[0].copy(), nodes[1] + rows
    links[:, server, :] += rows
    if rules.both:
        links[:, :, server] += rows
        used[:, server] += rows.sum(axis=1)
    return links, used, nodes[2] + _lost(rules, server, rows), most


def _possible(rules: LinkRules, chosen: int, nodes: Nodes) -> Bools:
    """bool[c]: False where every topology of a node breaks the hop limit, or leaves room for an allowed link."""
    n, (links, used, _, _) = len(rules.allowed), nodes
    done = np.zeros((n, n), dtype=np.bool_)
    done[:chosen] = True
    if rules.both:
        done[:, :chosen] = True
    open_pairs = rules.allowed & ~done
    # Interfaces that the first servers use are all known, those of others at most so many.
    most = used + rules.most * open_pairs.sum(axis=0)[None]
    sent = used if rules.both else links.sum(axis=2)
    addable = rules.allowed[None, :chosen] & (links[:, :chosen] < rules.most)
    addable &= (sent < rules.degree)[:, :chosen, None] & (most < rules.degree)[:, None, :]
    possible = ~addable.any(axis=(1, 2))
    if rules.hops is not None:
        near = (links > 0) | open_pairs[None] | np.eye(n, dtype=np.bool_)[None]
        reach = near
        for _ in range(min(rules.hops, n - 1) - 1):
            reach = reach @ near
        possible &= reach.all(axis=(1, 2))
    return np.asarray(possible)
