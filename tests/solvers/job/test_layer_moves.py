"""Moves of whole layers of like branches: what counts as one, and what a move does to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solvers.job.annealing import graph_shape, like_layers
from solvers.job.starts import data_parallel
from topoopt.core.cluster import Cluster
from topoopt.core.workload import Operator, OperatorInput, Split, Workload
from topoopt.native import jobs
from topoopt.simulate.network import strategy_arrays, workload_arrays

N = 4
WAYS = tuple(Split(k, 4.0 / k, 4.0 / k, 1) for k in (4, 2, 1))


def banks(layers: int, experts: int, deep: int = 1) -> Workload:
    """Banks of experts, each of `deep` operators, one behind the other."""
    operators: list[Operator] = []
    behind: tuple[int, ...] = ()
    for layer in range(layers):
        gate = len(operators)
        operators.append(Operator(f"g{layer}", "dense", 8, 4, (9,), tuple(map(OperatorInput, behind)), WAYS))
        ends = []
        for e in range(experts):
            last = gate
            for k in range(deep):
                name = f"e{layer}.{e}.{k}"
                operators.append(Operator(name, "dense", 8, 4, (9,), (OperatorInput(last),), WAYS))
                last = len(operators) - 1
            ends.append(last)
        behind = tuple(ends)
    operators.append(Operator("head", "dense", 8, 4, (9,), tuple(map(OperatorInput, behind)), WAYS))
    return Workload("banks", 64, tuple(operators))


def moved(workload: Workload, steps: int):
    """(split, offset) before and after each of so many moves from data parallelism."""
    arrays, groups = workload_arrays(Cluster(N, 1, 2, 25.0), workload), like_layers(workload)
    rng = np.array([7], dtype=np.uint64)
    split, offset = strategy_arrays(data_parallel(N, workload))
    for _ in range(steps):
        before = split.copy(), offset.copy()
        told = jobs.move_layer(arrays, groups, split, offset, rng)
        yield before, (split.copy(), offset.copy()), told


def test_layers_are_branches_that_read_the_same() -> None:
    """Two banks of three experts of two operators; gates and head are no layers, nor is a pinned expert in one."""
    workload = banks(2, 3, deep=2)
    found = like_layers(workload)
    assert found.layer_ptr.tolist() == [0, 3, 6]
    assert found.branch_ptr.tolist() == [0, 2, 4, 6, 8, 10, 12]
    assert found.operator.tolist() == [1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13]
    assert found.like.tolist() == [0, 0]
    pinned = list(workload.operators)
    pinned[1] = replace(pinned[1], pinned_offset=0, splits=WAYS[:1])
    fewer = like_layers(Workload("pinned", 64, tuple(pinned)))
    assert fewer.layer_ptr.tolist() == [0, 2, 5]
    assert fewer.like.tolist() == [0, 1]


def test_a_chain_has_no_layers() -> None:
    """So its moves are those without any."""
    chain = Workload(
        "chain",
        64,
        tuple(Operator(f"o{i}", "dense", 8, 4, (9,), ((OperatorInput(i - 1),) if i else ()), WAYS) for i in range(3)),
    )
    assert len(graph_shape(chain).layers.like) == 0


def test_moves_change_layers_only_and_stay_legal() -> None:
    """After each move the trunk is as it was, splits and offsets are in range, and what is told is true."""
    workload = banks(2, 4, deep=2)
    trunk = [o for o in range(len(workload.operators)) if o not in like_layers(workload).operator]
    for before, (split, offset), told in moved(workload, 400):
        assert told == (not np.array_equal(before[0], split) or not np.array_equal(before[1], offset))
        assert (split[trunk] == before[0][trunk]).all()
        assert (offset[trunk] == before[1][trunk]).all()
        for each, s, at in zip(workload.operators, split, offset, strict=True):
            assert 0 <= s < len(each.splits)
            assert 0 <= at < N // each.splits[s].parts


def test_one_move_spreads_a_bank_and_one_copies_it() -> None:
    """Some moves put all experts of a bank on pairs of servers in turn, some make both banks alike at once."""
    workload = banks(2, 4)
    bank = np.array([1, 2, 3, 4])
    spread = copied = False
    for before, (split, offset), _ in moved(workload, 400):
        whole_before = (before[0][bank] == 0).all()
        spread |= whole_before and (split[bank] == 1).all() and offset[bank].tolist() in ([0, 1, 0, 1], [1, 0, 1, 0])
        was_alike = np.array_equal(before[0][bank], before[0][bank + 5])
        alike = np.array_equal(split[bank], split[bank + 5]) and np.array_equal(offset[bank], offset[bank + 5])
        copied |= alike and not was_alike and np.array_equal(split[bank], before[0][bank])
    assert spread
    assert copied
