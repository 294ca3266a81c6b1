"""The order of operators by what they read of each other."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def topological_order(inputs: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Order of the operators in which producers stand before consumers, ties as in the file; and a cycle, if any.

    Args:
        inputs: for every operator the indices of its producers.

    Returns:
        (order, []) or (what could be ordered, the indices of one cycle, each the consumer of the one before).
    """
    waiting = [len(set(producers)) for producers in inputs]
    users: list[list[int]] = [[] for _ in inputs]
    for index, producers in enumerate(inputs):
        for producer in set(producers):
            users[producer].append(index)
    ready = [index for index, count in enumerate(waiting) if count == 0]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for user in users[index]:
            waiting[user] -= 1
            if waiting[user] == 0:
                heapq.heappush(ready, user)
    if len(order) == len(inputs):
        return order, []
    # Every operator left waits for another one left, so walking back must come round.
    index = next(index for index, count in enumerate(waiting) if count)
    walk: dict[int, int] = {}
    trail: list[int] = []
    while index not in walk:
        walk[index] = len(trail)
        trail.append(index)
        index = next(producer for producer in inputs[index] if waiting[producer])
    return order, trail[walk[index] :][::-1]
