"""Topologies of eight servers that are optimal by blocks of links: the proof is in the file, and no other passes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.network_cases import instance, run

FIELDS: dict[str, Any] = {"kind": "topology", "servers": 8, "degree": 2, "links": "unidirectional"}
DEMAND = {"family": "balanced-skew", "seed": 1}


def test_eight_servers_are_proven_and_a_spoilt_proof_is_rejected(tmp_path: Path) -> None:
    """The published optimum, twice the same file; raised, or without what proves it, it does not pass."""
    case = instance(tmp_path, demand=DEMAND, **FIELDS)
    for name in ("out", "again"):
        assert run("solve", case, "--method", "branch-and-bound", "--out", tmp_path / name)[0] == 0
    file = tmp_path / "out" / "solution.json"
    assert file.read_bytes() == (tmp_path / "again" / "solution.json").read_bytes()
    good = json.loads(file.read_text())
    assert (good["status"], good["bound"]["proved_by"]) == ("optimal", "link-blocks")
    assert good["objective"]["value"] == pytest.approx(5.366, abs=5e-4)
    blocks, bound = good["blocks"], good["bound"]
    raised = {**bound, "value": bound["value"] * (1 + 1e-6)}
    first = {key: value if key == "theta" else value[:1] for key, value in blocks.items()}
    spoilt = {
        "raised": {"bound": raised},
        "raised, and the proof with it": {"bound": raised, "blocks": {**blocks, "theta": raised["value"]}},
        "no proof": {"blocks": None},
        "the root alone": {"blocks": first},
        "no shifts": {"blocks": {**blocks, "shift": (0 * np.array(blocks["shift"])).tolist()}},
        "another size": {"blocks": {**blocks, "price": np.array(blocks["price"])[:, :7, :7].tolist()}},
        "a node less": {"blocks": {**blocks, "server": blocks["server"][:-1]}},
        "no server": {"blocks": {**blocks, "server": [8, *blocks["server"][1:]]}},
        "too large": {"blocks": {**blocks, "bar": [2**41, *blocks["bar"][1:]]}},
    }
    for name, changes in spoilt.items():
        file.write_text(json.dumps({**good, **changes}))
        code, text = run("check", case, file)
        assert code != 0, f"{name}: {text}"
