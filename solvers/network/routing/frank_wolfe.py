"""Block Frank-Wolfe on the softmax of link utilisations: small memory, any size."""

from __future__ import annotations

import numpy as np

from solvers.network.routing.proof import RoutingProof, largest_utilisation
from solvers.network.routing.shortest import arcs_into, shortest_tree
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.simulate.jit import kernel

_CLOSE = 1.5  # gap, in units of the error of the softmax, at which it is sharpened
_SPREAD = 2.0  # of the softness
_ROUND = 4  # sweeps between bounds
_REFRESH = 16  # sources between exact recomputations of the lengths
_FLOOR = 1e-12  # keeps lengths positive where loads are low
_SHARPEST = 1e-7


@kernel
def sweep(
    first: Ints,
    tail: Ints,
    head: Ints,
    capacity: Floats,
    demand: Floats,
    orders: Ints,
    flow: Floats,
    sharpness: float,
    routed: Bools,
    spread: float,
    mean_length: Floats,
) -> None:
    """Move every source in turn towards a routing over short paths, by a step that lowers the softmax.

    Into each server, traffic of the new routing comes over all arcs on paths from the source that get nearer to it all
    the way, weighted by exp(-excess length / width), width being `spread` times the farthest distance: single trees
    zigzag where paths tie. `flow` (float64[n, m]) is changed; `routed[s]` tells whether source s has a flow yet (else
    the new routing becomes it); `mean_length` gets lengths seen during the sweep, summed, each with sum c l = 1.
    """
    n, m = demand.shape[0], len(head)
    place, parent, distance = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n)
    load, length, change, need = np.zeros(m), np.empty(m), np.empty(m), np.empty(n)
    pull = sharpness / capacity
    weight = np.empty(m)
    into, arc_in = arcs_into(head, n)
    for s in range(n):
        for a in range(m):
            load[a] += flow[s, a]
    for a in range(m):
        mean_length[a] = 0.0
    stale = _REFRESH
    for s in range(n):
        amount = 0.0
        for v in range(n):
            amount += demand[s, v]
        if amount == 0.0:
            continue
        stale += 1
        if stale > _REFRESH or not routed[s]:
            stale = 0
            top = 0.0
            for a in range(m):
                top = max(top, load[a] / capacity[a])
            total = 0.0
            for a in range(m):
                value = np.exp(sharpness * (load[a] / capacity[a] - top))
                length[a] = value / capacity[a] + _FLOOR
                total += value
            for a in range(m):
                mean_length[a] += length[a] / total
        shortest_tree(first, head, length, s, orders[s], place, distance, parent)
        old = flow[s]
        for v in range(n):
            need[v] = demand[s, v]
        need[s] = 0.0
        change[:] = 0.0
        width = spread * distance[orders[s, n - 1]]
        for k in range(n - 1, 0, -1):
            v = orders[s, k]
            if need[v] == 0.0:
                continue
            total = 0.0
            for i in range(into[v], into[v + 1]):
                a = arc_in[i]
                late = distance[tail[a]] + length[a] - distance[v]
                weight[i] = np.exp(-late / width) if distance[tail[a]] < distance[v] and late < 8.0 * width else 0.0
                total += weight[i]
            for i in range(into[v], into[v + 1]):
                if weight[i] > 0.0:
                    a = arc_in[i]
                    part = need[v] * (weight[i] / total)
                    change[a] += part
                    need[tail[a]] += part
        for a in range(m):
            change[a] -= old[a]
        if not routed[s]:
            routed[s] = True
            for a in range(m):
                old[a] += change[a]
                load[a] += change[a]
            continue
        # The slope of the softmax is negative at step 0 and its bend grows by exp(0.5) at most within the widest step
        # allowed, so that a step of -slope / (1.65 bend) cannot pass the minimum.
        slope, bend, widest = 0.0, 0.0, 0.0
        for a in range(m):
            move = change[a] * length[a]
            turn = change[a] * pull[a]
            slope += move
            bend += move * turn
            widest = max(widest, turn)
        if slope >= 0.0:
            continue
        step = min(1.0, 0.5 / widest, -slope / (1.65 * bend))
        for a in range(m):
            by = step * change[a]
            old[a] = max(old[a] + by, 0.0)
            load[a] += by
            x = max(by * pull[a], -0.5)  # exp by its series: exact again at the next refresh
            length[a] *= 1.0 + x * (1.0 + x * (0.5 + x * (1.0 / 6.0)))


class Potential:
    """The state of the method: a flow, and how sharply the softmax follows the maximum."""

    def __init__(self, proof: RoutingProof, flow: Floats | None = None) -> None:
        """Start from a flow that conserves (it is changed), or from none."""
        n, m = proof.network.servers, len(proof.network.head)
        self.proof = proof
        self.flow = np.zeros((n, m)) if flow is None else flow
        self.routed = np.full(n, flow is not None)
        self.softness = 0.2 if flow is None else max(1e-4, (proof.value - proof.bound) / proof.value)

    def improve(self, sweeps: int) -> int:
        """Sweep until the gap is small, time is up, nothing moves, or so many sweeps were made; returns how many."""
        proof, net = self.proof, self.proof.network
        m = len(net.head)
        mean, total = np.empty(m), np.zeros(m)
        sharpness = np.log(m) / max(proof.bound, 1e-300)
        for count in range(1, sweeps + 1):
            sweep(
                net.first, net.tail, net.head, net.capacity, net.demand, proof.orders,
                self.flow, sharpness / self.softness, self.routed,
                _SPREAD * self.softness, mean,
            )  # fmt: skip
            total += mean
            before = proof.value
            theta = largest_utilisation(net, self.flow)
            if theta < before:
                proof.offer_flow(self.flow.copy())
            if count % _ROUND == 0:
                bound = max(proof.offer_lengths(mean), proof.offer_lengths(total))
                total[:] = 0.0
                # the softmax may be wrong by `softness`: sharpen once the gap is about as small
                if theta - bound <= _CLOSE * self.softness * theta:
                    self.softness = max(self.softness * 0.5, _SHARPEST)
            if proof.proven or proof.late:
                break
        return count


def frank_wolfe(proof: RoutingProof) -> int:
    """Sweeps until proven or late; returns their number."""
    return Potential(proof).improve(sweeps=2000)
