"""Schedules of ours in other tools' formats: what is written is executed, and an audit calls it valid."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from solvers.stop import Stop
from tests.support.read_back.exports import check_written, programs_of, write_files
from topoopt.analyses.collective.audits import AuditSettings, audit
from topoopt.core.collective import CollectiveProblem, CollectiveResult, DeclaredFigures
from topoopt.core.errors import CheckError, InputError
from topoopt.core.result import Result
from topoopt.formats.msccl.write import placed_schedule
from topoopt.formats.table import EXPORTERS, Export, ExportOptions
from topoopt.kinds.files import read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve

OPTIONS = ExportOptions()
TARGETS = ("msccl", "mscclpp", "astrasim-collective")
GATHERS = ("allgather", "reduce-scatter", "allreduce")
NETWORKS: dict[str, dict[str, Any]] = {
    "ring": {"family": "ring", "servers": 5, "link_gbytes_per_s": 12.5},
    "one-way": {"family": "ring", "servers": 5, "links": "unidirectional", "link_gbytes_per_s": 12.5},
    "boxes": {
        "links": [[k, 8 + k // 4, 100] for k in range(8)] + [[k, 10, 10] for k in range(8)],
        "directed": False,
        "switches": [8, 9, 10],
    },
    "complete": {"family": "complete", "servers": 60, "link_gbytes_per_s": 1.0},
    "unequal": {"links": [[0, 1, 3], [1, 2, 1], [2, 0, 2], [2, 3, 2], [3, 0, 1]], "directed": False},
}
CASES = [
    *((c, m, n) for c in GATHERS for m, n in (("bfb", "ring"), ("rings", "ring"), ("forest", "ring"),
                                              ("forest", "boxes"), ("shortest", "boxes"), ("forest", "unequal"))),
    *((c, "forest", n) for c in ("broadcast", "reduce") for n in ("ring", "boxes", "unequal")),
    *(("all-to-all", "all-to-all-paths", n) for n in ("ring", "boxes", "unequal")),
    ("allgather", "time-expanded", "ring"),
]  # fmt: skip


@cache
def solved(collective: str, method: str, network: str, size: int = 1_000_000) -> CollectiveResult:
    """A schedule of few trees for a small network."""
    import tempfile

    document = {
        "schema_version": 1, "kind": "collective", "name": f"{network}-{collective}", "collective": collective,
        "bytes": size, "topology": NETWORKS[network], "latency_us": {"link": 1, "message": 1},
        "root": 3 if collective in ("broadcast", "reduce") else 0, "limits": {"trees_per_root": 2},
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.json"
        path.write_text(json.dumps(document))
        problem = read_instance(path)
    assert isinstance(problem, CollectiveProblem)
    found = solve(problem, SolveOptions(method=method))
    assert isinstance(found, Result)
    return found


def read_program(target: str, export: Export, solution: CollectiveResult, folder: Path) -> Any:
    """The program that stands in the files of an export."""
    write_files(export, folder)
    (program,) = programs_of(target, folder, solution)
    return program


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("collective", "method", "network"), CASES)
def test_what_is_written_is_valid(target: str, collective: str, method: str, network: str, tmp_path: Path) -> None:
    """Executed, every rank ends with what it is due; every link carries as many bytes as in the solution."""
    solution = solved(collective, method, network)
    if target == "astrasim-collective" and collective in ("broadcast", "reduce"):
        with pytest.raises(InputError, match="ASTRA-sim has no such collective"):
            EXPORTERS[target].build(solution, OPTIONS)
        return
    export = EXPORTERS[target].build(solution, OPTIONS)
    check_written(target, export, solution)
    program = read_program(target, export, solution, tmp_path)
    settings = AuditSettings(
        relaying=True,
        declared=DeclaredFigures(vector_bytes=float(solution.problem.vector_bytes)),
        root=solution.problem.root,
    )
    found = audit(program, solution.problem.network, settings, Stop())
    assert found.verdict == "valid", found.reasons
    recomputed = found.document["recomputed"]
    assert recomputed["busiest_link_us"] == pytest.approx(solution.figures.busy_us, rel=1e-9)
    assert recomputed["part_of_bound"] <= 1 + 1e-9


@pytest.mark.parametrize(("collective", "method", "network"), CASES)
def test_fused_steps_do_the_same(collective: str, method: str, network: str, tmp_path: Path) -> None:
    """The same bytes over every link, executed and valid, with fewer steps wherever ranks pass on what they receive."""
    solution = solved(collective, method, network)
    plain = EXPORTERS["msccl"].build(solution, OPTIONS)
    export = EXPORTERS["msccl"].build(solution, replace(OPTIONS, fused=True))
    check_written("msccl", export, solution)
    assert export.content == plain.content
    program = read_program("msccl", export, solution, tmp_path)
    settings = AuditSettings(
        relaying=True,
        declared=DeclaredFigures(vector_bytes=float(solution.problem.vector_bytes)),
        root=solution.problem.root,
    )
    found = audit(program, solution.problem.network, settings, Stop())
    assert found.verdict == "valid", found.reasons
    assert found.document["recomputed"]["busiest_link_us"] == pytest.approx(solution.figures.busy_us, rel=1e-9)
    kinds = written_kinds(export)
    assert {"rcs", "rrs", "rrcs"} & set(written_kinds(plain)) == set()
    sends = solution.plan.schedule.sends
    came, left = (list(zip(sends.block, end, sends.step, strict=True)) for end in (sends.head, sends.tail))
    passed = any(a[:2] == b[:2] and a[2] < b[2] for a in came for b in left)
    assert bool({"rcs", "rrs", "rrcs"} & set(kinds)) is passed
    assert passed is (kinds.total() - kinds["nop"] < written_kinds(plain).total() - written_kinds(plain)["nop"])


def written_kinds(export: Export) -> Counter[str]:
    """How many steps of each type stand in the algorithm of an export."""
    (text,) = (data.decode() for name, data in export.files if name.endswith(".xml"))
    return Counter(re.findall(r'type="([a-z]+)"', text))


def test_a_ring_fused_is_the_ring_of_nccl() -> None:
    """Of five ranks: send, three sums that are passed on and not kept, one that is kept, three copies, receive."""
    export = EXPORTERS["msccl"].build(solved("allreduce", "rings", "one-way"), replace(OPTIONS, fused=True))
    (text,) = (data.decode() for name, data in export.files if name.endswith(".xml"))
    assert written_kinds(export) == Counter(s=5, rrs=15, rrcs=5, rcs=15, r=5)
    assert max(map(int, re.findall(r'tb id="(\d+)"', text))) <= 4


@pytest.mark.parametrize("fused", [False, True])
def test_thirteen_trees_of_a_root_are_exported(fused: bool, tmp_path: Path) -> None:
    """Two DGX A100 need 13 trees a root for 346.67 GB/s, several of them alike, which ForestColl's own export refuses.

    Through which switch a message goes is not part of an algorithm: its bytes are those of the schedule.
    """
    document = {
        "schema_version": 1, "kind": "collective", "name": "a100", "topology": {"preset": "dgx-a100", "boxes": 2},
        "collective": "allgather", "bytes": 1_040_000_000, "objective": "throughput",
    }  # fmt: skip
    (tmp_path / "x.json").write_text(json.dumps(document))
    solution = solve(read_instance(tmp_path / "x.json"), SolveOptions(method="forest"))
    assert isinstance(solution, Result)
    export = EXPORTERS["msccl"].build(solution, replace(OPTIONS, fused=fused))
    check_written("msccl", export, solution)
    assert solution.figures.busy_us == pytest.approx(3_000)
    program = read_program("msccl", export, solution, tmp_path)
    found = audit(program, solution.problem.network, AuditSettings(), Stop())
    assert found.verdict == "valid"
    assert int(program.messages.units.sum()) == 15 * program.vector_units


def test_neighbouring_pieces_are_joined() -> None:
    """A broadcast of a GB down two trees of a ring, in pieces: as blocks of the vector the two trees are enough."""
    solution = solved("broadcast", "forest", "ring", 1_000_000_000)
    placed = placed_schedule(solution)
    assert len(placed.blocks) <= 2 < len(solution.plan.schedule.blocks.units)
    assert sum(block.count for block in placed.blocks) == placed.chunks
    assert [block.owner for block in placed.blocks] == sorted(block.owner for block in placed.blocks)


@pytest.mark.parametrize(
    ("target", "file", "old", "new"),
    [
        ("msccl", ".xml", 'type="rrc"', 'type="r"'),
        ("msccl", ".xml", 'srcoff="1"', 'srcoff="0"'),
        ("mscclpp", "plan.json", '"re"', '"copy"'),
    ],
)
def test_an_export_that_is_wrong_is_found(target: str, file: str, old: str, new: str) -> None:
    """The same bytes between the same ranks, but not the sum: found because it is executed."""
    solution = solved("allreduce", "bfb", "ring")
    export = EXPORTERS[target].build(solution, OPTIONS)
    files = tuple(
        (name, data.replace(old.encode(), new.encode(), 1) if name.endswith(file) else data)
        for name, data in export.files
    )
    assert files != export.files
    with pytest.raises(CheckError, match="does not do what it should"):
        check_written(target, replace(export, files=files), solution)


def test_limits_of_targets_are_kept() -> None:
    """60 ranks that send to all others at once need 118 blocks each; a rank of a plan 59 channels in one block."""
    solution = solved("allgather", "bfb", "complete")
    with pytest.raises(InputError, match="too many blocks of a rank"):
        EXPORTERS["msccl"].build(solution, OPTIONS)
    with pytest.raises(InputError, match="too much for a plan"):
        EXPORTERS["mscclpp"].build(solution, OPTIONS)
