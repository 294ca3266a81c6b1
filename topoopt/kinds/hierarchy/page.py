"""The page of a hierarchical network: bandwidths, time of the collectives in every dimension, time against cost."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from markupsafe import Markup

from formulations.hierarchical_bandwidth import BandwidthProgram, plain_program
from topoopt.core.arrays import Floats
from topoopt.core.hierarchy import Collective, Design, Dimension, HierarchicalPlan, HierarchicalProblem, fleet_time
from topoopt.core.proofs import Tolerance
from topoopt.core.result import Columns, Objective, Result
from topoopt.page.charts import Point, Series, element, legend, number_axis, percentage, picture, stack, xy_chart
from topoopt.page.render import Block, Column, Fact, Page, Plot, Section, Swatch, Table
from topoopt.page.text import (
    byte_size,
    compared,
    number,
    objective_text,
    percent,
    possible_improvement,
    quantity,
    ratio,
    rejection,
    shortened,
)
from topoopt.verify.hierarchy import UNITS, BandwidthProof, point_bound


@dataclass(frozen=True)
class CollectiveTime:
    """All collectives of one kind of a job on one communicator.

    Attributes:
        job, communicator, collective: which.
        size_bytes: in one iteration, on all paths together.
        times_ns: how long they take in each dimension, were nothing overlapped.
    """

    job: str
    communicator: str
    collective: Collective
    size_bytes: float
    times_ns: tuple[float, ...]

    @property
    def time_ns(self) -> float:
        """How long the collectives take in all dimensions together."""
        return max(self.times_ns)

    @property
    def slowest(self) -> tuple[int, ...]:
        """Indices of the dimensions that take longest; closer times are equal within the accuracy."""
        least = self.time_ns - Tolerance.TIE.of(self.time_ns)
        return tuple(index for index, time in enumerate(self.times_ns) if time > 0 and time >= least)


@dataclass(frozen=True)
class JobTime:
    """Iteration time of one job, its compute alone, and its time under the equal split."""

    name: str
    weight: float
    time_ns: float
    compute_ns: float
    equal_split_ns: float


@dataclass(frozen=True, eq=False)
class HierarchicalFigures:
    """The figures of a plan; arrays are by dimension, innermost first."""

    problem: HierarchicalProblem
    plan: HierarchicalPlan

    @property
    def design(self) -> Design:
        return self.problem.designs[self.plan.design]

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The dimensions of the network of that design."""
        return self.design.network.dimensions

    @cached_property
    def program(self) -> BandwidthProgram:
        """The program of the design, without tau."""
        return plain_program(self.design, self.problem)

    @cached_property
    def bandwidth(self) -> Floats:
        """float64[D], bandwidth of each dimension in GB/s per NPU."""
        return np.array(self.plan.bandwidth_gbytes_per_s, dtype=np.float64)

    @cached_property
    def equal(self) -> Floats:
        """float64[D], the total of the network, or else the sum of its bandwidths, in equal parts."""
        total, count = self.design.network.total_gbytes_per_s, len(self.bandwidth)
        return np.full(count, (float(self.bandwidth.sum()) if total is None else total) / count)

    @cached_property
    def cost_usd(self) -> float | None:
        """Of the network; None without prices."""
        return self.program.cost_of(self.bandwidth) if self.design.network.priced else None

    @cached_property
    def equal_cost_usd(self) -> float | None:
        """Cost of the equal split; None without prices."""
        return self.program.cost_of(self.equal) if self.design.network.priced else None

    @cached_property
    def objective(self) -> Objective:
        """Time, time x cost, or cost."""
        return objective_of(self.problem, self)

    @cached_property
    def jobs(self) -> tuple[JobTime, ...]:
        """The times of every job, here, without communication and under the equal split."""
        endless = np.full(len(self.bandwidth), np.inf)
        return tuple(
            JobTime(
                workload.name,
                workload.weight,
                timeline.time_ns(self.bandwidth),
                timeline.time_ns(endless),
                timeline.time_ns(self.equal),
            )
            for workload, timeline in zip(self.design.workloads, self.program.timelines, strict=True)
        )

    @cached_property
    def collectives(self) -> tuple[CollectiveTime, ...]:
        """What takes how long, by job, communicator and collective."""
        rows = []
        for workload, timeline in zip(self.design.workloads, self.program.timelines, strict=True):
            groups = zip(timeline.groups, timeline.volumes, timeline.all_sizes, strict=True)
            for (communicator, kind), volumes, size in groups:
                moved = size * volumes
                times = np.divide(moved, self.bandwidth, out=np.zeros_like(moved), where=moved > 0)
                name = workload.communicators[communicator].name
                rows.append(CollectiveTime(workload.name, name, kind, float(size), tuple(times.tolist())))
        return tuple(rows)

    def bound_by(self, collective: CollectiveTime) -> tuple[str, ...]:
        """Return the names of the dimensions that a collective takes longest in."""
        return tuple(self.dimensions[index].name for index in collective.slowest)

    @cached_property
    def gain_ns(self) -> tuple[float, ...]:
        """Time saved by 1 GB/s more in each dimension alone; 0 where it is rounding."""
        time = self.program.time_of(self.bandwidth)
        faster = (self.program.time_of(self.bandwidth + row) for row in np.eye(len(self.bandwidth)))
        rounding = Tolerance.ROUNDING.of(time)
        return tuple(gain if (gain := time - value) > rounding else 0.0 for value in faster)

    @cached_property
    def front(self) -> tuple[tuple[float, float], ...]:
        """Time, ns, and cost, US dollars, of the networks of the front."""
        points = [np.array(point.bandwidth_gbytes_per_s) for point in self.plan.front]
        return tuple((self.program.time_of(point), self.program.cost_of(point)) for point in points)

    @property
    def time_ns(self) -> float:
        """Time of the fleet, as the objective counts it."""
        return fleet_time(self.problem.fleet, [job.weight * job.time_ns for job in self.jobs])

    @property
    def equal_time_ns(self) -> float:
        """The same under the equal split of the same total."""
        return fleet_time(self.problem.fleet, [job.weight * job.equal_split_ns for job in self.jobs])

    @property
    def speedup_over_equal(self) -> float:
        """Time under the equal split over time."""
        return self.equal_time_ns / self.time_ns

    @property
    def perf_per_cost_gain(self) -> float | None:
        """Performance per cost over that of the equal split; None without prices, and where nothing costs anything."""
        if not self.cost_usd or self.equal_cost_usd is None:
            return None
        return self.equal_time_ns * self.equal_cost_usd / (self.time_ns * self.cost_usd)

    def columns(self) -> dict[str, Columns]:
        """Tables of dimensions and collectives, as columns."""
        return {
            "dimensions": {
                "name": [dimension.name for dimension in self.dimensions],
                "bandwidth_gbytes_per_s": self.bandwidth,
                "gain_ns": list(self.gain_ns),
            },
            "collectives": {
                "job": [row.job for row in self.collectives],
                "communicator": [row.communicator for row in self.collectives],
                "collective": [row.collective.value for row in self.collectives],
                "size_bytes": [row.size_bytes for row in self.collectives],
                "time_ns": [row.time_ns for row in self.collectives],
            },
        }


