"""The traffic of a job is laid on the links of its network: bandwidth tax, path lengths and loads, with their
pictures.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.job.starts import data_parallel
from solvers.network.rings import group_rings
from solvers.network.routes import balanced_routes, circulant_topology, distances_text
from topoopt.core.errors import CheckError
from topoopt.core.job import CoOptimisation, JobPlan
from topoopt.core.process import versions_text
from topoopt.core.result import Result
from topoopt.core.workload import AllReduceDemand, Demand, TrafficFigures
from topoopt.kinds.job.plots import hop_lines
from topoopt.library.topologies import totient
from topoopt.page.charts import HEIGHT, Axis, Point, Series, element, legend, mark, number_axis, standalone, xy_chart
from topoopt.page.render import Card, render_page
from topoopt.page.text import byte_size, percent, ratio
from topoopt.simulate.network import build_task_graph, demand_of, traffic_figures

RELATIVE = 1e-9


def plan_traffic(solution: Result[CoOptimisation, JobPlan]) -> TrafficFigures:
    """Traffic of a plan, counted from its demand, routes and rings.

    Raises:
        InputError: AllReduces run on schedules.
        CheckError: the link loads the simulation recorded are others.
    """
    plan, figures = solution.plan, solution.figures
    plan.require_rings("traffic by counting")
    text = f"the plan found, on {plan.topology.origin or 'its topology'}"
    figures_of_plan = traffic_figures(solution.name, text, figures.demand, plan.topology, plan.routes, plan.rings)
    recorded = np.repeat(figures.evaluation.link_bytes / plan.topology.multiplicity, plan.topology.multiplicity)
    if not np.allclose(figures_of_plan.link_bytes, recorded, rtol=RELATIVE, atol=1.0):
        raise CheckError("the simulated bytes of the links are not those of the demand, routes and rings")
    return figures_of_plan


PLACED, REPLICATED = STARTS = ("placed", "replicated")
"""Operators that cannot be split on one server each, or the weights of all of them on every server."""


def starting_traffic(instance: CoOptimisation, selection: str, start: str = PLACED) -> TrafficFigures:
    """Traffic of data parallelism on TotientPerms rings over all interfaces.

    `placed`, with operators of one server spread evenly, is the setting of TopoOpt's figures 13 to 15;
    figure 1 has both. Routes are shortest and balanced for the traffic.

    Args:
        instance: the job and its cluster.
        selection: of the ring distances, `paper`, `flexnet` or `best`.
        start: one of `STARTS`. `replicated` asks not whether the weights fit into memory.

    Raises:
        InputError: no such selection.
        InfeasibleError: rings alone do not connect the servers.
    """
    cluster = instance.cluster
    result = totient(cluster.servers, cluster.degree, cluster.links.value, selection)
    topology = circulant_topology(cluster.servers, cluster.degree, cluster.links, result.distances)
    demand = _replicated(instance) if start == REPLICATED else _placed(instance)
    routes = balanced_routes(topology, demand.model_parallel_bytes, seed=instance.search.seed)
    rings = group_rings(topology, [group.members for group in demand.allreduce], max_rings=max(2, topology.degree))
    what = "data parallel, all weights on every server" if start == REPLICATED else "data parallel"
    text = f"{what}, on rings {distances_text(result.distances)} ({selection})"
    return traffic_figures(instance.name, text, demand, topology, routes, rings)


def _placed(instance: CoOptimisation) -> Demand:
    cluster, workload = instance.cluster, instance.workload
    return demand_of(build_task_graph(cluster, workload, data_parallel(cluster.servers, workload)))


def _replicated(instance: CoOptimisation) -> Demand:
    """All servers reduce the gradients of all weights, and each has what its own samples need."""
    n = instance.cluster.servers
    everyone = AllReduceDemand(tuple(range(n)), float(instance.workload.weight_bytes))
    return Demand(np.zeros((n, n)), (everyone,))


def answer(figures: TrafficFigures) -> str:
    """The bandwidth tax in words, and the fullest link beside the mean."""
    tax, loads = figures.bandwidth_tax, figures.link_bytes
    added = (
        "forwarding adds nothing" if tax <= 1 + 1e-9 else f"forwarding adds {percent(tax - 1)} to the bytes demanded"
    )
    if not len(loads) or loads.mean() <= 0:
        return "The job asks nothing of the links."
    fullest = byte_size(float(loads.max()))
    over = ratio(float(loads.max() / loads.mean()))
    return (
        f"The links carry {byte_size(float(loads.sum()))} in an iteration: {added}, and the fullest link carries "
        f"{fullest}, {over} the mean."
    )


TEMPLATE = "analyses/traffic/page.html.j2"
MAX_STEPS = 400
"""Points of a distribution drawn; of more links, evenly spaced ranks are shown."""
WIDTH = 760.0
LEFT, EDGE, HEAD = 70.0, 24.0, 52.0
SHARE_OF_LINKS = Axis("part of the links", 0.0, 1.0)


def load_quantiles(loads: NDArray[np.float64]) -> tuple[tuple[float, float], ...]:
    """(bytes, part of the links that carry at most so many), ascending, at most `MAX_STEPS` of them."""
    ordered = np.sort(loads)
    count = len(ordered)
    ranks = np.unique(np.linspace(0, count - 1, min(count, MAX_STEPS)).round().astype(int))
    return tuple((float(ordered[rank]), (rank + 1) / count) for rank in ranks.tolist())


def _load_series(name: str, loads: NDArray[np.float64]) -> Series:
    points = [
        Point(load, part, f"{name}: {percent(part)} of the links carry {byte_size(load)} or less")
        for load, part in load_quantiles(loads)
    ]
    return Series(name, tuple(points), line=True)


def _charts(figures: TrafficFigures) -> list[tuple[str, tuple[Series, ...], Axis, Axis]]:
    hops, across, upward = hop_lines(figures)
    loads = [_load_series("all traffic", figures.link_bytes)]
    if figures.model_parallel_bytes > 0 and figures.allreduce_bytes > 0:
        loads.append(_load_series("model-parallel", figures.model_parallel_link_bytes))
    charts = []
    if any(line.points for line in hops):
        charts.append(("Path lengths", tuple(hops), across, upward))
    if len(figures.link_bytes) and figures.link_bytes.max() > 0:
        highest = [figures.link_bytes.max() / 1e9, 0.0]
        scaled = tuple(
            Series(line.name, tuple(Point(p.x / 1e9, p.y, p.tip) for p in line.points), line=True) for line in loads
        )
        charts.append(("Link loads", scaled, number_axis("GB carried by a link", highest), SHARE_OF_LINKS))
    return charts


def _headline(figures: TrafficFigures) -> str:
    return f"bandwidth tax {figures.bandwidth_tax:.3f}; {figures.plan}"


def traffic_svg(figures: TrafficFigures) -> str:
    """Both distributions one below the other; styles inside, so that the file needs nothing else."""
    shapes = [
        element("text", figures.name, x=EDGE, y=EDGE + 6, class_="title"),
        element("text", _headline(figures), x=EDGE, y=EDGE + 26, class_="quiet"),
    ]
    top = HEAD + 30.0
    for title, series, x, y in _charts(figures):
        shapes.append(element("text", title, x=EDGE, y=top, class_="title"))
        if len(series) > 1:
            for index, line in enumerate(series):
                at = 190.0 + 220.0 * index
                shapes.append(mark(index, x=at, y=top - 4))
                shapes.append(element("text", line.name, x=at + 12, y=top, class_="quiet"))
        inner = xy_chart(series, x, y, title)
        box = {"x": LEFT, "y": top + 10, "width": WIDTH - LEFT - EDGE, "height": HEIGHT, "overflow": "visible"}
        shapes.append(element("svg", inner, **box))
        top += HEIGHT + 60
    return standalone(
        *shapes,
        label=f"Traffic of {figures.name}",
        width=WIDTH,
        height=top,
        css="\nsvg.chart { width: 100%; margin-left: 0; }",
    )


def traffic_html(figures: TrafficFigures) -> str:
    """The figures, both distributions and the numbers behind them; names are escaped."""
    loads = figures.link_bytes
    share = figures.model_parallel_to_allreduce
    cards = [
        Card("bandwidth tax", f"{figures.bandwidth_tax:.3f}", "bytes carried over bytes demanded", "main"),
        Card(
            "model-parallel over AllReduce",
            "–" if share is None else percent(share),
            f"{byte_size(figures.model_parallel_bytes)} and {byte_size(figures.allreduce_bytes)}",
        ),
    ]
    if len(loads) and loads.mean() > 0:
        text = f"fullest {byte_size(float(loads.max()))}, mean {byte_size(float(loads.mean()))}"
        cards.append(Card("fullest link over mean", ratio(float(loads.max() / loads.mean())), text))
    hops = max(len(figures.byte_hops), len(figures.pair_hops))
    upto_bytes, upto_pairs = np.cumsum(figures.byte_hops), np.cumsum(figures.pair_hops)
    return render_page(
        TEMPLATE,
        answer(figures),
        name=figures.name,
        subtitle=f"{figures.servers} servers, {figures.degree} interfaces each; {figures.plan}",
        verdict=cards,
        comparisons=(),
        charts=[
            (title, legend([line.name for line in s], s), xy_chart(s, x, y, title))
            for title, s, x, y in _charts(figures)
        ],
        hop_rows=[
            (str(h), *("–" if h >= len(upto) else percent(float(upto[h])) for upto in (upto_bytes, upto_pairs)))
            for h in range(1, hops)
        ],
        versions=versions_text(),
    )
