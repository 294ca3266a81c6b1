"""The instances in `instances/hierarchical`: each is solved to optimality, and published sizes are what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.paths import INSTANCES
from topoopt.core.hierarchy import HierarchicalProblem
from topoopt.core.proofs import Status
from topoopt.kinds.files import read_instance
from topoopt.kinds.pipeline import solve

FOLDER = INSTANCES / "hierarchical"
FILES = sorted(FOLDER.glob("*.yaml"))


def read(path: Path) -> HierarchicalProblem:
    """A problem of this kind."""
    problem = read_instance(path)
    assert isinstance(problem, HierarchicalProblem)
    return problem


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_shipped_instances_are_solved(path: Path) -> None:
    """Optimal, accepted by the checker, and named like the file."""
    problem = read(path)
    found = solve(problem)
    assert problem.name == path.stem
    assert found.check.ok, found.check.violations
    assert found.status is Status.OPTIMAL


@pytest.mark.parametrize(
    ("name", "job", "billions"),
    [("gpt3-3d", "gpt3", 174.0), ("transformer-1t-4d", "transformer-1t", 1007.0), ("resnet50-3d", "resnet50", 0.0256)],
)
def test_published_sizes(name: str, job: str, billions: float) -> None:
    """Gradients of 2 bytes that every replica reduces, times the tensor degree, are the published parameters."""
    [design] = read(FOLDER / f"{name}.yaml").designs
    [own] = design.workloads
    assert own.name == job
    size = sum(row.repeat * one.size_bytes for row in own.layers for one in row.weight_gradient.communications)
    degree = dict(own.strategy).get("tensor", 1)
    assert size * degree / 2 / 1e9 == pytest.approx(billions, rel=2e-3)
    assert design.network.npus == 4096


def test_published_network_of_gpt3() -> None:
    """The shipped form of the public files: time, and gain over the equal split, as by SLSQP and a zooming grid."""
    found = solve(read(INSTANCES / "published" / "gpt3-libra-4d.yaml"))
    assert found.objective.value == pytest.approx(722411780.920, rel=1e-7)
    assert found.status is Status.OPTIMAL
    assert found.figures.speedup_over_equal == pytest.approx(1.072858, abs=1e-6)
