"""Layers of the stages of strategies that name none, and what their ranks hold.

Balanced layers again: those beyond what no chunk goes without go one by one to the rank that is through with one more
first and that memory lets have it; of ranks that are through together to the later one.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import LayerDivision, ParallelStrategy
from topoopt.verify.llm_training.layer import GpuSeconds, Seconds
from topoopt.verify.llm_training.memory import bytes_at, memory_of
from topoopt.verify.llm_training.space import BALANCED, Records, even_ends, row_of
from topoopt.verify.llm_training.stage_rows import dealt
from topoopt.verify.llm_training.transfers import TWO_WAY, ideal_rates, sent_by

MOST_CASES = 1_000_000
"""Ranks that layers are dealt to together."""


def row_in(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> tuple[float, ...]:
    """A strategy as a row of the space of an instance."""
    row = row_of(strategy)
    balanced = problem.space.layers is LayerDivision.BALANCED and strategy.pipeline > 1
    return (*row[:12], *[BALANCED] * 3, row[15]) if balanced and strategy.schedule not in TWO_WAY else row


def layers_of(problem: LlmTrainingProblem, r: Records, p: int, v: int) -> Floats:
    """float64[p v, R]: layers of every stage of strategies of p ranks with v chunks."""
    found, balanced = dealt(problem.model.layers, p, v, r.first, r.last), np.flatnonzero(r.first == BALANCED)
    count = 1 + len(balanced) * p // MOST_CASES
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
    layers, lanes = problem.model.layers, np.arange(len(r.t))
    rooms, early = _rooms(problem, r, p), 0 if problem.model.experts is None else problem.model.experts.dense_layers
    around, dense, routed = _seconds(problem, r, p)
    loads = np.repeat([[float(v - (rank in (0, p - 1)))] for rank in range(p)], len(lanes), axis=1)
    fits = (loads <= rooms).all(axis=0) & (loads.sum(axis=0) <= layers)

    def through(rank: Ints) -> Floats:
        """When ranks are through with one layer more."""
        load = loads[rank, lanes] + 1.0
        plain = np.where(rank == 0, np.minimum(early, load), 0.0)
        took = around[rank, lanes] + plain * dense + (load - plain) * routed
        return np.where(load <= rooms[rank, lanes], took, np.inf)

    took = np.stack([through(np.full_like(lanes, rank)) for rank in range(p)])
    for _ in range(int(layers - loads[:, 0].sum())):
        next_one = p - 1 - took[::-1].argmin(axis=0)
        fits &= took[next_one, lanes] < np.inf
        loads[next_one, lanes] += 1.0
        took[next_one, lanes] = through(next_one)
    first, _, last = even_ends(layers, p, v)
    found = dealt(layers, p, v, np.where(fits, loads[0], first), np.where(fits, loads[-1], last))
    for rank in range(1, p - 1):
        each, more = np.divmod(loads[rank], v)
        for chunk in range(v):
            found[chunk * p + rank] = np.where(fits, each + (v - more <= chunk), found[chunk * p + rank])
    return found


def _seconds(problem: LlmTrainingProblem, r: Records, p: int) -> tuple[Floats, Floats, Floats]:
    """Of a micro-batch on an ideal switch: float64[p, R], what ranks compute beside layers; of a layer without experts,
    of one with them."""
    model, gpu, slow = problem.model, GpuSeconds(problem, r), problem.cluster.slowdown
    sent = sent_by(problem, r, ideal_rates(problem, r))

    def whole(part: Seconds) -> Floats:
        return slow * (part.forward + part.back + part.again)

    exposed = slow * (sum(sent.tensor, np.zeros_like(r.t)) + sum(sent.context, np.zeros_like(r.t)))
    dense = routed = whole(gpu.layer(routed=False)) + exposed
    if model.experts is not None:
        routed = whole(gpu.layer(routed=True)) + exposed + 2.0 * slow * sent.expert
    embedding, head = gpu.ends()
    around = np.repeat([2.0 * slow * r.v * problem.device.reached.chunk_us / 1e6], p, axis=0)
    around[0] += whole(embedding)
    around[-1] += (1.0 + model.mtp_layers) * whole(head) + model.mtp_layers * routed
    return around, dense, routed


def _rooms(problem: LlmTrainingProblem, r: Records, p: int) -> Floats:
    """float64[p, R]: most layers that memory holds, below none where there is no room for what stands beside; bytes
    grow evenly with layers of a kind."""
    layers, usable = problem.model.layers, problem.cluster.usable_bytes
    m, found = problem.batch.sequences / (r.d * r.b), np.full((p, len(r.t)), float(layers))
    if usable is None:
        return found

    def held(rank: int, load: int) -> Floats:
        place = np.full_like(r.t, rank)
        return np.asarray(sum(bytes_at(problem, r, m, np.full_like(r.t, load), place).values()))

    early = 0 if problem.model.experts is None else min(problem.model.experts.dense_layers, layers - 1)
    for rank in range(p):
        begin = early if rank == 0 else 0
        some, every = held(rank, begin), held(rank, layers)
        found[rank] = begin + np.floor((usable - some) * (layers - begin) / (every - some))
        if begin:
            none = held(rank, 0)
            plain = np.floor((usable - none) * begin / (some - none))
            found[rank] = np.where(some <= usable, found[rank], plain)
    return found
