"""Ring bounds and the check of ring mixes: against brute force, scipy, closed forms, and corrupted mixes."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from tests.support import least_ring
from tests.support.least_ring import least_ring_bound
from tests.support.ring_mix import certified_mix_bound, check_ring_mix
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.network import SourceFlow
from topoopt.core.topology import Topology
from topoopt.core.workload import AllReduceDemand, Demand


def directed(n: int, arcs: list[tuple[int, int]]) -> Topology:
    """Unit arcs, sorted; no switches are needed here."""
    rows = np.array(sorted(arcs), dtype=np.int32)
    ones = np.ones(len(rows), dtype=np.int32)
    return Topology(n, n, LinkDirection.UNIDIRECTIONAL, rows, ones, np.zeros((0, n), dtype=np.int32))


RING3 = directed(3, [(0, 1), (1, 2), (2, 0)])
WHOLE3 = Demand(np.zeros((3, 3)), (AllReduceDemand((0, 1, 2), 3.0),))
"""Every member sends 2 * 2/3 * 3 = 4 bytes to the next."""


@settings(max_examples=40)
@given(st.integers(2, 7), st.integers(0, 10**6))
def test_least_ring_is_the_shortest_of_all_orders(size: int, seed: int) -> None:
    """Dynamic programming equals trying every order; the assignment bound never exceeds it."""
    length = np.random.default_rng(seed).integers(0, 40, (size, size))
    shortest = min(
        sum(int(length[a, b]) for a, b in zip((0, *rest), (*rest, 0), strict=True))
        for rest in permutations(range(1, size))
    )
    assert least_ring_bound(length) == shortest
    assert least_ring._assignment_bound(length) <= shortest


@settings(max_examples=15)
@given(st.integers(least_ring.EXACT_SIZE + 1, 40), st.integers(0, 10**6), st.sampled_from([9, 1000, 2**45]))
def test_large_groups_get_the_assignment_bound(size: int, seed: int, largest: int) -> None:
    """Beyond the exact size the bound is the value of the best assignment without fixed points, found by scipy."""
    length = np.random.default_rng(seed).integers(0, largest, (size, size))
    cost = length.astype(np.float64)
    np.fill_diagonal(cost, 1e18)
    rows, columns = linear_sum_assignment(cost)
    assert least_ring_bound(length) == int(length[rows, columns].sum())


def test_a_single_server_is_no_ring() -> None:
    """Nothing goes round."""
    assert least_ring_bound(np.zeros((1, 1), dtype=np.int64)) == 0


def test_bound_of_a_directed_ring() -> None:
    """Unit lengths on three arcs: the ring against the grain takes 6 hops, with it 3; theta >= 4 * 3 / 3 = 4 bytes."""
    bound = certified_mix_bound(RING3, WHOLE3, np.ones(3))
    assert bound == pytest.approx(4.0, rel=1e-12)
    assert bound <= 4.0
    assert certified_mix_bound(RING3, WHOLE3, np.ones(3), 2.0) == pytest.approx(2.0)


def test_bound_adds_model_parallel_demand() -> None:
    """One byte from 0 to 2 takes two hops: (4 * 3 + 2) / 3."""
    moved = np.zeros((3, 3))
    moved[0, 2] = 1.0
    assert certified_mix_bound(RING3, replace(WHOLE3, model_parallel_bytes=moved), np.ones(3)) == pytest.approx(14 / 3)


def test_bound_refuses_bad_lengths_and_cut_groups() -> None:
    """Negative lengths, and a group that no path joins."""
    with pytest.raises(InputError):
        certified_mix_bound(RING3, WHOLE3, np.array([1.0, -1.0, 1.0]))
    with pytest.raises(InfeasibleError):
        certified_mix_bound(directed(3, [(0, 1), (1, 2)]), WHOLE3, np.ones(2))


def sound() -> tuple[list[list[tuple[tuple[int, ...], float]]], SourceFlow]:
    """The ring along the arcs: every source sends 4 over its arc (arcs sorted: 0 1, 1 2, 2 0)."""
    return [[((0, 1, 2), 1.0)]], SourceFlow(np.eye(3) * 4.0)


def test_a_sound_mix_passes_with_its_theta() -> None:
    """4 bytes on every arc, at 2 bytes per ms."""
    rings, flow = sound()
    checked = check_ring_mix(RING3, WHOLE3, rings, flow, 2.0)
    assert checked.violations == ()
    assert checked.theta == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("rings", "words"),
    [
        ([], "one per group"),
        ([[((0, 1, 2), 0.5)]], "add up"),
        ([[((0, 1, 2), 2.0), ((0, 2, 1), -1.0)]], "below 0"),
        ([[((0, 1, 1), 1.0)]], "every member once"),
        ([[((0, 2, 1), 1.0)]], "source"),
    ],
)
def test_corrupted_mixes_are_rejected(rings: list[list[tuple[tuple[int, ...], float]]], words: str) -> None:
    """Groups without rings, shares off, no order at all, or an order the flow does not serve."""
    violations = check_ring_mix(RING3, WHOLE3, rings, sound()[1]).violations
    assert violations
    assert words in " ".join(violations)
