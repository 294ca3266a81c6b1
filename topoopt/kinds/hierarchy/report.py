"""The report of a hierarchical solution: one HTML file that needs nothing else."""

from __future__ import annotations

import math

from topoopt.core.hierarchy_solution import HierarchicalSolution
from topoopt.core.verdict import Status
from topoopt.drawing.format import percent
from topoopt.drawing.page import Card, closing_cards, render_page, run_rows, versions_row
from topoopt.drawing.sentences import bound_text, objective_text
from topoopt.kinds.hierarchy.answer import answer
from topoopt.kinds.hierarchy.charts import bandwidth_bars, collective_bars, group_name, pareto_plot, steepest
from topoopt.kinds.hierarchy.format import dimension_figures, duration, gigabytes, money, rate, times

TEMPLATE = "kinds/hierarchy/page.html.j2"
SHOWN_ROWS = 60


def headline(solution: HierarchicalSolution) -> tuple[Card, ...]:
    """Time, cost, gain over the equal split, verdict."""
    equal = f"equal split: {duration(solution.equal_time_ns)}"
    cards = [Card("time of an iteration", duration(solution.time_ns), equal, "main")]
    if solution.cost_usd is not None and solution.equal_cost_usd is not None:
        text = f"equal split: {money(solution.equal_cost_usd)}"
        cards.append(Card("cost of the network", money(solution.cost_usd), text, "main"))
    fast = solution.speedup_over_equal
    cards.append(
        Card("speed over the equal split", times(fast), "the same total bandwidth", "good" if fast > 1 else "")
    )
    gain = solution.perf_per_cost_gain
    if gain is not None:
        css = "good" if gain > 1 else ""
        cards.append(Card("performance per cost", times(gain), "over the equal split", css))
    proven = "good" if solution.status is Status.OPTIMAL else ""
    gap = percent(solution.gap)
    cards.append(Card("gap to the lower bound", gap, f"{solution.status.value}: {solution.bound.proved_by}", proven))
    return (*cards, *closing_cards(solution))


def dimension_rows(solution: HierarchicalSolution) -> tuple[tuple[str, ...], ...]:
    """Name, block, bandwidth, what one more GB/s saves alone, and at the margin."""
    return tuple(
        (name, f"{block} of {size}", rate(value), alone, "–" if price is None else duration(price))
        for name, block, size, value, alone, price in dimension_figures(solution)
    )


def collective_rows(solution: HierarchicalSolution) -> tuple[tuple[str, ...], ...]:
    """Group, bytes, time, the dimensions that hold it up."""
    ordered = sorted(solution.collectives, key=lambda one: -one.time_ns)[:SHOWN_ROWS]
    return tuple(
        (
            group_name(one, len(solution.jobs)),
            gigabytes(one.size_bytes),
            duration(one.time_ns),
            ", ".join(solution.bound_by(one)),
        )
        for one in ordered
    )


def job_rows(solution: HierarchicalSolution) -> tuple[tuple[str, ...], ...]:
    """Name, time, compute, share of compute, speed over the equal split."""
    return tuple(
        (
            job.name,
            duration(job.time_ns),
            duration(job.compute_ns),
            percent(job.compute_ns / job.time_ns) if job.time_ns else "–",
            times(job.equal_split_ns / job.time_ns) if job.time_ns else "–",
        )
        for job in solution.jobs[:SHOWN_ROWS]
    )


def provenance(solution: HierarchicalSolution) -> tuple[tuple[str, str], ...]:
    """Where the figures come from."""
    bound = bound_text(solution)
    return (
        *run_rows(solution),
        ("design", f"{solution.design_name} ({solution.design + 1} of {solution.designs})"),
        ("lower bound", bound),
        ("check again, without a solver", "topoopt check INSTANCE solution.json"),
        versions_row(solution),
    )


def render_hierarchical(solution: HierarchicalSolution) -> str:
    """The whole report as one HTML page; names from the instance are escaped. Same solution, same bytes."""
    bars, keys = collective_bars(solution)
    shape = " × ".join(f"{block} {size}" for block, size in zip(solution.blocks, solution.sizes, strict=True))
    return render_page(
        TEMPLATE,
        answer(solution),
        solution.check,
        solution=solution,
        subtitle=f"{math.prod(solution.sizes):,} NPUs · {shape} · least {objective_text(solution.objective.name)}",
        verdict=headline(solution),
        comparisons=(),
        bandwidths=bandwidth_bars(solution),
        dimensions=dimension_rows(solution),
        bars=bars,
        keys=keys,
        collectives=collective_rows(solution),
        jobs=job_rows(solution),
        pareto=pareto_plot(solution),
        pareto_text=steepest(solution),
        provenance=provenance(solution),
    )
