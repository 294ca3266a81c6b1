r"""Routing of least load on a circulant (Cayley graph of Z_n) whose demand depends on the displacement alone.

Decided: which mixture of routings, each the same seen from every server, carries the demand. Averaging an optimal flow
over all rotations leaves it optimal, so that one load per class of arcs is enough (the n m columns of the arc
formulation collapse), and a displacement may use its arcs in any order because Z_n is abelian: only how many arcs of
each class it uses matters.

Sets        CLASSES c of arcs v -> v + p_c; ROUTINGS k, generated as needed.
Parameters  load[c, k] = sum_j w[j] steps_k[c, j]: arcs of class c that routing k uses, weighted by the demand w[j] of
            displacement j: the load of every arc of the class;  capacity[c] > 0: parallel links.
Variables   share[k] >= 0;  theta >= 0.

    minimise    theta
    (1) mix    sum_k share[k] = 1
    (2) fit    sum_k load[c, k] share[k] - capacity[c] theta <= 0        for every class c

Dual: theta = max over l >= 0, sum capacity l = 1 of sum_j w[j] dist_l(j); a routing of least length for l is a column.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from formulations.arrays import LpArrays


def build_arrays(load: NDArray[np.float64], capacity: NDArray[np.float64]) -> LpArrays:
    """The linear program for the routings known so far: load float64[c, k], capacity float64[c].

    Columns are the shares, then theta; rows are (1), then (2) by class.
    """
    classes, routings = load.shape
    columns = np.vstack((np.ones(routings), load))
    rows = np.arange(classes + 1)
    return LpArrays(
        cost=np.append(np.zeros(routings), 1.0),
        lower=np.zeros(routings + 1),
        upper=np.full(routings + 1, np.inf),
        row_lower=np.append(1.0, np.full(classes, -np.inf)),
        row_upper=np.append(1.0, np.zeros(classes)),
        start=np.append(np.arange(routings + 1) * (classes + 1), routings * (classes + 1) + classes),
        index=np.concatenate((np.tile(rows, routings), rows[1:])),
        value=np.concatenate((columns.T.ravel(), -capacity)),
    )
