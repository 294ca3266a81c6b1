"""The whole space of strategies of small models and clusters, against each rule tried on each combination."""

from __future__ import annotations

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest

from solvers.llm_training.strategies import FIRST, SearchedSpace, rows_of_shape, search, strategy_of, strategy_shapes
from solvers.stop import Stop
from tests.support.llm_cases import training
from topoopt.core.arrays import GIB, Floats
from topoopt.core.llm_training import Attention, Experts, LlmTrainingProblem, Mlp, TrainingBatch
from topoopt.core.llm_training_plan import ShapeVerdict, StrategyShape
from topoopt.core.parallelism import (
    Overlap,
    ParallelStrategy,
    PipelineSchedule,
    Recompute,
    StrategySpace,
)
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.proofs import StopReason
from topoopt.simulate.llm_training.costs import ledger, total_bytes
from topoopt.simulate.llm_training.step import estimate
from topoopt.simulate.llm_training.strategies import columns_of, strategy_problems
from topoopt.simulate.llm_training.times import iteration_times
from topoopt.workloads.language_models import uniform

OTHERS = (D.CONTEXT, D.PIPELINE, D.DATA)


def drawn_problem(rng: np.random.Generator) -> LlmTrainingProblem:
    """A small model on a few GPUs; sometimes with experts, with parts stated, with memory that few strategies fit."""
    heads = int(rng.choice([2, 3, 4]))
    head_size = 64
    experts = Experts(4, 2, 512) if rng.random() < 0.3 else None
    layers, mixer = int(rng.integers(1, 4)), Attention(heads, int(rng.choice([1, heads])), head_size)
    model = uniform("small", layers, heads * head_size, mixer, experts or Mlp(1536), 4096)
    gpus = int(rng.choice([2, 4, 6]))
    problem = training("llama3-70b", 8, 8, 128)
    cluster = replace(
        problem.cluster, servers=gpus // 2, gpus_per_server=2, degree=2,
        gpu_memory_bytes=int(GIB * rng.choice([0.012, 0.03, 0.08, 80.0])),
    )  # fmt: skip
    space = StrategySpace(
        tensor=(1, 2) if rng.random() < 0.3 else None,
        zero=(0, 1, 3) if rng.random() < 0.3 else None,
        schedule=tuple(PipelineSchedule)[:4] if rng.random() < 0.3 else None,
        recompute=(Recompute.NONE, Recompute.FULL) if rng.random() < 0.3 else None,
    )
    return replace(
        problem,
        model=model,
        batch=TrainingBatch(int(rng.choice([4, 6, 8])), int(rng.choice([64, 96]))),
        cluster=cluster,
        space=space,
        overlap=Overlap(tensor=float(rng.choice([0.0, 0.5])), data=bool(rng.integers(0, 2))),
    )


