"""What the checker derives again by trying everything: least loads and makespans, against plain enumeration."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import get_args

import numpy as np
import pytest

from formulations.placed_graphs import block_cut_arrays
from solvers.backends import SOLVERS
from solvers.stop import Stop
from tests.support.paths import INSTANCES
from tests.support.placed_graphs import problem as placed_graph
from tests.support.placed_programs_cases import CHAIN
from tests.support.placed_schedules import least_makespan_alone, least_makespan_queued
from tests.support.placement_cases import random_problem
from tests.support.task_graphs import task_graph, ten_tasks
from tests.support.unequal_placements import VARIANTS, least_load, unequal_problem
from topoopt.core.placement import (
    Communication,
    Latency,
    PlacementProblem,
    Schedule,
    StageShape,
    Throughput,
    WalkSize,
    schedule_certificate,
)
from topoopt.core.proofs import Argument, Status
from topoopt.kinds.files import read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.kinds.placement import methods
from topoopt.kinds.placement.methods import cut_proof
from topoopt.verify.placement import exhaustive, pipelines
from topoopt.verify.placement.bounds import work_bound
from topoopt.verify.placement.check import PIPELINES, SCHEDULES
from topoopt.verify.placement.schedules import ScheduleWalk


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_least_load_is_that_of_all_assignments(variant: str) -> None:
    """Whatever value is handed in, a better assignment is found if there is one, and none is made up."""
    for seed in range(4):
        problem = unequal_problem(
            seed, operators=6, backward=seed % 2 == 0, memory=seed % 3 == 0, settings=VARIANTS[variant]
        )
        best = least_load(problem)
        assert best is not None
        for factor in (1.0, 1.0001, 2.0, 100.0):
            assert exhaustive.least_load(problem, VARIANTS[variant], best * factor) == pytest.approx(best, rel=1e-9)
        assert exhaustive.least_load(problem, VARIANTS[variant], best * 0.9) == best * 0.9


@pytest.mark.parametrize("stages", get_args(StageShape))
@pytest.mark.parametrize("schedule", get_args(Schedule))
def test_like_devices_are_used_in_order(schedule: Schedule, stages: StageShape) -> None:
    """Four equal devices: nothing is lost to their symmetry, nor to what partial assignments must still do."""
    settings = Throughput(schedule, get_args(Communication)[len(stages) % 2], stages, stages_per_device=2)
    for seed in range(3):
        problem = random_problem(seed, operators=6, devices=4, backward=seed != 1, memory=seed == 2, settings=settings)
        best = least_load(problem)
        if best is None:
            continue
        for factor in (1.0, 1.5, 100.0):
            assert exhaustive.least_load(problem, settings, best * factor) == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("communication", get_args(Communication))
@pytest.mark.parametrize("schedule", get_args(Schedule))
def test_least_pipeline_is_that_of_all_assignments(schedule: Schedule, communication: Communication) -> None:
    """Contiguous stages over equal links, one maximum or a forward and a backward one; devices of two kinds too."""
    settings = Throughput(schedule, communication)
    for seed in range(8):
        problem = random_problem(
            seed,
            operators=7,
            devices=3 - seed % 2,
            cpus=seed % 2,
            backward=True,
            memory=seed % 3 == 0,
            settings=settings,
        )
        best = least_load(problem)
        if best is None:
            continue
        for factor in (1.0, 1.2, 100.0):
            assert pipelines.least_pipeline(problem, settings, best * factor) == pytest.approx(best, rel=1e-9)
        assert pipelines.least_pipeline(problem, settings, best * 0.9) == best * 0.9


def least_makespan(problem: PlacementProblem, limit_ms: float, size: WalkSize, *, queues: bool = False) -> float:
    return ScheduleWalk(problem, limit_ms, size, queues=queues).least(limit_ms, size.rows)


WALKS = {
    "forwards": WalkSize(rows=10_000),
    "backwards": WalkSize(backwards=True, rows=10_000),
    "dolls": WalkSize(rows=10_000, doll_tasks=4, doll_rows=100),
    "dolls, backwards": WalkSize(backwards=True, rows=10_000, doll_tasks=4, doll_rows=100),
}


@pytest.mark.parametrize("walk", list(WALKS))
@pytest.mark.parametrize("seed", range(8))
def test_least_makespan_is_that_of_all_orders(seed: int, walk: str) -> None:
    """Five operators, all assignments and all orders, equal and unequal links, groups, zero times among them."""
    make = unequal_problem if seed % 2 else random_problem
    problem = make(seed, operators=5, devices=3 if seed % 3 else 2, memory=seed % 4 == 0)
    problem = replace(problem, objective=Latency("none"))
    best = least_makespan_alone(problem)
    assert np.isfinite(best)
    for factor in (1.0, 1.01, 3.0):
        assert least_makespan(problem, best * factor, WALKS[walk]) == pytest.approx(best, rel=1e-9)
    assert least_makespan(problem, best * 0.9, WALKS[walk]) == best * 0.9


@pytest.mark.parametrize("walk", list(WALKS))
@pytest.mark.parametrize("seed", range(8))
def test_least_makespan_with_queues_is_that_of_all_orders(seed: int, walk: str) -> None:
    """Four operators and what they send, in all orders: tensors with several readers, servers of two devices."""
    make = unequal_problem if seed % 2 else random_problem
    problem = make(seed, operators=4, devices=3 if seed % 3 else 2, memory=seed % 4 == 0)
    if WALKS[walk].backwards:  # not with several readers
        tensors = [replace(row, consumers=row.consumers[:1]) for row in problem.tensors]
        problem = replace(problem, tensors=tuple(tensors))
    problem = replace(problem, objective=Latency("fifo"))
    best = least_makespan_queued(problem)
    assert best >= least_makespan_alone(problem) * (1 - 1e-9)
    for factor in (1.0, 1.01, 3.0):
        assert least_makespan(problem, best * factor, WALKS[walk], queues=True) == pytest.approx(best, rel=1e-9)
    assert least_makespan(problem, best * 0.9, WALKS[walk], queues=True) == best * 0.9


def test_work_is_held_against_the_room_at_prices() -> None:
    """Six operators of 1 or 2 ms take 4 ms: at prices 2 and 1 they cost 12, of 3 a millisecond; a row is not needed."""
    problem = task_graph(np.array([[1, 2]] * 6), (), "none")
    assert least_makespan(problem, 3.99, WalkSize(rows=1)) == 3.99
    assert least_makespan(problem, 9.0, WalkSize(rows=1_000)) == pytest.approx(4)


def test_idle_bytes_are_left_out_where_sets_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three operators of 2 ms with weights that do not fit two devices: no pipeline, or 4 ms without their bytes."""
    tensors = [(0, [1], 0.0), (1, [2], 0.0), (3, [0], 0.0), (4, [1], 0.0), (5, [2], 0.0)]
    case = placed_graph([2.0, 2.0, 2.0, 0.0, 0.0, 0.0], tensors, [1, 1], memory=[0, 0, 0, 1, 1, 1], room=1)
    assert pipelines.least_pipeline(case, Throughput(), 9.0) == 9.0
    monkeypatch.setattr(pipelines, "MAX_SETS", 4)
    assert pipelines.least_pipeline(case, Throughput(), 9.0) == 4.0


