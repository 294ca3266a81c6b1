"""Shards of an optical layer for jobs at run time are searched for fast; a search that fails says whether that is a
proof.

A region is a class of servers that share a switch in each of some planes. A shape whose m interfaces each join all
its ranks needs one region over m planes. Regions over more planes lie within regions over fewer, so the smallest sets
of plane groups with m planes tell whether there is one.

A failure is a proof by counting (`disproof`), by the list of regions where all interfaces join all ranks (as rings of
one step do), or by a depth-first search that was not cut off, over all ways to give planes to interfaces.

Several jobs are placed one after the other in a few orders. Where regions do not overlap (blocks alike in all planes,
or any layer for jobs whose rings take all planes), a region alone is a knapsack; all together they are a multiple
knapsack, whose bound lets every region choose from all jobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice

import numpy as np

from formulations.shard_assignment import (
    InterfaceGroup,
    LayerClasses,
    ShapeParts,
    alike,
    classes_of,
    parts_of,
    planes_of,
    shard_of,
)
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import OpticalLayer, Shard, ShardShape, shape_issues
from topoopt.native import pipeline

MOST_SETS = 2000
"""Sets of plane groups looked at; with more of them, what is not found is not disproved."""


@dataclass(frozen=True, eq=False)
class Regions:
    """All regions over the smallest sets of plane groups with some number of planes.

    Attributes:
        sets: plane groups of each set.
        region: int64[sets, C], region of each class; numbers run on from set to set.
        count: regions of all sets.
        set_of: int64[count], set of each region.
        all_sets: no set is missing.
    """

    sets: tuple[tuple[int, ...], ...]
    region: Ints
    count: int
    set_of: Ints
    all_sets: bool

    def free(self, counts: Ints) -> Ints:
        """int64[count]: free servers of each region, from those of each class."""
        spread = np.broadcast_to(counts, self.region.shape).ravel()
        return np.bincount(self.region.ravel(), spread, minlength=self.count).astype(np.int64)


@lru_cache(maxsize=512)
def regions_of(layer: LayerClasses, planes: int) -> Regions:
    """Regions over that many planes, at least 1; none if the layer has fewer."""
    widths = layer.widths
    sets: list[tuple[int, ...]] = []
    complete = True
    for size in range(1, len(widths) + 1):
        for chosen in combinations(range(len(widths)), size):
            width = sum(widths[p] for p in chosen)
            if width < planes or width - min(widths[p] for p in chosen) >= planes:
                continue
            if len(sets) == MOST_SETS:
                complete = False
                break
            sets.append(chosen)
    rows, begin, owner = [], 0, []
    for number, chosen in enumerate(sets):
        label = alike(layer.switch[list(chosen)])
        rows.append(begin + label)
        regions = int(label.max()) + 1
        begin += regions
        owner.append(np.full(regions, number, dtype=np.int64))
    table = np.array(rows, dtype=np.int64).reshape(len(sets), layer.classes)
    return Regions(tuple(sets), table, begin, np.concatenate(owner) if owner else np.zeros(0, dtype=np.int64), complete)


def fill(counts: Ints, classes: Ints, wanted: int) -> list[tuple[int, int]]:
    """(class, servers) pairs that take `wanted` servers, the emptiest classes first, so that large ones stay whole."""
    taken = []
    for c in classes[np.argsort(counts[classes], kind="stable")].tolist():
        if wanted == 0:
            break
        count = min(int(counts[c]), wanted)
        if count:
            taken.append((c, count))
            wanted -= count
    return taken


def best_fit(space: Ints, wanted: int) -> int | None:
    """The place with the least room that is enough, the first of equals; None if there is none."""
    if not len(space):
        return None
    slack = np.where(space >= wanted, space, np.iinfo(np.int64).max)
    best = int(slack.argmin())
    return best if space[best] >= wanted else None


def spans(group: InterfaceGroup) -> bool:
    return group.components == 1 and bool((group.component == 0).all())


def taken_by(parts: ShapeParts, order: list[int], plane_groups: int) -> Ints:
    """int64[G, P]: planes taken when interface groups help themselves from a list of plane groups."""
    table = np.zeros((len(parts.groups), plane_groups), dtype=np.int64)
    begin = 0
    for g, group in enumerate(parts.groups):
        end = begin + len(group.interfaces)
        np.add.at(table[g], order[begin:end], 1)
        begin = end
    return table


def plane_choices(
    classes: LayerClasses, parts: ShapeParts, counts: Ints, rng: np.random.Generator, tries: int
) -> tuple[list[Ints], bool]:
    """int64[G, P] tables of planes taken, distinct, and whether they are all there are.

    Of many, `tries` are drawn: for interfaces that join all ranks, planes with a region that has room for them.
    """
    widths = classes.widths
    if (few := _few(classes, parts, tries)) is not None:
        return list(few), True
    spanning = [spans(group) for group in parts.groups]
    needed = sum(len(g.interfaces) for g, all_of in zip(parts.groups, spanning, strict=True) if all_of)
    sets: list[tuple[int, ...]] = [()]
    if needed:
        regions = regions_of(classes, needed)
        space = regions.free(counts)
        fitting = [int(r) for r in np.argsort(space, kind="stable") if space[r] >= parts.servers]
        sets = list(dict.fromkeys(regions.sets[int(regions.set_of[r])] for r in fitting))
    every = [p for p, width in enumerate(widths) for _ in range(width)]
    drawn: dict[bytes, Ints] = {}
    for attempt in range(tries if sets else 0):
        pool = every if attempt == 0 else rng.permutation(every).tolist()
        chosen = sets[attempt % len(sets)]
        front = [p for p in pool if p in chosen][:needed]
        back = list(pool)
        for p in front:
            back.remove(p)
        order: list[int] = []
        for group, all_of in zip(parts.groups, spanning, strict=True):
            source = front if all_of else back
            order += source[: len(group.interfaces)]
            del source[: len(group.interfaces)]
        taken = taken_by(parts, order, len(widths))
        drawn.setdefault(taken.tobytes(), taken)
    return list(drawn.values()), False


@lru_cache(maxsize=1024)
def _few(classes: LayerClasses, parts: ShapeParts, tries: int) -> tuple[Ints, ...] | None:
    """All tables, or None when there are more than `tries`."""
    shape = (len(parts.groups), len(classes.widths))
    tables = [
        np.array(rows, dtype=np.int64).reshape(shape)
        for rows in islice(_all_choices([len(g.interfaces) for g in parts.groups], classes.widths), tries + 1)
    ]
    return tuple(tables) if len(tables) <= tries else None


def _all_choices(lines: list[int], left: tuple[int, ...]) -> Iterator[list[tuple[int, ...]]]:
    if not lines:
        yield []
        return
    for row in _shares(lines[0], left):
        for rows in _all_choices(lines[1:], tuple(m - n for n, m in zip(row, left, strict=True))):
            yield [row, *rows]


def _shares(lines: int, left: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if not left:
        if lines == 0:
            yield ()
        return
    for first in range(min(lines, left[0]), max(lines - sum(left[1:]), 0) - 1, -1):
        for rest in _shares(lines - first, left[1:]):
            yield (first, *rest)


def seat_ranks(
    layer: LayerClasses, parts: ShapeParts, counts: Ints, taken: Ints, preference: Ints, nodes: int
) -> tuple[Ints | None, bool]:
    """int64[Q, C], ranks of each atom in each class, or None; and whether None is a proof for these planes.

    Args:
        layer, parts: whose.
        counts: int64[C], free servers.
        taken: int64[G, P], planes of each interface group.
        preference: int64[C], classes in the order they are tried.
        nodes: seats tried at most.
    """
    atom, alike_before, components, set_sizes = _lines(parts)
    groups, owners = np.nonzero(taken)
    free = np.zeros((len(owners), max(layer.switches)), dtype=np.int64)
    for row, owner in zip(free, owners.tolist(), strict=True):
        row[:] = np.bincount(layer.switch[owner], counts, minlength=len(row))
    wide = [set_sizes[g] for g in groups.tolist()]
    begin = np.cumsum([0, *(len(sizes) for sizes in wide[:-1])])
    rows = components[groups]
    component = np.where(rows >= 0, rows + begin[:, None], -1)
    seated, complete = pipeline.seat_ranks(
        layer.switch[owners], component, np.concatenate(wide), counts, free, alike_before, preference, nodes,
    )  # fmt: skip
    if seated is None:
        return None, complete
    table = np.zeros((len(parts.atoms), layer.classes), dtype=np.int64)
    np.add.at(table, (atom, seated), 1)
    return table, True


@lru_cache(maxsize=1024)
def _lines(parts: ShapeParts) -> tuple[Ints, Bools, Ints, tuple[Ints, ...]]:
    """Ranks of a shape, those of an atom side by side.

    Returns:
        int64[K], the atom of each; bool[K], of the same atom as the one before; int64[G, K], its component by
        interface group, -1: dark; ranks of each component, by interface group.
    """
    order = _order(parts)
    atom = np.repeat(order, parts.sizes[order])
    inside = [group.component >= 0 for group in parts.groups]
    return (
        atom,
        np.concatenate(([False], atom[1:] == atom[:-1])),
        np.array([group.component[atom] for group in parts.groups]),
        tuple(
            np.bincount(group.component[there], parts.sizes[there]).astype(np.int64)
            for group, there in zip(parts.groups, inside, strict=True)
        ),
    )


def _order(parts: ShapeParts) -> Ints:
    """int64[Q]: atoms in an order in which those that share components stand near each other."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    atoms, begin = len(parts.atoms), len(parts.atoms)
    tail, head = [], []
    for group in parts.groups:
        inside = np.flatnonzero(group.component >= 0)
        tail.append(inside)
        head.append(begin + group.component[inside])
        begin += group.components
    row, column = np.concatenate(tail), np.concatenate(head)
    both = (np.concatenate((row, column)), np.concatenate((column, row)))
    graph = coo_array((np.ones(2 * len(row)), both), shape=(begin, begin)).tocsr()
    order = np.asarray(reverse_cuthill_mckee(graph, symmetric_mode=True), dtype=np.int64)
    return order[order < atoms]


