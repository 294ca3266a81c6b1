"""Regular and other well-known graphs as lists of unit arcs."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.core.regular_graphs import kautz_arcs, torus_steps

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


def generalized_kautz(p: Parameters) -> Arcs:
    """Generalized Kautz graph (`topoopt.core.regular_graphs.kautz_arcs`)."""
    if not p.degree < p.servers:
        raise refused("the rule needs fewer links than servers", "degree", p.degree, f"at most {p.servers - 1}")
    return kautz_arcs(p.servers, p.degree)


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


def strongly_connected(n: int, arcs: Arcs) -> bool:
    """Whether a way leads from every server to every other."""
    return unreachable_pair(n, arcs) is None


def unreachable_pair(n: int, arcs: Arcs) -> tuple[int, int] | None:
    """An ordered pair without a way from the first to the second, None if there is none such."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    forward = csr_array((np.ones(len(arcs), dtype=np.int8), (arcs[:, 0], arcs[:, 1])), shape=(n, n))
    for matrix, backwards in ((forward, False), (csr_array(forward.T), True)):
        reached = breadth_first_order(matrix, 0, return_predecessors=False)
        missing = np.setdiff1d(np.arange(n), reached)
        if len(missing):
            return (int(missing[0]), 0) if backwards else (0, int(missing[0]))
    return None