def test_too_many_are_refused() -> None:
    """Nothing is derived from a part of the assignments, sets or schedules."""
    problem = unequal_problem(1, operators=9, devices=3)
    with pytest.raises(ValueError, match="more than 5"):
        exhaustive.least_load(problem, Throughput(), 1e9, max_rows=5)
    with pytest.raises(ValueError, match="more than 5"):
        least_makespan(problem, 1e9, WalkSize(rows=5))
    with pytest.raises(ValueError, match="more than 5"):
        pipelines.least_pipeline(random_problem(1, operators=9), Throughput(), 1e9, max_sets=5)


def test_least_cut_around_a_block() -> None:
    """With the first block the load is 4 + 1 + 1, the limit, and the shared tensor is cut; the third does not fit."""
    assert SOLVERS["highs"](block_cut_arrays(CHAIN)).objective == pytest.approx(1.0)


@pytest.mark.parametrize("seed", [0, 2, 3, 5, 11, 21])
def test_cuts_around_blocks_bound_free_sets(seed: int) -> None:
    """Above the bound of the work, below the best of all assignments; no other prices prove more than that."""
    make = unequal_problem if seed % 2 else random_problem
    settings = Throughput("gpipe" if seed == 5 else "1f1b", stages="free")
    problem = make(seed, operators=6, devices=2 + seed % 2, settings=settings)
    best = least_load(problem)
    assert best is not None
    (bound,), (certificate,) = cut_proof(problem, best, Stop())
    derive = PIPELINES.arguments(problem)[Argument.BLOCK_CUTS]
    assert derive(problem, [certificate]) == bound.value
    assert work_bound(problem, settings) < bound.value <= best * (1 + 1e-9)
    rng = np.random.default_rng(seed)
    for _ in range(50):
        arrays = {
            "limit_ms": certificate["limit_ms"] * rng.uniform(0.5, 2),
            **{
                name: certificate[name] * rng.uniform(0, 3) + rng.normal(0, rng.choice([0, 1]), certificate[name].shape)
                for name in ("load_price", "end_price")
            },
        }
        assert derive(problem, [replace(certificate, arrays=arrays)]) <= best * (1 + 1e-9)
    for name in ("load_price", "end_price"):
        with pytest.raises(ValueError, match="size"):
            derive(problem, [replace(certificate, arrays={**certificate.arrays, name: certificate[name][1:]})])


