"""Problems made in code: the same checks and the same problems as from files, with arrays, graphs and data frames."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest

import topoopt
from tests.support.paths import INSTANCES
from tests.support.smallest import SMALLEST
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError
from topoopt.core.topology import Topology
from topoopt.files.documents import parse_document
from topoopt.kinds import KINDS, kind_named
from topoopt.library.calls import ALIASES, instance_from_dict

RING = Topology.from_edges([(0, 1), (1, 2), (2, 3), (3, 0)])
UNIFORM = 1.0 - np.eye(4)


def routing_problem(**sections: Any) -> Any:
    """The problem of an instance of kind `routing`."""
    return topoopt.problem_of(topoopt.RoutingInstance(**sections))


def topology_problem(**sections: Any) -> Any:
    """The problem of an instance of kind `topology`."""
    return topoopt.problem_of(topoopt.TopologyInstance(**sections))


def job_problem(workload: Any, **fields: Any) -> Any:
    """The problem of an instance of kind `co-optimisation`, of a model by name or of a workload."""
    if isinstance(workload, str):
        workload = {"model": workload, "operator_times": {"device": "a100"}}
    return topoopt.problem_of(topoopt.CoOptimisationInstance(workload=workload, **fields))


@pytest.mark.parametrize("kind", KINDS)
def test_the_class_of_a_kind_is_public(kind: str) -> None:
    """The file of a kind is its class of keywords, with defaults for what a call may leave out."""
    shape = kind_named(kind).files.schema
    assert getattr(topoopt, shape.__name__) is shape
    defaults = {field.name: field.default for field in dataclasses.fields(shape)}
    assert (defaults["schema_version"], defaults["kind"]) == (1, kind)
    assert isinstance(defaults["name"], str)


@pytest.mark.parametrize("file", [file for file in SMALLEST.values() if file is not None])
def test_keywords_are_those_of_the_file(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a file says, as keywords, is the same instance, by its hash."""
    monkeypatch.chdir((INSTANCES / file).parent)  # other files that it names
    document = parse_document(INSTANCES / file).data
    shape = kind_named(document["kind"]).files.schema
    assert topoopt.problem_of(shape(**document)).sha256 == topoopt.read_instance(INSTANCES / file).sha256


def test_a_problem_from_arrays_is_that_of_the_file() -> None:
    """The hash, which stands for the whole content, is that of the same instance in plain data."""
    listed = {"links": [[0, 1], [0, 3], [1, 0], [1, 2], [2, 1], [2, 3], [3, 0], [3, 2]], "servers": 4, "degree": 2}
    document = {"schema_version": 1, "kind": "routing", "name": "routing", "topology": listed}
    matrix = {"matrix": UNIFORM.tolist()}
    assert (
        routing_problem(topology=RING, demand=UNIFORM).sha256
        == instance_from_dict({**document, "demand": matrix}).sha256
    )
    assert np.array_equal(routing_problem(topology=RING, demand={"family": "uniform"}).demand, UNIFORM)


def test_a_graph_of_networkx_is_a_topology() -> None:
    """The Petersen graph: ten servers of degree three."""
    problem = routing_problem(topology=nx.petersen_graph(), demand={"family": "uniform"})
    assert (problem.topology.servers, problem.topology.degree) == (10, 3)
    assert np.array_equal(problem.topology.adjacency(), nx.to_numpy_array(nx.petersen_graph(), dtype=int))


