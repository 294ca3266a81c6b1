"""Seconds of all stages of many strategies, by what a layer, the ends and a chunk add, as the checker adds them up."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.verify.llm_training.layer import GpuSeconds, Seconds
from topoopt.verify.llm_training.model_sizes import on_tensor_ranks, sizes_of
from topoopt.verify.llm_training.space import Records
from topoopt.verify.llm_training.transfers import TWO_WAY, DimensionRates, gradient_bytes, sent_by

HIDDEN_COST = 132.0 / 112.0
"""How much longer a GPU computes while 20 of its 132 processors exchange tokens (arXiv:2412.19437)."""

STEP_BYTES = 30.0
"""Of a weight in the step: gradient, master weight and two moments read (16), those but the gradient and the weight
written (14)."""


@dataclass(frozen=True, eq=False)
class StageRows:
    """float64[stages, R] of strategies with as many stages: passes of a micro-batch with their exposed transfers,
    layers, and seconds of reducing, gathering (of ZeRO 3 of one micro-batch) and the step; float64[R] of a hop.

    `parts`: passes by what they are.
    """

    forward: Floats
    inputs: Floats
    weights: Floats
    layers: Floats
    reduced: Floats
    gathered: Floats
    step: Floats
    hop: Floats
    parts: dict[str, Floats]

    @property
    def back(self) -> Floats:
        """Both gradients."""
        return self.inputs + self.weights

    def of(self, chosen: Ints) -> StageRows:
        """Some of the strategies."""
        return StageRows(
            self.forward[:, chosen],
            self.inputs[:, chosen],
            self.weights[:, chosen],
            self.layers[:, chosen],
            self.reduced[:, chosen],
            self.gathered[:, chosen],
            self.step[:, chosen],
            self.hop[chosen],
            {name: part[:, chosen] for name, part in self.parts.items()},
        )

    def without_exchange(self) -> StageRows:
        """Gradients, weights and the step free."""
        none = np.zeros_like(self.reduced)
        return replace(self, reduced=none, gathered=none, step=none)


def stage_rows(problem: LlmTrainingProblem, r: Records, layers: Floats, rates: DimensionRates) -> StageRows:
    """Of strategies.

    Args:
        layers: float64[stages, R], of every stage.
        rates: of the groups of each strategy.
    """
    model, gpu, sent = problem.model, GpuSeconds(problem, r), sent_by(problem, r, rates)
    slow, count = problem.cluster.slowdown, len(layers)
    ends = np.cumsum(layers, axis=0)
    first_dense = model.layers if model.experts is None else model.experts.dense_layers
    plain = np.minimum(ends, first_dense) - np.minimum(ends - layers, first_dense)
    routed = layers - plain
    (routed if model.experts is not None else plain)[-1] += model.mtp_layers
    early, late = np.zeros((count, 1)), np.zeros((count, 1))
    early[0], late[-1] = 1.0, 1.0
    launch = np.full_like(r.t, problem.device.reached.chunk_us / 1e6)
    passes = Seconds(launch, launch, 0.0 * launch, 0.0 * launch) + gpu.layer(routed=False).times(plain)
    if model.experts is not None:
        passes = passes + gpu.layer(routed=True).times(routed)
    embedding, head = gpu.ends()
    passes = passes + embedding.times(early) + head.times(late * (1.0 + model.mtp_layers))
    two_way = r.runs(*TWO_WAY) & (r.x > 1)
    passes = passes.times(slow * np.where(two_way, HIDDEN_COST, 1.0))
    exchange = routed * slow * sent.expert
    exchange = exchange - np.where(two_way, np.minimum(exchange, (passes.forward + passes.back) / 2.0), 0.0)
    every = slow * (plain + routed)
    reduced, gathered, step = _of_weights(problem, r, plain, routed, (early, late), rates)
    return StageRows(
        passes.forward + every * (sent.tensor[0] + sent.context[0]) + exchange,
        passes.inputs + passes.again + every * (sent.tensor[1] + sent.tensor[2] + sent.context[1]) + exchange,
        passes.weights,
        np.maximum(1.0, plain + routed),
        reduced,
        gathered,
        step,
        slow * sent.hop,
        {
            "forward": passes.forward,
            "backward": passes.back,
            "recompute": passes.again,
            "tensor": every * sum(sent.tensor, np.zeros_like(r.t)),
            "context": every * sum(sent.context, np.zeros_like(r.t)),
            "expert": 2.0 * exchange,
        },
    )


def _of_weights(
    problem: LlmTrainingProblem,
    r: Records,
    plain: Floats,
    routed: Floats,
    ends: tuple[Floats, Floats],
    rates: DimensionRates,
) -> tuple[Floats, Floats, Floats]:
    """Reducing, gathering, the step."""
    model, sizes, slow = problem.model, sizes_of(problem.model), problem.cluster.slowdown
    rank = on_tensor_ranks(model, r.t)
    head = rank.final_norm + np.where((r.p == 1) & model.tied, 0.0, rank.vocabulary)
    dense = plain * rank.dense_layer + routed * rank.routed_layer + ends[0] * rank.embedding + ends[1] * head
    experts = routed * (sizes.expert * (0 if model.experts is None else model.experts.count) / (r.x * r.y))
    (group, of_experts), once = r.sharers, np.ones_like(r.t)
    one = gradient_bytes(problem, dense, group, r.zero, once)
    other = gradient_bytes(problem, experts, of_experts, r.zero, once)
    reduced, gathered = (slow * (a / rates.data + b / rates.expert_data) for a, b in zip(one, other, strict=True))
    shared = r.zero > 0
    own = dense / np.where(shared, group, 1.0) + experts / np.where(shared, np.maximum(1.0, of_experts), 1.0)
    moving = problem.device.memory_gbytes_per_s * problem.device.reached.memory * 1e9
    return reduced, gathered, slow * own * STEP_BYTES / moving


def dealt(layers: int, p: int, v: int, first: Floats, last: Floats) -> Floats:
    """float64[p v, R]: layers of every stage where the ranks between the ends have as many as they can alike.

    A rank's longer chunks are its last ones; of the last rank the one before the head stays short.
    """
    if p == 1:
        return np.full((1, len(first)), float(layers))
    between = layers - first - last
    found = np.zeros((p * v, len(first)))
    for rank in range(p):
        inner = np.floor((between + (p - 2) - rank) / max(1, p - 2))  # the first ones have one more
        load = first if rank == 0 else last if rank == p - 1 else inner
        more = load - v * np.floor(load / v)
        stop = v - 1 if rank == p - 1 else v
        for chunk in range(v):
            found[chunk * p + rank] = np.floor(load / v) + ((stop - more <= chunk) & (chunk < stop))
    return found
