"""Neighbourhood of the strategy search, compiled: small changes of split and offset arrays.

The first two are those of FlexNet (random reconfiguration, propagation along the graph); the others let whole parts of
the graph move at once, without which the search stays at data parallelism.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.job.strategy.layer_moves import LikeLayers, assign, like_layers, move_layer
from topoopt.core.arrays import Ints
from topoopt.core.workload import Workload
from topoopt.simulate.jit import kernel, piece
from topoopt.simulate.splitmix import below, uniform
from topoopt.simulate.workload_arrays import WorkloadArrays

KEEP_GOING = 0.75
"""Chance that a run or a propagation takes one more step (FlexNet)."""

OF_LAYERS = 0.15
"""Part of the moves that are of whole layers, where there are layers of like branches."""


class GraphShape(NamedTuple):
    """Neighbours of each operator, its chains (maximal runs of operators with one consumer and one input), and its
    layers of like branches."""

    neighbour_ptr: Ints
    neighbour: Ints
    chain_ptr: Ints
    chain: Ints
    chain_of: Ints
    layers: LikeLayers


def graph_shape(workload: Workload) -> GraphShape:
    """Neighbours and chains of a workload's operator graph."""
    consumers = workload.consumers()
    operators = workload.operators
    neighbours = [
        sorted({edge.producer for edge in operator.inputs} | set(consumers[index]))
        for index, operator in enumerate(operators)
    ]
    chains: list[list[int]] = []
    chain_of = np.empty(len(operators), dtype=np.int64)
    for index, operator in enumerate(operators):
        producers = {edge.producer for edge in operator.inputs}
        if len(producers) == 1 and len(set(consumers[min(producers)])) == 1:
            chain_of[index] = chain_of[min(producers)]
            chains[chain_of[index]].append(index)
        else:
            chain_of[index] = len(chains)
            chains.append([index])
    return GraphShape(
        np.concatenate(([0], np.cumsum([len(x) for x in neighbours]))).astype(np.int64),
        np.array([y for x in neighbours for y in x], dtype=np.int64),
        np.concatenate(([0], np.cumsum([len(x) for x in chains]))).astype(np.int64),
        np.array([y for x in chains for y in x], dtype=np.int64),
        chain_of,
        like_layers(workload),
    )


@piece
def _copy(w: WorkloadArrays, split: Ints, offset: Ints, source: int, target: int) -> bool:
    """Give `target` the split and offset of `source`, if it has that split; whether anything changed."""
    if w.pinned[target] >= 0:
        return False
    return assign(w, split, offset, target, w.split_ptr[source] + split[source], offset[source])


@piece
def _randomise(w: WorkloadArrays, split: Ints, offset: Ints, o: int, rng: NDArray[np.uint64]) -> None:
    split[o] = below(rng, w.split_ptr[o + 1] - w.split_ptr[o])
    s = w.split_ptr[o] + split[o]
    parts = w.sample_ways[s] * w.channel_ways[s] * w.reduce_ways[s]
    offset[o] = w.pinned[o] if w.pinned[o] >= 0 else below(rng, w.servers // parts)


@kernel
def _walk(w: WorkloadArrays, g: GraphShape, split: Ints, offset: Ints, o: int, rng: NDArray[np.uint64]) -> bool:
    """Copy an operator's configuration along a random walk (FlexNet's propagation)."""
    changed = False
    while True:
        degree = g.neighbour_ptr[o + 1] - g.neighbour_ptr[o]
        if degree == 0:
            return changed
        other = g.neighbour[g.neighbour_ptr[o] + below(rng, degree)]
        changed = _copy(w, split, offset, o, other) or changed
        o = other
        if uniform(rng) >= KEEP_GOING:
            return changed


@kernel
def propose(w: WorkloadArrays, g: GraphShape, split: Ints, offset: Ints, rng: NDArray[np.uint64]) -> bool:
    """Change `split` and `offset` in place by one random move; False if nothing changed."""
    operators = len(split)
    if len(g.layers.like) and uniform(rng) < OF_LAYERS:
        return move_layer(w, g.layers, split, offset, rng)
    o = below(rng, operators)
    old_split, old_offset = split[o], offset[o]
    kind = uniform(rng)
    if kind < 0.30:  # one operator anew
        _randomise(w, split, offset, o, rng)
        return bool(split[o] != old_split or offset[o] != old_offset)
    if kind < 0.42:  # one operator like a neighbour
        degree = g.neighbour_ptr[o + 1] - g.neighbour_ptr[o]
        if degree == 0:
            return False
        return _copy(w, split, offset, g.neighbour[g.neighbour_ptr[o] + below(rng, degree)], o)
    if kind < 0.54:  # propagate what is there
        return _walk(w, g, split, offset, o, rng)
    if kind < 0.66:  # one operator anew, then propagate
        _randomise(w, split, offset, o, rng)
        changed = bool(split[o] != old_split or offset[o] != old_offset)
        return _walk(w, g, split, offset, o, rng) or changed
    if kind < 0.80:  # swap two operators
        other = below(rng, operators)
        changed = _copy(w, split, offset, other, o)
        if not changed:
            return False
        mine_split, mine_offset = split[o], offset[o]
        split[o], offset[o] = old_split, old_offset
        _copy(w, split, offset, o, other)
        split[o], offset[o] = mine_split, mine_offset
        return True
    c = g.chain_of[o]
    first, last = g.chain_ptr[c], g.chain_ptr[c + 1]
    if kind < 0.94:  # a whole chain, or the rest of one, alike
        begin = first if uniform(rng) < 0.5 else first + below(rng, last - first)
        o = g.chain[begin]
        old_split, old_offset = split[o], offset[o]
        _randomise(w, split, offset, o, rng)
        changed = bool(split[o] != old_split or offset[o] != old_offset)
        for i in range(begin + 1, last):
            changed = _copy(w, split, offset, o, g.chain[i]) or changed
        return changed
    if w.pinned[o] >= 0:
        return False
    s = w.split_ptr[o] + split[o]  # same split elsewhere
    parts = w.sample_ways[s] * w.channel_ways[s] * w.reduce_ways[s]
    offset[o] = below(rng, w.servers // parts)
    return bool(offset[o] != old_offset)
