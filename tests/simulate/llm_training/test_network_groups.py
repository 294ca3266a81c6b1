"""Which servers exchange what: groups of ranks on servers, by hand and for every order of the dimensions."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from tests.support.llm_cases import strategy
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import RANK_ORDER
from topoopt.simulate.llm_training.links import family_groups


def test_groups_of_a_small_case_by_hand() -> None:
    """tensor 4, pipeline 2, data 4 on four servers of eight: a stage is two servers, with two replicas each."""
    found = family_groups(strategy(tensor=4, pipeline=2, data=4), 8)
    assert set(found.collectives) == {F.DATA}
    (data,) = found.collectives[F.DATA]
    assert data.blocks.tolist() == [[0, 1], [2, 3]]
    assert data.groups.tolist() == [4.0, 4.0]  # one for each tensor rank
    assert data.relayed == 1.0  # 4 ranks further within eight is the other half of the server
    assert (found.hops.source.tolist(), found.hops.target.tolist()) == ([0, 1], [2, 3])
    assert found.hops.amount.tolist() == [8.0, 8.0]
    assert found.relayed == 0.0


def test_experts_fold_over_replicas() -> None:
    """16 experts' ranks over 32 of a stage: two servers hold all experts, replicas are two servers apart."""
    found = family_groups(strategy(tensor=1, pipeline=2, data=32, expert=16), 8).collectives
    assert found[F.EXPERT][0].blocks.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert found[F.EXPERT_DATA][0].blocks.tolist() == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert found[F.EXPERT_DATA][0].groups.tolist() == [8.0] * 4
    assert found[F.DATA][0].blocks.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_stages_pass_round_where_ranks_have_several_runs_of_layers() -> None:
    """With chunks the last rank sends to the first one."""
    pairs = family_groups(strategy(tensor=8, pipeline=4, chunks=2), 8).hops
    assert list(zip(pairs.source.tolist(), pairs.target.tolist(), strict=True)) == [(0, 1), (1, 2), (2, 3), (3, 0)]


def test_a_group_need_not_fill_its_servers() -> None:
    """tensor 6 on servers of eight: groups lie across the borders of servers, unevenly."""
    (groups,) = family_groups(strategy(tensor=6, data=4), 8).collectives[F.TENSOR]
    assert groups.blocks.tolist() == [[0, 1], [1, 2]]
    assert groups.groups.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("order", list(permutations(RANK_ORDER)))
def test_every_order_keeps_the_sums(order: tuple) -> None:  # type: ignore[type-arg]
    """Each rank is in one group of each family; the edges between servers are counted one by one."""
    one = strategy(tensor=2, context=2, pipeline=4, data=8, expert=8, order=order)
    found = family_groups(one, 8)
    at = np.array(np.unravel_index(np.arange(one.gpus), [_size(one, name) for name in reversed(order)]))[::-1]
    where = dict(zip(order, at, strict=True))
    rows: dict[tuple[int, ...], set[int]] = {}
    for rank in range(one.gpus):
        rows.setdefault((int(where["tensor"][rank]), int(where["pipeline"][rank])), set()).add(rank // 8)
    wanted: dict[tuple[int, ...], int] = {}
    for blocks in rows.values():
        if len(blocks) > 1:
            wanted[tuple(sorted(blocks))] = wanted.get(tuple(sorted(blocks)), 0) + 1
    listed = {
        tuple(row): int(count)
        for part in found.collectives.get(F.DATA, ())
        for row, count in zip(part.blocks.tolist(), part.groups.tolist(), strict=True)
    }
    assert listed == wanted


def _size(one: object, name: str) -> int:
    return int(getattr(one, name))
