"""A comparison of methods becomes one SVG drawing, or an HTML page with the table of all runs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from topoopt.core.comparison import Comparison, best_of
from topoopt.core.process import versions_text
from topoopt.core.proofs import Tolerance
from topoopt.page.render import render_page
from topoopt.page.text import counted, number, objective_text, percent, shortened
from topoopt.page.vega import MISSING, altair, colours, installed, rows, svg, svg_text

LEAST_S = 1e-3
LEAST_AXIS = 1.06
"""Gap, in per cent, that the axis reaches at least; a little more than the mark of 1 %."""
ROW = 24
LEAST_HEIGHT = 130
BAD = "#b3261e"
GAP = "gap to the best bound, %"


def panel(runs: Sequence[Comparison]) -> Any:
    """Return the chart of all runs on one instance: gaps by method, what to say of each, and gaps over times."""
    alt = altair()
    methods = list(dict.fromkeys(row.run.method for row in runs))
    marks: list[dict[str, Any]] = []
    summary: list[dict[str, Any]] = []
    for method in methods:
        own = [row for row in runs if row.run.method == method]
        gaps = [100 * row.gap_to_bound for row in own if row.gap_to_bound is not None]
        summary.append({"series": method, "note": _note(own)})
        if len(gaps) > 1:
            summary[-1] |= {"low": min(gaps), "middle": median(gaps), "high": max(gaps)}
        marks += [
            {
                "series": method,
                "gap": 100 * row.gap_to_bound,
                "s": max(row.run.wall_s, LEAST_S),
                "rejected": row.run.rejected,
                "tip": _tip(row),
            }
            for row in own
            if row.gap_to_bound is not None
        ]
    highest = max([LEAST_AXIS, *(1.06 * mark["gap"] for mark in marks)])
    gap_scale, height = alt.Scale(domain=[0, highest], nice=False), max(LEAST_HEIGHT, ROW * len(methods))
    channels = colours(methods, legend=None)
    by_method = alt.Y("series:N", title=None, scale=alt.Scale(domain=methods), sort=None)
    gap_axis = alt.X("gap:Q", title=GAP, scale=gap_scale, axis=alt.Axis(tickCount=6))
    ranges = alt.Chart(rows([row for row in summary if "low" in row])).encode(y=by_method, color=channels["color"])
    dots = alt.Chart(rows(marks)).encode(**{**channels, "color": alt.when("datum.rejected").then(alt.value(BAD))
                                            .otherwise(channels["color"])}, description="tip:N")  # fmt: skip
    dots = dots.mark_point(filled=True, size=55, opacity=0.85)
    left = alt.layer(
        ranges.encode(x=alt.X("low:Q", title=GAP, scale=gap_scale), x2="high:Q").mark_rule(aria=False, opacity=0.5),
        ranges.encode(x=alt.X("middle:Q", title=GAP, scale=gap_scale)).mark_tick(aria=False, thickness=2, size=18),
        dots.encode(x=gap_axis, y=by_method),
    ).properties(width=330, height=height)
    notes = alt.Chart(rows(summary), width=190, height=height).encode(text="note:N", x=alt.value(0))
    notes = notes.encode(y=by_method.axis(None)).mark_text(align="left", aria=False, fontSize=12)
    times = alt.X("s:Q", title="time, s", scale=alt.Scale(type="log"), axis=alt.Axis(tickCount=4))
    over = dots.encode(x=times, y=alt.Y("gap:Q", title="gap, %", scale=gap_scale)).properties(width=400, height=height)
    title = alt.Title(shortened(runs[0].run.instance, 80), subtitle=_subtitle(runs))
    return alt.hconcat(left, notes, over, spacing=12).properties(title=title)


def _subtitle(runs: Sequence[Comparison]) -> str:
    best = best_of([row.run for row in runs])
    if best.by is None or best.bound is None:
        return f"{runs[0].run.kind}: nothing was found"
    unit = f" {best.by.unit}" if best.by.unit in {"ms", "s"} else ""
    verdict = "so it is optimal" if best.proven else "not reached"
    bound = f"{number(best.bound.value)}{unit} ({shortened(best.bound.proved_by, 60)}), {verdict}"
    named = best.by.objective.replace("_", " ")
    return f"{runs[0].run.kind}: best {named} {number(best.value or 0.0)}{unit}, bound {bound}"


def _note(rows: Sequence[Comparison]) -> str:
    """Gap (several: their median), and how many runs found nothing and why; whether the checker rejects one."""
    gaps = [row.gap_to_bound for row in rows if row.gap_to_bound is not None]
    rejected = sum(row.run.rejected for row in rows)
    parts = []
    if gaps:
        middle = median(gaps)
        proven = Tolerance.LINEAR_PROGRAM.relative
        text = percent(middle if middle > proven else 0.0)
        parts.append(f"median {text}" if max(gaps) - min(gaps) > proven else text)
    outcomes = [row.run.outcome for row in rows if row.run.value is None]
    for outcome in dict.fromkeys(outcomes):
        count = outcomes.count(outcome)
        parts.append(outcome if count == len(rows) else f"{count} {outcome}")
    if rejected:
        parts.append("rejected" if len(rows) == 1 else f"{rejected} rejected")
    return ", ".join(parts) or "no gap"


def _tip(row: Comparison) -> str:
    run = row.run
    value = "" if run.value is None else f"\n{run.objective} {number(run.value)}"
    gap = "" if row.gap_to_bound is None else f", gap {percent(row.gap_to_bound)}"
    return f"{run.method}, seed {run.seed}: {run.outcome}{value}{gap}, {number(run.wall_s)} s"


TEMPLATE = "page/comparison.html.j2"
LEVEL = 1e-6
"""Gap to the best value that is rounding."""


def _panels(runs: Sequence[Comparison]) -> list[Any]:
    files = dict.fromkeys(row.run.file for row in runs)
    return [panel([row for row in runs if row.run.file == file]) for file in files]


def comparison_svg(runs: Sequence[Comparison]) -> str:
    """Return an SVG file of all panels, one below the other."""
    return svg_text(altair().vconcat(*_panels(runs), spacing=36))


def comparison_html(rows: Sequence[Comparison]) -> str:
    """The panels and the table of all runs; names from the instances are escaped."""
    instances = list(dict.fromkeys(row.run.file for row in rows))
    methods = list(dict.fromkeys(row.run.method for row in rows))
    runs, drawn = counted(len(rows), "run"), installed()
    return render_page(
        TEMPLATE,
        comparison_answer(rows),
        subtitle=f"{counted(len(instances), 'instance')}, {counted(len(methods), 'method')}, {runs}",
        panels=[svg(chart, f"Gaps and times, panel {k}") for k, chart in enumerate(_panels(rows), 1)] if drawn else [],
        left_out="" if drawn else MISSING,
        rows=[_cells(row) for row in rows],
        priced=any(row.run.value_per_million_usd is not None for row in rows),
        versions=versions_text(),
    )


def _cells(row: Comparison) -> dict[str, str]:
    run = row.run

    def figure(value: float | None) -> str:
        return "–" if value is None else number(value)

    def gap(value: float | None) -> str:
        return "–" if value is None else percent(value)

    provers = () if run.bound is None else (run.bound.proved_by,)
    claim = run.claimed_bound
    return {
        "instance": run.instance,
        "method": run.method,
        "seed": str(run.seed),
        "objective": " ".join(part for part in (objective_text(run.objective), f"({run.unit})") if run.objective),
        "value": figure(run.value),
        "bound": figure(None if run.bound is None else run.bound.value),
        "best": gap(row.gap_to_best),
        "proven": gap(row.gap_to_bound),
        "worth": figure(run.value_per_million_usd),
        "time": f"{number(run.wall_s)} s",
        "outcome": "rejected by the checker" if run.rejected else run.outcome,
        "why": (
            "; ".join((*provers, *(() if claim is None else (f"{number(claim.value)} {claim.proved_by}",))))
            or run.reason
        ),
    }


def comparison_answer(rows: Sequence[Comparison]) -> str:
    """What the comparison answers, in one sentence: the methods that reach the best value, and its proof."""
    files = list(dict.fromkeys(row.run.file for row in rows))
    if not files:
        return "No run was made."
    sentences = [_best_methods([row for row in rows if row.run.file == file]) for file in files]
    if len(files) == 1:
        return sentences[0]
    proven = sum(any(row.proven for row in rows if row.run.file == file) for file in files)
    return (
        f"Of {len(files)} instances {proven} {'is' if proven == 1 else 'are'} solved to a proven optimum. "
        + sentences[0]
    )


def _best_methods(rows: Sequence[Comparison]) -> str:
    best = best_of([row.run for row in rows])
    name = rows[0].run.instance
    if best.value is None:
        return f"No method finds anything for {name} that the checker accepts."
    best_rows = [row for row in rows if row.run.checked and row.gap_to_best is not None and row.gap_to_best <= LEVEL]
    methods = list(dict.fromkeys(row.run.method for row in best_rows))
    if not best_rows:  # no bound is verified that the gap could be to
        values = [row.run for row in rows if row.run.checked and row.run.value == best.value]
        methods, best_rows = (
            list(dict.fromkeys(run.method for run in values)),
            [row for row in rows if row.run in values],
        )
    first = min(best_rows, key=lambda row: row.run.wall_s).run
    count = len({row.run.method for row in rows})
    unit = f" {first.unit}" if first.unit in {"ms", "s", "us", "Gbit/s", "GB/s"} else ""
    value = f"{objective_text(first.objective)} {number(best.value)}{unit}"
    sure = "proven optimal" if best.proven else "not proven to be the best there is"
    return (
        f"For {name} {len(methods)} of {counted(count, 'method')} reach{'es' if len(methods) == 1 else ''} the best, "
        f"{value} ({sure}), {first.method} soonest, in {number(first.wall_s)} s."
    )
