"""What stages of the model take and send in pods: seconds of passes, bytes of tokens, activations and weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy
from topoopt.verify.llm_training.space import Records, records_of, row_of
from topoopt.verify.llm_training.stage_rows import stage_rows
from topoopt.verify.llm_training.transfers import ideal_rates


@dataclass(frozen=True, eq=False)
class StageFigures:
    """Of every stage of the model.

    Attributes:
        seconds: of the passes of a micro-batch by F, I and W, without what crosses to other pods.
        whole: the same with tokens, as ranks plan by it.
        reduced, gathered: bytes of (dense weights, experts) on a GPU: gradients, weights; each once.
        tokens: bytes that a GPU sends to experts, and these back.
        hop_bytes: that a GPU sends to the next stage.
        hop_s: what that takes on an ideal switch.
        step_s: of the optimizer, without what an iteration takes in any case.
        fixed_s: that.
    """

    seconds: Mapping[str, Sequence[float]]
    whole: Mapping[str, Sequence[float]]
    reduced: tuple[Sequence[float], Sequence[float]]
    gathered: tuple[Sequence[float], Sequence[float]]
    tokens: Sequence[float]
    hop_bytes: float
    hop_s: float
    step_s: Sequence[float]
    fixed_s: float


def stage_figures(problem: LlmTrainingProblem, strategy: ParallelStrategy, *, experts_inside: bool) -> StageFigures:
    """Of a strategy.

    Args:
        experts_inside: whether tokens stay in their pod.
    """
    r, layers = records_of([row_of(strategy)]), np.array(strategy.stage_layers, dtype=np.float64)[:, None]
    rates, slow = ideal_rates(problem, r), problem.cluster.slowdown
    rows = stage_rows(problem, r, layers, rates)
    away = rows.parts["expert"] / 2
    out = 0.0 * away if experts_inside else away
    one, never = np.ones(1), np.full(1, np.inf)
    # At a byte a second seconds are bytes, of one family at a time.
    dense = stage_rows(problem, r, layers, replace(rates, data=one, expert_data=never))
    experts = stage_rows(problem, r, layers, replace(rates, data=never, expert_data=one))
    shares = [float(1 - 1 / max(1.0, ranks[0])) for ranks in r.sharers]
    return StageFigures(
        {"F": _listed(rows.forward - out), "I": _listed(rows.inputs - out), "W": _listed(rows.weights)},
        {"F": _listed(rows.forward), "I": _listed(rows.inputs), "W": _listed(rows.weights)},
        _whole([dense.reduced, experts.reduced], shares, slow),
        # With ZeRO 3 a micro-batch gathers twice.
        _whole([dense.gathered, experts.gathered], shares, slow * (2 if strategy.zero == 3 else 1)),
        _tokens(problem, r, strategy.stage_layers),
        float(2 * r.b[0] * problem.batch.length / r.c[0] * problem.model.hidden / (r.t[0] if strategy.sequence else 1)),
        float(rows.hop[0]),
        _listed(rows.step),
        slow * problem.device.reached.iteration_ms / 1e3,
    )


def _listed(values: Floats) -> list[float]:
    found: list[float] = values[:, 0].tolist()
    return found


def _whole(parts: Sequence[Floats], shares: Sequence[float], times: float) -> tuple[list[float], list[float]]:
    """Bytes of a GPU, of which round a ring of n goes the part 1 - 1/n."""
    one, other = (
        [value / times / share if share else 0.0 for value in _listed(part)]
        for part, share in zip(parts, shares, strict=True)
    )
    return one, other


def _tokens(problem: LlmTrainingProblem, r: Records, stages: Sequence[int]) -> list[float]:
    """Bytes that a GPU sends to experts and these back, by stage."""
    experts = problem.model.experts
    if experts is None or r.x[0] == 1:
        return [0.0] * len(stages)
    of_layer = r.b[0] * problem.batch.length / r.c[0] * problem.model.hidden / r.t[0] * experts.per_token
    there = 1.0 if problem.formats.fp8_dispatch else 2.0
    found, begin = [], 0
    for stage, layers in enumerate(stages):
        extra = problem.model.mtp_layers if stage == len(stages) - 1 else 0
        end = begin + layers
        found.append(float(of_layer * (there + 2.0) * (extra + end - max(begin, min(end, experts.dense_layers)))))
        begin = end
    return found
