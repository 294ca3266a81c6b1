"""A front of topologies as one HTML page: chart, table, bounds, and the preferred one drawn."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from topoopt.analyses.collective.find import AllReduceCost, TopologyFront, entry_document
from topoopt.analyses.collective.find_answer import answer
from topoopt.analyses.collective.scores import built
from topoopt.core.process import versions_text
from topoopt.core.topology import Topology
from topoopt.drawing.axes import number_axis
from topoopt.drawing.chart import Point, Series, legend, xy_chart
from topoopt.drawing.format import number, percent
from topoopt.drawing.page import render_page
from topoopt.drawing.topology_picture import find_links, topology_svg

TEMPLATE = "analyses/collective/page.html.j2"
MOST_DRAWN = 256
"""Servers up to which links can be told apart."""


def chart(found: TopologyFront) -> Markup:
    """Steps and bandwidth factor of every entry, and the bounds on both as a point of their own."""
    points = tuple(
        Point(one.steps, float(one.bandwidth), f"{one.steps} steps, {one.bandwidth}: {one.recipe['family']}")
        for one in found.entries
    )
    limits = found.limits
    bound = Point(limits.steps, float(limits.bandwidth), f"bounds: {limits.steps} steps, {limits.bandwidth}")
    series = (Series("topologies", points, line=True), Series("bounds", (bound,)))
    x = number_axis("steps", [point.x for one in series for point in one.points])
    y = number_axis("bandwidth factor", [point.y for one in series for point in one.points])
    return legend([one.name for one in series], series) + xy_chart(series, x, y, "Steps and bandwidth factor")


def front_rows(found: TopologyFront, cost: AllReduceCost | None) -> list[tuple[str, ...]]:
    """Every entry as texts: steps, factor, rate of All-to-All, each with its gap; time; recipe."""
    rows: list[tuple[str, ...]] = []
    for one in found.entries:
        figures = entry_document(found, one, cost)
        rows.append(
            (
                f"{one.steps}",
                f"+{figures['steps_above_moore']}",
                str(one.bandwidth),
                percent(figures["bandwidth_gap"]),
                number(one.all_to_all),
                percent(figures["all_to_all_gap"]),
                number(figures["allreduce_us"]) if cost else "–",
                figures["topology_text"],
            )
        )
    return rows


def front_html(found: TopologyFront, cost: AllReduceCost | None) -> str:
    """The page."""
    wanted = found.wanted
    picture = Markup("")
    if wanted.servers <= MOST_DRAWN:
        graph = built(found.preferred.recipe)
        topology = Topology.of_arcs(graph.servers, graph.arcs, degree=None, origin="")
        drawn = find_links(topology)
        picture = topology_svg(topology, drawn, np.zeros(len(topology.arcs)), lambda _: "1 link")
    return render_page(
        TEMPLATE,
        answer(found),
        title=f"{wanted.servers} servers, {wanted.degree} links each",
        links="fibre pairs" if wanted.links.value == "bidirectional" else "single fibres",
        limits=found.limits,
        rate=number(found.limits.all_to_all),
        chart=chart(found),
        rows=front_rows(found, cost),
        best=found.best,
        picture=picture,
        versions=versions_text(),
    )
