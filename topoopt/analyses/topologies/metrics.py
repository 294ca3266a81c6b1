"""`topoopt topology metrics`: diameter and mean hops of a family of topologies, beside what is possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console

from topoopt.console.output import JsonOption, Output
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.core.graphs import moore_bound
from topoopt.drawing.format import ROUNDING, counted, number
from topoopt.drawing.sentences import SMALL, by_how_much

MOST_SERVERS = 4096


@dataclass(frozen=True)
class TopologyMetrics:
    """Distances of one topology over all ordered pairs of servers.

    Attributes:
        diameter, mean_hops: largest and mean.
        detail: ring distances or the like, for people.
    """

    diameter: int
    mean_hops: float
    detail: str


def _totient(servers: int, degree: int, links: LinkDirection, seed: int, *, selection: str) -> TopologyMetrics:
    from topoopt.library.topologies import totient

    found = totient(servers, degree, links.value, selection)
    return TopologyMetrics(found.diameter, found.mean_hops, ", ".join(str(offset) for offset in found.offsets))


def _family(servers: int, degree: int, links: LinkDirection, seed: int, *, family: str) -> TopologyMetrics:
    from topoopt.drawing.distances import diameter_and_mean_hops
    from topoopt.files.sections import make_topology
    from topoopt.files.topology_families import family_arcs

    given = {"servers": servers, "degree": degree, "links": links.value}
    made = family_arcs(family, given, seed=seed, max_servers=MOST_SERVERS)
    diameter, mean_hops = diameter_and_mean_hops(make_topology(made.servers, made.arcs, None, family))
    if diameter is None or mean_hops is None:
        text = "not every server can reach every other"
        raise InputError([Problem(text, path="--family", value=family, allowed="another seed or degree")])
    return TopologyMetrics(diameter, mean_hops, "")


def moore(servers: int, degree: int, links: LinkDirection, seed: int = 0) -> TopologyMetrics:
    """The Moore bound (`topoopt.core.graphs.moore_bound`)."""
    try:
        bound = moore_bound(servers, degree, links)
    except ValueError:
        raise InputError(
            [Problem("this degree cannot connect so many servers", path="--degree", value=str(degree))]
        ) from None
    return TopologyMetrics(bound.diameter, bound.distances / (servers - 1) if servers > 1 else 0.0, "bound")


FAMILIES: Mapping[str, Callable[[int, int, LinkDirection, int], TopologyMetrics]] = {
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


def answer(family: str, servers: int, degree: int, found: TopologyMetrics, least: TopologyMetrics) -> str:
    """Diameter and mean hops in one sentence, each beside the least that the Moore bound allows."""
    size = f"{counted(servers, 'server')} with {counted(degree, 'interface')} each"
    if family == "moore":
        return (
            f"No topology of {size} has a diameter below {counted(least.diameter, 'hop')} or a mean below "
            f"{number(least.mean_hops)} (proven)."
        )
    diameter = counted(found.diameter, "hop")
    if found.diameter > least.diameter:
        beside = f"no topology has less than {least.diameter}"
    else:
        beside = "the least there can be"
    mean = found.mean_hops / least.mean_hops
    over = f"at most {by_how_much(mean)} more than" if mean < SMALL else f"at most {by_how_much(mean)}"
    how = "the least there can be" if mean <= 1 + ROUNDING else f"{over} the least there can be"
    return (
        f"On {family} of {size} any server reaches any other in {diameter} ({beside}), on average in "
        f"{number(found.mean_hops)} ({how})."
    )


def metrics(
    family: Annotated[str, typer.Option(help=", ".join(FAMILIES))],
    servers: Annotated[int, typer.Option(min=2, max=MOST_SERVERS, help="Number of servers n.")],
    degree: Annotated[int, typer.Option(min=1, max=64, help="Interfaces per server d.")],
    links: Annotated[str, typer.Option(help="bidirectional or unidirectional.")] = "unidirectional",
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of the random family.")] = 0,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Diameter and mean hops of a topology, the bound d n^(1/d) of TotientPerms and the Moore bound."""
    output = Output.choose(as_json)

    def command() -> int:
        problems = [
            Problem(f"unknown {name}", path=f"--{name}", value=value, allowed=", ".join(allowed))
            for name, value, allowed in (("family", family, list(FAMILIES)), ("links", links, list(LinkDirection)))
            if value not in allowed
        ]
        if problems:
            raise InputError(problems)
        direction = LinkDirection(links)
        found = FAMILIES[family](servers, degree, direction, seed)
        least = moore(servers, degree, direction)
        bound = degree * servers ** (1 / degree)
        document: dict[str, Any] = {
            "kind": "topology-metrics",
            "family": family,
            "servers": servers,
            "degree": degree,
            "links": links,
            "diameter": found.diameter,
            "mean_hops": found.mean_hops,
            "diameter_bound": bound,
            "diameter_over_bound": found.diameter / bound,
            "moore_diameter": least.diameter,
            "moore_mean_hops": least.mean_hops,
            "mean_hops_over_moore": found.mean_hops / least.mean_hops,
            "detail": found.detail,
        }

        def show(console: Console) -> None:
            text = f"{family} n={servers} d={degree} {links}: diameter {found.diameter} (Moore {least.diameter}, "
            text += f"d n^(1/d) {bound:.3f}), mean hops {found.mean_hops:.4f} (Moore {least.mean_hops:.4f})"
            console.print(text, soft_wrap=True, highlight=False)

        output.result(document, show, answer(family, servers, degree, found, least))
        return 0

    output.run(command)
