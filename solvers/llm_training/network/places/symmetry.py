"""Maps that are the same but for names: servers that all links, routes and rings take for each other, blocks likewise.

Every map can be turned into one of the same time that places the first block on the least server of its orbit, and
that gives each later block a lower server than all blocks that a symmetry moves it to while those before it stay
(the lexicographically least map; Puget, CP 2005, all-different). The two go together: symmetries of later blocks leave
the first where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from solvers.llm_training.network.places.tables import PlaceTables
from topoopt.core.arrays import Bools, Floats, Ints

MOST_STEPS = 20_000
"""Of one search for a symmetry; one that is not found in them is not used."""


def first_servers(tables: PlaceTables, tail: Ints, head: Ints) -> list[int]:
    """Servers for the first block: the least of each orbit.

    Args:
        tail, head: int64[L], ends of the links.
    """
    n = tables.servers
    key = np.rint(np.stack([tables.pair.sum(axis=2), tables.pair.max(axis=2)], axis=2) / _unit(tables.pair))
    look = _numbered(np.concatenate([key, tables.pair_hops[:, :, None]], axis=2))
    leader = list(range(n))
    for server in range(1, n):
        for before in sorted(set(leader[:server])):
            found = _symmetries(look, look, (), before, server)
            if any(_alike(tables, tail, head, turned) for turned in found):
                leader[server] = before
                break
    return sorted(set(leader))


def _unit(seconds: Floats) -> float:
    return 1e-9 * (float(seconds.max(initial=0.0)) or 1.0)


def _alike(tables: PlaceTables, tail: Ints, head: Ints, turned: Ints) -> bool:
    """Whether every set and every pair loads the links as the ones that it is turned into."""
    n = tables.servers
    place = {ends: link for link, ends in enumerate(zip(tail.tolist(), head.tolist(), strict=True))}
    ends = zip(turned[tail].tolist(), turned[head].tolist(), strict=True)
    moved = [place.get(one, -1) for one in ends]
    if min(moved, default=0) < 0:
        return False
    masks = np.arange(1 << n)
    images = sum(((masks >> server) & 1) << int(turned[server]) for server in range(n))
    near = 1e-9 * max(float(tables.pair.max(initial=0.0)), float(tables.sets.max(initial=0.0)))
    return (
        np.array_equal(tables.pair_hops[np.ix_(turned, turned)], tables.pair_hops)
        and np.array_equal(tables.set_hops[:, images], tables.set_hops)
        and np.allclose(tables.pair[np.ix_(turned, turned)][:, :, moved], tables.pair, rtol=0.0, atol=near)
        and np.allclose(tables.sets[:, images][:, :, moved], tables.sets, rtol=0.0, atol=near)
    )


def lower_blocks(tables: PlaceTables, order: Ints, *, first: bool) -> Bools:
    """bool[n, n]: whether block order[i] gets a lower server than block order[j].

    Args:
        first: whether that is asked of the first block, too.
    """
    n = len(order)
    place = np.argsort(order)
    member = [
        (int(kind), float(weight), frozenset(place[row[row >= 0]].tolist()))
        for row, kind, weight in zip(tables.members, tables.class_of, tables.weight, strict=True)
    ]
    hop = np.zeros((n, n))
    np.add.at(hop, (place[tables.source], place[tables.target]), tables.ranks)
    joint: list[Floats] = [hop, hop.T]
    for kind in sorted({kind for kind, _, _ in member}):
        together = np.zeros((n, n))
        for own, weight, blocks in member:
            if own == kind:
                together[np.ix_(sorted(blocks), sorted(blocks))] += weight
        joint.append(together)
    ahead, back = np.stack(joint, axis=2), np.stack([hop.T, hop, *joint[2:]], axis=2)
    look = _numbered(np.concatenate([ahead, back]))
    groups = sorted(member, key=str)

    def kept(turned: Ints, hops: Floats) -> bool:
        images = [(kind, weight, frozenset(turned[list(blocks)].tolist())) for kind, weight, blocks in member]
        return np.array_equal(hop[np.ix_(turned, turned)], hops) and sorted(images, key=str) == groups

    lower = np.zeros((n, n), dtype=np.bool_)
    for i in range(0 if first else 1, n):
        for j in range(i + 1, n):
            before = tuple(range(i))
            lower[i, j] = any(
                _any(_symmetries(look[:n], own, before, i, j), partial(kept, hops=hops))
                for own, hops in ((look[:n], hop), (look[n:], hop.T))  # hops go there and back: either way round
            )
    return lower


def _any(found: Iterator[Ints], test: Callable[[Ints], bool]) -> bool:
    return any(test(turned) for turned in found)


def _numbered(values: Floats) -> Ints:
    """int64[a, b]: equal rows of the last axis have equal numbers."""
    flat = values.reshape(-1, values.shape[2])
    return np.unique(flat, axis=0, return_inverse=True)[1].reshape(values.shape[:2])


def _symmetries(look: Ints, own: Ints, before: tuple[int, ...], i: int, j: int) -> Iterator[Ints]:
    """Permutations that keep `before`, move i to j, and take pairs that look alike to each other.

    Args:
        look: int64[n, n], of the pairs of images.
        own: int64[n, n], of the pairs that are moved.
    """
    n, steps = len(look), 0
    stack: list[list[int]] = [[*before]]
    order = [*before, i, *(k for k in range(n) if k not in before and k != i)]
    while stack:
        images = stack.pop()
        steps += 1
        if steps > MOST_STEPS:
            return
        depth = len(images)
        if depth == n:
            turned = np.empty(n, dtype=np.int64)
            turned[order] = images
            yield turned
            continue
        k = order[depth]
        for to in [j] if k == i else range(n - 1, -1, -1):
            if to in images or look[to, to] != own[k, k]:
                continue
            held, at = order[:depth], images
            if np.array_equal(look[to, at], own[k, held]) and np.array_equal(look[at, to], own[held, k]):
                stack.append([*images, to])
