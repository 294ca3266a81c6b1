"""Which servers exchange bytes in each family of traffic, whatever order the ranks are in.

Ranks count fastest along the first dimension of the order; blocks of g consecutive ranks stand on one server. Ranks of
a stage share out its experts: with q the place of a rank among those of its stage by (tensor, context, data), x y
consecutive q hold all experts, and ranks with the same q mod (x y) are replicas of the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.llm_training_plan import TrafficFamily
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.pipeline import PipelineSchedule


@dataclass(frozen=True, eq=False)
class BlockGroups:
    """Groups of a family that lie on as many blocks each, more than one.

    Attributes:
        blocks: int64[G, k], ascending in a row, rows distinct.
        groups: float64[G], groups of ranks that stand on just these blocks.
        ranks: ranks of a group.
        relayed: part of the ring edges between blocks that join GPUs of different places in their servers.
    """

    blocks: Ints
    groups: Floats
    ranks: int
    relayed: float


@dataclass(frozen=True, eq=False)
class BlockPairs:
    """Blocks whose ranks pass activations on: stages that follow each other.

    Attributes:
        source, target: int64[m], distinct pairs.
        ranks: float64[m], ranks of the source that send to one of the target.
        relayed: part of them that send to a GPU of another place in its server.
    """

    source: Ints
    target: Ints
    ranks: Floats
    relayed: float


@dataclass(frozen=True, eq=False)
class FamilyGroups:
    """All that blocks exchange under a strategy; families inside a server are not there."""

    collectives: Mapping[TrafficFamily, tuple[BlockGroups, ...]]
    hops: BlockPairs


def rank_coordinates(strategy: ParallelStrategy) -> dict[D, Ints]:
    """int64[N] by dimension: where each rank stands along it."""
    sizes = {D.TENSOR: strategy.tensor, D.CONTEXT: strategy.context, D.DATA: strategy.data}
    sizes[D.PIPELINE] = strategy.pipeline
    left, found = np.arange(strategy.gpus), {}
    for dimension in strategy.order:
        if dimension in sizes:
            left, found[dimension] = np.divmod(left, sizes[dimension])
    return found


def family_groups(strategy: ParallelStrategy, gpus_per_server: int) -> FamilyGroups:
    """Groups of all families between servers."""
    at, s, g = rank_coordinates(strategy), strategy, gpus_per_server
    t, c, d, p = (at[one] for one in (D.TENSOR, D.CONTEXT, D.DATA, D.PIPELINE))
    place = t + s.tensor * (c + s.context * d)
    whole = s.expert * s.expert_tensor
    held = np.minimum(p, s.pipeline - 1 - p) if s.copies > 1 else p  # stages whose weights these ranks share out
    keys = {
        TrafficFamily.TENSOR: (s.tensor, c + s.context * (d + s.data * p)),
        TrafficFamily.CONTEXT: (s.context, t + s.tensor * (d + s.data * p)),
        TrafficFamily.DATA: (s.replicas, t + s.tensor * held),
    }
    if s.expert > 1:
        of_stage = s.gpus // s.pipeline
        keys[TrafficFamily.EXPERT] = (whole, place // whole + of_stage // whole * p)
        keys[TrafficFamily.EXPERT_DATA] = (s.expert_replicas, place % whole + whole * held)
    collectives = {}
    for family, (ranks, key) in keys.items():
        found = _collective(key, ranks, g) if ranks > 1 else ()
        if found:
            collectives[family] = found
    return FamilyGroups(collectives, _hops(strategy, place, p, g))


def _collective(key: Ints, ranks: int, g: int) -> tuple[BlockGroups, ...]:
    rows = np.argsort(key, kind="stable").reshape(-1, ranks)
    blocks = rows // g
    begins = np.ones(rows.shape, dtype=bool)
    begins[:, 1:] = blocks[:, 1:] != blocks[:, :-1]
    count = begins.sum(axis=1)
    after = np.roll(rows, -1, axis=1)
    crossing = after // g != blocks
    found = []
    for k in np.unique(count[count > 1]).tolist():
        chosen = count == k
        own = blocks[chosen][begins[chosen]].reshape(-1, k)
        own, groups = np.unique(own, axis=0, return_counts=True)
        edges = crossing[chosen]
        moved = (rows[chosen] % g != after[chosen] % g)[edges].mean()
        found.append(BlockGroups(own, groups.astype(np.float64), ranks, float(moved)))
    return tuple(found)


def _hops(strategy: ParallelStrategy, place: Ints, stage: Ints, g: int) -> BlockPairs:
    p = strategy.pipeline
    rows = np.lexsort((stage, place)).reshape(-1, p)
    round_again = strategy.chunks > 1 and strategy.schedule is not PipelineSchedule.DUALPIPE_V and p > 1
    source, target = rows[:, :-1], rows[:, 1:]
    if round_again:
        source, target = rows, np.roll(rows, -1, axis=1)
    source, target = source.ravel(), target.ravel()
    apart = source // g != target // g
    source, target = source[apart], target[apart]
    servers = strategy.gpus // g
    pairs, ranks = np.unique(source // g * servers + target // g, return_counts=True)
    relayed = float((source % g != target % g).mean()) if len(source) else 0.0
    return BlockPairs(pairs // servers, pairs % servers, ranks.astype(np.float64), relayed)
