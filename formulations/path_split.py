r"""How demands split over given alternatives (paths, rings) so that the largest load is least.

Decided: which share of each demand goes over each of its alternatives. Path formulation of minimum congestion routing
(multi-commodity flow over given paths; TopoOpt, NSDI'23, routes model-parallel traffic over k shortest paths).

Sets        DEMANDS k; ALTERNATIVES a, each of one demand k(a); RESOURCES r (links), each in one family f(r).
Parameters  use[r, a] >= 0: amount on resource r per unit share of alternative a (bytes times traversals, divided by
            the parallel links of r);  price[a] >= 0: a small charge that breaks ties;  weight[f] > 0 of a family.
Variables   share[a] in [0, 1];  peak[f] >= 0, largest load in family f.

    minimise    sum_f weight[f] peak[f] + sum_a price[a] share[a]
    (1) split       sum_{a of k} share[a] = 1                          for every demand k
    (2) fit_peak    sum_a use[r, a] share[a] - peak[f(r)] <= 0          for every resource r

Size: |ALTERNATIVES| + |families| columns, |DEMANDS| + |RESOURCES| rows. One family of all links gives the routing
problem; rings use two (all groups of a size at work, and one alone). With every alternative of a demand present the
optimum equals the arc formulation's; with shortest paths alone it is an upper bound on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from formulations.arrays import LpArrays


@dataclass(frozen=True, eq=False)
class PathSplit:
    """Data of the problem.

    Attributes:
        demand: int64[A], demand of each alternative, 0..K-1; every demand has one at least.
        resource, alternative, use: the non-zero use[r, a], equally long arrays; repeated entries add up.
        resources: number of resources.
        family: int64[R], family of each resource, 0..F-1; None: one family.
        family_weight: float64[F].
        price: float64[A]; None: no charge.
    """

    demand: NDArray[np.int64]
    resource: NDArray[np.int64]
    alternative: NDArray[np.int64]
    use: NDArray[np.float64]
    resources: int
    family: NDArray[np.int64] | None = None
    family_weight: tuple[float, ...] = (1.0,)
    price: NDArray[np.float64] | None = None


def build_arrays(data: PathSplit) -> LpArrays:
    """The linear program; columns are the shares, then the peaks; rows are (1), then (2)."""
    alternatives = len(data.demand)
    demands = int(data.demand.max(initial=-1)) + 1
    families = len(data.family_weight)
    family = np.zeros(data.resources, dtype=np.int64) if data.family is None else data.family
    price = np.zeros(alternatives) if data.price is None else data.price
    every = np.arange(alternatives)
    resources = np.arange(data.resources)
    row = np.concatenate((data.demand, demands + data.resource, demands + resources))
    column = np.concatenate((every, data.alternative, alternatives + family))
    value = np.concatenate((np.ones(alternatives), data.use, -np.ones(data.resources)))
    matrix = csc_array((value, (row, column)), shape=(demands + data.resources, alternatives + families))
    matrix.sum_duplicates()
    return LpArrays(
        cost=np.concatenate((price, np.array(data.family_weight, dtype=np.float64))),
        lower=np.zeros(alternatives + families),
        upper=np.concatenate((np.ones(alternatives), np.full(families, np.inf))),
        row_lower=np.concatenate((np.ones(demands), np.full(data.resources, -np.inf))),
        row_upper=np.concatenate((np.ones(demands), np.zeros(data.resources))),
        start=matrix.indptr.astype(np.int64),
        index=matrix.indices.astype(np.int64),
        value=np.asarray(matrix.data, dtype=np.float64),
    )


def shares_of(data: PathSplit, x: NDArray[np.float64], *, drop_below: float = 1e-7) -> NDArray[np.float64]:
    """float64[A]: shares of a solution vector, dust dropped, summing to 1 for each demand."""
    share = np.clip(x[: len(data.demand)], 0.0, 1.0)
    share[share < drop_below] = 0.0
    total = np.bincount(data.demand, weights=share)
    return np.asarray(share / total[data.demand], dtype=np.float64)


def peaks_of(data: PathSplit, share: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[F]: largest load of each family, recomputed from shares."""
    load = np.bincount(data.resource, weights=data.use * share[data.alternative], minlength=data.resources)
    peaks = np.zeros(len(data.family_weight))
    np.maximum.at(peaks, np.zeros(data.resources, dtype=np.int64) if data.family is None else data.family, load)
    return peaks
