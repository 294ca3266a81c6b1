"""Reports of studies and comparisons between them: figures from hand-made rows, pages from real ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.study_cases import drawn, routing, study
from topoopt.page.charts import Axis, Point, Series, legend, number_axis
from topoopt.studies.expand import read_study
from topoopt.studies.figures import KINDS
from topoopt.studies.report import study_report
from topoopt.studies.results import compared, in_order, percentile, performance_profile, pivot
from topoopt.studies.runner import run_study
from topoopt.studies.schema import ComparedBy, Figure

Written = Callable[..., Path]


def row(method: str, instance: str, objective: float | None, **more: Any) -> dict[str, Any]:
    """A row of a table of results."""
    outcome = "done" if objective is not None else "crashed"
    return {
        "run": f"{method}-{instance}", "method": method, "instance": instance, "seed": 0, "objective": objective,
        "outcome": outcome, **more,
    }  # fmt: skip


ROWS = [
    row("a", "one", 1.0, size=4, gap=0.0),
    row("b", "one", 2.0, size=4, gap=0.5),
    row("a", "two", 3.0, size=8, gap=0.1),
    row("b", "two", 3.0, size=8, gap=0.1),
    row("a", "three", 4.0, size=16, gap=0.2),
    row("b", "three", None, size=16),
]
FACTORS = ("instance", "method")


def test_comparison_with_the_best_and_with_a_baseline() -> None:
    """Ratios are to the best, or the baseline, of the same instance; a tie has two winners; a crash none."""
    found = compared(ROWS, FACTORS, ComparedBy())
    best = {(group, one["instance"]): ratio for one, group, ratio, _ in found}
    assert best["b", "one"] == pytest.approx(1.0)
    assert (best["a", "one"], best["a", "two"], best["b", "two"]) == (0.0, 0.0, 0.0)
    assert best["b", "three"] is None
    assert {(group, one["instance"]) for one, group, _, wins in found if wins} == {
        ("a", "one"),
        ("a", "two"),
        ("b", "two"),
        ("a", "three"),
    }
    to_b = compared(ROWS, FACTORS, ComparedBy(baseline="b"))
    base = {(group, one["instance"]): ratio for one, group, ratio, _ in to_b}
    assert base["a", "one"] == pytest.approx(-0.5)
    assert base["a", "three"] is None


def test_performance_profile_by_hand() -> None:
    """a is best everywhere; b is within a factor of 2 on two of three and never solves the third."""
    profile = performance_profile(compared(ROWS, FACTORS, ComparedBy()))
    assert profile["a"] == [(1.0, pytest.approx(1 / 3)), (1.0, pytest.approx(2 / 3)), (1.0, 1.0)]
    assert profile["b"] == [(1.0, pytest.approx(1 / 3)), (2.0, pytest.approx(2 / 3))]


def test_tables_by_hand() -> None:
    """A statistic of each group, spread over the values of a column; nothing where there is nothing."""
    headings, lines = pivot(ROWS, ["instance"], ["objective"], "method", "mean")
    assert headings == ["instance", "a", "b"]
    assert lines == [["one", 1.0, 2.0], ["two", 3.0, 3.0], ["three", 4.0, None]]
    headings, lines = pivot(ROWS, ["method"], ["objective", "gap"], None, "max")
    assert headings == ["method", "objective", "gap"]
    assert lines == [["a", 4.0, 0.2], ["b", 3.0, 0.5]]
    assert pivot(ROWS, ["method"], ["objective"], None, "count")[1] == [["a", 3.0], ["b", 2.0]]


def test_statistics_and_order() -> None:
    """Percentiles by nearest rank; numbers before text, by size."""
    assert percentile(list(range(1, 201)), 0.99) == 198
    assert percentile([5.0], 0.99) == 5.0
    assert in_order([8, "x", 4, 4.0, 16, "a"]) == [4, 8, 16, "x", "a"]


def test_axes() -> None:
    """Ends hold all values; logarithms need values above 0; names stand in the middle of their share."""
    axis = number_axis("t", [10.0, 20.0])
    assert axis.low < 10
    assert axis.high > 20
    assert 0 < axis.at(10) < axis.at(20) < 1
    log = number_axis("t", [1.0, 100.0], log=True)
    assert log.log
    assert log.at(10) == pytest.approx(0.5)
    assert [text for _, text in log.marks(5)] == ["1", "10", "100"]
    assert not number_axis("t", [0.0, 1.0], log=True).log
    large = number_axis("t", [1.2e8, 6e8], log=True)
    assert (large.heading, [text for _, text in large.marks(5)]) == ("10⁶ t", ["150", "200", "300", "500"])
    exact = number_axis("bytes", [3.61e8, 3.63e8])
    assert exact.heading == "10⁶ bytes"
    assert [(value, text) for value, text in exact.marks(3) if value == 3.62e8] == [(3.62e8, "362")]
    assert number_axis("t", [1.0, 1e9], log=True).heading == number_axis("t", [9e5]).heading == "t"


def test_lines_that_can_be_told_apart_do_not_coincide() -> None:
    """A difference of 0.1 % is seen where all values lie within 1 %, and not where they lie 100 % apart."""
    first, near = Series("a: one", (Point(1, 100.0, ""),)), Series("b: two", (Point(1, 100.1, ""),))
    for far, told in ((101.0, False), (200.0, True)):
        text = legend(["a: one", "b: two", "c"], [first, near, Series("c", (Point(1, far, ""),))])
        assert ("(on the line of a)" in text) == told
    twins = legend(["a: one", "a: two"], [first, replace(first, name="a: two")])
    assert "a: two (on the line of a: one)" in twins
    assert number_axis("t", [3.0, 4.0], zero=True).low == 0
    assert number_axis("t", []).high == 1.0
    assert number_axis("t", [5.0, 5.0]).at(5.0) == pytest.approx(0.5)
    assert Axis("t", 0.0, 1.0).marks(2)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "heat-map"])
def test_every_kind_of_figure(kind: str) -> None:
    """Each draws well-formed pictures with a point or bar for what has values, and none where nothing has.

    Heat maps have a test of their own.
    """
    columns = ("at.*",) if kind == "across" else ()
    figure = Figure(kind, x="size" if kind in {"lines", "scatter"} else None, columns=columns)
    rows = [{**one, "at.1": 1.0, "at.2": one["objective"]} for one in ROWS]
    root = ElementTree.fromstring(str(drawn(figure, rows, FACTORS)["picture"]))
    tips = [title.text or "" for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert any("a" in tip for tip in tips)
    assert len(tips) >= 5 - (kind == "bars")
    empty = drawn(figure, [row("a", "one", None)], FACTORS)
    assert (str(empty["picture"]), empty["note"]) == ("", "No run has values to show here.")


def test_points_at_zero_on_a_logarithmic_axis_are_not_lost_silently() -> None:
    """A linear axis is taken instead when a value is 0."""
    drawing = drawn(Figure("scatter", x="size", y="gap", log_y=True), ROWS, FACTORS)
    assert str(drawing["picture"]).count("<title>") == 5
    assert drawing["note"] == ""


def test_report_of_a_real_study(tmp_path: Path, written: Written) -> None:
    """One page with the figures asked for, every point linked to a run that is listed, names escaped."""
    document = study(
        {"instance": routing(), "vary": {"topology.servers": [3, 4, 5]}, "methods": ["simplex", "ipx", "magic"]},
        title="<b>Rings</b> & more",
        figures=[{"kind": "lines", "x": "topology.servers"}, {"kind": "box", "y": "theta"}],
        tables=[{"title": "theta", "rows": "topology.servers", "columns": "method", "values": "objective"}],
        compare={"baseline": "simplex"},
    )
    found = read_study(written(document))
    run_study(found, tmp_path / "out", jobs=1)
    page = study_report(tmp_path / "out")
    assert "<b>Rings</b>" not in page
    assert "&lt;b&gt;Rings&lt;/b&gt; &amp; more" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    linked = set(re.findall(r'href="#(run-[0-9a-f]+)"', page))
    listed = set(re.findall(r'id="(run-[0-9a-f]+)"', page))
    assert linked
    assert linked <= listed
    assert len(listed) == 9
    assert "unknown method" in page
    # theta of a bidirectional ring with uniform demand: (n^2 - 1)/8 or n^2/8
    assert re.search(r"<td>4</td><td class=\"r\">2.000</td>", page)
