"""What starting strategies are made of: the widest split of an operator, and offsets for those that have none."""

from __future__ import annotations

from collections.abc import Sequence

from topoopt.core.workload import Operator, Placement, Split, Strategy, Workload


def widest(operator: Operator, limit: int) -> int:
    """Index of the split with most sample parts up to `limit` and no other cut (else the one with fewest parts)."""

    def rank(split: Split) -> tuple[bool, int]:
        plain = split.channel_ways == split.reduce_ways == 1 and split.sample_ways <= limit
        return plain, split.sample_ways if plain else -split.parts

    return max(range(len(operator.splits)), key=lambda index: rank(operator.splits[index]))


def placed(n: int, workload: Workload, wanted: Sequence[tuple[int, int | None]]) -> Strategy:
    """Fix open offsets (None): longest operators first, each on the coset with least compute time so far."""
    load = [0.0] * n
    placements: list[Placement | None] = [None] * len(wanted)

    def occupy(index: int, offset: int) -> None:
        pinned = workload.operators[index].pinned_offset
        offset = offset if pinned is None else pinned
        split = workload.operators[index].splits[wanted[index][0]]
        placements[index] = Placement(wanted[index][0], offset)
        for server in range(offset, n, n // split.parts):
            load[server] += split.forward_ms + split.backward_ms

    for index, (_, offset) in enumerate(wanted):
        if offset is not None:
            occupy(index, offset)

    def span(index: int) -> float:
        split = workload.operators[index].splits[wanted[index][0]]
        return split.forward_ms + split.backward_ms

    still_open = [index for index, (_, offset) in enumerate(wanted) if offset is None]
    for index in sorted(still_open, key=lambda index: (-span(index), index)):
        stride = n // workload.operators[index].splits[wanted[index][0]].parts
        occupy(index, min(range(stride), key=lambda offset: (max(load[offset::stride]), offset)))
    return Strategy(tuple(placement for placement in placements if placement is not None))
