"""`topoopt fabrics` of a language model in training: what `solve` comes to on each."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli_cases import refusals, run
from tests.support.paths import INSTANCES


def test_fabrics_of_a_language_model(tmp_path: Path) -> None:
    """Each row is the plan that `solve` finds with that fabric first; what jobs alone have is refused, all at once."""
    case = tmp_path / "llm.yaml"
    text = (INSTANCES / "llm-training" / "small-16.yaml").read_text()
    case.write_text(text.replace("context: [1, 2]", "context: 1, pipeline: 4, recompute: none"))
    names = ("rail-only", "ideal-switch")
    found = run("fabrics", case, "--fabrics", ",".join(names), "--json").json
    assert [row["fabric"] for row in found["rows"]] == list(names)
    assert found["checked"] is True
    for name, row in zip(names, found["rows"], strict=True):
        case.write_text(case.read_text().replace("[ideal-switch]", f"[{name}]").replace("[rail-only]", f"[{name}]"))
        solved = run("solve", case, "-o", tmp_path, "--json").json
        assert (row["iteration_time_s"], row["bound_s"]) == (solved["iteration_time_s"], solved["bound"]["value"])
    assert "trains fastest on" in run("fabrics", case, "--fabrics", "ideal-switch").stdout
    refused = run("fabrics", case, "--budget", 3, "--csv", tmp_path / "x.csv", "--json")
    assert refused.code == 2
    assert {path for path, _, _ in refusals(refused.json)} == {"--budget", "--csv"}
    assert run("fabrics", case, "--fabrics", "moebius", "--json").code == 2
