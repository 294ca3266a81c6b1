"""Topologies of eight servers that are optimal by blocks of links: the proof is in the file, and no other passes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.network_cases import instance, run, with_arrays, without_proof

FIELDS: dict[str, Any] = {"kind": "topology", "servers": 8, "degree": 2, "links": "unidirectional"}
DEMAND = {"family": "balanced-skew", "seed": 1}


def test_eight_servers_are_proven_and_a_spoilt_proof_is_rejected(tmp_path: Path) -> None:
    """The published optimum, twice the same file; raised, or without what proves it, it does not pass."""
    case = instance(tmp_path, demand=DEMAND, **FIELDS)
    for name in ("out", "again"):
        assert run("solve", case, "--method", "branch-and-bound", "--output", tmp_path / name)[0] == 0
    file = tmp_path / "out" / "solution.json"
    assert file.read_bytes() == (tmp_path / "again" / "solution.json").read_bytes()
    good = json.loads(file.read_text())
    assert (good["status"], good["bound"]["argument"]) == ("optimal", "link-blocks")
    assert good["objective"]["value"] == pytest.approx(5.366, abs=5e-4)
    blocks, bound = good["certificates"][-1]["arrays"], good["bound"]
    count = len(blocks["parent"])
    raised = {**good, "bound": {**bound, "value": bound["value"] * (1 + 1e-6)}}
    first = {key: value if key == "theta" else value[: len(value) // count] for key, value in blocks.items()}
    spoilt = {
        "raised": raised,
        "raised, and the proof with it": with_arrays(raised, theta=[raised["bound"]["value"]]),
        "no proof": without_proof(good),
        "the root alone": with_arrays(good, **first),
        "no shifts": with_arrays(good, shift=0 * np.array(blocks["shift"])),
        "another size": with_arrays(good, price=np.array(blocks["price"]).reshape(count, 8, 8)[:, :7, :7]),
        "a node less": with_arrays(good, server=blocks["server"][:-1]),
        "no server": with_arrays(good, server=[8, *blocks["server"][1:]]),
        "too large": with_arrays(good, bar=[2**41, *blocks["bar"][1:]]),
    }
    for name, document in spoilt.items():
        file.write_text(json.dumps(document))
        code, text = run("check", case, file)
        assert code != 0, f"{name}: {text}"
