"""`topoopt doctor`."""

from __future__ import annotations

from importlib.metadata import version

import pytest

import solvers.backends
from tests.support.cli_cases import run


def test_doctor_finds_everything() -> None:
    """Versions as installed, every solver works, exit code 0."""
    result = run("doctor", "--json")
    assert result.code == 0
    assert result.json["ok"] is True
    for name in ("numpy", "scipy", "networkx", "highspy"):
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
