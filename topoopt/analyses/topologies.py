"""Families of topologies are made, measured beside their bounds, and drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.core.topology import moore_bound
from topoopt.page.text import ROUNDING, SMALL, by_how_much, counted, number

MOST_SERVERS = 4096


Metrics = tuple[int, float, Any]
"""Distances over all ordered pairs of servers, largest and mean, and the rings of a circulant; else None."""


def _totient(servers: int, degree: int, links: LinkDirection, seed: int, *, selection: str) -> Metrics:
    from topoopt.library.topologies import totient

    result = totient(servers, degree, links.value, selection)
    return result.diameter, result.mean_hops, result


def _family(servers: int, degree: int, links: LinkDirection, seed: int, *, family: str) -> Metrics:
    from topoopt.files.sections import make_topology
    from topoopt.files.topology_families import family_arcs
    from topoopt.page.networks import diameter_and_mean_hops

    given = {"servers": servers, "degree": degree, "links": links.value}
    made = family_arcs(family, given, seed=seed, max_servers=MOST_SERVERS)
    diameter, mean_hops = diameter_and_mean_hops(make_topology(made.servers, made.arcs, None, family))
    if diameter is None or mean_hops is None:
        text = "not every server can reach every other"
        raise InputError([Problem(text, path="FAMILY", value=family, allowed="another seed or degree")])
    return diameter, mean_hops, None


def moore(servers: int, degree: int, links: LinkDirection, seed: int = 0) -> Metrics:
    """The Moore bound (`topoopt.core.topology.moore_bound`)."""
    try:
        diameter, distances = moore_bound(servers, degree, links)
    except ValueError:
        raise InputError(
            [Problem("this degree cannot connect so many servers", path="--degree", value=str(degree))]
        ) from None
    return diameter, distances / (servers - 1) if servers > 1 else 0.0, None


FAMILIES: Mapping[str, Callable[[int, int, LinkDirection, int], Metrics]] = {
    "totient": partial(_totient, selection="paper"),
    "totient-flexnet": partial(_totient, selection="flexnet"),
    "best-circulant": partial(_totient, selection="best"),
    "generalized-kautz": partial(_family, family="generalized-kautz"),
    "de-bruijn": partial(_family, family="de-bruijn"),
    "random-regular": partial(_family, family="random-regular"),
    "moore": moore,
}
"""Families by name. `totient`: nearest distances to a geometric sequence (NSDI'23); `best-circulant`: ring distances of
least diameter, exhaustive or by seeded search; `moore`: the bound."""


def answer(family: str, servers: int, degree: int, result: Metrics, links: LinkDirection) -> str:
    """Diameter and mean hops in one sentence, each beside the least that the Moore bound allows."""
    most, mean_hops, _ = result
    least_most, least_mean, _ = moore(servers, degree, links)
    size = f"{counted(servers, 'server')} with {counted(degree, 'interface')} each"
    if family == "moore":
        return (
            f"No topology of {size} has a diameter below {counted(least_most, 'hop')} or a mean below "
            f"{number(least_mean)} (proven)."
        )
    diameter = counted(most, "hop")
    beside = f"no topology has less than {least_most}" if most > least_most else "the least there can be"
    mean = mean_hops / least_mean
    over = f"at most {by_how_much(mean)} more than" if mean < SMALL else f"at most {by_how_much(mean)}"
    how = "the least there can be" if mean <= 1 + ROUNDING else f"{over} the least there can be"
    return (
        f"On {family} of {size} any server reaches any other in {diameter} ({beside}), on average in "
        f"{number(mean_hops)} ({how})."
    )


def family_document(family: str, servers: int, degree: int, links: LinkDirection, measured: Metrics) -> dict[str, Any]:
    """Return the figures of a member of a family beside its bounds."""
    diameter, mean_hops, rings = measured
    moore_diameter, moore_hops, _ = moore(servers, degree, links)
    bound = degree * servers ** (1 / degree)
    of_rings = (
        {}
        if rings is None
        else {key: list(getattr(rings, key)) for key in ("distances", "offsets", "hop_histogram")}
        | {"ring_bound": rings.ring_bound}
    )
    return {
        "kind": "topology-metrics",
        "family": family,
        "servers": servers,
        "degree": degree,
        "links": links.value,
        "diameter": diameter,
        "mean_hops": mean_hops,
        "diameter_bound": bound,
        "diameter_over_bound": diameter / bound,
        "moore_diameter": moore_diameter,
        "moore_mean_hops": moore_hops,
        "mean_hops_over_moore": mean_hops / moore_hops,
        **of_rings,
    }


MAX_DRAWN = 512
"""Servers of a picture."""


def picture(family: str, servers: int, degree: int, links: LinkDirection, measured: Metrics, seed: int) -> str:
    """Return the text of an SVG file with the links of a member of a family.

    Raises:
        InputError: nothing can be drawn: a bound, or too many servers.
    """
    import numpy as np

    from solvers.network.routes import circulant_topology
    from topoopt.files.sections import make_topology
    from topoopt.files.topology_families import family_arcs
    from topoopt.page.charts import element, standalone, use_style
    from topoopt.page.networks import SIZE, find_links, topology_svg

    if family == "moore" or servers > MAX_DRAWN:
        allowed = f"families of topologies, at most {MAX_DRAWN} servers"
        raise InputError([Problem("this cannot be drawn", path="--output", value=family, allowed=allowed)])
    if measured[2] is not None:
        topology = circulant_topology(servers, degree, links, measured[2].distances)
    else:
        made = family_arcs(
            family, {"servers": servers, "degree": degree, "links": links.value}, seed=seed, max_servers=MAX_DRAWN
        )
        topology = make_topology(made.servers, made.arcs, None, family)
    drawing = topology_svg(topology, find_links(topology), np.zeros(len(topology.arcs)), lambda _: "1 link")
    return standalone(
        element("svg", drawing, width=SIZE, height=SIZE),
        label=f"{family} of {servers} servers",
        width=SIZE,
        height=SIZE,
        css=use_style(),
    )
