"""How far the time of an iteration may be off, and the runs that say so."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy
from topoopt.page.text import percent
from topoopt.workloads.step_efficiencies import half_width, kind_of

Size = Callable[[LlmTrainingProblem, ParallelStrategy], float]

SIZES: Mapping[str, Size] = MappingProxyType(
    {
        "tensor": lambda problem, item: item.tensor,
        "context": lambda problem, item: item.context,
        "pipeline": lambda problem, item: item.pipeline,
        "chunks": lambda problem, item: item.chunks,
        "expert": lambda problem, item: item.expert,
        "micro_batch": lambda problem, item: item.micro_batch,
        "GPUs": lambda problem, item: problem.cluster.gpus,
        "width / tensor": lambda problem, item: problem.model.hidden / item.tensor,
        "tokens of a micro-batch / (context tensor)": lambda problem, item: (
            item.micro_batch * problem.batch.length / item.context / item.tensor
        ),
    }
)
"""Sizes that decide how well a GPU is used."""

MEASURED: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "tensor": (1, 8),
        "context": (1, 32),
        "pipeline": (1, 64),
        "chunks": (1, 24),
        "expert": (1, 64),
        "micro_batch": (1, 64),
        "GPUs": (8, 16384),
        "width / tensor": (512, 16384),
        "tokens of a micro-batch / (context tensor)": (256, 98304),
    }
)
"""Least and most in the runs that the numbers of the time model are fitted to."""


def outside_measured(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> tuple[str, ...]:
    """A line of warning where a strategy is outside what was measured; none where it is inside."""
    texts = []
    for name, (least, most) in MEASURED.items():
        value = SIZES[name](problem, strategy)
        if not least <= value <= most:
            texts.append(f"{name} is {value:g} (measured: {least:g} to {most:g})")
    if not texts:
        return ()
    return (
        f"outside the runs that the time model was held against, so that its time is extrapolated: {'; '.join(texts)}",
    )


@dataclass(frozen=True)
class TimeInterval:
    """Holds the measured time of an iteration nine times of ten.

    Attributes:
        low_s, high_s: seconds.
        half_width: by which the time may be off, over it.
        runs: the set of runs that it comes from.
        reason: why it is twice theirs; empty: it is not.
    """

    low_s: float
    high_s: float
    half_width: float
    runs: str
    reason: str

    @property
    def text(self) -> str:
        """Plus or minus so much, and of which runs."""
        twice = f", doubled: {self.reason}" if self.reason else ""
        return f"± {percent(self.half_width)} ({self.low_s:.4g} to {self.high_s:.4g} s; runs: {self.runs}{twice})"


def interval_of(problem: LlmTrainingProblem, strategy: ParallelStrategy, seconds: float) -> TimeInterval:
    """Of a strategy that takes so many seconds."""
    extrapolated = bool(outside_measured(problem, strategy))
    width = half_width(problem.device.like, problem.software, kind_of(problem.model), extrapolated=extrapolated)
    factor = math.exp(width.of_log)
    return TimeInterval(seconds / factor, seconds * factor, factor - 1.0, width.runs, width.reason)
