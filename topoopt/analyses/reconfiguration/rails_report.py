"""The ports of every stage over time, drawn, and the boundaries in a table."""

from __future__ import annotations

from typing import Any

from topoopt.analyses.reconfiguration.rails_words import boundary_lines, boundary_rows, failure_line, straggler_line
from topoopt.core.switching import RailStudy, changes_of
from topoopt.drawing.rail_ports import ports_legend, ports_picture

HEADINGS = ("boundary", "action", "in a step", "window", "stall", "pays up to")


def rails_section(study: RailStudy) -> dict[str, Any]:
    """What the template draws of a study."""
    shown = study.shown
    return {
        "words": boundary_lines(study)[0] + ".",
        "late": straggler_line(study) + "." if study.stragglers else "",
        "broken": failure_line(study) + "." if study.failures else "",
        "drawing": ports_picture(shown.plan, shown.step_s, shown.delay_s, changes_of(shown.events), shown.events),
        "legend": ports_legend(shown.plan, sent=True),
        "head": HEADINGS,
        "rows": [_plain(row) for row in boundary_rows(study.boundaries)],
    }


def _plain(row: tuple[str, ...]) -> tuple[str, ...]:
    """Cells without what the headings say."""
    return tuple(cell.removeprefix(name).strip() for name, cell in zip(HEADINGS, row, strict=True))
