r"""Routing with the least largest link utilisation, where each source may use some arcs only.

Where a source may enter a server over one arc alone, its flow there follows from what leaves, so that only entries of
servers with a choice are variables: one of them stands for the chain of single arcs before it, too.

Sets        CHOICES r, a source and a server it enters over two arcs or more; ENTRIES e, one of these arcs each; ARCS a.
Parameters  need[r] >= 0: demand at the server of r and over chains that start there;  load[a] >= 0: demand over chains
            from the source;  c[a] > 0, capacity.
Variables   x[e] >= 0, flow over an entry and its chain A(e);  theta, largest utilisation.

    minimise    theta
    (1) balance   sum_{e into r} x[e] - sum_{e whose chain starts at r} x[e] = need[r]         for every choice r
    (2) fit       (load[a] + sum_{e: a in A(e)} x[e]) / c[a] - theta <= 0                      for every arc a

Size: |ENTRIES| + 1 columns, |CHOICES| + m rows. With all arcs allowed the optimum is that of concurrent_flow. The duals
of (2) over capacities are lengths of links.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Families
from topoopt.core.arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class NarrowedFlow:
    """Data of the problem.

    Attributes:
        need: float64[R].
        into, start: int64[E], the choice that an entry enters, and that at the start of its chain; -1: its source.
        entry, arc: int64[k] each, the pairs of an entry and an arc of its chain or itself.
        load, capacity: float64[m].
    """

    need: Floats
    into: Ints
    start: Ints
    entry: Ints
    arc: Ints
    load: Floats
    capacity: Floats


def build_arrays(data: NarrowedFlow) -> LpArrays:
    """The program; columns are x, then theta; rows (1), then (2)."""
    made = Families()
    x = made.columns(len(data.into))
    theta = made.columns((1, 1), cost=1.0)
    balance = made.rows(len(data.need), data.need, data.need)
    fit = made.rows(len(data.capacity), -np.inf, -data.load / data.capacity)
    made.terms(balance[data.into], x, 1.0)
    drawn = np.flatnonzero(data.start >= 0)
    made.terms(balance[data.start[drawn]], x[drawn], -1.0)
    made.terms(fit[data.arc], x[data.entry], 1.0 / data.capacity[data.arc])
    made.terms(fit, theta, -1.0)
    return made.arrays()
