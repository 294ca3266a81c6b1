"""`topoopt solve` on a language model in training: the best strategy, what comes next, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli_cases import refusals, run
from tests.support.paths import INSTANCES

CASE = INSTANCES / "llm-training" / "llama3-70b-64.yaml"
SMALL = INSTANCES / "llm-training" / "small-16.yaml"
FEW = "{tensor: [4, 8], context: 1, pipeline: [4, 8], chunks: [1, 2], zero: 1, micro_batch: 1, recompute: none}"


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An instance of few strategies, so that one at a time can be asked for."""
    file = tmp_path_factory.mktemp("few") / "few.yaml"
    text = CASE.read_text().replace("{tensor: [1, 2, 4, 8], zero: [0, 1, 3]}", FEW)
    file.write_text(text.replace("fabrics", "overlap: {tensor: 0.5}\nfabrics").replace("top: 5", "top: 40"))
    return file


def test_the_best_and_what_comes_next(few: Path, tmp_path: Path) -> None:
    """Of the strategies that `evaluate` gives one by one none that fits is faster; the next best are in order, and each
    shape has a line in the certificate."""
    found = run("solve", few, "-o", tmp_path, "--json").json
    assert (found["status"], found["stopped_by"]) == ("optimal", "converged")
    assert found["gap"] == pytest.approx(0.0, abs=1e-12)
    times = [one["iteration_time_s"] for one in found["next"]]
    assert found["iteration_time_s"] <= times[0]
    assert times == sorted(times)
    assert sum(found["breakdown_s"].values()) == pytest.approx(found["iteration_time_s"], rel=1e-12)
    arrays = json.loads((tmp_path / "solution.json").read_text())["certificates"][0]["arrays"]
    shapes = set(zip(arrays["shapes"][::6], arrays["shapes"][2::6], strict=True))
    assert shapes == {(4, 4), (4, 8), (8, 4), (8, 8)}
    fits = 0
    for tensor, pipeline in shapes:
        zero = 0 if tensor * pipeline == 64 else 1
        sizes = ("--set", f"tensor={tensor}", "--set", f"pipeline={pipeline}", "--set", f"zero={zero}", "--json")
        for chunks, schedule in ((1, "1f1b"), (1, "zb-h1"), (2, "interleaved")):
            one = run("llm", "evaluate", few, *sizes, "--set", f"chunks={chunks}", "--set", f"schedule={schedule}").json
            if one["fits"]:
                fits += 1
                assert one["iteration_time_s"] >= found["iteration_time_s"] * (1 - 1e-12)
    assert fits > 0


def test_the_answer_comes_first(few: Path, tmp_path: Path) -> None:
    """One sentence that says what to do and how sure that is; the check of the solution alone passes."""
    text = run("solve", few, "-o", tmp_path, "--verbose").stdout
    said = " ".join(text.split())
    assert said.startswith("Train llama3-70b on 64 GPUs with tensor ")
    assert "no strategy of the space is faster (proven)." in said
    assert "differs in" in text
    assert run("check", tmp_path / "solution.json").code == 0
    page = (tmp_path / "report.html").read_text()
    assert "Schedule of the pipeline" in page
    assert "Memory of the fullest GPU" in page


def test_a_fabric_that_is_not_searched(tmp_path: Path) -> None:
    """A name that is no fabric: exit code 2, with what is allowed."""
    file = tmp_path / "torus.yaml"
    file.write_text(CASE.read_text().replace("ideal-switch", "hypertorus"))
    result = run("solve", file, "-o", tmp_path, "--json")
    assert result.code == 2
    assert [path for path, _, _ in refusals(result.json)] == ["fabrics[0]"]


