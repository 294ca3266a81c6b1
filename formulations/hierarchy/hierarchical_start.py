r"""Which bandwidths the linear constraints of a hierarchical network allow at all.

Two linear programs on top of (4) of `hierarchical_bandwidth`, for columns without tau:

- `widest_arrays`: maximise s with X[j] >= s in every dimension that carries traffic: a point to start from, and the
  program whose infeasibility is explained to people.
- `endless_arrays`: maximise sum d[j] over directions 0 <= d <= 1 that no constraint stops; where d[j] > 0, bandwidth
  may grow for ever.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csc_array

from formulations.hierarchy.hierarchical_program import BandwidthProgram
from formulations.parts.arrays import LpArrays
from topoopt.core.arrays import Bools, Floats


def widest_arrays(data: BandwidthProgram, upper: Floats, loaded: Bools) -> LpArrays:
    """Columns X then s; float64[J] `upper` bounds of X."""
    count = len(data.names)
    used = np.flatnonzero(loaded)
    matrix = np.zeros((len(data.rows) + len(used), count + 1))
    matrix[: len(data.rows), :count] = data.rows
    matrix[len(data.rows) + np.arange(len(used)), used] = 1.0
    matrix[len(data.rows) :, count] = -1.0
    sparse = csc_array(matrix)
    finite = upper[loaded][np.isfinite(upper[loaded])]
    return LpArrays(
        cost=np.append(np.zeros(count), -1.0),
        lower=np.append(data.lower, 0.0),
        upper=np.append(upper, finite.max() if len(finite) else 1.0),
        row_lower=np.concatenate((data.row_lower, np.zeros(len(used)))),
        row_upper=np.concatenate((data.row_upper, np.full(len(used), np.inf))),
        start=sparse.indptr.astype(np.int64),
        index=sparse.indices.astype(np.int64),
        value=sparse.data,
        column_names=(*(f"bandwidth of {name}" for name in data.names), "least bandwidth"),
        row_names=(*data.row_names, *(f"at least the least in {data.names[j]}" for j in used)),
    )


def endless_arrays(data: BandwidthProgram, loaded: Bools) -> LpArrays:
    """Columns d."""
    sparse = csc_array(data.rows)
    return LpArrays(
        cost=-loaded.astype(np.float64),
        lower=np.zeros(len(data.names)),
        upper=np.where(np.isfinite(data.upper) | np.array([bool(one) for one in data.speeds]), 0.0, 1.0),
        row_lower=np.where(np.isfinite(data.row_lower), 0.0, -np.inf),
        row_upper=np.where(np.isfinite(data.row_upper), 0.0, np.inf),
        start=sparse.indptr.astype(np.int64),
        index=sparse.indices.astype(np.int64),
        value=sparse.data,
        column_names=tuple(f"growth of {name}" for name in data.names),
        row_names=data.row_names,
    )
