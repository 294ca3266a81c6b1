"""The page of regional circuits: the time of every step, ports over time, and the circuits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from markupsafe import Markup

from topoopt.core.arrays import Ints
from topoopt.core.regional_circuits import RegionalCircuitsPlan, RegionalCircuitsProblem
from topoopt.core.result import Columns, Objective, Result
from topoopt.page.charts import element, percentage, picture, stack
from topoopt.page.networks import circle_of_circuits
from topoopt.page.render import Block, Column, Fact, Page, Plot, Section, Side, Swatch, Table
from topoopt.page.text import counted, percent, possible_improvement, quantity, ratio, rejection
from topoopt.page.timelines import lanes, seconds_axis
from topoopt.simulate.circuits import RegionTraffic


@dataclass(frozen=True)
class StepTimes:
    """The times of a step.

    Attributes:
        circuits: index of its topology.
        stall_s: what the step waits for circuits that are reconfigured.
        transfer_s: from its first byte to its last.
        switch_s: what its transfers take at least if all interfaces lead into one electrical switch that nothing fills.
    """

    circuits: int
    stall_s: float
    transfer_s: float
    switch_s: float


def timed_step(traffic: RegionTraffic, circuits: Ints, topology: int, stall_s: float) -> StepTimes:
    """Return the times of a step over circuits by pair, which are those of a topology."""
    return StepTimes(topology, stall_s, traffic.seconds(circuits), traffic.switch_s())


@dataclass(frozen=True, eq=False)
class RegionalCircuitsFigures:
    """What follows from the circuits of every step: transfers, stalls, and bottlenecks."""

    problem: RegionalCircuitsProblem
    plan: RegionalCircuitsPlan

    @cached_property
    def reconfigured(self) -> tuple[bool, ...]:
        """Whether each step has other circuits than the step before."""
        return (False, *(first != second for first, second in pairwise(self.plan.steps)))

    @cached_property
    def steps(self) -> tuple[StepTimes, ...]:
        """The times of every step, in their order."""
        problem, circuits = self.problem, self.plan.circuits(self.problem)
        return tuple(
            timed_step(RegionTraffic.of(problem, problem.demands[k]), circuits[k], topology, stall if new else 0.0)
            for k, (topology, stall, new) in enumerate(
                zip(self.plan.steps, problem.stalls_s, self.reconfigured, strict=True)
            )
        )

    @cached_property
    def objective(self) -> Objective:
        """Transfers and stalls of all steps."""
        return Objective("communication_time", sum(step.stall_s + step.transfer_s for step in self.steps), "s")

    @property
    def switchings(self) -> int:
        """How many steps begin with other circuits than the step before."""
        return sum(self.reconfigured)

    @property
    def transfer_s(self) -> float:
        """Seconds of the transfers of all steps."""
        return sum(step.transfer_s for step in self.steps)

    @property
    def stall_s(self) -> float:
        """Seconds that all steps wait for circuits."""
        return sum(step.stall_s for step in self.steps)

    @property
    def switch_s(self) -> float:
        """What all steps take at least on one electrical switch with all interfaces."""
        return sum(step.switch_s for step in self.steps)

    @property
    def longest_step(self) -> int:
        """Index of the step with the longest transfers, the first of equals."""
        return max(range(len(self.steps)), key=lambda k: self.steps[k].transfer_s)

    def bottleneck(self, k: int) -> str:
        """Return what the transfers of a step use until their end, for people."""
        problem, circuits = self.problem, self.plan.circuits(self.problem)[k]
        traffic, time = RegionTraffic.of(problem, problem.demands[k]), self.steps[k].transfer_s
        carried = problem.circuit_rate * circuits * time
        if not problem.split:
            served = np.where(circuits > 0, traffic.larger / (problem.circuit_rate * np.maximum(circuits, 1)), 0.0)
            pair = int(np.argmax(served))
            if served[pair] >= time * (1 - 1e-9):
                return f"the circuits between servers {traffic.ends[pair, 0]} and {traffic.ends[pair, 1]}"
            carried = np.where(circuits > 0, np.inf, 0.0)
        wired = traffic.by_server(np.maximum(traffic.out - carried, 0.0), np.maximum(traffic.back - carried, 0.0))
        side, server = divmod(int(np.argmax(wired)), problem.servers)
        interfaces = "all interfaces" if problem.split else "the electrical interfaces"
        return f"{interfaces} {'to' if side else 'from'} server {server}"

    def columns(self) -> dict[str, Columns]:
        """The circuits of all topologies, as columns."""
        rows = [(index, *pair) for index, topology in enumerate(self.plan.topologies) for pair in topology]
        topology, first, second, count = ([row[column] for row in rows] for column in range(4))
        return {"links": {"topology": topology, "one": first, "other": second, "circuits": count}}


DRAWN_TOPOLOGIES = 6
DRAWN_SERVERS = 32
DRAWN_STEPS = 60
NAMED_PAIRS = 12
BAR_HEIGHT = 22
LANE, HEAD, GAP = 26.0, 24.0, 4.0

RETAINED, RECONFIGURED, DARK = "k4", "k2", "k5"
STEPS_LEGEND = (
    Swatch("c-mp", "transfers", "box"),
    Swatch("c-critical", "waiting for circuits that are reconfigured", "box"),
)
PORTS_LEGEND = (
    Swatch(f"f-{RETAINED}", "circuits of the step before", "box"),
    Swatch(f"f-{RECONFIGURED}", "reconfigured for the step", "box"),
    Swatch(f"f-{DARK}", "being reconfigured: dark", "box"),
)


def seconds(value: float) -> str:
    """Write a time in six digits: `62.4913 ms`."""
    return quantity(value, "s") if value >= 1 else quantity(1e3 * value, "ms")


def page(result: Result[RegionalCircuitsProblem, RegionalCircuitsPlan]) -> Page:
    """Return the page of a result that has its problem."""
    figures: RegionalCircuitsFigures = result.figures
    problem, steps = figures.problem, len(figures.steps)
    return Page(
        subtitle=f"{counted(problem.servers, 'server')} · {counted(steps, 'step')} · "
        f"{counted(sum(problem.ports), 'port')} of the optical switch",
        answer=answer(result, figures),
        cause=cause(figures) if result.check.ok else "",
        facts=facts(figures),
        sections=(
            Section(
                "Steps",
                [steps_table(figures)],
                "The mark is what one electrical switch of all interfaces takes at least.",
                STEPS_LEGEND if figures.stall_s else (),
            ),
            Section(
                "Ports over time", ports_blocks(figures), legend=PORTS_LEGEND if figures.stall_s else PORTS_LEGEND[:2]
            ),
            Section("Circuits", circuits_blocks(figures)),
        ),
        next_commands=(
            ("topoopt explain", "what more ports, interfaces or splitting would gain"),
            ("topoopt export --to patch-list", "what the controller of the switch sets before every step"),
        ),
    )


def answer(result: Result[RegionalCircuitsProblem, RegionalCircuitsPlan], figures: RegionalCircuitsFigures) -> str:
    """Return the time of all steps, against one electrical switch, and whether it is proven."""
    value, steps = result.objective.value, len(figures.steps)
    times = f", circuits reconfigured {counted(figures.switchings, 'time')}" if steps > 1 else ""
    compared = f"{ratio(value / figures.switch_s)} what one electrical switch of all interfaces takes at least"
    return rejection(result.check) or (
        f"{counted(steps, 'step').capitalize()} of all-to-all traffic take {seconds(value)}{times}: {compared}; "
        f"{possible_improvement(result, 'choice of circuits', 'faster')}."
    )


def cause(figures: RegionalCircuitsFigures) -> str:
    """Return what the time mostly consists of."""
    stalls = figures.stall_s / figures.objective.value
    if stalls > 0.5:
        return f"Reconfigurations of the circuits are {percent(stalls)} of it."
    k = figures.longest_step
    longest, share = figures.bottleneck(k), figures.steps[k].transfer_s / figures.objective.value
    if len(figures.steps) == 1:
        return f"{longest[0].upper()}{longest[1:]} are busy until the end."
    return f"Step {k} is the longest, {percent(share)} of it: {longest} are busy until its end."


def facts(figures: RegionalCircuitsFigures) -> tuple[Fact, ...]:
    """Return the figures by key; those without a name are for programs alone."""
    value, stalls = figures.objective.value, "stalls" if figures.stall_s else ""
    return (
        Fact("communication_time_s", "communication time", value, seconds, "transfers and stalls of all steps"),
        Fact("transfer_s", stalls and "transfers", figures.transfer_s, seconds, card=False),
        Fact("stall_s", stalls, figures.stall_s, seconds, "waiting for circuits that are reconfigured"),
        Fact("switch_s", "one electrical switch", figures.switch_s, seconds, "at least, with all interfaces"),
        Fact("switchings", "", figures.switchings),
        Fact("topologies", "", [[list(row) for row in topology] for topology in figures.plan.topologies]),
        Fact("steps", "", [vars(step) for step in figures.steps]),
    )


# Steps.


def steps_table(figures: RegionalCircuitsFigures) -> Table:
    steps = figures.steps
    scale = max(max(step.stall_s + step.transfer_s, step.switch_s) for step in steps)
    columns = (
        Column("step", "step"),
        Column("circuits", "circuits"),
        Column("stall_s", "stall", lambda value: seconds(value) if value else "–", number=True),
        Column("transfer_s", "transfers", seconds, number=True),
        Column("of_switch", "of the switch", lambda value: "–" if value is None else ratio(value), number=True),
        Column("bar", "", html=lambda step: step_bar(step, scale)),
    )
    rows = [
        (k, s.circuits, s.stall_s, s.transfer_s, s.transfer_s / s.switch_s if s.switch_s else None, s)
        for k, s in enumerate(steps)
    ]
    return Table("step_times", columns, rows)


def step_bar(step: StepTimes, scale: float) -> Markup:
    """Draw stall and transfers over a common scale, with a mark at what an electrical switch takes."""
    parts = (("stall", "c-critical", step.stall_s), ("transfers", "c-mp", step.transfer_s)) if scale > 0 else ()
    shapes = stack([(css, f"{name}: {seconds(value)}", value / scale) for name, css, value in parts], BAR_HEIGHT)
    if scale > 0:
        x = percentage(step.switch_s / scale)
        shapes.append(element("line", class_="boundline", x1=x, x2=x, y1=0, y2=BAR_HEIGHT))
    return picture(*shapes, label="Time of the step", class_="wide", height=BAR_HEIGHT)


# Ports.


def ports_blocks(figures: RegionalCircuitsFigures) -> list[Block]:
    """Return the plot of the ports over time; none where nothing takes any time."""
    steps, servers = len(figures.steps), figures.problem.servers
    hidden = [
        f"The first {shown} of {counted(count, name)} are drawn."
        for shown, count, name in ((DRAWN_SERVERS, servers, "server"), (DRAWN_STEPS, steps, "step"))
        if shown < count
    ]
    caption = " ".join(["Ports of the optical switch, one above the other; steps follow each other.", *hidden])
    return [Plot(lambda: ports_plot(figures), caption)] if figures.objective.value > 0 else []


def ports_plot(figures: RegionalCircuitsFigures) -> Markup:
    """Draw what the ports of each server do in every step; ports without a circuit stay empty."""
    problem, plan, steps = figures.problem, figures.plan, figures.steps[:DRAWN_STEPS]
    servers, total = min(problem.servers, DRAWN_SERVERS), sum(step.stall_s + step.transfer_s for step in steps)
    names = [element("text", f"server {server}", x=0, y=HEAD + LANE * server + 15) for server in range(servers)]
    shapes: list[Markup] = []
    start, previous = 0.0, None
    for k, step in enumerate(steps):
        circuits = Counter({(first, second): count for first, second, count in plan.topologies[step.circuits]})
        retained = circuits if previous is None else circuits & previous
        lit, end = start + step.stall_s, start + step.stall_s + step.transfer_s
        for server in range(servers):
            used, stay = (sum(count for pair, count in row.items() if server in pair) for row in (circuits, retained))
            top, height = HEAD + LANE * server, (LANE - GAP) / max(problem.ports[server], 1)
            tip = f"server {server}, step {k}: {counted(stay, 'circuit')} retained, {used - stay} reconfigured"
            shapes += [
                _port_bar(tip, css, (since / total, until / total), top + height * above, height * ports)
                for css, since, until, above, ports in (
                    (RETAINED, start, end, 0, stay),
                    (DARK, start, lit, stay, used - stay),
                    (RECONFIGURED, lit, end, stay, used - stay),
                )
                if until > since and ports
            ]
        start, previous = end, circuits
    height = int(HEAD + LANE * servers)
    labels = picture(*names, label="Servers", class_="lanes", width=64, height=height)
    axis = seconds_axis(0.0, total, height) if total > 0 else ()
    bars = picture(*axis, *shapes, label="Ports of the servers over time", class_="bars", height=height)
    return lanes(labels, bars)


def _port_bar(tip: str, css: str, span: tuple[float, float], y: float, height: float) -> Markup:
    box = {"x": percentage(span[0]), "width": percentage(span[1] - span[0]), "y": y, "height": height}
    return element("rect", element("title", tip), class_=f"block f-{css}", **box)


# Circuits.


def circuits_blocks(figures: RegionalCircuitsFigures) -> list[Block]:
    """Return a drawing of each topology, and all circuits as a table."""
    plan = figures.plan

    def drawn(topology: int) -> Callable[[], Markup]:
        return lambda: topology_plot(figures, topology)

    plots = [
        Plot(
            drawn(index),
            f"Circuits {index}, of {_steps_text(_steps_of(plan, index))}: a line for each, at most eight a pair.",
        )
        for index in range(min(len(plan.topologies), DRAWN_TOPOLOGIES))
    ]
    columns = (
        Column("topology", "circuits"),
        Column("steps", "of", _steps_text),
        Column("pairs", "pairs of servers: circuits", _pairs_text),
    )
    rows = [(index, _steps_of(plan, index), topology) for index, topology in enumerate(plan.topologies)]
    return [Side(plots), Table("circuits", columns, rows)]


def _steps_of(plan: RegionalCircuitsPlan, topology: int) -> list[int]:
    return [k for k, index in enumerate(plan.steps) if index == topology]


def _steps_text(steps: list[int]) -> str:
    return ("step " if len(steps) == 1 else "steps ") + ", ".join(map(str, steps))


def _pairs_text(topology: Sequence[tuple[int, int, int]]) -> str:
    rows = [f"{first}↔{second}: {count}" for first, second, count in topology[:NAMED_PAIRS]]
    more = f", and {len(topology) - NAMED_PAIRS} more pairs" if len(topology) > NAMED_PAIRS else ""
    return (", ".join(rows) + more) or "none"


def topology_plot(figures: RegionalCircuitsFigures, topology: int) -> Markup:
    """Draw circuits by how many ports of the fuller end they take."""
    problem, used, lines = figures.problem, [0] * figures.problem.servers, []
    for first, second, count in figures.plan.topologies[topology]:
        used[first] += count
        used[second] += count
        share = count / min(problem.ports[first], problem.ports[second])
        lines.append((first, second, count, share, f"{first} ↔ {second}: {counted(count, 'circuit')}"))
    tips = [f"server {k}: {count} of {problem.ports[k]} ports in use" for k, count in enumerate(used)]
    return circle_of_circuits(lines, tips, f"Circuits between {problem.servers} servers")
