"""Small schedules of other tools, made here, and how each is judged."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from solvers.stop import Stop
from tests.support import written_schedules as written
from tests.support.smallest import solution_of
from topoopt.analyses.collective.audits import AuditSettings, audit
from topoopt.core.collective import DeclaredFigures
from topoopt.formats.schedules import SCHEDULES, ScheduleOptions
from topoopt.formats.table import EXPORTERS, ExportOptions

ENDINGS = {"xml": "msccl", "plan": "mscclpp", "flows": "teccl", "trees": "forestcoll", "steps": "sccl", "et": "chakra"}
"""Format by the end of a file's name."""


@cache
def originals() -> dict[str, bytes]:
    """A schedule of every format; of traces those of a rank."""
    solution = solution_of("collective")
    plans = dict(EXPORTERS["mscclpp"].build(solution, ExportOptions()).files)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        ring = [f"0 of {k}: {(k + s) % 3}>{(k + s + 1) % 3} @{s} x1.0" for k in range(3) for s in range(2)]
        made = {
            "a.xml": written.msccl(path, "allgather", 3, written.ring_allgather(3), sizes=(1, 3)).read_bytes(),
            "a.flows": written.teccl(path, ring, written.everyone(range(3)), epochs=2).read_bytes(),
            "a.trees": written.forestcoll(
                path, 1, [("0", 1, [("0", "1")]), ("(1, 'GPU')", 1, [("(1, 'GPU')", "9", "0")])]
            ).read_bytes(),
            "a.steps": written.sccl(
                path,
                "Allreduce",
                2,
                [([0], [0, 1], 0), ([1], [0, 1], 0)],
                [(1, [(0, 0, 1), (0, 1, 0)])],
                [[0, 1], [1, 0]],
            ).read_bytes(),
        }
    return {**made, "b.plan": plans["plan.json"], **{f"t.{rank}.et": _traces()[f"{rank}"] for rank in range(2)}}


@cache
def _traces() -> dict[str, bytes]:
    files = EXPORTERS["astrasim-collective"].build(solution_of("collective"), ExportOptions()).files
    return {name.split(".")[-2]: data for name, data in files if name.endswith(".et")}


def audit_any(path: Path) -> None:
    """Judge a schedule by its name, with sizes and without a network."""
    form = ENDINGS[path.suffix[1:]]
    if form == "chakra":
        folder = path.parent / "traces"
        folder.mkdir(exist_ok=True)
        for rank, data in _traces().items():
            name = f"t.{rank}.et"
            (folder / name).write_bytes(path.read_bytes() if name == path.name else data)
        path = folder
    program = SCHEDULES[form](path, ScheduleOptions())
    network = program.topology if program.topology is None or program.topology.nodes <= 64 else None
    audit(program, network, AuditSettings(declared=DeclaredFigures(vector_bytes=1e6)), Stop())
