"""Transfers need paths of their own, not links that join all servers; rates of links come from files as well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import topoopt
from topoopt.core.errors import InputError
from topoopt.kinds.files import read_instance

CASE: dict[str, Any] = {
    "schema_version": 1,
    "kind": "allocation",
    "name": "one-way",
    "topology": {"links": [[0, 1], [1, 2]]},
    "link_gbps": 10.0,
    "transfers": [
        {"source": 0, "destination": 2},
        {"source": 0, "destination": 1, "max_gbps": 2.0},
        {"source": 1, "destination": 2, "path": [1, 2]},
    ],
}


def read(folder: Path, **changes: Any) -> Any:
    file = folder / "case.json"
    file.write_text(json.dumps({**CASE, **changes}))
    return read_instance(file)


def test_links_that_lead_one_way(tmp_path: Path) -> None:
    """The second transfer takes the 2 it can use; the others halve the second link."""
    problem = read(tmp_path)
    solution = topoopt.solve(problem)
    assert solution.check.ok, solution.check.violations
    assert topoopt.check(problem, solution).ok
    assert [float(rate) for rate in solution.figures.rates_gbps] == pytest.approx([5, 2, 5])


def test_demand_over_links_that_lead_one_way(tmp_path: Path) -> None:
    source = {"demand": {"matrix": [[0, 0, 1], [0, 0, 1], [0, 0, 0]]}}
    solution = topoopt.solve(read(tmp_path, transfers=None, transfers_from=source))
    assert solution.check.ok
    assert [float(rate) for rate in solution.figures.rates_gbps] == pytest.approx([5, 5])


@pytest.mark.parametrize(
    "changes",
    [
        {"transfers": [{"source": 2, "destination": 0}]},
        {"transfers": None, "transfers_from": {"demand": {"matrix": [[0, 0, 0], [0, 0, 0], [1, 0, 0]]}}},
    ],
)
def test_a_transfer_without_a_path_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="no path from server 2 to server 0"):
        read(tmp_path, **changes)


def test_rates_of_a_file(tmp_path: Path) -> None:
    """In Gbit/s where the name says so, and else in units of link_gbps."""
    (tmp_path / "net.csv").write_text("source,target,gbps\n0,1,8\n1,2,4\n")
    problem = read(tmp_path, topology={"file": "net.csv"}, link_gbps=None)
    assert problem.capacity_gbps.tolist() == [8, 4]
    assert any("'gbps' of net.csv" in note for note in problem.notes)
    with pytest.raises(InputError, match="rates of their own in Gbit/s"):
        read(tmp_path, topology={"file": "net.csv"})
    (tmp_path / "net.csv").write_text("source,target,capacity\n0,1,8\n1,2,4\n")
    assert read(tmp_path, topology={"file": "net.csv"}).capacity_gbps.tolist() == [80, 40]
    with pytest.raises(InputError, match="link_gbps: missing"):
        read(tmp_path, topology={"file": "net.csv"}, link_gbps=None)
