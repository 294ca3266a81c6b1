"""Topologies by family name: a literal table of builders makes unit arcs of a few parameters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.topology import (
    SemidirectGroup,
    UnitGraph,
    cartesian_product,
    copied,
    de_bruijn_arcs,
    haar_arcs,
    kautz_arcs,
    line_digraph,
    mesh_arcs,
    strongly_connected,
    torus_steps,
)
from topoopt.files.issues import nearest_text, value_text
from topoopt.files.reader_fields import within

if TYPE_CHECKING:
    import networkx as nx


if TYPE_CHECKING:
    Graph = nx.Graph[Any]


NamedGraph = tuple[int, int, "Callable[[], Graph]"]
"""Servers, links of each, and how the graph is made."""


def _by_name(function: str) -> Graph:
    import networkx

    made: Graph = getattr(networkx, function)()
    return made


def _lcf(servers: int, shifts: list[int]) -> Graph:
    """A Hamiltonian cubic graph by the chords along its cycle (Lederberg, Coxeter and Frucht)."""
    import networkx

    made: Graph = networkx.LCF_graph(servers, shifts, servers // len(shifts))
    return made


def _line(of: Callable[[], Graph]) -> Graph:
    import networkx

    made: Graph = networkx.line_graph(of())
    return made


def _plane(difference_set: tuple[int, ...], points: int) -> Graph:
    """Points and lines of a projective plane: point i is on line i - s for all s of a difference set (Singer 1938)."""
    import networkx

    return networkx.Graph((i, points + (i - s) % points) for i in range(points) for s in difference_set)


def _disjoint(elements: int, size: int) -> Graph:
    """Kneser graph: sets of so many of the elements, linked where they are disjoint; n = 2 k + 1: an odd graph."""
    import networkx

    sets = list(itertools.combinations(range(elements), size))
    return networkx.Graph((a, b) for a, b in itertools.combinations(sets, 2) if not set(a) & set(b))


def _folded_cube(dimension: int) -> Graph:
    """Hypercube whose opposite corners are one."""
    import networkx

    n = 1 << (dimension - 1)
    steps = [*(1 << bit for bit in range(dimension - 1)), n - 1]
    return networkx.Graph((x, x ^ step) for x in range(n) for step in steps)


_PETERSEN = partial(_by_name, "petersen_graph")
_HEAWOOD = partial(_by_name, "heawood_graph")
_CAGE_8 = partial(_lcf, 30, [-13, -9, 7, -7, 9, 13])

DISTANCE_REGULAR: Mapping[str, NamedGraph] = {
    "petersen": (10, 3, _PETERSEN),
    "heawood": (14, 3, _HEAWOOD),
    "pappus": (18, 3, partial(_by_name, "pappus_graph")),
    "desargues": (20, 3, partial(_by_name, "desargues_graph")),
    "dodecahedron": (20, 3, partial(_by_name, "dodecahedral_graph")),
    "tutte-8-cage": (30, 3, _CAGE_8),
    "tutte-12-cage": (
        126,
        3,
        partial(_lcf, 126, [17, 27, -13, -59, -35, 35, -11, 13, -53, 53, -27, 21, 57, 11, -21, -57, 59, -17]),
    ),
    "octahedron": (6, 4, partial(_by_name, "octahedral_graph")),
    "line-petersen": (15, 4, partial(_line, _PETERSEN)),
    "line-heawood": (21, 4, partial(_line, _HEAWOOD)),
    "line-tutte-8-cage": (45, 4, partial(_line, _CAGE_8)),
    "odd-4": (35, 4, partial(_disjoint, 7, 3)),
    "odd-5": (126, 5, partial(_disjoint, 9, 4)),
    "icosahedron": (12, 5, partial(_by_name, "icosahedral_graph")),
    "clebsch": (16, 5, partial(_folded_cube, 5)),
    "folded-6-cube": (32, 6, partial(_folded_cube, 6)),
    "folded-7-cube": (64, 7, partial(_folded_cube, 7)),
    "hoffman-singleton": (50, 7, partial(_by_name, "hoffman_singleton_graph")),
    "projective-plane-3": (26, 4, partial(_plane, (0, 1, 3, 9), 13)),
    "projective-plane-4": (42, 5, partial(_plane, (0, 1, 4, 14, 16), 21)),
    "projective-plane-5": (62, 6, partial(_plane, (0, 1, 3, 8, 12, 18), 31)),
    "projective-plane-7": (114, 8, partial(_plane, (0, 1, 3, 13, 32, 36, 43, 52), 57)),
}
"""By name; planes by the number of points of a line, less one."""


def distance_regular(name: str) -> Ints:
    """int64[m, 2], the links of a graph of the table both ways."""
    import networkx

    graph = networkx.convert_node_labels_to_integers(DISTANCE_REGULAR[name][2](), ordering="sorted")
    pairs = np.array(sorted(graph.edges()), dtype=np.int64)
    return np.concatenate((pairs, pairs[:, ::-1]))


Arcs = Ints
"""int64[m, 2], rows (tail, head), one for each unit link and direction; repeated rows are parallel links."""

ATTEMPTS = 100


@dataclass(frozen=True)
class Parameters:
    """What a family may need; what it does not need is None."""

    links: LinkDirection
    servers: int = 0
    degree: int = 0
    dims: tuple[int, ...] = ()
    dimension: int = 0
    sides: tuple[int, int] = (0, 0)
    offsets: tuple[int, ...] = ()
    seed: int = 0
    loops: str = "joined"
    graph: str = ""
    modulus: int = 1
    order: int = 1
    twist: int = 1
    generators: tuple[int, ...] = ()
    times: int = 1
    copies: int = 1
    factors: tuple[UnitGraph, ...] = ()

    @property
    def of(self) -> UnitGraph:
        """The one network that is expanded."""
        return self.factors[0]


def refused(message: str, key: str, value: object, allowed: str) -> InputError:
    return InputError([Problem(message, path=key, value=str(value), allowed=allowed)])


def _both_directions(pairs: Arcs) -> Arcs:
    return np.concatenate((pairs, pairs[:, ::-1]))


def ring(p: Parameters) -> Arcs:
    """Server i linked to i + 1 modulo n."""
    return circulant(Parameters(p.links, servers=p.servers, offsets=(1,)))


def circulant(p: Parameters) -> Arcs:
    """Server i linked to i + o modulo n for every offset o; bidirectional links go back as well.

    The antipodal offset n / 2 of bidirectional links takes one interface of each server, not two.
    """
    n, start = p.servers, np.arange(p.servers, dtype=np.int64)
    bad = [offset for offset in p.offsets if offset % n == 0]
    if bad:
        raise refused("this offset links a server to itself", "offsets", bad[0], f"not a multiple of {n}")
    parts = []
    for offset in p.offsets:
        forward = np.column_stack((start, (start + offset) % n))
        once = p.links is LinkDirection.UNIDIRECTIONAL or 2 * offset % n == 0
        parts.append(forward if once else _both_directions(forward))
    return np.concatenate(parts)


def torus(p: Parameters) -> Arcs:
    """Grid with wrap-around links, servers numbered with the last axis fastest; an axis of two has a single link."""
    here = np.arange(math.prod(p.dims), dtype=np.int64)
    parts = []
    for size, step in zip(p.dims, torus_steps(p.dims), strict=True):
        forward = np.column_stack((here, step))
        parts.append(forward if size == 2 or p.links is LinkDirection.UNIDIRECTIONAL else _both_directions(forward))
    return np.concatenate(parts)


def hypercube(p: Parameters) -> Arcs:
    """Servers whose numbers differ in one bit are linked."""
    return torus(Parameters(p.links, dims=(2,) * p.dimension))


def complete_bipartite(p: Parameters) -> Arcs:
    """Every server of the first side linked to every one of the second."""
    left, right = p.sides
    pairs = np.array(list(itertools.product(range(left), range(left, left + right))), dtype=np.int64)
    return _both_directions(pairs)


def complete(p: Parameters) -> Arcs:
    tail, head = np.nonzero(~np.eye(p.servers, dtype=bool))
    return np.column_stack((tail, head)).astype(np.int64)


def mesh(p: Parameters) -> Arcs:
    """Grid without wrap-around links, servers numbered with the last axis fastest."""
    return mesh_arcs(p.dims)


def generalized_kautz(p: Parameters) -> Arcs:
    """Generalized Kautz graph (`topoopt.core.topology.kautz_arcs`)."""
    _fewer_than_servers(p)
    return kautz_arcs(p.servers, p.degree, joined=p.loops == "joined")


def de_bruijn(p: Parameters) -> Arcs:
    """Generalized de Bruijn graph (`topoopt.core.topology.de_bruijn_arcs`)."""
    _fewer_than_servers(p)
    return de_bruijn_arcs(p.servers, p.degree, joined=p.loops == "joined")


def _fewer_than_servers(p: Parameters) -> None:
    if not p.degree < p.servers:
        raise refused("the rule needs fewer links than servers", "degree", p.degree, f"at most {p.servers - 1}")


def _group(p: Parameters) -> SemidirectGroup:
    try:
        return SemidirectGroup(p.modulus, p.order, p.twist)
    except ValueError as error:
        raise refused(str(error), "twist", p.twist, "twist^order is 1 modulo modulus; 1 always is") from None


def haar(p: Parameters) -> Arcs:
    """Haar graph of a semidirect product (`topoopt.core.topology.haar_arcs`)."""
    group = _group(p)
    wrong = [s for s in p.generators if not 0 <= s < group.elements]
    if wrong or len(set(p.generators)) < len(p.generators):
        value = wrong[0] if wrong else p.generators
        raise refused("not different elements", "generators", value, f"each of 0 to {group.elements - 1} once at most")
    return haar_arcs(group, p.generators)


def cayley(p: Parameters) -> Arcs:
    """Cayley digraph of a semidirect product (`topoopt.core.topology`); fibre pairs need generators and inverses."""
    group = _group(p)
    wrong = [s for s in p.generators if not 1 <= s < group.elements]
    if wrong:
        raise refused("not a generator", "generators", wrong[0], f"1 to {group.elements - 1}; 0 is the identity")
    if p.links is LinkDirection.BIDIRECTIONAL:
        count = p.generators.count
        alone = [s for s in p.generators if count(s) != count(group.inverse(s))]
        if alone:
            text = f"fibre pairs need as many of its inverse {group.inverse(alone[0])}"
            raise refused(text, "generators", alone[0], "sets closed under inversion, or unidirectional links")
    return group.arcs(p.generators)


def line_graph(p: Parameters) -> Arcs:
    """The line digraph, so many times over."""
    graph = p.of
    for _ in range(p.times):
        graph = line_digraph(graph)
    return graph.arcs


def degree_expansion(p: Parameters) -> Arcs:
    """Every server in so many copies, each linked to all copies of its neighbours."""
    return copied(p.of, p.copies).arcs


def product(p: Parameters) -> Arcs:
    """The Cartesian product of several networks; of a network with itself: a Cartesian power."""
    whole = p.factors[0]
    for factor in p.factors[1:]:
        whole = cartesian_product(whole, factor)
    return whole.arcs


def line_servers(p: Parameters) -> int:
    """Servers of a line digraph, without making it: walks of as many links."""
    arcs, n = p.of.arcs, p.of.servers
    walks: Floats = np.ones(n)
    for _ in range(p.times):
        walks = np.asarray(np.bincount(arcs[:, 0], walks[arcs[:, 1]], n), dtype=np.float64)
    return int(min(walks.sum(), 2.0**60))


def line_arcs(p: Parameters) -> int:
    """Links of a line digraph, without making it."""
    return line_servers(replace(p, times=p.times + 1))


def product_arcs(p: Parameters) -> int:
    """Links of a product, without making it."""
    servers = math.prod(factor.servers for factor in p.factors)
    return sum(servers // factor.servers * len(factor.arcs) for factor in p.factors)


def random_regular(p: Parameters) -> Arcs:
    """A connected graph in which every server has d links, none parallel, drawn at random.

    Bidirectional: uniform d-regular graphs (networkx). Unidirectional: d random permutations without common arcs.
    """
    n, d = p.servers, p.degree
    if not d < n:
        raise refused("too many links without parallel ones", "degree", d, f"at most {n - 1}")
    if p.links is LinkDirection.BIDIRECTIONAL and (n * d) % 2:
        raise refused("servers times degree must be even", "degree", d, "an even degree, or an even number of servers")
    draw = np.random.default_rng(p.seed)
    make = _regular_pairs if p.links is LinkDirection.BIDIRECTIONAL else _regular_arcs
    for _ in range(ATTEMPTS):
        arcs = make(n, d, draw)
        if arcs is not None and strongly_connected(n, arcs):
            return arcs
    raise refused(f"no connected graph in {ATTEMPTS} attempts", "degree", d, "a larger degree")


def _regular_pairs(n: int, d: int, draw: np.random.Generator) -> Arcs | None:
    import networkx as nx

    graph = nx.random_regular_graph(d, n, seed=int(draw.integers(2**31)))
    return _both_directions(np.array(sorted(graph.edges()), dtype=np.int64).reshape(-1, 2))


def _regular_arcs(n: int, d: int, draw: np.random.Generator) -> Arcs | None:
    """One permutation after another; a clash is mended by exchanging heads with random other servers."""
    taken = np.eye(n, dtype=bool)
    start = np.arange(n)
    for _ in range(d):
        head = draw.permutation(n)
        for _ in range(50 * n):
            clash = np.flatnonzero(taken[start, head])
            if not len(clash):
                break
            clashing, other = int(clash[0]), int(draw.integers(n))
            head[[clashing, other]] = head[[other, clashing]]
        if taken[start, head].any():
            return None
        taken[start, head] = True
    np.fill_diagonal(taken, False)
    return np.argwhere(taken).astype(np.int64)


MAX_ARCS = 1_000_000


@dataclass(frozen=True)
class TopologyFamily:
    """A line of the table.

    Attributes:
        name: in files.
        needs: keys that must be there.
        directions: kinds of link it comes in, the default first; none: those of what it is made of.
        count: number of servers.
        arcs_bound: upper bound on the number of arcs, known before any is made.
        build: its arcs.
        may: keys that may be there.
    """

    name: str
    needs: tuple[str, ...]
    directions: tuple[LinkDirection, ...]
    count: Callable[[Parameters], int]
    arcs_bound: Callable[[Parameters], int]
    build: Callable[[Parameters], Arcs]
    may: tuple[str, ...] = ()


BOTH = (LinkDirection.BIDIRECTIONAL, LinkDirection.UNIDIRECTIONAL)
PAIRS = (LinkDirection.BIDIRECTIONAL,)
SINGLE = (LinkDirection.UNIDIRECTIONAL,)


def _servers(p: Parameters) -> int:
    return p.servers


def _times_degree(p: Parameters) -> int:
    return p.servers * p.degree


BY_DEGREE = (("servers", "degree"), SINGLE, _servers, _times_degree)
"""Needs, links, servers and most links of one-way graphs by size and degree."""


FAMILIES: Mapping[str, TopologyFamily] = {
    family.name: family
    for family in (
        TopologyFamily("ring", ("servers",), BOTH, lambda p: p.servers, lambda p: 2 * p.servers, ring),
        TopologyFamily(
            "torus", ("dims",), BOTH, lambda p: math.prod(p.dims), lambda p: 2 * len(p.dims) * math.prod(p.dims), torus
        ),
        TopologyFamily(
            "hypercube",
            ("dimension",),
            PAIRS,
            lambda p: 2**p.dimension,
            lambda p: p.dimension * 2**p.dimension,
            hypercube,
        ),
        TopologyFamily(
            "complete-bipartite",
            ("sides",),
            PAIRS,
            lambda p: sum(p.sides),
            lambda p: 2 * p.sides[0] * p.sides[1],
            complete_bipartite,
        ),
        TopologyFamily("complete", ("servers",), PAIRS, lambda p: p.servers, lambda p: p.servers**2, complete),
        TopologyFamily(
            "circulant",
            ("servers", "offsets"),
            BOTH,
            lambda p: p.servers,
            lambda p: 2 * p.servers * len(p.offsets),
            circulant,
        ),
        TopologyFamily(
            "mesh", ("dims",), PAIRS, lambda p: math.prod(p.dims), lambda p: 2 * len(p.dims) * math.prod(p.dims), mesh
        ),
        TopologyFamily("generalized-kautz", *BY_DEGREE, generalized_kautz, ("loops",)),
        TopologyFamily("de-bruijn", *BY_DEGREE, de_bruijn, ("loops",)),
        TopologyFamily(
            "random-regular", ("servers", "degree"), BOTH, _servers, _times_degree, random_regular, ("seed",)
        ),
        TopologyFamily(
            "cayley",
            ("modulus", "order", "twist", "generators"),
            (LinkDirection.UNIDIRECTIONAL, LinkDirection.BIDIRECTIONAL),
            lambda p: p.modulus * p.order,
            lambda p: p.modulus * p.order * len(p.generators),
            cayley,
        ),
        TopologyFamily(
            "haar",
            ("modulus", "order", "twist", "generators"),
            PAIRS,
            lambda p: 2 * p.modulus * p.order,
            lambda p: 4 * p.modulus * p.order * len(p.generators),
            haar,
        ),
        TopologyFamily(
            "distance-regular",
            ("graph",),
            PAIRS,
            lambda p: DISTANCE_REGULAR[p.graph][0],
            lambda p: DISTANCE_REGULAR[p.graph][0] * DISTANCE_REGULAR[p.graph][1],
            lambda p: distance_regular(p.graph),
        ),
        TopologyFamily("line-graph", ("of",), (), line_servers, line_arcs, line_graph, ("times",)),
        TopologyFamily(
            "degree-expansion",
            ("of", "copies"),
            (),
            lambda p: p.of.servers * p.copies,
            lambda p: len(p.of.arcs) * p.copies**2,
            degree_expansion,
        ),
        TopologyFamily(
            "product",
            ("factors",),
            (),
            lambda p: math.prod(factor.servers for factor in p.factors),
            product_arcs,
            product,
        ),
    )
}

MOST_NESTED = 8


def family_arcs(name: str, values: Mapping[str, Any], *, seed: int, max_servers: int, nested: int = 0) -> UnitGraph:
    """Servers and arcs of a family.

    Args:
        name: of the family.
        values: keys given, without None.
        seed: of random families that state none.
        max_servers: more are refused before anything is built.
        nested: how deep in other families it stands.

    Raises:
        InputError: unknown family, a missing or a needless key, sizes out of range; paths are keys.
    """
    if name not in FAMILIES:
        raise refused("no such family", "family", value_text(name), nearest_text(name, FAMILIES))
    family = FAMILIES[name]
    links = _links(family, values)
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items() if key != "links"}
    if nested > MOST_NESTED:
        raise refused("too many families in each other", "family", name, f"at most {MOST_NESTED}")
    parts = given.pop("factors", (given.pop("of"),) if "of" in given else ())
    graphs = DISTANCE_REGULAR if name == "distance-regular" else None
    if graphs is not None and given["graph"] not in graphs:
        raise refused("no such graph", "graph", value_text(given["graph"]), nearest_text(given["graph"], graphs))
    factors = []
    for index, part in enumerate(parts):
        path = "of" if "of" in values else f"factors[{index}]"
        inner = {key: value for key, value in part.items() if key != "family" and value is not None}
        factors.append(
            within(
                path,
                partial(family_arcs, part.get("family"), inner, seed=seed, max_servers=max_servers, nested=nested + 1),
            )
        )
    fields: dict[str, Any] = {"seed": seed, **given, "links": links, "factors": tuple(factors)}
    parameters = Parameters(**fields)
    key = family.needs[0]
    servers = family.count(parameters)
    if not 2 <= servers <= max_servers:
        raise refused("this many servers", key, servers, f"2 to {max_servers} servers")
    if family.arcs_bound(parameters) > MAX_ARCS:
        raise refused("too many links", family.needs[-1], family.arcs_bound(parameters), f"at most {MAX_ARCS} links")
    return UnitGraph(servers, family.build(parameters))


def _links(family: TopologyFamily, values: Mapping[str, Any]) -> LinkDirection:
    optional = {*family.may, *(("links",) if family.directions else ())}
    problems = [Problem(f"missing, {family.name} needs it", path=key) for key in family.needs if key not in values]
    needless = [key for key in values if key not in optional and key not in family.needs]
    allowed = ", ".join((*family.needs, *sorted(optional)))
    problems += [Problem(f"{family.name} has no such key", path=key, allowed=allowed) for key in needless]
    links = LinkDirection(values.get("links", (*family.directions, LinkDirection.UNIDIRECTIONAL)[0]))
    if family.directions and links not in family.directions:
        only = " or ".join(direction.value for direction in family.directions)
        problems.append(Problem(f"{family.name} comes in other links", path="links", value=links.value, allowed=only))
    raise_any(problems)
    return links


def family_text(name: str, values: Mapping[str, Any]) -> str:
    """A family with its sizes, for people."""

    def text(value: Any) -> str:
        if isinstance(value, Mapping):
            own = {key: inner for key, inner in value.items() if key != "family" and inner is not None}
            return family_text(str(value.get("family")), own)
        return f"[{', '.join(map(text, value))}]" if isinstance(value, list | tuple) else str(value)

    return f"{name} ({', '.join(f'{key} {text(value)}' for key, value in values.items())})"
