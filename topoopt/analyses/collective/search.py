"""Topologies for collectives are taken from the atlas or searched for, scored by steps and bandwidth, and shown as a
front.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from solvers.collective.breadth_first import MOST_DEGREE, GroupGraph, search_cayley, search_haar, step_loads
from solvers.collective.plans import shortest_path_rate
from solvers.stop import Stop
from topoopt.core.arrays import Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem
from topoopt.core.process import versions_text
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.topology import SemidirectGroup, Topology, UnitGraph, moore_bound
from topoopt.files.atomic import csv_text, write_text_atomically
from topoopt.files.codec import MAX_SERVERS
from topoopt.files.topology_families import DISTANCE_REGULAR, family_arcs
from topoopt.page.charts import Point, Series, legend, number_axis, xy_chart
from topoopt.page.networks import find_links, topology_svg
from topoopt.page.render import render_page
from topoopt.page.text import counted, number, percent

Recipe = Mapping[str, Any]
"""A section `topology` of instance files: a family with its sizes."""

ALIKE = frozenset(
    {"ring", "torus", "hypercube", "complete", "circulant", "cayley", "distance-regular", "complete-bipartite"}
)
"""Families that look the same from every server (bipartite ones with equal sides)."""
CLOSE = 1e-7
"""Relative difference of rates that does not count."""


@dataclass(frozen=True)
class Wanted:
    """Servers, links of each, and their kind."""

    servers: int
    degree: int
    links: LinkDirection


@dataclass(frozen=True)
class ScoredTopology:
    """A topology and its figures; a link has the rate 1.

    Attributes:
        recipe: how to build it.
        steps: T_L of breadth-first broadcasts, its diameter.
        bandwidth: T_B: a ReduceScatter or AllGather of M bytes takes T_L latencies and T_B M / (d b).
        all_to_all: rate of every ordered pair along shortest paths.
    """

    recipe: Recipe
    steps: int
    bandwidth: Fraction
    all_to_all: float

    def no_worse(self, other: ScoredTopology) -> bool:
        """Whether it is at least as good in all three."""
        return (
            self.steps <= other.steps
            and self.bandwidth <= other.bandwidth
            and self.all_to_all >= other.all_to_all * (1 - CLOSE)
        )


@dataclass(frozen=True)
class TopologyLimits:
    """Bounds over all topologies of so many servers and links.

    Attributes:
        steps: Moore bound.
        bandwidth: (N - 1) / N, as N - 1 shards must come over d links.
        all_to_all: d over the least sum of distances.
    """

    steps: int
    bandwidth: Fraction
    all_to_all: float


def topology_limits(wanted: Wanted) -> TopologyLimits:
    """The bounds.

    Raises:
        ValueError: so few links cannot connect the servers.
    """
    diameter, distances = moore_bound(wanted.servers, wanted.degree, wanted.links)
    n = wanted.servers
    return TopologyLimits(diameter, Fraction(n - 1, n), wanted.degree / distances)


def front(candidates: Iterable[ScoredTopology]) -> list[ScoredTopology]:
    """Those that no other is at least as good as, by steps; of equals the first."""
    kept: list[ScoredTopology] = []
    for candidate in candidates:
        if not any(other.no_worse(candidate) for other in kept):
            kept = [other for other in kept if not candidate.no_worse(other)] + [candidate]
    return sorted(kept, key=lambda candidate: (candidate.steps, candidate.bandwidth))


def built(recipe: Recipe) -> UnitGraph:
    """The topology of a recipe.

    Raises:
        InputError: there is none.
    """
    given = {key: value for key, value in recipe.items() if key != "family"}
    return family_arcs(recipe["family"], given, seed=0, max_servers=MAX_SERVERS)


def unit_network(graph: UnitGraph) -> RatedNetwork:
    """A network whose links all have rate 1."""
    links = [(tail, head, Fraction(1)) for tail, head in graph.arcs.tolist()]
    return RatedNetwork.of_links([False] * graph.servers, links)


def adds_nothing(best: Iterable[ScoredTopology], steps: int, limits: TopologyLimits) -> bool:
    """Whether one of these has no more steps and the best bandwidth factor there is; only All-to-All could gain."""
    return any(entry.steps <= steps and entry.bandwidth == limits.bandwidth for entry in best)


def scored(recipe: Recipe, wanted: Wanted, best: Sequence[ScoredTopology] = ()) -> ScoredTopology | None:
    """The figures of a recipe.

    None where it is not connected, has another number of servers, or more links, or adds nothing to the best.
    """
    graph = built(recipe)
    if graph.servers != wanted.servers:
        return None
    for side in range(2):
        if np.bincount(graph.arcs[:, side]).max() > wanted.degree:
            return None
    network = unit_network(graph)
    if wanted.links is LinkDirection.BIDIRECTIONAL:
        back = network.transposed()
        if not (np.array_equal(network.arcs, back.arcs) and np.array_equal(network.units, back.units)):
            return None
    if network.unreachable() is not None:
        return None
    if best and adds_nothing(best, diameter(network), topology_limits(wanted)):
        return None
    loads, distance = step_loads(network, alike=recipe["family"] in ALIKE)
    factor = Fraction(wanted.degree, graph.servers) * sum(loads)
    rate = shortest_path_rate(network, distance, generator_labels(recipe, network))
    return ScoredTopology(recipe, len(loads), factor, rate)


def diameter(network: RatedNetwork) -> int:
    """Most hops between two servers of a connected network."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    shape = (network.nodes, network.nodes)
    links = csr_array((np.ones(len(network.arcs)), (network.arcs[:, 0], network.arcs[:, 1])), shape=shape)
    return int(shortest_path(links, unweighted=True).max())


