"""The pieces the bounds are made of, each against brute force or a closed form."""

from __future__ import annotations

from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.verify_cases import circulant, make_cluster, sample_splits
from topoopt.core.cluster import LinkDirection
from topoopt.core.workload import Operator, OperatorInput, Placement, Split, Workload
from topoopt.verify.job.least_times import (
    between_all,
    choices_of,
    largest_of_least,
    latest_by,
    least_byte_hops,
    least_labelling,
    nearest_hops,
    spanning_forest,
    window_bound,
    windows_by,
)
from topoopt.verify.job.plan import place, recompute_traffic
from topoopt.verify.laws.networks import diameter_and_mean, hop_counts

times = st.floats(0, 10).map(lambda x: round(x, 3))
jobs = st.lists(st.tuples(times, times, times), min_size=1, max_size=5)


def linked(cluster, distances):
    """bool[n, n] of a circulant."""
    table = np.zeros((cluster.servers, cluster.servers), dtype=bool)
    arcs = circulant(cluster, distances).arcs
    table[arcs[:, 0], arcs[:, 1]] = True
    return table


@pytest.mark.parametrize(
    ("n", "distances", "diameter", "mean"),
    [
        (12, [1, 5], 3, 1.818),
        (16, [1, 5], 4, 2.133),
        (16, [1, 3, 5, 9], 2, 1.467),
        (32, [1, 7], 4, 2.710),
        (32, [1, 3, 7, 15], 3, 2.000),
        (128, [1, 13], 10, 5.622),
        (128, [1, 7, 27], 6, 3.669),
        (128, [1, 5, 13, 39], 5, 2.961),
        (432, [1, 23], 18, 10.186),
        (432, [1, 5, 23, 95], 7, 4.088),
    ],
)
def test_hop_counts_of_published_circulants(n, distances, diameter, mean):
    """Diameters and mean hops."""
    found = diameter_and_mean(hop_counts(linked(make_cluster(n, 2 * len(distances)), distances)))
    assert found[0] == diameter
    assert found[1] == pytest.approx(mean, abs=5e-4)


def test_hop_counts_of_a_torus_of_4096_servers():
    """Every ring of 16 adds distances 0, 1 1, 2 2, ..., 7 7, 8: 64 in all, so three of them 3 * 64 / 16 on average.

    Searched arc by arc: a product of dense matrices a level, 24 of them, would take minutes.
    """
    place = np.arange(4096).reshape(16, 16, 16)
    links = np.zeros((4096, 4096), dtype=bool)
    for axis in range(3):
        for step in (1, -1):
            links[place.ravel(), np.roll(place, step, axis=axis).ravel()] = True
    diameter, mean = diameter_and_mean(hop_counts(links))
    assert diameter == 24
    assert mean == pytest.approx(12 * 4096 / 4095)


def test_hop_counts_without_a_way():
    """Unreachable servers have -1 hops, and the graph no diameter."""
    hops = hop_counts(np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]], dtype=bool))
    assert hops.tolist() == [[0, 1, -1], [-1, 0, -1], [-1, -1, 0]]
    assert diameter_and_mean(hops) == (-1, float("inf"))


@settings(max_examples=80)
@given(jobs)
def test_window_bound_is_below_every_schedule_and_some_subset_attains_it(rows):
    """No order of the jobs beats the bound, and no set of jobs gives less than it claims."""
    release, work, tail = (np.array(column) for column in zip(*rows, strict=True))
    bound = window_bound(release, work, tail)
    best = float("inf")
    for order in permutations(range(len(rows))):
        now = end = 0.0
        for j in order:
            now = max(now, release[j]) + work[j]
            end = max(end, now + tail[j])
        best = min(best, end)
    assert bound <= best + 1e-9
    subsets = [
        min(release[j] for j in chosen) + sum(work[j] for j in chosen) + min(tail[j] for j in chosen)
        for size in range(1, len(rows) + 1)
        for chosen in map(list, combinations(range(len(rows)), size))
    ]
    assert bound <= max(subsets) + 1e-9
    assert bound >= max(r + w + t for r, w, t in rows) - 1e-9


