"""Compiled walk through all link counts within the degrees that leave no room for one more allowed link."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Ints
from topoopt.simulate.jit import kernel


@kernel
def maximal_tables(
    n: int, degree: int, most_links: int, mirrored: bool, tails: Ints, heads: Ints, found: NDArray[np.int8]
) -> int:  # pragma: no cover - compiled
    """Fill found[k, n, n]; returns how many there are, at most len(found) + 1.

    Args:
        mirrored: a link i -> j is one j -> i too; then every pair is listed once.
        tails, heads: int64[p], pairs that may have links.
    """
    pairs = len(tails)
    links = np.full(pairs + 1, -1, dtype=np.int64)
    sent = np.zeros(n, dtype=np.int64)
    received = np.zeros(n, dtype=np.int64)
    number = 0
    at = 0
    while at >= 0:
        if at == pairs:
            room = False
            for p in range(pairs):
                i, j = tails[p], heads[p]
                if links[p] < most_links and sent[i] < degree and received[j] < degree:
                    room = True
                    break
            if not room:
                if number == len(found):
                    return number + 1
                found[number] = 0
                for p in range(pairs):
                    found[number, tails[p], heads[p]] = links[p]
                    if mirrored:
                        found[number, heads[p], tails[p]] = links[p]
                number += 1
            at -= 1
            continue
        i, j = tails[at], heads[at]
        if links[at] < 0:
            links[at] = 0
        elif links[at] < most_links and sent[i] < degree and received[j] < degree:
            links[at] += 1
            sent[i] += 1
            received[j] += 1
            if mirrored:
                sent[j] += 1
                received[i] += 1
        else:
            sent[i] -= links[at]
            received[j] -= links[at]
            if mirrored:
                sent[j] -= links[at]
                received[i] -= links[at]
            links[at] = -1
            at -= 1
            continue
        at += 1
    return number
