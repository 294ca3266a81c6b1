"""Max-min fair rates of jobs, and the links of fat-trees they share."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.shared_cases import fat_tree, step_by_step
from topoopt.core.shared_cluster import JobClass
from topoopt.native import jobs
from topoopt.simulate.cluster_rates import job_loads, shared_links


def rates(parts: np.ndarray, capacity: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """`jobs.fair_rates` of a dense table of loads."""
    rows, links = np.nonzero(parts)
    high = np.searchsorted(rows, np.arange(len(limit)), side="right")
    low = np.searchsorted(rows, np.arange(len(limit)), side="left")
    order = np.arange(len(limit))
    return jobs.fair_rates(order, low, high, links.astype(np.int64), parts[rows, links], capacity, limit)


@settings(max_examples=200)
@given(st.integers(1, 9), st.integers(1, 6), st.integers(0, 2**31))
def test_rates_are_those_of_the_definition(jobs: int, links: int, seed: int) -> None:
    """Filling from the fullest link on gives the same as raising all rates in steps."""
    rng = np.random.default_rng(seed)
    parts = rng.random((jobs, links)) * (rng.random((jobs, links)) < 0.5)
    capacity, limit = rng.uniform(0.1, 3.0, links), rng.choice([0.5, 1.0, 2.0], jobs)
    found = rates(parts, capacity, limit)
    np.testing.assert_allclose(found, step_by_step(parts, capacity, limit), rtol=1e-9)
    assert (found @ parts <= capacity * (1 + 1e-9)).all()
    assert (found <= limit).all()


def test_two_equal_jobs_share_a_link() -> None:
    """Each gets half of the bottleneck, a third job elsewhere all of its own rate."""
    parts = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(rates(parts, np.array([10.0, 50.0]), np.full(3, 40.0)), [5.0, 5.0, 40.0])


def test_a_job_with_more_flows_gets_more_of_a_link() -> None:
    """Three flows against one: equal rates of the flows, so three quarters of the link."""
    np.testing.assert_allclose(rates(np.array([[3.0], [1.0]]), np.array([8.0]), np.full(2, 40.0)), [2.0, 2.0])


RING = JobClass("ring", 4, (1.0,), allreduce_bytes=1e9)
PAIRS = JobClass("pairs", 4, (1.0,), all_to_all_bytes=1e9)


def loads(job_class: JobClass, servers: list[int], n: int = 16, **fields: str) -> dict[int, float]:
    """Loads by link on a fat-tree of 16 servers: racks of 2, pods of 4."""
    links = shared_links(n, fat_tree(**fields), 400.0, seed=3)
    assert links.half == 2
    used, part = job_loads(links, job_class, np.array(servers))
    return dict(zip(used.tolist(), part.tolist(), strict=True))


def test_a_job_inside_a_rack_loads_nothing() -> None:
    """Its traffic stays under the top-of-rack switch."""
    assert loads(RING, [2, 3]) == {}


def test_ring_leaves_each_rack_once() -> None:
    """Servers 0, 1, 2, 3 in two racks of one pod: one flow out of each rack; 0, 4, 8, 12: racks and pods each one."""
    assert loads(RING, [0, 1, 2, 3]) == {0: 1.0, 1: 1.0}
    assert loads(RING, [0, 4, 8, 12]) == {0: 1.0, 2: 1.0, 4: 1.0, 6: 1.0, 8: 1.0, 9: 1.0, 10: 1.0, 11: 1.0}


def test_all_to_all_sends_its_share_out() -> None:
    """Two of four servers in a rack: each sends two thirds of its traffic out of it."""
    assert loads(PAIRS, [0, 1, 2, 3]) == pytest.approx({0: 4 / 3, 1: 4 / 3})


def test_hashed_paths_carry_what_even_ones_do() -> None:
    """Over all uplinks of a rack, and of a pod, hashed flows sum to the even load, up and down."""
    servers = [0, 1, 5, 6, 9, 12, 13, 15]
    both = JobClass("both", 8, (1.0,), allreduce_bytes=1e9, all_to_all_bytes=3e9)
    even = loads(both, servers)
    sums: Counter[int] = Counter()
    for link, part in loads(both, servers, paths="hashed").items():
        layer = link // 32  # 8 racks * 2 up and down, then 4 pods * 4 up and down
        place = link % 32 // 2 if layer == 0 else 16 + link % 32 // 4
        sums[place] += part  # type: ignore[assignment]
    for rack in range(8):
        assert sums[rack] == pytest.approx(even.get(rack, 0.0))
        assert sums[8 + rack] == pytest.approx(even.get(rack, 0.0))
    for pod in range(4):
        assert sums[16 + pod] == pytest.approx(even.get(8 + pod, 0.0))
        assert sums[20 + pod] == pytest.approx(even.get(8 + pod, 0.0))


def test_oversubscription_thins_its_layer_only() -> None:
    """At the rack the rack uplinks, at the aggregation layer those of the pods."""
    rack = shared_links(16, fat_tree(ratio=2.0), 400.0, 0)
    pod = shared_links(16, fat_tree(ratio=2.0, oversubscribed_at="aggregation"), 400.0, 0)
    assert set(rack.capacity_gbps[:8]) == {400.0}
    assert set(rack.capacity_gbps[8:]) == {1600.0}
    assert set(pod.capacity_gbps[:8]) == {800.0}
    assert set(pod.capacity_gbps[8:]) == {800.0}
