"""The plot of `topoopt compare`: well-formed, complete, in scale, escaped."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from tests.support.report_page import Page
from topoopt.core.comparison import ComparedRun, Comparison, compared
from topoopt.core.proofs import Argument, Bound
from topoopt.page.comparison import DOTS, LEAST_AXIS, SCATTER, comparison_html, comparison_svg, panel

CUTS = Bound(4.0, Argument.NODE_CUT)
RUN = ComparedRun(
    "a.yaml", "a", "topology", "exact", 0, "optimal", "converged", "theta", "", 4.0, CUTS, None, "", True, 1.0
)
SVG = "{http://www.w3.org/2000/svg}"
EVIL = "<img src=x onerror=alert(1)>"


def rows() -> list[Comparison]:
    """Two instances, twelve methods, three seeds; one method never applies, one sometimes finds nothing."""
    runs = []
    for file in ("a.yaml", "b.yaml"):
        for place in range(12):
            for seed in range(3):
                run = replace(
                    RUN,
                    file=file,
                    instance=file[0],
                    method=f"method-{place}",
                    seed=seed,
                    value=4.0 + 0.1 * place + 0.01 * seed,
                    wall_s=0.02 * (place + 1) * (seed + 1),
                )
                if place == 3 or (place == 5 and seed == 1):
                    outcome = "not applicable" if place == 3 else "limit"
                    run = replace(run, outcome=outcome, value=None, bound=None, checked=False)
                runs.append(run)
    return compared(runs)


def marks(drawing: str) -> list[ElementTree.Element]:
    """All marks with a tool tip."""
    root = ElementTree.fromstring(f'<svg xmlns="http://www.w3.org/2000/svg">{drawing}</svg>')
    return [each for each in root.iter() if "dot" in (each.get("class") or "").split()]


def test_svg_is_well_formed_and_names_every_method() -> None:
    """XML that a parser takes, each method once in each panel, runs that found nothing said in words, style inside."""
    root = ElementTree.fromstring(comparison_svg(rows()))
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    for place in range(12):
        assert texts.count(f"method-{place}") == 2
    assert texts.count("not applicable") == 2
    assert sum("1 limit" in text for text in texts) == 2
    assert len(list(root.iter(f"{SVG}style"))) == 1
    assert not list(root.iter(f"{SVG}image"))
    width, height = map(float, (root.get("viewBox") or "").split()[2:])
    assert width > 1000
    assert height > 2 * 12 * 25


def test_every_run_is_a_mark_in_both_plots() -> None:
    """Of 36 runs 32 have a gap: 64 marks beside the 12 of the names."""
    mine = [row for row in rows() if row.run.file == "a.yaml"]
    assert len(marks(str(panel(mine).drawing))) == 12 + 2 * 32


def test_marks_stand_where_gap_and_time_say() -> None:
    """Gaps 0 and 20 % and times 0.1 and 10 s: the ends of both axes, and in proportion."""
    pair = compared([replace(RUN, wall_s=0.1), replace(RUN, method="fast", value=5.0, wall_s=10.0)])
    circles = [each for each in marks(str(panel(pair).drawing)) if each.tag == f"{SVG}circle"]
    name, dot, point = ((float(c.get("cx", 0)), float(c.get("cy", 0))) for c in circles)
    assert name[0] < dot[0] == DOTS[0]
    assert point[0] == SCATTER[0]
    corners = [each.get("d") or "" for each in marks(str(panel(pair).drawing)) if each.tag == f"{SVG}path"]
    lefts = [min(float(x) for x in re.findall(r"[ML]([\d.]+) ", each)) for each in corners]
    # The mark is a square of 9: its left edge is 4.5 before its middle; the axis ends 6 % beyond the largest gap.
    assert lefts[1] + 4.5 == pytest.approx(DOTS[0] + (DOTS[1] - DOTS[0]) / 1.06, abs=0.1)
    assert lefts[2] + 4.5 == pytest.approx(SCATTER[1], abs=0.1)


def test_an_axis_without_gaps_still_has_a_scale() -> None:
    """All runs optimal: the axis goes to about 1 %, and the note says 0.0 %."""
    drawing = str(panel(compared([RUN, replace(RUN, seed=1, value=4.0 * (1 + 1e-9))])).drawing)
    assert 0.01 <= LEAST_AXIS < 0.011
    assert ">0.0 %<" in drawing
    assert ">1.0<" in drawing


def test_several_seeds_show_their_spread() -> None:
    """A method with differing seeds has a line from best to worst and says its median; equal seeds say the number."""
    drawing = str(panel([row for row in rows() if row.run.file == "a.yaml"]).drawing)
    assert drawing.count('class="range') == 11
    assert "median 2.7 %" in drawing  # 4.11 over a bound of 4
    alike = str(panel(compared([replace(RUN, seed=seed, value=5.0) for seed in range(3)])).drawing)
    assert "median" not in alike
    assert ">20.0 %<" in alike


def test_rejected_runs_are_marked() -> None:
    """A run the checker rejects is called so, in the plot and in the table."""
    bad = compared([RUN, replace(RUN, method="bad", value=3.0, checked=False)])
    assert "rejected" in str(panel(bad).drawing)
    assert "rejected by the checker" in Page(comparison_html(bad)).text


def test_html_lists_every_run() -> None:
    """The page is whole, needs nothing else, and has a row for each run with its figures."""
    text = comparison_html(rows())
    page = Page(text)
    assert page.issues == []
    assert page.stack == []
    assert sum(tag == "tr" for tag, _ in page.elements) == 1 + 72
    assert "2 instances, 12 methods, 72 runs" in page.text
    assert not re.search(r"https?://|@import|\b(nan|inf|None)\b", page.text)
    assert {"4.110", "2.7 %", "0.040 s"} <= set(page.text.split("  ")) | set(re.findall(r"<td[^>]*>([^<]*)</td>", text))


@pytest.mark.parametrize("draw", [comparison_svg, comparison_html])
def test_names_are_escaped(draw: object) -> None:
    """A tag in a name, a method or a reason stays text."""
    evil = replace(RUN, file=EVIL, instance=EVIL, kind=EVIL, method=EVIL, objective=EVIL, unit=EVIL, reason=EVIL)
    assert callable(draw)
    text = draw(compared([evil, replace(evil, value=None, bound=None, outcome=EVIL)]))
    assert "<img" not in text
    assert "&lt;img" in text


@pytest.mark.parametrize("draw", [comparison_svg, comparison_html])
def test_odd_comparisons_are_drawn(draw: object) -> None:
    """No run at all, nothing found, zero seconds, a huge gap and a maximised value: no NaN, well formed."""
    assert callable(draw)
    nothing = replace(RUN, value=None, bound=None, outcome="infeasible", checked=False)
    for runs in (
        [],
        [nothing],
        [replace(RUN, wall_s=0.0)],
        [RUN, replace(RUN, value=1e9, wall_s=1e6)],
        [replace(RUN, maximise=True, bound=replace(CUTS, value=8.0))],
        [replace(RUN, value=0.0, bound=replace(CUTS, value=0.0))],
    ):
        text = draw(compared(runs))
        assert not re.search(r"\b(nan|inf|None)\b", re.sub(r"<style>.*?</style>", "", text, flags=re.S))
        if draw is comparison_svg:
            ElementTree.fromstring(text)
        else:
            assert Page(text).issues == []
