"""Which servers exchange bytes in each family of traffic, found rank by rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.pipeline import PipelineSchedule

Pairs = dict[tuple[int, int], float]


@dataclass(frozen=True)
class MemberGroups:
    """Groups of a family that leave a server.

    Attributes:
        ranks: of a group.
        on: how many groups stand on just these servers.
        relayed: part of the edges of their rings between servers that join GPUs of other places in their servers; of
            groups of different numbers of servers the largest.
    """

    ranks: int
    on: dict[tuple[int, ...], int]
    relayed: float


def groups_of(strategy: ParallelStrategy, places: tuple[int, ...], g: int) -> dict[F, MemberGroups]:
    """Families that pass bytes round or exchange tokens; those that stay inside servers are not there.

    Args:
        places: server of each block of g ranks.
    """
    found = {}
    for family, rows in _members(strategy).items():
        on: dict[tuple[int, ...], int] = defaultdict(int)
        edges: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        for ranks in rows:
            servers = tuple(sorted({places[rank // g] for rank in ranks}))
            if len(servers) < 2:
                continue
            on[servers] += 1
            for a, b in zip(ranks, ranks[1:] + ranks[:1], strict=True):
                if a // g != b // g:
                    edges[len(servers)][a % g != b % g] += 1
        if on:
            relayed = max(there / (here + there) for here, there in edges.values())
            found[family] = MemberGroups(len(rows[0]), dict(on), relayed)
    return found


def _members(strategy: ParallelStrategy) -> dict[F, list[list[int]]]:
    """Ranks of every group, in the order of its ring."""
    whole = strategy.expert * strategy.expert_tensor
    members: dict[F, dict[object, list[int]]] = {family: defaultdict(list) for family in F}
    for rank, at in enumerate(rank_places(strategy)):
        t, c, d, p = at[D.TENSOR], at[D.CONTEXT], at[D.DATA], at[D.PIPELINE]
        place = t + strategy.tensor * (c + strategy.context * d)
        members[F.TENSOR][c, d, p].append(rank)
        members[F.CONTEXT][t, d, p].append(rank)
        pair = p if strategy.schedule is not PipelineSchedule.DUALPIPE else frozenset((p, strategy.pipeline - 1 - p))
        members[F.DATA][t, pair].append(rank)
        if strategy.expert > 1:
            members[F.EXPERT][place // whole, p].append(rank)
            members[F.EXPERT_DATA][place % whole, pair].append(rank)
    return {family: list(rows.values()) for family, rows in members.items() if rows}


def rank_places(strategy: ParallelStrategy) -> Iterator[dict[D, int]]:
    """Of each rank; ranks count fastest along the first dimension of the order."""
    sizes = {D.TENSOR: strategy.tensor, D.CONTEXT: strategy.context, D.DATA: strategy.data}
    sizes[D.PIPELINE] = strategy.pipeline
    for rank in range(strategy.gpus):
        at, left = {}, rank
        for dimension in strategy.order:
            left, at[dimension] = divmod(left, sizes[dimension])
        yield at


def stage_hops(strategy: ParallelStrategy, places: tuple[int, ...], g: int) -> tuple[Pairs, float]:
    """Ranks that send to the next stage, by server; the part of them that sends to another rail."""
    rows: dict[object, dict[int, int]] = defaultdict(dict)
    for rank, at in enumerate(rank_places(strategy)):
        rows[at[D.TENSOR], at[D.CONTEXT], at[D.DATA]][at[D.PIPELINE]] = rank
    p, found, rails = strategy.pipeline, Pairs(), [0, 0]
    back = strategy.chunks > 1 and strategy.schedule is not PipelineSchedule.DUALPIPE_V
    for row in rows.values():
        for stage in range(p if back and p > 1 else p - 1):
            a, b = row[stage], row[(stage + 1) % p]
            if a // g != b // g:
                key = places[a // g], places[b // g]
                found[key] = found.get(key, 0.0) + 1.0
                rails[a % g != b % g] += 1
    return found, rails[1] / max(sum(rails), 1)
