"""Whether even and odd servers may be exchanged: all tables of the laws stay as they are."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.verify.job.offset_classes import States
from topoopt.verify.job.strategy_laws import StrategyLaws
from topoopt.verify.job.strategy_tables import Tables

SAME = 1e-12
"""Two sums of the same terms in another order; far below what a certificate takes off its bound for rounding."""


def mirrored(laws: StrategyLaws) -> bool:
    """Whether the laws of every choice of states are those of the choice with all residues exchanged.

    A table of one of the two classes ends in its number.
    """
    places = [_swapped(states) for states in laws.states]
    if any(place is None for place in places):
        return False
    known = [place for place in places if place is not None]
    nodes = [(place,) for place in known]
    grids = [(known[u], known[v]) for u, v in laws.pairs]
    return _same(laws.operators, nodes) and _same(laws.between, grids)


def _swapped(states: States) -> Ints | None:
    """int64[states]: where each one stands with its residue exchanged; None if there is no such state."""
    rows = list(zip(states.split.tolist(), states.residue.tolist(), strict=True))
    other = [(split, 1 - r if g == 2 else r) for (split, r), g in zip(rows, states.period.tolist(), strict=True)]
    if set(other) != set(rows):
        return None
    return np.array([rows.index(row) for row in other], dtype=np.int64)


def _same(tables: Tables, places: Iterable[tuple[Ints, ...]]) -> bool:
    listed = list(places)
    return all(
        np.allclose(values[np.ix_(*place)], other, rtol=SAME, atol=0.0)
        for name, arrays in tables.items()
        for values, other, place in zip(arrays, tables[_exchanged(name)], listed, strict=True)
    )


def _exchanged(name: str) -> str:
    return f"{name[:-1]}{1 - int(name[-1])}" if name[-1] in "01" else name
