"""Starts that put the branches of each layer on cosets in turn."""

from __future__ import annotations

from solvers.job.starts import layers_on_cosets
from topoopt.core.workload import Operator, OperatorInput, Placement, Split, Workload

SPLITS = (Split(4, 1.0, 1.0, 1), Split(2, 2.0, 2.0, 1), Split(1, 4.0, 4.0, 1))


def _layers(count: int, experts: int) -> Workload:
    """Layers of a gate and experts side by side, one behind the other."""
    operators: list[Operator] = []
    behind: tuple[int, ...] = ()
    for layer in range(count):
        gate = len(operators)
        inputs = tuple(OperatorInput(u) for u in behind)
        operators.append(Operator(f"gate{layer}", "dense", 8, 4, (10,), inputs, SPLITS[:1]))
        for e in range(experts):
            operators.append(Operator(f"e{layer}.{e}", "dense", 8, 4, (10,), (OperatorInput(gate),), SPLITS))
        behind = tuple(range(gate + 1, gate + 1 + experts))
    operators.append(Operator("head", "dense", 8, 4, (10,), tuple(OperatorInput(u) for u in behind), SPLITS[:1]))
    return Workload("layers", 64, tuple(operators))


def test_all_but_the_first_of_each_layer_in_turn() -> None:
    """Two layers of four experts on four servers, one whole: the others on both pairs of servers in turn."""
    strategy = layers_on_cosets(4, _layers(2, 4), 2, 1)
    assert strategy is not None
    whole, even, odd = Placement(0, 0), Placement(1, 0), Placement(1, 1)
    assert strategy.placements == (*(whole, whole, even, odd, even) * 2, whole)


def test_one_layer_is_for_other_starts() -> None:
    """One layer of branches, or splits that there are not: no such start."""
    assert layers_on_cosets(4, _layers(1, 4), 2, 0) is None
    assert layers_on_cosets(8, _layers(2, 4), 8, 0) is None
