"""`topoopt evaluate --best`: the best strategy of an instance on an ideal switch."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli_cases import refusals, run
from tests.support.paths import INSTANCES

CASE = INSTANCES / "llm-training" / "llama3-70b-64.yaml"


def test_the_best_and_what_comes_next(tmp_path: Path) -> None:
    """Few strategies, so that one at a time can be asked for: none of those that fit is faster, the next best are in
    order, and each shape says its fastest or the memory that its smallest takes."""
    file = tmp_path / "few.yaml"
    part = "{tensor: [4, 8], context: 1, pipeline: [4, 8], chunks: [1, 2], zero: 1, micro_batch: 1, recompute: none}"
    text = CASE.read_text().replace("{tensor: [1, 2, 4, 8], zero: [0, 1, 3]}", part)
    file.write_text(text.replace("fabrics", "overlap: {tensor: 0.5}\nfabrics"))
    found = run("evaluate", file, "--best", "--json").json
    assert (found["status"], found["stopped_by"], found["shapes_left"]) == ("optimal", "converged", 0)
    assert f"all {found['records']} strategies" in found["proof"]
    times = [one["iteration_time_s"] for one in found["next"]]
    assert found["iteration_time_s"] <= times[0]
    assert times == sorted(times)
    fits = 0
    for tensor in (4, 8):
        for pipeline in (4, 8):
            shape = next(s for s in found["shapes"] if (s["tensor"], s["pipeline"]) == (tensor, pipeline))
            zero = 0 if tensor * pipeline == 64 else 1
            sizes = ("--tensor", tensor, "--pipeline", pipeline, "--zero", zero, "--json")
            for chunks, schedule in ((1, "1f1b"), (1, "zb-h1"), (2, "interleaved")):
                one = run("evaluate", file, *sizes, "--chunks", chunks, "--schedule", schedule).json
                assert one["memory_gib"]["total"] >= shape["least_gib"] * (1 - 1e-12)
                if one["fits"]:
                    fits += 1
                    assert one["iteration_time_s"] >= shape["best_s"] * (1 - 1e-12)
                    assert shape["best_s"] >= found["iteration_time_s"] * (1 - 1e-12)
    assert fits > 0
    assert {(s["tensor"], s["pipeline"]) for s in found["shapes"]} == {(4, 4), (4, 8), (8, 4), (8, 8)}
    assert "optimal on an ideal-switch" in run("evaluate", file, "--best").stdout


def test_a_fabric_that_is_not_searched(tmp_path: Path) -> None:
    """Times of another network are not told by those of an ideal switch: exit code 2, with what is allowed."""
    file = tmp_path / "torus.yaml"
    file.write_text(CASE.read_text().replace("ideal-switch", "torus-3d"))
    result = run("evaluate", file, "--best", "--json")
    assert result.code == 2
    assert refusals(result.json) == [("fabrics", "torus-3d", "strategies are searched on an ideal switch only")]


def test_memory_that_never_fits(tmp_path: Path) -> None:
    """70 billion weights on eight GPUs: exit code 3, with the least that would do; 18 bytes a weight, an eighth each,
    is more than 147 GiB."""
    file = tmp_path / "small.yaml"
    text = CASE.read_text().replace("servers: 8", "servers: 1").replace("sequences: 128", "sequences: 8")
    file.write_text(text)
    result = run("evaluate", file, "--best", "--json")
    assert (result.code, result.json["status"]) == (3, "infeasible")
    least = float(result.json["error"].split("takes ")[1].split()[0])
    assert least > 18 * 70_553_706_496 / 8 / 2**30


def test_a_limit(tmp_path: Path) -> None:
    """A limit that is over at once: the best of what was seen and exit code 4, or word that nothing was found yet."""
    result = run("evaluate", CASE, "--best", "--time-limit", 0, "--json")
    assert result.code == 4
    assert result.json["status"] in ("feasible", "unknown")
