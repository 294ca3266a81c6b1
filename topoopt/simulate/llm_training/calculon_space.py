"""All executions that the search of Calculon goes through, without offloading and tiles of tensor parallelism.

Of these the ones whose replicas divide the sequences of an iteration: what trains on fewer is no faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import isqrt
from typing import TypeVar

from topoopt.core.calculon import CalculonSettings, ExecutionChoices, TensorTransfers
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import StrategyShape
from topoopt.core.parallelism import ParallelStrategy, Recompute
from topoopt.core.pipeline import PipelineSchedule
from topoopt.simulate.llm_training.calculon_estimate import network_problems

Value = TypeVar("Value")


def divisors(number: int) -> list[int]:
    """All of them, ascending."""
    small = [one for one in range(1, isqrt(number) + 1) if number % one == 0]
    return small + [number // one for one in reversed(small) if one * one != number]


def calculon_shapes(problem: LlmTrainingProblem, settings: CalculonSettings) -> list[StrategyShape]:
    """Ways to divide the GPUs that the rules, the networks of the machine and the instance leave, in order."""
    model, gpus, space = problem.model, problem.cluster.gpus, problem.space
    found = []
    for t in divisors(gpus):
        if model.hidden % t or model.heads % t or model.ffn_hidden % t:
            continue
        for p in divisors(gpus // t):
            d = gpus // (t * p)
            own = all(
                values is None or value in values
                for values, value in ((space.tensor, t), (space.pipeline, p), (space.data, d))
            )
            if not own or model.layers % p or problem.batch.sequences % d:
                continue
            if not network_problems(settings, ParallelStrategy(tensor=t, pipeline=p, data=d)):
                found.append(StrategyShape(t, 1, p, d))
    return sorted(found)


def executions(problem: LlmTrainingProblem, shape: StrategyShape) -> Iterator[ParallelStrategy]:
    """Those of one way to divide the GPUs, in order."""
    t, p, d, space = shape.tensor, shape.pipeline, shape.data, problem.space
    length, of_replica = problem.batch.length, problem.batch.sequences // d
    shared = (True, False) if d > 1 else (False,)
    parts = (
        [v for v in (divisors(problem.model.layers // p) if p > 1 else [1]) if _among(space.chunks, v)],
        [b for b in divisors(of_replica) if b * length % t == 0 and _among(space.micro_batch, b)],
        [one for one in Recompute if _among(space.recompute, one)],
        [one for one in TensorTransfers if _among(space.sequence, t > 1 and one is TensorTransfers.SEQUENCE)],
        [one for one in shared if _among(space.zero, int(one))],
        (True, False),
        shared,
    )
    for v, b, recompute, transfers, sharded, redo, overlap in product(*parts):
        if redo and (transfers is not TensorTransfers.SEQUENCE or recompute is Recompute.FULL):
            continue
        yield ParallelStrategy(
            tensor=t,
            sequence=t > 1 and transfers is TensorTransfers.SEQUENCE,
            pipeline=p,
            chunks=v,
            data=d,
            zero=int(sharded),
            micro_batch=b,
            schedule=PipelineSchedule.INTERLEAVED if v > 1 else PipelineSchedule.ONE_F_ONE_B,
            recompute=recompute,
            execution=ExecutionChoices(transfers, redo, overlap),
        )


def _among(values: tuple[Value, ...] | None, value: Value) -> bool:
    return values is None or value in values
