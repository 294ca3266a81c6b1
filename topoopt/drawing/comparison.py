"""A comparison of methods as one SVG picture, or as an HTML page with the table of all runs."""

from __future__ import annotations

from collections.abc import Sequence

from topoopt.core.comparison import ComparedRun, Comparison, best_of
from topoopt.core.process import versions_text
from topoopt.drawing.comparison_plot import WIDTH, ComparisonPanel, panel
from topoopt.drawing.format import counted, number, percent
from topoopt.drawing.page import render_page
from topoopt.drawing.sentences import objective_text
from topoopt.drawing.svg import coordinate, element, picture, standalone

TEMPLATE = "drawing/comparison.html.j2"
GUTTER = 26.0
EDGE = 20.0
LEVEL = 1e-6
"""Gap to the best value that is rounding."""


def _panels(rows: Sequence[Comparison]) -> list[ComparisonPanel]:
    names = dict.fromkeys(row.run.file for row in rows)
    return [panel([row for row in rows if row.run.file == name]) for name in names]


def comparison_svg(rows: Sequence[Comparison]) -> str:
    """All panels one below the other; styles inside, so that the file needs nothing else."""
    parts, top = [], EDGE
    for each in _panels(rows):
        parts.append(element("g", each.drawing, transform=f"translate({coordinate(EDGE)} {coordinate(top)})"))
        top += each.height + GUTTER
    width, height = WIDTH + 2 * EDGE, max(top, 2 * EDGE)
    return standalone(*parts, label="Comparison of methods", width=width, height=height)


def comparison_html(rows: Sequence[Comparison]) -> str:
    """The panels and the table of all runs; names from the instances are escaped."""
    instances = list(dict.fromkeys(row.run.file for row in rows))
    methods = list(dict.fromkeys(row.run.method for row in rows))
    runs = counted(len(rows), "run")
    return render_page(
        TEMPLATE,
        comparison_answer(rows),
        subtitle=f"{counted(len(instances), 'instance')}, {counted(len(methods), 'method')}, {runs}",
        panels=[
            picture(
                each.drawing,
                label=each.label,
                viewBox=f"0 0 {coordinate(WIDTH)} {coordinate(each.height)}",
                class_="comparison",
            )
            for each in _panels(rows)
        ],
        rows=[_cells(row) for row in rows],
        priced=any(row.run.value_per_million_usd is not None for row in rows),
        versions=versions_text(),
    )


def _why(run: ComparedRun) -> str:
    """What proves the bound and what is claimed beside it, or why there is no solution."""
    told = () if run.bound is None else (run.bound.proved_by,)
    claim = run.claimed_bound
    return "; ".join((*told, *(() if claim is None else (f"{number(claim.value)} {claim.proved_by}",)))) or run.reason


def _cells(row: Comparison) -> dict[str, str]:
    run = row.run

    def figure(value: float | None) -> str:
        return "–" if value is None else number(value)

    def gap(value: float | None) -> str:
        return "–" if value is None else percent(value)

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
        "why": _why(run),
    }


def comparison_answer(rows: Sequence[Comparison]) -> str:
    """What the comparison answers, in one sentence: the methods that reach the best value, and its proof."""
    files = list(dict.fromkeys(row.run.file for row in rows))
    if not files:
        return "No run was made."
    told = [_best_methods([row for row in rows if row.run.file == file]) for file in files]
    if len(files) == 1:
        return told[0]
    proven = sum(any(row.proven for row in rows if row.run.file == file) for file in files)
    return f"Of {len(files)} instances {proven} {'is' if proven == 1 else 'are'} solved to a proven optimum. " + told[0]


def _best_methods(rows: Sequence[Comparison]) -> str:
    """Of one instance: who reaches the best value, who of them first."""
    best = best_of([row.run for row in rows])
    name = rows[0].run.instance
    if best.value is None:
        return f"No method finds anything for {name} that the checker accepts."
    found = [row for row in rows if row.run.checked and row.gap_to_best is not None and row.gap_to_best <= LEVEL]
    methods = list(dict.fromkeys(row.run.method for row in found))
    if not found:  # no bound is verified that the gap could be to
        values = [row.run for row in rows if row.run.checked and row.run.value == best.value]
        methods, found = list(dict.fromkeys(run.method for run in values)), [row for row in rows if row.run in values]
    first = min(found, key=lambda row: row.run.wall_s).run
    count = len({row.run.method for row in rows})
    unit = f" {first.unit}" if first.unit in {"ms", "s", "us", "Gbit/s", "GB/s"} else ""
    value = f"{objective_text(first.objective)} {number(best.value)}{unit}"
    sure = "proven optimal" if best.proven else "not proven to be the best there is"
    return (
        f"For {name} {len(methods)} of {counted(count, 'method')} reach{'es' if len(methods) == 1 else ''} the best, "
        f"{value} ({sure}), {first.method} soonest, in {number(first.wall_s)} s."
    )