def test_window_bound_closed_forms():
    """Two jobs of 3 released at 1 with tails 2 and 5: 1 + 6 + 2, or 1 + 3 + 5."""
    assert window_bound(np.array([1.0, 1.0]), np.array([3.0, 3.0]), np.array([2.0, 5.0])) == 9.0
    assert window_bound(np.array([1.0, 0.0]), np.array([1.0, 1.0]), np.array([9.0, 0.0])) == 11.0
    assert window_bound(np.zeros(0), np.zeros(0), np.zeros(0)) == 0.0
    one = np.array([1.0, 2.0, 4.0])
    # Resource 2 has the jobs of 1 and 4: 4 + 4 + 4 for the second alone is more than 1 + 5 + 1 for both.
    assert windows_by(np.array([2, 0, 2]), 3, one, one, one) == (12.0, 2)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 3), times, times), max_size=8))
def test_latest_by_is_the_largest_level_plus_work_above_it(rows):
    """Equal to trying every level of every owner."""
    owner = np.array([row[0] for row in rows], dtype=np.int64)
    level, work = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    expected = [
        max((t + sum(w for o, u, w in rows if o == k and u >= t) for o, t, _ in rows if o == k), default=0.0)
        for k in range(4)
    ]
    assert latest_by(owner, 4, level, work) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("links", "n", "degree", "expected"),
    [
        (LinkDirection.BIDIRECTIONAL, 16, 4, [1] * 4 + [2] * 11),
        (LinkDirection.BIDIRECTIONAL, 20, 3, [1] * 3 + [2] * 6 + [3] * 10),
        (LinkDirection.UNIDIRECTIONAL, 16, 3, [1] * 3 + [2] * 9 + [3] * 3),
        (LinkDirection.UNIDIRECTIONAL, 5, 1, [1, 2, 3, 4]),
        (LinkDirection.BIDIRECTIONAL, 6, 2, [1, 1, 2, 2, 3]),
        (LinkDirection.BIDIRECTIONAL, 2, 1, [1]),
    ],
)
def test_nearest_hops_are_the_moore_layers(links, n, degree, expected):
    """At most d, d (d-1) or d^2, ... servers at one hop, two hops, ..."""
    assert nearest_hops(make_cluster(n, degree, links)).tolist() == expected


@settings(max_examples=30)
@given(st.integers(5, 12), st.integers(2, 5), st.integers(0, 2**31))
def test_no_circulant_beats_the_distance_bound(n, second, seed):
    """Bytes times true hop counts are at least the bound, for random demand."""
    cluster = make_cluster(n, 4)
    matrix = np.random.default_rng(seed).integers(0, 100, (n, n)).astype(float)
    np.fill_diagonal(matrix, 0)
    hops = hop_counts(linked(cluster, [1, min(second, n - 1)]))
    assert least_byte_hops(matrix, cluster) <= (matrix * hops).sum() + 1e-9


def pair_job(n, samples, first, second, width, mixes):
    """Two operators, the second reading the first, with one split each."""
    a = Operator("a", "dense", width, 4, (), (), (Split(first[0], 1.0, 1.0, 1, first[1], first[2]),))
    b = Operator(
        "b",
        "dense",
        width,
        4,
        (),
        (OperatorInput(0),),
        (Split(second[0], 1.0, 1.0, 1, second[1], second[2]),),
        mixes_channels=mixes,
    )
    return Workload("pair", samples, (a, b))


SHAPES = [(1, 1, 1), (2, 1, 1), (4, 1, 1), (1, 2, 1), (1, 4, 1), (2, 2, 1), (1, 1, 2), (2, 1, 2), (1, 2, 2)]


