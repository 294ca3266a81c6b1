"""The network in the report: traffic matrices, link statistics, link families, switches, rings and routes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.support.handmade import HandmadeResult, altered
from topoopt.core.cluster import LinkDirection
from topoopt.core.job import Span
from topoopt.core.topology import Topology
from topoopt.core.workload import AllReduceDemand, Demand, GroupRings, PathTable, Ring
from topoopt.kinds.job.tables import allreduce_bytes, link_statistics, ring_text, rings_table, routes_table
from topoopt.page.charts import colour_index, in_blocks, use_class
from topoopt.page.networks import describe_permutation, families, find_links

Builder = Callable[..., HandmadeResult]


def test_allreduce_matrix_follows_the_rings(make_solution: Builder) -> None:
    """Two rings over three of four servers, shares 3/4 and 1/4: a member sends 2 * 2/3 * payload in all."""
    plain = make_solution(4, (1,))
    members = (0, 1, 2)
    hop = ((0, 1), (1, 2), (2, 3, 0))
    back = ((0, 3, 2), (2, 1), (1, 0))
    rings = (GroupRings(members, (Ring((0, 1, 2), 0.75, hop), Ring((0, 2, 1), 0.25, back))),)
    demand = Demand(np.zeros((4, 4)), (AllReduceDemand(members, 900.0),))
    matrix = allreduce_bytes(altered(plain, plan=replace(plain.plan, rings=rings), demand=demand).figures)
    expected = np.zeros((4, 4))
    expected[[0, 1, 2], [1, 2, 0]] = 900.0
    expected[[0, 2, 1], [2, 1, 0]] = 300.0
    assert matrix == pytest.approx(expected)


def test_blocks_keep_the_bytes() -> None:
    """Summing into blocks loses nothing, and a small matrix is left alone."""
    matrix = np.arange(49.0).reshape(7, 7)
    cells, block = in_blocks(matrix, 3)
    assert block == 3
    assert cells.shape == (3, 3)
    assert cells.sum() == matrix.sum()
    assert cells[0, 2] == matrix[0:3, 6].sum()
    assert in_blocks(matrix, 7)[1] == 1


@pytest.mark.parametrize("logarithmic", [True, False])
def test_colours_grow_with_traffic(logarithmic: bool) -> None:
    """No traffic is transparent, the largest cell has the last colour, and more bytes never look lighter."""
    values = np.array([[0.0, 1.0, 10.0], [100.0, 1e4, 1e9], [5e8, 2e9, 0.0]])
    index = colour_index(values, logarithmic)
    assert index[0, 0] == index[2, 2] == 0
    assert index.max() == 255 == index[2, 1]
    order = np.argsort(values, axis=None)
    assert (np.diff(index.ravel()[order].astype(int)) >= 0).all()
    assert (index[values > 0] > 0).all()
    assert (colour_index(np.full((2, 2), 5.0), logarithmic) == 255).all()


def test_logarithmic_scale_halves_at_the_geometric_mean() -> None:
    """Between 1 and 100 the value 10 stands in the middle."""
    assert colour_index(np.array([[1.0, 10.0, 100.0]]), True).tolist() == [[1, 128, 255]]


def test_link_statistics_count_parallel_links(make_solution: Builder) -> None:
    """Arcs of 1, 1 and 2 links with 30, 10 and 80 bytes: loads 30, 10, 40, mean 120/4, imbalance 4/3."""
    plain = make_solution(4, (1,))
    topology = Topology(
        servers=4,
        degree=3,
        links=LinkDirection.UNIDIRECTIONAL,
        arcs=np.array([[0, 1], [1, 2], [2, 3]], dtype=np.int32),
        multiplicity=np.array([1, 1, 2], dtype=np.int32),
        switches=np.full((3, 4), -1, dtype=np.int32),
    )
    ms = 100 / (plain.figures.cluster.link_gbps * 1e9 / 8 / 1000)  # of 100 bytes on a link
    path = (Span(0, "forward", "a", 0.0, ms),)
    evaluation = replace(plain.figures.evaluation, link_bytes=np.array([30.0, 10.0, 80.0]), critical_path=path)
    case = altered(plain, evaluation=evaluation, plan=replace(plain.plan, topology=topology))
    found = link_statistics(case.figures)
    assert (found.arcs, found.links, found.unused) == (3, 4, 0)
    assert (found.mean_bytes, found.max_bytes, found.min_bytes) == (30.0, 40.0, 10.0)
    assert found.imbalance == pytest.approx(4 / 3)
    assert found.mean_utilisation == pytest.approx(0.3)  # (0.3 + 0.1 + 2 * 0.4) / 4
    assert found.max_utilisation == pytest.approx(0.4)


def test_links_are_told_apart() -> None:
    """A ring on six servers, the link of a group's ring, and a matching get three families; parallels are counted."""
    ring = [(i, (i + 1) % 6) for i in range(6)]
    pairs = [*ring, (0, 3), (1, 4)]
    arcs = sorted([*pairs, *((j, i) for i, j in pairs)])
    topology = Topology(
        servers=6,
        degree=4,
        links=LinkDirection.BIDIRECTIONAL,
        arcs=np.array(arcs, dtype=np.int32),
        multiplicity=np.array([2 if set(arc) == {1, 4} else 1 for arc in arcs], dtype=np.int32),
        switches=np.full((4, 6), -1, dtype=np.int32),
    )
    group = GroupRings((0, 3), (Ring((0, 3), 1.0, ((0, 3), (3, 0))),))
    links = find_links(topology, (group,))
    assert len(links) == 8
    assert {(link.tail, link.head): link.family for link in links if link.family != "ring-1"} == {
        (0, 3): "group",
        (1, 4): "matching",
    }
    assert [(name, count) for _, name, count in families(topology, links)] == [
        ("ring distance ±1", 6),
        ("rings of server groups", 1),
        ("matchings", 2),
    ]