def objective_of(problem: HierarchicalProblem, figures: HierarchicalFigures) -> Objective:
    """Return time, time x cost, or cost."""
    time, cost = figures.program.time_of(figures.bandwidth), figures.cost_usd or 0.0
    value = {
        "time": time,
        "time-times-cost": time * cost,
        "cost": cost,
    }[problem.objective]
    return Objective(problem.objective, value, UNITS[problem.objective])


def marginal_ns(result: Result[HierarchicalProblem, HierarchicalPlan]) -> tuple[float, ...] | None:
    """Return ns per GB/s in each dimension at the margin, or None for a list of speeds and without a proof.

    The other dimensions that hold up the same collectives grow with it. This is the dual price of its bandwidth:
    W / B^2 with W the bytes that the certificate of the design holds against the dimension for one unit of time.
    """
    figures: HierarchicalFigures = result.figures
    program, plan = figures.program, result.plan
    if any(program.speeds):
        return None
    proofs = (BandwidthProof.of(figures.problem, certificate) for certificate in result.certificates)
    proof = next((p for p in proofs if p.design == plan.design and p.point is None and not p.too_slow), None)
    if proof is None:
        return None
    shares = {(share.job, share.communicator, share.collective): share.bytes_by_dimension for share in proof.shares}
    bytes_held, units = np.zeros(len(figures.bandwidth)), []
    for job, (timeline, weight) in enumerate(zip(program.timelines, program.weights.tolist(), strict=True)):
        none = (0.0,) * len(figures.bandwidth)
        rows = np.array([shares.get((job, *group), none) for group in timeline.groups]).reshape(-1, len(none))
        bytes_held += (rows * timeline.volumes).sum(axis=0)
        units.append(float(np.array([path.weight for path in proof.paths if path.job == job]).sum()) / weight)
    unit = sum(units) if program.worst_case else max(units)
    if unit <= 0:
        return (0.0,) * len(figures.bandwidth)
    bandwidth = figures.bandwidth
    held = np.divide(bytes_held / unit, bandwidth**2, out=np.zeros_like(bandwidth), where=bandwidth > 0)
    return tuple(held.tolist())


