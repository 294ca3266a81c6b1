"""Seeds know nothing of forbidden or parallel links: exchange link ends until none is left."""

from __future__ import annotations

import numpy as np

from solvers.network.search.links import LinkTable, arcs_of, table_of_arcs
from topoopt.core.arrays import Bools, Ints

TRIES = 200
"""Exchanges tried per bad link before giving up."""


def bad_links(arcs: Ints, allowed: Bools, parallel: bool) -> Ints:
    """Rows of arcs (int64[m, 2]) that are not allowed, or repeat an earlier row where parallel links are not."""
    bad = ~allowed[arcs[:, 0], arcs[:, 1]]
    if not parallel:
        first = np.unique(arcs[:, 0] * len(allowed) + arcs[:, 1], return_index=True)[1]
        again = np.ones(len(arcs), dtype=np.bool_)
        again[first] = False
        bad |= again
    return np.flatnonzero(bad)


def repaired(table: LinkTable, allowed: Bools, parallel: bool, seed: int) -> LinkTable | None:
    """The table without bad links, by random exchanges that never make more of them; None when that fails.

    Args:
        allowed: bool[n, n], symmetric for fibre pairs, False on the diagonal.
    """
    n, degree = table.out.shape
    rng = np.random.default_rng(seed)
    arcs = arcs_of(table.out)
    if table.paired:
        arcs = arcs[arcs[:, 0] < arcs[:, 1]]  # fibre pairs once

    def whole(links: Ints) -> Ints:
        return np.vstack((links, links[:, ::-1])) if table.paired else links

    def key(links: Ints) -> Ints:
        return np.sort(links, axis=1) if table.paired else links

    bad = bad_links(key(arcs), allowed, parallel)
    for _ in range(TRIES * max(1, len(bad))):
        if len(bad) == 0:
            return table_of_arcs(n, degree, table.links, whole(arcs))
        first, second = int(rng.choice(bad)), int(rng.integers(len(arcs)))
        new = arcs.copy()
        if table.paired and rng.random() < 0.5:
            new[second] = new[second, ::-1]
        new[first, 1], new[second, 1] = new[second, 1], new[first, 1]
        if (new[:, 0] == new[:, 1]).any():
            continue
        new_bad = bad_links(key(new), allowed, parallel)
        if len(new_bad) <= len(bad):
            arcs, bad = new, new_bad
    return None
