"""Peers' topologies and schedules as instances of kind collective."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.analyses.test_collective_audit import audited
from tests.support import written_schedules as written
from tests.support.cli_cases import run
from tests.support.paths import SHARED_DATA
from topoopt.core.collective import CollectiveProblem
from topoopt.formats.teccl import _volume
from topoopt.kinds.files import read_instance

DATA = SHARED_DATA / "collectives" / "teccl"


def imported(folder: Path, *words: object, code: int = 0) -> Any:
    """The problem that an import makes, and what the command says."""
    result = run("import", *words, "-o", folder / "i.json", "--force", "--json")
    assert result.code == code, result.stderr
    return read_instance(folder / "i.json") if code == 0 else result.json


@pytest.mark.parametrize(
    ("name", "chassis", "ranks", "gather", "pair"),
    [
        ("DGX1", 1, 8, 171.4286, 9.375),
        ("NDv2", 2, 16, 25.0, 0.195313),
        ("NDv2", 4, 32, 16.6667, 0.065104),
        ("DGX2", 2, 32, 129.0323, 0.390625),
        ("AMD", 1, 16, 342.8571, 4.6875),
    ],
)
def test_networks_of_teccl(name: str, chassis: int, ranks: int, gather: float, pair: float, tmp_path: Path) -> None:
    """All GPUs are ranks whatever TE-CCL makes of them; optima are those of the machines."""
    problem = imported(tmp_path, "teccl", written.teccl_input(tmp_path, name, chassis))
    assert isinstance(problem, CollectiveProblem)
    assert (len(problem.network.ranks), problem.vector_bytes) == (ranks, ranks * 62_500_000)
    assert problem.multicast is (name == "DGX2" or (name, chassis) == ("NDv2", 4))  # copies in switches, where any are
    bound = run("collective", "bound", tmp_path / "i.json", "--json").json
    assert bound["allgather_rate"] == pytest.approx(gather, rel=1e-5)
    assert bound["all_to_all_lambda"] == pytest.approx(pair, rel=1e-5)


def test_leaves_of_teccl(tmp_path: Path) -> None:
    """AMD of two chassis: a spine, sixteen leaves of two dies at 25 GB/s each, GPU 15 a rank; a mesh of 24 links."""
    problem = imported(tmp_path, "teccl", written.teccl_input(tmp_path, "AMD", 2))
    assert len(problem.network.ranks) == 32
    assert [bool(problem.network.is_switch[node]) for node in (0, 16, 17, 24, 25, 41, 48)] == [
        True, False, True, True, False, True, True,
    ]  # fmt: skip
    at_leaf = {
        tuple(arc): rate for arc, rate in zip(problem.network.arcs.tolist(), problem.network.gbytes_per_s, strict=True)
    }
    assert {rate for (tail, head), rate in at_leaf.items() if 17 in (tail, head)} == {25.0}
    mesh = imported(tmp_path, "teccl", written.teccl_input(tmp_path, "Mesh", 1, side_length=4, alpha=[1e-6, 0.0]))
    assert len(mesh.network.arcs) == 48
    assert [3, 4] not in mesh.network.arcs.tolist()


@pytest.mark.skipif(not DATA.exists(), reason=f"no {DATA}")
@pytest.mark.parametrize(("file", "collective"), [("ndv2_2_allgather_fast_1GB", 1), ("ndv2_2_alltoall_slow_1MB", 2)])
def test_schedules_are_audited_on_the_networks_of_their_files(file: str, collective: int, tmp_path: Path) -> None:
    """On NVLinks numbered as in TE-CCL all windows hold: what is wrong is the GPU that is taken for a switch."""
    imported(tmp_path, "teccl", written.teccl_input(tmp_path, "NDv2", 2, collective))
    found = audited(DATA / f"{file}.json", "teccl", "--topology", str(tmp_path / "i.json"), code=6)
    assert {one.partition(":")[0] for one in found["reasons"]} == {"ranks", "bound"} - (
        {"bound"} if collective == 1 else set()
    )


def test_a_topology_of_sccl(tmp_path: Path) -> None:
    """links[dst][src]: the one-way ring 0 -> 1 -> 2 -> 0; an algorithm says its collective too."""
    links = [[0, 0, 2], [2, 0, 0], [0, 2, 0]]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"msccl_type": "topology", "name": "ring", "links": links, "switches": []}))
    problem = imported(tmp_path, "sccl", path, "--set", "link_gbps=100")
    assert problem.network.arcs.tolist() == [[0, 1], [1, 2], [2, 0]]
    assert problem.network.gbytes_per_s.tolist() == [25.0] * 3
    algorithm = written.sccl(tmp_path / "a.json", "Alltoall", 3, [([0], [1], 0)], [], links)
    assert imported(tmp_path, "sccl", algorithm).collective.value == "all-to-all"
    path.write_text(
        json.dumps({"msccl_type": "topology", "name": "s", "links": links, "switches": [[[0], [1], 1, "x"]]})
    )
    assert "switches of SCCL" in imported(tmp_path, "sccl", path, code=2)["error"]


def test_a_schedule_becomes_an_instance(tmp_path: Path) -> None:
    """The links are those that it uses; what is wrong with it is told, and does not matter for them."""
    file = written.msccl(tmp_path / "r.xml", "allgather", 3, written.ring_allgather(3), sizes=(1, 3))
    problem = imported(tmp_path, "msccl", file, "--set", "link_gbps=80,bytes=3000")
    assert problem.network.arcs.tolist() == [[0, 1], [1, 2], [2, 0]]
    assert (problem.collective.value, problem.vector_bytes) == ("allgather", 3000)


def test_what_is_exported_is_imported(tmp_path: Path) -> None:
    """ring-5 is solved, exported and imported again: the same collective over the links of the ring."""
    run("solve", Path("instances/collectives/ring-5.yaml"), "--method", "bfb", "--output", tmp_path / "s")
    for target, file in (("msccl", "ring-5.xml"), ("mscclpp", "plan.json"), ("astrasim-collective", "")):
        out = tmp_path / target
        assert run("export", tmp_path / "s" / "solution.json", "--to", target, "--output", out).code == 0
        problem = imported(tmp_path, target, out / file, "--set", "link_gbps=100")
        assert problem.collective.value == "reduce-scatter"
        assert sorted(problem.network.arcs.tolist()) == sorted([k, (k + s) % 5] for k in range(5) for s in (1, -1))
        form = {"astrasim-collective": "chakra"}.get(target, target)
        topology = "family: ring, servers: 5, link_gbytes_per_s: 12.5"
        found = audited(out / file, form, "--topology", topology, "--bytes", "1MB")
        assert found["verdict"] == "valid"


def test_parts_of_chunks_up_to_a_million() -> None:
    """More is no part of a chunk, nor is nothing; a third is one with as many digits as files have."""
    assert (_volume("1000000"), _volume("1000001"), _volume("0")) == (1_000_000, None, None)
    assert _volume("0.333333333333") == Fraction(1, 3)