COLOURS = 8
BAR = 26.0
ROW = 54.0

_TIME_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_MONEY_UNITS = ((1e9, "bn"), (1e6, "M"))

HierarchicalResult = Result[HierarchicalProblem, HierarchicalPlan]


def duration(time_ns: float) -> str:
    """Write a time in the unit that fits: `722.4 ms`."""
    for scale, unit in _TIME_UNITS:
        if abs(time_ns) >= scale:
            return f"{number(time_ns / scale)} {unit}"
    return f"{number(time_ns)} ns"


def money(cost_usd: float | None) -> str:
    """Write US dollars: `9.527 M USD`."""
    if cost_usd is None:
        return "no prices"
    for scale, unit in _MONEY_UNITS:
        if abs(cost_usd) >= scale:
            return f"{number(cost_usd / scale)} {unit} USD"
    return f"{number(cost_usd)} USD"


def page(result: HierarchicalResult) -> Page:
    """Return the page of a result that has its problem."""
    figures: HierarchicalFigures = result.figures
    shape = " × ".join(f"{dimension.block.value} {dimension.size}" for dimension in figures.dimensions)
    legend = [Swatch(f"f-k{colour}", row[0], "box") for colour, row in enumerate(collective_rows(figures))]
    return Page(
        subtitle=f"{figures.design.network.npus:,} NPUs · {shape} · least {objective_text(result.objective.name)}",
        answer=answer(result, figures),
        cause=cause(figures) if result.check.ok else "",
        facts=facts(result, figures),
        sections=(
            Section(
                "Bandwidth",
                [
                    Plot(lambda: bandwidth_bars(figures), "The dashed line is the equal split."),
                    dimensions_table(figures, marginal_ns(result)),
                ],
            ),
            Section("Collectives", collectives_blocks(figures), legend=legend),
            Section("Time and cost", front_blocks(result, figures)),
            Section("Jobs", [jobs_table(figures)] if len(figures.jobs) > 1 else []),
        ),
        provenance=(("design", f"{figures.design.name} ({result.plan.design + 1} of {len(figures.problem.designs)})"),),
        next_commands=(("topoopt check", "every bound again, without a solver"),),
    )


def answer(result: HierarchicalResult, figures: HierarchicalFigures) -> str:
    """Return time and cost beside those of the same bandwidth split equally, and what is proven."""
    cost = "" if figures.cost_usd is None else f" on a network of {money(figures.cost_usd)}"
    gain = figures.perf_per_cost_gain
    value = "" if gain is None else f" with {ratio(gain)} the performance per cost"
    against = f"{compared(figures.time_ns, figures.equal_time_ns)[1]} the same bandwidth split equally{value}"
    better = "faster" if figures.problem.objective == "time" else "better"
    jobs = len(figures.jobs)
    iteration = "One iteration" if jobs == 1 else f"An iteration of all {jobs} jobs, as weighted,"
    best = possible_improvement(result, "design allowed", better)
    return rejection(result.check) or f"{iteration} takes {duration(figures.time_ns)}{cost}, {against}; {best}."


