"""Trees for AllReduce whose roots are used unequally, from the shares that linear programming finds."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from solvers.collective.allreduce import AllReduceRate
from solvers.collective.forest import TreePacking, carries, forest
from topoopt.core.arrays import Floats, Ints
from topoopt.core.rated_network import RatedNetwork

ENOUGH = 1e-9
"""Part of the rate that may be lost by rounding to whole trees before finer trees are tried."""

MOST_PER_UNIT = 64
"""Trees for a unit of the network that are tried."""


@dataclass(frozen=True)
class RootedTrees:
    """Trees up (on the transposed network) and down, as many of both from every rank.

    Attributes:
        units: rate of the vector that they reach, in units of the network, where both are in use at once.
    """

    reductions: TreePacking
    broadcasts: TreePacking
    units: Fraction


def rooted_trees(network: RatedNetwork, rate: AllReduceRate) -> RootedTrees | None:
    """Whole trees that come closest to the shares; None where none fit, or switches would lose their balance."""
    if network.is_switch.any():
        return None
    turned = np.lexsort((network.arcs[:, 0], network.arcs[:, 1]))
    reverse = network.transposed()
    best: tuple[Fraction, int, dict[int, int]] | None = None
    for per_unit in range(1, MOST_PER_UNIT + 1):
        whole = _floor(rate.roots * per_unit)
        reached = Fraction(int(whole.sum()), per_unit)
        if best is not None and reached <= best[0]:
            continue
        trees = dict(zip(network.ranks.tolist(), whole.tolist(), strict=True))
        down, up = _floor(rate.broadcast * per_unit), _floor(rate.reduce * per_unit)[turned]
        if reached > 0 and carries(network, down, trees) and carries(reverse, up, trees):
            best = reached, per_unit, trees
            if float(reached) >= rate.units * (1 - ENOUGH):
                break
    if best is None:
        return None
    reached, per_unit, trees = best
    down, up = _floor(rate.broadcast * per_unit), _floor(rate.reduce * per_unit)[turned]
    return RootedTrees(forest(reverse, up, trees), forest(network, down, trees), reached)


def _floor(values: Floats) -> Ints:
    """Rounded down, but for what rounding of the solver took off."""
    return np.floor(values + 1e-7).astype(np.int64)
