"""`topoopt import chakra`, `import astrasim-network` and `export`, from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.cli_cases import refusals, run
from tests.support.paths import INSTANCES, SHARED_DATA
from topoopt.core.hierarchy import HierarchicalProblem
from topoopt.core.job import CoOptimisation
from topoopt.core.network import TopologyProblem
from topoopt.core.workload import Placement, Strategy
from topoopt.formats.astrasim import read_network
from topoopt.formats.table import EXPORTERS
from topoopt.kinds.files import read_instance
from topoopt.kinds.job import SOLUTION_FILE
from topoopt.simulate.network import build_task_graph, demand_of

SHARED = SHARED_DATA


def shared(name: str) -> Path:
    """Shared data, or skip."""
    if not (SHARED / name).exists():
        pytest.skip(f"shared data absent: {name}")
    return (SHARED / name).resolve()


def test_import_as_topology(tmp_path: Path) -> None:
    """The custom ring: demand 0.14680064 links of a millisecond to the successor, so theta is ms."""
    out = tmp_path / "ring.yaml"
    words = ("--set", "as=topology,degree=1,links=unidirectional", "-o", out, "--json")
    result = run("import", "chakra", shared("chakra/custom_ring_allreduce_8npus_1MB"), *words)
    assert result.code == 0
    assert result.json["point_to_point_bytes"] == result.json["traffic_bytes"] == 8 * 1_835_008
    assert result.json["compute_ns"] == 49_000
    problem = read_instance(out)
    assert isinstance(problem, TopologyProblem)
    assert problem.demand[7, 0] == pytest.approx(0.14680064)
    assert (problem.demand > 0).sum() == 8
    solved = run("solve", out, "--output", tmp_path / "out", "--json")
    assert solved.json["theta"] == pytest.approx(0.14680064, rel=1e-6)


def test_import_as_job(tmp_path: Path) -> None:
    """The all-reduce becomes a job of one operator with a megabyte of weights."""
    out = tmp_path / "job.yaml"
    result = run("import", "chakra", shared("chakra/all_reduce/8npus_1MB"), "--set", "as=co-optimisation", "-o", out)
    assert result.code == 0
    instance = read_instance(out)
    assert isinstance(instance, CoOptimisation)
    assert instance.workload.weight_bytes == 1 << 20
    assert instance.cluster.servers == 8


@pytest.mark.parametrize("words", [("--set", "dims=switch:8,ring:2,total_gbytes_per_s=450"), ("--set", "network=")])
@pytest.mark.parametrize("loop", ["no-overlap", "dag"])
def test_import_as_hierarchy(tmp_path: Path, words: tuple[object, ...], loop: str) -> None:
    """A real trace on sixteen NPUs; the file of the network gives (400 + 50) GiB/s in all."""
    network = shared("astrasim/hgx_h100_16gpu.yml")
    extra = ("--set", f"network={network}") if words[-1] == "network=" else words
    out = tmp_path / "h.json"
    trace = shared("chakra/ddp_resnet50_rank0.et")
    kind = ("--set", "as=hierarchical-bandwidth", "--set", f"loop={loop}", "--set", "dependencies=data")
    result = run("import", "chakra", trace, *kind, *extra, "-o", out, "--json")
    assert result.code == 0, result.stderr
    problem = read_instance(out)
    assert isinstance(problem, HierarchicalProblem)
    network, (workload,) = problem.designs[0].network, problem.designs[0].workloads
    assert [one.size for one in network.dimensions] == [8, 2]
    total = 450.0 if words[1].startswith("dims") else 450 * 2**30 / 1e9
    assert network.total_gbytes_per_s == pytest.approx(total)
    phases = [one.forward for one in workload.layers] + [one.phase for one in workload.tasks]
    assert sum(one.compute_ns for one in phases) == 292_828_000
    sizes = [one.size_bytes for phase in phases for one in phase.communications]
    assert sum(sizes) == 102_228_128 + 212_904 / 2


def test_import_network(tmp_path: Path) -> None:
    """Rings of 80 GiB/s links count once with one queue and twice with two."""
    out = tmp_path / "net.yaml"
    for queues, factor in ((1, 1), (2, 2)):
        words = ("--set", f"ring_queues={queues}", "-o", out, "--force", "--json")
        result = run("import", "astrasim-network", shared("astrasim/tpu_v3_32_2dtorus.yml"), *words)
        assert result.code == 0
        expected = [factor * 80 * 2**30 / 1e9] * 2
        assert result.json["bandwidth_gbytes_per_s"] == pytest.approx(expected)
        problem = read_instance(out)
        assert isinstance(problem, HierarchicalProblem)
        assert problem.designs[0].network.total_gbytes_per_s == pytest.approx(sum(expected))


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("--set", "as=routing"), "--set as"),
        (("--set", "as=topology,algorithm=tree"), "--set algorithm"),
        (("--set", "as=topology,all_to_all=halving-doubling"), "--set all_to_all"),
        (("--set", "as=topology,link_gbps=0"), "--set link_gbps"),
        (("--set", "as=topology,ranks=5"), "--set ranks"),
        (("--set", "as=topology,gpus_per_server=3"), "--set gpus_per_server"),
        (("--set", "as=topology,comm_groups=nowhere.json"), None),
        (("--set", "as=hierarchical-bandwidth"), "--set dims"),
        (("--set", "as=hierarchical-bandwidth,dims=ring:8"), "--set total_gbytes_per_s"),
        (("--set", "as=hierarchical-bandwidth,dims=torus:8,total_gbytes_per_s=1"), "--set dims"),
        (("--set", "as=hierarchical-bandwidth,dims=ring:4,total_gbytes_per_s=1"), "dims"),
        (("--set", "as=hierarchical-bandwidth,loop=x"), "--set loop"),
    ],
)
def test_import_refusals(tmp_path: Path, words: tuple[object, ...], path: str | None) -> None:
    """Wrong options are named, nothing is written."""
    out = tmp_path / "i.yaml"
    result = run("import", "chakra", shared("chakra/all_reduce/8npus_1MB"), *words, "-o", out, "--json")
    assert result.code == 2
    assert [where for where, _, _ in refusals(result.json)] == [path]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x07\x0a\x050.0.4\x20\x08"])
def test_import_damaged(tmp_path: Path, content: bytes) -> None:
    """An empty, foreign or truncated trace: exit code 2 with its name, nothing written."""
    folder = tmp_path / "traces"
    folder.mkdir()
    for rank in range(2):
        (folder / f"job.{rank}.et").write_bytes(content)
    result = run("import", "chakra", folder, "--set", "as=topology", "-o", tmp_path / "i.yaml", "--json")
    assert result.code == 2
    assert "job.0.et" in result.json["error"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["traces"]


def test_other_collectives(tmp_path: Path) -> None:
    """A collective whose bytes are not known is refused by name."""
    from topoopt.formats.chakra import CommType, collective_node, trace_bytes

    for rank in range(2):
        (tmp_path / f"job.{rank}.et").write_bytes(trace_bytes([collective_node(0, "x", CommType.GATHER, 5)]))
    result = run("import", "chakra", tmp_path, "--set", "as=topology", "-o", tmp_path / "i.yaml", "--json")
    assert refusals(result.json) == [(None, "GATHER", "these collectives are not supported")]


@pytest.fixture(scope="module")
def network_solution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A solved ring of four with links both ways."""
    folder = tmp_path_factory.mktemp("network")
    instance = {
        "schema_version": 1,
        "kind": "routing",
        "name": "ring-4",
        "topology": {"family": "ring", "servers": 4, "links": "bidirectional"},
        "demand": {"family": "uniform"},
    }
    (folder / "ring.json").write_text(json.dumps(instance))
    assert run("solve", folder / "ring.json", "--output", folder / "out").code == 0
    return folder / "out" / "solution.json"