TRIES = 16
"""Ways to give planes to interfaces that are tried, where there are so many."""

SEATS, SEATS_PER_RANK = 200, 20
"""Seats a depth-first search tries: so many, and so many more for every rank."""


AGAIN = 4
"""Of the ways cut off, those tried again with classes in other orders."""


def find_shard(layer: OpticalLayer, free: Bools, shape: ShardShape, seed: int = 0) -> Shard | None:
    """A shard of free servers, or None; see `search_shard`, which says why there is none."""
    return search_shard(layer, free, shape, seed)[0]


def search_shard(
    layer: OpticalLayer, free: Bools, shape: ShardShape, seed: int = 0, *, tries: int = TRIES
) -> tuple[Shard | None, str, bool]:
    """A shard of free servers; else None, why there is none, and whether that is proven.

    Layers and shapes are sorted once and kept by object, so pass the same objects call after call.

    Args:
        layer: the switches.
        free: bool[n], servers without a job.
        shape: what the job wants.
        seed: of the order in which planes are tried; same seed, same shard.
        tries: see `TRIES`.

    Raises:
        ValueError: `free` does not fit the layer.
    """
    if free.dtype != np.bool_ or free.shape != (layer.servers,):
        raise ValueError(f"free is one truth value for each of {layer.servers} servers")
    if issue := _shape_issue(shape, layer.paired, layer.planes):
        return None, issue, True
    classes, parts, k = classes_of(layer), parts_of(shape), shape.servers
    counts = classes.count(free)
    total = int(counts.sum())
    if total < k:
        return None, f"{total} servers are free, the job takes {k}", True
    if (fitting := best_fit(counts, k)) is not None:
        servers = np.flatnonzero(free & (classes.class_of == fitting))[:k]
        return Shard(tuple(servers.tolist()), _first_planes(classes, parts)), "", False
    if reason := disproof(classes, parts, counts):
        return None, reason, True
    if not parts.groups or (len(parts.groups) == 1 and spans(parts.groups[0])):
        seated, proven = _region(classes, parts, counts), False  # a proof by regions is one by counting
    else:
        seated, proven = _spread(classes, parts, counts, seed, tries)
    if seated is None and proven:
        return None, "every way to give planes and switches was tried", True
    if seated is None:
        return None, "no shard met; there may be one", False
    pools = tuple(np.flatnonzero(free & (classes.class_of == c)) for c in range(classes.classes))
    return shard_of(classes, parts, *seated, pools), "", False