def test_utilisation_classes_are_ordered() -> None:
    """Idle links get the first class, saturated ones the last, edges belong to the lower one."""
    assert [use_class(u) for u in (0.0, 0.2, 0.21, 0.5, 0.7, 0.9, 1.0)] == ["u0", "u0", "u1", "u2", "u3", "u4", "u5"]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([1, 2, 3, 4, 0], "server i → i + 1 (mod 5)"),
        ([4, 0, 1, 2, 3], "server i → i − 1 (mod 5)"),
        ([1, 0, 3, 2, -1], "matching of 2 pairs, 1 dark port"),
        ([1, 2, 0, 4, 3], "permutation, 2 cycles"),
        ([-1, -1, -1, -1, -1], "all ports dark"),
    ],
)
def test_permutations_in_words(row: list[int], words: str) -> None:
    """Shifts, matchings, other permutations, and dark ports."""
    assert describe_permutation(np.array(row, dtype=np.int32)) == words


def test_rings_in_words(make_solution: Builder) -> None:
    """A direct ring by its offset, a forwarded one with its hops; equal groups share a row."""
    direct = Ring((0, 5, 10, 3), 1.0, ((0, 5), (5, 10), (10, 3), (3, 0)))
    assert ring_text(direct, 12) == "+5 ×3, −3 ×1"
    stride = Ring((0, 6), 1.0, ((0, 1, 6), (6, 7, 0)))
    assert ring_text(stride, 12) == "+6 (+1 +5)"
    uneven = Ring((0, 6), 1.0, ((0, 1, 6), (6, 0)))
    assert ring_text(uneven, 12) == "+6 (1.500 hops on average)"
    assert [tuple(row[:4]) for row in rings_table(make_solution(16).figures).rows] == [
        (1, 16, "all 16", "127.9 MB"),
        (4, 4, "0,4,8,12, and 3 more", "16.78 MB each"),
    ]


def test_route_summary_weighs_by_bytes(make_solution: Builder) -> None:
    """A pair of 300 bytes split 2:1 over one and two hops, and a pair of 100 bytes over one: 500 byte-hops in 400."""
    plain = make_solution(4, (1,))
    table = PathTable(
        nodes_total=4,
        source=np.array([0, 1], dtype=np.int32),
        target=np.array([1, 2], dtype=np.int32),
        pair_ptr=np.array([0, 2, 3], dtype=np.int64),
        share=np.array([2 / 3, 1 / 3, 1.0]),
        path_ptr=np.array([0, 2, 5, 7], dtype=np.int64),
        node=np.array([0, 1, 0, 3, 1, 1, 2], dtype=np.int32),
    )
    matrix = np.zeros((4, 4))
    matrix[0, 1], matrix[1, 2] = 300.0, 100.0
    case = altered(plain, plan=replace(plain.plan, routes=table), demand=Demand(matrix, ()))
    found = routes_table(case.figures)
    assert found.note.startswith("2 ordered pairs over 3 paths; 1 pair split over several.")
    assert "1.250 hops on average, at most 2" in found.note
    texts = [[column.text(value) for column, value in zip(found.columns, row, strict=True)] for row in found.rows]
    assert [row[:4] for row in texts] == [["1", "2", "300 B", "75.0 %"], ["2", "1", "100 B", "25.0 %"]]