def test_cuts_around_blocks_of_a_published_graph() -> None:
    """bert24 with transfers a thousand times dearer and no CPU: 17.69 ms, where the work alone says 15.40."""
    problem = read_instance(INSTANCES / "published" / "bert24-inference.json")
    tensors = tuple(replace(row, size_bytes=1000 * row.size_bytes) for row in problem.tensors)
    devices = tuple(entry for entry in problem.devices if not entry.host)
    problem = replace(problem, tensors=tensors, devices=devices, objective=Throughput(stages="free"))
    (bound,), _ = cut_proof(problem, 20.591, Stop())
    assert work_bound(problem, Throughput(stages="free")) == pytest.approx(15.401, abs=1e-3)
    assert bound.value == pytest.approx(17.692, abs=2e-2)


def test_ideals_of_towers() -> None:
    """w chains of l elements have (l + 1)^w ideals, each once; an order without edges has all sets."""
    for chains, length in ((1, 70), (2, 9), (3, 4)):
        edges = frozenset((c * length + i, c * length + i + 1) for c in range(chains) for i in range(length - 1))
        rows = pipelines.order_ideals(chains * length, edges, 10_000)
        assert len(np.unique(rows, axis=0)) == len(rows) == (length + 1) ** chains
    assert len(pipelines.order_ideals(5, frozenset(), 100)) == 32


def test_tight_memory_is_proven() -> None:
    """Of 589 044 sets few are left without the bytes of a quarter of the idle blocks; they prove CP-SAT's value."""
    case = read_instance(INSTANCES / "published" / "latency-gnmt-inference.json")
    result = solve(replace(case, objective=Throughput()), SolveOptions())
    assert result.check.ok
    assert result.status is Status.OPTIMAL
    assert result.objective.value == pytest.approx(44.896516, rel=1e-7)


OPTIMA_MS = {
    "bert24-inference": 17.789906,
    "bert24-training": 41.745812,
    "gnmt-inference": 32.910658,
    "resnet50-inference": 33.774666,
    "bert-3-inference": 27.918568,
    "bert-3-training": 65.303149,
    "bert-6-inference": 29.579506,
}
"""Least largest loads of the published program (Tarnawski et al., NeurIPS 2020), by another walk over ideals."""


@pytest.mark.parametrize("graph", list(OPTIMA_MS))
def test_published_pipelines_are_proven(graph: str) -> None:
    """Solved, proven and checked: the walk over ideals has the last word."""
    result = solve(read_instance(INSTANCES / "published" / f"{graph}.json"), SolveOptions())
    assert result.check.ok
    assert result.status is Status.OPTIMAL
    assert result.bound.argument is Argument.ALL_PIPELINES
    assert result.objective.value == pytest.approx(OPTIMA_MS[graph], rel=1e-7)


@pytest.mark.parametrize(("sharing", "value", "bound"), [("none", 73, 73), ("fifo", 83, 83), ("fair", 89, 73)])
def test_ten_tasks(sharing: str, value: float, bound: float) -> None:
    """73 ms where transfers never meet, and 83 with queues, are optima by CP-SAT too; no sharing is below 73."""
    result = solve(task_graph(*ten_tasks(), sharing), SolveOptions())
    assert result.check.ok
    assert result.bound.verified
    assert result.bound.value == pytest.approx(bound)
    assert result.objective.value <= value * (1 + 1e-9)


def test_a_walk_that_a_certificate_asks_for_is_no_larger_than_allowed() -> None:
    """Rows and dolls of a certificate have limits; what it proves is derived, whatever it says."""
    problem = task_graph(*ten_tasks(), "none")
    derive = SCHEDULES.arguments(problem)[Argument.ALL_SCHEDULES]
    certificate = partial(schedule_certificate, Argument.ALL_SCHEDULES)
    assert derive(problem, [certificate(90.0, WalkSize(rows=50_000))]) == pytest.approx(73)
    for size in (WalkSize(rows=10**9), WalkSize(rows=0), WalkSize(doll_tasks=65), WalkSize(doll_rows=10**6)):
        with pytest.raises(ValueError, match="a walk of"):
            derive(problem, [certificate(73.0, size)])


def test_what_is_too_much_for_a_search_is_left_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each search is tried in turn; where none can do it there is no proof."""

    def refused(limit: float, share: float) -> float:
        raise ValueError

    tried = {Argument.ALL_PIPELINES: refused, Argument.ALL_ASSIGNMENTS: lambda limit, share: 0.5 * limit}
    monkeypatch.setattr(methods, "searches", lambda problem: tried)
    case = read_instance(INSTANCES / "placement/branches-3.yaml")
    (bound,), (certificate,) = methods.exhaustive_proof(case, 8.0, (), Stop())
    assert (bound.value, bound.argument) == (4.0, Argument.ALL_ASSIGNMENTS)
    assert certificate.argument is Argument.ALL_ASSIGNMENTS
    tried[Argument.ALL_ASSIGNMENTS] = refused
    assert methods.exhaustive_proof(case, 8.0, (), Stop()) == ((), ())
