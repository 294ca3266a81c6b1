"""Regular and other well-known graphs, and larger ones made of them, as lists of unit arcs."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.cayley import SemidirectGroup, haar_arcs
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.core.graph_expansions import UnitGraph, cartesian_product, copied, line_digraph
from topoopt.core.reachability import strongly_connected
from topoopt.core.regular_graphs import de_bruijn_arcs, kautz_arcs, mesh_arcs, torus_steps

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


def _two_way(pairs: Arcs) -> Arcs:
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
        parts.append(forward if once else _two_way(forward))
    return np.concatenate(parts)


def torus(p: Parameters) -> Arcs:
    """Grid with wrap-around links, servers numbered with the last axis fastest; an axis of two has a single link."""
    here = np.arange(math.prod(p.dims), dtype=np.int64)
    parts = []
    for size, step in zip(p.dims, torus_steps(p.dims), strict=True):
        forward = np.column_stack((here, step))
        parts.append(forward if size == 2 or p.links is LinkDirection.UNIDIRECTIONAL else _two_way(forward))
    return np.concatenate(parts)


def hypercube(p: Parameters) -> Arcs:
    """Servers whose numbers differ in one bit are linked."""
    return torus(Parameters(p.links, dims=(2,) * p.dimension))


def complete_bipartite(p: Parameters) -> Arcs:
    """Every server of the first side linked to every one of the second."""
    left, right = p.sides
    pairs = np.array(list(itertools.product(range(left), range(left, left + right))), dtype=np.int64)
    return _two_way(pairs)


def complete(p: Parameters) -> Arcs:
    """Every server linked to every other."""
    tail, head = np.nonzero(~np.eye(p.servers, dtype=bool))
    return np.column_stack((tail, head)).astype(np.int64)


def mesh(p: Parameters) -> Arcs:
    """Grid without wrap-around links, servers numbered with the last axis fastest."""
    return mesh_arcs(p.dims)


def generalized_kautz(p: Parameters) -> Arcs:
    """Generalized Kautz graph (`topoopt.core.regular_graphs.kautz_arcs`)."""
    _fewer_than_servers(p)
    return kautz_arcs(p.servers, p.degree, joined=p.loops == "joined")


def de_bruijn(p: Parameters) -> Arcs:
    """Generalized de Bruijn graph (`topoopt.core.regular_graphs.de_bruijn_arcs`)."""
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
    """Haar graph of a semidirect product (`topoopt.core.cayley.haar_arcs`)."""
    group = _group(p)
    wrong = [s for s in p.generators if not 0 <= s < group.elements]
    if wrong or len(set(p.generators)) < len(p.generators):
        value = wrong[0] if wrong else p.generators
        raise refused("not different elements", "generators", value, f"each of 0 to {group.elements - 1} once at most")
    return haar_arcs(group, p.generators)


def cayley(p: Parameters) -> Arcs:
    """Cayley digraph of a semidirect product (`topoopt.core.cayley`); fibre pairs need generators and inverses."""
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
    return _two_way(np.array(sorted(graph.edges()), dtype=np.int64).reshape(-1, 2))


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
            one, other = int(clash[0]), int(draw.integers(n))
            head[[one, other]] = head[[other, one]]
        if taken[start, head].any():
            return None
        taken[start, head] = True
    np.fill_diagonal(taken, False)
    return np.argwhere(taken).astype(np.int64)
