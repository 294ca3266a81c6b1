"""Foreign graphs, splits by hand and jobs of ours as placement instances."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import INSTANCES
from topoopt.core.errors import InputError
from topoopt.core.placement import PlacementProblem
from topoopt.formats.dnn_partitioning import placement_document, read_expert_split
from topoopt.kinds.files import read_instance, write_instance
from topoopt.kinds.placement.methods import evaluate_given
from topoopt.kinds.placement.read import job_document


def node(number: int, **values: Any) -> dict[str, Any]:
    """A node as the files have them."""
    plain = {"id": number, "supportedOnFpga": 1, "cpuLatency": 10, "fpgaLatency": 1.5, "isBackwardNode": 0}
    return {**plain, "colorClass": number, "size": 2147483648.0, **values}


def graph(**values: Any) -> dict[str, Any]:
    """Three nodes in a row, 2 GiB/s, two accelerators and a CPU."""
    edges = [{"sourceId": a, "destId": b, "cost": 1.953125, "size": 4194304.0} for a, b in ((1, 2), (1, 3), (2, 3))]
    plain = {"maxSizePerFPGA": 8e9, "maxFPGAs": 2, "maxCPUs": 1, "nodes": [node(i) for i in (1, 2, 3)], "edges": edges}
    return {**plain, **values}


def document(content: dict[str, Any], folder: Path, **options: Any) -> dict[str, Any]:
    """The instance document of a graph, through a file."""
    file = folder / "graph.json"
    file.write_text(json.dumps(content))
    return placement_document(file, objective="throughput", name="g", **options)[0]


def problem_of(content: dict[str, Any], folder: Path) -> PlacementProblem:
    """The instance of a document, through a file."""
    write_instance(content, folder / "instance.json")
    problem = read_instance(folder / "instance.json")
    assert isinstance(problem, PlacementProblem)
    return problem


def test_tensors_are_hyperedges_with_the_cost_of_the_file(tmp_path: Path) -> None:
    """Two edges out of a node are one tensor of 4 MiB, which takes 1.953125 ms at 2 GiB/s."""
    problem = problem_of(document(graph(), tmp_path), tmp_path)
    assert [(t.producer, t.consumers, t.size_bytes) for t in problem.tensors] == [
        (0, (1, 2), 4194304),
        (1, (2,), 4194304),
    ]
    assert problem.send_ms(4194304, 0, 1) == pytest.approx(1.953125)
    assert [device.host for device in problem.devices] == [False, False, True]


def test_traps_of_the_files_are_tolerated(tmp_path: Path) -> None:
    """Booleans of either kind, missing classes, and costs in seconds among milliseconds."""
    mixed = graph(nodes=[node(1, isBackwardNode=False, supportedOnFpga=True), node(2, colorClass=None), node(3)])
    del mixed["nodes"][2]["colorClass"]
    problem = problem_of(document(mixed, tmp_path), tmp_path)
    assert [operator.colocation for operator in problem.operators] == ["1", None, None]
    seconds = graph()
    for edge in seconds["edges"]:
        edge["cost"] /= 1000
    assert problem_of(document(seconds, tmp_path), tmp_path).send_ms(4194304, 0, 1) == pytest.approx(0.001953125)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": [node(1), node(1), node(3)]}, r"nodes\[1\].id: the id of another node"),
        ({"nodes": [node(1, fpgaLatency=-1), node(2), node(3)]}, r"nodes\[0\].fpgaLatency"),
        ({"nodes": [node(1, supportedOnFpga="yes"), node(2), node(3)]}, r"not a truth value"),
        ({"edges": [{"sourceId": 1, "destId": 9, "cost": 1.0}]}, r"edges\[0\].destId: no node of that id"),
        ({"edges": [{"sourceId": 1, "destId": 2, "cost": -1.0}]}, r"edges\[0\].cost"),
        ({"nodes": None}, r"nodes"),
        ({"maxFPGAs": "many"}, r"maxFPGAs"),
    ],
)
def test_broken_graphs_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    """With path and value, never a traceback."""
    with pytest.raises(InputError, match=message):
        document(graph(**change), tmp_path)


def test_unequal_costs_of_one_tensor_are_refused(tmp_path: Path) -> None:
    """All edges out of a node state the same transfer."""
    content = graph()
    content["edges"][1]["cost"] = 5.0
    with pytest.raises(InputError, match=r"edges\[1\].cost: another cost than the other edges of node 1"):
        document(content, tmp_path)


def test_split_by_hand(tmp_path: Path) -> None:
    """Names are looked up, operators left out follow their class, and what is wrong is told."""
    content = graph(nodes=[node(1), node(2), node(3, colorClass=1)])
    problem = problem_of(document(content, tmp_path), tmp_path)
    split = tmp_path / "split.json"
    split.write_text(json.dumps({"cpus": [{"nodes": []}], "fpgas": [{"nodes": [1]}, {"nodes": [2]}]}))
    named, _ = read_expert_split(split)
    assert named == {"1": "fpga0", "2": "fpga1"}
    solution = evaluate_given(problem, named, "hand")
    # nodes 1 and 3 with 1.5 ms each, 1 sends its tensor and receives that of 2: twice 1.953125 ms
    assert solution.objective.value == pytest.approx(3.0 + 2 * 1.953125)
    assert not solution.check.ok  # 1 -> 2 -> 3 comes back to the device of 1: no pipeline
    with pytest.raises(InputError, match="no device of that name") as error:
        evaluate_given(problem, {"1": "fpga7", "8": "fpga0"}, "hand")
    assert len(error.value.problems) == 4  # device, operator, and two groups placed nowhere
    split.write_text(json.dumps({"cpus": [], "fpgas": [{"nodes": [1, 1]}]}))
    with pytest.raises(InputError, match="a node placed twice"):
        read_expert_split(split)


def test_job_of_ours(tmp_path: Path) -> None:
    """Every operator of a shipped job with its backward half, one device a server, the links of the cluster."""
    job: Any = read_instance(INSTANCES / "tiny-4.yaml")
    problem = problem_of(job_document(job, objective="latency", name="t", training=True), tmp_path)
    names = [operator.name for operator in job.workload.operators]
    assert [operator.name for operator in problem.operators] == names + [f"{name}/backward" for name in names]
    assert len(problem.devices) == job.cluster.servers
    assert problem.servers[0].network_gbps == job.cluster.degree * job.cluster.link_gbps
    whole = {o.name: next(s for s in o.splits if s.parts == 1) for o in job.workload.operators}
    assert problem.operators[0].times_ms == (whole[names[0]].forward_ms,)
    assert problem.operators[len(names)].times_ms == (whole[names[0]].backward_ms,)
