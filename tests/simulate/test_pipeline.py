"""Schedules of pipelines: makespans, closed forms, what repeats itself, what is held."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.closed_forms import closed_form_s
from tests.support.pipeline_lanes import NAMES, checked_makespan, lanes_of
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.parallelism import PipelineSchedule, PipelineShape, StageCosts
from topoopt.simulate.pipeline import (
    SCHEDULES,
    PassOrders,
    PipelineMemory,
    TickCosts,
    makespan_bound_s,
    most_held,
    pass_orders,
    pipeline_time,
    schedule_problems,
)

GPIPE, PLAIN, INTERLEAVED, ZB_H1, ZB_2P, DUALPIPE, DUALPIPE_V = PipelineSchedule


def whole(
    schedule: PipelineSchedule, shape: PipelineShape, costs: StageCosts, memory: PipelineMemory | None = None
) -> float:
    """Makespan, every pass followed."""
    return pipeline_time(schedule, shape, costs, memory, whole=True).makespan_s


def orders_of(schedule: PipelineSchedule, shape: PipelineShape) -> PassOrders:
    """Orders with all passes as long as each other."""
    ticks = TickCosts.of(StageCosts.uniform(shape, 1.0, 1.0, 1.0), shape.micro_batches)
    return pass_orders(schedule, shape, ticks, PipelineMemory.usual(shape.stages))


def in_words(orders: PassOrders) -> list[str]:
    """The order of each rank, as `F0 B0`; stages are numbered where a rank has several."""
    chunked = orders.model_stages > orders.ranks
    return [
        " ".join(f"{NAMES[kind]}{i}" + (f".{stage}" if chunked else "") for kind, i, stage in lane)
        for lane in lanes_of(orders)
    ]


def drawn_costs(rng: np.random.Generator, stages: int) -> StageCosts:
    """Unequal stages, in quarters; transfers that block or do not."""
    parts = rng.integers(1, 20, (3, stages)) / 4.0
    return StageCosts(*parts, transfer_s=float(rng.choice([0.0, 0.25, 1.0, 7.5])), blocking=bool(rng.integers(0, 2)))


def drawn_shape(rng: np.random.Generator, schedule: PipelineSchedule, most: int = 12) -> PipelineShape:
    """A shape that the schedule allows."""
    while True:
        p = int(rng.integers(1, 7))
        chunks = int(rng.integers(1, 4))
        group = int(rng.integers(p, 2 * p + 2)) if chunks > 1 else 0
        shape = PipelineShape(p, int(rng.integers(1, most * p + 2)), chunks, group)
        if not schedule_problems(schedule, shape):
            return shape


@pytest.mark.parametrize(
    ("schedule", "p", "m", "v", "makespan", "delayed"),
    [
        (PLAIN, 4, 8, 1, 33.0, 34.6),
        (PLAIN, 8, 24, 1, 93.0, 98.4),
        (PLAIN, 16, 64, 1, 237.0, 251.8),
        (GPIPE, 4, 8, 1, 33.0, 33.6),
        (GPIPE, 8, 24, 1, 93.0, 94.4),
        (GPIPE, 16, 64, 1, 237.0, 240.0),
        (ZB_H1, 4, 8, 1, 27.0, 28.2),
        (ZB_H1, 8, 24, 1, 79.0, 81.8),
        (ZB_H1, 16, 64, 1, 207.0, 213.0),
        (INTERLEAVED, 4, 8, 2, 28.5, 29.9),
        (INTERLEAVED, 8, 24, 3, 79.0, 83.6),
        (INTERLEAVED, 8, 24, 12, 73.75, None),
    ],
)
def test_makespans_of_another_simulator(
    schedule: PipelineSchedule, p: int, m: int, v: int, makespan: float, delayed: float | None
) -> None:
    """F = B = W = 1; transfers of nothing and of 0.1. Figures are those of an event simulator written apart from it."""
    shape = PipelineShape(p, m, v)
    for transfer, expected in ((0.0, makespan), (0.1, delayed)):
        if expected is not None:
            costs = StageCosts.uniform(shape, 1.0, 1.0, 1.0, transfer_s=transfer)
            for followed_whole in (True, False):
                time = pipeline_time(schedule, shape, costs, whole=followed_whole)
                assert time.makespan_s == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("p", "m"), [(8, 64), (16, 256), (32, 1024)])
@pytest.mark.parametrize("schedule", [GPIPE, PLAIN])
def test_many_passes(schedule: PipelineSchedule, p: int, m: int) -> None:
    """(m + p - 1) passes of F + B, also where they are too many for small blocks of memory."""
    shape = PipelineShape(p, m)
    assert whole(schedule, shape, StageCosts.uniform(shape, 1.0, 1.0, 1.0)) == pytest.approx(
        3.0 * (m + p - 1), rel=1e-9
    )


def test_interleaving_loses_where_transfers_outlast_chunks() -> None:
    """Twelve chunks of a twelfth each, transfers of 0.1: slower than one chunk, 95.68 against 98.4 and 93."""
    shape = PipelineShape(8, 24, 12)
    slow = whole(INTERLEAVED, shape, StageCosts.uniform(shape, 1.0, 1.0, 1.0, transfer_s=0.1))
    assert slow == pytest.approx(95.68, abs=0.005)


@pytest.mark.parametrize(
    ("p", "m", "f", "b", "w", "transfer", "one", "two"),
    [
        (8, 24, 1.0, 1.0, 1.0, 0.0, 79.0, 72.0),
        (8, 24, 1.0, 1.05, 0.85, 0.05, 79.4, 71.9),
        (16, 48, 1.0, 1.05, 0.85, 0.05, 160.2, 144.25),
        (4, 12, 2.0, 3.0, 1.0, 0.0, 84.0, 80.0),
    ],
)
def test_zero_bubble_rounds_of_the_reference(
    p: int, m: int, f: float, b: float, w: float, transfer: float, one: float, two: float
) -> None:
    """Longest ranks of the released code in once and twice the memory, F +34, B -2, W -32.

    Its third pair is 160.2 and 144.95 in doubles, which break ties by rounding; in whole numbers (100, 105, 85, 5) the
    same code says 144.25, as passes here do.
    """
    shape, held = PipelineShape(p, m), np.full(p, 34.0)
    costs = StageCosts.uniform(shape, f, b, w, transfer_s=transfer)
    for times, expected in ((1, one), (2, two)):
        memory = PipelineMemory(held, np.full(p, 32.0), times * p * held)
        time = pipeline_time(ZB_2P, shape, costs, memory)
        assert time.longest_span_s == pytest.approx(expected, rel=1e-9)
        assert most_held(time.orders, held, memory.for_weights).max() <= times * p * 34.0


def test_zero_bubble_rounds_need_memory() -> None:
    """Rounds hold two micro-batches on the first rank of two: room for one is refused, never exceeded."""
    shape = PipelineShape(2, 4)
    memory = PipelineMemory(np.ones(2), np.full(2, 0.5), np.full(2, 0.9))
    with pytest.raises(InfeasibleError, match="too few micro-batches"):
        pipeline_time(ZB_2P, shape, StageCosts.uniform(shape, 1.0, 1.0, 1.0), memory)


def test_orders_spelled_out() -> None:
    """Small orders as drawn in the papers (GPipe figure 2, PipeDream-2BW figure 3, Megatron figure 4, ZB figure 3)."""
    assert in_words(orders_of(GPIPE, PipelineShape(2, 2))) == ["F0 F1 B1 B0", "F0 F1 B1 B0"]
    assert in_words(orders_of(PLAIN, PipelineShape(3, 4))) == [
        "F0 F1 F2 B0 F3 B1 B2 B3",
        "F0 F1 B0 F2 B1 F3 B2 B3",
        "F0 B0 F1 B1 F2 B2 F3 B3",
    ]
    assert in_words(orders_of(INTERLEAVED, PipelineShape(2, 2, 2))) == [
        "F0.0 F1.0 F0.2 F1.2 B0.2 B1.2 B0.0 B1.0",
        "F0.1 F1.1 F0.3 B0.3 F1.3 B1.3 B0.1 B1.1",
    ]
    assert in_words(orders_of(ZB_H1, PipelineShape(2, 3))) == [
        "F0 F1 B0 W0 F2 B1 W1 B2 W2",
        "F0 B0 F1 B1 W0 F2 B2 W1 W2",
    ]


@pytest.mark.parametrize("schedule", PipelineSchedule)
def test_every_pass_once(schedule: PipelineSchedule) -> None:
    """Each micro-batch passes each stage of its copy of the model once forwards, once backwards, weights once."""
    rng = np.random.default_rng(3)
    for _ in range(15):
        shape = drawn_shape(rng, schedule, most=5)
        orders = orders_of(schedule, shape)
        seen = [(NAMES[kind], i, stage) for lane in lanes_of(orders) for kind, i, stage in lane]
        assert len(set(seen)) == len(seen)
        forward = {(i, stage) for name, i, stage in seen if name == "F"}
        assert forward == {(i, stage) for name, i, stage in seen if name == "B"}
        assert len(forward) == shape.micro_batches * orders.model_stages
        assert {i for i, _ in forward} == set(range(shape.micro_batches))
        split = {(i, stage) for lane in lanes_of(orders) for kind, i, stage in lane if kind.name == "INPUTS"}
        assert split == {(i, stage) for name, i, stage in seen if name == "W"}
        assert all(orders.rank_of_stage[stage] == r for r, lane in enumerate(lanes_of(orders)) for _, _, stage in lane)


@pytest.mark.parametrize("schedule", PipelineSchedule)
def test_makespans_are_those_of_the_checker(schedule: PipelineSchedule) -> None:
    """Unequal stages, transfers that block and that do not; all in quarters, so both are exact."""
    rng = np.random.default_rng(7)
    for _ in range(12):
        shape = drawn_shape(rng, schedule, most=4)
        costs = drawn_costs(rng, shape.stages)
        time = pipeline_time(schedule, shape, costs, whole=True)
        assert time.makespan_s == checked_makespan(time.orders, costs)


@pytest.mark.parametrize("schedule", [schedule for schedule, line in SCHEDULES.items() if line.period is not None])
def test_few_micro_batches_stand_for_many(schedule: PipelineSchedule) -> None:
    """What a few micro-batches say of many is what following all of them says, to the last digit; often enough few
    suffice, also where stages are unequal."""
    rng = np.random.default_rng(11)
    short = 0
    for trial in range(60):
        shape = drawn_shape(rng, schedule)
        costs = drawn_costs(rng, shape.stages)
        if trial % 2:
            costs = StageCosts.uniform(shape, *rng.integers(1, 9, 3) / 4.0, transfer_s=costs.transfer_s)
        many, few = (pipeline_time(schedule, shape, costs, whole=each) for each in (True, False))
        assert (few.makespan_s, few.longest_span_s) == (many.makespan_s, many.longest_span_s)
        held = (most_held(each.orders, costs.forward_s, 0.5 * costs.forward_s).tolist() for each in (many, few))
        assert next(held) == pytest.approx(next(held))
        short += few.orders.micro_batches < shape.micro_batches
    assert short >= 10


def test_many_micro_batches_cost_what_few_do() -> None:
    """Four chunks on sixteen ranks: at most five groups are followed of a million micro-batches."""
    shape = PipelineShape(16, 2**20, 4)
    time = pipeline_time(INTERLEAVED, shape, StageCosts.uniform(shape, 1.0, 1.0, 1.0))
    assert time.orders.micro_batches <= 5 * 16
    assert time.makespan_s == pytest.approx(3.0 * 2**20 + 15 * 3.0 / 4, rel=1e-12)


@pytest.mark.parametrize("schedule", [GPIPE, PLAIN, INTERLEAVED, ZB_H1, DUALPIPE])
def test_closed_forms(schedule: PipelineSchedule) -> None:
    """Wherever there is a formula, it is what following the passes says."""
    rng = np.random.default_rng(13)
    told = 0
    for trial in range(200):
        shape = drawn_shape(rng, schedule, most=4)
        f, b, w = rng.integers(1, 9, 3) / 4.0
        equal = trial % 2 == 0
        costs = StageCosts.uniform(
            shape, f, f if equal else b, f if equal else w, transfer_s=float(rng.choice([0.0, 0.0, 0.25, 1.0, 20.0]))
        )
        if schedule is GPIPE:
            costs = StageCosts(*rng.integers(1, 20, (3, shape.stages)) / 4.0, transfer_s=costs.transfer_s)
        formula = closed_form_s(schedule, shape, costs)
        if formula is not None:
            told += 1
            assert formula == pytest.approx(whole(schedule, shape, costs), rel=1e-12)
    assert told >= 20


def test_bubbles_of_dualpipe() -> None:
    """(p/2-1)(F&B + B - 3W) as DeepSeek states it, in p + 1 activations; the V shape with half the ranks alike."""
    for p, m in ((2, 8), (4, 8), (8, 20), (16, 40)):
        shape, half = PipelineShape(p, m), PipelineShape(p // 2, m, 2)
        time = pipeline_time(DUALPIPE, shape, StageCosts.uniform(shape, 1.0, 1.0, 1.0))
        assert time.makespan_s == pytest.approx(3.0 * m + (p / 2 - 1) * (3.0 + 2.0 - 3.0))
        assert most_held(time.orders, np.ones(p), np.ones(p)).tolist() == [p + 1.0] * p
        folded = pipeline_time(DUALPIPE_V, half, StageCosts.uniform(half, 2.0, 2.0, 2.0))
        assert folded.makespan_s == pytest.approx(6.0 * m + (p / 2 - 1) * (3.0 + 2.0 - 3.0))
        assert most_held(folded.orders, np.ones(p), np.ones(p)).tolist() == [p + 1.0] * (p // 2)


@pytest.mark.parametrize(("p", "m", "v"), [(4, 3, 1), (4, 9, 1), (8, 24, 1), (4, 8, 2), (8, 32, 4)])
def test_micro_batches_in_flight(p: int, m: int, v: int) -> None:
    """min(m, p - r) of 1F1B and p (1 + (p-1)/(p v)) of the first rank interleaved (Narayanan et al., Korthikanti et
    al.); p on all ranks of ZB-H1 with weights that need all; all m of GPipe."""
    share = np.full(p * v, 1.0 / v)
    if v > 1:
        held = most_held(orders_of(INTERLEAVED, PipelineShape(p, m, v)), share, share)
        assert held[0] == pytest.approx(p * (1 + (p - 1) / (p * v)))
        return
    shape = PipelineShape(p, m)
    assert most_held(orders_of(PLAIN, shape), share, share).tolist() == [min(m, p - r) for r in range(p)]
    assert most_held(orders_of(GPIPE, shape), share, share).tolist() == [m] * p
    assert most_held(orders_of(ZB_H1, shape), share, share).tolist() == [min(m, p)] * p


@pytest.mark.parametrize(
    ("schedule", "shape", "paths"),
    [
        (PLAIN, PipelineShape(4, 8, 2), ["chunks"]),
        (INTERLEAVED, PipelineShape(4, 8), ["chunks"]),
        (INTERLEAVED, PipelineShape(4, 8, 2, 3), ["group", "micro-batches"]),
        (INTERLEAVED, PipelineShape(4, 11, 2), ["micro-batches"]),
        (DUALPIPE, PipelineShape(3, 5), ["stages", "micro-batches", "micro-batches"]),
        (DUALPIPE_V, PipelineShape(4, 7), ["chunks", "micro-batches"]),
    ],
)
def test_refused_shapes(schedule: PipelineSchedule, shape: PipelineShape, paths: list[str]) -> None:
    """Every rule that is broken is told; a rest of a group smaller than the stages would wait for itself."""
    with pytest.raises(InputError) as caught:
        pipeline_time(schedule, shape, StageCosts.uniform(shape, 1.0, 1.0, 1.0))
    assert [problem.path for problem in caught.value.problems] == paths


@pytest.mark.parametrize("schedule", [GPIPE, PLAIN, INTERLEAVED, ZB_H1, ZB_2P])
def test_no_order_is_below_the_bound(schedule: PipelineSchedule) -> None:
    """Unequal stages, transfers that block or not: every schedule is at or above; 1F1B of equal stages meets it."""
    rng = np.random.default_rng(29)
    for _ in range(40):
        shape = drawn_shape(rng, schedule, most=4)
        costs = drawn_costs(rng, shape.stages)
        bound = makespan_bound_s(shape, costs, split=SCHEDULES[schedule].splits)
        assert whole(schedule, shape, costs) >= bound * (1 - 1e-12)
    equal = StageCosts.uniform(PipelineShape(4, 9), 1.0, 1.0, 1.0)
    assert makespan_bound_s(PipelineShape(4, 9), equal, split=False) == pytest.approx(36.0)
    assert whole(PLAIN, PipelineShape(4, 9), equal) == pytest.approx(36.0)
