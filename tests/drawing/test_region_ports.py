"""Ports of a region over time: what stays, what is set anew, what is dark, by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.formats.test_step_patches import solved
from topoopt.kinds.regional_circuits.page import DRAWN_SERVERS, ports_blocks, ports_plot
from topoopt.page.render import Plot


def bars(text: str) -> list[tuple[str, str, float, float, float]]:
    """Class, tip, begin and width in percent, height of every bar."""
    found = re.findall(r"<rect ([^>]*)><title>([^<]*)</title>", text)
    rows = []
    for attributes, tip in found:
        value = dict(re.findall(r'([\w-]+)="([^"]*)"', attributes))
        place = (float(value[name].rstrip("%")) for name in ("x", "width", "height"))
        rows.append((value["class"].split("-")[-1], tip, *place))
    return rows


def test_two_steps_by_hand(tmp_path: Path) -> None:
    """4.5 ms, a stall of 1 ms, 9 ms: of server 0 one circuit stays, the other is dark for the stall; 2 keeps none."""
    solution = solved(tmp_path)
    drawn = bars(str(ports_plot(solution.figures)))
    first = [row for row in drawn if row[1].startswith("server 0, step 0")]
    assert [(css, begin, height) for css, _, begin, _, height in first] == [("k4", 0.0, 22.0)]
    second = {row[0]: row for row in drawn if row[1] == "server 0, step 1: 1 circuit retained, 1 reconfigured"}
    assert set(second) == {"k4", "k5", "k2"}
    assert {css: round(row[3] * 14.5 / 100, 3) for css, row in second.items()} == {"k4": 10.0, "k5": 1.0, "k2": 9.0}
    assert {row[4] for row in second.values()} == {11.0}
    assert {row[0] for row in drawn if row[1].startswith("server 2, step 1: 0")} == {"k5", "k2"}


def test_large_regions_are_cut(tmp_path: Path) -> None:
    """What is not drawn is said."""
    figures, servers = solved(tmp_path).figures, DRAWN_SERVERS + 1
    demands = np.zeros((2, servers, servers))
    demands[:, :4, :4] = figures.problem.demands
    problem = replace(figures.problem, servers=servers, ports=(2,) * servers, demands=demands)
    (plot,) = ports_blocks(replace(figures, problem=problem))
    assert isinstance(plot, Plot)
    assert f"The first {DRAWN_SERVERS} of {servers} servers are drawn." in plot.caption
