"""Topologies by family name: literal table of builders, each from a few parameters to unit arcs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.core.graph_expansions import UnitGraph
from topoopt.files.faults import nearest_text, value_text
from topoopt.files.findings import within
from topoopt.files.topology_builders import (
    Arcs,
    Parameters,
    cayley,
    circulant,
    complete,
    complete_bipartite,
    de_bruijn,
    degree_expansion,
    generalized_kautz,
    haar,
    hypercube,
    line_arcs,
    line_graph,
    line_servers,
    mesh,
    product,
    product_arcs,
    random_regular,
    refused,
    ring,
    torus,
)
from topoopt.files.topology_named import DISTANCE_REGULAR, distance_regular

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
            "mesh",
            ("dims",),
            PAIRS,
            lambda p: math.prod(p.dims),
            lambda p: 2 * len(p.dims) * math.prod(p.dims),
            mesh,
        ),
        TopologyFamily("generalized-kautz", *BY_DEGREE, generalized_kautz, ("loops",)),
        TopologyFamily("de-bruijn", *BY_DEGREE, de_bruijn, ("loops",)),
        TopologyFamily(
            "random-regular",
            ("servers", "degree"),
            BOTH,
            _servers,
            _times_degree,
            random_regular,
            ("seed",),
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
            lambda p: DISTANCE_REGULAR[p.graph].servers,
            lambda p: DISTANCE_REGULAR[p.graph].servers * DISTANCE_REGULAR[p.graph].degree,
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
    known = DISTANCE_REGULAR if name == "distance-regular" else None
    if known is not None and given["graph"] not in known:
        raise refused("no such graph", "graph", value_text(given["graph"]), nearest_text(given["graph"], known))
    factors = []
    for place, part in enumerate(parts):
        path = "of" if "of" in values else f"factors[{place}]"
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
    """Kind of links, when all keys are as they should be."""
    optional = {*family.may, *(("links",) if family.directions else ())}
    problems = [Problem(f"missing, {family.name} needs it", path=key) for key in family.needs if key not in values]
    needless = [key for key in values if key not in optional and key not in family.needs]
    allowed = ", ".join((*family.needs, *sorted(optional)))
    problems += [Problem(f"{family.name} has no such key", path=key, allowed=allowed) for key in needless]
    links = LinkDirection(values.get("links", (*family.directions, LinkDirection.UNIDIRECTIONAL)[0]))
    if family.directions and links not in family.directions:
        only = " or ".join(direction.value for direction in family.directions)
        problems.append(Problem(f"{family.name} comes in other links", path="links", value=links.value, allowed=only))
    if problems:
        raise InputError(problems)
    return links


def family_text(name: str, values: Mapping[str, Any]) -> str:
    """A family with its sizes, for people."""

    def text(value: Any) -> str:
        if isinstance(value, Mapping):
            own = {key: inner for key, inner in value.items() if key != "family" and inner is not None}
            return family_text(str(value.get("family")), own)
        return f"[{', '.join(map(text, value))}]" if isinstance(value, list | tuple) else str(value)

    return f"{name} ({', '.join(f'{key} {text(value)}' for key, value in values.items())})"
