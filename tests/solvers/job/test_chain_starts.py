"""The start that puts chains of one branch, such as encoder and decoder, on cosets beside each other."""

from __future__ import annotations

from solvers.job.starts import chains, chains_on_cosets, left_over_on_halves, starting_strategies
from topoopt.core.cluster import Cluster
from topoopt.core.workload import Operator, OperatorInput, Placement, Split, Workload

LONG = (Split(4, 2.0, 2.0, 1), Split(2, 4.0, 4.0, 1), Split(1, 8.0, 8.0, 1))
SHORT = (Split(4, 1.0, 1.0, 1), Split(2, 2.0, 2.0, 1), Split(1, 4.0, 4.0, 1))


def _translator() -> Workload:
    """Three encoders (0, 1, 3) in a row, of which decoders (2, 4, 5), twice as long, read one each, and a head."""
    inputs = ((), (0,), (0,), (1,), (2, 1), (4, 3), (5,))
    splits = (SHORT, SHORT, LONG, SHORT, LONG, LONG, SHORT)
    operators = tuple(
        Operator(f"o{index}", "dense", 8, 4, (10,), tuple(OperatorInput(u) for u in own), choices)
        for index, (own, choices) in enumerate(zip(inputs, splits, strict=True))
    )
    return Workload("translator", 64, operators)


def test_the_longest_chain_first() -> None:
    """The first encoder, all decoders and the head; then what is left of the encoders."""
    assert chains(_translator()) == [[0, 2, 4, 5, 6], [1, 3]]


def test_chains_beside_each_other_up_to_the_end() -> None:
    """Work of 4, 4, 8, 4, 8, 8, 4 on a pair: the first five have 28 of 40, the sixth passes three quarters."""
    strategy = chains_on_cosets(4, _translator(), 2)
    assert strategy is not None
    even, odd, whole = Placement(1, 0), Placement(1, 1), Placement(0, 0)
    assert strategy.placements == (even, odd, even, odd, even, whole, whole)
    rough = [start for start in starting_strategies(Cluster(4, 1, 2, 100.0), _translator()) if start.rough]
    assert [start.strategy for start in rough] == [strategy]


def test_a_row_has_no_second_chain() -> None:
    """Two operators in a row."""
    assert chains_on_cosets(4, Workload("row", 64, _translator().operators[:2]), 2) is None


def test_a_branch_left_over_on_halves() -> None:
    """Three like branches of two layers on four servers: two on cosets of two, the last on even and then odd servers.

    A light branch and the head stay data parallel; the branch left over changes halves at half of its weights.
    """
    operators = []
    for b in range(3):
        operators.append(Operator(f"first {b}", "dense", 8, 4, (10,), (), LONG))
        operators.append(Operator(f"second {b}", "dense", 8, 4, (10,), (OperatorInput(2 * b),), LONG))
    light = (Split(4, 0.1, 0.1, 1), Split(2, 0.2, 0.2, 1))
    operators.append(Operator("light", "dense", 8, 4, (10,), (), light))
    operators.append(Operator("head", "dense", 8, 4, (10,), tuple(map(OperatorInput, (1, 3, 5, 6))), SHORT))
    job = Workload("branches", 64, tuple(operators))
    even, odd, whole = Placement(1, 0), Placement(1, 1), Placement(0, 0)
    for first, halves in ((0, (even, odd)), (1, (odd, even))):
        strategy = left_over_on_halves(4, job, first)
        assert strategy is not None
        assert strategy.placements == (even, even, odd, odd, *halves, whole, whole)
    assert left_over_on_halves(4, Workload("two", 64, job.operators[:4]), 0) is None
