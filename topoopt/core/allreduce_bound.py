"""Proof of an upper bound on the rate of AllReduce on a network: sets of nodes with multipliers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from topoopt.core.shown import Shown


@dataclass(frozen=True)
class WeightedSet:
    """A set of nodes that does not hold all ranks, and its multiplier, above 0."""

    nodes: tuple[int, ...]
    weight: Fraction


@dataclass(frozen=True, repr=False)
class AllReduceProof(Shown):
    """Multipliers of the program of AllReduce over roots that are used unequally (linear-programming duality).

    What the ranks of a set broadcast must leave it: the copies out of it are at least what is rooted in it; what is
    reduced at the ranks of a set must enter it. With price p_e = max(sum of weights of the `broadcast` sets that e
    leaves + potential difference, the same for the `reduce` sets that e enters, 0), and every rank in sets of total
    weight >= c, all rates X obey  X <= sum_e units_e p_e / c.

    Attributes:
        broadcast, reduce: the sets.
        broadcast_potential, reduce_potential: of each node; 0 at ranks. A copy neither ends nor begins in a switch.
    """

    broadcast: tuple[WeightedSet, ...]
    reduce: tuple[WeightedSet, ...]
    broadcast_potential: tuple[Fraction, ...]
    reduce_potential: tuple[Fraction, ...]
