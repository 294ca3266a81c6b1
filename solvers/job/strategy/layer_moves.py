"""Moves of whole layers of like branches at once, compiled: experts of a bank, encoders beside each other.

A plan that spreads the branches of a layer over cosets of the servers is worth it only once all of them are spread:
one branch after another makes the time rise first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.job.strategy.branches import layers
from topoopt.core.arrays import Ints
from topoopt.core.workload import Workload
from topoopt.simulate.jit import kernel, piece
from topoopt.simulate.splitmix import below, uniform
from topoopt.simulate.workload_arrays import WorkloadArrays

Random = NDArray[np.uint64]
"""State of a generator, uint64[1]."""

SPREAD, COPIED = 0.5, 0.75
"""Up to these numbers in [0, 1) a layer is spread over cosets, or copied to a like one; else a branch of all like
layers changes."""


class LikeLayers(NamedTuple):
    """Layers of at least two like branches: operators of the same splits in the same order, none pinned.

    Attributes:
        layer_ptr: branches of a layer are those from its entry to the next.
        branch_ptr: the same of operators of a branch.
        operator: operators by branch, ascending.
        like: per layer, the first one whose branches are like its own.
    """

    layer_ptr: Ints
    branch_ptr: Ints
    operator: Ints
    like: Ints


class Run(NamedTuple):
    """Operators `low` to `high` - 1, in the order of a branch, of all branches of a layer."""

    layer: int
    low: int
    high: int


def like_layers(workload: Workload) -> LikeLayers:
    """Those of a workload."""
    operators = workload.operators
    found: list[list[list[int]]] = []
    looks: list[object] = []
    for layer in layers(workload):
        by_look: dict[object, list[list[int]]] = {}
        for branch in layer:
            if all(operators[o].pinned_offset is None for o in branch):
                ways = tuple(
                    tuple((s.sample_ways, s.channel_ways, s.reduce_ways) for s in operators[o].splits) for o in branch
                )
                by_look.setdefault(ways, []).append(branch)
        for look, alike in by_look.items():
            if len(alike) > 1:
                found.append(alike)
                looks.append((look, len(alike)))
    branches = [branch for layer in found for branch in layer]
    return LikeLayers(
        _starts([len(layer) for layer in found]),
        _starts([len(branch) for branch in branches]),
        np.array([o for branch in branches for o in branch], dtype=np.int64),
        np.array([looks.index(look) for look in looks], dtype=np.int64),
    )


def _starts(lengths: list[int]) -> Ints:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


@piece
def assign(w: WorkloadArrays, split: Ints, offset: Ints, target: int, like: int, at: int) -> bool:
    """Give an operator the split of the ways of `like`, an index of all splits, and an offset; whether it changed."""
    for s in range(w.split_ptr[target], w.split_ptr[target + 1]):
        if (
            w.sample_ways[s] == w.sample_ways[like]
            and w.channel_ways[s] == w.channel_ways[like]
            and w.reduce_ways[s] == w.reduce_ways[like]
        ):
            changed = bool(split[target] != s - w.split_ptr[target] or offset[target] != at)
            split[target], offset[target] = s - w.split_ptr[target], at
            return changed
    return False


@piece
def _stride(w: WorkloadArrays, s: int) -> int:
    """Servers between two parts, which is how many offsets there are."""
    return int(w.servers // (w.sample_ways[s] * w.channel_ways[s] * w.reduce_ways[s]))


@kernel
def _widest(w: WorkloadArrays, o: int) -> int:
    """The split of an operator, of all splits, with most parts; of these the one with most sample parts."""
    best = w.split_ptr[o]
    for s in range(w.split_ptr[o], w.split_ptr[o + 1]):
        less = _stride(w, s) < _stride(w, best)
        if less or (_stride(w, s) == _stride(w, best) and w.sample_ways[s] > w.sample_ways[best]):
            best = s
    return int(best)


@kernel
def _spread(w: WorkloadArrays, g: LikeLayers, split: Ints, offset: Ints, run: Run, rng: Random) -> bool:
    """Branches in turn on the cosets of a split, but for some, which are split most or stay as they are."""
    first = g.layer_ptr[run.layer]
    size = g.layer_ptr[run.layer + 1] - first
    lead = g.operator[g.branch_ptr[first] + run.low]
    chosen = w.split_ptr[lead] + below(rng, w.split_ptr[lead + 1] - w.split_ptr[lead])
    widest = _widest(w, lead)
    left = (size << below(rng, 4)) >> 4 if uniform(rng) < 0.5 else 0  # none, or 1/16 to 1/2 of them
    stay = uniform(rng) < 0.5
    turn, begin = below(rng, _stride(w, chosen)), below(rng, size)
    changed = False
    for i in range(size):
        if i < left and stay:
            continue
        like = widest if i < left else chosen
        at = (turn + i) % _stride(w, like)
        start = g.branch_ptr[first + (begin + i) % size]
        for position in range(run.low, run.high):
            changed = assign(w, split, offset, g.operator[start + position], like, at) or changed
    return changed


@piece
def _copied(w: WorkloadArrays, g: LikeLayers, split: Ints, offset: Ints, run: Run, rng: Random) -> bool:
    """Another layer like this one, or all of them, branch by branch like this one."""
    everyone, other = uniform(rng) < 0.5, below(rng, len(g.like))
    changed = False
    for to in range(len(g.like)):
        if to == run.layer or g.like[to] != g.like[run.layer] or not (everyone or to == other):
            continue
        for i in range(g.layer_ptr[run.layer + 1] - g.layer_ptr[run.layer]):
            source, target = g.branch_ptr[g.layer_ptr[run.layer] + i], g.branch_ptr[g.layer_ptr[to] + i]
            for position in range(run.low, run.high):
                o = g.operator[source + position]
                like = w.split_ptr[o] + split[o]
                changed = assign(w, split, offset, g.operator[target + position], like, offset[o]) or changed
    return changed


@kernel
def _column(w: WorkloadArrays, g: LikeLayers, split: Ints, offset: Ints, run: Run, rng: Random) -> bool:
    """The same branch of all layers like this one anew."""
    place = below(rng, g.layer_ptr[run.layer + 1] - g.layer_ptr[run.layer])
    lead = g.operator[g.branch_ptr[g.layer_ptr[run.layer] + place] + run.low]
    chosen = w.split_ptr[lead] + below(rng, w.split_ptr[lead + 1] - w.split_ptr[lead])
    at = below(rng, _stride(w, chosen))
    changed = False
    for to in range(len(g.like)):
        if g.like[to] == g.like[run.layer]:
            start = g.branch_ptr[g.layer_ptr[to] + place]
            for position in range(run.low, run.high):
                changed = assign(w, split, offset, g.operator[start + position], chosen, at) or changed
    return changed


@kernel
def move_layer(w: WorkloadArrays, g: LikeLayers, split: Ints, offset: Ints, rng: Random) -> bool:
    """Change a layer, or a run of operators of its branches, in place; False if nothing changed."""
    layer = below(rng, len(g.like))
    start = g.branch_ptr[g.layer_ptr[layer]]
    low, high = 0, int(g.branch_ptr[g.layer_ptr[layer] + 1] - start)
    if high > 1 and uniform(rng) < 0.5:
        low = below(rng, high)
        high = low + 1 + below(rng, high - low)
    kind = uniform(rng)
    if kind < SPREAD:
        return _spread(w, g, split, offset, Run(layer, low, high), rng)
    if kind < COPIED:
        return _copied(w, g, split, offset, Run(layer, low, high), rng)
    return _column(w, g, split, offset, Run(layer, low, high), rng)