def cause(figures: HierarchicalFigures) -> str:
    """Return what the time mostly consists of."""
    compute = fleet_time(figures.problem.fleet, [job.weight * job.compute_ns for job in figures.jobs])
    share = compute / figures.time_ns if figures.time_ns else 1.0
    longest = max(figures.collectives, key=lambda row: row.time_ns, default=None)
    if longest is None or share >= 0.5:
        return f"Compute is {percent(share)} of it."
    name, limits = group_name(longest, len(figures.jobs)), " and ".join(figures.bound_by(longest))
    return f"Compute is {percent(share)} of it; {name} takes longest, limited by {limits}."


def facts(result: HierarchicalResult, figures: HierarchicalFigures) -> tuple[Fact, ...]:
    """Return the figures by key; those without a name are for programs alone."""
    fast, gain, objective = figures.speedup_over_equal, figures.perf_per_cost_gain, result.objective
    of_time = figures.problem.objective == "time"
    marginal = marginal_ns(result)
    designs = len(figures.problem.designs)
    time = Fact(
        "time_ns", "time of an iteration", figures.time_ns, duration, f"equal split: {duration(figures.equal_time_ns)}"
    )
    first = Fact("", objective_text(objective.name), objective.value, lambda value: quantity(value, objective.unit))
    cost = "" if figures.cost_usd is None or figures.problem.objective == "cost" else "cost of the network"
    split = "" if figures.equal_cost_usd is None else f"equal split: {money(figures.equal_cost_usd)}"
    return (
        *(() if of_time else (first,)),
        time,
        Fact("dimensions", "", [dimension.name for dimension in figures.dimensions]),
        Fact("bandwidth_gbytes_per_s", "", list(result.plan.bandwidth_gbytes_per_s)),
        Fact("cost_usd", cost, figures.cost_usd, money, split),
        Fact("speedup_over_equal", "speed over the equal split", fast, ratio, "the same total bandwidth",
             css="good" if fast > 1 else ""),
        Fact("perf_per_cost_gain", "" if gain is None else "performance per cost", gain, ratio, "over the equal split",
             css="good" if gain is not None and gain > 1 else ""),
        Fact("design", "design" if designs > 1 else "", figures.design.name, card=False),
        Fact("designs", "", designs),
        Fact("jobs", "", [{"name": job.name, "time_ns": job.time_ns, "compute_ns": job.compute_ns}
                          for job in figures.jobs]),
        Fact("collectives", "", [
            {
                "job": row.job,
                "communicator": row.communicator,
                "collective": row.collective.value,
                "bytes": row.size_bytes,
                "time_ns": row.time_ns,
                "bound_by": list(figures.bound_by(row)),
            }
            for row in figures.collectives
        ]),
        Fact("gain_ns", "", list(figures.gain_ns)),
        Fact("marginal_ns", "", None if marginal is None else list(marginal)),
        Fact("pareto", "", [{"time_ns": time, "cost_usd": cost} for time, cost in figures.front]),
    )  # fmt: skip


def dimensions_table(figures: HierarchicalFigures, marginal: Sequence[float] | None) -> Table:
    """Return a row for each dimension: bandwidth, what 1 GB/s more saves alone, and at the margin."""
    least = 1e-6 * figures.time_ns  # bandwidths are right to about 1e-4: what is left of a gain at a tie is rounding
    columns = [
        Column("dimension", "dimension"),
        Column("block", "block"),
        Column("gbytes_per_s", "GB/s per NPU", lambda value: f"{value:.3f}", number=True),
        Column(
            "gain_ns", "1 GB/s more here saves", lambda gain: duration(gain) if gain > least else "nothing", number=True
        ),
    ]
    rows: list[list[Any]] = [
        [dimension.name, f"{dimension.block.value} of {dimension.size}", value, gain]
        for dimension, value, gain in zip(
            figures.dimensions, figures.plan.bandwidth_gbytes_per_s, figures.gain_ns, strict=True
        )
    ]
    if marginal is not None:
        columns.append(Column("marginal_ns", "at the margin", duration, number=True))
        rows = [[*row, price] for row, price in zip(rows, marginal, strict=True)]
    note = (
        "“Saves”: 1 GB/s more in this dimension alone. “At the margin”: per GB/s, when the other dimensions that hold "
        "up the same collectives grow with it."
    )
    return Table("dimension_rates", columns, rows, note=note, terminal_rows=12)


