"""Instances of network problems and the commands on them, for the tests of this folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typer.testing import CliRunner

from topoopt.cli.app import app
from topoopt.core.network import AdaptedRouting, LengthCertificate, SourceFlow
from topoopt.core.network_solution import NetworkSolution

HEAD = {"schema_version": 1, "name": "case"}


def one_routing(flow: NDArray[np.float64], lengths: NDArray[np.float64]) -> AdaptedRouting:
    """The routing of one demand with the lengths of its proof."""
    return AdaptedRouting((SourceFlow(flow),), (LengthCertificate(lengths),))


def on_network(solution: NetworkSolution, **fields: Any) -> NetworkSolution:
    """The solution with other fields of its network; `flow` and `lengths` are those of its one demand."""
    if "flow" in fields or "lengths" in fields:
        flow = fields.pop("flow", solution.flow.flow)
        fields["routing"] = one_routing(flow, fields.pop("lengths", solution.certificate.lengths))
    return replace(solution, network=replace(solution.network, **fields))


def run(*words: str | Path) -> tuple[int, str]:
    """Exit code and standard output of a command."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.stdout


def instance(folder: Path, **fields: Any) -> Path:
    """An instance file."""
    path = folder / "case.json"
    path.write_text(json.dumps({**HEAD, **fields}))
    return path


def solved(folder: Path, *options: str, **fields: Any) -> dict[str, Any]:
    """JSON of a solve that ends well, its solution checked again."""
    path = instance(folder, **fields)
    code, text = run("solve", path, "--out", folder / "out", "--json", *options)
    document = json.loads(text)
    assert code == 0, document
    assert run("check", path, folder / "out" / "solution.json")[0] == 0
    assert isinstance(document, dict)
    return document


HOT_EXPERTS = """
schema_version: 1
kind: topology
name: case
servers: 5
degree: 2
links: unidirectional
step_ms: 2
demands: [{family: hot-experts, steps: 3, seed: 1, law: dirichlet, skew: 0.3}]
"""
"""A topology for three steps of experts that are hot by turns."""
