"""Seconds of an iteration and bytes of the fullest GPU, as the checker recomputes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy
from topoopt.verify.llm_training.iteration import Rates, parts_of
from topoopt.verify.llm_training.layer import GpuSeconds, Seconds
from topoopt.verify.llm_training.memory import memory_of
from topoopt.verify.llm_training.space import Records, records_of, row_of
from topoopt.verify.llm_training.stage_rows import HIDDEN_COST
from topoopt.verify.llm_training.transfers import (
    TWO_WAY,
    DimensionTransfers,
    ideal_rates,
    sent_by,
)


@dataclass(frozen=True, eq=False)
class Passes:
    """Seconds of a micro-batch on a rank, by what they are."""

    compute: Seconds
    tensor: Floats
    context: Floats
    expert: Floats
    sent_forward: Floats

    @property
    def forward(self) -> Floats:
        """F, with what nothing hides."""
        return self.compute.forward + self.sent_forward

    @property
    def both(self) -> Floats:
        """F and B."""
        return self.compute.forward + self.compute.back + self.compute.again + self.tensor + self.context + self.expert

    @property
    def backward(self) -> Floats:
        """B."""
        return self.both - self.forward


@dataclass(frozen=True, eq=False)
class Recomputed:
    """Of strategies: seconds by part, bytes by what they hold, bytes sent by name."""

    seconds: dict[str, Floats]
    memory: dict[str, Floats]
    sent: dict[str, Floats]

    @property
    def total(self) -> Floats:
        """Seconds of the iteration."""
        return np.asarray(sum(self.seconds.values()))

    @property
    def bytes(self) -> Floats:
        """Of the fullest GPU."""
        return np.asarray(sum(self.memory.values()))


def rank_passes(
    problem: LlmTrainingProblem,
    r: Records,
    sent: DimensionTransfers,
    loads: tuple[Floats, Floats, Floats],
    without_experts: Floats | None = None,
) -> tuple[Passes, Passes, Passes]:
    """Of the first rank, the fullest between, and the last, with so many layers.

    Args:
        without_experts: so many of them have no experts; None: as many as there are, all on the first rank.
    """
    model, gpu, alone = problem.model, GpuSeconds(problem, r), r.p == 1
    dense, (embedding, head) = gpu.layer(routed=False), gpu.ends()
    routed = dense if model.experts is None else gpu.layer(routed=True)
    plain_layers = 0 if model.experts is None else model.experts.dense_layers
    chunk = r.v * problem.device.reached.chunk_us / 1e6
    zero = np.zeros_like(chunk)
    launch = Seconds(chunk, chunk, zero, zero)
    both = r.runs(*TWO_WAY)
    found = []
    for place, load in enumerate(loads):
        early, late = alone | (place == 0), alone | (place == 2)
        plain = np.where(early, np.minimum(plain_layers, load), 0.0) if without_experts is None else without_experts
        further = np.where(late, float(model.mtp_layers), 0.0)
        compute = routed.times(load - plain + further) + dense.times(plain) + launch
        compute = compute + embedding.times(early.astype(float)) + head.times(late * (1.0 + model.mtp_layers))
        compute = compute.times(np.where(both & (r.x > 1), HIDDEN_COST, 1.0))
        layers, exchange = load + further, (load - plain + further) * sent.expert
        room = (compute.forward + compute.back) / 2.0
        exchange = exchange - np.where(both, np.minimum(exchange, room), 0.0)
        found.append(
            Passes(
                compute,
                layers * sum(sent.tensor, zero),
                layers * sum(sent.context, zero),
                2.0 * exchange,
                layers * (sent.tensor[0] + sent.context[0]) + exchange,
            )
        )
    return found[0], found[1], found[2]


def recomputed(
    problem: LlmTrainingProblem, strategies: Sequence[ParallelStrategy], rates: Rates | None = None
) -> Recomputed:
    """All figures of strategies, by the rates of their groups; None: on an ideal switch."""
    r = records_of([row_of(one) for one in strategies])
    m = problem.batch.sequences / (r.d * r.b)
    parts = [parts_of(problem, one, rates) for one in strategies]
    seconds = {name: np.array([one[name] for one in parts]) for name in (parts[0] if parts else ())}
    sent = sent_by(problem, r, ideal_rates(problem, r) if rates is None else rates(r))
    most, layers = int(r.p.max(initial=1)), [one.stage_layers for one in strategies]
    loads = [
        np.array([float(sum(own[rank :: int(p)])) if rank < p else 0.0 for own, p in zip(layers, r.p, strict=True)])
        for rank in range(most)
    ]
    return Recomputed(seconds, memory_of(problem, r, m, loads), sent.totals)
