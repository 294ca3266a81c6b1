"""The certificate again: for every way to divide the GPUs a bound, or all its strategies.

No strategy of a shape is faster than the least, over its micro-batches, sequence parallelism and schedules, of
(m - 1) M + S, or what its schedule makes of that: M is what the busiest rank takes for a micro-batch at least, the mean
of all ranks or ceil(L / p) of the cheapest layers; S what a micro-batch takes on all ranks together. Interleaving in v
chunks divides all waiting by v; zero-bubble schedules wait for nothing but what is not gradients of weights; DualPipe
waits for nothing. Nothing is computed again; gradients, the optimizer and memory are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import StrategyShape
from topoopt.core.pipeline import PipelineSchedule as S
from topoopt.verify.llm_training.layer import GpuSeconds
from topoopt.verify.llm_training.space import SCHEDULES, Records, divisors, orders_of, pipelines, records_of, splits_of
from topoopt.verify.llm_training.step import HIDDEN_COST
from topoopt.verify.llm_training.transfers import TWO_WAY, ideal_rates, sent_by

BLOCK = 1 << 15
"""Rows that are evaluated together."""


def bounds_of(problem: LlmTrainingProblem, shapes: Sequence[StrategyShape]) -> Floats:
    """Seconds, one value a shape; inf where there is no strategy."""
    found = np.full(len(shapes), np.inf)
    places: list[int] = []
    rows: list[tuple[float, ...]] = []
    for place, shape in enumerate(shapes):
        own = list(_plainest(problem, shape))
        places += [place] * len(own)
        rows += own
    for begin in range(0, len(rows), BLOCK):
        here = slice(begin, begin + BLOCK)
        np.minimum.at(found, places[here], _least_seconds(problem, records_of(rows[here])))
    return found


def _plainest(problem: LlmTrainingProblem, shape: StrategyShape) -> set[tuple[float, ...]]:
    """For each micro-batch, schedule and split one row; its chunks are as many as there can be."""
    batch = problem.batch
    found: set[tuple[float, ...]] = set()
    for b in divisors(batch.sequences // shape.data):
        if problem.space.micro_batch is not None and b not in problem.space.micro_batch:
            continue
        most: dict[S, int] = {}
        for name, v in pipelines(problem, shape.pipeline, batch.sequences // (shape.data * b)):
            most[name] = max(v, most.get(name, 1))
        splits = (0,) if shape.tensor == 1 else splits_of(problem, shape.tensor, b * batch.length // shape.context)
        found |= {
            (shape.tensor, split, shape.context, shape.pipeline, v, shape.data, shape.expert, shape.expert_tensor, 0, b,
             SCHEDULES.index(name), 0, 0, 0, 0, order)
            for name, v in most.items() for split in splits for order in orders_of(problem, shape)
        }  # fmt: skip
    return found


def _least_seconds(problem: LlmTrainingProblem, r: Records) -> Floats:
    model, cluster, reached = problem.model, problem.cluster, problem.device.reached
    two_way = r.runs(*TWO_WAY)
    most_chunks, r = r.v, replace(r, v=np.ones_like(r.v))
    gpu, sent = GpuSeconds(problem, r), sent_by(problem, r, ideal_rates(problem, r))
    slower = np.where(two_way & (r.x > 1), HIDDEN_COST, 1.0)
    ring = sent.tensor[0] + sent.tensor[1] + sent.context[0] + sent.context[1]
    layers = [(gpu.layer(routed=False), ring)]
    if model.experts is not None:
        layers.append((gpu.layer(routed=True), ring + np.where(two_way, 0.0, 2.0 * sent.expert)))
    takes = [slower * (one.forward + one.back) + exposed for one, exposed in layers]
    cheapest = np.minimum.reduce(takes)
    dense = 0 if model.experts is None else model.experts.dense_layers
    embedding, head = gpu.ends()
    ends = embedding.forward + embedding.back + (1 + model.mtp_layers) * (head.forward + head.back)
    launch = 2.0 * reached.chunk_us / 1e6 * slower
    all_ranks = dense * cheapest + (model.layers - dense + model.mtp_layers) * takes[-1] + slower * ends + r.p * launch
    by_count = np.ceil(model.layers / r.p)
    busiest = np.maximum(all_ranks / r.p, np.where(two_way & (r.p == 2), 0.0, by_count * cheapest + launch))
    m = problem.batch.sequences / (r.d * r.b)
    plain = (m - 1.0) * busiest + all_ranks
    found = np.where(r.runs(S.INTERLEAVED), m * busiest + (all_ranks - busiest) / most_chunks, plain)
    for schedule, spare in ((S.ZB_H1, 2.0), (S.ZB_2P, 3.0)):
        waits = np.minimum.reduce(
            [one.forward + one.inputs - (spare - 1.0) * one.weights + exposed for one, exposed in layers]
        )
        waits = (r.p - 1.0) * np.maximum(0.0, by_count * waits + 2.0 * reached.chunk_us / 1e6)
        found = np.where(r.runs(schedule), np.minimum(plain, m * busiest + waits), found)
    found = np.where(two_way, m * busiest, found)
    hops = r.p - 1.0 if problem.overlap.pipeline else m + r.p - 1.0
    return np.asarray(cluster.slowdown * (found + 2.0 * sent.hop * hops + reached.iteration_ms / 1e3))
