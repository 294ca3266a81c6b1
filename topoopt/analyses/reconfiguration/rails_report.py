"""The ports of every stage over time, drawn, and the boundaries in a table."""

from __future__ import annotations

from typing import Any

from topoopt.analyses.reconfiguration.rails_words import boundary_lines, boundary_rows, straggler_line
from topoopt.core.switched_step import RailStudy, changes_of
from topoopt.drawing.rail_ports import PORTS_LEGEND, ports_picture

HEADINGS = ("boundary", "action", "in a step", "window", "stall", "pays")


def rails_section(study: RailStudy) -> dict[str, Any]:
    """What the template draws of a study."""
    shown = study.shown
    return {
        "words": boundary_lines(study)[0] + ".",
        "late": straggler_line(study) + "." if study.stragglers else "",
        "drawing": ports_picture(shown.plan, shown.step_s, shown.delay_s, changes_of(shown.events), shown.events),
        "legend": PORTS_LEGEND,
        "head": HEADINGS,
        "rows": boundary_rows(study.boundaries),
    }
