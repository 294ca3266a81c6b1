"""The sections of a report on jobs that arrive."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from topoopt.core.shared_cluster import FAT_TREE
from topoopt.core.shared_cluster_runs import FabricRun
from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.core.verdict import Status
from topoopt.drawing.axes import Axis
from topoopt.drawing.chart import Point, Series, legend, xy_chart
from topoopt.drawing.format import counted, number, percent, quotient, ratio
from topoopt.drawing.page import Card, check_card
from topoopt.drawing.sentences import objective_text
from topoopt.kinds.shared_cluster.timeline import over_time, server_chart

MOST_POINTS = 400
"""Points of a line of the distribution."""


def iteration_times(solution: SharedClusterSolution, run: FabricRun) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Sorted iteration times of the finished jobs, ms."""
    worked = np.bincount(run.stays.job, run.stays.work_to_s - run.stays.work_from_s, minlength=len(solution.jobs))
    return np.sort(1e3 * worked[run.finished] / solution.jobs.iterations[run.finished])


def distribution_series(solution: SharedClusterSolution) -> list[Series]:
    """Share of the jobs with at most that iteration time, one line a fabric; no points where none has finished."""
    series = []
    for run in solution.runs:
        times = iteration_times(solution, run)
        if not len(times):
            series.append(Series(run.fabric.name, (), line=True, dots=False))
            continue
        kept = np.unique(np.linspace(0, len(times) - 1, MOST_POINTS).astype(int))
        points = []
        for at in kept.tolist():
            value = float(times[at])
            tip = f"{run.fabric.name}: {percent((at + 1) / len(times))} of the jobs in {number(value)} ms"
            points += [Point(value, 100 * at / len(times), tip), Point(value, 100 * (at + 1) / len(times), tip)]
        series.append(Series(run.fabric.name, tuple(points), line=True, dots=False))
    return series


def distribution(solution: SharedClusterSolution) -> Markup:
    """The chart of these lines."""
    series = distribution_series(solution)
    values = [point.x for one in series for point in one.points]
    least, largest = min(values, default=0.0), max(values, default=0.0)
    x = Axis("iteration time, ms", 0.0 if least < 0.5 * largest else 0.95 * least, max(1.05 * largest, 1e-9))
    return xy_chart(series, x, Axis("jobs, %", 0.0, 105.0), "Distribution of the iteration times")


def cards(solution: SharedClusterSolution) -> tuple[Card, ...]:
    """Objective, bound, verdict."""
    objective, first = solution.objective, solution.runs[0]
    return (
        Card(
            objective_text(objective.name),
            f"{number(objective.value)} {objective.unit}",
            f"{first.fabric.name}, {int(first.finished.sum()):,} of {counted(len(solution.jobs), 'job')} finished",
            "main",
        ),
        Card(
            "gap to the bound",
            percent(solution.gap),
            f"bound {number(solution.bound.value)} {objective.unit}: {solution.bound.proved_by}",
            "good" if solution.status is Status.OPTIMAL else "",
        ),
        check_card(solution.check),
    )


def comparison_cards(solution: SharedClusterSolution) -> tuple[Card, ...]:
    """Other fabrics against the first."""
    first, *others = solution.metrics
    found = []
    for run, own in zip(solution.runs[1:], others, strict=True):
        if own is None or first is None:
            continue
        mean = ratio(quotient(own.iteration_ms.mean, first.iteration_ms.mean))
        tail = ratio(quotient(own.iteration_ms.p99, first.iteration_ms.p99))
        found.append(Card(f"{run.fabric.name}, mean iteration", mean, f"of {solution.runs[0].fabric.name}; p99 {tail}"))
    return tuple(found)


def _fabric_text(run: FabricRun) -> str:
    fabric = run.fabric
    text = f"{number(fabric.server_gbps or 0.0)} Gbit/s a server"
    if fabric.kind == FAT_TREE:
        if (fabric.oversubscription or 1.0) > 1:
            text += f", {number(fabric.oversubscription or 1.0)}:1 above the {fabric.oversubscribed_at or 'rack'}"
        text += f", {fabric.paths} paths"
    return f"{text}, {fabric.placement} placement"


