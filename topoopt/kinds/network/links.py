"""Load of the links of a network: the sorted curve, the fullest arcs with their dual prices, and what that says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from topoopt.drawing.format import counted, number, percent
from topoopt.drawing.sorted_chart import sorted_chart
from topoopt.drawing.utilisation import use_class
from topoopt.kinds.network.figures import FULL, NetworkFigures

LISTED_ARCS = 12
UNIT = "link capacities"


@dataclass(frozen=True)
class ArcRow:
    """One of the fullest arcs; `css` marks those that are full."""

    arc: str
    links: int
    load: str
    relative: str
    length: str
    price: str
    css: str


@dataclass(frozen=True)
class NetworkLinks:
    """Chart, table and sentences of the section."""

    chart: Markup
    rows: tuple[ArcRow, ...]
    bottleneck: str
    listed: str


def network_links(figures: NetworkFigures) -> NetworkLinks:
    """What the page says about the links."""
    topology, lengths = figures.solution.topology, figures.solution.network.lengths
    # Among arcs that are full alike, those that weigh most in the proof come first.
    order = np.lexsort((-figures.prices, -np.round(figures.relative, 6)))[:LISTED_ARCS]
    longest = float(lengths.max(initial=0.0))
    rows = tuple(
        ArcRow(
            arc=f"{topology.arcs[a, 0]} → {topology.arcs[a, 1]}",
            links=int(topology.multiplicity[a]),
            load=number(float(figures.utilisation[a])),
            relative=percent(float(figures.relative[a])),
            length=number(float(lengths[a] / longest) if longest > 0 else 0.0),
            price=percent(float(figures.prices[a])),
            css="full" if figures.full[a] else "",
        )
        for a in order
    )
    arcs = len(topology.arcs)
    return NetworkLinks(
        chart=sorted_chart(
            figures.utilisation, "", 1.0, "Utilisation of the arcs, sorted", lambda use: use_class(use * figures.sent)
        ),
        rows=rows,
        bottleneck=bottleneck_text(figures),
        listed=f"{len(rows)} of {counted(arcs, 'arc')}" if len(rows) < arcs else f"all {counted(arcs, 'arc')}",
    )


def bottleneck_text(figures: NetworkFigures) -> str:
    """Which arcs hold theta where it is, by load and by dual price."""
    full, priced, arcs = figures.full, figures.prices > 0, len(figures.full)
    text = f"Arcs at the largest utilisation (to 0.1 %): {int(full.sum()):,} of {arcs:,}. "
    if not priced.any():
        return text + "No arc has a length, so they prove nothing."
    text += f"Arcs with a length in the proof of the bound: {int(priced.sum()):,}"
    on_full = float(figures.prices[full].sum())
    if (priced & ~full).any():
        return f"{text}; full arcs have {percent(on_full)} of the weight."
    tight = figures.solution.network.routing_bound >= figures.solution.theta * (1.0 - FULL)
    more = ": theta cannot fall unless some of them gain capacity" if tight else ""
    return f"{text}, all of them full{more}."
