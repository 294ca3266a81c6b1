"""Drawings of a hierarchical solution: bandwidths, time of the collectives in every dimension, time against cost."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from topoopt.core.hierarchy_solution import CollectiveTime, HierarchicalSolution
from topoopt.drawing.format import shortened
from topoopt.drawing.svg import coordinate, element, percentage, picture, tick_text, ticks
from topoopt.kinds.hierarchy.format import duration, money, rate

COLOURS = 8
BAR = 26.0
ROW = 54.0
TOP, BASE = 30.0, 270.0

_TIME_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))


@dataclass(frozen=True)
class Key:
    """A line of a legend: colour class and text."""

    css: str
    text: str


def group_name(one: CollectiveTime, jobs: int) -> str:
    """`all-reduce, tensor`, with the job where there are several."""
    own = f"{one.collective.value}, {one.communicator}"
    return shortened(f"{one.job}: {own}" if jobs > 1 else own, 60)


def collective_bars(solution: HierarchicalSolution) -> tuple[Markup, tuple[Key, ...]]:
    """A stacked bar for each dimension: how long the collectives keep it busy; and the legend."""
    groups = sorted(solution.collectives, key=lambda one: -one.time_ns)
    shown, rest = groups[: COLOURS - 1], groups[COLOURS - 1 :]
    rows: list[tuple[str, Sequence[float], Sequence[bool]]] = [
        (
            group_name(one, len(solution.jobs)),
            one.times_ns,
            [place in one.slowest for place in range(len(one.times_ns))],
        )
        for one in shown
    ]
    if rest:
        together = [sum(one.times_ns[place] for one in rest) for place in range(len(solution.dimensions))]
        rows.append((f"{len(rest)} others", together, [False] * len(together)))
    longest = max((sum(own[1][k] for own in rows) for k in range(len(solution.dimensions))), default=0.0)
    shapes = []
    for place, name in enumerate(solution.dimensions):
        y = ROW * place
        total = sum(own[1][place] for own in rows)
        label = f"{name}, {solution.blocks[place]} {solution.sizes[place]}: {duration(total)}"
        shapes.append(element("text", shortened(label, 90), x=0, y=y + 14))
        at = 0.0
        for css, (text, times_ns, slow) in enumerate(rows):
            width = times_ns[place] / longest if longest else 0.0
            if width <= 0:
                continue
            holds = " (holds it up)" if slow[place] else ""
            tip = element("title", f"{text}\n{duration(times_ns[place])} in {name}{holds}")
            shapes.append(
                element(
                    "rect",
                    tip,
                    x=percentage(at),
                    y=y + 20,
                    width=percentage(width),
                    height=BAR,
                    class_=f"block f{css}" if slow[place] else f"block f{css} pale",
                )
            )
            at += width
    figure = picture(
        *shapes,
        label="Time of the collectives in every dimension",
        class_="wide",
        height=int(ROW * len(solution.dimensions)),
    )
    return figure, tuple(Key(f"f{css}", own[0]) for css, own in enumerate(rows))


def bandwidth_bars(solution: HierarchicalSolution) -> Markup:
    """Bandwidth of each dimension beside the equal split."""
    found = solution.bandwidth_gbytes_per_s
    equal = sum(found) / len(found)
    most = max(*found, equal) or 1.0
    shapes = []
    for place, (name, value) in enumerate(zip(solution.dimensions, found, strict=True)):
        y = ROW * place
        shapes.append(element("text", shortened(name, 60), x=0, y=y + 14))
        shapes.append(element("text", rate(value), x="100%", y=y + 14, text_anchor="end"))
        shapes.append(element("rect", x=0, y=y + 20, width="100%", height=BAR, class_="track"))
        shapes.append(element("rect", x=0, y=y + 20, width=percentage(value / most), height=BAR, class_="f0"))
        at = percentage(equal / most)
        shapes.append(element("line", x1=at, x2=at, y1=y + 18, y2=y + 22 + BAR, class_="mean"))
    return picture(
        *shapes, label="Bandwidth of every dimension", class_="wide", height=int(ROW * len(solution.dimensions))
    )


def _unit(value: float) -> tuple[float, str]:
    return next(((scale, unit) for scale, unit in _TIME_UNITS if value >= scale), (1.0, "ns"))


def equal_is_near(solution: HierarchicalSolution) -> bool:
    """Whether the equal split is near enough to the front to be drawn beside it without squeezing it."""
    if solution.equal_cost_usd is None or not solution.pareto:
        return False
    slowest, dearest = solution.pareto[-1].time_ns, solution.pareto[0].cost_usd
    return solution.equal_time_ns <= 1.3 * slowest and solution.equal_cost_usd <= 1.5 * dearest


def pareto_plot(solution: HierarchicalSolution) -> Markup:
    """Cost against time: the front, the solution, the equal split."""
    if len(solution.pareto) < 2 or solution.cost_usd is None:
        return Markup("")
    front = [(one.time_ns, one.cost_usd) for one in solution.pareto]
    marks = [("this solution", "k1", solution.time_ns, solution.cost_usd)]
    if equal_is_near(solution) and solution.equal_cost_usd is not None:
        marks.append(("equal split", "k5", solution.equal_time_ns, solution.equal_cost_usd))
    all_times = [t for t, _ in front] + [mark[2] for mark in marks]
    all_costs = [c for _, c in front] + [mark[3] for mark in marks]
    x_low, x_high = _widened(all_times)
    y_low, y_high = _widened(all_costs)
    y_low = max(0.0, y_low)
    time_scale, time_unit = _unit(x_high)

    def x_at(value: float) -> float:
        return (value - x_low) / (x_high - x_low)

    def y_at(value: float) -> float:
        return BASE - (BASE - TOP) * (value - y_low) / (y_high - y_low)

    shapes = [element("text", "cost, million USD", x=-6, y=12)]
    costs = ticks(y_low / 1e6, y_high / 1e6, 5)
    for mark in costs:
        y = y_at(mark * 1e6)
        shapes.append(element("line", x1=0, x2="100%", y1=y, y2=y, class_="gridline"))
        text = tick_text(mark, costs[1] - costs[0] if len(costs) > 1 else mark or 1.0)
        shapes.append(element("text", text, x=-6, y=y + 4, text_anchor="end"))
    moments = ticks(x_low / time_scale, x_high / time_scale, 7)
    for mark in moments:
        at = percentage(x_at(mark * time_scale))
        shapes.append(element("line", x1=at, x2=at, y1=TOP, y2=BASE, class_="gridline"))
        text = tick_text(mark, moments[1] - moments[0] if len(moments) > 1 else mark or 1.0)
        shapes.append(element("text", text, x=at, y=BASE + 16, text_anchor="middle"))
    shapes.append(element("line", x1=0, x2="100%", y1=BASE, y2=BASE, class_="axis"))
    shapes.append(element("text", f"time of an iteration, {time_unit}", x="100%", y=BASE + 34, text_anchor="end"))
    line = "M" + "L".join(f"{coordinate(1000 * x_at(t))} {coordinate(y_at(c))}" for t, c in front)
    shapes.append(
        element(
            "svg",
            element("path", d=line, class_="curve"),
            viewBox=f"0 0 1000 {BASE:.0f}",
            preserveAspectRatio="none",
            width="100%",
            height=BASE,
        )
    )
    for t, c in front:
        tip = element("title", f"{duration(t)}\n{money(c)}")
        shapes.append(element("circle", tip, cx=percentage(x_at(t)), cy=y_at(c), r=4.0, class_="dot k0"))
    for name, css, t, c in marks:
        place = x_at(t)
        shapes.append(element("circle", cx=percentage(place), cy=y_at(c), r=7.0, class_=f"dot {css}"))
        anchor, shift = ("end", -4) if place > 0.7 else ("start", 4)
        shapes.append(
            element("text", name, x=percentage(place), y=y_at(c) - 10, dx=shift, text_anchor=anchor, class_="halo")
        )
    return picture(*shapes, label="Cost against time", class_="chart", height=int(BASE + 40))


def _widened(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    margin = 0.07 * max(high - low, 0.02 * high)
    return low - margin, high + margin


def steepest(solution: HierarchicalSolution) -> str:
    """A sentence on the front: what the first and the last step of it cost."""
    points = solution.pareto
    if len(points) < 2:
        return ""
    cheaper = [(a, b) for a, b in itertools.pairwise(points) if b.cost_usd <= 0.5 * points[0].cost_usd < a.cost_usd]
    text = f"From {duration(points[0].time_ns)} for {money(points[0].cost_usd)} to "
    text += f"{duration(points[-1].time_ns)} for {money(points[-1].cost_usd)}."
    if cheaper:
        longer = cheaper[0][1].time_ns / points[0].time_ns - 1
        text += f" Half the cost of the fastest network takes {100 * longer:.1f} % more time."
    if solution.equal_cost_usd is not None and not equal_is_near(solution):
        text += f" Out of the picture: the equal split, {duration(solution.equal_time_ns)} for "
        text += f"{money(solution.equal_cost_usd)}."
    return text
