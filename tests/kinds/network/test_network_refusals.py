"""Instance files of the kinds `routing` and `topology`: every kind of bad input is refused."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topoopt
from solvers.network import lifts, uniform
from tests.support.network_files import ROUTING, TOPOLOGY, load, refused, with_
from topoopt.core.errors import InputError, Problem
from topoopt.kinds import kind_named
from topoopt.kinds.network import read as reader

BAD_DEMAND = [
    ({"matrix": [[0, -1, 2], [3, 0, 4], [5, 6, 0]]}, "demand.matrix[0][1]"),
    ({"matrix": [[0, math.nan, 2], [3, 0, 4], [5, 6, 0]]}, "not a finite number"),
    ({"matrix": [[0, math.inf, 2], [3, 0, 4], [5, 6, 0]]}, "not a finite number"),
    ({"matrix": [[0, 1, 2], [3, 7, 4], [5, 6, 0]]}, "demand.matrix[1][1]: demand of a server for itself"),
    ({"matrix": [[0, 1], [3, 0]]}, "wrong size of the demand matrix"),
    ({"matrix": [[0, 1, 2], [3, 0], [5, 6, 0]]}, "wrong size of the demand matrix"),
    ({"matrix": [[0, 0, 0], [0, 0, 0], [0, 0, 0]]}, "no demand at all"),
    ({"matrix": [[0, 1e300, 0], [0, 0, 0], [0, 0, 0]]}, "out of range"),
    ({"matrix": "x"}, "wrong type"),
    ({"family": "unifrom"}, "did you mean uniform"),
    ({"file": "none.csv"}, "demand.file: no such file"),
    ({"file": "../three"}, "no such file"),
    ({}, "demand.family: missing"),
    ([], "a mapping with one of family, matrix and file"),
    ({"family": "uniform", "scale": 0}, "out of range"),
    ({"family": "uniform", "matrix": [[0]]}, "unknown key matrix"),
]


@pytest.mark.parametrize(("demand", "message"), BAD_DEMAND, ids=lambda value: str(value)[:40])
def test_bad_demand_is_refused(tmp_path: Path, demand: Any, message: str) -> None:
    """Each kind of bad demand is named."""
    assert message in refused(tmp_path, with_(ROUTING, demand=demand))


CAYLEY = {"family": "cayley", "modulus": 7, "order": 3, "twist": 2, "generators": [1, 3]}
RING = {"family": "ring", "servers": 5}

BAD_TOPOLOGY = [
    ({"family": "de-bruijn", "servers": 3, "degree": 3}, "the rule needs fewer links than servers"),
    ({"family": "de-bruijn", "servers": 8, "degree": 1, "loops": "dropped"}, "not connected"),
    ({"family": "generalized-kautz", "servers": 8, "degree": 2, "loops": "kept"}, "topology.loops"),
    ({"family": "ring", "servers": 8, "loops": "joined"}, "ring has no such key"),
    ({"family": "mesh", "dims": [3, 3], "links": "unidirectional"}, "mesh comes in other links"),
    ({**CAYLEY, "twist": 3}, "3^3 is not 1 modulo 7"),
    ({**CAYLEY, "generators": [0, 3]}, "not a generator"),
    ({**CAYLEY, "generators": [21]}, "1 to 20; 0 is the identity"),
    ({**CAYLEY, "links": "bidirectional"}, "fibre pairs need as many of its inverse 2"),
    ({**CAYLEY, "generators": [3]}, "not connected"),
    ({**CAYLEY, "family": "haar", "generators": [21]}, "each of 0 to 20 once at most"),
    ({**CAYLEY, "family": "haar", "generators": [1, 1]}, "not different elements"),
    ({**CAYLEY, "family": "haar", "links": "unidirectional"}, "haar comes in other links"),
    ({"family": "distance-regular", "graph": "petersn"}, "no such graph"),
    ({"family": "line-graph", "of": {"family": "rung", "servers": 5}}, "topology.of.family"),
    ({"family": "line-graph", "of": {"family": "ring"}}, "topology.of.servers"),
    ({"family": "line-graph", "of": {"family": "complete", "servers": 60}, "times": 3}, "this many servers"),
    ({"family": "line-graph", "of": RING, "links": "bidirectional"}, "line-graph has no such key"),
    ({"family": "degree-expansion", "of": RING, "copies": 1}, "topology.copies"),
    ({"family": "product", "factors": [RING]}, "topology.factors"),
    ({"family": "product", "factors": [RING, {"family": "ring", "servers": 5, "dims": [5]}]}, "factors[1].dims"),
    ({"family": "product", "factors": [{"family": "complete", "servers": 900}, RING]}, "this many servers"),
    ({"links": [[0, 1], [1, 0], [0, 7]], "servers": 3}, "topology.links[2]: unknown server"),
    ({"links": [[0, 1], [1, 1]]}, "topology.links[1]: a link from a server to itself"),
    ({"links": [[0, 1], [1, 2]]}, "not connected: no way from server 1 to server 0"),
    ({"links": [[0, 1], [1, 0], [0, 2], [2, 0]], "degree": 1}, "more links than the degree"),
    ({"links": [[0, 1], [1, 0]], "servers": 3}, "not connected: no way from server 0 to server 2"),
    ({"links": []}, "wrong length"),
    ({"links": [[0, 1, 2]]}, "topology.links[0]"),
    ({"links": [[0, -1]]}, "out of range"),
    ({"family": "thorus", "dims": [3, 3]}, "did you mean torus"),
    ({"family": "torus"}, "topology.dims: missing, torus needs it"),
    ({"family": "torus", "dims": [4096, 4096, 4096]}, "this many servers"),
    ({"family": "torus", "dims": [3], "offsets": [1]}, "topology.offsets: torus has no such key"),
    ({"family": "hypercube", "dimension": 40}, "out of range"),
    ({"family": "circulant", "servers": 8, "offsets": [8]}, "topology.offsets: this offset links a server to itself"),
    ({"family": "circulant", "servers": 8, "offsets": [2]}, "not connected"),
    ({"family": "complete", "servers": 4096}, "too many links"),
    ({"family": "generalized-kautz", "servers": 4, "degree": 4}, "topology.degree"),
    ({"family": "generalized-kautz", "servers": 9, "degree": 2, "links": "bidirectional"}, "comes in other links"),
    ({"family": "random-regular", "servers": 5, "degree": 3}, "must be even"),
    ({"family": "random-regular", "servers": 4, "degree": 4}, "too many links"),
    ({"family": "ring", "servers": 10**9}, "out of range"),
    ({"file": "none.graphml"}, "topology.file: no such file"),
    ({}, "topology.family: missing"),
    (None, "a mapping with one of family, links and file"),
]


@pytest.mark.parametrize(("topology", "message"), BAD_TOPOLOGY, ids=lambda value: str(value)[:40])
def test_bad_topology_is_refused(tmp_path: Path, topology: Any, message: str) -> None:
    """Each kind of bad topology is named."""
    assert message in refused(tmp_path, with_(ROUTING, topology=topology, demand={"family": "uniform"}))


BAD_PROBLEM = [
    ({"servers": 1}, "servers"),
    ({"servers": 10**9}, "out of range"),
    ({"degree": 0}, "degree"),
    ({"degree": 1}, "degree: one link a server cannot connect more than two servers"),
    ({"links": "both"}, "links"),
    ({"max_hops": 0}, "max_hops"),
    ({"forbidden": [[0, 4]]}, "forbidden[0]: unknown server"),
    ({"kept": [[1, 1]]}, "kept[0]: a link from a server to itself"),
    ({"kept": [[0, 1], [0, 2], [0, 3]]}, "more links out of server 0 than its degree"),
    ({"max_changed": 1}, "only beside kept"),
    ({"demand": {"matrix": [[0, 1], [1, 0]]}}, "wrong size of the demand matrix"),
    ({"unknown": 1}, "unknown key unknown"),
]


@pytest.mark.parametrize(("change", "message"), BAD_PROBLEM, ids=lambda value: str(value)[:40])
def test_bad_topology_problem_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """Each kind of bad field is named."""
    assert message in refused(tmp_path, with_(TOPOLOGY, **change))


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    """Faults of the topology, of the demand and of an unknown key stand in one message."""
    topology = {"links": [[0, 1], [1, 0]], "degree": 1, "servers": 3}
    text = refused(tmp_path, with_(ROUTING, topology=topology, extra=1))
    assert "not connected" in text
    assert "unknown key extra" in text
    text = refused(tmp_path, with_(ROUTING, demand={"matrix": [[0, 1, 0], [0, 5, 0], [0, 0, 6]]}, extra=1))
    assert "demand.matrix[1][1]" in text
    assert "demand.matrix[2][2]" in text
    assert "unknown key extra" in text


BAD_FILES = [
    ("net.graphml", b"<graphml", "not GraphML"),
    ("net.graphml", b'<!DOCTYPE x [<!ENTITY a "b">]><graphml/>', "document type declarations"),
    ("net.graphml", b"\xff\xfe\x00", "not UTF-8"),
    (
        "net.json",
        b'{"nodes": [{"id": 0}], "links": [{"source": 0, "target": 5}]}',
        "a link to a node that is not listed",
    ),
    ("net.json", b'{"nodes": [{"id": 0}, {"id": 0}], "links": []}', "a node more than once"),
    ("net.json", b'{"nodes": 3}', "not a node-link graph"),
    ("net.json", b'{"nodes": [{"id": 0}], "links": [3]}', "without a proper source"),
    ("net.csv", b"0,1\n1,x\n2\n", "net.csv:2: not a link"),
    ("net.csv", b"0,1,0\n", "0 -> 1: not a number of parallel links"),
    ("net.csv", b"0,99999999\n", "this many servers"),
    ("net.csv", b"", "no links"),
    ("net.dot", b"graph {}", "unknown kind of graph file"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES, ids=lambda value: str(value)[:30])
def test_bad_graph_files_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    """Each kind of bad graph file is refused with its name."""
    (tmp_path / name).write_bytes(content)
    assert message in refused(tmp_path, with_(ROUTING, topology={"file": name}))


def npy(array: Any) -> bytes:
    """Bytes of an NPY file, pickled where NumPy would."""
    import io

    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


BAD_MATRICES = [
    ("d.csv", b"0,1\nx,0\n", "d.csv:2: not a finite number"),
    ("d.csv", b"0,1\n1\n", "lines of different length"),
    ("d.csv", b"0,nan\n1,0\n", "not a finite number"),
    ("d.csv", b"", "wrong size"),
    ("d.npy", npy(np.array([[0, {}], [1, 0]], dtype=object)), "not an array of numbers"),
    ("d.npy", npy(np.zeros((3, 3)))[:-8], "content and header of the file disagree"),
    ("d.npy", npy(np.zeros((3, 3))).replace(b"(3, 3)", b"(9, 9)"), "content and header"),
    ("d.npy", npy(np.zeros((3, 3))).replace(b"(3, 3)", b"(1e9,)"), "not an NPY file"),
    ("d.npy", npy(np.zeros(3)), "not a matrix"),
    ("d.npy", b"x", "not an NPY file"),
    ("d.npy", npy(np.full((3, 3), -1.0)), "negative demand from server 0 to server 0"),
    ("d.npy", npy(np.full((3, 3), np.nan)), "not a finite number from server 0 to server 0"),
    ("d.npy", npy(np.zeros((3, 3))), "no demand at all"),
    ("d.npy", npy(np.zeros((3, 3), dtype=complex)), "not an array of numbers"),
    ("d.xlsx", b"", "unknown kind of demand file"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_MATRICES, ids=lambda value: str(value)[:30])
def test_bad_demand_files_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    """Each kind of bad demand file is refused; objects are never unpickled."""
    (tmp_path / name).write_bytes(content)
    assert message in refused(tmp_path, with_(ROUTING, demand={"file": name}))


ODD = st.sampled_from(
    [math.nan, math.inf, -1, 0, 1, 10**9, 10**400, -0.0, 1e308, True, None, "", "x", "a" * 300, "../x", "uniform",
     "torus", [], {}, [[]], [None], [1, 2, 3], [[0, 1]], {"family": "ring"}, {"links": 3}, {"file": "\x00"}]
)  # fmt: skip


@given(data=st.data())
@settings(max_examples=120)
def test_damaged_files_load_or_are_refused(scratch: Path, data: st.DataObject) -> None:
    """A wound anywhere gives an instance or an InputError that names the file, never another exception."""
    document = copy.deepcopy(data.draw(st.sampled_from([ROUTING, with_(TOPOLOGY, kept=[[0, 1]], forbidden=[[2, 3]])])))
    for _ in range(data.draw(st.integers(1, 3))):
        target: Any = document
        while True:
            keys = list(target) if isinstance(target, dict) else list(range(len(target)))
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            if isinstance(target[key], dict | list) and target[key] and data.draw(st.booleans()):
                target = target[key]
                continue
            target[key] = copy.deepcopy(data.draw(ODD))
            break
    for problem in problems_of(scratch, document):
        assert problem.file
        assert "\n" not in str(problem)


def problems_of(folder: Path, document: dict[str, Any]) -> tuple[Problem, ...]:
    """Problems of a document, none if it loads; any other exception is let through."""
    try:
        load(folder, document)
    except InputError as error:
        return error.problems
    return ()


@pytest.mark.parametrize(
    ("topology", "demand", "refused"),
    [
        ({"family": "mesh", "dims": [4, 4]}, {"family": "uniform"}, True),
        ({"family": "torus", "dims": [4, 4]}, {"family": "uniform"}, False),
        ({"family": "torus", "dims": [4, 4]}, {"family": "balanced-skew"}, True),
        ({"family": "circulant", "servers": 16, "offsets": [1, 4]}, {"family": "uniform"}, False),
        ({"family": "circulant", "servers": 16, "offsets": [1, 4]}, {"family": "balanced-skew"}, True),
    ],
)
def test_routes_that_no_file_holds(
    tmp_path: Path, topology: Any, demand: Any, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would be written and not be read again is refused before it is searched for; a turned row fits."""
    problem = load(tmp_path, with_(ROUTING, topology=topology, demand=demand))
    routing = kind_named("routing")
    assert routing.problems(problem) == []
    monkeypatch.setattr(reader, "MOST_ROUTE_ENTRIES", 500)
    found = [(each.path, each.message) for each in routing.problems(problem)]
    assert found == ([("topology", "more routes than a solution file holds")] if refused else [])


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({"demand": {"family": "uniform"}}, False),
        ({"demand": {"family": "balanced-skew"}}, True),
        ({"demand": {"family": "uniform"}, "max_hops": 4}, True),
    ],
)
def test_topologies_whose_routes_no_file_holds(
    tmp_path: Path, fields: Any, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A routing has an entry for each pair with demand at least, whatever the links; that of a circulant is one row."""
    problem = load(tmp_path, with_(TOPOLOGY, servers=16, degree=4, links="unidirectional", **fields))
    topology = kind_named("topology")
    assert topology.problems(problem) == []
    monkeypatch.setattr(reader, "MOST_ROUTE_ENTRIES", 2 * 16 * 15 - 1)
    found = [(each.path, each.message) for each in topology.problems(problem)]
    assert found == ([("demand", "more routes than a solution file holds")] if refused else [])


def test_topologies_that_are_too_large_become_circulants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search keeps to links whose routes are one row; methods of other links say that they do not cover it."""
    fields = {"servers": 16, "degree": 4, "links": "unidirectional", "demand": {"family": "uniform"}}
    problem = load(tmp_path, with_(TOPOLOGY, **fields))
    monkeypatch.setattr(reader, "MOST_ROUTE_ENTRIES", 2 * 16 * 15 - 1)
    # As where there are so many servers: each graph has its group, and no link is exchanged alone.
    monkeypatch.setattr(lifts, "MAX_TRIVIAL", 8)
    monkeypatch.setattr(uniform, "POLISH_SERVERS", 8)
    solution = topoopt.solve(problem)
    assert solution.plan.flows[0].by_orbits
    assert solution.check.ok
    with pytest.raises(InputError, match="more than a solution file holds"):
        topoopt.solve(problem, method="kautz")
