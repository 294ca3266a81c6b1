"""Figures of the paper: small forms run and set beside what is published, sentences and points from hand-made rows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import run
from topoopt.core.errors import InputError
from topoopt.core.study import ComparedBy, Figure, Published
from topoopt.files.shipped import shipped_folder
from topoopt.studies.collect import collect_rows
from topoopt.studies.expand import read_study
from topoopt.studies.paper_figures import FIGURES, figures_named
from topoopt.studies.published import agreement, published_points, set_beside
from topoopt.studies.report_data import starred
from topoopt.studies.report_figures import draw

ROWS = [
    {"run": "a", "d": 4, "batch": 64, "tax": 1.0, "time": 6.0, "hops.1.part": 0.25, "hops.2.part": 1.0},
    {"run": "b", "d": 4, "batch": 64, "tax": 1.2, "time": 3.0, "hops.1.part": 0.25, "hops.2.part": 1.0},
    {"run": "c", "d": 8, "batch": 64, "tax": 2.0, "time": 2.0, "hops.1.part": 0.5, "hops.2.part": 1.0},
]

WITHIN = {"path-length": 5e-5, "bandwidth-tax": 5e-3}
"""Figures whose published values follow from counting alone, and half of their last digit."""


def _published(value: float, **more: Any) -> Published:
    return Published("tax", value, "a table", **{"column": "tax", "where": (("d", 4), ("batch", 64)), **more})


def test_ours_is_a_statistic_of_the_rows_that_count() -> None:
    """Mean by default, one column over another in each row, None where no row counts."""
    asked = [
        _published(1.0),
        _published(1.0, statistic="max"),
        _published(1.0, over="time"),
        _published(1.0, where=(("d", 5),)),
    ]
    ours = [each.ours for each in set_beside(asked, ROWS)]
    assert ours[:2] == pytest.approx([1.1, 1.2])
    assert ours[2] == pytest.approx((1.0 / 6.0 + 1.2 / 3.0) / 2)
    assert ours[3] is None


def test_the_sentence_names_what_differs() -> None:
    """10 % is the border; figures that no run gives are counted apart."""
    near, far = _published(1.21), _published(1.5, statistic="min")
    text = agreement(set_beside([near, far, _published(1.0, where=(("d", 5),))], ROWS))
    assert text == (
        "1 of 2 published figures agree within 10%, tax the least (ours 1.100, published 1.210, -9.09%); "
        "not tax (ours 1.000, published 1.500, -33.33%); 1 has no run here."
    )
    assert agreement([]) == ""
    assert agreement(set_beside([_published(1.0)], [])) == "No run has a figure to set beside the published ones."


def test_published_values_stand_in_the_picture_of_their_case() -> None:
    """As points of their own: not in that of another degree, and not where they are a ratio."""
    figure = Figure("lines", x="batch", y="tax", series="d")
    found = published_points([_published(1.5)], figure, "batch", "tax")
    assert [(one.name, one.line, one.points[0].x, one.points[0].y) for one in found] == [
        ("4, published", False, 64.0, 1.5)
    ]
    assert (
        published_points([_published(1.5)], Figure("lines", x="batch", y="tax", where=(("d", 8),)), "batch", "tax")
        == []
    )
    assert published_points([_published(1.5, over="time")], figure, "batch", "tax") == []
    drawn = draw(figure, ROWS, ("d",), ComparedBy(), [_published(1.5)])
    assert "published: tax" in str(drawn.picture)


def test_columns_with_a_star_are_drawn_over_what_it_stands_for() -> None:
    """A line for each series, at the numbers in the names of the columns; published values at theirs."""
    assert [starred(name, "hops.*.part") for name in ("hops.2.part", "hops.0.5.part", "hops.x.part", "hops.part")] == [
        2.0, 0.5, None, None,
    ]  # fmt: skip
    figure = Figure("across", x="hops", y="part", series="d", columns=("hops.*.part",))
    asked = Published("near", 0.3, "a table", "hops.1.part", where=(("d", 4),))
    drawn = draw(figure, ROWS, ("d",), ComparedBy(), [asked])
    texts = str(drawn.picture)
    assert "4\nhops: 1.000\nhops.1.part: 0.250\n2 runs" in texts
    assert "published: near" in texts
    assert "4, published" in str(drawn.legend)
    assert draw(figure, [{"run": "a"}], ("d",), ComparedBy()).note == "No run has values to show here."


def test_every_figure_has_a_full_and_a_small_form() -> None:
    """Both expand, every published value has its column, and names and numbers tell them apart."""
    assert len({figure.name for figure in FIGURES}) == len({figure.number for figure in FIGURES}) == len(FIGURES)
    for figure in FIGURES:
        file = shipped_folder() / figure.study
        full, small = read_study(file), read_study(file, small=True)
        assert len(small.runs) < len(full.runs)
        assert full.name == small.name
        assert small.sha256 != full.sha256
    assert figures_named("13") == figures_named("bandwidth-tax")
    with pytest.raises(InputError, match="no such figure"):
        figures_named("99")


@pytest.mark.parametrize("name", [figure.name for figure in FIGURES])
def test_the_small_form_of_a_figure(name: str, tmp_path: Path) -> None:
    """All its runs give a value, the page has its pictures, and what is published exactly is met exactly."""
    told = run("paper", name, "--small", "--out", str(tmp_path), "--jobs", "1", "--json")
    assert told.code == 0, told.stderr
    (made,) = json.loads(told.stdout)["figures"]
    assert made["done"] == made["runs"] > 0
    page = Path(made["report"]).read_text()
    assert "<figcaption>" in page
    assert made["agreement"] in re.sub("<[^>]+>", "", page)
    assert len(Path(made["csv"]).read_text().splitlines()) > made["runs"]
    study = read_study(shipped_folder() / figures_named(name)[0].study, small=True)
    found = set_beside(study.published, collect_rows(tmp_path / name))
    if name in WITHIN:
        assert any(each.ours is not None for each in found)
    for each in found:
        if name in WITHIN and each.ours is not None:
            assert each.ours == pytest.approx(each.published.value, abs=WITHIN[name]), each.published.what


def test_a_time_limit_leaves_the_rest(tmp_path: Path) -> None:
    """Exit code 4, what was not begun is counted; the list names all figures and runs none."""
    told = run("paper", "--small", "--out", str(tmp_path), "--time-limit", "0", "--json")
    assert told.code == 4
    document = json.loads(told.stdout)
    assert document["status"] == "time"
    assert document["missing"] + len(document["figures"]) == len(FIGURES)
    listed = run("paper", "--list")
    assert [line.partition(":")[0] for line in listed.stdout.splitlines()] == [figure.name for figure in FIGURES]
