"""Rings of a plan as the jumps of the FlexNet format, on servers that are numbered for it where they must be."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from topoopt.core.errors import InputError
from topoopt.core.workload import GroupRings, Ring
from topoopt.formats.flexnet.write import EXPORTER, numbers_and_jumps


def rings(*orders: tuple[int, ...]) -> GroupRings:
    """Rings of direct links."""
    found = [Ring(order, 1 / len(orders), tuple(pairwise((*order, order[0])))) for order in orders]
    return GroupRings(tuple(sorted(orders[0])), tuple(found))


def strides(servers: int, *steps: int) -> list[tuple[int, ...]]:
    """Orders of the rings i -> i + step."""
    return [tuple(i * step % servers for i in range(servers)) for step in steps]


def test_jumps_keep_the_numbers() -> None:
    """Strides 1 and 3 on eight servers, and on the two halves of them by stride 2, are what the format says."""
    halves = [rings((0, 2, 4, 6), (0, 6, 4, 2)), rings((1, 3, 5, 7), (1, 7, 5, 3))]
    number, jumps = numbers_and_jumps([rings(*strides(8, 1, 3)), *halves], 8)
    assert number == tuple(range(8))
    assert jumps == {8: ((1,), (3,)), 4: ((2,), (6,))}


@pytest.mark.parametrize("seed", range(10))
def test_any_names_of_a_circulant_will_do(seed: int) -> None:
    """Strides 1, 5 and 7 of twelve servers called at random: jumps from another start, times a number prime to 12."""
    called = np.random.default_rng(seed).permutation(12).tolist()
    orders = [tuple(called[server] for server in order) for order in strides(12, 5, 7, 1)]
    number, jumps = numbers_and_jumps([rings(*orders)], 12)
    assert sorted(number) == list(range(12))
    for order, step in zip(orders, (1, 11, 5), strict=True):  # 5, 7 and 1, times 5, which is its own inverse
        assert {(number[b] - number[a]) % 12 for a, b in pairwise((*order, order[0]))} == {step}
    assert jumps == {12: ((1,), (5,), (11,))}


def test_groups_apart() -> None:
    """Two rings of three that share no server become jumps of two."""
    number, jumps = numbers_and_jumps([rings((0, 1, 2)), rings((5, 3, 4))], 6)
    assert jumps == {3: ((2,),)}
    assert [number[server] for server in (0, 1, 2, 5, 3, 4)] == [0, 2, 4, 1, 3, 5]


def test_rings_that_no_numbers_make_jumps() -> None:
    """By the order of the first ring the second one jumps by 2 and by others: refused."""
    with pytest.raises(InputError, match="not the same jump from every server"):
        numbers_and_jumps([rings((0, 1, 2, 3, 4), (0, 2, 1, 3, 4))], 5)


def test_what_the_simulator_does_is_said() -> None:
    """One path a pair and equal shares are said of every file."""
    assert any("draws one of those listed at random" in limit for limit in EXPORTER.limits)