def test_strategies_are_searched_anew_on_each_fabric(tmp_path: Path) -> None:
    """No fabric is faster than the ideal switch or than its bound; the checker recomputes rates and times, and finds
    a link that is gone, faster links, a ring that leaves a server out, a time too short, bounds that are not proven."""
    file = tmp_path / "fabrics.yaml"
    text = CASE.read_text().replace("[ideal-switch]", "[direct-connect, torus-3d, ideal-switch, rail-only]")
    part = FEW.replace("tensor: [4, 8]", "tensor: 8").replace("pipeline: [4, 8]", "pipeline: [2, 4]")
    part = part.replace("recompute: none", "recompute: full")
    text = text.replace("link_gbps: 400", "link_gbps: 100").replace("{tensor: [1, 2, 4, 8], zero: [0, 1, 3]}", part)
    file.write_text(text)
    solved = run("solve", file, "-o", tmp_path, "--json")
    assert solved.code == 0
    solution = tmp_path / "solution.json"
    assert run("check", solution).code == 0
    document = json.loads(solution.read_text())
    rows = document["plan"]["fabrics"]
    names = ["direct-connect", "torus-3d", "ideal-switch", "rail-only"]
    assert [one["network"]["fabric"] for one in rows] == names
    times = {one["fabric"]: one["iteration_time_s"] for one in solved.json["fabrics"]}
    arrays = document["certificates"][0]["arrays"]
    bounds = [document["bound"]["value"], *arrays["fabric_bounds_s"]]
    assert bounds == [one["bound_s"] for one in solved.json["fabrics"]]
    for name, bound in zip(names, bounds, strict=True):
        assert times["ideal-switch"] <= times[name] * (1 + 1e-12)
        assert times["ideal-switch"] <= bound * (1 + 1e-12)
        assert bound <= times[name] * (1 + 1e-12)
    assert document["objective"]["value"] == pytest.approx(times["direct-connect"], rel=1e-12)
    direct = rows[0]["network"]
    ring = direct["rings"][0]["orders"][0][0]
    for holder, key, value in (
        (direct, "links", direct["links"][1:]),
        (direct, "link_gbps", 2 * direct["link_gbps"]),
        (direct["rings"][0]["orders"][0], 0, ring[:-1]),
        (document["objective"], "value", 0.99 * document["objective"]["value"]),
        (document["bound"], "value", 0.999 * bounds[0]),
        (document["bound"], "value", times["direct-connect"]),
        (arrays["fabric_bounds_s"], 0, times["torus-3d"] * 1.001),
        (rows[0]["next"][0], "zero", 0),
        (direct, "places", [0, 0, *range(2, 8)]),
    ):
        kept, holder[key] = holder[key], value
        solution.write_text(json.dumps(document))
        assert run("check", solution).code == 6, key
        holder[key] = kept


def test_memory_that_never_fits(tmp_path: Path) -> None:
    """70 billion weights on eight GPUs: exit code 3, with the least that would do; 18 bytes a weight, an eighth each,
    is more than 147 GiB."""
    file = tmp_path / "small.yaml"
    text = CASE.read_text().replace("servers: 8", "servers: 1").replace("sequences: 128", "sequences: 8")
    file.write_text(text)
    result = run("solve", file, "-o", tmp_path, "--json")
    assert (result.code, result.json["status"]) == (3, "infeasible")
    least = float(result.json["error"].split("takes ")[1].split()[0])
    assert least > 18 * 70_553_706_496 / 8 / 2**30
    assert not (tmp_path / "solution.json").exists()
    parts = {
        part.split()[0]: float(part.split()[1])
        for part in result.json["error"].split("): ")[1].split(";")[0].split(", ")
    }
    assert sum(parts.values()) == pytest.approx(least, rel=1e-3)
    assert max(parts, key=lambda name: parts[name]) == "optimizer"  # 12 of the 18 bytes
    enough = float(result.json["error"].split("gpu_memory_gib: ")[1].split()[0])
    for memory, code in ((enough - 0.1, 3), (enough, 0)):
        file.write_text(text.replace("gpu_memory_gib: 80", f"gpu_memory_gib: {memory:.4f}"))
        assert run("solve", "--force", file, "-o", tmp_path, "--json").code == code


