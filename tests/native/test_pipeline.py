"""Orders, stages and seats of the native module, against plain definitions of what they are."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.native.calls_pipeline import (
    CALLS,
    drawn_parts,
    drawn_passes,
    drawn_shapes,
    drawn_tables,
    pipeline_orders,
    program_arguments,
    seats_case,
)
from tests.support.llm_cases import training
from topoopt.core.arrays import Floats, Ints
from topoopt.core.parallelism import Overlap, PassKind, PipelineSchedule
from topoopt.native import pipeline
from topoopt.simulate.llm_training.times import OrderShape, order_times
from topoopt.simulate.pipeline import PassOrders

FORWARD, INPUTS, WEIGHTS, REDUCED, GATHERED, STEP, LAYERS = range(7)
K = PassKind


def plain_stages(loads: list[int], chunks: int) -> list[int]:
    """Layers of every stage; longer chunks at the last turns, but the last rank's not behind the head."""
    ranks = len(loads)
    stages = [0] * (ranks * chunks)
    for rank, load in enumerate(loads):
        turns = [chunk for chunk in range(chunks) if chunk < chunks - (rank == ranks - 1)]
        longer = turns[len(turns) - load % chunks :]
        for chunk in range(chunks):
            stages[chunk * ranks + rank] = load // chunks + (chunk in longer)
    return stages


