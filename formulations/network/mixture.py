r"""The mixture of given routings with the least largest link utilisation.

Any convex combination of routings of one demand is a routing of it, with the same combination of loads; so the
routings of a method need not be kept, only their loads.

Sets        ROUTINGS k; ARCS a.
Parameters  u[k, a] >= 0: utilisation of an arc by a routing.
Variables   part[k] >= 0, of the traffic that follows routing k;  theta, largest utilisation.

    minimise    theta
    (1) whole   sum_k part[k] = 1
    (2) fit     sum_k u[k, a] part[k] - theta <= 0          for every a

Size: K + 1 columns, m + 1 rows, dense. The duals of (2) are lengths of links times capacity: none of the routings is
shorter by them than theta, and a routing that is improves the mixture (a master of column generation).
"""

from __future__ import annotations

import numpy as np

from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Families
from topoopt.core.arrays import Floats


def build_arrays(utilisation: Floats) -> LpArrays:
    """The program of `utilisation`, float64[K, m]; columns part[k], then theta; row (1), then (2) by a."""
    count, m = utilisation.shape
    made = Families()
    part = made.columns((count, 1))
    theta = made.columns((1, 1), cost=1.0)
    whole = made.rows(1, 1.0, 1.0)
    fit = made.rows(m, -np.inf, 0.0)
    made.terms(whole, part, 1.0)
    made.terms(fit, part, utilisation)
    made.terms(fit, theta, -1.0)
    return made.arrays()
