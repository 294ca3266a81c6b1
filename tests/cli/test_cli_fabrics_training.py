"""`topoopt fabrics` of a language model in training: what `solve` comes to on each."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.cli_cases import refusals, run
from tests.support.paths import INSTANCES


def test_fabrics_of_a_language_model(tmp_path: Path) -> None:
    """Each row is the plan that `solve` finds with that fabric first; what jobs alone have is refused, all at once."""
    case = tmp_path / "llm.yaml"
    text = (INSTANCES / "llm-training" / "small-16.yaml").read_text()
    case.write_text(text.replace("context: [1, 2]", "context: 1, pipeline: 4, recompute: none"))
    names = ("rail-only", "ideal-switch")
    found = run("compare", case, "--fabrics", ",".join(names), "--json").json
    assert [row["fabric"] for row in found["rows"]] == list(names)
    assert found["checked"] is True
    for name, row in zip(names, found["rows"], strict=True):
        case.write_text(case.read_text().replace("[ideal-switch]", f"[{name}]").replace("[rail-only]", f"[{name}]"))
        solved = run("solve", case, "-o", tmp_path, "--force", "--json").json
        assert (row["iteration_time_s"], row["bound_s"]) == (solved["iteration_time_s"], solved["bound"]["value"])
    assert "trains fastest on" in run("compare", case, "--fabrics", "ideal-switch").stdout
    refused = run("compare", case, "--fabrics", "all", "--budget", 3, "--delays", "1ms", "--json")
    assert refused.code == 2
    assert {path for path, _, _ in refusals(refused.json)} == {"--budget", "--delays"}
    assert run("compare", case, "--fabrics", "moebius", "--json").code == 2


def test_table_and_bars(tmp_path: Path) -> None:
    """The table has the rows of the answer, parts of each time that add up to it; the bars name every fabric."""
    table = tmp_path / "f.csv"
    words = (
        "compare",
        INSTANCES / "llm-training" / "small-16.yaml",
        "--fabrics",
        "ideal-switch,torus-2d",
        "--force",
        "--output",
        table,
    )
    found = run(*words, "--output", tmp_path / "f.svg", "--json").json
    assert (found["csv"], found["plot"]) == (str(table), str(tmp_path / "f.svg"))
    with table.open(encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    assert [line["fabric"] for line in lines] == ["ideal-switch", "torus-2d"]
    for line, row in zip(lines, found["rows"], strict=True):
        parts = sum(float(value) for name, value in line.items() if name.startswith("breakdown_s."))
        assert float(line["iteration_time_s"]) == row["iteration_time_s"] == pytest.approx(parts, rel=1e-12)
    texts = {node.text for node in ElementTree.parse(tmp_path / "f.svg").iter() if node.text}
    assert {"ideal-switch", "torus-2d", "pipeline bubble", "time of an iteration, s"} <= texts
    assert f"written: {table}" in run(*words, "--output", tmp_path / "f.html").stdout
    page = re.sub("<[^>]*>", "", (tmp_path / "f.html").read_text(encoding="utf-8"))
    assert all(row["strategy"] in page for row in found["rows"])
    assert run(*words, "--output", tmp_path / "f.png").code == 2
