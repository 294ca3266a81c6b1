"""A study of failures or outages is shown as one sentence, tables, charts, coloured topologies and plain data."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from topoopt.core.outcomes import Failure, FailureOutcome, OutageRow, OutageStudy, Resilience
from topoopt.core.process import versions_text
from topoopt.core.result import CheckResult
from topoopt.core.topology import Topology
from topoopt.files.atomic import csv_text
from topoopt.page.charts import SLOWDOWN_CLASSES, Axis, Point, Series, legend, number_axis, slowdown_class, xy_chart
from topoopt.page.networks import families, find_links, topology_svg
from topoopt.page.render import Card, check_card, render_page
from topoopt.page.text import SAME, SMALL, counted, number, objective_text, percent, ratio, rejection

SHOWN = 60
NOTHING = "nothing delivered"
UNKNOWN = "–"

REPAIRS = (
    ("reroute", "broken routes over least-loaded shortest surviving paths"),
    ("detour", "each broken ring step over its least-loaded shortest surviving path"),
    ("lend", "broken ring steps over links without AllReduce, which model-parallel traffic leaves where it can"),
    ("re-split", "broken rings dropped, shares of the others by linear program"),
    ("spread", "the same program, with broken rings on several detours or in another order as alternatives"),
    ("rebalance", "all routes balanced anew"),
    ("routed anew", "all demand routed on what survives, by linear program or Frank-Wolfe"),
)


def faster_text(result: Resilience) -> str:
    """Why some failures seem to help; empty where none does."""
    every = (*result.links, *result.servers, *result.planes)
    slow = [outcome.slowdown(result.nominal) for outcome in every]
    count = sum(value is not None and value < 1 - SAME for value in slow)
    if not count:
        return ""
    return (
        f"A slow-down below 1 ({counted(count, 'failure')}): a failure cannot help; the routes made for its repair are "
        "better than those of the plan, which could have them too."
    )


def worst_first(outcomes: tuple[FailureOutcome, ...]) -> list[FailureOutcome]:
    """By value, what delivers nothing first."""
    return sorted(outcomes, key=lambda outcome: -(float("inf") if outcome.value is None else outcome.value))


def slow_text(outcome: FailureOutcome, nominal: float) -> str:
    """Slow-down of an outcome."""
    slow = outcome.slowdown(nominal)
    return NOTHING if slow is None else ratio(slow)


def failure_tables(result: Resilience) -> tuple[dict[str, Any], ...]:
    """For the template: links, servers, optical switches, the worst first; none for what was not evaluated."""
    job = result.objective != "theta"
    servers = "Servers that forward no longer" if job else "Servers"
    sorts = (("Links", result.links), (servers, result.servers), (f"{result.switch.capitalize()}es", result.planes))
    return tuple(_table(title, outcomes, result.nominal, job) for title, outcomes in sorts if outcomes)


def _table(title: str, outcomes: tuple[FailureOutcome, ...], nominal: float, job: bool) -> dict[str, Any]:
    ordered = worst_first(outcomes)
    names = dict.fromkeys(strategy for outcome in ordered for strategy, _ in outcome.trials)
    strategies = tuple(names) if len(names) > 1 else ()
    left = len(ordered) - SHOWN
    return {
        "title": f"{title} ({len(ordered)})",
        "strategies": strategies,
        "rows": tuple(_row(outcome, nominal, strategies) for outcome in ordered[:SHOWN]),
        "hidden": f"{counted(left, 'failure')} with less effect left out; a .csv file lists all." if left > 0 else "",
        "rings": job,
        "spare": any(outcome.spare_circuits for outcome in ordered) and job,
    }


def _row(outcome: FailureOutcome, nominal: float, strategies: tuple[str, ...]) -> dict[str, Any]:
    tried = dict(outcome.trials)

    def cell(value: float | None) -> str:
        return UNKNOWN if value is None else number(value)

    return {
        "label": outcome.failure.label,
        "slowdown": slow_text(outcome, nominal),
        "value": cell(outcome.value),
        "repair": outcome.repair,
        "tried": tuple(cell(tried.get(name)) for name in strategies),
        "pairs": f"{outcome.disconnected_pairs:,}",
        "diameter": UNKNOWN if outcome.diameter is None else str(outcome.diameter),
        "rings": f"{outcome.broken_rings} of {outcome.rings}",
        "rerouted": f"{outcome.rerouted_pairs:,}",
        "spare": str(outcome.spare_circuits),
    }


def several_rows(result: Resilience) -> tuple[tuple[str, str], ...]:
    """Worst and random failures of several parts."""
    rows = []
    for worst in result.worst:
        if worst.count > 1:
            proof = "proven" if worst.proven else "not proven"
            text = f"{worst.outcome.failure.label}: {slow_text(worst.outcome, result.nominal)} ({worst.how}; {proof})"
            rows.append((f"worst failure of {worst.count} {worst.part}", text))
    for sample in result.sampled:
        delivered = (
            f"{sample.delivered} of {sample.samples} delivered (95 % confidence: "
            f"{sample.delivered_low:.3g} to {sample.delivered_high:.3g} of all)"
        )
        mean = ""
        if sample.mean_slowdown is not None:
            mean = f"; mean slow-down {ratio(sample.mean_slowdown)}"
            if sample.mean_low is not None and sample.mean_high is not None:
                mean += f" (95 %: {sample.mean_low:.4g} to {sample.mean_high:.4g})"
            if sample.p95_slowdown is not None:
                mean += f", 95th percentile {ratio(sample.p95_slowdown)}"
        rows.append((f"{sample.count} random {sample.part}, seed {sample.seed}", delivered + mean))
    return tuple(rows)


def rewiring_rows(result: Resilience) -> tuple[tuple[str, str], ...]:
    """What re-wiring gains."""
    rows = []
    for rewiring in result.rewirings:
        before = NOTHING if rewiring.before is None else f"{number(rewiring.before)} {result.unit}"
        after = f"{number(rewiring.after)} {result.unit}"
        given = ", ".join(f"{a}-{b}" for a, b in rewiring.removed) or "none"
        made = ", ".join(f"{a}-{b}" for a, b in rewiring.added) or "none"
        bound = "" if rewiring.bound is None else f"; proven: not below {number(rewiring.bound)}"
        rows.append(
            (
                f"after {rewiring.failure.label}, at most {rewiring.allowed} given up",
                f"{before} → {after}{bound}. Given up: {given}; set: {made} ({rewiring.method})",
            )
        )
    return tuple(rows)


def answer(result: Resilience) -> str:
    """The worst single failures, after the best repair found."""
    parts = (("link", result.links), ("server", result.servers), (result.switch, result.planes))
    sentences = [f"the worst failure of one {name} {_costs(result, outcomes)}" for name, outcomes in parts if outcomes]
    early = "" if result.complete else ", of the failures evaluated before the end"
    refused = rejection(CheckResult(not result.violations, result.violations))
    text = "; ".join(sentences) or "no single failure was evaluated"
    return (
        refused or f"After the best repair {text}{early}." if sentences else refused or f"{text[0].upper()}{text[1:]}."
    )


def _costs(result: Resilience, outcomes: tuple[FailureOutcome, ...]) -> str:
    worst = worst_first(outcomes)[0]
    slow = worst.slowdown(result.nominal)
    if slow is None:
        return f"leaves demand undelivered ({worst.failure.label})"
    what = "theta" if result.objective == "theta" else "the time"
    if abs(slow - 1) < SAME:
        return "costs nothing"
    if slow < 1:
        return f"leaves {what} {percent(1 - slow)} below that of the plan, whose own routes are not the best"
    much = f"by {percent(slow - 1)}" if slow < SMALL else f"to {ratio(slow)}"
    return f"raises {what} {much} ({worst.failure.label})"


COLUMNS = (
    "part",
    "failure",
    "value",
    "slowdown",
    "repair",
    "disconnected_pairs",
    "diameter",
    "mean_hops",
    "broken_rings",
    "rings",
    "rerouted_pairs",
    "bound",
    "spare_circuits",
)


def failure_dict(failure: Failure) -> dict[str, Any]:
    """What failed."""
    return {
        "label": failure.label,
        "links": [list(link) for link in failure.links],
        "servers": list(failure.servers),
        "switches": list(failure.planes),
    }


def outcome_dict(outcome: FailureOutcome, nominal: float) -> dict[str, Any]:
    """One failure."""
    return {
        "failure": failure_dict(outcome.failure),
        "value": outcome.value,
        "slowdown": outcome.slowdown(nominal),
        "repair": outcome.repair,
        "tried": dict(outcome.trials),
        "bound": outcome.bound,
        "disconnected_pairs": outcome.disconnected_pairs,
        "diameter": outcome.diameter,
        "mean_hops": outcome.mean_hops,
        "broken_rings": outcome.broken_rings,
        "rings": outcome.rings,
        "rerouted_pairs": outcome.rerouted_pairs,
        "spare_circuits": outcome.spare_circuits,
    }


def resilience_dict(result: Resilience) -> dict[str, Any]:
    """All of it."""
    nominal = result.nominal
    return {
        "kind": result.kind,
        "name": result.name,
        "objective": result.objective,
        "unit": result.unit,
        "nominal": nominal,
        "links": [outcome_dict(outcome, nominal) for outcome in result.links],
        "servers": [outcome_dict(outcome, nominal) for outcome in result.servers],
        "switches": [outcome_dict(outcome, nominal) for outcome in result.planes],
        "worst": [
            {
                "part": worst.part,
                "count": worst.count,
                "proven": worst.proven,
                "how": worst.how,
                "evaluated": worst.evaluated,
                "outcome": outcome_dict(worst.outcome, nominal),
            }
            for worst in result.worst
        ],
        "sampled": [{**asdict(sample), "worst": outcome_dict(sample.worst, nominal)} for sample in result.sampled],
        "rewirings": [
            {
                "failure": failure_dict(rewiring.failure),
                "removed": [list(link) for link in rewiring.removed],
                "added": [list(link) for link in rewiring.added],
                "allowed": rewiring.allowed,
                "before": rewiring.before,
                "after": rewiring.after,
                "slowdown": rewiring.after / nominal if nominal > 0 else 1.0,
                "method": rewiring.method,
                "bound": rewiring.bound,
                "violations": list(rewiring.violations),
            }
            for rewiring in result.rewirings
        ],
        "check": {"ok": not result.violations, "checked": result.checked, "violations": list(result.violations)},
        "notes": list(result.notes),
        "seed": result.seed,
        "complete": result.complete,
    }


def rows(result: Resilience) -> list[tuple[str, FailureOutcome]]:
    """Every single failure with the part it is of, the worst failures of several at the end."""
    single = (("link", result.links), ("server", result.servers), ("switch", result.planes))
    listed = [(part, outcome) for part, outcomes in single for outcome in outcomes]
    return listed + [
        (f"worst {failure.count} {failure.part}", failure.outcome) for failure in result.worst if failure.count > 1
    ]


def resilience_csv(result: Resilience) -> str:
    """CSV text: `COLUMNS`, then one column for each strategy tried."""
    listed = rows(result)
    strategies = list(dict.fromkeys(strategy for _, outcome in listed for strategy, _ in outcome.trials))
    cells = []
    for part, outcome in listed:
        plain = {**outcome_dict(outcome, result.nominal), "part": part, "failure": outcome.failure.label}
        tried = dict(outcome.trials)
        cells.append([plain[column] for column in COLUMNS] + [tried.get(strategy) for strategy in strategies])
    return csv_text([*COLUMNS, *strategies], cells)


TEMPLATE = "analyses/resilience/page.html.j2"


def _cards(result: Resilience) -> tuple[tuple[Card, ...], tuple[Card, ...]]:
    """Headline figures: nominal, worst single failures, and the check."""
    value = f"{number(result.nominal)} {result.unit}" if result.unit == "ms" else number(result.nominal)
    first = [Card(f"{objective_text(result.objective)} without failure", value, result.kind, "main")]
    for name, outcomes in (("link", result.links), ("server", result.servers), (result.switch, result.planes)):
        if outcomes:
            worst = worst_first(outcomes)[0]
            first.append(Card(f"worst {name} failure", slow_text(worst, result.nominal), worst.failure.label))
    second = [check_card(CheckResult(not result.violations, result.violations))]
    cut = [outcome for outcome in (*result.links, *result.servers, *result.planes) if outcome.disconnected_pairs]
    second.append(
        Card(
            "single failures that cut servers off",
            str(len(cut)),
            ", ".join(outcome.failure.label for outcome in cut[:4]) + (" …" if len(cut) > 4 else "") or "none does",
        )
    )
    for rewiring in result.rewirings[:1]:
        after = ratio(rewiring.after / result.nominal) if result.nominal > 0 else number(rewiring.after)
        changed = counted(len(rewiring.removed), "circuit")
        second.append(
            Card(f"re-wired after {rewiring.failure.label}", after, f"{changed} given up, {rewiring.method}", "good")
        )
    return tuple(first), tuple(second)


def _chart(result: Resilience) -> tuple[Markup, Markup, str]:
    """Legend, chart and what is left out of it."""
    series, lost = [], 0
    for name, outcomes in (("links", result.links), ("servers", result.servers), ("switches", result.planes)):
        points = []
        for index, outcome in enumerate(worst_first(outcomes)):
            slow = outcome.slowdown(result.nominal)
            if slow is None:
                lost += 1
                continue
            tip = f"{outcome.failure.label}: {ratio(slow)}, {outcome.repair}"
            points.append(Point((index + 0.5) / len(outcomes), slow, tip))
        if points:
            series.append(Series(name, tuple(points), line=True))
    if sum(len(line.points) for line in series) < 2:
        return Markup(""), Markup(""), ""
    x = number_axis("part of the failures", [0.0, 1.0])
    y = number_axis("slow-down", [1.0, *(point.y for line in series for point in line.points)])
    text = f"{counted(lost, 'failure')} after which nothing is delivered: not drawn." if lost else ""
    return legend([line.name for line in series], series), xy_chart(series, x, y, "Slow-down by failure, sorted"), text


def _link_slowdowns(
    result: Resilience, topology: Topology
) -> tuple[NDArray[np.float64], dict[int, FailureOutcome], float]:
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
    colour = np.zeros(len(topology.arcs))
    for arc, outcome in by_arc.items():
        value = outcome.slowdown(result.nominal)
        colour[arc] = 1.0 if value is None else (value - 1.0) / (most - 1.0) if most > 1.0 + 1e-12 else 0.0
    return np.clip(colour, 0.0, 1.0), by_arc, most


def _legend(most: float) -> tuple[tuple[str, str], ...]:
    ends = [1.0 + step * (most - 1.0) for step in (0.0, *(up_to for _, up_to, *_ in SLOWDOWN_CLASSES[:-1]))]
    named = [f"{ratio(low)} to {ratio(high)}" for low, high in pairwise(ends)]
    texts = (*named, f"above {ratio(ends[-1])}, or {NOTHING}")
    return tuple((css, text) for (css, *_), text in zip(SLOWDOWN_CLASSES, texts, strict=True))


def _picture(result: Resilience, topology: Topology) -> dict[str, object]:
    """What the template of the topology takes; an empty picture without failures of all links, and behind switches."""
    if len(result.links) < 2 or topology.packet_switches:
        return {"topology": "", "families": (), "uses": (), "first": "use", "use_name": "", "facts": ()}
    colour, by_arc, most = _link_slowdowns(result, topology)
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
        "topology": topology_svg(topology, links, colour, arc_text, slowdown_class, "of the worst slow-down"),
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
    used |= {strategy for outcome in (*result.links, *result.planes) for strategy, _ in outcome.trials}
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


OUTAGES_TEMPLATE = "analyses/resilience/outages.html.j2"
HEADROOM = 1.06
"""Of an axis above its largest value."""

HEADINGS = (
    "spare servers",
    "circuits",
    "mean",
    "99 % of days",
    "worst day",
    "days without loss",
    "exchanged a day",
    "worst step",
)


def row_name(row: OutageRow) -> str:
    """What a row is of."""
    if not row.circuits:
        return "own servers"
    return "circuits" if row.spares == 0 else f"circuits, {row.spares} spare"


def row_cells(row: OutageRow) -> tuple[str, ...]:
    """Under `HEADINGS`."""
    worst = "–" if row.worst_step_s is None else f"{row.worst_step_s:.4g} s"
    shares = (percent(part) for part in (row.mean, row.p99, row.worst, row.whole_days))
    return (str(row.spares), "yes" if row.circuits else "no", *shares, f"{row.exchanged:.3g}", worst)


def outages_html(study: OutageStudy, answer: str) -> str:
    """Servers that are down day by day, throughput with the days sorted, and all figures; names are escaped."""
    sorted_days = _sorted(study)
    names = [row_name(row) for row in study.rows]
    return render_page(
        OUTAGES_TEMPLATE,
        answer,
        name=study.name,
        subtitle=f"{counted(study.copies, 'copy', 'copies')} of the model on "
        f"{counted(study.servers_each, 'server')} each, {counted(study.days, 'day')}, seed {study.seed}",
        down=_down(study),
        legend=legend(names, sorted_days),
        throughput=xy_chart(
            sorted_days,
            Axis("days, the worst first", 1.0, float(max(study.days, 2))),
            Axis("part of the throughput, %", 0.0, 100.0 * HEADROOM),
            "Throughput over the days, the worst first",
        ),
        head=HEADINGS,
        rows=[row_cells(row) for row in study.rows],
        versions=versions_text(),
    )


def _down(study: OutageStudy) -> Markup:
    """Of the servers of the plan, day by day."""
    points = tuple(
        Point(day + 1.0, float(count), f"day {day + 1}: {counted(count, 'server')} down")
        for day, count in enumerate(study.down)
    )
    most = max(1, *study.down)
    return xy_chart(
        [Series("down", points, line=True, dots=study.days == 1)],
        Axis("day", 1.0, float(max(study.days, 2))),
        Axis("servers of the plan that are down", 0.0, most * HEADROOM),
        "Servers that are down, day by day",
    )


def _sorted(study: OutageStudy) -> list[Series]:
    """A line of stairs for each row."""
    rows = []
    for row, left in zip(study.rows, study.left, strict=True):
        stairs: list[Point] = []
        for index, part in enumerate(sorted(left)):
            value = 100.0 * part
            if stairs and stairs[-1].y != value:
                stairs.append(Point(index + 1.0, stairs[-1].y, ""))
            if not stairs or stairs[-1].y != value:
                stairs.append(Point(index + 1.0, value, ""))
        stairs.append(Point(float(max(study.days, 2)), stairs[-1].y, ""))
        rows.append(Series(row_name(row), tuple(stairs), line=True, dots=False))
    return rows