def test_export_list() -> None:
    """All targets with kinds and limits, for people and programs."""
    listed = run("export", "--list", "--json").json["targets"]
    assert set(listed) == set(EXPORTERS)
    assert all(one["limits"] and one["kinds"] for one in listed.values())
    assert "astrasim" in run("export", "--list").stdout


def test_export_and_back(tmp_path: Path, network_solution: Path) -> None:
    """A topology goes out as GraphML and comes back as an instance of the same value."""
    file = tmp_path / "ring.graphml"
    assert run("export", network_solution, "--to", "graphml", "-o", file, "--json").json["files"] == [str(file)]
    instance = {
        "schema_version": 1,
        "kind": "routing",
        "name": "again",
        "topology": {"file": "ring.graphml"},
        "demand": {"family": "uniform"},
    }
    (tmp_path / "again.json").write_text(json.dumps(instance))
    again = run("solve", tmp_path / "again.json", "--output", tmp_path / "out", "--json").json
    assert again["theta"] == pytest.approx(json.loads(network_solution.read_text())["objective"]["value"])


def test_rate_of_a_network_solution(tmp_path: Path) -> None:
    """A solution that states the rate of its links needs no option, and takes no other one."""
    instance = {
        "schema_version": 1,
        "kind": "routing",
        "name": "ring-3",
        "topology": {"family": "ring", "servers": 3, "links": "bidirectional"},
        "demand": {"family": "uniform", "unit": "gbps"},
        "link_gbps": 25,
    }
    (tmp_path / "ring.json").write_text(json.dumps(instance))
    assert run("solve", tmp_path / "ring.json", "--output", tmp_path / "out").code == 0
    words = ("export", tmp_path / "out" / "solution.json", "--to", "astrasim", "-o", tmp_path / "sim")
    assert run(*words, "--set", "link_gbps=50").code == 2
    assert run(*words).code == 0
    assert "3 4 25Gbps" in (tmp_path / "sim" / "topology.txt").read_text()


