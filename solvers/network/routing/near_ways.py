"""Routings over ways that are nearly shortest by some lengths: few of all arcs for each source, by interior points.

Lengths that are nearly best show which arcs each source uses; the linear program over these gives the routing that
balances them, and better lengths, whose short ways join the program until the gap is closed.
"""

from __future__ import annotations

import numpy as np

from formulations.network.narrowed_flow import NarrowedFlow, build_arrays
from solvers.network.routing.linear import solved
from solvers.network.routing.proof import RoutingProof
from solvers.network.routing.shortest import arcs_into, shortest_tree
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.simulate.jit import kernel, piece

_PART, _FINEST, _COARSEST = 0.1, 1e-10, 1e-3
"""Of the gap asked for, what a program may leave open; between these bounds."""

_ROUNDS = 10
_GAIN = 0.5
"""A gap that shrinks to no less than this in two rounds is left to another method."""


@piece
def ends_of(s: int, demand: Floats, needed: Bools, stack: Ints) -> int:
    """Mark the servers that s sends to, and s; all but s begin the stack, and their number is returned."""
    top = 0
    for v in range(len(demand)):
        needed[v] = demand[v] > 0.0 or v == s
        if needed[v] and v != s:
            stack[top] = v
            top += 1
    return top


@kernel
def mark_near(
    first: Ints, tail: Ints, head: Ints, into: Ints, arc_in: Ints, length: Floats, demand: Floats, orders: Ints,
    width: float, most: int, near: Bools,
) -> int:  # fmt: skip
    """Mark the arcs of ways to demand on which each arc leads away from the source and is late by `width` at most.

    Args:
        into, arc_in: int64[n+1], int64[m], arcs by head.
        length: float64[m], not negative.
        orders: int64[n, n], changed: servers sorted by distance from each source.
        near: bool[n, m], added to.

    Returns:
        Arcs by source into servers with more than one; it ends where there are more than `most`.
    """
    n = len(demand)
    place, parent, distance = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n)
    needed, stack = np.empty(n, dtype=np.bool_), np.empty(n, dtype=np.int64)
    total = 0
    for s in range(n):
        if demand[s].sum() == 0.0:
            continue
        shortest_tree(first, head, length, s, orders[s], place, distance, parent)
        top = ends_of(s, demand[s], needed, stack)
        while top > 0:
            top -= 1
            v = stack[top]
            count = 0
            for i in range(into[v], into[v + 1]):
                a = arc_in[i]
                u = tail[a]
                if a == parent[v] or (distance[u] < distance[v] and distance[u] + length[a] - distance[v] <= width):
                    near[s, a] = True
                    if not needed[u]:
                        needed[u] = True
                        stack[top] = u
                        top += 1
                count += near[s, a]
            total += count if count > 1 else 0
        if total > most:
            break
    return total


@kernel
def choices(
    tail: Ints, into: Ints, arc_in: Ints, demand: Floats, near: Bools, flow: Floats
) -> tuple[Ints, Ints, Ints, Ints, Ints, Floats]:
    """What is open where each source uses its marked arcs only: `NarrowedFlow`, with the source of each entry.

    Args:
        near: bool[n, m], of `mark_near`, which leaves no circle of servers that are entered over one arc each.
        flow: float64[n, m] of 0, set to what chains from the source carry for certain.

    Returns:
        source, into, start: int64[E]; entry, arc of chains: int64[k] each; need, float64[R].
    """
    n = len(demand)
    source, entered, start = [0 for _ in range(0)], [0 for _ in range(0)], [0 for _ in range(0)]
    entry, arc, need = [0 for _ in range(0)], [0 for _ in range(0)], [0.0 for _ in range(0)]
    count, only, row = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    needed, stack = np.empty(n, dtype=np.bool_), np.empty(n, dtype=np.int64)
    for s in range(n):
        if demand[s].sum() == 0.0:
            continue
        count[:], row[:] = 0, -1
        top = ends_of(s, demand[s], needed, stack)
        while top > 0:
            top -= 1
            v = stack[top]
            for i in range(into[v], into[v + 1]):
                a = arc_in[i]
                if near[s, a]:
                    count[v] += 1
                    only[v] = a
                    if not needed[tail[a]]:
                        needed[tail[a]] = True
                        stack[top] = tail[a]
                        top += 1
            if count[v] > 1:
                row[v] = len(need)
                need.append(0.0)
        for v in range(n):
            if demand[s, v] > 0.0 and v != s:
                u = v
                while count[u] == 1:
                    flow[s, only[u]] += demand[s, v]
                    u = tail[only[u]]
                if u != s:
                    need[row[u]] += demand[s, v]
        for v in range(n):
            if row[v] < 0:
                continue
            for i in range(into[v], into[v + 1]):
                a = arc_in[i]
                if near[s, a]:
                    e = len(source)
                    entry.append(e)
                    arc.append(a)
                    u = tail[a]
                    while count[u] == 1:
                        entry.append(e)
                        arc.append(only[u])
                        u = tail[only[u]]
                    source.append(s)
                    entered.append(row[v])
                    start.append(row[u])
    return np.array(source), np.array(entered), np.array(start), np.array(entry), np.array(arc), np.array(need)


