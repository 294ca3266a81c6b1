"""Solution files of network problems: what is written comes back, and what does not fit is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.network_cases import one_routing
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, TopooptError
from topoopt.core.network_solution import NetworkSolution, RoutedNetwork
from topoopt.core.proofs import Argument, Bound
from topoopt.core.solution import CheckResult, Objective
from topoopt.core.topology import Topology
from topoopt.core.verdict import Status, StopReason
from topoopt.kinds.network.solution_file import SOLUTION_FILE


def triangle(switches: bool = True) -> NetworkSolution:
    """All-to-all on three servers in a one-way ring: each arc carries one direct and one forwarded demand, twice."""
    topology = Topology(
        servers=3,
        degree=1,
        links=LinkDirection.UNIDIRECTIONAL,
        arcs=np.array([[0, 1], [1, 2], [2, 0]], dtype=np.int32),
        multiplicity=np.ones(3, dtype=np.int32),
        switches=np.array([[1, 2, 0]], dtype=np.int32) if switches else np.full((1, 3), -1, dtype=np.int32),
        offsets=(1,),
        origin="by hand",
    )
    flow = np.array([[2.0, 1.0, 0.0], [0.0, 2.0, 1.0], [1.0, 0.0, 2.0]])
    routing = one_routing(flow, np.array([1.0, 1 / 3, 1.0]))
    return NetworkSolution(
        name="triangle",
        kind="topology",
        status=Status.OPTIMAL,
        stopped_by=StopReason.CONVERGED,
        objective=Objective("theta", 3.0, "link capacity"),
        bound=Bound(3.0, Argument.LAYERED_MOORE),
        check=CheckResult(True, ()),
        seed=5,
        method="by hand",
        network=RoutedNetwork(topology, routing, 3.0),
        instance_sha256="0" * 64,
        versions=(("topoopt", "0.1.0"), ("python", "3.11")),
        notes=("nothing <b>special</b>",),
    )


def same(one: NetworkSolution, other: NetworkSolution) -> bool:
    """Whether all fields agree, arrays and their types included."""
    arrays = [
        (a.topology.arcs, a.topology.multiplicity, a.topology.switches, a.flow.flow, a.certificate.lengths)
        for a in (one, other)
    ]
    equal = all(np.array_equal(x, y) and x.dtype == y.dtype for x, y in zip(*arrays, strict=True))
    rest = [{**vars(a), "network": a.network.routing_bound} for a in (one, other)]
    scalars = [(a.topology.servers, a.topology.degree, a.topology.links, a.topology.offsets) for a in (one, other)]
    return equal and rest[0] == rest[1] and scalars[0] == scalars[1]


@pytest.mark.parametrize("switches", [True, False])
def test_a_solution_comes_back_as_it_was(tmp_path: Path, switches: bool) -> None:
    """Every field, to the last bit; written again, the same bytes."""
    path = tmp_path / "solution.json"
    SOLUTION_FILE.write(triangle(switches), path)
    back = SOLUTION_FILE.read(path)
    assert same(triangle(switches), back)
    assert SOLUTION_FILE.text(back) == path.read_text()


def test_derived_figures() -> None:
    """lambda is 1 / theta, the gap is relative to theta and never negative."""
    solution = replace(triangle(), bound=Bound(2.25, Argument.LAYERED_MOORE))
    assert (solution.theta, solution.throughput, solution.gap) == (3.0, pytest.approx(1 / 3), 0.25)
    assert replace(solution, bound=Bound(3.0 + 1e-15, Argument.LAYERED_MOORE)).gap == 0.0


def test_nan_is_not_written() -> None:
    """A figure that is not a number is a bug, said as such."""
    with pytest.raises(TopooptError, match="cannot be written"):
        SOLUTION_FILE.text(replace(triangle(), objective=Objective("theta", float("nan"), "link capacity")))


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
        (_set("topology", "arcs", 0, [0, 7, 1]), "no such server"),
        (_set("topology", "arcs", 1, [0, 1, 1]), "an arc more than once"),
        (_set("topology", "arcs", []), "topology.arcs: no links"),
        (_set("topology", "switches", [[1, 2]]), "topology.switches: wrong size"),
        (_set("topology", "servers", 10**9), "out of range"),
        (_set("routing", "lengths", [[1.0]]), "routing.lengths: wrong size"),
        (_set("routing", "lengths", 0, 0, -1.0), "out of range"),
        (_set("routing", "flows", [[[[0], [1.0]], [[0], [1.0]]]]), "wrong number of rows"),
        (_set("routing", "flows", 0, 0, [[0, 0], [1.0, 1.0]]), "arcs and amounts do not fit"),
        (_set("routing", "flows", 0, 0, [[9], [1.0]]), "arcs and amounts do not fit"),
        (_set("routing", "flows", 0, 0, [[0, 1], [1.0]]), "arcs and amounts do not fit"),
        (_set("routing", "flows", 0, 0, [[0], [-1.0]]), "out of range"),
        (_set("routing", "mode", "guess"), "routing.mode"),
        (_set("routing", "hop_flows", [[], []]), "wrong number of demands"),
        (_set("thetas", [3.0]), "unknown key thetas"),
        (_set("status", "fine"), "status"),
        (_set("kind", "co-optimisation-solution"), "kind"),
        (_set("extra", 1), "unknown key extra"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, edit: Callable[[dict[str, Any]], None], message: str) -> None:
    """Each kind of damage is named with its path."""
    document = json.loads(SOLUTION_FILE.text(triangle()))
    edit(document)
    path = tmp_path / "solution.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        SOLUTION_FILE.read(path)