def test_export_astrasim(tmp_path: Path, network_solution: Path) -> None:
    """The folder holds the network, the system and what cannot be expressed; a second time it is in the way."""
    words = ("export", network_solution, "--to", "astrasim", "--set", "link_gbps=200", "-o", tmp_path / "sim", "--json")
    result = run(*words)
    assert result.code == 0
    names = {entry.name for entry in (tmp_path / "sim").iterdir()}
    assert names == {"topology.txt", "logical_topology.json", "system.json", "NOTES.txt"}
    lines = (tmp_path / "sim" / "topology.txt").read_text().splitlines()
    assert lines[:3] == ["8 4 8", "4 5 6 7", "0 4 400Gbps 0.000001ms 0"]
    assert lines[6] == "4 5 200Gbps 0.001ms 0"
    assert json.loads((tmp_path / "sim" / "logical_topology.json").read_text()) == {"logical-dims": ["4"]}
    again = run(*words)
    assert again.code == 2
    assert "not an empty folder" in again.json["error"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["sim"]


def test_export_of_a_bandwidth_design(tmp_path: Path) -> None:
    """An all-reduce s on switch 8 and ring 2 moves 7/4 s and 1/8 s, so 450 GiB/s are best divided 420 to 30."""
    instance, folder = tmp_path / "net.yaml", tmp_path / "sim"
    assert run("import", "astrasim-network", shared("astrasim/hgx_h100_16gpu.yml"), "-o", instance).code == 0
    assert run("solve", instance, "--output", tmp_path / "out").code == 0
    words = ("--to", "astrasim", "--set", "hop_latency_us=1", "-o", folder, "--json")
    assert run("export", tmp_path / "out" / "solution.json", *words).code == 0
    network = read_network(folder / "network.yml")
    assert network.topology == ("Switch", "Ring")
    assert network.bandwidth_gib_per_s == pytest.approx((420.0, 30.0), rel=1e-3)
    assert network.latency_ns == (1000.0, 1000.0)


def test_job_out_and_in_again(tmp_path: Path) -> None:
    """The traces of a solved job become a job with the same AllReduces and messages."""
    assert run("solve", INSTANCES / "tiny-4.yaml", "--budget", 20, "-o", tmp_path).code == 0
    solution = SOLUTION_FILE.read(tmp_path / "solution.json")
    folder, out = tmp_path / "traces", tmp_path / "again.json"
    assert run("export", tmp_path / "solution.json", "--to", "chakra", "-o", folder).code == 0
    result = run("import", "chakra", folder, "--set", "as=co-optimisation", "-o", out, "--json")
    assert any("comm_groups.json" in note for note in result.json["notes"])
    assert {tuple(one["members"]): one["bytes"] for one in result.json["collectives"]} == {
        one.members: one.payload_bytes for one in solution.figures.demand.allreduce
    }
    instance = read_instance(out)
    assert isinstance(instance, CoOptimisation)
    strategy = Strategy(tuple(Placement(0, one.pinned_offset or 0) for one in instance.workload.operators))
    demand = demand_of(build_task_graph(instance.cluster, instance.workload, strategy))
    assert np.array_equal(demand.model_parallel_bytes, solution.figures.demand.model_parallel_bytes)
    assert {one.members: one.payload_bytes for one in demand.allreduce} == {
        one.members: one.payload_bytes for one in solution.figures.demand.allreduce
    }


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        ((), ["--to"]),
        (("--to", "astrasi", "-o", "x"), ["--to"]),
        (("--to", "chakra", "-o", "x"), ["--to"]),
        (("--to", "astrasim", "-o", "x"), ["--link-gbps"]),
        (("--to", "astrasim", "-o", "x", "--set", "link_gbps=-1"), ["--set link_gbps"]),
    ],
)
def test_export_refusals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network_solution: Path, words: tuple[object, ...], paths: list[str]
) -> None:
    """Missing and wrong options, kinds a target does not take: said, nothing written."""
    monkeypatch.chdir(tmp_path)
    result = run("export", network_solution, *words, "--json")
    assert result.code == 2
    assert [where for where, _, _ in refusals(result.json)] == paths
    assert list(tmp_path.iterdir()) == []


def test_export_of_something_else(tmp_path: Path) -> None:
    """An instance is not a solution."""
    file = tmp_path / "x.json"
    file.write_text('{"kind": "routing"}')
    result = run("export", file, "--to", "graphml", "-o", tmp_path / "y", "--json")
    assert result.code == 2
    assert "not a solution" in result.json["error"]
