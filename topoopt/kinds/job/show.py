"""The summary of a solution in the terminal, and as plain data for `--json`."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Console
from rich.text import Text

from topoopt.console.tables import TerminalTable
from topoopt.core.bill import PLAN_FABRIC, iterations_per_s_per_million_usd
from topoopt.core.cluster import LinkSharing
from topoopt.core.job import CoOptimisation
from topoopt.core.job_solution import JobSolution
from topoopt.core.solution import CUT_OFF
from topoopt.core.units import GIB
from topoopt.drawing.distances import diameter_and_mean_hops
from topoopt.drawing.format import byte_size, counted, milliseconds, number, percent, ratio, shortened
from topoopt.drawing.sentences import compared, objective_text
from topoopt.kinds.job.answer import answer
from topoopt.kinds.job.gap import gap_parts, reached
from topoopt.kinds.job.report import UNCONNECTED, render_html
from topoopt.kinds.job.strategy_table import strategy_rows
from topoopt.kinds.job.times import breakdown_terms, fabric_bars, memory_text
from topoopt.kinds.job.traffic_summary import traffic_summary
from topoopt.kinds.kind import Pages

MAX_ROWS = 16
"""Rows of the strategy shown in the terminal; the report has them all."""
SHOWN_VIOLATIONS = 10


def _finite(value: float) -> float | None:
    """The value, or None where JSON has no number for it."""
    return value if math.isfinite(value) else None


def figures(problem: CoOptimisation | None, solution: JobSolution) -> dict[str, Any]:
    """Keys of this kind in the JSON object of a solve; times in ms, ratios as fractions, None what is not finite.

    A fabric that cannot be built for the cluster has no time, but its key.
    """
    parts, (far, mean) = solution.breakdown, diameter_and_mean_hops(solution.plan.topology)
    return {
        "iteration_time_ms": _finite(solution.objective.value),
        "breakdown_ms": {
            "compute": _finite(parts.compute_ms),
            "model_parallel": _finite(parts.model_parallel_ms),
            "allreduce": _finite(parts.allreduce_ms),
            "idle": _finite(parts.idle_ms),
            "exposed_communication": _finite(parts.exposed_communication_ms),
            "busiest_server_compute": _finite(solution.busiest_server_compute_ms),
        },
        "link_sharing": solution.cluster.link_sharing.value,
        "bandwidth_tax": _finite(solution.bandwidth_tax),
        "diameter": far,
        "mean_hops": mean,
        "diameter_bound": _finite(solution.diameter_bound),
        "initial_ms": None if solution.initial_ms is None else _finite(solution.initial_ms),
        "gpu_memory_gib": {
            "needed": solution.gpu_memory_bytes / GIB,
            "limit": None if solution.cluster.gpu_memory_bytes is None else solution.cluster.gpu_memory_bytes / GIB,
        },
        "baselines_ms": {
            **dict.fromkeys(() if problem is None else (each.name for each in problem.baselines.fabrics)),
            **{line.fabric: _finite(line.iteration_time_ms) for line in solution.baselines},
        },
        "prices": _prices(solution),
        **traffic_summary(solution),
    }


def _prices(solution: JobSolution) -> dict[str, Any] | None:
    """Prices of the networks, and what a million dollars of each buy."""
    prices = solution.prices
    if prices is None:
        return None
    times = {line.fabric: line.iteration_time_ms for line in solution.baselines}
    times[PLAN_FABRIC] = solution.objective.value
    return {
        "book": prices.book,
        "book_sha256": prices.book_sha256,
        "usd": dict(prices.usd),
        "iterations_per_s_per_million_usd": {
            fabric: iterations_per_s_per_million_usd(times[fabric], usd)
            for fabric, usd in prices.usd
            if fabric in times
        },
    }


def _plain_table(*columns: tuple[str, str]) -> TerminalTable:
    table = TerminalTable()
    for name, justify in columns:
        table.add_column(name, justify="right" if justify == "right" else "left", overflow="fold")
    return table


def _strategy(solution: JobSolution) -> TerminalTable:
    table = _plain_table(
        ("operators", "left"),
        ("kind", "left"),
        ("split", "left"),
        ("servers", "left"),
        ("forward, a server", "right"),
        ("backward, a server", "right"),
        ("weights", "right"),
    )
    rows = strategy_rows(solution)
    for row in rows[:MAX_ROWS]:
        name = shortened(row.name, 34) + (f" ({row.count})" if row.count > 1 else "")
        cells = (name, shortened(row.kind, 20), row.split, row.servers, row.forward, row.backward, row.weights)
        table.add_row(*(Text(cell) for cell in cells))
    if len(rows) > MAX_ROWS:
        table.add_row(Text(f"… {len(rows) - MAX_ROWS} more rows in the report", style="dim"))
    return table


def _fabrics(solution: JobSolution) -> TerminalTable:
    priced = solution.prices is not None
    columns = [("fabric", "left"), ("iteration", "right"), ("against this plan", "right")]
    columns += [("network, USD", "right"), ("iterations/s per million USD", "right")] if priced else []
    table = _plain_table(*columns)
    for row in fabric_bars(solution):
        style = "bold" if row.css == "plan" else ""
        cells = (row.name, row.time, row.versus, *((row.price, row.worth) if priced else ()))
        table.add_row(*map(Text, cells), style=style)
    return table


def _facts(solution: JobSolution) -> TerminalTable:
    evaluation, topology, cluster = solution.evaluation, solution.plan.topology, solution.cluster
    table = TerminalTable(show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    started = "no plan: data parallelism does not fit the memory"
    if solution.initial_ms is not None:
        gained = compared(solution.objective.value, solution.initial_ms)[1]
        started = f"{milliseconds(solution.initial_ms)}; this plan is {gained} it; data parallelism, before any search"
    offsets = ", ".join(str(p) for p in topology.offsets)
    terms = " + ".join(f"{term.name} {number(term.ms)}" for term in breakdown_terms(solution) if term.ms)
    far, mean = diameter_and_mean_hops(topology)
    bound = f"bound {number(solution.diameter_bound)}"
    distances = UNCONNECTED if mean is None else f"diameter {far} ({bound}), {number(mean)} hops on average"
    sharing, gap = cluster.link_sharing, gap_parts(solution, reached(solution))
    closed = "" if gap is None else f", likelier closed by {gap.likelier}"
    rows = (
        ("job", f"{solution.workload_name}, batch {solution.samples:,}"),
        (
            "cluster",
            f"{counted(cluster.servers, 'server')} × {counted(cluster.gpus_per_server, 'GPU')}, "
            f"{cluster.degree} × {cluster.link_gbps:g} Gbit/s {cluster.links.value}",
        ),
        *((("link sharing", sharing.value),) if sharing is not LinkSharing.FIFO else ()),
        ("made of", f"{terms or '0'} ms along the critical path (time model {evaluation.time_model})"),
        (
            "busiest server",
            f"computes {milliseconds(solution.busiest_server_compute_ms)}, also while others communicate; "
            f"exposed communication {milliseconds(solution.breakdown.exposed_communication_ms)}",
        ),
        ("memory", memory_text(solution)),
        ("started from", started),
        ("lower bound", f"{milliseconds(solution.bound.value)}, gap {percent(solution.gap)}{closed}"),
        ("proved by", solution.bound.proved_by),
        ("topology", (topology.origin or "not recorded") + (f"; offsets {offsets}" if offsets else "")),
        ("distances", distances),
        (
            "traffic",
            f"AllReduce {byte_size(solution.demand.allreduce_wire_bytes)}, model-parallel "
            f"{byte_size(float(solution.demand.model_parallel_bytes.sum()))}; bandwidth tax "
            f"{ratio(solution.bandwidth_tax)}",
        ),
    )
    for name, value in rows:
        table.add_row(name, Text(value))
    return table


def show(console: Console, solution: JobSolution, wall_s: float) -> None:
    """Print the figures a user asks for first; names from the instance are never read as markup."""
    head = Text()
    head.append(solution.name, style="bold")
    head.append(f"  {milliseconds(solution.objective.value)}", style="bold cyan")
    head.append(
        f"  {objective_text(solution.objective.name)}; {solution.status.value}, stopped by {solution.stopped_by.value}"
    )
    console.print(head)
    console.print(_facts(solution))
    console.print()
    console.print(_strategy(solution))
    console.print()
    console.print(_fabrics(solution))
    console.print()
    violations = solution.check.violations
    if solution.check.cut_off:
        console.print(Text(f"not checked: {CUT_OFF.reason}", style="yellow"), soft_wrap=True)
    elif solution.check.ok:
        style = "green" if solution.check.holds else "yellow"
        console.print(Text(f"independent check {solution.check.outcome}", style=style))
        left_out = ", ".join(each.figure for each in solution.check.not_recomputed)
        if left_out:
            console.print(Text(f"not recomputed: {left_out}", style="dim"), soft_wrap=True)
    else:
        console.print(Text(f"independent check FAILED: {counted(len(violations), 'violation')}", style="bold red"))
        for violation in violations[:SHOWN_VIOLATIONS]:
            console.print(Text(f"  {violation}"))
        if len(violations) > SHOWN_VIOLATIONS:
            console.print(Text(f"  … and {len(violations) - SHOWN_VIOLATIONS} more"))


PAGES = Pages(render_html, figures, show, answer)