def disproof(classes: LayerClasses, parts: ShapeParts, counts: Ints) -> str:
    """Why no shard can exist, if counting tells; empty when it does not.

    Args:
        classes, parts: of layer and shape.
        counts: int64[C], free servers of each class.
    """
    needed = sum(len(group.interfaces) for group in parts.groups if spans(group))
    if needed:
        regions = regions_of(classes, needed)
        most = int(regions.free(counts).max(initial=0))
        if regions.all_sets and most < parts.servers:
            return (
                f"{needed} interfaces join all {parts.servers} ranks, and at most {most} free servers share "
                f"a switch in {needed} planes"
            )
    for group in parts.groups:
        inside = group.component >= 0
        sizes = np.bincount(group.component[inside], parts.sizes[inside]).astype(np.int64)
        usable = 0
        for row, width in zip(classes.switch, classes.widths, strict=True):
            space = np.bincount(row, counts).astype(np.int64)
            usable += width * bool(space.max() >= sizes.max() and (space // sizes.min()).sum() >= len(sizes))
        if usable < len(group.interfaces):
            return (
                f"interface {group.interfaces[0]} joins {len(sizes)} sets of {sizes.min()} ranks or more "
                f"(the largest {sizes.max()}), which fit under the switches of {usable} planes only"
            )
    return ""


@lru_cache(maxsize=1024)
def _shape_issue(shape: ShardShape, paired: bool, planes: int) -> str:
    issues = shape_issues(shape, paired=paired)
    if not issues and shape.interfaces > planes:
        issues = [f"the shape has {shape.interfaces} interfaces, a server {planes}"]
    return "; ".join(issues)


@lru_cache(maxsize=1024)
def _first_planes(classes: LayerClasses, parts: ShapeParts) -> tuple[int, ...]:
    """Planes in order: within a class any will do."""
    order = [p for p, width in enumerate(classes.widths) for _ in range(width)]
    return planes_of(classes, parts, taken_by(parts, order, len(classes.widths)))


def _region(classes: LayerClasses, parts: ShapeParts, counts: Ints) -> tuple[Ints, Ints] | None:
    """The fullest region with room (complete unless sets of planes are missing), or any servers for a dark shape."""
    if not parts.groups:
        table = np.zeros((1, classes.classes), dtype=np.int64)
        for c, servers in fill(counts, np.arange(classes.classes), parts.servers):
            table[0, c] = servers
        return table, np.zeros((0, len(classes.widths)), dtype=np.int64)
    regions = regions_of(classes, len(parts.groups[0].interfaces))
    best = best_fit(regions.free(counts), parts.servers)
    if best is None:
        return None
    chosen = int(regions.set_of[best])
    table = np.zeros((1, classes.classes), dtype=np.int64)
    for c, servers in fill(counts, np.flatnonzero(regions.region[chosen] == best), parts.servers):
        table[0, c] = servers
    order = [p for p in regions.sets[chosen] for _ in range(classes.widths[p])]
    return table, taken_by(parts, order, len(classes.widths))


def _spread(
    classes: LayerClasses, parts: ShapeParts, counts: Ints, seed: int, tries: int
) -> tuple[tuple[Ints, Ints] | None, bool]:
    """The first way over several classes that is met, or None; and whether that is a proof.

    The fullest classes are tried first, which keeps ranks together; then the emptiest; then a random order.
    """
    rng = np.random.default_rng(seed)
    choices, complete = plane_choices(classes, parts, counts, rng, tries)
    fullest = np.argsort(-counts, kind="stable")
    nodes = SEATS + SEATS_PER_RANK * parts.servers
    open_choices = []
    for taken in choices:
        table, proven = seat_ranks(classes, parts, counts, taken, fullest, nodes)
        if table is not None:
            return (table, taken), False
        if not proven:
            open_choices.append(taken)
    for preference in (fullest[::-1].copy(), rng.permutation(classes.classes)):
        for taken in open_choices[:AGAIN]:
            table, _ = seat_ranks(classes, parts, counts, taken, preference, nodes)
            if table is not None:
                return (table, taken), False
    return None, complete and not open_choices


def separate_regions(classes: LayerClasses, parts: Sequence[ShapeParts]) -> Ints | None:
    """int64[C]: region of each class, none of which any of the jobs can leave; None where regions overlap.

    A job of m interfaces that join all ranks stays within a region over m planes, so within one over fewer.
    """
    needed = min((sum(len(g.interfaces) for g in shape.groups if spans(g)) for shape in parts), default=0)
    if not needed:
        return None
    regions = regions_of(classes, needed)
    return regions.region[0] if len(regions.sets) == 1 and regions.all_sets else None


def knapsack(sizes: Ints, gains: Floats, capacity: int) -> tuple[float, list[int]]:
    """The most worth that fits, and which jobs make it; of equal choices one with large jobs."""
    order = np.argsort(sizes, kind="stable")
    best = np.zeros(capacity + 1)
    picks = np.zeros((len(order), capacity + 1), dtype=bool)
    for row, k in zip(picks, order.tolist(), strict=True):
        size = int(sizes[k])
        if size > capacity:
            continue
        offer = best[: capacity + 1 - size] + gains[k]
        row[size:] = offer >= best[size:]
        best[size:] = np.maximum(best[size:], offer)
    chosen, left = [], capacity
    for row, k in zip(picks[::-1], order[::-1].tolist(), strict=True):
        if row[left] and gains[k] > 0:
            chosen.append(k)
            left -= int(sizes[k])
    return float(best[capacity]), chosen


def knapsack_bound(region: Ints, counts: Ints, sizes: Ints, gains: Floats) -> float:
    """No placing is worth more: each region as if it had all jobs for itself.

    Args:
        region: of each class, see `separate_regions`.
        counts: int64[C], free servers.
        sizes, gains: of the jobs.
    """
    space = np.bincount(region, counts).astype(np.int64)
    values = {free: knapsack(sizes, gains, free)[0] for free in set(space.tolist())}
    return float(sum(values[free] for free in space.tolist()))


def fill_regions(
    layer: OpticalLayer,
    free: Bools,
    shapes: Sequence[ShardShape],
    gains: Floats,
    seed: int = 0,
    *,
    fullest_first: bool = False,
) -> tuple[Shard | None, ...] | None:
    """A shard for each job chosen, region by region, each the best of what is left; None where regions overlap."""
    classes = classes_of(layer)
    region = separate_regions(classes, [parts_of(shape) for shape in shapes])
    if region is None:
        return None
    space = np.bincount(region, classes.count(free)).astype(np.int64)
    sizes = np.array([shape.servers for shape in shapes], dtype=np.int64)
    shards: list[Shard | None] = [None] * len(shapes)
    left, open_jobs = free.copy(), np.arange(len(shapes))
    for r in np.argsort(space if fullest_first else -space, kind="stable").tolist():
        _, chosen = knapsack(sizes[open_jobs], gains[open_jobs], int(space[r]))
        for k in open_jobs[chosen].tolist():
            shard = find_shard(layer, left & (region == r)[classes.class_of], shapes[k], seed)
            if shard is not None:
                left[list(shard.servers)] = False
                shards[k] = shard
        open_jobs = np.array([k for k in open_jobs.tolist() if shards[k] is None], dtype=np.int64)
    return tuple(shards)


def place_in_order(
    layer: OpticalLayer, free: Bools, shapes: Sequence[ShardShape], order: Sequence[int], seed: int = 0
) -> tuple[Shard | None, ...]:
    """A shard for each job that gets one when its turn comes; `free` is left as it is."""
    left = free.copy()
    shards: list[Shard | None] = [None] * len(shapes)
    for k in order:
        shards[k] = shard = find_shard(layer, left, shapes[k], seed)
        if shard is not None:
            left[list(shard.servers)] = False
    return tuple(shards)


def place_jobs(
    layer: OpticalLayer, free: Bools, shapes: Sequence[ShardShape], values: Sequence[float] | None = None, seed: int = 0
) -> tuple[Shard | None, ...]:
    """The best of some orders: by worth of a server, by size both ways, as given, and at random; and of regions filled.

    Filling regions one by one (`fill_regions`) is for jobs that each need one of several that do not overlap.

    Args:
        layer, free: see `find_shard`.
        shapes: of the waiting jobs.
        values: of placing each, not negative; None: its servers.
        seed: of the random orders and of the searches.
    """
    sizes = np.array([shape.servers for shape in shapes], dtype=np.float64)
    gains = sizes if values is None else np.array(values, dtype=np.float64)
    rng = np.random.default_rng(seed)
    orders = [np.arange(len(shapes)), *(np.argsort(key, kind="stable") for key in (-gains / sizes, -sizes, sizes))]
    orders += [rng.permutation(len(shapes)) for _ in range(8)]
    best: tuple[Shard | None, ...] = (None,) * len(shapes)
    most = 0.0

    def candidates() -> Iterator[tuple[Shard | None, ...] | None]:
        for order in {tuple(order.tolist()): None for order in orders}:
            yield place_in_order(layer, free, shapes, order, seed)
        for fullest_first in (False, True):
            yield fill_regions(layer, free, shapes, gains, seed, fullest_first=fullest_first)

    for placed in candidates():
        if placed is None:
            break
        gained = float(sum(gain for gain, shard in zip(gains, placed, strict=True) if shard is not None))
        if gained > most:
            best, most = placed, gained
        if most == gains.sum():
            break
    return best
