"""Topologies by family name: literal table of builders, each from a few parameters to unit arcs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.files.faults import nearest_text, value_text
from topoopt.files.topology_builders import (
    Arcs,
    Parameters,
    circulant,
    complete,
    complete_bipartite,
    generalized_kautz,
    hypercube,
    random_regular,
    refused,
    ring,
    torus,
)

MAX_ARCS = 1_000_000


@dataclass(frozen=True)
class TopologyFamily:
    """A line of the table.

    Attributes:
        name: in files.
        needs: keys that must be there.
        directions: kinds of link it comes in, the default first.
        count: number of servers.
        arcs_bound: upper bound on the number of arcs, known before any is made.
        build: its arcs.
    """

    name: str
    needs: tuple[str, ...]
    directions: tuple[LinkDirection, ...]
    count: Callable[[Parameters], int]
    arcs_bound: Callable[[Parameters], int]
    build: Callable[[Parameters], Arcs]


BOTH = (LinkDirection.BIDIRECTIONAL, LinkDirection.UNIDIRECTIONAL)
PAIRS = (LinkDirection.BIDIRECTIONAL,)
SINGLE = (LinkDirection.UNIDIRECTIONAL,)


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
            "generalized-kautz",
            ("servers", "degree"),
            SINGLE,
            lambda p: p.servers,
            lambda p: p.servers * p.degree,
            generalized_kautz,
        ),
        TopologyFamily(
            "random-regular",
            ("servers", "degree"),
            BOTH,
            lambda p: p.servers,
            lambda p: p.servers * p.degree,
            random_regular,
        ),
    )
}


def family_arcs(
    name: str, values: Mapping[str, Any], *, seed: int, max_servers: int
) -> tuple[int, LinkDirection, Arcs]:
    """Servers, kind of links and arcs of a family.

    Args:
        name: of the family.
        values: keys given, without None.
        seed: of random families that state none.
        max_servers: more are refused before anything is built.

    Raises:
        InputError: unknown family, a missing or a needless key, sizes out of range; paths are keys.
    """
    if name not in FAMILIES:
        raise refused("no such family", "family", value_text(name), nearest_text(name, FAMILIES))
    family = FAMILIES[name]
    optional = {"links", "seed"} if name == "random-regular" else {"links"}
    problems = [Problem(f"missing, {name} needs it", path=key) for key in family.needs if key not in values]
    needless = [key for key in values if key not in optional and key not in family.needs]
    allowed = ", ".join((*family.needs, *sorted(optional)))
    problems += [Problem(f"{name} has no such key", path=key, allowed=allowed) for key in needless]
    links = LinkDirection(values.get("links", family.directions[0]))
    if links not in family.directions:
        only = " or ".join(direction.value for direction in family.directions)
        problems.append(Problem(f"{name} comes in other links", path="links", value=links.value, allowed=only))
    if problems:
        raise InputError(problems)
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items() if key != "links"}
    fields: dict[str, Any] = {"seed": seed, **given, "links": links}
    parameters = Parameters(**fields)
    key = family.needs[0]
    servers = family.count(parameters)
    if not 2 <= servers <= max_servers:
        raise refused("this many servers", key, servers, f"2 to {max_servers} servers")
    if family.arcs_bound(parameters) > MAX_ARCS:
        raise refused("too many links", family.needs[-1], family.arcs_bound(parameters), f"at most {MAX_ARCS} links")
    return servers, links, family.build(parameters)
