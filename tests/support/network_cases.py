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
from topoopt.core.network import LengthCertificate, NetworkProblem, RoutingPlan, SourceFlow, TopologyPlan
from topoopt.core.proofs import Argument
from topoopt.core.result import Certificate, Result
from topoopt.core.topology import Topology

HEAD = {"schema_version": 1, "name": "case"}


NetworkResult = Result[NetworkProblem, RoutingPlan]


def one_routing(flow: NDArray[np.float64]) -> RoutingPlan:
    """The routing of one demand."""
    return RoutingPlan(flows=(SourceFlow(flow),))


def one_proof(lengths: NDArray[np.float64]) -> tuple[Certificate, ...]:
    """The lengths of the arcs that prove its bound."""
    return (LengthCertificate(lengths).certificate(),)


def on_links(topology: Topology, flow: NDArray[np.float64]) -> TopologyPlan:
    """A plan of links that are given to switches, and the routing of one demand."""
    return TopologyPlan(flows=(SourceFlow(flow),), circuits=topology.switches, origin=topology.origin)


def on_network(
    solution: NetworkResult,
    *,
    flow: NDArray[np.float64] | None = None,
    lengths: NDArray[np.float64] | None = None,
    circuits: NDArray[np.int32] | None = None,
) -> NetworkResult:
    """The solution with another flow of its one demand, other lengths or other circuits."""
    plan = solution.plan
    if flow is not None:
        plan = replace(plan, flows=(SourceFlow(flow),))
    if circuits is not None:
        plan = replace(plan, circuits=circuits)
    proofs = solution.certificates
    if lengths is not None:
        others = tuple(proof for proof in proofs if proof.argument is not Argument.ARC_LENGTHS)
        proofs = (*one_proof(lengths), *others)
    return replace(solution, plan=plan, certificates=proofs)


def with_arrays(document: dict[str, Any], **arrays: Any) -> dict[str, Any]:
    """The document of a solution whose last certificate, that of its bound, has other arrays."""
    *others, last = document["certificates"]
    changed = {name: np.array(array).ravel().tolist() for name, array in arrays.items()}
    return {**document, "certificates": [*others, {**last, "arrays": {**last["arrays"], **changed}}]}


def without_proof(document: dict[str, Any]) -> dict[str, Any]:
    """The document of a solution without its last certificate."""
    return {**document, "certificates": document["certificates"][:-1]}


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
    code, text = run("solve", path, "--output", folder / "out", "--force", "--json", *options)
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