class NearWays:
    """Arcs that each source may use, and the best routing over them."""

    def __init__(self, proof: RoutingProof, width: float, most: int) -> None:
        """`width`: of new ways, but the shortest; `most`: entries of servers with a choice, in a program."""
        self.proof, self.width, self.most = proof, width, most
        net = proof.network
        self.near = np.zeros((net.servers, len(net.head)), dtype=np.bool_)
        self.into, self.arc_in = arcs_into(net.head, net.servers)

    def widen(self, lengths: Floats, width: float) -> int:
        """Add arcs late by `width` at most, where sum c l = sum c; entries with a choice, or more than `most`."""
        net = self.proof.network
        return int(
            mark_near(
                net.first, net.tail, net.head, self.into, self.arc_in, lengths, net.demand, self.proof.orders,
                width, self.most, self.near,
            )
        )  # fmt: skip

    def improve(self, lengths: Floats) -> None:
        """Offer routings and lengths until proven, late, or slow, or the program is large."""
        proof, capacity = self.proof, self.proof.network.capacity
        gaps: list[float] = []
        for _ in range(_ROUNDS):
            found = self._solve(lengths)
            if found is None or proof.proven or proof.late:
                return
            gaps.append(1.0 - proof.bound / proof.value)
            if len(gaps) > 2 and gaps[-1] > _GAIN * gaps[-3]:
                return
            lengths = proof.lengths * (float(capacity.sum()) / float(capacity @ proof.lengths))
            wider = (lengths, self.width), ((lengths + found) / 2, self.width), (found, 0.0)
            if max(self.widen(*each) for each in wider) > self.most:
                return

    def _solve(self, lengths: Floats) -> Floats | None:
        """Offer the best routing over these arcs, and its lengths, which are returned in the scale of `lengths`."""
        proof, net = self.proof, self.proof.network
        flow = np.zeros(self.near.shape)
        source, into, start, entry, arc, need = choices(net.tail, self.into, self.arc_in, net.demand, self.near, flow)
        unit = proof.bound
        data = NarrowedFlow(need / unit, into, start, entry, arc, flow.sum(axis=0) / unit, net.capacity)
        tolerance = min(max(_PART * proof.accuracy, _FINEST), _COARSEST)
        answer = solved(proof, "highs-ipx", build_arrays(data), {"ipm_optimality_tolerance": tolerance})
        if answer.raw_x is None or answer.row_dual is None:
            return None
        amount = np.maximum(answer.raw_x[:-1], 0.0) * unit
        np.add.at(flow, (source[entry], arc), amount[entry])
        proof.offer_rough_flow(flow, lengths)
        rent = np.abs(answer.row_dual[len(need) :]) / net.capacity
        price = float(rent @ net.capacity)
        if not 0.0 < price < np.inf:
            return None
        rent *= float(net.capacity.sum()) / price
        for part in (1.0, 0.5):
            proof.offer_lengths(part * rent + (1.0 - part) * lengths)
        return rent