def metric_rows(solution: SharedClusterSolution) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The table of figures: name, and a value for each fabric with finished jobs."""
    figures = [one for one in solution.metrics if one is not None]
    rows: list[tuple[str, tuple[str, ...]]] = []
    for title, key, unit in (
        ("iteration time", "iteration_ms", "ms"),
        ("waiting time", "waiting_s", "s"),
        ("completion time", "completion_s", "s"),
        ("slowdown", "slowdown", "×"),
    ):
        for place in ("mean", "p50", "p90", "p95", "p99", "largest"):
            values = tuple(f"{number(getattr(getattr(one, key), place))} {unit}" for one in figures)
            rows.append((f"{title}, {place}", values))
    rows += [
        ("makespan", tuple(f"{number(one.makespan_s)} s" for one in figures)),
        ("servers in use", tuple(percent(one.utilisation) for one in figures)),
        ("servers at work", tuple(percent(one.goodput) for one in figures)),
        ("waiting jobs, mean", tuple(number(one.queue_length) for one in figures)),
        ("free servers while a job waits, mean", tuple(number(one.waiting_free) for one in figures)),
        ("of them enough for the first job", tuple(number(one.stranded) for one in figures)),
        ("largest shard over free servers, mean", tuple(percent(one.largest_share) for one in figures)),
        ("circuits set", tuple(f"{one.reconfigurations:,}" for one in figures)),
        ("moves", tuple(f"{one.moves:,}" for one in figures)),
        ("time without work on held servers", tuple(f"{number(one.dark_s)} s" for one in figures)),
    ]
    return tuple(rows)


def facts(solution: SharedClusterSolution) -> tuple[tuple[str, str], ...]:
    """How the jobs were scheduled and simulated."""
    first = solution.runs[0]
    moved = ", running jobs are moved where that pays" if first.defragment else ""
    ahead = ", set ahead on a second plane" if solution.look_ahead else ""
    return (
        ("scheduling", f"{first.queue}{moved}"),
        ("circuits", f"{number(solution.switching_time_s)} s to set those of a job{ahead}"),
        ("contention on shared fabrics", solution.contention),
    )


ANCHORS = (
    ("iterations", "Iteration times"),
    ("time", "Over time"),
    ("servers", "Servers"),
    ("figures", "Figures"),
    ("classes", "Classes"),
)


def class_rows(solution: SharedClusterSolution) -> tuple[tuple[str, ...], ...]:
    """Name, jobs, servers, iteration, compute, AllReduce and all-to-all bytes of each class."""
    counts = np.bincount(solution.jobs.class_index, minlength=len(solution.classes))
    rows = []
    for one, count in zip(solution.classes, counts.tolist(), strict=True):
        times = one.iteration_ms
        span = number(times[0]) if len(times) == 1 else f"{number(min(times))} to {number(max(times))}"
        rows.append(
            (
                one.name,
                f"{count:,}",
                str(one.servers),
                span,
                number(one.compute_ms),
                number(one.allreduce_bytes / 1e9),
                number(one.all_to_all_bytes / 1e9),
            )
        )
    return tuple(rows)


def sections(solution: SharedClusterSolution) -> dict[str, object]:
    """Values of the template of the sections."""
    shown = [run for run in solution.runs if run.finished.any()]
    chart, single = server_chart(solution, solution.runs[0])
    return {
        "subtitle": f"{counted(len(solution.jobs), 'job')} on {counted(solution.servers, 'server')}, "
        f"{counted(len(solution.runs), 'fabric')}",
        "verdict": cards(solution),
        "comparisons": comparison_cards(solution),
        "fabrics": [(run.fabric.name + ("" if run.whole else " (cut short)"), _fabric_text(run)) for run in shown],
        "rows": metric_rows(solution),
        "names": legend([run.fabric.name for run in solution.runs], distribution_series(solution)),
        "distribution": distribution(solution),
        "held": over_time(solution, "held"),
        "waiting": over_time(solution, "waiting"),
        "servers": chart,
        "single": single,
        "class_names": legend([one.name for one in solution.classes]),
        "classes": class_rows(solution),
    }