@pytest.mark.parametrize("mixes", [True, False])
@pytest.mark.parametrize("degree", [2, 3])
def test_edge_traffic_bound_holds_for_every_placement(mixes, degree):
    """No pair of splits and offsets moves fewer bytes times hops on {1} or on the full mesh of four servers."""
    cluster = make_cluster(4, degree)
    hops = hop_counts(linked(cluster, [1] if degree == 2 else [1, 2]))
    for first, second in product(SHAPES, SHAPES):
        workload = pair_job(4, 4, first, second, 6, mixes)
        (between,) = between_all(cluster, workload, choices_of(cluster, workload)).values()
        counts = [ways[0] * ways[1] * ways[2] for ways in (first, second)]
        for offsets in product(range(4 // counts[0]), range(4 // counts[1])):
            parts = tuple(
                place(index, workload.operators[index], Placement(0, offset), 4) for index, offset in enumerate(offsets)
            )
            traffic = recompute_traffic(cluster, workload, parts)
            assert 2 * between[0, 0, 0] <= (traffic.matrix * hops).sum()
            (edge,) = traffic.edges
            received = np.bincount(edge.target_part, weights=edge.bytes, minlength=counts[1])
            sent = np.bincount(edge.source_part, weights=edge.bytes, minlength=counts[0])
            assert between[0, 0, 1] <= received.min()
            assert between[0, 0, 2] <= sent.min()


def test_edge_traffic_closed_forms():
    """One table to 16 servers at d = 4: 4 parts at one hop and 11 at two; equal sample splits move nothing."""
    cluster = make_cluster(16, 4)
    table = Operator("t", "embedding", 8, 4, (), (), sample_splits([1, 16]))
    layer = Operator("l", "dense", 8, 4, (), (OperatorInput(0),), sample_splits([1, 16]))
    workload = Workload("job", 32, (table, layer))
    (between,) = between_all(cluster, workload, choices_of(cluster, workload)).values()
    part = 2 * 8 * 4
    assert between[..., 0].tolist() == [[0.0, 26.0 * part], [26.0 * part, 0.0]]
    assert between[..., 2].tolist() == [[0.0, 15.0 * part], [0.0, 0.0]]
    assert between[..., 1].tolist() == [[0.0, 0.0], [15.0 * part, 0.0]]


@st.composite
def labellings(draw):
    """A random graph over up to four operators with one to three splits each, and random costs."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    cost = st.integers(0, 9).map(float)
    pairs = draw(st.sets(st.sampled_from(list(combinations(range(4), 2))), max_size=5))
    edges = tuple((u, v) for u, v in sorted(pairs) if v < len(sizes))
    of_edges = tuple(np.array([[draw(cost) for _ in range(sizes[v])] for _ in range(sizes[u])]) for u, v in edges)
    first = tuple(np.array([draw(cost) for _ in range(k)]) for k in sizes)
    second = tuple(np.array([draw(cost) for _ in range(k)]) for k in sizes)
    return sizes, edges, (first, second, of_edges)


def all_labellings(sizes, edges, costs):
    """(first, second) of every choice of splits."""
    for label in product(*(range(k) for k in sizes)):
        first = sum(float(cost[i]) for cost, i in zip(costs[0], label, strict=True))
        second = sum(float(cost[i]) for cost, i in zip(costs[1], label, strict=True))
        second += sum(float(cost[label[u], label[v]]) for (u, v), cost in zip(edges, costs[2], strict=True))
        yield first, second


@settings(max_examples=80)
@given(labellings(), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_least_labelling_is_exact_on_forests_and_a_bound_elsewhere(case, weight):
    """Dynamic programming against all labellings."""
    sizes, edges, costs = case
    forest = spanning_forest(len(sizes), edges, costs[2])
    first, second = least_labelling(forest, edges, costs, weight)
    found = weight * first + (1 - weight) * second
    best = min(weight * a + (1 - weight) * b for a, b in all_labellings(sizes, edges, costs))
    assert found <= best + 1e-9
    if not forest[3]:
        assert found == pytest.approx(best)


@settings(max_examples=80)
@given(labellings(), st.integers(0, 9).map(float))
def test_largest_of_least_is_between_a_grid_and_the_truth(case, offset):
    """At least the best of a grid of weights, at most the least max(first, offset + second) of any labelling."""
    sizes, edges, costs = case
    forest = spanning_forest(len(sizes), edges, costs[2])
    found = largest_of_least(forest, edges, costs, offset)
    truth = min(max(a, offset + b) for a, b in all_labellings(sizes, edges, costs))
    assert found <= truth + 1e-9
    for weight in np.linspace(0, 1, 21):
        a, b = least_labelling(forest, edges, costs, float(weight))
        assert found >= weight * a + (1 - weight) * (offset + b) - 1e-9