def collectives_blocks(figures: HierarchicalFigures) -> list[Block]:
    """Return the bars and a row for each group of collectives, longest first."""
    if not figures.collectives:
        return []
    columns = (
        Column("name", "collectives"),
        Column("bytes", "bytes", byte_size, number=True),
        Column("time_ns", "time", duration, number=True),
        Column("bound_by", "held up by", ", ".join),
    )
    rows = [
        (group_name(row, len(figures.jobs)), row.size_bytes, row.time_ns, figures.bound_by(row))
        for row in sorted(figures.collectives, key=lambda row: -row.time_ns)
    ]
    caption = (
        "Time each dimension is busy, without overlap. Full colour: the dimension holds the collective up; pale: it "
        "waits for another."
    )
    return [Plot(lambda: collective_bars(figures), caption), Table("collective_times", columns, rows, terminal_rows=20)]


def front_blocks(result: HierarchicalResult, figures: HierarchicalFigures) -> list[Block]:
    """Return cost against time, and a row for each point of the front with the bound on its cost."""
    if not figures.front:
        return []
    columns = (
        Column("time_ns", "time", duration, number=True),
        Column("cost_usd", "cost", money, number=True),
        Column("cost_bound_usd", "no cheaper network than", money, number=True),
        Column("bandwidths", "GB/s per NPU", lambda values: ", ".join(map(number, values))),
    )
    rows = [
        (
            time_ns,
            cost_usd,
            min(point_bound(figures.problem, result.plan, k, result.certificates), cost_usd),
            point.bandwidth_gbytes_per_s,
        )
        for k, ((time_ns, cost_usd), point) in enumerate(zip(figures.front, result.plan.front, strict=True))
    ]
    caption = f"Every point is a network that keeps its time. {front_text(figures)}"
    drawn = len(figures.front) > 1 and figures.cost_usd is not None
    return [
        *([Plot(lambda: pareto_plot(figures), caption)] if drawn else []),
        Table("front", columns, rows, terminal_rows=0),
    ]


def jobs_table(figures: HierarchicalFigures) -> Table:
    columns = (
        Column("name", "job"),
        Column("time_ns", "iteration", duration, number=True),
        Column("compute_ns", "compute alone", duration, number=True),
        Column("over_equal", "over the equal split", lambda value: "–" if value is None else ratio(value), number=True),
    )
    rows = [
        (job.name, job.time_ns, job.compute_ns, job.equal_split_ns / job.time_ns if job.time_ns else None)
        for job in figures.jobs
    ]
    return Table("job_times", columns, rows, terminal_rows=0)


# Plots.


def group_name(row: CollectiveTime, jobs: int) -> str:
    """Return `all-reduce, tensor`, with the job where there are several."""
    name = f"{row.collective.value}, {row.communicator}"
    return shortened(f"{row.job}: {name}" if jobs > 1 else name, 60)


def collective_rows(figures: HierarchicalFigures) -> list[tuple[str, Sequence[float], Sequence[bool]]]:
    """Return the longest collectives: name, time in each dimension, and whether the dimension holds them up."""
    count = len(figures.dimensions)
    groups = sorted(figures.collectives, key=lambda row: -row.time_ns)
    drawn, others = groups[: COLOURS - 1], groups[COLOURS - 1 :]
    rows: list[tuple[str, Sequence[float], Sequence[bool]]] = [
        (group_name(row, len(figures.jobs)), row.times_ns, [k in row.slowest for k in range(count)]) for row in drawn
    ]
    if others:
        together = [sum(row.times_ns[k] for row in others) for k in range(count)]
        rows.append((f"{len(others)} others", together, [False] * count))
    return rows


