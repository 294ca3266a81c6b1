"""Jobs at once at the command line: solve, check, report, validate, studies; everything wrong said at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support import at_once_cases as cases
from tests.support.paths import INSTANCES
from topoopt.cli.app import app
from topoopt.core.errors import InputError
from topoopt.kinds.files import read_instance


def run(*words: object) -> tuple[int, str]:
    """Exit code and standard output of a command."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def problems(folder: Path, document: dict[str, Any]) -> dict[str | None, str]:
    """Message of each path of a refused instance."""
    with pytest.raises(InputError) as refusal:
        read_instance(cases.write(folder, document))
    return {each.path: each.message for each in refusal.value.problems}


def test_solve_check_and_report(tmp_path: Path) -> None:
    """All files are written, the JSON object holds the figures by fabric, and the checker accepts them."""
    instance = cases.write(tmp_path, cases.instance({"at_once": [3], "repetitions": 1}))
    code, text = run("solve", instance, "--output", tmp_path / "out", "--json")
    document = json.loads(text)
    assert code == 0  # the times of planned classes are simulated twice
    assert document["kind"] == "shared-cluster"
    assert document["check"]["ok"] is True
    assert set(document["fabrics"]) == {"direct-connect", "fat-tree", "slow-tree", "ideal-switch"}
    assert document["fabrics"]["slow-tree"]["over_first"] >= 1.0
    assert document["objective"]["value"] == document["fabrics"]["direct-connect"]["iteration_ms"]["mean"]
    lines = (tmp_path / "out" / "statistics.csv").read_text().splitlines()
    assert lines[0].startswith("fabric,load,jobs,mean_ms,")
    assert len(lines) == 5
    assert run("check", instance, tmp_path / "out" / "solution.json")[0] == 0
    assert run("report", tmp_path / "out" / "solution.json", "-o", tmp_path / "r.html")[0] == 0
    assert (tmp_path / "r.html").read_text() == (tmp_path / "out" / "report.html").read_text()
    assert "slow-tree" in run("solve", instance, "--output", tmp_path / "out")[1]


def test_check_rejects_another_result(tmp_path: Path) -> None:
    """A figure changed by hand ends with code 6."""
    instance = cases.write(tmp_path, cases.instance({"at_once": [1], "repetitions": 1}))
    assert run("solve", instance, "--output", tmp_path / "out")[0] == 0
    file = tmp_path / "out" / "solution.json"
    document = json.loads(file.read_text())
    document["objective"]["value"] += 0.5
    file.write_text(json.dumps(document))
    assert run("check", instance, file)[0] == 6


def test_names_in_the_report_are_escaped(tmp_path: Path) -> None:
    """A solution of unknown origin cannot put markup into the page."""
    document = cases.instance({"at_once": [1], "repetitions": 1, "mix": None})
    document["classes"][0]["name"] = "<b>short</b>"
    assert run("solve", cases.write(tmp_path, document), "--output", tmp_path / "out")[0] == 0
    file = tmp_path / "out" / "solution.json"
    assert run("report", file, "-o", tmp_path / "r.html")[0] == 0
    assert "<b>short" not in (tmp_path / "r.html").read_text()


def test_budget_and_time_limit_at_the_command_line(tmp_path: Path) -> None:
    """No budget option for this kind (2); a time limit of 0 leaves nothing (5)."""
    instance = cases.write(tmp_path, cases.instance())
    assert run("solve", instance, "--output", tmp_path / "out", "--budget", 5)[0] == 2
    assert run("solve", instance, "--output", tmp_path / "out", "--time-limit", 0)[0] == 5
    assert not (tmp_path / "out" / "solution.json").exists()


def test_validate_says_everything_at_once(tmp_path: Path) -> None:
    """Names used twice, loads that do not fit or come twice, settings a shard has not."""
    document = cases.instance(
        {"at_once": [2, 2, 5]},
        fabrics=[{"kind": "partitioned", "oversubscription": 2}, {"kind": "partitioned"}],
    )
    document["classes"][1]["name"] = "short"
    found = problems(tmp_path, document)
    assert found["classes[1].name"] == found["fabrics[1]"] == "a name more than once"
    assert found["jobs.at_once[1]"] == "load given twice"
    assert found["jobs.at_once[2]"] == "more jobs than fit"
    assert found["fabrics[0].oversubscription"] == "plays no part for partitioned"
    assert found["jobs.mix.long"] == "unknown class"


def test_what_belongs_to_jobs_that_arrive_is_refused(tmp_path: Path) -> None:
    """Queues, circuits, lengths and formulas play no part for jobs at once, flow by flow; each key by its name."""
    document = cases.instance(
        {"rate_per_s": 1.0, "spread": "fixed"},
        scheduling={"queue": "fifo"},
        optical={"switch_ports": 16},
        objective="mean-completion-time",
        fabrics=[{"kind": "fat-tree", "paths": "even", "placement": "packed"}],
    )
    document["classes"][0] |= {"iterations": 5, "compute_ms": 1.0, "fabric_ms": {"fat-tree": 2.0}}
    found = problems(tmp_path, document)
    assert set(found) == {
        "jobs.rate_per_s", "jobs.spread", "scheduling", "optical", "objective",
        "fabrics[0].paths", "fabrics[0].placement",
        "classes[0].iterations", "classes[0].compute_ms", "classes[0].fabric_ms",
    }  # fmt: skip
    assert found["classes[0].iterations"].startswith("plays no part for jobs at once")


