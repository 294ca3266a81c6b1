"""AllReduce of a plan by gradient, on rings by their formula and breadth first: `topoopt collective job`."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from solvers.job.candidate_topologies import group_network, ring_line
from solvers.stop import Stop
from tests.support.cli_cases import run
from tests.support.paths import INSTANCES
from topoopt.analyses.collective.job_schedules import job_collectives
from topoopt.core.errors import InputError
from topoopt.core.workload import GroupRings, Ring
from topoopt.kinds.files import read_instance, write_solution
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve

TINY = INSTANCES / "tiny-4.yaml"


def test_four_servers_in_a_ring(tmp_path: Path) -> None:
    """25 Gbit/s each way round, both ways in use: S bytes take 3/4 S / 3.125 GB/s, on rings and breadth first.

    Rings wait 2.1 us in each of 6 rounds, breadth-first broadcasts (the diameter is 2) in each of 4 steps.
    """
    problem = read_instance(TINY)
    solution = solve(problem, SolveOptions(budget=0))
    assert (np.bincount(solution.plan.topology.arcs[:, 0]) == 2).all()
    (group,), _ = job_collectives(problem, solution, Stop())
    assert group.members == (0, 1, 2, 3)
    sizes = {one.bytes: one for one in group.gradients}
    assert sum(one.bytes * one.count for one in group.gradients) == solution.figures.demand.allreduce[0].payload_bytes
    for size, one in sizes.items():
        moving = 0.75 * size / 3125
        assert one.ring_us == pytest.approx(6 * 2.1 + moving)
        assert one.best_us == pytest.approx(4 * 2.1 + moving)
        assert one.steps == 4
    path = tmp_path / "solution.json"
    write_solution(solution, path)
    told = run("explain", path, "--json").json
    document = told["collectives"]
    assert document["ring_us"] == pytest.approx(group.total_us("ring_us"))
    assert document["best_us"] == pytest.approx(group.total_us("best_us"))
    said = f"plan take {group.total_us('best_us'):.4g} us: "
    assert any(said in line and line.endswith("faster than on its rings.") for line in told["words"])
    rows = {(row["collective"], row["delay_s"]): row for row in told["switched_collectives"]}
    assert set(rows) == set(product(("ring", "halving-doubling", "all-to-all"), (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)))
    for (_, delay_s), row in rows.items():
        assert row["time_s"] <= row["never_s"]
        assert row["time_s"] == row["never_s"] or delay_s < row["break_even_s"]
    other = replace(problem, cluster=replace(problem.cluster, degree=1))
    with pytest.raises(InputError, match="not a plan for this instance"):
        job_collectives(other, solution, Stop())


def test_servers_outside_a_group_pass_on() -> None:
    """Servers 0 and 2 of the ring of four, 1 and 3 between them: each way half of the vector goes over two hops."""
    problem = read_instance(TINY)
    topology = solve(problem, SolveOptions(budget=0)).plan.topology
    near = sorted(topology.arcs[topology.arcs[:, 0] == 0, 1].tolist())
    (far,) = {1, 2, 3} - set(near)
    group = GroupRings((0, far), tuple(Ring((0, far), 0.5, ((0, passing, far), (far, passing, 0))) for passing in near))
    line = ring_line(problem.cluster, topology, group)
    assert (line.steps, line.latency_us) == (2, pytest.approx(2 * (2.1 + 1.0)))
    assert line.us_per_mbyte == pytest.approx(2 * 0.5 * 0.5 * 1e6 / 3125)
    network = group_network(problem.cluster, topology, (0, far))
    assert network.ranks.tolist() == [0, far]
    assert set(network.gbytes_per_s.tolist()) == {3.125}
