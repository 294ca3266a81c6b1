"""Long solution files of circulants: one row of the flow stands for all, and is read as the table it stands for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import topoopt
from topoopt.core.errors import InputError

N = 192


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Uniform demand on a ring with chords: long enough for the short form."""
    folder = tmp_path_factory.mktemp("turned")
    links = {"family": "circulant", "servers": N, "offsets": [1, 14, 178, 191], "links": "unidirectional"}
    instance = {
        "schema_version": 1,
        "kind": "routing",
        "name": "turned",
        "topology": links,
        "demand": {"family": "uniform"},
    }
    (folder / "instance.json").write_text(json.dumps(instance))
    return folder


def test_one_row_is_read_as_all(document: Path) -> None:
    """What is read is what was solved, to the last bit, and the checker finds nothing."""
    problem = topoopt.read_instance(document / "instance.json")
    solution = topoopt.solve(problem)
    file = document / "solution.json"
    topoopt.write_solution(solution, file)
    assert len(json.loads(file.read_text())["routing"]["flows"][0]) == 1
    read = topoopt.read_solution(file)
    np.testing.assert_array_equal(read.flow.flow, solution.flow.flow)
    assert topoopt.check(problem, read).ok
    # Source 5 sends over 5 + tail -> 5 + head what source 0 sends over tail -> head.
    arcs = {(int(i), int(j)): a for a, (i, j) in enumerate(read.topology.arcs)}
    for tail, head in ((0, 1), (3, 17), (100, 86)):
        there = arcs[(tail + 5) % N, (head + 5) % N]
        assert read.flow.flow[5, there] == read.flow.flow[0, arcs[tail, head]]


def test_one_row_of_another_network_is_refused(document: Path) -> None:
    """Where the servers differ in their arcs, one row says nothing of the others."""
    file = document / "solution.json"
    topoopt.write_solution(topoopt.solve(topoopt.read_instance(document / "instance.json")), file)
    stated = json.loads(file.read_text())
    arcs = stated["topology"]["arcs"]
    place = arcs.index([0, 14, 1])
    arcs[place] = [0, 15, 1]
    file.write_text(json.dumps(stated))
    with pytest.raises(InputError, match="wrong number of rows"):
        topoopt.read_solution(file)
