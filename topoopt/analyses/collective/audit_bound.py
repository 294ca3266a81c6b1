"""The best rate of any schedule of a collective on a network, with the cut in words."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from solvers.collective.limits import limiting
from solvers.stop import Stop
from topoopt.core.collective import CollectiveOp, CollectiveProblem
from topoopt.core.rated_network import RatedNetwork
from topoopt.kinds.collective.figures import cut_facts
from topoopt.verify.collective import bandwidth_us


@dataclass(frozen=True)
class RateBound:
    """GB/s of the whole vector that no schedule exceeds, the nodes of the limiting set, and why."""

    rate: Fraction
    cut: tuple[str, ...]
    words: str

    def document(self, vector_bytes: float | None) -> dict[str, Any]:
        """For programs."""
        return {
            "algbw_gbytes_per_s": float(self.rate),
            "time_us": None if vector_bytes is None else vector_bytes / float(self.rate) / 1e3,
            "cut": list(self.cut),
            "cut_in_words": self.words,
        }


def rate_bound(
    collective: CollectiveOp, network: RatedNetwork, root: int, stop: Stop, *, multicast: bool = False
) -> RateBound:
    """The bound of each collective, re-derived from its proof in rationals.

    Args:
        multicast: whether switches copy, which may help an AllReduce.
    """
    problem = CollectiveProblem("bound", network, collective, 10**9, root, multicast=multicast)
    certificates = limiting(problem, stop)
    rate = Fraction(10**6) / bandwidth_us(problem, certificates)
    if collective is CollectiveOp.ALL_TO_ALL:
        pair = float(rate) / len(network.ranks)
        words = f"every ordered pair gets {pair:.6g} GB/s at most: rates of links over distances of pairs"
        return RateBound(rate, (), words)
    turned = collective in (CollectiveOp.REDUCE_SCATTER, CollectiveOp.REDUCE)
    cut = certificates[-1]["nodes"].tolist()
    words = cut_facts(network.transposed() if turned else network, cut).sentence(network)
    if turned:
        words = words.replace(" enter ", " leave ", 1)
    return RateBound(rate, tuple(network.names[node] for node in cut), words)
