"""An iteration on a network by the order of its passes, again: weights gathered ahead, gradients reduced behind.

Gradients of a layer are reduced when its last backward pass is through, one layer after the other; weights (ZeRO 1 and
2) are gathered in the order of the first forward passes; the step of the optimizer waits for all ranks. With ZeRO 3
what passes do not hide is that of the closed form.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy
from topoopt.verify.llm_training.model_sizes import sizes_of
from topoopt.verify.llm_training.pipeline_order import MOST_PASSES, RULED, Pass, pass_ends, passes
from topoopt.verify.llm_training.space import records_of, row_of
from topoopt.verify.llm_training.stage_times import stages_of
from topoopt.verify.llm_training.step import STEP_BYTES, recomputed
from topoopt.verify.llm_training.transfers import DimensionRates, gradient_bytes

LayerSeconds = list[tuple[float, int]]
"""For each stage seconds of one layer, and its layers."""


def not_followed(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> str:
    """Why the order of the passes is not followed; empty if it is."""
    if strategy.schedule not in RULED:
        return f"the checker has no rule for the order of {strategy.schedule}"
    m = problem.batch.sequences // (strategy.data * strategy.micro_batch)
    if passes(strategy.pipeline, strategy.chunks, m, strategy.schedule) > MOST_PASSES:
        return "too many passes to follow"
    return ""


def iteration_s(problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: DimensionRates) -> float:
    """Seconds of an iteration whose order is followed."""
    slow, stages = problem.cluster.slowdown, stages_of(problem, strategy, rates)
    m = problem.batch.sequences // (strategy.data * strategy.micro_batch)
    ends = pass_ends(strategy.schedule, strategy.pipeline, strategy.chunks, m, stages)
    makespan = max(ends.values())
    step = slow * _step_s(problem, strategy)
    if strategy.zero == 3:
        closed = recomputed(problem, records_of([row_of(strategy)]), rates)
        return makespan + float(closed.seconds["data"][0]) + step
    reduced, gathered = (
        [(slow * seconds, layers) for seconds, layers in one] for one in layer_exchange(problem, strategy, rates)
    )
    split = any(kind == "W" for kind, _, _ in ends)
    both = [i + w for i, w in zip(stages.inputs_s, stages.weights_s, strict=True)]
    back = stages.weights_s if split else both
    first, last = _around(ends, "W" if split else "B")
    before, behind = 0.0, 0.0
    for rank in range(strategy.pipeline):
        own = range(rank, len(back), strategy.pipeline)
        begun = {stage: first[stage] - stages.forward_s[stage] for stage in own}
        before = max(before, _late(problem, gathered, begun, stages.forward_s))
        behind = max(behind, _through(problem, reduced, {stage: last[stage] for stage in own}, back) - makespan)
    return before + makespan + behind + step


def _around(ends: dict[Pass, float], last: str) -> tuple[dict[int, float], dict[int, float]]:
    """By stage when its first forward pass ends, and when its last pass of that kind does."""
    first: dict[int, float] = {}
    late: dict[int, float] = {}
    for (kind, _, stage), end in ends.items():
        if kind == "F":
            first[stage] = min(end, first.get(stage, end))
        elif kind == last:
            late[stage] = max(end, late.get(stage, end))
    return first, late


def _late(
    problem: LlmTrainingProblem, gathered: LayerSeconds, begun: dict[int, float], forward: tuple[float, ...]
) -> float:
    """How much later a rank begins for weights that come layer by layer."""
    here, late = 0.0, 0.0
    for stage in sorted(begun, key=lambda stage: begun[stage]):
        seconds, layers = gathered[stage]
        for layer in range(layers):
            here += seconds
            late = max(late, here - begun[stage] - forward[stage] * layer / layers)
    return late if problem.overlap.data else max(0.0, here - min(begun.values()))


def _through(
    problem: LlmTrainingProblem, reduced: LayerSeconds, done: dict[int, float], back: tuple[float, ...] | list[float]
) -> float:
    """When a rank has reduced all gradients, the layer that is through first before the others."""
    order = sorted(done, key=lambda stage: done[stage])
    if not problem.overlap.data:
        return max(done.values()) + sum(reduced[stage][0] * reduced[stage][1] for stage in order)
    free = 0.0
    for stage in order:
        seconds, layers = reduced[stage]
        for left in reversed(range(layers)):
            free = max(free, done[stage] - back[stage] * left / layers) + seconds
    return free


def layer_exchange(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: DimensionRates
) -> tuple[LayerSeconds, LayerSeconds]:
    """Reducing gradients and gathering weights of a layer of every stage, embedding and head among its layers."""
    replicas, of_experts = _sharers(strategy)
    zero, once = np.array([float(strategy.zero)]), np.ones(1)
    found: tuple[LayerSeconds, LayerSeconds] = [], []
    for dense, experts, layers in _weights(problem, strategy):
        one = gradient_bytes(problem, np.array([dense]), np.array([replicas]), zero, once)
        other = gradient_bytes(problem, np.array([experts]), np.array([of_experts]), zero, once)
        for rows, a, b in zip(found, one, other, strict=True):
            rows.append((float((a / rates.data + b / rates.expert_data)[0]) / layers, layers))
    return found


def _sharers(strategy: ParallelStrategy) -> tuple[float, float]:
    """Ranks that hold the same dense weights, and the same experts."""
    replicas = float(strategy.data * strategy.context)
    return replicas, replicas * strategy.tensor / (strategy.expert * strategy.expert_tensor)


def _weights(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> list[tuple[float, float, int]]:
    """Of a rank, for every stage: dense weights, those of experts, and layers (at least 1)."""
    model, sizes, t = problem.model, sizes_of(problem.model), strategy.tensor
    plain_layer = (sizes.attention + sizes.mlp) / t + sizes.small_dense
    expert_layer = (sizes.attention + sizes.met) / t + sizes.small_expert
    count = 0 if model.experts is None else model.experts.count
    own = sizes.expert * count / (strategy.expert * strategy.expert_tensor)
    found, begin = [], 0
    for stage, layers in enumerate(strategy.stage_layers):
        plain = max(0, min(begin + layers, sizes.dense_layers) - begin)
        routed = layers - plain
        begin += layers
        last = stage == len(strategy.stage_layers) - 1
        further = model.mtp_layers if last else 0
        if model.experts is None:
            plain += further
        else:
            routed += further
        ends = sizes.embedding / t if stage == 0 else 0.0
        if last:
            copied = model.vocabulary * model.hidden if model.tied and strategy.pipeline > 1 else 0
            ends += (sizes.head + copied) / t
        found.append((plain * plain_layer + routed * expert_layer + ends, routed * own, max(1, plain + routed)))
    return found


def _step_s(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> float:
    """The step of the optimizer on the fullest rank, and what an iteration costs anyway."""
    replicas, of_experts = _sharers(strategy) if strategy.zero else (1.0, 1.0)
    own = [dense / replicas + experts / max(1.0, of_experts) for dense, experts, _ in _weights(problem, strategy)]
    fullest = max(sum(own[rank :: strategy.pipeline]) for rank in range(strategy.pipeline))
    reached = problem.device.reached
    moving = problem.device.memory_gbytes_per_s * reached.memory * 1e9
    return fullest * STEP_BYTES / moving + reached.iteration_ms / 1e3
