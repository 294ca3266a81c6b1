"""The report on failures: slow-downs, the topology coloured by them, and the repairs, in one HTML file."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from topoopt.analyses.resilience.answer import answer
from topoopt.analyses.resilience.tables import (
    NOTHING,
    REPAIRS,
    failure_tables,
    faster_text,
    rewiring_rows,
    several_rows,
    slow_text,
    worst_first,
)
from topoopt.core.failures import FailureOutcome, Resilience
from topoopt.core.result import CheckResult
from topoopt.core.topology import Topology
from topoopt.drawing.axes import number_axis
from topoopt.drawing.chart import Point, Series, legend, xy_chart
from topoopt.drawing.format import counted, number, ratio
from topoopt.drawing.page import Card, check_card, render_page
from topoopt.drawing.sentences import objective_text
from topoopt.drawing.topology_picture import families, find_links, topology_svg
from topoopt.drawing.utilisation import SLOWDOWN_CLASSES, slowdown_class

TEMPLATE = "analyses/resilience/page.html.j2"


def _cards(result: Resilience) -> tuple[tuple[Card, ...], tuple[Card, ...]]:
    """Headline figures: nominal, worst single failures, and the check."""
    value = f"{number(result.nominal)} {result.unit}" if result.unit == "ms" else number(result.nominal)
    first = [Card(f"{objective_text(result.objective)} without failure", value, result.kind, "main")]
    for name, outcomes in (("link", result.links), ("server", result.servers), (result.switch, result.planes)):
        if outcomes:
            worst = worst_first(outcomes)[0]
            first.append(Card(f"worst {name} failure", slow_text(worst, result.nominal), worst.failure.label))
    check = CheckResult(not result.violations, result.violations)
    second = [check_card(check)]
    cut = [outcome for outcome in (*result.links, *result.servers, *result.planes) if outcome.disconnected_pairs]
    second.append(
        Card(
            "single failures that cut servers off",
            str(len(cut)),
            ", ".join(outcome.failure.label for outcome in cut[:4]) + (" …" if len(cut) > 4 else "") or "none does",
        )
    )
    for each in result.rewirings[:1]:
        after = ratio(each.after / result.nominal) if result.nominal > 0 else number(each.after)
        changed = counted(len(each.removed), "circuit")
        second.append(Card(f"re-wired after {each.failure.label}", after, f"{changed} given up, {each.method}", "good"))
    return tuple(first), tuple(second)


def _chart(result: Resilience) -> tuple[Markup, Markup, str]:
    """Legend, chart and what is left out of it."""
    series, lost = [], 0
    for name, outcomes in (("links", result.links), ("servers", result.servers), ("switches", result.planes)):
        points = []
        for place, outcome in enumerate(worst_first(outcomes)):
            slow = outcome.slowdown(result.nominal)
            if slow is None:
                lost += 1
                continue
            tip = f"{outcome.failure.label}: {ratio(slow)}, {outcome.repair}"
            points.append(Point((place + 0.5) / len(outcomes), slow, tip))
        if points:
            series.append(Series(name, tuple(points), line=True))
    if sum(len(one.points) for one in series) < 2:
        return Markup(""), Markup(""), ""
    x = number_axis("part of the failures", [0.0, 1.0])
    y = number_axis("slow-down", [1.0, *(point.y for one in series for point in one.points)])
    text = f"{counted(lost, 'failure')} after which nothing is delivered: not drawn." if lost else ""
    return legend([one.name for one in series], series), xy_chart(series, x, y, "Slow-down by failure, sorted"), text


def _heat(result: Resilience, topology: Topology) -> tuple[NDArray[np.float64], dict[int, FailureOutcome], float]:
    """float64[m]: slow-down of each arc's link, 0 for none, 1 for the worst; the outcome of each; the worst factor."""
    ids = topology.arc_ids()
    by_arc: dict[int, FailureOutcome] = {}
    for outcome in result.links:
        for tail, head in outcome.failure.links:
            for arc in (int(ids[tail, head]), int(ids[head, tail])):
                if arc >= 0 and (topology.links.value == "bidirectional" or arc == int(ids[tail, head])):
                    by_arc[arc] = outcome
    slow = [outcome.slowdown(result.nominal) for outcome in by_arc.values()]
    most = max((value for value in slow if value is not None), default=1.0)
    heat = np.zeros(len(topology.arcs))
    for arc, outcome in by_arc.items():
        value = outcome.slowdown(result.nominal)
        heat[arc] = 1.0 if value is None else (value - 1.0) / (most - 1.0) if most > 1.0 + 1e-12 else 0.0
    return np.clip(heat, 0.0, 1.0), by_arc, most


