"""A comparison of methods as one SVG picture, or as an HTML page with the table of all runs."""

from __future__ import annotations

from collections.abc import Sequence

from topoopt.core.comparison import ComparedRun, Comparison
from topoopt.core.versions import versions_text
from topoopt.drawing.comparison_plot import WIDTH, ComparisonPanel, panel
from topoopt.drawing.format import counted, number, percent
from topoopt.drawing.page import render_page
from topoopt.drawing.svg import coordinate, element, picture, standalone

TEMPLATE = "drawing/comparison.html.j2"
GUTTER = 26.0
EDGE = 20.0


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
        "objective": " ".join(part for part in (run.objective.replace("_", " "), f"({run.unit})") if run.objective),
        "value": figure(run.value),
        "bound": figure(None if run.bound is None else run.bound.value),
        "best": gap(row.gap_to_best),
        "proven": gap(row.gap_to_bound),
        "worth": figure(run.value_per_million_usd),
        "time": f"{number(run.wall_s)} s",
        "outcome": "rejected by the checker" if run.rejected else run.outcome,
        "why": _why(run),
    }
