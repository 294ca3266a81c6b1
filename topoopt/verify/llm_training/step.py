"""Seconds of an iteration and bytes of the fullest GPU, as the checker recomputes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.pipeline import PipelineSchedule as S
from topoopt.verify.llm_training.layer import GpuSeconds, Seconds
from topoopt.verify.llm_training.memory import memory_of, weights_of
from topoopt.verify.llm_training.space import Records
from topoopt.verify.llm_training.transfers import (
    TWO_WAY,
    DimensionRates,
    DimensionTransfers,
    gradient_bytes,
    ideal_rates,
    sent_by,
)

HIDDEN_COST = 132.0 / 112.0
"""How much longer a GPU computes while 20 of its 132 processors exchange tokens (arXiv:2412.19437)."""

STEP_BYTES = 30.0
"""Of a weight in the step: gradient, master weight and two moments read (16), those but the gradient and the weight
written (14)."""


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


def recomputed(problem: LlmTrainingProblem, r: Records, rates: DimensionRates | None = None) -> Recomputed:
    """All figures of strategies, by the rates of their groups; None: on an ideal switch."""
    m = problem.batch.sequences / (r.d * r.b)
    rates = ideal_rates(problem, r) if rates is None else rates
    sent = sent_by(problem, r, rates)
    ranks = rank_passes(problem, r, sent, (r.first, r.inner, r.last))
    first, inner, last = (rank.both for rank in ranks)
    both = r.runs(*TWO_WAY)
    ends = np.where(both, (first + last) / 2.0, np.maximum(first, last))
    busiest = np.where(r.p > 2, np.maximum(ends, inner), ends)

    def on_busiest(part: tuple[Floats, Floats, Floats]) -> Floats:
        end = np.where(both, (part[0] + part[2]) / 2.0, np.where(last >= first, part[2], part[0]))
        return np.where((r.p > 2) & (inner >= busiest), part[1], end)

    def of_rank(name: str, *, compute: bool = False) -> Floats:
        parts = [getattr(rank.compute if compute else rank, name) for rank in ranks]
        return m * on_busiest((parts[0], parts[1], parts[2]))

    data, step = _data(problem, r, ranks[1], sent, rates, m)
    seconds = {
        "forward": of_rank("forward", compute=True),
        "backward": of_rank("back", compute=True),
        "recompute": of_rank("again", compute=True),
        "bubble": _bubble(r, ranks, m, busiest),
        "tensor": of_rank("tensor"),
        "context": of_rank("context"),
        "expert": of_rank("expert"),
        "pipeline": _hops(problem, r, ranks[1], sent.hop, m),
        "data": data,
        "optimizer": step + problem.device.reached.iteration_ms / 1e3,
    }
    slow = problem.cluster.slowdown
    return Recomputed(
        {name: np.asarray(slow * part) for name, part in seconds.items()}, memory_of(problem, r, m), sent.totals
    )


def _bubble(r: Records, ranks: tuple[Passes, Passes, Passes], m: Floats, busiest: Floats) -> Floats:
    """Seconds that the busiest rank waits."""
    first, inner, last = (rank.both for rank in ranks)
    between = np.maximum(0.0, r.p - 2.0)
    plain = (first + last + between * inner - busiest) / r.v
    f, w = ranks[1].forward, ranks[1].compute.weights
    b = ranks[1].backward - w
    # Behind the first passes of all ranks before it a rank has all its work; or one rank's passes but for gradients of
    # weights, as often as there are micro-batches, between those of all others.
    forward = [rank.forward for rank in ranks]
    chain = [rank.both - rank.compute.weights for rank in ranks]
    through = chain[0] + between * chain[1] + chain[2]
    least = np.maximum(
        m * last + forward[0] + between * forward[1], (m - 1.0) * np.maximum(chain[0], chain[2]) + through
    )
    middle = m * inner + forward[0] + np.maximum(0.0, between - 1.0) * forward[1]
    middle = np.maximum(middle, (m - 1.0) * chain[1] + through)
    least = np.where(r.p > 2, np.maximum(least, middle), least) - m * busiest
    found = plain
    for schedule, spare in ((S.ZB_H1, 1.0), (S.ZB_2P, 2.0)):
        idle = (r.p - 1.0) * np.maximum(0.0, f + b - spare * w)
        found = np.where(r.runs(schedule), np.minimum(plain, np.maximum(idle, least)), found)
    dual = np.maximum(0.0, r.p / 2.0 - 1.0) * np.maximum(0.0, f + 2.0 * b - w)
    found = np.where(r.runs(*TWO_WAY), np.minimum(plain, dual), found)
    return np.where(r.p > 1, found, 0.0)


def _hops(problem: LlmTrainingProblem, r: Records, inner: Passes, hop: Floats, m: Floats) -> Floats:
    """Exposed seconds of transfers between stages."""
    if not problem.overlap.pipeline:
        return np.where(r.p > 1, 2.0 * hop * (m * r.v + r.p - 1.0), 0.0)
    once = 2.0 * hop * (r.p - 1.0)
    late = np.maximum(0.0, hop - inner.forward / r.v) + np.maximum(0.0, hop - inner.backward / r.v)
    rules = (
        (r.p == 1, np.zeros_like(hop)),
        (r.runs(S.ONE_F_ONE_B), once + 2.0 * hop * (m - 1.0 - np.ceil((m - 1.0) / r.p))),
        (r.runs(S.INTERLEAVED), 2.0 * hop * (r.p * r.v - 1.0) + m * r.v * late),
        (r.runs(S.GPIPE), once),
    )
    return np.select([rule for rule, _ in rules], [value for _, value in rules], 2.0 * once)


def _data(
    problem: LlmTrainingProblem, r: Records, inner: Passes, sent: DimensionTransfers, rates: DimensionRates, m: Floats
) -> tuple[Floats, Floats]:
    """Exposed seconds to reduce gradients and gather weights, and seconds of the step of the optimizer."""
    dense, experts = (np.maximum.reduce(kind) for kind in weights_of(problem, r))
    one = gradient_bytes(problem, dense, sent.group, r.zero, m)
    other = gradient_bytes(problem, experts, sent.expert_group, r.zero, m)
    scatter, gather = (a / rates.data + b / rates.expert_data for a, b in zip(one, other, strict=True))
    if problem.overlap.data:
        alone = 1.0 / np.maximum(1.0, r.inner)  # the layer that nothing is computed behind
        every = r.zero == 3
        rounds = np.select([every, r.v > 1], [m, np.minimum(m, r.p)], 1.0)
        shown = alone / np.where(every, m, 1.0)
        scatter = np.maximum(shown * scatter, scatter - (1.0 - alone) * rounds * inner.backward)
        gather = np.maximum(shown * gather, gather - (1.0 - alone) * rounds * inner.forward)
    shared = r.zero > 0
    own = dense / np.where(shared, sent.group, 1.0) + experts / np.where(
        shared, np.maximum(1.0, sent.expert_group), 1.0
    )
    moving = problem.device.memory_gbytes_per_s * problem.device.reached.memory * 1e9
    return scatter + gather, own * STEP_BYTES / moving