def collective_bars(figures: HierarchicalFigures) -> Markup:
    """Draw a stacked bar for each dimension: how long the collectives keep it busy."""
    rows, count = collective_rows(figures), len(figures.dimensions)
    longest = max((sum(row[1][k] for row in rows) for k in range(count)), default=0.0)
    shapes = []
    for k, dimension in enumerate(figures.dimensions):
        y, parts = ROW * k, []
        total = sum(row[1][k] for row in rows)
        label = f"{dimension.name}, {dimension.block.value} {dimension.size}: {duration(total)}"
        shapes.append(element("text", shortened(label, 90), x=0, y=y + 14))
        for colour, (text, times_ns, slow) in enumerate(rows):
            holds, pale = (" (holds it up)", "") if slow[k] else ("", " pale")
            tip = f"{text}\n{duration(times_ns[k])} in {dimension.name}{holds}"
            parts.append((f"block f-k{colour}{pale}", tip, times_ns[k] / longest if longest else 0.0))
        shapes += stack(parts, BAR, y + 20)
    label = "Time of the collectives in every dimension"
    return picture(*shapes, label=label, class_="wide", height=int(ROW * count))


def bandwidth_bars(figures: HierarchicalFigures) -> Markup:
    """Draw the bandwidth of each dimension beside the equal split."""
    values = figures.plan.bandwidth_gbytes_per_s
    equal = sum(values) / len(values)
    largest = max(*values, equal) or 1.0
    shapes, x = [], percentage(equal / largest)
    for k, (dimension, value) in enumerate(zip(figures.dimensions, values, strict=True)):
        y = ROW * k
        shapes.append(element("text", shortened(dimension.name, 60), x=0, y=y + 14))
        shapes.append(element("rect", x=0, y=y + 20, width="100%", height=BAR, class_="track"))
        shapes.append(element("rect", x=0, y=y + 20, width=percentage(value / largest), height=BAR, class_="f-k0"))
        shapes.append(element("line", x1=x, x2=x, y1=y + 18, y2=y + 22 + BAR, class_="mean"))
    height = int(ROW * len(figures.dimensions))
    return picture(*shapes, label="Bandwidth of every dimension", class_="wide", height=height)


def _unit(value: float) -> tuple[float, str]:
    return next(((scale, unit) for scale, unit in _TIME_UNITS if value >= scale), (1.0, "ns"))


def equal_is_near(figures: HierarchicalFigures) -> bool:
    """Return whether the equal split is near enough to the front to be drawn beside it without squeezing it."""
    if figures.equal_cost_usd is None or not figures.front:
        return False
    slowest, dearest = figures.front[-1][0], figures.front[0][1]
    return figures.equal_time_ns <= 1.3 * slowest and figures.equal_cost_usd <= 1.5 * dearest


def pareto_plot(figures: HierarchicalFigures) -> Markup:
    """Draw cost against time: the front, the chosen network, the equal split."""
    assert figures.cost_usd is not None
    marks = [("fastest at each cost", list(figures.front)), ("this solution", [(figures.time_ns, figures.cost_usd)])]
    if equal_is_near(figures) and figures.equal_cost_usd is not None:
        marks.append(("equal split", [(figures.equal_time_ns, figures.equal_cost_usd)]))
    scale, unit = _unit(max(time for _, points in marks for time, _ in points))
    series = [
        Series(
            name,
            tuple(Point(time / scale, cost / 1e6, f"{name}: {duration(time)}, {money(cost)}") for time, cost in points),
            line=k == 0,
        )
        for k, (name, points) in enumerate(marks)
    ]
    x = number_axis(f"time of an iteration, {unit}", [point.x for curve in series for point in curve.points])
    y = number_axis("cost, million USD", [point.y for curve in series for point in curve.points])
    return legend([curve.name for curve in series]) + xy_chart(series, x, y, "Cost against time", radius=5.0)


def front_text(figures: HierarchicalFigures) -> str:
    """Return what the first and the last step of the front cost."""
    (fastest, dearest), (slowest, cheapest) = figures.front[0], figures.front[-1]
    half = [time for (_, above), (time, cost) in itertools.pairwise(figures.front) if cost <= 0.5 * dearest < above]
    text = f"From {duration(fastest)} for {money(dearest)} to {duration(slowest)} for {money(cheapest)}."
    if half:
        longer = half[0] / fastest - 1
        text += f" Half the cost of the fastest network takes {100 * longer:.1f} % more time."
    if figures.equal_cost_usd is not None and not equal_is_near(figures):
        text += f" Out of the picture: the equal split, {duration(figures.equal_time_ns)} for "
        text += f"{money(figures.equal_cost_usd)}."
    return text
