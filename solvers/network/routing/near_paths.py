"""Routings over paths that are nearly shortest by some lengths: few of all arcs for each source, by interior points.

Lengths that are nearly best show which arcs each source uses; the linear program over these gives the routing that
balances them, and better lengths, whose short paths join the program until the gap is closed.
"""

from __future__ import annotations

import numpy as np

from formulations.network.narrowed_flow import NarrowedFlow, build_arrays
from solvers.network.routing.linear import solved
from solvers.network.routing.proof import RoutingProof
from topoopt.core.arrays import Floats

_PART, _FINEST, _COARSEST = 0.1, 1e-10, 1e-3
"""Of the gap asked for, what a program may leave open; between these bounds."""

_ROUNDS = 10
_GAIN = 0.5
"""A gap that shrinks to no less than this in two rounds is left to another method."""


class NearPaths:
    """Arcs that each source may use, and the best routing over them."""

    def __init__(self, proof: RoutingProof, width: float, most: int) -> None:
        """`width`: of new paths, but the shortest; `most`: entries of servers with a choice, in a program."""
        self.proof, self.width, self.most = proof, width, most
        net = proof.network
        self.near = np.zeros((net.servers, len(net.head)), dtype=np.bool_)

    def widen(self, lengths: Floats, width: float) -> int:
        """Add arcs late by `width` at most, where sum c l = sum c; entries with a choice, or more than `most`."""
        return self.proof.router.mark_near(lengths, width, self.most, self.near)

    def improve(self, lengths: Floats) -> None:
        """Offer routings and lengths until proven, late, or slow, or the program is large."""
        proof, capacity = self.proof, self.proof.network.capacity
        gaps: list[float] = []
        for _ in range(_ROUNDS):
            prices = self._solve(lengths)
            if prices is None or proof.proven or proof.late:
                return
            gaps.append(1.0 - proof.bound / proof.value)
            if len(gaps) > 2 and gaps[-1] > _GAIN * gaps[-3]:
                return
            lengths = proof.lengths * (float(capacity.sum()) / float(capacity @ proof.lengths))
            wider = (lengths, self.width), ((lengths + prices) / 2, self.width), (prices, 0.0)
            if max(self.widen(*pair) for pair in wider) > self.most:
                return

    def _solve(self, lengths: Floats) -> Floats | None:
        """Offer the best routing over these arcs, and its lengths, which are returned in the scale of `lengths`."""
        proof, net = self.proof, self.proof.network
        flow = np.zeros(self.near.shape)
        source, into, start, entry, arc, need = proof.router.choices(self.near, flow)
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
