"""Speed of bounds, schedules and audits of collectives, in seconds of one core, beside what peers publish."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from solvers.collective.breadth_first import step_loads
from solvers.collective.limits import all_to_all_bound, allreduce_rate, ratio_cut
from solvers.collective.trees import fixed_scale, forest, scaled
from solvers.stop import Stop
from tests.benchmarks.figures import Figure, best_of
from tests.support import collective_networks as nets
from tests.support import written_schedules as written
from topoopt.analyses.collective.calls import audit_schedule
from topoopt.core.collective import CollectiveOp, CollectiveProblem
from topoopt.core.rated_network import RatedNetwork
from topoopt.kinds.files import read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve


def unequal(n: int) -> RatedNetwork:
    """Two one-way rings and 2 n chords, rates of 1 to 8."""
    rng = np.random.default_rng(3)
    ends = [(i, (i + offset) % n) for offset in (1, 7) for i in range(n)]
    ends += [tuple(rng.choice(n, 2, replace=False).tolist()) for _ in range(2 * n)]
    return nets.network(n, [(tail, head, int(rng.integers(1, 9))) for tail, head in ends])


ONE_WAY_RING = "family: ring, servers: 1001, links: unidirectional, link_gbytes_per_s: 10"


def ring_file(path: Path, ranks: int) -> Path:
    """An AllGather round a ring as TE-CCL writes it: every rank sends a chunk of 10 kB on in every epoch of 1 us."""
    flows = [f"0 of {(r - k) % ranks}: {r}>{(r + 1) % ranks} @{k}" for k in range(ranks - 1) for r in range(ranks)]
    demands = written.everyone(range(ranks))
    return written.teccl(path, flows, demands, epochs=ranks - 1, gbytes=ranks * 1e-5)


def _forest(network: RatedNetwork, trees: int) -> None:
    roots = dict.fromkeys(network.ranks.tolist(), trees)
    forest(network, scaled(network, fixed_scale(network, roots)), roots)


def _torus() -> None:
    """An AllGather of 1 GiB over a torus of 3 x 3 x 3, 50 GiB/s, 0.5 us: time below 3 300 us (TACOS: 3 706)."""
    solution = solve(read_instance(Path("instances/collectives/torus-3x3x3.yaml")), SolveOptions())
    assert solution.figures.time_us <= 3300, solution.figures.time_us


def _proven(network: RatedNetwork, collective: CollectiveOp, method: str) -> None:
    problem = CollectiveProblem("x", network, collective, 10**9, objective="throughput", sha256="0" * 64)
    solution = solve(problem, SolveOptions(method=method))
    assert solution.status == "optimal", solution.status


def collective_figures() -> list[Figure]:
    """Bounds, trees, breadth-first broadcasts and whole solves with their proofs."""
    kautz, mesh = nets.kautz(4, 1024), nets.mesh(32, 32)
    torus = nets.torus(4, 4, 8, 8)
    cases: list[tuple[str, Callable[[], Any], float, float | None]] = [
        ("AllGather bound with cut, A100 x8", lambda: ratio_cut(nets.machine("dgx-a100", 8)), 0.5, None),
        ("AllGather bound with cut, 1024 nodes, d = 4", lambda: ratio_cut(kautz), 5.0, None),
        ("loads of BFB, 1024 nodes, one rank for all", lambda: step_loads(torus, alike=True), 2.0, None),
        ("loads of BFB, 1024 nodes, every rank", lambda: step_loads(mesh), 10.0, None),
        ("forest of MI250 x2, 3 trees a root", lambda: _forest(nets.machine("mi250", 2), 3), 5.0, None),
        (
            "DGX2 x2 AllGather, optimal and checked",
            lambda: _proven(nets.machine("dgx2", 2), CollectiveOp.ALLGATHER, "forest"), 5.0, 2700.0,
        ),
        (
            "DGX2 x2 All-to-All, optimal and checked",
            lambda: _proven(nets.machine("dgx2", 2), CollectiveOp.ALL_TO_ALL, "auto"), 2.0, 1590.0,
        ),
        (
            "NDv2 x4 AllGather, optimal and checked",
            lambda: _proven(nets.machine("ndv2", 4), CollectiveOp.ALLGATHER, "forest"), 2.0, 222.0,
        ),
        *(
            (f"AllReduce bound, {n} unequal nodes", partial(_allreduce, unequal(n)), goal, None)
            for n, goal in ((128, 1.0), (512, 30.0))
        ),
        ("torus 3x3x3, AllGather below 3 300 us and checked", _torus, 30.0, None),
        ("All-to-All bound, 256 nodes, d = 4", lambda: all_to_all_bound(nets.kautz(4, 256), Stop()), 10.0, None),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        million = ring_file(Path(folder) / "ring.json", 1001)
        audited = partial(audit_schedule, million, "teccl", network=ONE_WAY_RING)
        cases.append(("audit of 1 001 000 sends (TE-CCL file of 112 MB)", audited, 10.0, None))
        return [
            Figure(name, best_of(run, repeats=1, clock=time.process_time), "s", goal, plain)
            for name, run, goal, plain in cases
        ]


def _allreduce(network: RatedNetwork) -> None:
    allreduce_rate(network, ratio_cut(network)[1], Stop())
