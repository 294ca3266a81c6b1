r"""Which bandwidths the linear constraints of a hierarchical network allow at all.

Two linear programs on top of (4) of `hierarchical_bandwidth`, for columns without tau:

- `widest_arrays`: maximise s with X[j] >= s in every dimension that carries traffic: a point to start from, and the
  program whose infeasibility is explained to people.
- `endless_arrays`: maximise sum d[j] over directions 0 <= d <= 1 that no constraint stops; where d[j] > 0, bandwidth
  may grow for ever.
"""

from __future__ import annotations

import numpy as np

from formulations.hierarchy.hierarchical_program import BandwidthProgram
from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Families
from topoopt.core.arrays import Bools, Floats


def widest_arrays(data: BandwidthProgram, upper: Floats, loaded: Bools) -> LpArrays:
    """Columns X then s; float64[J] `upper` bounds of X."""
    used = np.flatnonzero(loaded)
    finite = upper[loaded][np.isfinite(upper[loaded])]
    most = finite.max() if len(finite) else 1.0
    made = Families()
    names = [f"bandwidth of {name}" for name in data.names]
    bandwidth = made.columns(len(names), lower=data.lower, upper=upper, names=names)
    least = made.columns(1, upper=most, cost=-1.0, names=["least bandwidth"])
    limit = made.rows(len(data.rows), data.row_lower, data.row_upper, data.row_names)
    above = made.rows(len(used), 0.0, np.inf, [f"at least the least in {data.names[j]}" for j in used])
    made.terms(limit[:, None], bandwidth, data.rows)
    made.terms(above, bandwidth[used], 1.0)
    made.terms(above, least, -1.0)
    return made.arrays()


def endless_arrays(data: BandwidthProgram, loaded: Bools) -> LpArrays:
    """Columns d."""
    made = Families()
    closed = np.isfinite(data.upper) | np.array([bool(one) for one in data.speeds])
    names = [f"growth of {name}" for name in data.names]
    growth = made.columns(len(names), upper=np.where(closed, 0.0, 1.0), cost=-loaded.astype(np.float64), names=names)
    low, high = np.where(np.isfinite((data.row_lower, data.row_upper)), 0.0, [[-np.inf], [np.inf]])
    limit = made.rows(len(data.rows), low, high, data.row_names)
    made.terms(limit[:, None], growth, data.rows)
    return made.arrays()
