"""Switches that copy: schedules are made for them, links carry what is copied once, and cuts bound them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kinds.collective.test_collective import instance
from topoopt.core.collective import CollectiveProblem, CollectiveResult
from topoopt.core.result import Result
from topoopt.kinds.files import read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.verify.checker import FULL
from topoopt.verify.collective import CHECKER

SLOW_UP = {"links": [[k, 4, 10.0] for k in range(4)] + [[4, k, 30.0] for k in range(4)], "switches": [4]}
"""Four ranks at a switch: 10 GB/s to it, 30 GB/s from it."""

TWO_SWITCHES = {
    "links": [[k, 4 + k // 2, 20.0] for k in range(4)] + [[4, 5, 10.0]], "directed": False, "switches": [4, 5],
}  # fmt: skip
"""Two ranks at either switch, 20 GB/s; 10 GB/s between the switches."""


def solved(
    folder: Path, topology: dict[str, Any], method: str = "auto", *, multicast: bool = True, **more: Any
) -> tuple[CollectiveProblem, CollectiveResult]:
    """An instance of 1.2 MB and its solution, checked."""
    file = instance(
        folder, topology=topology, switches={"multicast": multicast}, bytes=1_200_000, latency_us={}, **more
    )
    problem = read_instance(file)
    assert isinstance(problem, CollectiveProblem)
    solution = solve(problem, SolveOptions(method=method))
    assert isinstance(solution, Result)
    assert solution.check.ok, solution.check.violations
    return problem, solution


# By hand: a shard of 300 kB takes 30 us up; three of them 30 us down to each rank. Without copies three go up: 90 us.
@pytest.mark.parametrize("method", ["shortest", "time-expanded", "auto"])
def test_an_uplink_carries_a_shard_once(method: str, tmp_path: Path) -> None:
    _, solution = solved(tmp_path, SLOW_UP, method)
    assert solution.figures.steps == 1
    assert solution.figures.time_us == solution.figures.makespan_us == solution.figures.busy_us == pytest.approx(30.0)
    assert solution.status == "optimal"
    _, plain = solved(tmp_path, SLOW_UP, "shortest", multicast=False)
    assert plain.figures.time_us == pytest.approx(90.0)


# A broadcast of 1.2 MB between the switches at 10 GB/s: 120 us for two ranks beyond; without copies in one step 240 us.
def test_a_broadcast_in_one_step(tmp_path: Path) -> None:
    _, solution = solved(tmp_path, TWO_SWITCHES, "shortest", collective="broadcast")
    assert (solution.figures.steps, solution.status) == (1, "optimal")
    assert solution.figures.time_us == pytest.approx(120.0)
    assert solved(tmp_path, TWO_SWITCHES, "shortest", collective="broadcast", multicast=False)[1].figures.time_us == (
        pytest.approx(240.0)
    )


def test_what_is_summed_is_not_copied(tmp_path: Path) -> None:
    """A reduction over the same switches: two vectors come in one step, as without copies."""
    for multicast in (False, True):
        _, solution = solved(tmp_path, TWO_SWITCHES, "shortest", collective="reduce", multicast=multicast)
        assert solution.figures.time_us == pytest.approx(240.0)


@pytest.mark.parametrize(
    "collective", ["allgather", "reduce-scatter", "allreduce", "broadcast", "reduce", "all-to-all"]
)
@pytest.mark.parametrize("topology", [SLOW_UP, TWO_SWITCHES, {"preset": "dgx-a100"}], ids=["slow", "two", "a100"])
def test_never_slower_than_without(collective: str, topology: dict[str, Any], tmp_path: Path) -> None:
    """Copies can only help; the bound of what they allow is no higher than what they do."""
    _, with_copies = solved(tmp_path, topology, collective=collective)
    _, plain = solved(tmp_path, topology, collective=collective, multicast=False)
    assert with_copies.figures.time_us <= plain.figures.time_us * (1 + 1e-9)
    assert with_copies.bound.value <= plain.bound.value * (1 + 1e-9)


def test_the_checker_counts_copies_once(tmp_path: Path) -> None:
    """The times of a solution for switches that copy are wrong where they do not, and the other way round."""
    problem, solution = solved(tmp_path, SLOW_UP, "shortest")
    for multicast in (True, False):
        found = CHECKER(replace(problem, multicast=multicast), solution, FULL)
        codes = {one.code for one in found.violations}
        assert ("objective" in codes) is not multicast, found.violations


def test_no_copies_at_ranks(tmp_path: Path) -> None:
    """On a ring without switches nothing changes."""
    ring = {"family": "ring", "servers": 5, "link_gbytes_per_s": 12.5}
    for method in ("bfb", "forest", "rings", "shortest"):
        times = [solved(tmp_path, ring, method, multicast=multicast)[1].figures.time_us for multicast in (False, True)]
        assert times[0] == times[1]


def test_every_cut_bounds_an_allreduce(tmp_path: Path) -> None:
    """The bound is the vector over the least rate out of any set with ranks inside and outside (brute force)."""
    problem, solution = solved(tmp_path, TWO_SWITCHES, collective="allreduce")
    network = problem.network
    least = float("inf")
    for chosen in itertools.product((False, True), repeat=network.nodes):
        side = np.array(chosen)
        if side[network.ranks].any() and not side[network.ranks].all():
            out = side[network.arcs[:, 0]] & ~side[network.arcs[:, 1]]
            least = min(least, float(network.gbytes_per_s[out].sum()))
    assert solution.bound.value == pytest.approx(1_200_000 / least / 1e3)