def test_even_stages() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        p, v, first, last = rng.integers(1, 6, (4, 3))
        layers = int(rng.integers(12, 60))
        stages = pipeline.even_stages(layers, p, v, first, last)
        for row, ranks, chunks, ends in zip(stages, p, v, zip(first, last, strict=True), strict=True):
            between = layers - sum(ends)
            inner = [between // max(ranks - 2, 1) + (rank < between % max(ranks - 2, 1)) for rank in range(ranks - 2)]
            loads = [ends[0], *inner, ends[1]] if ranks > 1 else [layers]
            assert row[: ranks * chunks].tolist() == plain_stages(loads, chunks)
            assert not row[ranks * chunks :].any()
        loads_of = pipeline.loads_of_ranks(p, stages)
        for own, row, ranks in zip(loads_of, stages, p, strict=True):
            assert own[:ranks].tolist() == [row[rank::ranks].sum() for rank in range(ranks)]


def slowest_rank(arguments: tuple[Any, ...], loads: tuple[int, ...]) -> float:
    """Seconds that loads of ranks take by the arguments of `balanced_stages`; inf where memory does not suffice."""
    shape, seconds, held, flight, usable, _, dense, _ = arguments
    times, own, each, last = [], held[0], seconds[0], len(loads) - 1
    for rank, load in enumerate(loads):
        plain, ends = min(dense, load) if rank == 0 else 0, (rank == 0, rank == last)
        space = plain * own[0] + (load - plain) * own[1] + flight[0, rank] * load * own[2] + own[3] + own[4:] @ ends
        time = plain * each[0] + (load - plain) * each[1] + shape[0, 1] * each[2] + each[3:] @ ends
        times.append(time if space <= usable else np.inf)
    return float(max(times))


def test_no_division_has_a_faster_slowest_rank() -> None:
    """All divisions of a few layers, in memory that holds many of them, few or none."""
    rng, outcomes = np.random.default_rng(2), set()
    for _ in range(200):
        p, v, layers, dense = (int(number) for number in rng.integers((1, 1, 5, 0), (5, 3, 9, 4)))
        tables = rng.random((1, 5)), rng.random((1, 6)), rng.integers(1, 4, (1, p)).astype(float)
        usable, given = float(rng.choice([3.0, 6.0, 99.0])), rng.integers(0, 9, (1, p * v))
        arguments = np.array([[p, v]]), *tables, usable, layers, dense, given
        stages = pipeline.balanced_stages(*arguments)[0]
        least = [v - (rank in (0, p - 1)) for rank in range(p)]
        divisions = product(*(range(low, layers + 1) for low in least))
        best = min((slowest_rank(arguments, loads) for loads in divisions if sum(loads) == layers), default=np.inf)
        outcomes.add(bool(best < np.inf))
        if best < np.inf:
            loads = tuple(int(stages[rank::p].sum()) for rank in range(p))
            assert slowest_rank(arguments, loads) == pytest.approx(best, rel=1e-12)
            assert stages.tolist() == plain_stages(list(loads), v)
        else:
            assert stages.tolist() == given[0].tolist()
    assert outcomes == {False, True}


def plain_tables(
    seconds: Floats, exchange: Floats, hidden: Any, layers: Ints, before: Ints, predicted: int, predicting: int
) -> Floats:
    """float64[7, S, R]."""
    kinds_of, ends = before.shape[1], np.cumsum(layers, axis=1)
    kinds = np.zeros((*layers.shape, kinds_of + 3))
    kinds[:, :, :kinds_of], kinds[:, :, -1] = before[ends] - before[ends - layers], 1
    kinds[:, -1, predicting] += predicted
    kinds[:, 0, -3] = kinds[:, -1, -2] = 1
    spans: Floats = np.einsum("rsk,rkn->nsr", kinds, seconds.reshape(len(layers), kinds_of + 3, 7))
    waited = (kinds[:, :, :kinds_of] * exchange[:, None]).sum(axis=2).T
    waited -= np.where(hidden, np.minimum(2 * waited, spans[6]) / 2, 0)
    spans[[FORWARD, INPUTS]] += waited
    spans[LAYERS] = np.maximum(kinds[:, :, :kinds_of].sum(axis=2), 1).T
    return spans


def test_stage_tables() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        arguments = drawn_parts(rng, rng.integers(0, 4, (int(rng.integers(1, 4)), int(rng.integers(1, 6)))))
        expected = plain_tables(*arguments)
        tables = pipeline.stage_tables(*arguments)
        np.testing.assert_allclose(tables, expected.reshape(tables.shape), rtol=1e-13)


def test_bounds_are_at_most_what_passes_take() -> None:
    """Strategies of every schedule followed; of equal stages and short hops, 1F1B and GPipe meet their bounds."""
    rng = np.random.default_rng(4)
    for _ in range(30):
        shape, layers = drawn_shapes(rng, 6)
        parts, hop = drawn_parts(rng, layers), 0.1 * rng.random(6)
        hiding, blocking = bool(rng.integers(0, 2)), bool(rng.integers(0, 2))
        arguments: tuple[Any, ...] = (*parts, shape, hop, hiding, blocking)
        bounds = pipeline.order_bounds(*arguments)
        problem = replace(training("llama3-70b", 8, 8, 4096), overlap=Overlap(data=hiding, pipeline=not blocking))
        for row, (schedule, p, v, m, zero) in enumerate(shape.tolist()):
            own = slice(row, row + 1)
            tables = plain_tables(parts[0][own], parts[1][own], parts[2][own], layers[own, : p * v], *parts[4:])
            order = OrderShape(tuple(PipelineSchedule)[schedule], p, v, m, zero)
            total = order_times(problem, order, np.ascontiguousarray(tables), hop[own], None).total[0]
            assert bounds[row] <= total * (1 + 1e-9)


@pytest.mark.parametrize("schedule", [0, 1])
def test_bounds_of_equal_stages(schedule: int) -> None:
    """(m + p - 1) passes of all kinds; one stage: m of them, and the step."""
    seconds = np.zeros((1, 4, 7))
    seconds[0, 0, :3], seconds[0, 0, STEP] = (1.0, 2.0, 4.0), 0.5
    for p, m in ((1, 5), (2, 2), (4, 9), (8, 3)):
        layers, shape = np.ones((1, p), dtype=np.int64), np.array([[schedule, p, 1, m, 0]])
        before = np.arange(p + 1)[:, None]
        parts = seconds.reshape(1, -1), np.zeros((1, 1)), np.zeros(1, dtype=bool), layers, before, 0, 0
        assert pipeline.order_bounds(*parts, shape, np.zeros(1), True, False).tolist() == [7.0 * (m + p - 1) + 0.5]


def test_exchanges_around_the_passes() -> None:
    """Gathering before, reducing behind, layer by layer; the step; each by its definition."""
    rng = np.random.default_rng(5)
    for _ in range(60):
        stages, ranks, hiding, split = int(rng.integers(1, 7)), int(rng.integers(1, 4)), rng.random() < 0.5, True
        flat, home = drawn_tables(rng, stages, 2), rng.integers(0, min(ranks, stages), stages)
        t, done = flat.reshape(7, stages, 2), rng.integers(0, 3, (stages, 2)).astype(np.float64)
        ready = pipeline.ready_times(flat, home, hiding)
        reduced = pipeline.reduced_times(flat, done, home, split, hiding)
        for one in range(2):
            for s in range(stages):
                layers, gathered = int(t[LAYERS, s, one]), t[GATHERED, s, one]
                others = [o for o in range(stages) if home[o] == home[s] and (o < s if hiding else o != s)]
                layer, passing = gathered / layers, t[FORWARD, s, one] / layers
                # Layer i is there after i + 1 transfers, and its pass begins i passes after the first one.
                late = max((i + 1) * layer - i * passing for i in range(layers)) if hiding else gathered
                assert ready[s, one] == pytest.approx(t[GATHERED, others, one].sum() + late)
            free = np.zeros(stages)
            if not hiding:
                np.maximum.at(free, home, done[:, one])
            for s in sorted(range(stages), key=lambda s: done[s, one]):
                layers = int(t[LAYERS, s, one])
                back, layer = t[WEIGHTS, s, one] / layers, t[REDUCED, s, one] / layers
                for i in range(layers):
                    through = done[s, one] - (layers - 1 - i) * back if hiding else done[s, one]
                    free[home[s]] = max(free[home[s]], through) + layer
            assert reduced[one] == pytest.approx(free.max())


def test_costs_of_ranks() -> None:
    """The step of the fullest rank; where passes hide nothing, all gathering and reducing beside."""
    rng = np.random.default_rng(6)
    for _ in range(40):
        p, v, m, paired = 2 * int(rng.integers(1, 4)), int(rng.integers(1, 3)), 4, bool(rng.integers(0, 2))
        flat = drawn_tables(rng, p * v, 2)
        t, stages = flat.reshape(7, p * v, 2), p * v
        held = (
            [[r, stages - 1 - r] for r in range(stages // 2)] if paired else [[*range(r, stages, p)] for r in range(p)]
        )
        step, shown = pipeline.rank_costs(flat, p, v, m, True, False, paired)
        met = m / 2 if paired and v == 1 else m
        np.testing.assert_allclose(step, [max(t[STEP, own, one].sum() for own in held) for one in range(2)])
        both = t[REDUCED] + t[GATHERED]
        np.testing.assert_allclose(shown, [met * max(both[own, one].sum() for own in held) for one in range(2)])
        hidden = pipeline.rank_costs(flat, p, v, m, True, True, paired)[1]
        assert (hidden <= shown * (1 + 1e-12)).all()
        assert not pipeline.rank_costs(flat, p, v, m, False, True, paired)[1].any()


def plain_ends(orders: PassOrders, costs: tuple[Floats, ...], *, blocking: bool) -> list[float]:
    """Ends of all passes, each as late as what it waits for, over and over until nothing changes."""
    forward, inputs, weights, transfer, ready = (part[..., 0].tolist() for part in costs)
    passes, home = [(K(kind), i, s) for kind, i, s in orders.passes.tolist()], orders.rank_of_stage.tolist()
    before, after, stages = orders.before.tolist(), orders.after.tolist(), orders.model_stages
    ahead = {(i, s): at for at, (kind, i, s) in enumerate(passes) if kind in (K.FORWARD, K.JOINED)}
    back = {(i, s): at for at, (kind, i, s) in enumerate(passes) if kind in (K.BACKWARD, K.INPUTS)}
    firsts, ends = set(orders.start.tolist()), [0.0] * len(passes)

    def hop(stage: int, other: int) -> float:
        return transfer if other >= 0 and home[other] != home[stage] else 0.0

    def start(at: int) -> float:
        """By what a pass waits for on other ranks."""
        kind, i, s = passes[at]
        if kind in (K.FORWARD, K.JOINED):
            source = ends[ahead[i, before[s]]] + hop(s, before[s]) if before[s] >= 0 else 0.0
            return float(max(ready[s], source))
        if kind is K.WEIGHTS or after[s] < 0:
            return 0.0
        return ends[back[i, after[s]]] + hop(s, after[s])

    def sent(at: int) -> float:
        kind, _, s = passes[at]
        target = {K.FORWARD: after[s], K.JOINED: after[s], K.WEIGHTS: -1}.get(kind, before[s])
        return hop(s, target) if blocking else 0.0

    def cost(at: int) -> float:
        kind, _, s = passes[at]
        s %= stages
        own = {K.INPUTS: inputs[s], K.WEIGHTS: weights[s], K.BACKWARD: inputs[s] + weights[s]}
        return float(own.get(kind, forward[s]))

    changed = True
    while changed:
        changed, at = False, 0
        while at < len(passes):
            together = [at, at + 1] if passes[at][0] is K.JOINED else [at]
            begin = 0.0
            if at not in firsts:
                last = [at - 2, at - 1] if passes[at - 2][0] is K.JOINED and at - 2 >= 0 else [at - 1]
                begin = ends[at - 1] + max(map(sent, last))
            end = max(begin, *map(start, together)) + sum(map(cost, together))
            changed |= end != ends[at]
            for one in together:
                ends[one] = end
            at += len(together)
    return ends


def test_ends_of_passes() -> None:
    """Every schedule, blocking or not, one set of costs and several side by side."""
    rng = np.random.default_rng(7)
    for _ in range(40):
        orders, blocking = pipeline_orders(rng), bool(rng.integers(0, 2))
        program = pipeline.PassProgram(*program_arguments(orders, blocking=blocking))
        costs = drawn_passes(rng, orders, int(rng.choice([1, 11])))
        ends = program.ends(*costs, np.arange(len(orders.passes)))
        for one in (0, -1):
            own = tuple(np.ascontiguousarray(part[..., [one]]) for part in costs)
            assert ends[:, one].tolist() == plain_ends(orders, own, blocking=blocking)


def test_passes_in_a_circle() -> None:
    """A rank that does its backward pass first waits for ever."""
    passes = np.array([[1, 0, 0], [0, 0, 0]], dtype=np.int32)
    one, none = np.zeros(1, dtype=np.int64), -np.ones(1, dtype=np.int64)
    with pytest.raises(ValueError, match="in a circle"):
        pipeline.PassProgram(np.array([0, 2]), passes, one, none, none, 1, 1, False)


def test_zero_bubble_rounds() -> None:
    """Every pass once, in an order that can be followed, in the memory; none where no micro-batch fits."""
    rng = np.random.default_rng(8)
    for _ in range(200):
        arguments = CALLS["zero_bubble"](rng)
        adds, capacity, m = arguments[2:5]
        p = len(capacity)
        passes = pipeline.zero_bubble(*arguments)
        kinds = [K.FORWARD, K.INPUTS, K.WEIGHTS]
        everything = {(kind, i, rank) for kind in kinds for i in range(m) for rank in range(p)}
        assert len(passes) == len(everything)
        assert set(map(tuple, passes.tolist())) == everything
        numbers = np.arange(p)
        stages = numbers, numbers - 1, np.append(numbers[1:], -1)
        pipeline.PassProgram(3 * m * np.arange(p + 1), passes, *stages, p, m, False)
        row = np.array([0, 0, 1, 2])[passes[:, 0]].reshape(p, -1)
        for rank in range(p):
            assert np.cumsum(adds[row[rank], rank]).max() <= capacity[rank]
        less: tuple[Any, ...] = (*arguments[:3], 0.9 * adds[0], m + 1, *arguments[5:])
        assert not len(pipeline.zero_bubble(*less))


def seating_allowed(arguments: tuple[Any, ...], seated: tuple[int, ...]) -> bool:
    """Whether a class for each rank keeps to free servers, and each component stays under one switch."""
    switch_of, component, _, counts, free = arguments[:5]
    if (np.bincount(seated, minlength=len(counts)) > counts).any():
        return False
    for switches, own, places in zip(switch_of, component, free, strict=True):
        under = switches[list(seated)]
        if (np.bincount(under, minlength=len(places)) > places).any():
            return False
        if any(len(set(under[own == e].tolist())) > 1 for e in own.tolist() if e >= 0):
            return False
    return True


def test_seats() -> None:
    """Against all seatings: one where there is one."""
    rng, outcomes = np.random.default_rng(9), set()
    for _ in range(400):
        arguments = seats_case(rng)
        classes, ranks = len(arguments[3]), arguments[1].shape[1]
        seated, complete = pipeline.seat_ranks(*arguments)
        assert complete
        if seated is None:
            assert not any(seating_allowed(arguments, one) for one in product(range(classes), repeat=ranks))
        else:
            assert seating_allowed(arguments, tuple(seated.tolist()))
            cut: tuple[Any, ...] = (*arguments[:-1], ranks - 1)
            assert pipeline.seat_ranks(*cut) == (None, False)
        outcomes.add(seated is None)
    assert outcomes == {False, True}


def test_wrong_arguments_are_refused() -> None:
    """What would reach outside of arrays, or count without end."""
    rng = np.random.default_rng(10)
    shape, layers = drawn_shapes(rng, 2)
    parts = drawn_parts(rng, layers)
    for column, value in ((0, 7), (1, 0), (1, 99), (2, 2**40), (3, -1)):
        wrong = shape.copy()
        wrong[0, column] = value
        arguments: tuple[Any, ...] = (*parts, wrong, np.zeros(2), True, False)
        with pytest.raises(ValueError, match=r"shape|stages"):
            pipeline.order_bounds(*arguments)
    seats = list(seats_case(rng))
    seats[6] = np.zeros_like(seats[6])
    if len(seats[6]) > 1:
        with pytest.raises(ValueError, match="preference"):
            pipeline.seat_ranks(*seats)
    rounds = list(CALLS["zero_bubble"](rng))
    with pytest.raises(ValueError, match="ticks"):
        pipeline.zero_bubble(rounds[0] + 2**60, *rounds[1:])
    with pytest.raises(TypeError):
        pipeline.zero_bubble(rounds[0].astype(np.float64), *rounds[1:])