def generator_labels(recipe: Recipe, network: RatedNetwork) -> Ints | None:
    """int64[m], the generator that each arc of a Cayley digraph belongs to; None for other topologies."""
    tails, heads = network.arcs.T.astype(np.int64)
    if recipe["family"] in ("ring", "circulant"):
        generator = (heads - tails) % network.nodes
    elif recipe["family"] == "cayley":
        group = SemidirectGroup(recipe["modulus"], recipe["order"], recipe["twist"])
        inverses = np.array([group.inverse(x) for x in range(group.elements)])
        generator = group.products(inverses[tails], heads)
    else:
        return None
    return np.unique(generator, return_inverse=True)[1].astype(np.int64)


Smaller = Callable[[Wanted], Sequence[ScoredTopology]]
"""What is known of smaller sizes."""


def standard_topologies(wanted: Wanted) -> list[ScoredTopology]:
    recipes = [*bidirectional_recipes(wanted), *unidirectional_recipes(wanted)]
    return front(topology for recipe in recipes if (topology := scored(recipe, wanted)))


FURTHER_STEPS = 6
"""Steps above twice the Moore bound that a search looks at."""


def bidirectional_recipes(wanted: Wanted) -> Iterator[Recipe]:
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
        if graph[:2] == (n, d):
            yield {"family": "distance-regular", "graph": name}


def unidirectional_recipes(wanted: Wanted) -> Iterator[Recipe]:
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


def cayley_recipe(digraph: GroupGraph, links: LinkDirection) -> Recipe:
    group, generators = digraph.group, list(digraph.generators)
    if group.order == 1 and links is LinkDirection.UNIDIRECTIONAL:
        return {"family": "circulant", "servers": group.modulus, "offsets": generators, "links": links.value}
    sizes = {"modulus": group.modulus, "order": group.order, "twist": group.twist}
    return {"family": "cayley", **sizes, "generators": generators, "links": links.value}


