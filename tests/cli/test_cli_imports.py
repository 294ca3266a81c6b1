"""`topoopt import`: refusals, and files of the reference that become instances."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.cli_cases import refusals, run, shared
from topoopt.core.cluster import LinkDirection
from topoopt.core.job import CoOptimisation
from topoopt.kinds.files import read_instance
from topoopt.kinds.job import SOLUTION_FILE


@pytest.mark.parametrize("name", ["profile.json", "graph.fbuf"])
@pytest.mark.parametrize("content", [None, "", "{", "folder"])
def test_unreadable_file(tmp_path: Path, name: str, content: str | None) -> None:
    """Missing, empty, broken, a folder: exit code 2 with the name of the file, nothing written."""
    file = tmp_path / name
    if content == "folder":
        file.mkdir()
    elif content is not None:
        file.write_text(content)
    words = ["--set", "model=dlrm"] if name == "profile.json" else []
    result = run("import", "flexnet", file, *words, "-o", tmp_path / "instance.yaml", "--json")
    assert result.code == 2
    assert refusals(result.json)
    assert str(file) in result.json["error"]
    assert not (tmp_path / "instance.yaml").exists()


def test_unknown_model(tmp_path: Path) -> None:
    """The message names what is allowed."""
    profile = shared("measures/dlrm16.json")
    result = run("import", "flexnet", profile, "--set", "model=nonsense", "-o", tmp_path / "i.yaml", "--json")
    assert result.code == 2
    assert [value for _, value, _ in refusals(result.json)] == ["nonsense"]
    assert "dlrm" in result.json["problems"][0]["allowed"]


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("--set", "size=tables"), "--set"),
        (("--set", "size.tables=four"), "--set size"),
        (("--set", "size.tables=\N{SUPERSCRIPT TWO}"), "--set size"),
        (("--set", "size.tables=-4"), "--set size"),
        (("--set", f"size.tables={'9' * 5000}"), "--set size"),
        (("--set", "size.tables=64,size.tables=32"), "--set size.tables"),
        (("--set", "link_gbps=nan"), "--set link_gbps"),
        (("--set", "link_gbps=-1"), "--set link_gbps"),
        (("--set", "links=wireless"), "cluster.links"),
        (("--set", "gpu_memory_gib=nan"), "cluster.gpu_memory_gib"),
        (("--set", "intra_server_gbps=inf"), "cluster.intra_server_gbps"),
        (("--set", "local_allreduce=tree"), "cluster.local_allreduce"),
        (("--set", "element_sizes=huge"), None),
        (("--set", "name=a/b"), "name"),
    ],
)
def test_wrong_options_of_a_profile(tmp_path: Path, words: tuple[str, ...], path: str | None) -> None:
    """Each wrong value is refused at its place, exit code 2, nothing written."""
    profile = shared("measures/dlrm16.json")
    out = tmp_path / "i.yaml"
    result = run("import", "flexnet", profile, "--set", "model=dlrm", "-o", out, *words, "--json")
    assert result.code == 2
    assert [where for where, _, _ in refusals(result.json)] == [path]
    assert not out.exists()


def test_profile_becomes_an_instance(tmp_path: Path) -> None:
    """The DLRM profile of 16 servers, as the reference counts: validates, keeps its options, and can be solved."""
    out = tmp_path / "dlrm.yaml"
    words = ("--set", "model=dlrm,reference=true,degree=8,links=unidirectional", "-o", out)
    result = run("import", "flexnet", shared("measures/dlrm16.json"), *words, "--json")
    assert result.code == 0
    assert result.json["instance"] == str(out)
    assert result.json["servers"] == 16
    assert run("validate", out).code == 0
    instance = read_instance(out)
    assert isinstance(instance, CoOptimisation)
    assert instance.name == "dlrm16"
    assert (instance.cluster.servers, instance.cluster.degree) == (16, 8)
    assert instance.cluster.links is LinkDirection.UNIDIRECTIONAL
    assert instance.cluster.local_allreduce == "flexnet"
    assert instance.cluster.intra_server_gbps == 200.0
    assert len(instance.workload.operators) == result.json["operators"]
    assert instance.workload.weight_bytes == result.json["weight_bytes"]
    solved = run("solve", out, "--output", tmp_path / "out", "--budget", 20, "--json")
    assert (solved.code, solved.json["check"]["ok"]) == (0, True)


def test_profile_of_another_model(tmp_path: Path) -> None:
    """A DLRM profile is not one of BERT: exit code 2."""
    words = ("--set", "model=bert", "-o", tmp_path / "i.yaml", "--json")
    result = run("import", "flexnet", shared("measures/dlrm16.json"), *words)
    assert result.code == 2
    assert "not a profile of bert" in result.json["error"]


def test_task_graph_becomes_an_instance(tmp_path: Path) -> None:
    """The 12-server graph, under a name no instance may have: all operators pinned; validates, solves, checks."""
    file = tmp_path / "my task graph (1).fbuf"
    shutil.copy(shared("taskgraphs/topoopt_12.fbuf"), file)
    out = tmp_path / "i.json"
    result = run("import", "flexnet", file, "-o", out, "--set", "link_gbps=50", "--json")
    assert result.code == 0
    # Spec m.4: 12 servers, 22 operators.
    assert (result.json["servers"], result.json["operators"]) == (12, 22)
    assert run("validate", out).code == 0
    instance = read_instance(out)
    assert isinstance(instance, CoOptimisation)
    assert instance.name == "my-task-graph-1-"
    assert all(len(operator.splits) == 1 for operator in instance.workload.operators)
    solved = run("solve", out, "--output", tmp_path / "out", "--budget", 20, "--json")
    assert (solved.code, solved.json["check"]["ok"]) == (0, True)
    # Spec m.4: 964.94 MB all-reduced by the 12 servers, 324.4 MB of model-parallel traffic.
    demand = SOLUTION_FILE.read(tmp_path / "out" / "solution.json").figures.demand
    assert [(len(group.members), round(group.payload_bytes / 1e6, 2)) for group in demand.allreduce] == [(12, 964.94)]
    assert demand.model_parallel_bytes.sum() / 1e6 == pytest.approx(324.4, abs=0.05)