def _legend(most: float) -> tuple[tuple[str, str], ...]:
    ends = [1.0 + step * (most - 1.0) for step in (0.0, *(one.up_to for one in SLOWDOWN_CLASSES[:-1]))]
    named = [f"{ratio(low)} to {ratio(high)}" for low, high in pairwise(ends)]
    texts = (*named, f"above {ratio(ends[-1])}, or {NOTHING}")
    return tuple((one.css, text) for one, text in zip(SLOWDOWN_CLASSES, texts, strict=True))


def _picture(result: Resilience, topology: Topology) -> dict[str, object]:
    """What the template of the topology takes; an empty picture without failures of all links, and behind switches."""
    if len(result.links) < 2 or topology.packet_switches:
        return {"topology": "", "families": (), "uses": (), "first": "use", "use_name": "", "facts": ()}
    heat, by_arc, most = _heat(result, topology)
    links = tuple(link for link in find_links(topology) if by_arc.keys() & set(link.arcs))  # those evaluated

    def arc_text(arc: int) -> str:
        outcome = by_arc.get(arc)
        return "not evaluated" if outcome is None else f"{slow_text(outcome, result.nominal)}, {outcome.repair}"

    repairs: dict[str, int] = {}
    for outcome in result.links:
        repairs[outcome.repair] = repairs.get(outcome.repair, 0) + 1
    facts = [
        ("made by", topology.origin or "not recorded"),
        ("links evaluated", f"{len(result.links):,}"),
        *((f"repaired by {name}", f"{count:,}") for name, count in sorted(repairs.items(), key=lambda item: -item[1])),
    ]
    return {
        "topology": topology_svg(topology, links, heat, arc_text, slowdown_class),
        "families": families(topology, links, "other links"),
        "uses": _legend(most),
        "first": "use",
        "use_name": "links by slow-down when they fail",
        "facts": facts,
    }


def render_resilience(result: Resilience, topology: Topology) -> str:
    """The whole report as one HTML page; same result, same bytes."""
    verdict, comparisons = _cards(result)
    shown_legend, chart, left_out = _chart(result)
    tables = failure_tables(result)
    used = {
        name for outcome in (*result.links, *result.servers, *result.planes) for name in outcome.repair.split(" + ")
    }
    used |= {trial.strategy for outcome in (*result.links, *result.planes) for trial in outcome.trials}
    every = f"{counted(topology.servers, 'server')} of degree {topology.degree}, {topology.links.value} links"
    partial = "" if result.complete else " · ended early, not all failures are in"
    return render_page(
        TEMPLATE,
        answer(result),
        CheckResult(not result.violations, result.violations),
        result=result,
        subtitle=every + partial,
        verdict=verdict,
        comparisons=comparisons,
        legend=shown_legend,
        chart=chart,
        left_out=left_out,
        faster=faster_text(result),
        objective=objective_text(result.objective),
        tables=tables,
        several=several_rows(result),
        rewirings=rewiring_rows(result),
        repairs=tuple((name, text) for name, text in REPAIRS if name in used),
        **_picture(result, topology),
    )