def test_labels_of_a_data_frame_are_kept() -> None:
    """Columns in another order than the rows: entries follow the labels, and a note names them."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        [[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [0.0, 0.0, 4.0]], index=["a", "b", "c"], columns=["b", "a", "c"]
    )
    with pytest.raises(InputError, match=r"demand of a server for itself"):
        topology_problem(servers=3, degree=2, demand=frame)
    frame.loc["b", "b"] = frame.loc["a", "a"] = frame.loc["c", "c"] = 0.0
    frame.loc["a", "b"], frame.loc["b", "a"] = 5.0, 7.0
    problem = topology_problem(servers=3, degree=2, demand=frame)
    assert problem.demand.tolist() == [[0.0, 5.0, 2.0], [7.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert problem.notes == ("servers are numbered in the order of their labels: 0 = a, 1 = b, 2 = c",)
    with pytest.raises(InputError, match="demand: rows and columns have different labels"):
        topology_problem(servers=3, degree=2, demand=frame.rename(columns={"c": "d"}))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: topology_problem(servers=1, degree=2, demand=UNIFORM), r"^servers: out of range \(value: 1\)"),
        (lambda: topology_problem(servers=8, degree=2, demand=UNIFORM), "wrong size of the demand matrix"),
        (lambda: topology_problem(servers=4, degree=2, demand=-UNIFORM), r"demand.matrix\[0\]\[1\]: out of range"),
        (lambda: routing_problem(topology=RING, demand=np.full((4, 4), np.nan)), "demand.matrix.*finite"),
        (lambda: routing_problem(topology={"links": [[0, 1]], "dgree": 1}, demand=UNIFORM), "did you mean degree"),
        (
            lambda: topoopt.problem_of(topoopt.AllocationInstance(topology=RING, link_gbps=100)),
            "one of transfers and transfers_from is needed",
        ),
        (lambda: job_problem(cluster={"servers": 4}, workload="dlmr"), "did you mean dlrm"),
        (lambda: instance_from_dict({"schema_version": 1, "name": "x"}), "kind: missing; allowed: one of"),
        (lambda: instance_from_dict({"kind": "routng"}), "no such kind.*did you mean routing"),
    ],
)  # fmt: skip
def test_refusals_name_the_argument(make: Callable[[], Any], message: str) -> None:
    """The messages of files, with arguments in place of lines."""
    with pytest.raises(InputError, match=message):
        make()


def test_all_that_is_wrong_is_said_at_once() -> None:
    """Three wrong arguments, three problems."""
    with pytest.raises(InputError) as refused:
        topology_problem(servers=4, degree=0, demand=-UNIFORM[:2], links="both")
    assert {problem.path.partition(".")[0] for problem in refused.value.problems} >= {"degree", "links", "demand"}
    assert all(problem.line is None for problem in refused.value.problems)


def test_a_job_from_a_cluster_and_the_name_of_a_model() -> None:
    """A `Cluster` stands for its section, and a name for a model with default sizes."""
    cluster = Cluster(servers=4, gpus_per_server=4, degree=2, link_gbps=100.0)
    problem = job_problem(cluster=cluster, workload="dlrm")
    assert problem.workload.name.startswith("dlrm")
    again = job_problem(cluster=problem.cluster, workload=problem.workload)
    assert again.workload == problem.workload
    assert problem.cluster.link_gbps == 100.0


def test_an_allocation_of_transfers() -> None:
    """Two transfers between neighbours of the ring, each over one link of 100 Gbit/s."""
    transfers = [{"source": 0, "destination": 1}, {"source": 2, "destination": 3, "max_gbps": 40}]
    problem = topoopt.problem_of(topoopt.AllocationInstance(topology=RING, link_gbps=100, transfers=transfers))
    assert [(t.source, t.destination, len(t.routes[0].arcs)) for t in problem.transfers] == [(0, 1, 1), (2, 3, 1)]
    assert problem.capacity_gbps.tolist() == [100.0] * 8


def test_several_demands_are_a_stack_or_a_list() -> None:
    """A stack of matrices, or matrices beside sections: the same demands as one by one."""
    shifts = np.array([np.roll(np.eye(5), step, axis=1) for step in (1, 2)])
    stacked = topology_problem(servers=5, degree=2, demands=shifts, routing="adapted", step_ms=2.0)
    assert (stacked.demands == shifts).all()
    assert (stacked.several, stacked.routing, stacked.step_ms) == (True, "adapted", 2.0)
    listed = topology_problem(servers=5, degree=2, demands=[shifts[0], {"family": "uniform"}])
    assert (listed.demands[1] == 1.0 - np.eye(5)).all()


def test_names_of_the_release_before_warn() -> None:
    """They take the keywords of the class that their warning names."""
    transfers = [{"source": 0, "destination": 2}]
    with pytest.warns(FutureWarning, match=r"AllocationInstance\(\.\.\.\) takes the same keywords"):
        problem = topoopt.allocation_problem(topology=RING, link_gbps=100, transfers=transfers)
    assert (
        problem.sha256
        == topoopt.problem_of(topoopt.AllocationInstance(topology=RING, link_gbps=100, transfers=transfers)).sha256
    )
    assert set(topoopt._ALIASES) == set(ALIASES)


def test_a_job_by_its_name_of_the_release_before_warns() -> None:
    """It still takes the name of a model; the class takes a section."""
    cluster = {"servers": 4, "gpus_per_server": 4, "degree": 2, "link_gbps": 100}
    with pytest.warns(FutureWarning, match=r"CoOptimisationInstance.*`model` and `operator_times` in `workload`"):
        problem = topoopt.job_problem(cluster=cluster, workload="dlrm", device="a100")
    workload = {"model": "dlrm", "operator_times": {"device": "a100"}}
    instance: Any = topoopt.CoOptimisationInstance(cluster=cluster, workload=workload)  # type: ignore[arg-type]
    assert problem.sha256 == topoopt.problem_of(instance).sha256
    assert topoopt.solve(instance, objective_only=True, budget=2).kind == "co-optimisation"
