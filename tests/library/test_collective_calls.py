"""Collectives as functions of the library: the same answers as the commands, the same refusals."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import topoopt
from tests.support import written_schedules as written
from topoopt.core.errors import InputError

RING_3 = "links: [[0, 1, 10], [1, 2, 10], [2, 0, 10]]"


def test_bounds_of_a_machine() -> None:
    """Two DGX A100: 16 GPUs at 325 GB/s each take in 15/16 of the vector at most (346.67 GB/s), however it is named."""
    instance = topoopt.CollectiveInstance(
        topology={"preset": "dgx-a100", "boxes": 2}, collective="allgather", bytes="1MB"
    )
    problem = topoopt.problem_of(instance)
    for given in (problem, problem.network, "preset: dgx-a100, boxes: 2"):
        assert topoopt.collective_bounds(given).allgather_rate == Fraction(16 * 65, 3)


def test_topologies() -> None:
    """64 servers with four single fibres: 4 steps at 63/64 are known (Cayley digraph of Z_8 x| Z_8)."""
    front = topoopt.find_topologies(64, 4, links="unidirectional")
    assert front.preferred.bandwidth == front.limits.bandwidth == Fraction(63, 64)
    assert front.preferred.steps <= 4
    quick = topoopt.find_topologies(64, 4, links="unidirectional", prefer="steps")
    assert quick.preferred.steps <= front.preferred.steps


def test_an_audit(tmp_path: Path) -> None:
    """A ring of three at 10 GB/s reaches its bound of 15 GB/s; a claim above it is invalid."""
    file = written.msccl(tmp_path / "r.xml", "allgather", 3, written.ring_allgather(3), sizes=(1, 3))
    right = topoopt.audit_schedule(file, "msccl", network=RING_3, vector_bytes=3e6, claimed_gbytes_per_s=15)
    assert right.verdict == "valid"
    assert right.document["recomputed"]["part_of_bound"] == pytest.approx(1.0)
    wrong = topoopt.audit_schedule(file, "msccl", network=RING_3, vector_bytes=3e6, claimed_gbytes_per_s=16)
    assert wrong.verdict == "invalid"


def test_refusals(tmp_path: Path) -> None:
    """All that is wrong with the arguments is told by their names."""
    with pytest.raises(InputError) as caught:
        topoopt.find_topologies(1, 0, links="both", prefer="price")
    assert {problem.path for problem in caught.value.problems} == {"servers", "degree", "links", "prefer"}
    with pytest.raises(InputError, match="more links than others"):
        topoopt.find_topologies(4, 4)
    file = written.msccl(tmp_path / "r.xml", "allgather", 3, written.ring_allgather(3), sizes=(1, 3))
    for more in ({"form": "mscl"}, {"form": "msccl", "collective": "gather"}, {"form": "msccl", "root": 9}):
        with pytest.raises(InputError):
            topoopt.audit_schedule(file, **more)  # type: ignore[arg-type]
