"""Strategies that are told of: outside the runs that efficiencies were fitted to, or left out for their replicas.

A roofline is optimistic where parts become very small: launches and messages that large parts hide are all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from topoopt.core.arrays import divisors
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy, StrategySpace

SHOWN = 8

Size = Callable[[LlmTrainingProblem, ParallelStrategy], float]

SIZES: Mapping[str, Size] = MappingProxyType(
    {
        "tensor": lambda problem, one: one.tensor,
        "context": lambda problem, one: one.context,
        "pipeline": lambda problem, one: one.pipeline,
        "chunks": lambda problem, one: one.chunks,
        "micro_batch": lambda problem, one: one.micro_batch,
        "width / tensor": lambda problem, one: problem.model.hidden / one.tensor,
        "tokens of a micro-batch / (context tensor)": lambda problem, one: (
            one.micro_batch * problem.batch.length / one.context / one.tensor
        ),
    }
)
"""Sizes that decide how well a GPU is used."""

MEASURED: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "tensor": (1, 8),
        "context": (1, 16),
        "pipeline": (1, 64),
        "chunks": (1, 16),
        "micro_batch": (1, 16),
        "width / tensor": (768, 7168),
        "tokens of a micro-batch / (context tensor)": (256, 32768),
    }
)
"""Least and most in the runs of `instances/llm-training`, that efficiencies are fitted to or held against."""


def outside_measured(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> tuple[str, ...]:
    """A line of warning where a strategy is outside what was measured; none where it is inside."""
    found = []
    for name, (least, most) in MEASURED.items():
        value = SIZES[name](problem, strategy)
        if not least <= value <= most:
            found.append(f"{name} is {value:g} (measured: {least:g} to {most:g})")
    if not found:
        return ()
    return (
        f"outside the runs that the time model was held against, so that its time is extrapolated: {'; '.join(found)}",
    )


def replicas_of(space: StrategySpace, gpus: int) -> list[int]:
    """Numbers of replicas that tensor, context and pipeline leave."""
    left = {gpus}
    for part in (space.tensor, space.context, space.pipeline):
        left = {one // size for one in left for size in (divisors(one) if part is None else part) if one % size == 0}
    return sorted(left)


def replicas_left_out(problem: LlmTrainingProblem) -> tuple[str, ...]:
    """A line on numbers of replicas no larger than the batch that do not divide it."""
    sequences, space = problem.batch.sequences, problem.space
    out = [one for one in replicas_of(space, problem.cluster.gpus) if one <= sequences and sequences % one]
    if not out or space.data is not None:
        return ()
    shown = ", ".join(map(str, out[:SHOWN])) + (", ..." if len(out) > SHOWN else "")
    return (f"strategies of {shown} replicas are left out, as these do not divide the {sequences} sequences",)