def search_topologies(
    wanted: Wanted, smaller: Smaller, stop: Stop, *, published: Sequence[ScoredTopology] = (), visits: int, seed: int
) -> list[ScoredTopology]:
    """The front of all that is known, made and searched.

    Where no network of the degree exists (an odd number of servers with an odd degree of fibre pairs), the best of one
    link less.

    Args:
        wanted: size, degree and links.
        smaller: answers for smaller sizes, which are expanded.
        stop: ends the search early.
        published: what is known of this size.
        visits: links that the search among Cayley digraphs follows; 0: none.
        seed: of this search.

    Raises:
        ValueError: so few links cannot connect the servers.
    """
    limits = topology_limits(wanted)
    best = front(published)

    def take(recipe: Recipe) -> None:
        nonlocal best
        topology = scored(recipe, wanted, best)
        best = front([*best, topology]) if topology else best

    for recipe in bidirectional_recipes(wanted):
        take(recipe)
    if visits and wanted.degree < min(wanted.servers, MOST_DEGREE + 1) and not _optimal(best, limits):
        sizes = wanted.servers, wanted.degree, wanted.links
        most_steps = 2 * limits.steps + FURTHER_STEPS
        for digraph in search_cayley(*sizes, stop, visits=visits, most_steps=most_steps, seed=seed):
            if not any(entry.steps <= digraph.steps and entry.bandwidth <= digraph.bandwidth for entry in best):
                take(cayley_recipe(digraph, wanted.links))
    for recipe in unidirectional_recipes(wanted):
        take(recipe)
    if visits and wanted.links is LinkDirection.BIDIRECTIONAL and not _optimal(best, limits):
        for graph in search_haar(wanted.servers, wanted.degree, stop, visits=visits, seed=seed):
            if any(entry.steps < graph.steps and entry.bandwidth == limits.bandwidth for entry in best):
                break
            sizes_of_group = {"modulus": graph.group.modulus, "order": graph.group.order, "twist": graph.group.twist}
            made = {**sizes_of_group, "generators": list(graph.generators)}
            take({"family": "haar", **made})
    for recipe, steps in expansions(wanted, smaller):
        if stop.reason() is None and not adds_nothing(best, steps, limits):
            take(recipe)
    if not best and wanted.degree > 1:
        fewer = replace(wanted, degree=wanted.degree - 1)
        parts = search_topologies(fewer, smaller, stop, visits=visits, seed=seed)
        best = front(entry for part in parts if (entry := scored(part.recipe, wanted)))
    return best


def _optimal(best: Sequence[ScoredTopology], limits: TopologyLimits) -> bool:
    """Whether one is proven best in everything."""
    return any(
        entry.steps == limits.steps
        and entry.bandwidth == limits.bandwidth
        and entry.all_to_all >= limits.all_to_all * (1 - 1e-7)
        for entry in best
    )


FILE = "atlas.csv"
HEADER = ("servers", "degree", "links", "steps", "bandwidth", "all_to_all", "recipe")

Atlas = Mapping[Wanted, Sequence[ScoredTopology]]


