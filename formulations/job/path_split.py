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

Size: |ALTERNATIVES| + |FAMILIES| columns, |DEMANDS| + |RESOURCES| rows. One family of all links gives the routing
problem; rings use two (all groups of a size at work, and one alone). With every alternative of a demand present the
optimum equals the arc formulation's; with shortest paths alone it is an upper bound on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np

from formulations.parts.arrays import LpArrays, with_names
from formulations.parts.rows import Families
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InfeasibleError
from topoopt.core.network import RoutingProblem


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

    demand: Ints
    resource: Ints
    alternative: Ints
    use: Floats
    resources: int
    family: Ints | None = None
    family_weight: tuple[float, ...] = (1.0,)
    price: Floats | None = None


def build_arrays(data: PathSplit) -> LpArrays:
    """The linear program; columns are the shares, then the peaks; rows are (1), then (2)."""
    made = Families()
    family = np.zeros(data.resources, dtype=np.int64) if data.family is None else data.family
    share = made.columns(len(data.demand), upper=1.0, cost=0.0 if data.price is None else data.price)
    peak = made.columns(len(data.family_weight), cost=data.family_weight)
    split = made.rows(int(data.demand.max(initial=-1)) + 1, 1.0, 1.0)
    fit_peak = made.rows(data.resources, -np.inf, 0.0)
    made.terms(split[data.demand], share, 1.0)
    made.terms(fit_peak[data.resource], share[data.alternative], data.use)
    made.terms(fit_peak, peak[family], -1.0)
    return made.arrays()


def shares_of(data: PathSplit, x: Floats, *, drop_below: float = 1e-7) -> Floats:
    """float64[A]: shares of a solution vector, dust dropped, summing to 1 for each demand."""
    share = np.clip(x[: len(data.demand)], 0.0, 1.0)
    share[share < drop_below] = 0.0
    total = np.bincount(data.demand, weights=share)
    return np.asarray(share / total[data.demand], dtype=np.float64)


def peaks_of(data: PathSplit, share: Floats) -> Floats:
    """float64[F]: largest load of each family, recomputed from shares."""
    load = np.bincount(data.resource, weights=data.use * share[data.alternative], minlength=data.resources)
    peaks = np.zeros(len(data.family_weight))
    np.maximum.at(peaks, np.zeros(data.resources, dtype=np.int64) if data.family is None else data.family, load)
    return peaks


def names_of(data: PathSplit) -> tuple[list[str], list[str]]:
    """Names by number: columns `share_k_a`, `peak_f`; rows `split_k`, `fit_peak_r`."""
    shares = [f"share_{k}_{a}" for a, k in enumerate(data.demand.tolist())]
    demands = int(data.demand.max(initial=-1)) + 1
    rows = [f"split_{k}" for k in range(demands)] + [f"fit_peak_{r}" for r in range(data.resources)]
    return shares + [f"peak_{f}" for f in range(len(data.family_weight))], rows


def from_routing(problem: RoutingProblem, options: Mapping[str, float]) -> LpArrays:
    """The program of an instance over the k shortest simple paths of every demand (option `paths`: k).

    Columns are named by the servers of the path (`share_0_3_1`), rows by pair (`split_0_1`) and arc (`fit_peak_0_3`).

    Raises:
        InfeasibleError: a demand without any path within the hop limit.
    """
    import networkx as nx

    arcs = [(int(i), int(j)) for i, j in problem.topology.arcs]
    number = {arc: a for a, arc in enumerate(arcs)}
    graph = nx.DiGraph(sorted(arcs))
    demand: list[int] = []
    entries: list[tuple[int, int, float]] = []
    shares: list[str] = []
    pairs = [(int(s), int(t)) for s, t in np.argwhere(problem.demand > 0)]
    for k, (s, t) in enumerate(pairs):
        for path in _shortest_paths(graph, s, t, int(options["paths"]), problem.max_hops):
            for arc in pairwise(path):
                links = int(problem.topology.multiplicity[number[arc]])
                entries.append((number[arc], len(demand), float(problem.demand[s, t]) / links))
            shares.append("share_" + "_".join(map(str, path)))
            demand.append(k)
    resource, alternative, use = zip(*entries, strict=True)
    data = PathSplit(np.array(demand), np.array(resource), np.array(alternative), np.array(use), len(arcs))
    rows = [f"split_{s}_{t}" for s, t in pairs] + [f"fit_peak_{i}_{j}" for i, j in arcs]
    return with_names(build_arrays(data), [*shares, "peak"], rows)


def _shortest_paths(graph: Any, source: int, target: int, most: int, max_hops: int | None) -> list[list[int]]:
    import networkx as nx

    try:
        found = list(islice(nx.shortest_simple_paths(graph, source, target), most))
    except (nx.NetworkXNoPath, nx.NodeNotFound):
        found = []
    within = [path for path in found if max_hops is None or len(path) - 1 <= max_hops]
    if not within:
        limit = "" if max_hops is None else f" within {max_hops} hops"
        raise InfeasibleError(f"no path from server {source} to server {target}{limit}, which have demand")
    return within


def build_pyomo(data: PathSplit) -> Any:
    """The same as a Pyomo model, to be read and to be compared with; small instances only."""
    import pyomo.environ as pyo

    demand = data.demand.tolist()
    family = [0] * data.resources if data.family is None else data.family.tolist()
    price = [0.0] * len(demand) if data.price is None else data.price.tolist()
    use = list(zip(data.resource.tolist(), data.alternative.tolist(), data.use.tolist(), strict=True))

    model = pyo.ConcreteModel("path_split")
    model.share = pyo.Var([(k, a) for a, k in enumerate(demand)], bounds=(0.0, 1.0))
    model.peak = pyo.Var(range(len(data.family_weight)), domain=pyo.NonNegativeReals)
    model.least_load = pyo.Objective(
        expr=sum(weight * model.peak[f] for f, weight in enumerate(data.family_weight))
        + sum(price[a] * model.share[k, a] for a, k in enumerate(demand))
    )

    @model.Constraint(sorted(set(demand)))  # type: ignore[untyped-decorator]
    def split(m: Any, k: int) -> Any:
        return sum(m.share[k, a] for a, owner in enumerate(demand) if owner == k) == 1.0

    @model.Constraint(range(data.resources))  # type: ignore[untyped-decorator]
    def fit_peak(m: Any, r: int) -> Any:
        load = sum(amount * m.share[demand[a], a] for resource, a, amount in use if resource == r)
        return load - m.peak[family[r]] <= 0.0

    return model
