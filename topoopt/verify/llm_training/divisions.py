"""Layers of the stages of strategies that name none, and what their ranks hold.

Balanced layers again: of all that ranks could have beyond those that no chunk goes without, and that memory holds, as
many as there are with which ranks are through first; of those through together the later one's.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import LayerDivision, ParallelStrategy
from topoopt.verify.llm_training.layer import GpuSeconds, Seconds
from topoopt.verify.llm_training.memory import bytes_at, memory_of
from topoopt.verify.llm_training.space import BALANCED, Records, even_ends, row_of
from topoopt.verify.llm_training.stage_rows import dealt
from topoopt.verify.llm_training.transfers import TWO_WAY, ideal_rates, sent_by

MOST_CASES = 4_000_000
"""Numbers of layers on ranks that are looked at together."""


def row_in(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> tuple[float, ...]:
    """A strategy as a row of the space of an instance."""
    row = row_of(strategy)
    balanced = problem.space.layers is LayerDivision.BALANCED and strategy.pipeline > 1
    return (*row[:12], *[BALANCED] * 3, row[15]) if balanced and strategy.schedule not in TWO_WAY else row


def layers_of(problem: LlmTrainingProblem, r: Records, p: int, v: int) -> Floats:
    """float64[p v, R]: layers of every stage of strategies of p ranks with v chunks."""
    found, balanced = dealt(problem.model.layers, p, v, r.first, r.last), np.flatnonzero(r.first == BALANCED)
    count = 1 + len(balanced) * p * (problem.model.layers + 1) // MOST_CASES
    for places in np.array_split(balanced, count) if len(balanced) else ():
        found[:, places] = _balanced(problem, _chosen(r, places), p, v)
    return found


def held_by(problem: LlmTrainingProblem, r: Records) -> Floats:
    """Bytes of the fullest rank."""
    m, balanced = problem.batch.sequences / (r.d * r.b), r.first == BALANCED
    found = np.empty(len(m))
    plain = np.flatnonzero(~balanced)
    if len(plain):
        found[plain] = sum(memory_of(problem, _chosen(r, plain), m[plain]).values())
    for p, v in {(int(p), int(v)) for p, v in zip(r.p[balanced], r.v[balanced], strict=True)}:
        places = np.flatnonzero(balanced & (r.p == p) & (r.v == v))
        own = _chosen(r, places)
        loads = loads_of(layers_of(problem, own, p, v), p)
        found[places] = sum(memory_of(problem, own, m[places], loads).values())
    return found


def loads_of(layers: Floats, p: int) -> list[Floats]:
    """Layers of every rank, by those of every stage."""
    return [layers[rank::p].sum(axis=0) for rank in range(p)]


def _chosen(r: Records, places: Ints) -> Records:
    return Records(*(getattr(r, part.name)[places] for part in fields(Records)))


def _balanced(problem: LlmTrainingProblem, r: Records, p: int, v: int) -> Floats:
    layers, count = problem.model.layers, len(r.t)
    least = [v - (rank in (0, p - 1)) for rank in range(p)]
    took = np.stack([_through(problem, r, rank) for rank in range(p)])
    fits = np.isfinite([took[rank][least[rank]] for rank in range(p)]).all(axis=0) & (sum(least) <= layers)
    for rank in range(p):
        took[rank][: least[rank] + 1] = -np.inf
    later = took[::-1].reshape(p * (layers + 1), count)  # the later of two ranks that are through together stands first
    order = np.argsort(later, axis=0, kind="stable")[: layers + p]
    fits &= np.take_along_axis(later, order[-1:], axis=0)[0] < np.inf
    loads = np.stack([(order // (layers + 1) == p - 1 - rank).sum(axis=0) - 1.0 for rank in range(p)])
    first, _, last = even_ends(layers, p, v)
    found = dealt(layers, p, v, np.where(fits, loads[0], first), np.where(fits, loads[-1], last))
    for rank in range(1, p - 1):
        each, more = np.divmod(loads[rank], v)
        for chunk in range(v):
            found[chunk * p + rank] = np.where(fits, each + (v - more <= chunk), found[chunk * p + rank])
    return found


def _through(problem: LlmTrainingProblem, r: Records, rank: int) -> Floats:
    """float64[layers + 1, R]: when a rank is through with a micro-batch on an ideal switch, by its layers; inf where
    memory does not hold them."""
    model, gpu, slow = problem.model, GpuSeconds(problem, r), problem.cluster.slowdown
    sent, first, last = sent_by(problem, r, ideal_rates(problem, r)), rank == 0, r.p == rank + 1

    def whole(part: Seconds) -> Floats:
        return slow * (part.forward + part.back + part.again)

    exposed = slow * (sum(sent.tensor, np.zeros_like(r.t)) + sum(sent.context, np.zeros_like(r.t)))
    dense = routed = whole(gpu.layer(routed=False)) + exposed
    early = 0
    if model.experts is not None:
        routed = whole(gpu.layer(routed=True)) + exposed + 2.0 * slow * sent.expert
        early = model.experts.dense_layers if first else 0
    embedding, head = gpu.ends()
    around = 2.0 * slow * r.v * problem.device.reached.chunk_us / 1e6
    around = around + np.where(last, (1.0 + model.mtp_layers) * whole(head) + model.mtp_layers * routed, 0.0)
    load = np.arange(model.layers + 1.0)[:, None]
    plain = np.minimum(early, load)
    took = plain * dense + (load - plain) * routed + around + (whole(embedding) if first else 0.0)
    return np.where(_fits(problem, r, rank, early), took, np.inf)


def _fits(problem: LlmTrainingProblem, r: Records, rank: int, early: int) -> Bools:
    """bool[layers + 1, R]: whether memory holds so many layers; bytes grow evenly with layers of a kind."""
    layers, usable = problem.model.layers, problem.cluster.usable_bytes
    load = np.arange(layers + 1.0)[:, None]
    if usable is None:
        return np.ones((layers + 1, len(r.t)), dtype=bool)
    m, place = problem.batch.sequences / (r.d * r.b), np.full_like(r.t, rank)
    none, some, every = (
        np.asarray(sum(bytes_at(problem, r, m, np.full_like(r.t, at), place).values()))
        for at in (0, min(early, layers), layers)
    )
    plain = np.minimum(early, load)
    held = none + plain * (some - none) / max(early, 1) + (load - plain) * (every - some) / max(layers - early, 1)
    return np.asarray(held <= usable)