def parsed_atlas(text: str) -> dict[Wanted, list[ScoredTopology]]:
    entries: dict[Wanted, list[ScoredTopology]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        wanted = Wanted(int(row["servers"]), int(row["degree"]), LinkDirection(row["links"]))
        entry = ScoredTopology(
            json.loads(row["recipe"]), int(row["steps"]), Fraction(row["bandwidth"]), float(row["all_to_all"])
        )
        entries.setdefault(wanted, []).append(entry)
    return entries


@lru_cache(maxsize=1)
def atlas() -> Atlas:
    return parsed_atlas((files(__package__) / FILE).read_text("utf-8"))


def smaller_optima(catalogue: Atlas) -> Callable[[Wanted], Sequence[ScoredTopology]]:
    """What an atlas says of a size, or what well-known topologies give where it says nothing."""
    made: dict[Wanted, Sequence[ScoredTopology]] = {}

    def smaller(wanted: Wanted) -> Sequence[ScoredTopology]:
        if wanted in catalogue:
            return catalogue[wanted]
        if wanted not in made:
            made[wanted] = standard_topologies(wanted)
        return made[wanted]

    return smaller


SEARCH_VISITS = 20_000_000
"""Links followed in the search of a size that the atlas has not."""


@dataclass(frozen=True)
class AllReduceCost:
    """What makes steps and bandwidth factors into times.

    Attributes:
        vector_bytes: M.
        link_gbytes_per_s: rate of one link, GB/s.
        step_us: latency of a step.
    """

    vector_bytes: int
    link_gbytes_per_s: float
    step_us: float

    def time_us(self, wanted: Wanted, topology: ScoredTopology) -> float:
        """AllReduce as a ReduceScatter and an AllGather: 2 T_L alpha + 2 T_B M / (d b)."""
        into = wanted.degree * self.link_gbytes_per_s
        return 2 * topology.steps * self.step_us + 2 * float(topology.bandwidth) * self.vector_bytes / into / 1e3


Preference = Callable[[ScoredTopology], Any]

PREFERENCES: Mapping[str, Preference] = {
    "steps": lambda score: (score.steps, score.bandwidth, -score.all_to_all),
    "bandwidth": lambda score: (score.bandwidth, score.steps, -score.all_to_all),
    "all-to-all": lambda score: (-score.all_to_all, score.steps, score.bandwidth),
}
"""What comes first; the others decide where that is equal."""


@dataclass(frozen=True)
class TopologyFront:
    """What was found for one size.

    Attributes:
        wanted: size, degree, links.
        limits: bounds over all topologies of the size.
        entries: the Pareto front, fewest steps first.
        searched: whether a search was made, or the atlas alone was asked.
        best: place in `entries` of the preferred one.
    """

    wanted: Wanted
    limits: TopologyLimits
    entries: tuple[ScoredTopology, ...]
    searched: bool
    best: int

    @property
    def preferred(self) -> ScoredTopology:
        """The one that was asked for."""
        return self.entries[self.best]


def find_front(
    wanted: Wanted, stop: Stop, *, visits: int | None, seed: int, preference: Preference = PREFERENCES["bandwidth"]
) -> TopologyFront:
    """The best known topologies of a size.

    Args:
        wanted: size, degree, links.
        stop: ends the search early.
        visits: links followed in a search beyond the atlas; None: a search where the atlas does not know the size.
        seed: of the search.
        preference: the smallest comes first.

    Raises:
        InputError: so few links cannot connect the servers, or more links than other servers.
        InfeasibleError: nothing was found.
    """
    if wanted.degree >= wanted.servers:
        allowed = f"1 to {wanted.servers - 1}"
        raise InputError(
            [Problem("more links than others", path="--degree", value=str(wanted.degree), allowed=allowed)]
        )
    try:
        limits = topology_limits(wanted)
    except ValueError as error:
        raise InputError([Problem(str(error), path="--degree", value=str(wanted.degree))]) from None
    catalogue = atlas()
    entries = list(catalogue.get(wanted, ()))
    searched = visits is not None or not entries
    if searched:
        effort = SEARCH_VISITS if visits is None else visits
        entries = search_topologies(
            wanted, smaller_optima(catalogue), stop, published=entries, visits=effort, seed=seed
        )
    if not entries and stop.reason() is not None:
        raise LimitError("nothing was found in time")
    if not entries:
        raise InfeasibleError(f"no connected network of {wanted.servers} servers with {wanted.degree} links was found")
    best = min(range(len(entries)), key=lambda index: preference(entries[index]))
    return TopologyFront(wanted, limits, tuple(entries), searched, best)


def recipe_text(recipe: Mapping[str, Any]) -> str:
    """As a section `topology` on one line, which commands and instance files take."""

    def text(value: Any) -> str:
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{key}: {text(inner)}" for key, inner in value.items()) + "}"
        return f"[{', '.join(map(text, value))}]" if isinstance(value, Sequence) and value != str(value) else str(value)

    return text(recipe)


def front_document(result: TopologyFront, cost: AllReduceCost | None) -> dict[str, Any]:
    """For programs; factors as text too."""
    wanted, limits = result.wanted, result.limits
    return {
        "kind": "collective-topologies",
        "servers": wanted.servers,
        "degree": wanted.degree,
        "links": wanted.links.value,
        "searched": result.searched,
        "limits": {
            "steps": limits.steps,
            "bandwidth_factor": str(limits.bandwidth),
            "all_to_all_rate": limits.all_to_all,
        },
        "front": [entry_document(result, entry, cost) for entry in result.entries],
        "best": result.best,
    }


def entry_document(result: TopologyFront, entry: ScoredTopology, cost: AllReduceCost | None) -> dict[str, Any]:
    """One topology, its figures, and how far each is from its bound."""
    limits = result.limits
    times = {} if cost is None else {"allreduce_us": cost.time_us(result.wanted, entry)}
    return {
        "steps": entry.steps,
        "bandwidth_factor": str(entry.bandwidth),
        "bandwidth_factor_value": float(entry.bandwidth),
        "all_to_all_rate": entry.all_to_all,
        "steps_above_moore": entry.steps - limits.steps,
        "bandwidth_gap": float(entry.bandwidth / limits.bandwidth - 1),
        "all_to_all_gap": max(1 - entry.all_to_all / limits.all_to_all, 0.0),
        **times,
        "topology": dict(entry.recipe),
        "topology_text": recipe_text(entry.recipe),
    }


