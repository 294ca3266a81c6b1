"""The executions that Calculon's search goes through and an instance leaves, counted by the checker."""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import product

from topoopt.core.calculon import ExecutionChoices, TensorTransfers
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import StrategyShape
from topoopt.core.parallelism import ParallelStrategy, Recompute
from topoopt.core.pipeline import PipelineSchedule


def ways_to_divide(problem: LlmTrainingProblem) -> list[StrategyShape]:
    """GPUs = t p D: t divides heads and widths, p the layers, D the batch; groups fit in their networks."""
    model, gpus = problem.model, problem.cluster.gpus
    found = []
    for t in range(1, min(gpus, model.heads) + 1):
        if any(whole % t for whole in (gpus, model.heads, model.hidden, model.ffn_hidden)):
            continue
        for p in range(1, min(gpus // t, model.layers) + 1):
            d = gpus // t // p
            if t * p * d != gpus or model.layers % p or problem.batch.sequences % d:
                continue
            wanted = all(one in _of(values, one) for values, one in zip(_sizes(problem), (t, p, d), strict=True))
            if wanted and _joined(problem, (t, p, d)):
                found.append(StrategyShape(t, 1, p, d))
    return found


def _sizes(problem: LlmTrainingProblem) -> tuple[tuple[int, ...] | None, ...]:
    return problem.space.tensor, problem.space.pipeline, problem.space.data


def _of(values: Container[object] | None, one: object) -> Container[object]:
    return (one,) if values is None else values


def _joined(problem: LlmTrainingProblem, sizes: tuple[int, int, int]) -> bool:
    """Whether groups of ranks that share a network have room in it, and fill it where they must."""
    settings = problem.calculon
    assert settings is not None
    used: dict[int, int] = {}
    places = (settings.tensor_network, settings.pipeline_network, settings.data_network)
    for place, size in zip(places, sizes, strict=True):
        used[place] = used.get(place, 1) * size
    for place, ranks in used.items():
        network = settings.machine.networks[place]
        if ranks > network.size or (network.must_be_filled and network.size % ranks):
            return False
    return True


def executions_of(problem: LlmTrainingProblem, shape: StrategyShape) -> Iterator[ParallelStrategy]:
    """All of one way to divide the GPUs."""
    t, p, d, space = shape.tensor, shape.pipeline, shape.data, problem.space
    deep, sequences = problem.model.layers // p, problem.batch.sequences // d
    runs = [v for v in range(1, deep + 1 if p > 1 else 2) if deep % v == 0 and v in _of(space.chunks, v)]
    batches = [
        b
        for b in range(1, sequences + 1)
        if sequences % b == 0 and b * problem.batch.length % t == 0 and b in _of(space.micro_batch, b)
    ]
    several = (False, True) if d > 1 else (False,)
    for transfers in TensorTransfers:
        for recompute in Recompute:
            parted = transfers is TensorTransfers.SEQUENCE
            again = (False, True) if parted and recompute is not Recompute.FULL else (False,)
            split = parted and t > 1
            if recompute not in _of(space.recompute, recompute) or split not in _of(space.sequence, split):
                continue
            for v, b, shared, overlap, redo in product(runs, batches, several, several, again):
                if int(shared) not in _of(space.zero, int(shared)):
                    continue
                schedule = PipelineSchedule.INTERLEAVED if v > 1 else PipelineSchedule.ONE_F_ONE_B
                yield ParallelStrategy(
                    t, split, 1, p, v, d, 1, 1, int(shared), b, schedule, recompute,
                    execution=ExecutionChoices(transfers, redo, overlap),
                )  # fmt: skip
