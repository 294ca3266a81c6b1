"""Bounds from what must pass a server's links: closed forms, brute force, and where they do not hold."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.placed_graphs import MS, problem
from topoopt.core.placement import Device, GraphOperator, Latency, Tensor
from topoopt.core.proofs import Argument
from topoopt.simulate.placement import placement_arrays, simulated, uniform_rates
from topoopt.verify.placement.bounds import latency_bounds

EGRESS, INGRESS = Argument.GROUP_EGRESS, Argument.GROUP_INGRESS
SHARED = ["fair", "fifo", "static"]


def spread(sharing: str, *, into: bool = False, rooms: int = 4):
    """One operator of 2 ms and three of 1 ms, each filling a device; tensors of 3 ms out of the one, or into it."""
    tensors = [(i, [0], 3) for i in (1, 2, 3)] if into else [(0, [i], 3) for i in (1, 2, 3)]
    return problem([2, 1, 1, 1], tensors, [1] * rooms, sharing=sharing, memory=[4] * 4, room=5, alpha=0.5)


@pytest.mark.parametrize("sharing", SHARED)
def test_three_tensors_out_of_one_server(sharing):
    """2 ms, latency, 9 ms through the links, 1 ms behind: no placement can do better, and only memory makes it so."""
    assert latency_bounds(spread(sharing))[EGRESS] == pytest.approx(2 + 0.5 + 9 + 1)
    roomy = replace(spread(sharing), devices=tuple(Device(f"d{s}", s, 0, None) for s in range(4)))
    assert EGRESS not in latency_bounds(roomy)


@pytest.mark.parametrize("sharing", SHARED)
def test_three_tensors_into_one_server(sharing):
    """1 ms, latency, 9 ms, 2 ms."""
    assert latency_bounds(spread(sharing, into=True))[INGRESS] == pytest.approx(1 + 0.5 + 9 + 2)


def test_a_tensor_is_sent_once_to_consumers_that_may_share_a_device():
    """Two light consumers fit together, apart from the producer: 3 ms once; both heavy: twice."""
    light = problem([1, 1, 1], [(0, [1, 2], 3)], [1, 1, 1], memory=[4, 2, 2], room=5)
    assert latency_bounds(light)[EGRESS] == pytest.approx(1 + 3 + 1)
    heavy = problem([1, 1, 1], [(0, [1, 2], 3)], [1, 1, 1], memory=[4, 4, 4], room=5)
    assert latency_bounds(heavy)[EGRESS] == pytest.approx(1 + 6 + 1)


def test_devices_of_one_server_need_no_link():
    """Groups that do not fit one device, but fit two of a server, cross no network."""
    inside = problem([1, 1], [(0, [1], 3)], [2], memory=[4, 4], room=5)
    assert EGRESS not in latency_bounds(inside)


def test_classes_force_a_tensor_over_the_network():
    """An operator for one class only and its consumer for another, on different servers."""
    two = problem([1, 1], [(0, [1], 3)], [1, 1])
    two = replace(
        two,
        classes=("gpu", "cpu"),
        operators=(GraphOperator("a", (1.0, float("inf"))), GraphOperator("b", (float("inf"), 1.0))),
        devices=(Device("g", 0, 0), Device("c", 1, 1)),
    )
    assert latency_bounds(two)[EGRESS] == pytest.approx(5)


def test_without_contention_ports_say_nothing():
    """Sharing `none` gives every transfer the full rate."""
    bounds = latency_bounds(spread("none"))
    assert EGRESS not in bounds
    assert INGRESS not in bounds


def test_tensors_without_bytes_load_no_link():
    """A tensor of no bytes is only a signal."""
    empty = problem([1, 1], [(0, [1], 0)], [1, 1], memory=[4, 4], room=5)
    assert EGRESS not in latency_bounds(empty)


@settings(max_examples=25)
@given(
    st.lists(st.integers(0, 3), min_size=3, max_size=5),
    st.lists(st.integers(0, 4), min_size=5, max_size=5),
    st.integers(0, 2**20),
    st.sampled_from(SHARED),
)
def test_no_placement_and_no_order_beats_the_bounds(times, memory, graph, sharing):
    """Bounds under the best of all placements within memory and all orders of priority, on a pair and a single."""
    n = len(times)
    tensors = []
    for i in range(n - 1):
        users = tuple(j for j in range(i + 1, n) if graph >> (i * n + j) & 1)
        if users:
            tensors.append(Tensor(i, users, (1 + (graph + i) % 3) * MS))
    instance = replace(
        problem([float(time) for time in times], [], [2, 1], memory=memory[:n], room=5, alpha=0.25),
        tensors=tuple(tensors),
        objective=Latency(sharing, "uniform"),
    )
    a = placement_arrays(instance)
    best = np.inf
    for device in itertools.product(range(3), repeat=n):
        held = np.bincount(device, weights=memory[:n], minlength=3)
        if (held <= 5).all():
            for order in itertools.permutations(range(n)):
                priority = np.array(order, dtype=float)
                found = simulated(a, np.array(device), uniform_rates(a), priority)
                best = min(best, found.makespan_ms)
    assert max(latency_bounds(instance).values()) <= best * (1 + 1e-9)
