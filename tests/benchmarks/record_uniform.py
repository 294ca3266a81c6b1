"""Topologies for uniform demand against Graph Golf (2016), Moore's bound, and what the links of the graph allow.

For skewed demand against bounds over all topologies.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import networkx as nx
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

import topoopt
from tests.benchmarks.figures import Figure
from tests.benchmarks.records import Record
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import TopologyProblem
from topoopt.core.topology import Topology
from topoopt.workloads.demands import demand_matrix

CHECK_S = 30.0


def mean_hops(topology: Topology) -> float:
    """By SciPy, from all servers up to 1100, from the first 300 beyond."""
    n, arcs = topology.servers, topology.arcs
    graph = csr_array((np.ones(len(arcs)), (arcs[:, 0], arcs[:, 1])), shape=(n, n))
    sources = np.arange(n if n <= 1100 else 300)
    return float(shortest_path(graph, unweighted=True, indices=sources).sum()) / (len(sources) * (n - 1))


def moore_mean(n: int, d: int, links: LinkDirection) -> float:
    """Mean distance in the tree that branches d - 1 times, one-way d times."""
    left, layer, hops, total = n - 1, d, 1, 0
    while left > 0:
        total += hops * min(left, layer)
        left, layer, hops = left - layer, layer * (d if links is LinkDirection.UNIDIRECTIONAL else d - 1), hops + 1
    return total / (n - 1)


def measured(
    n: int,
    d: int,
    record: float | None,
    above: float,
    most_s: float,
    load: float,
    *,
    one_way: bool = False,
    seed: int = 0,
    drawn: bool = False,
) -> Sequence[Figure]:
    """Solve, check, and compare.

    Args:
        n, d: servers and links of each.
        record: mean hops to compare with; None: Moore's.
        above: percent of mean hops above that.
        most_s: processor time of the solve.
        load: percent of theta above (n - 1) hops / d.
        one_way: single fibres; theta is to be no more than that of the generalized Kautz graph.
        seed: of the search.
        drawn: whether theta is to be below what the hops of a random regular graph allow.
    """
    links = LinkDirection.UNIDIRECTIONAL if one_way else LinkDirection.BIDIRECTIONAL
    demand = np.ones((n, n)) - np.eye(n)
    problem = TopologyProblem(f"{n}, {d}", n, d, links, demand)
    start = time.process_time()
    result = topoopt.solve(problem, seed=seed)
    solved = time.process_time()
    verdict = topoopt.check(problem, result)
    checked = time.process_time()
    assert verdict.ok, verdict.violations
    name = f"({n}, {d}){' one-way' if one_way else ''}, seed {seed}"
    theta, hops = result.objective.value, mean_hops(result.figures.topology)
    base, words = (record, "the record") if record is not None else (moore_mean(n, d, links), "Moore")
    title = f"{name}: theta {theta:.5g}; mean hops {hops:.4f} above {words} {base:.4f}"
    figures = [Figure(title, 100 * (hops / base - 1), "%", above)]
    if one_way:
        kautz = topoopt.solve(problem, method="kautz").objective.value
        figures = [Figure(f"{name}: theta, that of generalized Kautz as goal", theta, "", kautz)]
    if drawn:
        random = nx.average_shortest_path_length(nx.random_regular_graph(d, n, seed=seed)) * (n - 1) / d
        figures.append(Figure(f"{name}: theta, the least of a random regular graph as goal", theta, "", random))
    return [
        *figures,
        Figure(f"{name}: theta above (n-1) hops / d", 100 * (theta * d / ((n - 1) * hops) - 1), "%", load),
        Figure(f"{name}: solve, processor time", solved - start, "s", most_s),
        Figure(f"{name}: check, processor time", checked - solved, "s", CHECK_S),
    ]


def _row(n: int, d: int, *figures: float | None, one_way: bool = False, seed: int = 0, drawn: bool = False) -> Record:
    way = "unidirectional" if one_way else "bidirectional"
    name = f"uniform-{n}-{d}{'-one-way' if one_way else ''}" + (f"-seed-{seed}" if seed else "")
    command = f"topoopt solve (servers: {n}, degree: {d}, links: {way}, demand: uniform, seed: {seed})"
    return Record(name, command, partial(measured, n, d, *figures, one_way=one_way, seed=seed, drawn=drawn))  # type: ignore[arg-type]


def skewed(n: int, gap: float, most_s: float, budget: int | None) -> Sequence[Figure]:
    """Solve and check balanced skewed demand, four one-way links a server.

    Args:
        n: servers.
        gap: goal, percent of theta above its verified bound.
        most_s: processor time of the solve.
        budget: swaps; None: by default.
    """
    demand = demand_matrix("balanced-skew", n, seed=1)
    problem = TopologyProblem(f"skew-{n}", n, 4, LinkDirection.UNIDIRECTIONAL, demand)
    start = time.process_time()
    result = topoopt.solve(problem, budget=budget)
    solved = time.process_time()
    verdict = topoopt.check(problem, result)
    checked = time.process_time()
    assert verdict.ok, verdict.violations
    theta, bound = result.objective.value, result.bound
    return [
        Figure(
            f"theta {theta:.5g} above the bound {bound.value:.5g} by {bound.argument}",
            100 * (theta / bound.value - 1),
            "%",
            gap,
        ),
        Figure("solve, processor time", solved - start, "s", most_s),
        Figure("check, processor time", checked - solved, "s", CHECK_S),
    ]


def _skew(n: int, gap: float, most_s: float, budget: int | None = None) -> Record:
    more = "" if budget is None else f" --budget {budget}"
    command = f"topoopt solve{more} (servers: {n}, degree: 4, demand: balanced-skew, demand_seed: 1)"
    return Record(f"skew-{n}{'' if budget is None else '-longer'}", command, partial(skewed, n, gap, most_s, budget))


UNIFORM: tuple[Record, ...] = (
    _row(36, 3, 3.067, 0.3, 20.0, 1.0),
    _row(96, 3, 4.272, 0.3, 60.0, 1.0),
    *(_row(64, 8, 1.927, 0.7, 60.0, 0.1, seed=seed) for seed in range(5)),
    _row(256, 8, 2.736, 0.1, 10.0, 0.1),
    _row(512, 8, 3.111, 0.3, 40.0, 0.1),
    _row(1024, 8, 3.505, 0.1, 10.0, 0.1),
    _row(4096, 12, None, 0.9, 60.0, 0.1),
    *(
        _row(n, d, None, 1.5, 90.0, 1.5, one_way=True)
        for n, d in ((16, 2), (30, 3), (64, 4), (64, 8), (100, 5), (256, 8))
    ),
    *(_row(n, 8, None, 1.0, 60.0, 0.1, drawn=True) for n in (127, 257)),
    *(_skew(n, gap, 180.0) for n, gap in ((16, 2.0), (32, 4.0), (64, 6.0), (128, 10.0))),
    _skew(16, 2.0, 180.0, 20_000_000),
)
