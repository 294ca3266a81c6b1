"""Topologies bounded by relay blocks in cases: they are in the file, and no others pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.network_cases import instance, run

FIELDS: dict[str, Any] = {"kind": "topology", "servers": 11, "degree": 3, "links": "unidirectional"}
DEMAND = {"family": "balanced-skew", "seed": 1}


def test_cases_come_with_a_budget_and_are_proven_again(tmp_path: Path) -> None:
    """Three cases for 1 200 000 swaps; with a bound raised, a case less, or another count, the file does not pass."""
    case = instance(tmp_path, demand=DEMAND, **FIELDS)
    code, text = run("solve", case, "--budget", "1200000", "--out", tmp_path / "out", "--json")
    assert code == 0, text
    file = tmp_path / "out" / "solution.json"
    good = json.loads(file.read_text())
    assert good["bound"]["proved_by"] == "relay-cases"
    assert run("check", case, file)[0] == 0
    cases, bound = good["relay_cases"], good["bound"]
    assert len(cases["prices"]) == 3
    assert bound["value"] == min(each["theta"] for each in cases["prices"])
    first, *others = cases["prices"]
    short = {**first, "most": first["most"][1:]}
    spoilt = {
        "raised": {"bound": {**bound, "value": bound["value"] * 1.001}},
        "no cases": {"relay_cases": None},
        "a case less": {"relay_cases": {**cases, "prices": others}},
        "the first twice": {"relay_cases": {**cases, "prices": [first, *cases["prices"][:2]]}},
        "no split": {"relay_cases": {"splits": [[0, 0, 0]], "prices": [first]}},
        "another size": {"relay_cases": {**cases, "prices": [short, *others]}},
        "no server": {"relay_cases": {**cases, "splits": [[0, 11, 1], *cases["splits"][1:]]}},
    }
    for name, changes in spoilt.items():
        file.write_text(json.dumps({**good, **changes}))
        code, text = run("check", case, file)
        assert code != 0, f"{name}: {text}"