def all_strategies(problem: LlmTrainingProblem) -> list[ParallelStrategy]:
    """Every combination of parts that the rules and the instance allow, those that do the same included."""
    gpus, batch, experts = problem.cluster.gpus, problem.batch, problem.model.experts
    stages = problem.model.layers + 2
    ranges = {
        "tensor": range(1, gpus + 1),
        "context": range(1, gpus + 1),
        "pipeline": range(1, gpus + 1),
        "data": range(1, gpus + 1),
    }
    found = []
    for t, c, p, d in itertools.product(*ranges.values()):
        if t * c * p * d != gpus or batch.sequences % d:
            continue
        rest = itertools.product(
            (False, True),
            range(1, stages + 1),
            range(1, 5 if experts else 2),
            (0, 1) if p > 1 and problem.space.zero is None else range(4),
            [b for b in range(1, batch.sequences // d + 1) if batch.sequences // d % b == 0],
            PipelineSchedule,
            Recompute,
        )
        for sequence, v, x, zero, b, schedule, again in rest:
            one = ParallelStrategy(t, sequence, c, p, v, d, x, 1, zero, b, schedule, again)
            if stated(problem.space, one) and not strategy_problems(problem, one):
                found += [replace(one, order=(D.TENSOR, *others)) for others in itertools.permutations(OTHERS)]
    return found


def placed(one: ParallelStrategy) -> ParallelStrategy:
    """The first order, by its name, in which ranks stand as they do: a dimension of one rank plays no part."""
    sizes = {D.CONTEXT: one.context, D.PIPELINE: one.pipeline, D.DATA: one.data}
    idle = [dimension for dimension in OTHERS if sizes[dimension] == 1]
    return replace(one, order=(D.TENSOR, *idle, *(dimension for dimension in one.order[1:] if dimension not in idle)))


def stated(space: StrategySpace, one: ParallelStrategy) -> bool:
    """Whether the instance allows each part that plays one."""
    idle = {"order", "short_ends", "layers"}
    idle |= {"sequence"} if one.tensor == 1 else set()
    idle |= {"zero"} if one.data * one.context == 1 else set()
    idle |= {"schedule"} if one.pipeline == 1 else set()
    for part in fields(StrategySpace):
        values = getattr(space, part.name)
        if values is not None and part.name not in idle and getattr(one, part.name) not in values:
            return False
    return True


def fitting_times(problem: LlmTrainingProblem, strategies: list[ParallelStrategy]) -> list[float]:
    """Times of those that fit, ascending."""
    if not strategies:
        return []
    times, held = followed(problem, strategies)
    return sorted(times[held <= problem.usable_bytes].tolist())


def followed(problem: LlmTrainingProblem, strategies: list[ParallelStrategy]) -> tuple[Floats, Floats]:
    """Seconds by the order of the passes, and bytes."""
    columns = columns_of(strategies, problem.model.layers)
    return iteration_times(problem, columns), total_bytes(ledger(problem, columns))


def spelled(problem: LlmTrainingProblem) -> list[ParallelStrategy]:
    """The space that is gone through."""
    rows = [(shape, row) for shape in strategy_shapes(problem) for row in rows_of_shape(problem, shape)]
    return [replace(strategy_of(problem, shape, row), stage_layers=()) for shape, row in rows]


def test_each_strategy_stands_once() -> None:
    """Random models: the canonical space is what the rules leave of all combinations, selective recomputation (which
    does nothing beside attention in tiles) left out; no strategy stands twice."""
    rng = np.random.default_rng(31)
    for _ in range(5):
        problem = drawn_problem(rng)
        found = spelled(problem)
        assert len({placed(one) for one in found}) == len(found)
        none = Recompute.NONE in (problem.space.recompute or Recompute)
        every = (placed(one) for one in all_strategies(problem))
        expected = {one for one in every if not none or one.recompute is not Recompute.SELECTIVE}
        assert {placed(one) for one in found} == expected


def compare(seed: int, cases: int) -> int:
    """Search random models, and go through all combinations; how many cases nothing fits."""
    rng = np.random.default_rng(seed)
    none = 0
    for _ in range(cases):
        problem = drawn_problem(rng)
        usable = problem.usable_bytes
        found = search(problem, Stop(), count=3)
        assert found.stopped_by is StopReason.CONVERGED
        times, again = fitting_times(problem, all_strategies(problem)), spelled(problem)
        if not times:
            none += 1
            assert not found.ranked
            assert found.records == len(again)
            assert all(one.verdict is ShapeVerdict.MEMORY and one.least_bytes > usable for one in found.shapes)
            continue
        assert found.ranked[0].iteration_time_s == pytest.approx(times[0], rel=1e-12)
        check_certificate(problem, found, again)
        ranked = [one.iteration_time_s for one in found.ranked]
        assert ranked == pytest.approx(fitting_times(problem, again)[:3], rel=1e-12)
        assert [estimate(problem, one.strategy).iteration_time_s for one in found.ranked] == pytest.approx(ranked)
    return none


def check_certificate(problem: LlmTrainingProblem, found: SearchedSpace, everything: list[ParallelStrategy]) -> None:
    """Every shape has its line, and it holds for all of its strategies."""
    times, held = followed(problem, everything)
    fits = held <= problem.usable_bytes
    shapes = [StrategyShape(s.tensor, s.context, s.pipeline, s.data, s.expert, s.expert_tensor) for s in everything]
    lines = {line.shape: line for line in found.shapes}
    assert set(lines) == set(shapes)
    last = found.ranked[-1].iteration_time_s
    for shape, line in lines.items():
        own = np.array([one == shape for one in shapes])
        assert line.bound_s <= times[own].min() * (1 + 1e-10)
        if line.verdict is ShapeVerdict.BOUND:
            assert line.bound_s > last
            continue
        assert (line.records, line.fitting) == (own.sum(), (own & fits).sum())
        assert (line.verdict is ShapeVerdict.SEARCHED) == bool((own & fits).any())


def test_the_best_of_all() -> None:
    """Random models and clusters: the fastest that fits of all combinations of parts is the one found; where none fits
    none is found, and the least memory of each shape says so."""
    assert compare(37, 6) < 6


@pytest.mark.heavy
def test_the_best_of_all_of_many() -> None:
    """The same for 200 of them."""
    assert 1 < compare(41, 200) < 100


def test_limits_keep_the_best_so_far() -> None:
    """A limit that is over from the start: the first shapes are gone through, the others are told as left."""
    problem = training("gpt3-175b", 64, 64, 2048)
    found = search(problem, Stop(deadline=0.0), count=1)
    assert found.left > 0
    assert found.stopped_by is StopReason.TIME


def test_without_a_proof_the_search_ends_early() -> None:
    """`proof: false`: fewer strategies are seen, and the bounds of the shapes left hold for the best of all."""
    problem = training("mixtral-8x22b", 64, 128, 4096)
    whole, quick = search(problem, Stop(), count=4), search(replace(problem, prove=False), Stop(), count=4)
    assert quick.stopped_by is StopReason.BUDGET
    assert quick.records < whole.records
    assert whole.ranked[0].iteration_time_s <= quick.ranked[0].iteration_time_s
    bounds = [line.bound_s for line in quick.shapes if line.verdict is ShapeVerdict.LEFT]
    assert bounds
    assert min(bounds) <= whole.ranked[0].iteration_time_s


def test_blocks_of_a_search_grow() -> None:
    """At first few strategies are evaluated together, then twice as many each time: few blocks for many of them."""
    blocks: list[int] = []
    found = search(training("llama3-70b", 8, 8, 2048), Stop(), count=3, tell=lambda _, done, of: blocks.append(done))
    assert found.records > 4 * FIRST
    assert len(blocks) <= 1 + np.log2(1 + found.records / FIRST)
