"""Topologies that may be good for collectives: well-known ones, expansions of smaller ones, Cayley digraphs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from solvers.collective.cayley_search import MOST_DEGREE, CayleyDigraph, search_cayley, search_haar
from solvers.stop import Stop
from topoopt.analyses.collective.scores import (
    Recipe,
    ScoredTopology,
    TopologyLimits,
    Wanted,
    adds_nothing,
    front,
    scored,
    topology_limits,
)
from topoopt.core.cluster import LinkDirection
from topoopt.files.topology_families import DISTANCE_REGULAR

Smaller = Callable[[Wanted], Sequence[ScoredTopology]]
"""What is known of smaller sizes."""


def well_known(wanted: Wanted) -> list[ScoredTopology]:
    """The front of well-known topologies."""
    recipes = [*two_way_recipes(wanted), *one_way_recipes(wanted)]
    return front(one for recipe in recipes if (one := scored(recipe, wanted)))


FURTHER_STEPS = 6
"""Steps above twice the Moore bound that a search looks at."""


def two_way_recipes(wanted: Wanted) -> Iterator[Recipe]:
    """Well-known topologies of fibre pairs with so many servers and links."""
    n, d = wanted.servers, wanted.degree
    if d == n - 1:
        yield {"family": "complete", "servers": n}
    if 2 * d == n:
        yield {"family": "complete-bipartite", "sides": [d, d]}
    if d == 2 and n > 2:
        yield {"family": "ring", "servers": n}
    if d == 4 and n > 6:
        m = math.ceil((math.sqrt(2 * n - 1) - 1) / 2)
        yield {"family": "circulant", "servers": n, "offsets": [m, m + 1]}
    for name, graph in DISTANCE_REGULAR.items():
        if (graph.servers, graph.degree) == (n, d):
            yield {"family": "distance-regular", "graph": name}


def one_way_recipes(wanted: Wanted) -> Iterator[Recipe]:
    """Well-known topologies of single fibres with so many servers and links; none for fibre pairs."""
    n, d = wanted.servers, wanted.degree
    if wanted.links is LinkDirection.UNIDIRECTIONAL:
        if d == 1:
            yield {"family": "ring", "servers": n, "links": "unidirectional"}
        elif d < n:
            for family in ("generalized-kautz", "de-bruijn"):
                yield {"family": family, "servers": n, "degree": d}


def expansions(wanted: Wanted, smaller: Smaller) -> Iterator[tuple[Recipe, int]]:
    """Recipes made of known smaller topologies, with the least steps each can have."""
    n, d, links = wanted.servers, wanted.degree, wanted.links
    if links is LinkDirection.UNIDIRECTIONAL and d > 1 and n % d == 0 and n > d:
        for part in smaller(Wanted(n // d, d, links)):
            yield line_graph_of(part.recipe), part.steps + 1
    for copies in range(2, d + 1):
        if n % copies == 0 and d % copies == 0 and n // copies > 1:
            for part in smaller(Wanted(n // copies, d // copies, links)):
                yield {"family": "degree-expansion", "of": part.recipe, "copies": copies}, part.steps
    for size in range(2, math.isqrt(n) + 1):
        if n % size:
            continue
        for degree in range(1, d):
            for left in smaller(Wanted(size, degree, links)):
                for right in smaller(Wanted(n // size, d - degree, links)):
                    steps = left.steps + right.steps
                    yield {"family": "product", "factors": [left.recipe, right.recipe]}, steps


def line_graph_of(part: Recipe) -> Recipe:
    """The line graph of a recipe; of a line graph, one more time."""
    if part["family"] == "line-graph":
        return {**part, "times": part.get("times", 1) + 1}
    return {"family": "line-graph", "of": part}


def cayley_recipe(found: CayleyDigraph, links: LinkDirection) -> Recipe:
    """As instance files state it."""
    group, generators = found.group, list(found.generators)
    if group.order == 1 and links is LinkDirection.UNIDIRECTIONAL:
        return {"family": "circulant", "servers": group.modulus, "offsets": generators, "links": links.value}
    sizes = {"modulus": group.modulus, "order": group.order, "twist": group.twist}
    return {"family": "cayley", **sizes, "generators": generators, "links": links.value}


def found_topologies(
    wanted: Wanted,
    smaller: Smaller,
    stop: Stop,
    *,
    known: Sequence[ScoredTopology] = (),
    visits: int,
    seed: int,
) -> list[ScoredTopology]:
    """The front of all that is known, made and searched.

    Where no network of the degree exists (an odd number of servers with an odd degree of fibre pairs), the best of one
    link less.

    Args:
        wanted: size, degree and links.
        smaller: answers for smaller sizes, which are expanded.
        stop: ends the search early.
        known: what is known of this size.
        visits: links that the search among Cayley digraphs follows; 0: none.
        seed: of this search.

    Raises:
        ValueError: so few links cannot connect the servers.
    """
    limits = topology_limits(wanted)
    best = front(known)

    def take(recipe: Recipe) -> None:
        nonlocal best
        one = scored(recipe, wanted, best)
        best = front([*best, one]) if one else best

    for recipe in two_way_recipes(wanted):
        take(recipe)
    if visits and wanted.degree < min(wanted.servers, MOST_DEGREE + 1) and not _optimal(best, limits):
        sizes = wanted.servers, wanted.degree, wanted.links
        most_steps = 2 * limits.steps + FURTHER_STEPS
        for digraph in search_cayley(*sizes, stop, visits=visits, most_steps=most_steps, seed=seed):
            if not any(one.steps <= digraph.steps and one.bandwidth <= digraph.bandwidth for one in best):
                take(cayley_recipe(digraph, wanted.links))
    for recipe in one_way_recipes(wanted):
        take(recipe)
    if visits and wanted.links is LinkDirection.BIDIRECTIONAL and not _optimal(best, limits):
        for graph in search_haar(wanted.servers, wanted.degree, stop, visits=visits, seed=seed):
            if any(one.steps < graph.steps and one.bandwidth == limits.bandwidth for one in best):
                break
            modulus, order, twist = graph.group
            made = {"modulus": modulus, "order": order, "twist": twist, "generators": list(graph.generators)}
            take({"family": "haar", **made})
    for recipe, steps in expansions(wanted, smaller):
        if stop.reason() is None and not adds_nothing(best, steps, limits):
            take(recipe)
    if not best and wanted.degree > 1:
        fewer = replace(wanted, degree=wanted.degree - 1)
        parts = found_topologies(fewer, smaller, stop, visits=visits, seed=seed)
        best = front(one for part in parts if (one := scored(part.recipe, wanted)))
    return best


def _optimal(best: Sequence[ScoredTopology], limits: TopologyLimits) -> bool:
    """Whether one is proven best in everything."""
    return any(
        one.steps == limits.steps
        and one.bandwidth == limits.bandwidth
        and one.all_to_all >= limits.all_to_all * (1 - 1e-7)
        for one in best
    )
