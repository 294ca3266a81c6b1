"""Figures that follow from the configurations of parallel switches, and their page; none is stored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from markupsafe import Markup

from topoopt.core.arrays import Floats
from topoopt.core.regional_circuits import ParallelCircuitsPlan, ParallelCircuitsProblem
from topoopt.core.result import Columns, Objective, Result
from topoopt.page.charts import element, percentage, picture
from topoopt.page.render import Column, Fact, Page, Plot, Section, Swatch, Table
from topoopt.page.text import counted, percent, possible_improvement, quantity, rejection
from topoopt.page.timelines import lanes, seconds_axis

LANE, HEAD, BAR = 26.0, 24.0, 20.0
NAMED_TARGETS = 16
LEGEND = (Swatch("c-mp", "circuits carry", "box"), Swatch("c-critical", "circuits are set: dark", "box"))


@dataclass(frozen=True)
class BusiestLine:
    """The server that sends, or receives, for the longest.

    Attributes:
        server, sends: which one, and whether it is what it sends.
        demand_us: all its demand, microseconds.
        peers: how many servers it is exchanged with.
        least_us: its demand and a delay for each peer, shared by all switches.
    """

    server: int
    sends: bool
    demand_us: float
    peers: int
    least_us: float


def makespan_us(problem: ParallelCircuitsProblem, loads_us: Floats) -> float:
    """Return the time of the busiest switch, microseconds."""
    return float(loads_us.max()) - problem.saved_us


@dataclass(frozen=True, eq=False)
class ParallelCircuitsFigures:
    """What follows from the configurations: loads of the switches, and what the time is lost to."""

    problem: ParallelCircuitsProblem
    plan: ParallelCircuitsPlan

    @cached_property
    def objective(self) -> Objective:
        """The time of the busiest switch."""
        return Objective("makespan", makespan_us(self.problem, self.loads_us), "us")

    @cached_property
    def counts(self) -> list[int]:
        """The number of configurations of every switch."""
        switches = [switch for switch, _, _ in self.plan.configurations]
        return [switches.count(switch) for switch in range(self.problem.switches)]

    @cached_property
    def loads_us(self) -> Floats:
        """float64[s], durations and delays of every switch, that of its first configuration included."""
        switch, duration, _ = zip(*self.plan.configurations, strict=True)
        return np.bincount(switch, duration, self.problem.switches) + self.problem.delay_us * np.array(self.counts)

    @property
    def delay_share(self) -> float:
        """Part of the time of all switches, while they work, that is delay."""
        delays = sum(max(count - (not self.problem.first_pays), 0) for count in self.counts) * self.problem.delay_us
        worked = float(self.loads_us.sum()) - self.problem.saved_us * sum(count > 0 for count in self.counts)
        return delays / worked if worked else 0.0

    @cached_property
    def busiest(self) -> BusiestLine:
        """The server whose demand and delays alone take longest."""
        demand = self.problem.demand_us
        rows = []
        for sends, axis in ((True, 1), (False, 0)):
            amounts, peers = demand.sum(axis=axis), (demand > 0).sum(axis=axis)
            least = (amounts + self.problem.delay_us * peers) / self.problem.switches
            server = int(least.argmax())
            rows.append(BusiestLine(server, sends, float(amounts[server]), int(peers[server]), float(least[server])))
        return max(rows, key=lambda row: row.least_us)

    def columns(self) -> dict[str, Columns]:
        """All configurations, as columns."""
        rows = self.plan.configurations
        switch, duration, targets = (list(column) for column in zip(*rows, strict=True))
        return {"configurations": {"switch": switch, "duration_us": duration, "targets": [list(t) for t in targets]}}


def microseconds(value: float) -> str:
    """Write a time in six digits."""
    return quantity(value, "us")


def page(result: Result[ParallelCircuitsProblem, ParallelCircuitsPlan]) -> Page:
    """Return the page of a result that has its problem."""
    figures: ParallelCircuitsFigures = result.figures
    problem, count = figures.problem, len(figures.plan.configurations)
    time, proven = microseconds(result.objective.value), possible_improvement(result, "plan", "faster")
    return Page(
        subtitle=f"{counted(problem.servers, 'server')} · {counted(problem.switches, 'switch', 'switches')}"
        f" · delay {microseconds(problem.delay_us)}",
        answer=rejection(result.check)
        or f"The demand is sent in {time} by {counted(count, 'configuration')}: {proven}.",
        cause=cause(figures) if result.check.ok else "",
        facts=facts(figures),
        sections=(
            Section("Switches over time", [Plot(lambda: switches_plot(figures))], legend=LEGEND),
            Section("Configurations", [configurations_table(figures)]),
        ),
        next_commands=(("topoopt compare --methods auto,spectra,eclipse", "how far published methods are from it"),),
    )


def cause(figures: ParallelCircuitsFigures) -> str:
    """Return which server and what share of delays the time comes from."""
    busiest = figures.busiest
    verb, peers = ("sends", "to") if busiest.sends else ("receives", "from")
    return (
        f"Server {busiest.server} alone needs {microseconds(busiest.least_us)}: it {verb} "
        f"{microseconds(busiest.demand_us)} {peers} {counted(busiest.peers, 'server')}. "
        f"Delays are {percent(figures.delay_share)} of the time of all switches."
    )


def facts(figures: ParallelCircuitsFigures) -> tuple[Fact, ...]:
    """Return the figures by key."""
    busiest, count = figures.busiest, len(figures.plan.configurations)
    return (
        Fact("makespan_us", "makespan", figures.objective.value, microseconds, "until the last switch is done"),
        Fact("configurations", "configurations", count, detail="of all switches"),
        Fact("delay_share", "delays", figures.delay_share, percent, "of the time of all switches"),
        Fact(
            "busiest_server",
            "busiest server",
            busiest.server,
            detail="sends" if busiest.sends else "receives",
            card=False,
        ),
        Fact("loads_us", "", figures.loads_us.tolist()),
    )


def configurations_table(figures: ParallelCircuitsFigures) -> Table:
    columns = (
        Column("switch", "switch", number=True),
        Column("duration_us", "duration", microseconds, number=True),
        Column("targets", "server → server", lambda targets: circuits_text(figures, targets)),
    )
    return Table("configurations_of_switches", columns, figures.plan.configurations)


def circuits_text(figures: ParallelCircuitsFigures, targets: tuple[int, ...]) -> str:
    """Write the circuits of a configuration between servers that have something to send."""
    pairs = [f"{i}→{j}" for i, j in enumerate(targets) if figures.problem.demand_us[i, j] > 0]
    more = f", and {len(pairs) - NAMED_TARGETS} more" if len(pairs) > NAMED_TARGETS else ""
    return ", ".join(pairs[:NAMED_TARGETS]) + more


def switches_plot(figures: ParallelCircuitsFigures) -> Markup:
    """Draw delay and duration of every configuration, a lane for each switch."""
    problem, total = figures.problem, figures.objective.value
    names = [element("text", f"switch {k}", x=0, y=HEAD + LANE * k + 14) for k in range(problem.switches)]
    shapes: list[Markup] = []
    ends = [-problem.saved_us] * problem.switches
    for switch, duration, targets in figures.plan.configurations:
        lit = ends[switch] + problem.delay_us
        spans = (("c-critical", max(ends[switch], 0.0), lit), ("c-mp", lit, lit + duration))
        tip = f"{microseconds(duration)}: {circuits_text(figures, targets)}"
        for css, start, end in spans:
            if end > start:
                box = {"x": percentage(start / total), "width": percentage((end - start) / total)}
                size = {"y": HEAD + LANE * switch, "height": BAR}
                shapes.append(element("rect", element("title", tip), class_=f"block {css}", **box, **size))
        ends[switch] = lit + duration
    height = int(HEAD + LANE * problem.switches)
    labels = picture(*names, label="Switches", class_="lanes", width=64, height=height)
    bars = picture(
        *seconds_axis(0.0, total * 1e-6, height), *shapes, label="Switches over time", class_="bars", height=height
    )
    return lanes(labels, bars)
