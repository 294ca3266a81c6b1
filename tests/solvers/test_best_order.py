"""The best order of passes of tiny pipelines, against all orders tried."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

from solvers.pipeline.best_order import OrderTask, best_order
from solvers.stop import Stop
from topoopt.core.errors import InfeasibleError
from topoopt.core.pipeline import PassKind, PipelineSchedule, PipelineShape, StageCosts
from topoopt.core.verdict import StopReason
from topoopt.simulate.pipeline import pipeline_time
from topoopt.simulate.pipeline.orders import in_a_line
from topoopt.simulate.pipeline.table import PipelineMemory
from topoopt.simulate.pipeline.timeline import TickCosts, most_held

TAKES = np.array([[3.0], [-1.0], [-2.0]])


@cache
def rank_orders(m: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """All orders of a rank in which each kind takes micro-batches in turn."""
    found = []
    kinds = [PassKind.FORWARD] * m + [PassKind.INPUTS] * m + [PassKind.WEIGHTS] * m
    for order in set(itertools.permutations(kinds)):
        counts = dict.fromkeys(kinds, 0)
        rows = []
        for kind in order:
            rows.append((int(kind), counts[kind]))
            counts[kind] += 1
            if not counts[PassKind.FORWARD] >= counts[PassKind.INPUTS] >= counts[PassKind.WEIGHTS]:
                break
        else:
            found.append(tuple(rows))
    return tuple(sorted(found))


def least_of_all(task: OrderTask) -> int | None:
    """The least objective over all orders that fit."""
    p, m = task.shape.ranks, task.shape.micro_batches
    values = []
    for choice in itertools.product(rank_orders(m), repeat=p):
        rows = [(kind, i, rank) for rank, order in enumerate(choice) for kind, i in order]
        orders = in_a_line(task.shape, np.array(rows, dtype=np.int32), 3 * m)
        if (most_held(orders, task.adds[0], -task.adds[2]) <= task.room).all():
            try:
                values.append(task.value(orders))
            except ValueError:  # ranks that wait for each other
                continue
    return min(values, default=None)


@pytest.mark.parametrize("method", ["cp-sat", "milp"])
def test_against_all_orders(method: str) -> None:
    """Unequal stages, transfers that block or not, several rooms, both objectives: the least of all, proven."""
    rng = np.random.default_rng(17)
    for trial in range(6):
        p, m = ((2, 2), (3, 2), (1, 3))[trial % 3]
        shape = PipelineShape(p, m)
        costs = StageCosts(
            *rng.integers(1, 6, (3, p)).astype(float),
            transfer_s=float(rng.integers(0, 3)),
            blocking=trial % 2 == 0,
        )
        room = float(rng.choice([3.0, 5.0, 6.0, 100.0]))
        task = OrderTask(shape, TickCosts.of(costs, m), TAKES.repeat(p, axis=1), room, longest_rank=trial > 2)
        best = best_order(task, Stop(), method=method)
        assert best.stopped_by is StopReason.CONVERGED
        assert best.bound == best.ticks == task.value(best.orders) == least_of_all(task)
        assert most_held(best.orders, task.adds[0], -task.adds[2]).max() <= room


def test_zero_bubble_is_possible_in_twice_the_memory() -> None:
    """ZB-H1 is the best in the memory of 1F1B, with 2 (F + B - W) of bubble on three ranks; with room for 2p - 1 there
    is none (arXiv:2401.10241, ZB-H2)."""
    shape = PipelineShape(3, 6)
    costs = StageCosts.uniform(shape, 1.0, 1.0, 1.0)
    ticks = TickCosts.of(costs, 6)
    known = pipeline_time(PipelineSchedule.ZB_H1, shape, costs, PipelineMemory.usual(3), whole=True).orders
    for room, expected in ((3.0, 20.0), (5.0, 18.0)):
        task = OrderTask(shape, ticks, TAKES.repeat(3, axis=1), 3.0 * room, known, longest_rank=True)
        best = best_order(task, Stop())
        assert (ticks.seconds(best.ticks), best.bound) == (pytest.approx(expected), best.ticks)


def test_no_room_and_no_time() -> None:
    """Less room than one micro-batch takes is refused; without time there is an order and a bound that holds."""
    shape = PipelineShape(2, 3)
    ticks = TickCosts.of(StageCosts.uniform(shape, 1.0, 1.0, 1.0), 3)
    adds = TAKES.repeat(2, axis=1)
    with pytest.raises(InfeasibleError, match="one micro-batch"):
        best_order(OrderTask(shape, ticks, adds, 2.0), Stop())
    best = best_order(OrderTask(shape, ticks, adds, 3.0), Stop(deadline=0.0))
    assert best.bound <= best.ticks
    assert best_order(OrderTask(shape, ticks, adds, 3.0), Stop()).ticks >= best.bound
