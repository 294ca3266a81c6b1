"""Topologies bounded by relay blocks in cases: they are in the file, and no others pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.network_cases import instance, run, with_arrays, without_proof

FIELDS: dict[str, Any] = {"kind": "topology", "servers": 11, "degree": 3, "links": "unidirectional"}
DEMAND = {"family": "balanced-skew", "seed": 1}


def test_cases_come_with_a_budget_and_are_proven_again(tmp_path: Path) -> None:
    """Three cases for 1 200 000 swaps; with a bound raised, a case less, or another count, the file does not pass."""
    case = instance(tmp_path, demand=DEMAND, **FIELDS)
    code, text = run("solve", case, "--budget", "1200000", "--output", tmp_path / "out", "--json")
    assert code == 0, text
    file = tmp_path / "out" / "solution.json"
    good = json.loads(file.read_text())
    assert good["bound"]["argument"] == "relay-cases"
    assert run("check", case, file)[0] == 0
    cases, bound = good["certificates"][-1]["arrays"], good["bound"]
    assert len(cases["theta"]) == 3
    assert bound["value"] == min(cases["theta"])
    rows = {name: np.array(cases[name]).reshape(3, -1) for name in ("theta", "price", "relief", "shift", "most")}
    spoilt = {
        "raised": {**good, "bound": {**bound, "value": bound["value"] * 1.001}},
        "no cases": without_proof(good),
        "a case less": with_arrays(good, **{name: row[1:] for name, row in rows.items()}),
        "the first twice": with_arrays(good, **{name: row[[0, 0, 1]] for name, row in rows.items()}),
        "no split": with_arrays(good, splits=[0, 0, 0], **{name: row[:1] for name, row in rows.items()}),
        "another size": with_arrays(good, most=cases["most"][1:]),
        "no server": with_arrays(good, splits=[0, 11, 1, *cases["splits"][3:]]),
    }
    for name, document in spoilt.items():
        file.write_text(json.dumps(document))
        code, text = run("check", case, file)
        assert code != 0, f"{name}: {text}"