def test_flows_need_jobs_at_once(tmp_path: Path) -> None:
    """Jobs that arrive contend by a formula; what is of flows alone is refused beside them."""
    jobs = {"count": 3, "load": 0.5, "repetitions": 2, "rank_order": "sorted"}
    fabrics = [{"kind": "hypercube"}]
    changes = {"contention": "flows", "time_model": "fluid", "jobs": jobs, "fabrics": fabrics}
    document = {**cases.instance(), **changes}
    document["cluster"]["rack_servers"] = 4
    found = problems(tmp_path, document)
    assert {
        "contention", "time_model", "cluster.rack_servers", "jobs.repetitions", "jobs.rank_order", "fabrics[0].kind",
    } <= set(found)  # fmt: skip
    assert found["contention"].startswith("flows are simulated for jobs at once")


def test_the_former_kind_is_named_as_it_is_written_now(tmp_path: Path) -> None:
    """`shared-load` is no kind; the message says what to write."""
    with pytest.raises(InputError) as refusal:
        read_instance(cases.write(tmp_path, {**cases.instance(), "kind": "shared-load"}))
    (problem,) = refusal.value.problems
    assert problem.path == "kind"
    assert "kind: shared-cluster with jobs: {at_once" in str(problem.allowed)


def test_classes_have_one_source_of_times(tmp_path: Path) -> None:
    """Neither or both, servers missing or not those of the plan, and times where jobs share a fabric."""
    document = cases.instance({"mix": None})
    document["classes"] = [
        {"name": "none"},
        {"name": "both", "plan": "short.json", "iteration_ms": [1.0]},
        {"name": "size", "iteration_ms": [1.0]},
        {"name": "file", "plan": "short.json", "servers": 5},
    ]
    found = problems(tmp_path, document)
    assert found["classes[0]"] == found["classes[1]"] == "one of iteration_ms and plan is needed"
    assert found["classes[2].servers"] == "missing"
    assert "say nothing about fat-tree" in found["classes[2].iteration_ms"]
    assert found["classes[3].servers"] == "not those of the plan"


def test_files_of_classes_are_read_with_their_problems(tmp_path: Path) -> None:
    """A missing file, one of another kind, and one with a fault of its own are all named."""
    path = cases.write(tmp_path, cases.instance())
    document = cases.instance()
    broken = cases.job("broken", 4, 1.0, 100)
    broken["workload"]["samples"] = -1
    (tmp_path / "broken.json").write_text(json.dumps(broken))
    document["classes"] = [
        {"name": "a", "plan": "missing.json"},
        {"name": "b", "plan": "shared.json"},
        {"name": "c", "plan": "broken.json"},
    ]
    path.write_text(json.dumps(document))
    with pytest.raises(InputError) as refusal:
        read_instance(path)
    files = {Path(each.file or "").name: each.message for each in refusal.value.problems}
    assert files["missing.json"] == "no such file"
    assert files["shared.json"] == "no plan of a job"
    assert "broken.json" in files


def test_an_unknown_fabric_is_found_by_validate(tmp_path: Path) -> None:
    """Names in tables of the solvers are checked by `validate`, too (2)."""
    instance = cases.write(tmp_path, cases.instance(fabrics=[{"kind": "fat-trees"}]))
    assert run("validate", instance)[0] == 2
    assert run("validate", cases.write(tmp_path, cases.instance()))[0] == 0


def test_identity_counts_the_content_of_the_classes(tmp_path: Path) -> None:
    """Another job behind the same name is another instance; another name of the same file is not."""
    path = cases.write(tmp_path, cases.instance())
    before = read_instance(path).sha256
    (tmp_path / "short.json").write_text(json.dumps(cases.job("short", 4, 2.5, 400_000)))
    assert read_instance(path).sha256 != before


def test_the_shipped_instances_are_right() -> None:
    """The mix of the published sampling, 27 jobs of 16 servers at most, on the fabrics of the paper."""
    folder = INSTANCES / "shared"
    problem: Any = read_instance(folder / "mix-432.yaml")
    shares = {problem.classes[index].name: weight for index, weight in problem.jobs.mix}
    assert shares == {"dlrm": 35, "bert": 42.25, "candle": 20.475, "vgg": 2.275}
    assert problem.jobs.loads == (5, 10, 15, 20, 27)
    assert {one.servers for one in problem.classes} == {16}
    assert [each.kind for each in problem.fabrics] == [
        "partitioned",
        "fat-tree",
        "oversubscribed-fat-tree",
        "ideal-switch",
    ]
    assert all(one.plan.cluster.degree == 8 for one in problem.classes)
