"""Where the time goes: the breakdown, the critical path, and the comparison with other fabrics."""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup

from topoopt.core.bill import PLAN_FABRIC, iterations_per_s_per_million_usd
from topoopt.core.job_solution import JobSolution, Span
from topoopt.core.units import GIB
from topoopt.drawing.format import counted, milliseconds, number, percent, quotient, ratio, shortened
from topoopt.drawing.svg import element, percentage, picture

LONGEST_STEPS = 15
ROUNDING = 1e-9
"""Idle time below this share of the iteration is rounding."""
SPAN_CLASSES = {"forward": "fwd", "backward": "bwd", "transfer": "mp", "allreduce": "ar"}
SPAN_NAMES = {"forward": "forward", "backward": "backward", "transfer": "transfer", "allreduce": "AllReduce"}
MAX_LABEL = 60


@dataclass(frozen=True)
class Term:
    """One term of the breakdown: name, colour class, ms, share of the iteration."""

    name: str
    css: str
    ms: float
    share: float
    meaning: str


def breakdown_terms(solution: JobSolution) -> tuple[Term, ...]:
    """The four terms that sum to the iteration time."""
    parts = solution.breakdown
    total = solution.objective.value
    rows = (
        ("compute", "compute", parts.compute_ms, "operators on the critical path"),
        ("model-parallel", "mp", parts.model_parallel_ms, "waiting for transfers between operators"),
        ("AllReduce", "ar", parts.allreduce_ms, "waiting for gradients, inside servers and over the network"),
        ("idle", "idle", 0.0 if abs(parts.idle_ms) <= ROUNDING * total else parts.idle_ms, "anything else"),
    )
    return tuple(Term(name, css, ms, ms / total if total > 0 else 0.0, text) for name, css, ms, text in rows)


def memory_text(solution: JobSolution) -> str:
    """What a GPU of the fullest server needs, and what it has."""
    needed, there = f"{number(solution.gpu_memory_bytes / GIB)} GiB", solution.cluster.gpu_memory_bytes
    where = "of each GPU on the fullest server"
    if there is None:
        return f"{needed} {where}, not checked against a limit"
    return f"{needed} of {number(there / GIB)} GiB {where}"


def breakdown_bar(solution: JobSolution) -> Markup:
    """One stacked bar over the width of the page."""
    shapes = []
    start = 0.0
    for term in breakdown_terms(solution):
        share = max(term.share, 0.0)
        if share <= 0:
            continue
        tip = f"{term.name}: {milliseconds(term.ms)} ({percent(term.share)})"
        inner = [element("rect", element("title", tip), class_=f"c-{term.css}", width="100%", height="100%")]
        if share >= 0.12:
            inner.append(element("text", term.name, x="50%", y=24, class_=f"on on-{term.css}", text_anchor="middle"))
        shapes.append(element("svg", *inner, x=percentage(start), y=0, width=percentage(share), height=38))
        start += share
    return picture(*shapes, label="Breakdown of the iteration time", class_="wide", height=38)


def critical_strip(solution: JobSolution) -> Markup:
    """The critical path in time order, a block a step."""
    total = solution.objective.value
    shapes = [
        element(
            "rect",
            element("title", f"{_step_name(step)}: {milliseconds(step.start_ms)} to {milliseconds(step.end_ms)}"),
            class_=f"c-{SPAN_CLASSES.get(step.kind, 'idle')} block",
            x=percentage(step.start_ms / total),
            width=percentage((step.end_ms - step.start_ms) / total),
            height=22,
        )
        for step in solution.evaluation.critical_path
        if total > 0 and step.end_ms > step.start_ms
    ]
    return picture(*shapes, label="Critical path in time order", class_="wide", height=22)


def _step_name(step: Span) -> str:
    return f"{SPAN_NAMES.get(step.kind, step.kind)} {shortened(step.label, MAX_LABEL)}"


def _where(step: Span) -> str:
    if step.lane < 0:
        return "network"
    return f"from server {step.lane}" if step.kind == "transfer" else f"server {step.lane}"


@dataclass(frozen=True)
class TimeStep:
    """A row of the critical-path table."""

    place: int
    kind: str
    css: str
    label: str
    where: str
    start: str
    duration: str
    share: str


def longest_steps(solution: JobSolution) -> tuple[TimeStep, ...]:
    """The longest steps of the critical path, longest first."""
    total = solution.objective.value
    path = solution.evaluation.critical_path
    order = sorted(range(len(path)), key=lambda i: (path[i].start_ms - path[i].end_ms, i))[:LONGEST_STEPS]
    return tuple(
        TimeStep(
            place=i + 1,
            kind=SPAN_NAMES.get(path[i].kind, path[i].kind),
            css=SPAN_CLASSES.get(path[i].kind, "idle"),
            label=shortened(path[i].label, MAX_LABEL),
            where=_where(path[i]),
            start=milliseconds(path[i].start_ms),
            duration=milliseconds(path[i].end_ms - path[i].start_ms),
            share=percent((path[i].end_ms - path[i].start_ms) / total if total > 0 else 0.0),
        )
        for i in order
    )


@dataclass(frozen=True)
class FabricBar:
    """A row of the comparison.

    `versus` says how the row compares with this plan; `price` and `worth` are the price of its network, USD, and what a
    million of them buy, iterations a second; empty where they are not known.
    """

    name: str
    css: str
    ms: float
    width: str
    time: str
    versus: str
    description: str
    price: str
    worth: str


def fabric_bars(solution: JobSolution) -> tuple[FabricBar, ...]:
    """This plan, its start, the lower bound and all baselines, fastest first (the plan first among equals)."""
    own = solution.objective.value
    rows = [
        ("this plan", "plan", own, "found strategy, topology and routes"),
        ("lower bound", "bound", solution.bound.value, f"proved by: {solution.bound.proved_by}"),
        *((line.fabric, "base", line.iteration_time_ms, line.description) for line in solution.baselines),
    ]
    if solution.initial_ms is not None:
        rows.append(
            (
                "starting plan",
                "start",
                solution.initial_ms,
                "data parallelism on TotientPerms, where the search began",
            )
        )
    rows.sort(key=lambda row: (row[2] if math.isfinite(row[2]) else math.inf, row[1] != "plan"))
    longest = max((row[2] for row in rows if math.isfinite(row[2])), default=0.0)
    bars = []
    for name, css, ms, description in rows:
        width = percentage(ms / longest if longest > 0 and math.isfinite(ms) else 0.0)
        price, worth = _price(solution, name if css == "base" else PLAN_FABRIC, css, ms)
        bars.append(FabricBar(name, css, ms, width, milliseconds(ms), _versus(css, own, ms), description, price, worth))
    return tuple(bars)


def _price(solution: JobSolution, fabric: str, css: str, ms: float) -> tuple[str, str]:
    """Price of a network, and what a million of dollars of it are worth."""
    usd = None if solution.prices is None or css == "bound" else solution.prices.of(fabric)
    worth = iterations_per_s_per_million_usd(ms, usd)
    return "" if usd is None else f"{usd:,.0f}", "" if worth is None else number(worth)


def _versus(css: str, own: float, other: float) -> str:
    if css == "plan":
        return "–"
    if css == "bound":
        return f"{percent((own - other) / own)} below" if own > 0 else "–"
    return ratio(quotient(other, own))


def path_summary(solution: JobSolution) -> str:
    """How long the critical path is, in steps."""
    path = solution.evaluation.critical_path
    shown = min(len(path), LONGEST_STEPS)
    return f"{counted(len(path), 'step')}" + (f"; the {shown} longest are listed" if shown < len(path) else "")
