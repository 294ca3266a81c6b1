"""A shard for one job next to those that stand: best fit into one class of servers, else spread over several.

What comes back says whether a failure is a proof. Searches over regions (all interfaces join all ranks, as rings of
one step do) are complete; spreading is not, apart from the counting arguments of `disproof`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from formulations.shard_classes import (
    Ints,
    LayerClasses,
    ShapeParts,
    classes_of,
    parts_of,
    planes_of,
    shard_of,
)
from solvers.heuristics.shards.regions import Regions, best_fit, fill, regions_of
from solvers.heuristics.shards.spread import Spread
from topoopt.core.optical_layer import OpticalLayer, Shard, ShardShape, shape_faults

TRIES = 8
"""Ways to give planes to interfaces that spreading tries, where there are so many."""


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
    layer: OpticalLayer, free: NDArray[np.bool_], shape: ShardShape, seed: int = 0, *, tries: int = TRIES
) -> Shard | None:
    """A shard of free servers, or None; see `search_shard`, which says why there is none."""
    return search_shard(layer, free, shape, seed, tries=tries).shard


def search_shard(
    layer: OpticalLayer, free: NDArray[np.bool_], shape: ShardShape, seed: int = 0, *, tries: int = TRIES
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
    found = _region(classes, parts, counts) if _regional(parts) else _spread(classes, parts, counts, seed, tries)
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
    spanning = [group for group in parts.groups if group.components == 1 and (group.component == 0).all()]
    needed = sum(len(group.interfaces) for group in spanning)
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
    return planes_of(classes, parts, _taken(parts, order, len(classes.widths)))


def _taken(parts: ShapeParts, order: list[int], plane_groups: int) -> Ints:
    """int64[G, P]: planes taken when interface groups help themselves from a list of plane groups."""
    table = np.zeros((len(parts.groups), plane_groups), dtype=np.int64)
    begin = 0
    for g, group in enumerate(parts.groups):
        end = begin + len(group.interfaces)
        np.add.at(table[g], order[begin:end], 1)
        begin = end
    return table


def _regional(parts: ShapeParts) -> bool:
    """Whether all interfaces in use join the same ranks: one region is then needed, and enough."""
    return not parts.groups or (len(parts.groups) == 1 and parts.groups[0].components == 1 and len(parts.atoms) == 1)


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
    return table, _taken(parts, order, len(classes.widths))


def _spread(classes: LayerClasses, parts: ShapeParts, counts: Ints, seed: int, tries: int) -> tuple[Ints, Ints] | None:
    """The first way over several classes that is met."""
    seen: set[bytes] = set()
    for order in _plane_orders(classes, parts, counts, np.random.default_rng(seed), tries):
        taken = _taken(parts, order, len(classes.widths))
        if taken.tobytes() in seen:
            continue
        seen.add(taken.tobytes())
        sets = tuple(tuple(np.flatnonzero(row).tolist()) for row in taken)
        found = Spread(classes, parts, sets).run(counts)
        if found is not None:
            return found, taken
    return None


def _plane_orders(
    classes: LayerClasses, parts: ShapeParts, counts: Ints, rng: np.random.Generator, tries: int
) -> Iterator[list[int]]:
    """Plane groups in the order interface groups take them: as they come, then by regions for interfaces that join all.

    Groups that join all ranks come first in `parts` order only by chance, so their places are filled by name.
    """
    every = [p for p, width in enumerate(classes.widths) for _ in range(width)]
    if len(classes.widths) == 1:
        yield every
        return
    spanning = [bool(g.components == 1 and (g.component == 0).all()) for g in parts.groups]
    needed = sum(len(g.interfaces) for g, all_of in zip(parts.groups, spanning, strict=True) if all_of)
    regions: Regions | None = regions_of(classes, needed) if needed else None
    sets: list[tuple[int, ...]] = [()]
    if regions is not None:
        room = regions.free(counts)
        fitting = [int(r) for r in np.argsort(room, kind="stable") if room[r] >= parts.servers]
        sets = list(dict.fromkeys(regions.sets[int(regions.set_of[r])] for r in fitting))
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
        yield order
