"""A shard for one job next to those that stand: best fit into one class of servers, else spread over several.

What comes back says whether a failure is a proof: by counting (`disproof`), by the list of regions where all interfaces
join all ranks (as rings of one step do), or by a depth-first search that was not cut off, over all ways to give planes
to interfaces.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np

from formulations.shards.shard_classes import LayerClasses, ShapeParts, classes_of, parts_of, planes_of, shard_of
from solvers.shards.backtrack import bench_of, seat_ranks
from solvers.shards.plane_choices import plane_choices, spans, taken_by
from solvers.shards.regions import best_fit, fill, regions_of
from topoopt.core.arrays import Bools, Ints
from topoopt.core.cluster import OpticalLayer, Shard, ShardShape, shape_faults

TRIES = 16
"""Ways to give planes to interfaces that are tried, where there are so many."""

SEATS, SEATS_PER_RANK = 200, 20
"""Seats a depth-first search tries: so many, and so many more for every rank."""


AGAIN = 4
"""Of the ways cut off, those tried again with classes in other orders."""


class Verdict(StrEnum):
    """What a search knows at its end."""

    FOUND = "found"
    NOT_FOUND = "not found"
    IMPOSSIBLE = "proven impossible"


@dataclass(frozen=True)
class ShardSearch:
    """Outcome of a search: a shard, or none with what is known about it.

    Attributes:
        verdict: IMPOSSIBLE is proven, NOT_FOUND is not.
        shard: None unless found.
        reason: why there is none, for people; empty when found.
    """

    verdict: Verdict
    shard: Shard | None = None
    reason: str = ""


def find_shard(
    layer: OpticalLayer, free: Bools, shape: ShardShape, seed: int = 0, *, tries: int = TRIES
) -> Shard | None:
    """A shard of free servers, or None; see `search_shard`, which says why there is none."""
    return search_shard(layer, free, shape, seed, tries=tries).shard


def search_shard(
    layer: OpticalLayer, free: Bools, shape: ShardShape, seed: int = 0, *, tries: int = TRIES
) -> ShardSearch:
    """Look for a shard of free servers.

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
    if fault := _shape_fault(shape, layer.paired, layer.planes):
        return ShardSearch(Verdict.IMPOSSIBLE, reason=fault)
    classes, parts, k = classes_of(layer), parts_of(shape), shape.servers
    counts = classes.count(free)
    total = int(counts.sum())
    if total < k:
        return ShardSearch(Verdict.IMPOSSIBLE, reason=f"{total} servers are free, the job takes {k}")
    if (one := best_fit(counts, k)) is not None:
        servers = np.flatnonzero(free & (classes.class_of == one))[:k]
        return ShardSearch(Verdict.FOUND, Shard(tuple(servers.tolist()), _first_planes(classes, parts)))
    if reason := disproof(classes, parts, counts):
        return ShardSearch(Verdict.IMPOSSIBLE, reason=reason)
    if _regional(parts):
        found, proven = _region(classes, parts, counts), False  # a proof by regions is one by counting
    else:
        found, proven = _spread(classes, parts, counts, seed, tries)
    if found is None and proven:
        return ShardSearch(Verdict.IMPOSSIBLE, reason="every way to give planes and switches was tried")
    if found is None:
        return ShardSearch(Verdict.NOT_FOUND, reason="no shard met; there may be one")
    pools = tuple(np.flatnonzero(free & (classes.class_of == c)) for c in range(classes.classes))
    return ShardSearch(Verdict.FOUND, shard_of(classes, parts, *found, pools))


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
            room = np.bincount(row, counts).astype(np.int64)
            usable += width * bool(room.max() >= sizes.max() and (room // sizes.min()).sum() >= len(sizes))
        if usable < len(group.interfaces):
            return (
                f"interface {group.interfaces[0]} joins {len(sizes)} sets of {sizes.min()} ranks or more "
                f"(the largest {sizes.max()}), which fit under the switches of {usable} planes only"
            )
    return ""


@lru_cache(maxsize=1024)
def _shape_fault(shape: ShardShape, paired: bool, planes: int) -> str:
    faults = shape_faults(shape, paired=paired)
    if not faults and shape.interfaces > planes:
        faults = [f"the shape has {shape.interfaces} interfaces, a server {planes}"]
    return "; ".join(faults)


@lru_cache(maxsize=1024)
def _first_planes(classes: LayerClasses, parts: ShapeParts) -> tuple[int, ...]:
    """Planes in order: within a class any will do."""
    order = [p for p, width in enumerate(classes.widths) for _ in range(width)]
    return planes_of(classes, parts, taken_by(parts, order, len(classes.widths)))


def _regional(parts: ShapeParts) -> bool:
    """Whether all interfaces in use join the same ranks: one region is then needed, and enough."""
    return not parts.groups or (len(parts.groups) == 1 and spans(parts.groups[0]))


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
    bench = bench_of(classes, parts, counts)
    nodes = SEATS + SEATS_PER_RANK * parts.servers
    open_choices = []
    for taken in choices:
        table, proven = seat_ranks(bench, taken, fullest, nodes)
        if table is not None:
            return (table, taken), False
        if not proven:
            open_choices.append(taken)
    for preference in (fullest[::-1].copy(), rng.permutation(classes.classes)):
        for taken in open_choices[:AGAIN]:
            table, _ = seat_ranks(bench, taken, preference, nodes)
            if table is not None:
                return (table, taken), False
    return None, complete and not open_choices