def test_a_limit_keeps_the_best_so_far(tmp_path: Path) -> None:
    """A limit that is over at once: the best of what was seen, never called optimal without a proof, and checked."""
    result = run("solve", CASE, "--time-limit", 0.001, "-o", tmp_path, "--json")
    assert result.code == 4
    assert result.json["status"] in ("feasible", "optimal", "unknown")
    if result.json["status"] == "feasible":
        assert result.json["bound"]["value"] < result.json["iteration_time_s"]


def test_strategies_outside_what_was_measured_are_said_to_be(tmp_path: Path) -> None:
    """Tensor parallelism over 16 GPUs: no run that efficiencies were fitted to had it."""
    file = tmp_path / "wide.yaml"
    file.write_text(SMALL.read_text().replace("{context: [1, 2]", "{tensor: 16, context: 1"))
    found = run("solve", file, "-o", tmp_path, "--json").json
    assert any("tensor is 16 (measured: 1 to 8)" in note for note in found["notes"])


def test_exports_of_a_plan(tmp_path: Path) -> None:
    """Ranks, traces and patch lists of the plan of a fabric; an instance that was not solved is refused."""
    file = INSTANCES / "llm-training" / "direct-connect-64.yaml"
    run("solve", file, "-o", tmp_path / "out")
    solution = tmp_path / "out" / "solution.json"
    links = run("export", solution, "--to", "patch-list", "--fabric", "direct-connect", "-o", tmp_path / "p", "--json")
    assert links.code == 0, links.stderr
    assert (tmp_path / "p" / "circuits.csv").is_file()
    run("export", solution, "--to", "megatron", "--fabric", "direct-connect", "-o", tmp_path / "m")
    assert len((tmp_path / "m" / "hostfile").read_text().splitlines()) == 8
    to_chakra = ("export", solution, "--to", "chakra", "-o", tmp_path / "t", "--set", "ranks=0,63")
    assert run(*to_chakra).code == 0
    assert sorted(one.name for one in (tmp_path / "t").glob("*.et")) == [
        "direct-connect-64.0.et",
        "direct-connect-64.63.et",
    ]


def test_circuits_of_regions_are_exported(tmp_path: Path) -> None:
    """Four servers share out experts over two optical interfaces each: the circuits, without the electrical network."""
    file = tmp_path / "experts.yaml"
    file.write_text(
        "schema_version: 1\nkind: llm-training\nname: experts\n"
        "model: {layers: 4, hidden: 1024, ffn_hidden: 4096, heads: 8, kv_heads: 8, vocabulary: 32000,\n"
        "  experts: {count: 8, per_token: 2, hidden: 1024}}\n"
        "batch: {sequences: 16, length: 1024}\n"
        "cluster: {servers: 4, gpus_per_server: 2, device: a100, gpu_memory_gib: null, intra_server_gbps: 2400,\n"
        "  degree: 4, link_gbps: 100, optical_interfaces: 2}\n"
        "strategy: {tensor: 1, context: 1, pipeline: 1, data: 8, expert: 8, zero: 0, micro_batch: 1, recompute: none}\n"
        "fabrics: [regional-circuits]\n"
    )
    assert run("solve", file, "-o", tmp_path / "out").code == 0
    made = run("export", tmp_path / "out" / "solution.json", "--to", "patch-list", "-o", tmp_path / "p", "--json")
    assert made.code == 0, made.stderr
    rows = [line.split(",") for line in (tmp_path / "p" / "circuits.csv").read_text().splitlines()[1:]]
    ends = [row[3] for row in rows]
    assert rows
    assert all(ends.count(f"server{server}") <= 2 for server in range(4))
    assert {(row[3], row[5]) for row in rows} == {(row[5], row[3]) for row in rows}
