"""The shape of a job's operator graph, along which the strategy search makes its moves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.job.strategy.branches import layers
from topoopt.core.arrays import Ints
from topoopt.core.workload import Workload


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
        _starts([len(each) for each in neighbours]),
        np.array([y for x in neighbours for y in x], dtype=np.int64),
        _starts([len(each) for each in chains]),
        np.array([y for x in chains for y in x], dtype=np.int64),
        chain_of,
        like_layers(workload),
    )


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
