"""The page of parallel circuits: the switches over time, and their configurations."""

from __future__ import annotations

from markupsafe import Markup

from topoopt.core.regional_circuits import ParallelCircuitsPlan, ParallelCircuitsProblem
from topoopt.core.result import Result
from topoopt.kinds.parallel_circuits.figures import ParallelCircuitsFigures
from topoopt.page.charts import element, percentage, picture
from topoopt.page.render import Column, Fact, Page, Plot, Section, Swatch, Table
from topoopt.page.text import counted, percent, possible_improvement, quantity, rejection
from topoopt.page.timelines import lanes, seconds_axis

LANE, HEAD, BAR = 26.0, 24.0, 20.0
NAMED_TARGETS = 16
LEGEND = (Swatch("c-mp", "circuits carry", "box"), Swatch("c-critical", "circuits are set: dark", "box"))


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
