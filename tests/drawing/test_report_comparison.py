"""The plot of `topoopt compare`: well-formed, complete, in scale, escaped."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.report_page import Page
from topoopt.core.outcomes import ComparedRun, Comparison, compared
from topoopt.core.proofs import Argument, Bound
from topoopt.page.output import Output
from topoopt.page.vega import LEAST_AXIS, comparison_html, comparison_svg, drawable, panel, svg

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


def drawn(runs: list[Comparison]) -> str:
    """The panel of the runs as it stands in a page."""
    return str(svg(panel(runs), "runs"))


def test_svg_is_well_formed_and_names_every_method() -> None:
    """XML that a parser takes, each method once in each panel, runs that found nothing said in words, no script."""
    text = comparison_svg(rows())
    root = ElementTree.fromstring(text)
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    for place in range(12):
        assert texts.count(f"method-{place}") == 2
    assert texts.count("not applicable") == 2
    assert sum("1 limit" in text for text in texts) == 2
    assert "<script" not in text
    assert not list(root.iter(f"{SVG}image"))
    width, height = map(float, (root.get("viewBox") or "").split()[2:])
    assert width > 1000
    assert height > 2 * 12 * 24


def test_every_run_is_a_mark_in_both_plots() -> None:
    """Of 36 runs 32 have a gap: 64 marks that tell what they are."""
    mine = [row for row in rows() if row.run.file == "a.yaml"]
    assert drawn(mine).count("<title>") == 2 * 32


def test_marks_stand_where_gap_and_time_say() -> None:
    """Gaps 0 and 20 % and times 0.1 and 10 s are the data of the marks; the axis ends 6 % beyond the largest gap."""
    pair = compared([replace(RUN, wall_s=0.1), replace(RUN, method="fast", value=5.0, wall_s=10.0)])
    spec = panel(pair).to_dict()
    values = spec["hconcat"][0]["layer"][2]["data"]["values"]
    assert [(mark["series"], mark["gap"], mark["s"]) for mark in values] == [
        ("exact", 0.0, 0.1),
        ("fast", pytest.approx(20.0), 10.0),
    ]
    assert spec["hconcat"][2]["encoding"]["y"]["scale"]["domain"] == [0, pytest.approx(21.2)]
    assert spec["hconcat"][2]["encoding"]["x"]["scale"]["type"] == "log"


def test_an_axis_without_gaps_still_has_a_scale() -> None:
    """All runs optimal: the axis goes to about 1 %, and the note says 0.0 %."""
    drawing = drawn(compared([RUN, replace(RUN, seed=1, value=4.0 * (1 + 1e-9))]))
    assert 1.0 <= LEAST_AXIS < 1.1
    assert ">0.0 %<" in drawing
    assert ">1.0<" in drawing


def test_several_seeds_show_their_spread() -> None:
    """A method with differing seeds has a line from best to worst and says its median; equal seeds say the number."""
    mine = [row for row in rows() if row.run.file == "a.yaml"]
    ranges = panel(mine).to_dict()["hconcat"][0]["layer"][0]["data"]["values"]
    assert len(ranges) == 11
    assert all(row["low"] < row["middle"] < row["high"] for row in ranges if row["series"] != "method-5")
    assert "median 2.7 %" in drawn(mine)  # 4.11 over a bound of 4
    alike = drawn(compared([replace(RUN, seed=seed, value=5.0) for seed in range(3)]))
    assert "median" not in alike
    assert ">20.0 %<" in alike


def test_rejected_runs_are_marked() -> None:
    """A run the checker rejects is called so, in the plot and in the table."""
    bad = compared([RUN, replace(RUN, method="bad", value=3.0, checked=False)])
    assert "rejected" in drawn(bad)
    assert "rejected by the checker" in Page(comparison_html(bad)).text


def test_without_the_extra_the_page_has_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line names the extra; the table of all runs stands; an SVG file is not written."""
    monkeypatch.setattr("topoopt.page.vega.find_spec", lambda name: None)
    text = Page(comparison_html(rows())).text
    assert text.count("topoopt[studies]") == 1
    assert "method-11" in text
    output = Output.choose(as_json=False)
    assert drawable(Path("plot.svg"), output) is None
    assert drawable(Path("plot.html"), output) == Path("plot.html")


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
