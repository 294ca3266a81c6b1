"""Topologies that are optimal by a tree over the links: the proof is in the file, and the checker needs no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.every_topology import least_theta
from tests.support.network_cases import instance, run, solved, with_arrays, without_proof
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import TopologyProblem

DEMAND = np.array([[0, 3, 1, 1], [1, 0, 2, 1], [1, 1, 0, 4], [2, 1, 1, 0]], dtype=np.float64)
FIELDS: dict[str, Any] = {"kind": "topology", "servers": 4, "degree": 2, "links": "unidirectional"}
RULES: dict[str, dict[str, Any]] = {
    "plain": {},
    "forbidden": {"forbidden": [[2, 3]]},
    "kept": {"kept": [[0, 2], [2, 0], [1, 3], [3, 1]], "max_changed": 0},
    "single": {"parallel_links": False, "forbidden": [[0, 1]]},
    "pairs": {"links": "bidirectional", "forbidden": [[0, 1], [2, 3]]},
}


def least(rules: dict[str, Any]) -> float:
    """Of all topologies, each routed by a program of the tests."""
    both = rules.get("links") == "bidirectional"
    given = {key: tuple(map(tuple, rules[key])) for key in ("forbidden", "kept") if key in rules}
    rest = {key: rules[key] for key in ("max_changed", "parallel_links") if key in rules}
    links = LinkDirection.BIDIRECTIONAL if both else LinkDirection.UNIDIRECTIONAL
    return least_theta(TopologyProblem("case", 4, 2, links, DEMAND, **given, **rest))


@pytest.mark.parametrize("method", ["exact", "milp", "branch-and-bound"])
@pytest.mark.parametrize("rules", list(RULES))
def test_small_topologies_are_optimal_and_verified(rules: str, method: str, tmp_path: Path) -> None:
    """The value is the least of all topologies, the bound is verified, and nothing is left to be claimed."""
    told = solved(tmp_path, "--method", method, demand={"matrix": DEMAND.tolist()}, **{**FIELDS, **RULES[rules]})
    assert told["theta"] == pytest.approx(least(RULES[rules]), rel=1e-6)
    assert (told["status"], told["bound"]["verified"]) == ("optimal", True)
    assert told.get("claimed_bound") is None


def test_a_bound_raised_and_a_proof_spoilt_are_rejected(tmp_path: Path) -> None:
    """Raised or lowered a little, without lengths, with longer or other ones: each is found out."""
    solved(tmp_path, "--method", "exact", demand={"matrix": DEMAND.tolist()}, **FIELDS)
    file = tmp_path / "out" / "solution.json"
    good = json.loads(file.read_text())
    assert good["bound"]["argument"] == "link-tree"
    tables = np.array(good["certificates"][-1]["arrays"]["multipliers"]).reshape(-1, 4, 4)
    bound = good["bound"]
    spoilt = {
        "raised": {**good, "bound": {**bound, "value": bound["value"] * (1 + 1e-6)}},
        "lowered": {**good, "bound": {**bound, "value": bound["value"] * (1 - 1e-6)}},
        "no lengths": without_proof(good),
        "longer": with_arrays(good, multipliers=tables + tables.max()),
        "nothing": with_arrays(good, multipliers=0 * tables),
        "another size": with_arrays(good, multipliers=tables[:, :3, :3]),
        "no server": with_arrays(good, order=[0, 1, 2, 4]),
        "too large": with_arrays(good, multipliers=tables + 2**41),
        "lowered, and the proof with it": with_arrays(
            {**good, "bound": {**bound, "value": bound["value"] * (1 - 1e-6)}}, theta=[bound["value"] * (1 - 1e-6)]
        ),
    }
    for name, document in spoilt.items():
        file.write_text(json.dumps(document))
        code, text = run("check", tmp_path / "case.json", file)
        assert code != 0, f"{name}: {text}"
    file.write_text(json.dumps(good))
    assert run("check", tmp_path / "case.json", file)[0] == 0


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    """Two runs write the same file, proof and all."""
    path = instance(tmp_path, demand={"family": "balanced-skew", "seed": 4}, **{**FIELDS, "servers": 5})
    for name in ("a", "b"):
        assert run("solve", path, "--method", "branch-and-bound", "--output", tmp_path / name)[0] == 0
    assert (tmp_path / "a" / "solution.json").read_bytes() == (tmp_path / "b" / "solution.json").read_bytes()
