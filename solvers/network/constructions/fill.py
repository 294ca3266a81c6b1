"""Use the interfaces that rings and matchings leave free, as far as parity allows (bidirectional links)."""

from __future__ import annotations

import numpy as np

from solvers.network.constructions.matching import best_matching, discount
from topoopt.core.arrays import Floats, Ints
from topoopt.core.process import end_if_left


def match_demand(demand: Floats, free: Ints, rounds: int) -> list[tuple[int, int]]:
    """At most `rounds` matchings of the servers that have free interfaces, heaviest first; `free` is counted down.

    Demand of a pair is the sum of both directions; a linked pair's demand counts c/(c+1) for the next round, c being
    the links it has got. A server left over in a round (odd n) goes first in the next.
    """
    weights = np.array(demand + demand.T, dtype=np.float64)
    links = np.zeros(weights.shape, dtype=np.int32)
    waiting = np.zeros(len(free), dtype=bool)
    chosen: list[tuple[int, int]] = []
    for _ in range(rounds):
        end_if_left()
        if np.count_nonzero(free) < 2:
            break
        worth = weights
        if waiting.any():  # more than any matching can weigh, so that whoever waits is served
            bonus = (float(weights.sum()) + 1.0) * waiting
            worth = weights + bonus[:, None] + bonus[None, :]
        pairs = best_matching(worth, free > 0)
        waiting = free > 0
        for i, j in pairs:
            links[i, j] = links[j, i] = links[i, j] + 1
            discount(weights, np.array([i, j]), np.array([j, i]), int(links[i, j]))
            free[[i, j]] -= 1
            waiting[[i, j]] = False
        chosen += pairs
    return chosen


def fill_free(demand: Floats, free: Ints, movable: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """All links outside the rings: `movable` (those of the matchings), and what the free interfaces still allow.

    What is left when one server alone has two or more free interfaces is mended by opening a movable link a-b and
    linking that server to a and to b. At most one interface of the whole cluster stays dark, if that.
    """
    # A server with many free interfaces may be left out of some rounds, so there may be more than it has.
    links = [*movable, *match_demand(demand, free, int(free.sum()) // 2)]
    lonely = int(np.argmax(free))
    for index in range(len(links)):
        a, b = links[index]
        if free[lonely] < 2:
            break
        if lonely not in (a, b):
            links[index] = (lonely, a)
            links.append((lonely, b))
            free[lonely] -= 2
    return links
