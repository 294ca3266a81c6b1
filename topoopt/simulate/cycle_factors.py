"""Hamiltonian cycles out of cycle factors, that is of links of which each server has two, one factor an interface pair.

Exchanging the alternating links of a square between two factors (u-v and w-x of one, v-w and u-x of the other) keeps
every server at two links of each, and joins cycles; repeated, all of them become Hamiltonian. That this can succeed is
known for two factors of a connected Cayley graph of an abelian group (Bermond, Favaron, Maheo 1989), so for circulants
and 2-D tori, and for tori of any dimension (Aubert and Schneider 1982); the general case is Alspach's conjecture.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.native import graph

TRIES_PER_SERVER = 400
SEEDS = range(1, 4)


def joined_cycles(factors: Ints, *, seed: int = 1) -> tuple[tuple[int, ...], ...] | None:
    """One Hamiltonian cycle for each factor, together over the same links; None when not found.

    Args:
        factors: int64[m, n, 2], the two neighbours of each server in each factor (twice the same for parallel links).
        seed: of the search.
    """
    cycles = graph.join_cycles(factors, factors.shape[1] * TRIES_PER_SERVER, seed)
    return None if cycles is None else tuple(map(tuple, cycles.tolist()))


def most_cycles(factors: Ints) -> tuple[tuple[int, ...], ...]:
    """Hamiltonian cycles over the links of all factors, else of all but one; none where neither is found.

    Not all can be used always: on a prism over an odd cycle with doubled rungs each of two cycles would cross each rung
    once, and so end on the wrong side.
    """
    fewer = [np.delete(factors, place, axis=0) for place in range(len(factors)) if len(factors) > 1]
    for chosen in (factors, *fewer):
        for seed in SEEDS:
            found = joined_cycles(chosen, seed=seed)
            if found is not None:
                return found
    return ()
