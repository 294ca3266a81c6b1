"""Evaluate a proof of a bound on theta over all topologies of degree 2 by the links around every server.

For directed links that may be parallel and no further constraint: then some best topology has two links into and two
out of every server. (A free sender and a free receiver can be joined; where both are one server i, a link a -> b
elsewhere becomes a -> i, i -> b and carries what it carried.) At a node of the tree some servers have chosen their
links out.

Prices c >= 0 of links, reliefs s >= 0 of pairs and shifts m prove this of a routing of utilisation at most Theta on a
topology of the node. Let t_ij be the least price of three links or more between i and j, links that the node rules out
as long as `bar`. With f1 the flow of a pair over one link, f2_k over i -> k -> j, the load of all links is, by prices,

    Theta sum c x >= sum D t - sum (t - c_ij) f1_ij - sum (t - c_ik - c_kj) f2_ikj,    sum s D >= sum s (f1 + sum_k f2).

f1 is at most min(D, Theta) over a first link and min((D - Theta)^+, Theta) more over a second; f2_ikj at most D_ij and
Theta, twice that where both its links are double. Put g = (t - c - s)^+ and w_ikj = (t - s_ij - c_ik - c_kj)^+ times
the most of f2_ikj. A first link is worth Theta c + g min(D, Theta), a second Theta c + g min((D - Theta)^+, Theta);
half counts at each end, and m moves some of a first link's from tail to head. So

    sum D (t - s) <= sum_k max over the choices of links into k and out of k that the node leaves
                     of the halves of these links and of w_ikj between them,

or no topology of the node has theta below Theta; for a smaller Theta all worths together are smaller. Where a server
divides the node, the same is looked at for each choice of its links: a choice leads into the blocks of two others, and
into no more. Choices that are not closed so must stand in the file as nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.block_tree import DEGREE, LARGEST, MOST_NODES, BlockTree
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.leaving import end_if_left
from topoopt.core.network import TopologyProblem

ROUNDING = 1e-10
"""Part of the sums compared that rounding may take."""

MOST_SERVERS = 12
_BATCH = 100


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Some nodes: bool[b, n, q] choices of links in and out left to each server, bool[b, n, n] links ruled out."""

    ins: Bools
    outs: Bools
    absent: Bools


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
        children[int(proof.parent[node])].add(_number(pairs, proof.heads[node]))
    for start in range(0, len(rows), _BATCH):
        end_if_left()
        part = slice(start, start + _BATCH)
        nodes = _left(rows[part], pairs)
        closed, divided = _closed(demand / unit, proof.theta / unit, proof, part, nodes, pairs)
        for at, node in enumerate(range(len(rows))[part]):
            server = int(proof.server[node])
            if server < 0:
                if not closed[at]:
                    raise InputError(f"tree of blocks: node {node} is not closed")
                continue
            open_choices = set(np.flatnonzero(nodes.outs[at, server] & ~divided[at]).tolist())
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
    faults = {
        f"{n} servers, 4 to {MOST_SERVERS} expected": not 4 <= n <= MOST_SERVERS,
        f"{count} nodes, 1 to {MOST_NODES} expected": not 1 <= count <= MOST_NODES,
        "numbers of the wrong shape": any(each.shape != (count,) for each in rows)
        or any(each.shape != (count, n, n) for each in tables)
        or proof.heads.shape != (count, DEGREE),
        "theta must be positive and finite": not 0.0 < proof.theta < np.inf,
    }
    wrong = [text for text, here in faults.items() if here]
    if not wrong:
        faults = {
            "the root must be first, and a parent before its children": bool(
                proof.parent[0] != -1 or (proof.parent[1:] < 0).any() or (proof.parent >= before).any()
            ),
            "servers that do not exist": bool((proof.server < -1).any() or (proof.server >= n).any())
            or bool((proof.heads[1:] < 0).any() or (proof.heads >= n).any()),
            "a negative price, relief or bar": any(bool((t < 0).any()) for t in (proof.price, proof.relief, proof.bar)),
            f"a number above {LARGEST}": any(bool((np.abs(t) > LARGEST).any()) for t in (*tables, proof.bar)),
        }
        wrong = [text for text, here in faults.items() if here]
    if wrong:
        raise InputError(f"tree of blocks: {'; '.join(wrong)}")


def _rows(proof: BlockTree, n: int) -> Ints:
    """int64[k, n, 2]: heads that each server has chosen at every node, -1 where none.

    Raises:
        InputError: a server divides a node twice on the way to it, or one that is closed.
    """
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


def _number(pairs: Ints, heads: Ints) -> int:
    return int(np.flatnonzero((pairs == np.sort(heads)).all(axis=1))[0])


def _left(rows: Ints, pairs: Ints) -> _Nodes:
    """What the nodes with these choices leave."""
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
    known = sent.transpose(0, 2, 1)[:, :, None, :] <= of_pair
    extra = (of_pair > sent.transpose(0, 2, 1)[:, :, None, :]) & chosen[:, None, None, :]
    ins = known.all(axis=3) & ~extra.any(axis=3) & apart
    room = (received[:, None, :] + of_pair[None] <= DEGREE).all(axis=2)
    own = (sent[:, :, None, :] == of_pair).all(axis=3)
    outs = np.where(chosen[:, :, None], own, room[:, None, :]) & apart
    full = received >= DEGREE
    absent = np.where(chosen[:, :, None], sent == 0, full[:, None, :]) | np.eye(n, dtype=np.bool_)
    return _Nodes(ins, outs, absent)


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
    demand: Floats, theta: float, proof: BlockTree, part: slice, nodes: _Nodes, pairs: Ints
) -> tuple[Bools, Bools]:
    """bool[b]: nodes that their prices close; bool[b, q]: choices of the dividing server that they close."""
    n, (first, second) = len(demand), pairs.T
    price, relief, shift = (t[part].astype(np.float64) for t in (proof.price, proof.relief, proof.shift))
    price = np.where(nodes.absent, proof.bar[part].astype(np.float64)[:, None, None], price)
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
        one, two = saved * np.minimum(demand, theta), saved * np.minimum(demand, 2 * theta)
        by_tails = one[:, first] + np.where(double[:, None], 0.0, one[:, second])
        between = by_tails[:, :, first] + np.where(double, 0.0, by_tails[:, :, second])
        single = np.flatnonzero(double)
        corner = np.ix_(at, single, single)
        between[corner] = two[np.ix_(at, first[single], first[single])]
        worth = np.where(nodes.ins[:, k, :, None] & nodes.outs[:, k, None, :], 0.0, -np.inf)
        worth += tails[:, :, None] + heads[:, None, :] + between
        by_in, by_out = worth.max(axis=2), worth.max(axis=1)
        total += by_in.max(axis=1)
        size += np.where(np.isfinite(by_in), np.abs(by_in), 0.0).max(axis=1)
        # By how many links of the dividing server lead into k.
        links = of_pair[:, server].T
        times = np.array([np.where(links == r, by_in, -np.inf).max(axis=1) for r in range(DEGREE + 1)])
        chosen = times[of_pair[:, k], :].T
        split += np.where((server == k)[:, None], by_out, chosen)
    margin = ROUNDING * size
    return owed - total > margin, owed[:, None] - split > margin[:, None]
