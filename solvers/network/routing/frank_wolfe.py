"""Block Frank-Wolfe on the softmax of link utilisations: small memory, any size."""

from __future__ import annotations

import numpy as np

from solvers.network.routing.proof import RoutingProof, largest_utilisation
from topoopt.core.arrays import Floats

_CLOSE = 1.5  # gap, in units of the error of the softmax, at which it is sharpened
_SPREAD = 2.0  # of the softness
_ROUND = 4  # sweeps between bounds
_SHARPEST = 1e-7


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
        total = np.zeros(len(net.head))
        sharpness = np.log(len(total)) / max(proof.bound, 1e-300)
        for count in range(1, sweeps + 1):
            sharp, spread = sharpness / self.softness, _SPREAD * self.softness
            mean = proof.router.sweep(net.capacity, self.flow, self.routed, sharp, spread)
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
