"""Solution files of network problems: what is written comes back, and what does not fit is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.network_cases import NetworkResult, on_links, one_proof
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, TopooptError
from topoopt.core.network import SourceFlow, TopologyPlan, TopologyProblem
from topoopt.core.proofs import Argument, Bound, Status, StopReason
from topoopt.core.result import CheckResult, Objective, Result
from topoopt.core.topology import Topology
from topoopt.kinds.network import TOPOLOGY_FILE

PROBLEM = TopologyProblem("triangle", 3, 1, LinkDirection.UNIDIRECTIONAL, np.ones((3, 3)) - np.eye(3))


def triangle() -> NetworkResult:
    """All-to-all on three servers in a one-way ring: each arc carries one direct and one forwarded demand, twice."""
    topology = Topology(
        servers=3,
        degree=1,
        links=LinkDirection.UNIDIRECTIONAL,
        arcs=np.array([[0, 1], [1, 2], [2, 0]], dtype=np.int32),
        multiplicity=np.ones(3, dtype=np.int32),
        switches=np.array([[1, 2, 0]], dtype=np.int32),
        offsets=(1,),
        origin="by hand",
    )
    flow = np.array([[2.0, 1.0, 0.0], [0.0, 2.0, 1.0], [1.0, 0.0, 2.0]])
    return Result(
        name="triangle",
        kind="topology",
        status=Status.OPTIMAL,
        stopped_by=StopReason.CONVERGED,
        objective=Objective("theta", 3.0, "link capacity"),
        bound=Bound(3.0, Argument.LAYERED_MOORE),
        check=CheckResult(True, ()),
        seed=5,
        method="by hand",
        problem=PROBLEM,
        plan=on_links(topology, flow),
        certificates=one_proof(np.array([1.0, 1 / 3, 1.0])),
        instance_sha256="0" * 64,
        versions=(("topoopt", "0.1.0"), ("python", "3.11")),
        notes=("nothing <b>special</b>",),
    )


def test_a_solution_comes_back_as_it_was(tmp_path: Path) -> None:
    """Every array, to the last bit and by type; written again, the same bytes."""
    path = tmp_path / "solution.json"
    TOPOLOGY_FILE.write(triangle(), path)
    back, first = TOPOLOGY_FILE.read(path), triangle()
    assert TOPOLOGY_FILE.text(back) == path.read_text()
    for of in (
        lambda r: r.plan.circuits,
        lambda r: r.plan.flows[0].flow,
        lambda r: r.certificates[0]["lengths"],
        lambda r: r.plan.topology.arcs,
    ):
        assert np.array_equal(of(back), of(first))
        assert of(back).dtype == of(first).dtype
    names = (
        "name",
        "kind",
        "status",
        "stopped_by",
        "objective",
        "bound",
        "check",
        "seed",
        "method",
        "versions",
        "notes",
    )
    assert all(getattr(back, name) == getattr(first, name) for name in names)
    topology = replace(back, problem=PROBLEM).figures.topology
    assert (topology.servers, topology.degree, topology.links, topology.offsets, topology.origin) == (
        3,
        1,
        LinkDirection.UNIDIRECTIONAL,
        (1,),
        "by hand",
    )


def test_a_flow_by_hops_comes_back_as_it_was(tmp_path: Path) -> None:
    """Three dimensions, most entries 0, rows without any at the ends; nothing of it is rounded."""
    by_hop = np.zeros((2, 3, 3))
    by_hop[0, 1] = [0.1, 0.0, 1 / 3]
    by_hop[1, 2, 2] = 1e-300
    plan = TopologyPlan(
        flows=(SourceFlow(by_hop.sum(axis=0), by_hop, (3,)),), circuits=np.array([[1, -1, 0]], dtype=np.int32)
    )
    path = tmp_path / "solution.json"
    TOPOLOGY_FILE.write(replace(triangle(), plan=plan), path)
    (flow,) = TOPOLOGY_FILE.read(path).plan.flows
    assert flow.by_hop is not None
    assert np.array_equal(flow.by_hop, by_hop)
    assert flow.dims == (3,)


def test_derived_figures() -> None:
    """lambda is 1 / theta, the gap is relative to theta and never negative."""
    solution = replace(triangle(), bound=Bound(2.25, Argument.LAYERED_MOORE))
    figures = solution.figures
    assert (figures.theta, figures.throughput, replace(solution, status=Status.FEASIBLE).gap) == (
        3.0,
        pytest.approx(1 / 3),
        0.25,
    )
    assert replace(solution, bound=Bound(3.0 + 1e-15, Argument.LAYERED_MOORE)).gap == 0.0


def test_nan_is_not_written() -> None:
    """A figure that is not a number is a bug, said as such."""
    with pytest.raises(TopooptError, match="cannot be written"):
        TOPOLOGY_FILE.text(replace(triangle(), objective=Objective("theta", float("nan"), "link capacity")))


def _set(*path: Any) -> Callable[[dict[str, Any]], None]:
    """An edit: the last item is put where the others lead."""

    def edit(document: dict[str, Any]) -> None:
        target: Any = document
        for part in path[:-2]:
            target = target[part]
        target[path[-2]] = path[-1]

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (_set("plan", "circuits", [[1, 2, 0], [1]]), "plan.circuits: rows of several lengths"),
        (_set("plan", "circuits", 0, 0, -2), "out of range"),
        (_set("plan", "circuits", 0, 0, 10**9), "out of range"),
        (_set("certificates", 0, "arrays", "lengths", ["one"]), "certificates"),
        (_set("certificates", 0, "argument", "guess"), "argument"),
        (_set("plan", "flows", 0, "flow", "shape", [3]), "1 dimensions, 2 expected"),
        (_set("plan", "flows", 0, "flow", "shape", [10**6, 10**6]), "entries with those that are 0"),
        (_set("plan", "flows", 0, "flow", "used", [2, 2]), "rows, columns and values do not fit"),
        (_set("plan", "flows", 0, "flow", "columns", [0, 0, 1, 2, 0, 2]), "columns must ascend"),
        (_set("plan", "flows", 0, "flow", "columns", [0, 9, 1, 2, 0, 2]), "columns must ascend"),
        (_set("plan", "flows", 0, "flow", "values", 0, -1.0), "out of range"),
        (_set("plan", "flows", 0, "by_hop", {}), "missing"),
        (_set("thetas", [3.0]), "unknown key thetas"),
        (_set("status", "fine"), "status"),
        (_set("extra", 1), "unknown key extra"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, edit: Callable[[dict[str, Any]], None], message: str) -> None:
    """Each kind of damage is named with its path."""
    document = json.loads(TOPOLOGY_FILE.text(triangle()))
    edit(document)
    path = tmp_path / "solution.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        TOPOLOGY_FILE.read(path)
