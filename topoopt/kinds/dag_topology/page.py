"""The page of circuits for a job: circuits between pods, ports, and the transfers over time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from markupsafe import Markup

from topoopt.core.arrays import Floats
from topoopt.core.dag_topology import DagTopologyPlan, DagTopologyProblem, DagTopologyResult
from topoopt.core.result import Columns, Objective
from topoopt.page.charts import element, joined, percentage, picture, tick_text, ticks, utilisation_legend
from topoopt.page.networks import circle_of_circuits
from topoopt.page.render import Block, Column, Fact, Page, Plot, Section, Side, Swatch, Table
from topoopt.page.text import counted, percent, possible_improvement, quantity, rejection, shortened
from topoopt.page.timelines import HEAD, LANE, WIDTH_PX
from topoopt.simulate.dag import StepGraph, followed

Channel = tuple[int, int]


@dataclass(frozen=True)
class StepSpan:
    """When a step is under way.

    Attributes:
        name: of the transfer or task.
        source, target: pods of a transfer; -1 for a task.
        start, end: in the unit of time of the instance.
    """

    name: str
    source: int
    target: int
    start: float
    end: float


@dataclass(frozen=True, eq=False)
class DagTopologyFigures:
    """What follows from the circuits for a job: when steps are under way, ports and channels in use."""

    problem: DagTopologyProblem
    plan: DagTopologyPlan

    @cached_property
    def spans(self) -> tuple[Floats, Floats]:
        """Start and end of every step, transfers first."""
        start, end = followed(StepGraph.of(self.problem), self.plan.circuits, self.problem.rate)
        return start, end

    @cached_property
    def steps(self) -> tuple[StepSpan, ...]:
        """When each step is under way, transfers first, in the order of the instance."""
        problem, (start, end) = self.problem, self.spans
        ends = [(m.source, m.target) for m in problem.transfers] + [(-1, -1)] * len(problem.tasks)
        rows = zip(problem.names, ends, start.tolist(), end.tolist(), strict=True)
        return tuple(StepSpan(name, *pods, begin, over) for name, pods, begin, over in rows)

    @property
    def makespan(self) -> float:
        """When the last step of the job ends."""
        return float(self.spans[1].max())

    @property
    def objective(self) -> Objective:
        """The makespan, in the unit of time of the instance."""
        return Objective("makespan", self.makespan, self.problem.time_unit)

    @property
    def compute_time(self) -> float:
        """The job if transfers took no time."""
        return self.problem.compute_time

    @property
    def communication_time(self) -> float:
        """By how much the job takes longer than if transfers took no time."""
        return max(0.0, self.makespan - self.compute_time)

    @cached_property
    def circuits(self) -> tuple[tuple[int, int, int], ...]:
        """The circuits of each pair of pods, by pair, ascending."""
        rows = zip(self.problem.pairs, self.plan.circuits.tolist(), strict=True)
        return tuple((*pair, count) for pair, count in rows)

    @property
    def circuits_total(self) -> int:
        return int(self.plan.circuits.sum())

    @cached_property
    def ports_used(self) -> tuple[int, ...]:
        """How many ports of each pod have a circuit."""
        used = [0] * self.problem.pods
        for pod, peer, count in self.circuits:
            used[pod] += count
            used[peer] += count
        return tuple(used)

    @property
    def ports_saved(self) -> int:
        """Ports of all pods that no circuit ends at."""
        return sum(self.problem.ports) - 2 * self.circuits_total

    @cached_property
    def by_channel(self) -> dict[Channel, list[StepSpan]]:
        """Transfers of each direction of each pair, by their start; channels ascending."""
        channels: dict[Channel, list[StepSpan]] = {}
        for step in self.steps:
            if step.source >= 0:
                channels.setdefault((step.source, step.target), []).append(step)
        return {
            channel: sorted(channels[channel], key=lambda step: (step.start, step.end, step.name))
            for channel in sorted(channels)
        }

    @cached_property
    def channel_use(self) -> dict[Channel, float]:
        """Part of the makespan in which something is transferred, by the circuits of a pair in one direction."""
        shares = {}
        for channel, steps in self.by_channel.items():
            busy, until = 0.0, 0.0
            for step in steps:
                busy += max(0.0, step.end - max(step.start, until))
                until = max(until, step.end)
            shares[channel] = busy / self.makespan if self.makespan > 0 else 0.0
        return shares

    def columns(self) -> dict[str, Columns]:
        """Return the circuits as a table of links."""
        names = ("one", "other", "circuits")
        return {"links": {name: [row[k] for row in self.circuits] for k, name in enumerate(names)}}


MAX_LANES = 40
MAX_BARS = 3000
BAR = 15.0
SHOWN_PAIRS = 40


def least_circuits(result: DagTopologyResult) -> int:
    """Return the number of circuits that no plan within the slack can do without, by the certificate."""
    return int(result.certificates[0]["circuits_bound"][0])


def answer(result: DagTopologyResult) -> str:
    """Return makespan, circuits, free ports, and what is proven of all circuits."""
    figures: DagTopologyFigures = result.figures
    total, least = figures.circuits_total, least_circuits(result)
    few = "none fewer do it in that time (proven)" if least == total else f"at least {least} are needed (proven)"
    return rejection(result.check) or (
        f"The job takes {quantity(result.objective.value, result.objective.unit)} over "
        f"{counted(total, 'circuit')}, which leaves {counted(figures.ports_saved, 'port')} of "
        f"{sum(figures.problem.ports)} free: {possible_improvement(result, 'choice of circuits', 'faster')}; {few}."
    )


def page(result: DagTopologyResult) -> Page:
    """Return the page of a result that has its problem."""
    figures: DagTopologyFigures = result.figures
    problem = figures.problem
    return Page(
        subtitle=f"{counted(problem.pods, 'pod')} · {counted(len(problem.transfers), 'transfer')} · "
        f"{counted(len(problem.tasks), 'task')}",
        answer=answer(result),
        cause=cause(figures),
        facts=facts(result, figures),
        sections=(
            Section("Circuits", circuits_blocks(figures), legend=[Swatch(*row) for row in utilisation_legend()]),
            Section("Transfers over time", [Plot(lambda: timeline(figures))] if figures.makespan > 0 else []),
        ),
        next_commands=(("topoopt explain", "the path that ends last, and what one more port would gain"),),
    )


def cause(figures: DagTopologyFigures) -> str:
    """Return what the makespan consists of."""
    time = quantity(figures.compute_time, figures.problem.time_unit)
    if figures.communication_time <= 0:
        return "Tasks alone take as long: no circuits make the job faster."
    share = percent(figures.communication_time / figures.makespan)
    return f"Communication is {share} of it: without any transfer time the job would take {time}."


def facts(result: DagTopologyResult, figures: DagTopologyFigures) -> tuple[Fact, ...]:
    """Return the figures by key; those without a name are for programs alone."""
    unit, total, least = figures.problem.time_unit, figures.circuits_total, least_circuits(result)
    few = "none fewer do it in that time (proven)" if least == total else f"at least {least} needed"
    return (
        Fact("makespan", "makespan", result.objective.value, lambda v: quantity(v, unit), "when the last step ends"),
        Fact("communication_time", "communication", figures.communication_time, lambda v: quantity(v, unit),
             "of it, beyond the tasks alone"),
        Fact("circuits_total", "circuits", total, str, few),
        Fact("ports_saved", "ports free", figures.ports_saved, str, f"of {sum(figures.problem.ports)} of all pods"),
        Fact("compute_time", "", figures.compute_time),
        Fact("circuits", "", [list(row) for row in figures.circuits]),
        Fact("circuits_bound", "", least),
        Fact("ports_used", "", list(figures.ports_used)),
        Fact("fastest_circuits", "", figures.plan.fastest_circuits.tolist()),
    )  # fmt: skip


def circuits_blocks(figures: DagTopologyFigures) -> list[Block]:
    """Return the circuits on a circle, those of each pair, and the ports of each pod."""
    use = figures.channel_use
    rows = [
        ((pod, peer), count, use.get((pod, peer), 0.0), use.get((peer, pod), 0.0))
        for pod, peer, count in sorted(figures.circuits, key=lambda row: -row[2])
    ]
    columns = (
        Column("pods", "pods", lambda pair: f"{pair[0]} ↔ {pair[1]}"),
        Column("count", "circuits", number=True),
        Column("forward_use", "in use →", percent, number=True),
        Column("backward_use", "in use ←", percent, number=True),
    )
    ports = list(zip(range(figures.problem.pods), figures.ports_used, figures.problem.ports, strict=True))
    pod_columns = (
        Column("pod", "pod"),
        Column("used", "ports used", number=True),
        Column("ports", "ports", number=True),
    )
    caption = (
        "A line for each circuit (of more than eight, eight), "
        "by the part of the time in which its busier direction carries something."
    )
    tables = [
        Table("pair_circuits", columns, rows, max_rows=SHOWN_PAIRS, terminal_rows=12),
        Table("pod_ports", pod_columns, ports, max_rows=SHOWN_PAIRS, terminal_rows=0),
    ]
    return [Side([Plot(lambda: circuits_plot(figures), caption), tables[0]]), tables[1]]


def circuits_plot(figures: DagTopologyFigures) -> Markup:
    """Draw circuits by how long the busier direction is in use; the text of a line has their number."""
    use, lines = figures.channel_use, []
    for pod, peer, count in figures.circuits:
        share = max(use.get((pod, peer), 0.0), use.get((peer, pod), 0.0))
        text = f"{pod} ↔ {peer}: {counted(count, 'circuit')}, in use {percent(share)} of the time"
        lines.append((pod, peer, count, share, text))
    ports = zip(figures.ports_used, figures.problem.ports, strict=True)
    tips = [f"pod {pod}: {used} of {count} ports in use" for pod, (used, count) in enumerate(ports)]
    return circle_of_circuits(lines, tips, f"Circuits between {figures.problem.pods} pods")


def timeline(figures: DagTopologyFigures) -> Markup:
    """Draw the transfers, a lane for each direction of each pair, names of the lanes beside them."""
    channels, makespan = figures.by_channel, figures.makespan
    busiest = sorted(channels, key=lambda channel: (-max(step.end for step in channels[channel]), channel))
    lanes = sorted(busiest[:MAX_LANES])
    count = {row[:2]: row[2] for row in figures.circuits}
    height = HEAD + LANE * len(lanes)
    names, shapes, remaining = [], [_axis(makespan, height)], MAX_BARS
    hidden = sum(len(steps) for channel, steps in channels.items() if channel not in lanes)
    for lane, channel in enumerate(lanes):
        y = HEAD + LANE * lane
        circuits = count.get((min(channel), max(channel)), 0)
        names.append(element("text", f"{channel[0]} → {channel[1]} ×{circuits}", x=0, y=y + 14))
        shapes.append(element("rect", x=0, width="100%", y=y, height=LANE - 4, class_="lane"))
        drawn = channels[channel][:remaining]
        hidden += len(channels[channel]) - len(drawn)
        remaining -= len(drawn)
        shapes += [_bar(figures, channel, index, y) for index in range(len(drawn))]
    size = {"height": int(height) + 2}
    lane_names = picture(*names, label="Channels", class_="lanes", width=96, **size)
    bars = picture(*shapes, label="Transfers over time", class_="bars", **size)
    note = element("p", f"{counted(hidden, 'transfer')} of the shorter lanes left out.", class_="muted")
    scroll = element("div", bars, class_="scroll", data_label="timeline")
    chart = element("div", element("div", lane_names), scroll, class_="gantt")
    return chart + note if hidden else chart


def _bar(figures: DagTopologyFigures, channel: Channel, index: int, y: float) -> Markup:
    step, makespan, unit = figures.by_channel[channel][index], figures.makespan, figures.problem.time_unit
    share = (step.end - step.start) / makespan
    tip = f"{step.name}: {channel[0]} → {channel[1]}\n{quantity(step.start, unit)} to {quantity(step.end, unit)}"
    box = element("rect", element("title", tip), class_="c-mp block", width="100%", height="100%")
    label = shortened(step.name, 20)
    fits = share * WIDTH_PX >= 6.2 * len(label) + 8
    text = element("text", label, x=4, y=BAR - 4, class_="on on-mp") if fits else Markup("")
    return element("svg", box, text, x=percentage(step.start / makespan), y=y + 2, width=percentage(share), height=BAR)


def _axis(makespan: float, height: float) -> Markup:
    values = [value for value in ticks(0.0, makespan, 8) if value <= makespan * 0.94]
    step = values[1] - values[0] if len(values) > 1 else makespan
    marks = []
    for value in values:
        x = percentage(value / makespan)
        line = element("line", x1=x, x2=x, y1=HEAD - 6, y2=height, class_="gridline")
        anchor = "middle" if value else "start"
        marks += [line, element("text", tick_text(value, step), x=x, y=HEAD - 10, text_anchor=anchor)]
    end = element("text", f"{makespan:.4g}", x="100%", y=HEAD - 10, text_anchor="end")
    return joined([*marks, element("line", x1="100%", x2="100%", y1=HEAD - 6, y2=height, class_="axis"), end])
