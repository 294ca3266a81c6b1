"""Demands split over given alternatives (paths, rings, routings) so that the largest load is least.

path_split
----------
How demands split over given alternatives (paths, rings) so that the largest load is least.

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

circulant_flow
--------------
Routing of least load on a circulant (Cayley graph of Z_n) whose demand depends on the displacement alone.

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

Dual: theta = max_l sum_j w[j] dist_l(j) over l >= 0 with sum_c capacity[c] l[c] = 1; a routing of least length for l
is a column.

mixture
-------
The mixture of given routings with the least largest link utilisation.

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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from math import comb
from typing import Any

import numpy as np

from formulations.programs import Families, LpArrays, with_names
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InfeasibleError, InputError, Problem
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


def path_split_arrays(data: PathSplit) -> LpArrays:
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


def path_split_names(data: PathSplit) -> tuple[list[str], list[str]]:
    """Names by number: columns `share_k_a`, `peak_f`; rows `split_k`, `fit_peak_r`."""
    shares = [f"share_{k}_{a}" for a, k in enumerate(data.demand.tolist())]
    demands = int(data.demand.max(initial=-1)) + 1
    rows = [f"split_{k}" for k in range(demands)] + [f"fit_peak_{r}" for r in range(data.resources)]
    return shares + [f"peak_{f}" for f in range(len(data.family_weight))], rows


def path_split_from_routing(problem: RoutingProblem, options: Mapping[str, float]) -> LpArrays:
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
    return with_names(path_split_arrays(data), [*shares, "peak"], rows)


def _shortest_paths(graph: Any, source: int, target: int, most: int, max_hops: int | None) -> list[list[int]]:
    import networkx as nx

    try:
        paths = list(islice(nx.shortest_simple_paths(graph, source, target), most))
    except (nx.NetworkXNoPath, nx.NodeNotFound):
        paths = []
    within = [path for path in paths if max_hops is None or len(path) - 1 <= max_hops]
    if not within:
        limit = "" if max_hops is None else f" within {max_hops} hops"
        raise InfeasibleError(f"no path from server {source} to server {target}{limit}, which have demand")
    return within


MOST_ROUTINGS = 20_000
"""Most columns that `from_routing` generates."""


def circulant_flow_arrays(load: Floats, capacity: Floats) -> LpArrays:
    """The linear program for the routings known so far: load float64[c, k], capacity float64[c].

    Columns are the shares, then theta; rows are (1), then (2) by class.
    """
    classes, routings = load.shape
    made = Families()
    share, theta = made.columns(routings), made.columns(1, cost=1.0)
    mix, fit = made.rows(1, 1.0, 1.0), made.rows(classes, -np.inf, 0.0)
    made.terms(mix, share, 1.0)
    made.terms(fit[:, None], share, load)
    made.terms(fit, theta, -capacity)
    return made.arrays()


def circulant_flow_names(classes: list[int], routings: int) -> tuple[list[str], list[str]]:
    """Names: columns `share_k`, `theta`; rows `mix`, `fit_p` by the offset p of the class."""
    return [*(f"share_{k}" for k in range(routings)), "theta"], ["mix", *(f"fit_{p}" for p in classes)]


def circulant_flow_from_routing(problem: RoutingProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of an instance over routings of least length for a grid of lengths.

    Option `grid`: lengths are 1 + g[c] with whole g >= 0 of sum `grid`, so that the optimum is an upper bound on theta
    that falls as the grid is refined; a solver generates its columns for the lengths it needs instead.

    Raises:
        InputError: topology or demand that do not look the same from every server, or too fine a grid.
        InfeasibleError: a displacement with demand out of reach.
    """
    n, arcs = problem.topology.servers, problem.topology.arcs
    links = np.zeros((n, n))
    links[arcs[:, 0], arcs[:, 1]] = problem.topology.capacity
    errors = []
    for path, table in (("topology", links), ("demand", problem.demand)):
        if not np.array_equal(table, np.roll(table, (1, 1), axis=(0, 1))):
            errors.append(Problem("does not look the same from every server", path=path, allowed="a circulant"))
    if problem.max_hops is not None:
        errors.append(Problem("this formulation knows no hop limit", path="max_hops", value=str(problem.max_hops)))
    offsets, grid = np.flatnonzero(links[0]), int(options["grid"])
    routings = comb(grid + len(offsets) - 1, grid)
    if routings > MOST_ROUTINGS:
        errors.append(Problem(f"{routings} routings", path="grid", value=str(grid), allowed=f"at most {MOST_ROUTINGS}"))
    if errors:
        raise InputError(errors)
    lengths = _compositions(grid, len(offsets))
    load = np.unique([_load(problem.demand[0], offsets, 1.0 + np.array(g)) for g in lengths], axis=0).T
    return with_names(
        circulant_flow_arrays(load, links[0, offsets]), *circulant_flow_names(offsets.tolist(), load.shape[1])
    )


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)


def _load(weight: Floats, offsets: Ints, lengths: Floats) -> Floats:
    """float64[classes]: weighted arcs of each class that shortest paths for these lengths use."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    n = len(weight)
    tail = np.repeat(np.arange(n), len(offsets))
    head = (tail + np.tile(offsets, n)) % n
    graph = csr_array((np.tile(lengths, n), (tail, head)), shape=(n, n))
    distance, before = dijkstra(graph, indices=0, return_predecessors=True)
    if np.isinf(distance[weight > 0]).any():
        raise InfeasibleError("a displacement with demand is out of reach")
    carried = np.where(np.isfinite(distance), weight, 0.0)
    load = np.zeros(len(offsets))
    for v in np.argsort(-distance, kind="stable"):
        if v and np.isfinite(distance[v]):
            load[np.searchsorted(offsets, (v - before[v]) % n)] += carried[v]
            carried[before[v]] += carried[v]
    return load


def mixture_arrays(utilisation: Floats) -> LpArrays:
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
