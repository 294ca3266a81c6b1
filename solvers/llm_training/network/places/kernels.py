"""Compiled depth-first search through the maps of blocks to servers."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.simulate.jit import kernel, piece

FULL = -1
"""More different outcomes than there is room for."""

LONG = -2
"""More steps than allowed."""


@kernel
def fits(load: Floats, groups: int, cut: Floats, most: Floats) -> bool:  # pragma: no cover - compiled
    """Whether no family's fullest link reaches its cut; `most` gets the fullest. The last two rows: hops, both ways."""
    for f in range(groups + 1):
        highest = 0.0
        for link in range(load.shape[1]):
            one = load[f, link]
            if f == groups and load[f + 1, link] > one:
                one = load[f + 1, link]
            highest = max(highest, one)
        most[f] = highest
        if highest >= cut[f]:
            return False
    return True


@kernel
def outcome(
    load: Floats, groups: int, most: Floats, hops: Ints, unit: Floats, key: Ints
) -> None:  # pragma: no cover - compiled
    """All that the rates follow from: fullest links, longest routes, and how full links are of any two families."""
    at = 0
    for f in range(groups + 1):
        key[at] = np.int64(np.rint(most[f] / unit[f]))
        key[at + 1] = hops[f]
        at += 2
    for f in range(groups + 1):
        for g in range(f):
            highest = 0.0
            if most[f] > 0.0 and most[g] > 0.0:
                for link in range(load.shape[1]):
                    one = load[f, link]
                    if f == groups and load[f + 1, link] > one:
                        one = load[f + 1, link]
                    both = one / most[f] + load[g, link] / most[g]
                    highest = max(highest, both)
            key[at] = np.int64(np.rint(highest * 1e9))
            at += 1


@kernel
def keep(keys: Ints, maps: Ints, used: Bools, key: Ints, place: Ints) -> int:  # pragma: no cover - compiled
    """1 if the outcome is a new one, which is kept with its map."""
    slots = keys.shape[0]
    mixed = np.uint64(1469598103934665603)
    for value in key:
        mixed = (mixed ^ np.uint64(value)) * np.uint64(1099511628211)
        mixed ^= mixed >> np.uint64(29)
    slot = np.int64(mixed % np.uint64(slots))
    while used[slot]:
        same = True
        for i in range(len(key)):
            if keys[slot, i] != key[i]:
                same = False
                break
        if same:
            return 0
        slot = (slot + 1) % slots
    used[slot] = True
    keys[slot] = key
    maps[slot] = place
    return 1


@piece
def place_block(
    depth: int, place: Ints, load: Floats, hops: Ints, pair: Floats, pair_hops: Ints, sets: Floats, set_hops: Ints,
    members: Ints, kind: Ints, family: Ints, weight: Floats, group_ptr: Ints,
    source: Ints, target: Ints, ranks: Floats, hop_ptr: Ints,
) -> None:  # pragma: no cover - compiled  # fmt: skip
    """Loads with block `depth` on its server: of the groups and hops whose last block it is."""
    links, groups = load.shape[2], load.shape[1] - 2
    load[depth + 1] = load[depth]
    hops[depth + 1] = hops[depth]
    now = load[depth + 1]
    for q in range(group_ptr[depth], group_ptr[depth + 1]):
        mask = np.int64(0)
        for block in members[q]:
            if block >= 0:
                mask |= np.int64(1) << place[block]
        f = family[q]
        for link in range(links):
            now[f, link] += weight[q] * sets[kind[q], mask, link]
        hops[depth + 1, f] = max(hops[depth + 1, f], set_hops[kind[q], mask])
    for q in range(hop_ptr[depth], hop_ptr[depth + 1]):
        a, b = place[source[q]], place[target[q]]
        for link in range(links):
            now[groups, link] += ranks[q] * pair[a, b, link]
            now[groups + 1, link] += ranks[q] * pair[b, a, link]
        hops[depth + 1, groups] = max(hops[depth + 1, groups], pair_hops[a, b], pair_hops[b, a])


@kernel
def walk(
    prefix: Ints, lower: Bools, cut: Floats, tighten: int, unit: Floats, most_steps: int,
    keys: Ints, maps: Ints, used: Bools,
    pair: Floats, pair_hops: Ints, sets: Floats, set_hops: Ints,
    members: Ints, kind: Ints, family: Ints, weight: Floats, group_ptr: Ints,
    source: Ints, target: Ints, ranks: Floats, hop_ptr: Ints,
) -> tuple[int, int]:  # pragma: no cover - compiled  # fmt: skip
    """Go through all maps that begin so: different outcomes kept (or `FULL`, `LONG`), and steps.

    Args:
        prefix: servers of the first blocks.
        lower: which blocks get lower servers than which.
        cut: of each family, no map whose fullest link has as much is of interest.
        tighten: a family whose cut falls to the least found, in place of keeping outcomes; -1: none.
    """
    n, groups = len(lower), len(cut) - 1
    load = np.zeros((n + 1, groups + 2, pair.shape[2]))
    hops = np.ones((n + 1, groups + 1), dtype=np.int64)
    place = np.full(n, -1, dtype=np.int64)
    most, key = np.zeros(groups + 1), np.zeros(keys.shape[1], dtype=np.int64)
    taken = np.zeros(n, dtype=np.bool_)
    depth, begin, found, steps = 0, len(prefix), 0, 0
    while True:
        server = place[depth] + 1
        if place[depth] >= 0:
            taken[place[depth]] = False
        if depth < begin:
            server = prefix[depth] if place[depth] < 0 else n
        else:
            while server < n:
                good = not taken[server]
                for block in range(depth):
                    if not good:
                        break
                    if lower[block, depth] and place[block] > server:
                        good = False
                if good:
                    break
                server += 1
        if server >= n:
            place[depth] = -1
            if depth == 0:
                return found, steps
            depth -= 1
            continue
        place[depth] = server
        taken[server] = True
        steps += 1
        if steps > most_steps:
            return LONG, steps
        place_block(
            depth, place, load, hops, pair, pair_hops, sets, set_hops,
            members, kind, family, weight, group_ptr, source, target, ranks, hop_ptr,
        )  # fmt: skip
        if not fits(load[depth + 1], groups, cut, most):
            continue
        if depth + 1 < n:
            depth += 1
            continue
        if tighten >= 0:
            cut[tighten] = most[tighten] * (1.0 - 1e-12)
            continue
        outcome(load[n], groups, most, hops[n], unit, key)
        found += keep(keys, maps, used, key, place)
        if 2 * found > keys.shape[0]:
            return FULL, steps
