"""`topoopt doctor`."""

from __future__ import annotations

from importlib.metadata import version

import pytest

import solvers.backends
from solvers.collective.cayley_kernels import climb
from solvers.collective.shortest_path_split import split
from solvers.network.search.anneal_kernels import hop_total
from tests.support.cli_cases import run
from topoopt.simulate.hops import hop_distances


def test_doctor_finds_everything() -> None:
    """Versions as installed, every solver works, exit code 0."""
    result = run("doctor", "--json")
    assert result.code == 0
    assert result.json["ok"] is True
    for name in ("numpy", "scipy", "numba", "networkx", "highspy"):
        assert result.json["libraries"][name] == version(name)
    assert set(result.json["solvers"]) >= set(solvers.backends.SOLVERS)
    assert "cp-sat" in result.json["solvers"]
    assert all(entry["ok"] and entry["reason"] is None for entry in result.json["solvers"].values())
    assert "numpy" in run("doctor").stdout


def test_doctor_says_what_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver that fails its test: named with the reason, exit code 1."""
    monkeypatch.setattr(solvers.backends, "self_test", lambda _: {"highs": "no licence"})
    result = run("doctor", "--json")
    assert result.code == 1
    assert result.json["ok"] is False
    assert result.json["solvers"]["highs"]["reason"] == "no licence"
    assert "broken: no licence" in run("doctor").stdout


def test_kernels_are_compiled_when_that_is_asked_for() -> None:
    """Something small of every kind that has kernels is solved and passes its check; the kernels are then there."""
    result = run("doctor", "--compile", "--json")
    assert result.code == 0, result.json["kinds"]
    assert set(result.json["kinds"]) == {
        "co-optimisation", "routing", "topology", "placement", "shared-cluster", "collective", "collective find",
    }  # fmt: skip
    assert "compiling kernels for topology" in result.stderr
    for kernel in (hop_distances, hop_total, climb, split):
        assert kernel.signatures  # type: ignore[attr-defined]