def front_csv(result: TopologyFront, cost: AllReduceCost | None) -> str:
    rows = [entry_document(result, entry, cost) for entry in result.entries]
    header = [key for key in rows[0] if key != "topology"]
    return csv_text(header, ([row[key] for key in header] for row in rows))


def write_network(file: Path, entry: ScoredTopology, link_gbytes_per_s: float) -> None:
    """The topology as a network file (GraphML) that commands of collectives read.

    Raises:
        WriteError: it cannot be written.
    """
    import networkx as nx

    graph = built(entry.recipe)
    made: Any = nx.MultiDiGraph()
    made.add_nodes_from((str(node) for node in range(graph.servers)), role="rank")
    made.add_edges_from(((str(t), str(h)) for t, h in graph.arcs.tolist()), rate=link_gbytes_per_s)
    write_text_atomically(file, "\n".join(nx.generate_graphml(made)) + "\n")


def answer(result: TopologyFront) -> str:
    """Steps and bandwidth factor, each with its bound."""
    best, limits = result.preferred, result.limits
    steps = f"{counted(best.steps, 'step')} ({_least(best.steps <= limits.steps, str(limits.steps))})"
    factor = f"{best.bandwidth} ({_least(best.bandwidth <= limits.bandwidth, str(limits.bandwidth))})"
    size = f"{counted(result.wanted.servers, 'server')} with {counted(result.wanted.degree, 'link')} each"
    count = counted(len(result.entries), "topology", "topologies")
    return (
        f"Of {count} for {size}, of which none beats another in all, the preferred one broadcasts in {steps} at a "
        f"bandwidth factor of {factor}."
    )


def _least(reached: bool, bound: str) -> str:
    return "the least there can be" if reached else f"no topology has less than {bound}"


TEMPLATE = "analyses/collective/page.html.j2"
MOST_BUILT = 256
"""Servers up to which links can be told apart."""


def chart(result: TopologyFront) -> Markup:
    """Steps and bandwidth factor of every entry, and the bounds on both as a point of their own."""
    points = tuple(
        Point(entry.steps, float(entry.bandwidth), f"{entry.steps} steps, {entry.bandwidth}: {entry.recipe['family']}")
        for entry in result.entries
    )
    limits = result.limits
    bound = Point(limits.steps, float(limits.bandwidth), f"bounds: {limits.steps} steps, {limits.bandwidth}")
    series = (Series("topologies", points, line=True), Series("bounds", (bound,)))
    x = number_axis("steps", [point.x for entry in series for point in entry.points])
    y = number_axis("bandwidth factor", [point.y for entry in series for point in entry.points])
    return legend([entry.name for entry in series], series) + xy_chart(series, x, y, "Steps and bandwidth factor")


def front_rows(result: TopologyFront, cost: AllReduceCost | None) -> list[tuple[str, ...]]:
    """Every entry as texts: steps, factor, rate of All-to-All, each with its gap; time; recipe."""
    rows: list[tuple[str, ...]] = []
    for entry in result.entries:
        figures = entry_document(result, entry, cost)
        rows.append(
            (
                f"{entry.steps}",
                f"+{figures['steps_above_moore']}",
                str(entry.bandwidth),
                percent(figures["bandwidth_gap"]),
                number(entry.all_to_all),
                percent(figures["all_to_all_gap"]),
                number(figures["allreduce_us"]) if cost else "–",
                figures["topology_text"],
            )
        )
    return rows


def front_html(result: TopologyFront, cost: AllReduceCost | None) -> str:
    wanted = result.wanted
    picture = Markup("")
    if wanted.servers <= MOST_BUILT:
        graph = built(result.preferred.recipe)
        topology = Topology.of_arcs(graph.servers, graph.arcs, degree=None, origin="")
        drawn = find_links(topology)
        picture = topology_svg(topology, drawn, np.zeros(len(topology.arcs)), lambda _: "1 link")
    return render_page(
        TEMPLATE,
        answer(result),
        title=f"{wanted.servers} servers, {wanted.degree} links each",
        links="fibre pairs" if wanted.links.value == "bidirectional" else "single fibres",
        limits=result.limits,
        rate=number(result.limits.all_to_all),
        chart=chart(result),
        rows=front_rows(result, cost),
        best=result.best,
        picture=picture,
        versions=versions_text(),
    )
