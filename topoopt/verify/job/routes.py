"""Laws of the routes of model-parallel traffic: every byte has a way, over links that exist, without loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.proofs import Tolerance
from topoopt.core.routing import PathTable
from topoopt.verify.laws.findings import ViolationLog, as_int, float_array, int_array

SHARE_TOLERANCE = Tolerance.ROUNDING.relative

AT_ONCE = 2_000_000
"""Nodes of paths that are looked at together, those of a path with it: all at once would take gigabytes."""


@dataclass(frozen=True, eq=False)
class Hops:
    """All hops of all paths on n servers.

    Attributes:
        slot: int32[h], tail * n + head of each hop; path: int32[h], whose it is.
        pair: int64[p], i * n + j of the pair of each path; share: float64[p], what it carries of the pair.
    """

    slot: Int32s
    path: Int32s
    pair: Ints
    share: Floats

    def crossings(self, transfers: Int32s) -> int:
        """How often transfers, of which there are so many between servers [n, n], cross a hop."""
        hops = np.bincount(self.path, minlength=len(self.pair))
        return int((hops * transfers.ravel()[self.pair]).sum())

    def add_to(self, link: Floats | Ints, by_pair: Floats | Int32s, *, shared: bool) -> None:
        """Add to [n n] links what pairs, [n n], put on them: their shares of it, or all of it on every hop."""
        for begin in range(0, len(self.slot), AT_ONCE):
            path = self.path[begin : begin + AT_ONCE]
            amount = by_pair[self.pair[path]]
            np.add.at(link, self.slot[begin : begin + AT_ONCE], amount * self.share[path] if shared else amount)


@dataclass(frozen=True, eq=False)
class _Table:
    source: Ints
    target: Ints
    pair_ptr: Ints
    share: Floats
    path_ptr: Ints
    node: Ints


def _is_pointer(pointer: Ints, items: int, total: int) -> bool:
    """Whether `pointer` cuts 0..total into `items` runs."""
    return bool(
        len(pointer) == items + 1 and pointer[0] == 0 and pointer[-1] == total and (pointer[1:] >= pointer[:-1]).all()
    )


def _read(routes: PathTable) -> _Table | None:
    source, target = int_array(routes.source, 1), int_array(routes.target, 1)
    pair_ptr, path_ptr = int_array(routes.pair_ptr, 1), int_array(routes.path_ptr, 1)
    share, node = float_array(routes.share, 1), int_array(routes.node, 1)
    if source is None or target is None or pair_ptr is None or path_ptr is None or share is None or node is None:
        return None
    if len(source) != len(target):
        return None
    if not _is_pointer(pair_ptr, len(source), len(share)) or not _is_pointer(path_ptr, len(share), len(node)):
        return None
    return _Table(source, target, pair_ptr, share, path_ptr, node)


def check_routes(findings: ViolationLog, routes: PathTable, links: Ints, demand: Floats | None) -> Hops | None:
    """Report what is wrong; the hops that exist, or None if the table cannot be read.

    Args:
        findings: where to report.
        routes: the table.
        links: int64[n, n], parallel links i -> j.
        demand: float64[n, n], bytes i -> j; None if it is not known, then no pair needs a route.
    """
    n = len(links)
    table = _read(routes)
    if table is None:
        findings.add("route-shape", "source, target, pair_ptr, share, path_ptr and node do not fit together")
        return None
    if as_int(routes.nodes_total) != n:
        findings.add("route-shape", f"routes are over {routes.nodes_total!r} nodes, the cluster has {n} servers")
    key = _check_pairs(findings, table, n)
    if demand is not None:
        wanted = np.flatnonzero(demand.ravel() > 0)
        findings.add_each(
            "route-missing",
            wanted[~np.isin(wanted, key[np.diff(table.pair_ptr) > 0])],
            lambda k: f"{demand.ravel()[k]:.0f} bytes {k // n} -> {k % n} have no route",
        )
    return _check_paths(findings, table, key, links)


def _check_pairs(findings: ViolationLog, table: _Table, n: int) -> Ints:
    """Report bad pairs and shares; int64[m], i * n + j of every pair, -1 for one out of range."""
    source, target, share = table.source, table.target, table.share

    def pair(k: int) -> str:
        return f"{source[k]} -> {target[k]}"

    inside = (source >= 0) & (source < n) & (target >= 0) & (target < n)
    findings.add_each("route-range", np.flatnonzero(~inside), lambda k: f"pair {pair(k)} leaves servers 0..{n - 1}")
    findings.add_each(
        "route-pair", np.flatnonzero(inside & (source == target)), lambda k: f"pair {pair(k)} needs no route"
    )
    key = np.where(inside, source * n + target, -1)
    findings.add_each(
        "route-order",
        1 + np.flatnonzero(np.diff(key) <= 0),
        lambda k: f"pair {pair(k)} is out of order or listed more than once",
    )
    finite = np.isfinite(share)
    pair_of_path = np.repeat(np.arange(len(source)), np.diff(table.pair_ptr))
    findings.add_each(
        "route-share",
        np.flatnonzero(~finite | (share <= 0)),
        lambda p: f"a path {pair(int(pair_of_path[p]))} carries a share of {share[p]}",
    )
    total = np.bincount(pair_of_path, weights=np.where(finite, share, 0.0), minlength=len(source))
    findings.add_each(
        "route-share",
        np.flatnonzero(np.abs(total - 1.0) > SHARE_TOLERANCE),
        lambda k: f"the paths {pair(k)} carry {total.item(k)!r} of the traffic, 1 expected",
    )
    return key


def _whole_paths(path_of_node: Int32s) -> Iterator[slice]:
    """Nodes of paths in parts of about `AT_ONCE`, no path in two of them."""
    begin = 0
    while begin < len(path_of_node):
        last = path_of_node[min(begin + AT_ONCE, len(path_of_node)) - 1]
        end = int(np.searchsorted(path_of_node, last, side="right"))
        yield slice(begin, end)
        begin = end


def _loops(nodes: Ints, paths: Int32s) -> Ints:
    """Paths that visit a server twice, ascending."""
    by_path = np.lexsort((nodes, paths))
    twice = (np.diff(nodes[by_path]) == 0) & (np.diff(paths[by_path]) == 0)
    return np.unique(paths[by_path[1:][twice]]).astype(np.int64)


def _repeated(table: _Table) -> list[int]:
    """Paths that equal one before them: their ends are those of a pair, which is listed once."""
    node, start, stop = table.node.tolist(), table.path_ptr[:-1].tolist(), table.path_ptr[1:].tolist()
    seen: set[tuple[int, ...]] = set()
    repeated = []
    for p, (begin, end) in enumerate(zip(start, stop, strict=True)):
        key = tuple(node[begin:end])
        if key in seen:
            repeated.append(p)
        seen.add(key)
    return repeated


def _check_paths(findings: ViolationLog, table: _Table, key: Ints, links: Ints) -> Hops:
    n = len(links)
    node, start, stop = table.node, table.path_ptr[:-1], table.path_ptr[1:]
    pair_of_path = np.repeat(np.arange(len(table.source)), np.diff(table.pair_ptr))

    def path(p: int) -> str:
        k = pair_of_path[p]
        shown = " ".join(str(v) for v in node[start[p] : min(stop[p], start[p] + 12)])
        return f"path {p} ({table.source[k]} -> {table.target[k]}: {shown}{' ...' if stop[p] - start[p] > 12 else ''})"

    findings.add_each("route-twice", _repeated(table), lambda p: f"{path(p)} is listed more than once")
    path_of_node = np.repeat(np.arange(len(start), dtype=np.int32), stop - start)
    inside = (node >= 0) & (node < n)
    findings.add_each(
        "route-range", np.unique(path_of_node[~inside]), lambda p: f"{path(p)} visits a node outside 0..{n - 1}"
    )
    filled = np.flatnonzero(stop - start >= 1)
    wrong = np.ones(len(start), dtype=bool)
    wrong[filled] = (
        (stop[filled] - start[filled] < 2)
        | (node[start[filled]] != table.source[pair_of_path[filled]])
        | (node[stop[filled] - 1] != table.target[pair_of_path[filled]])
    )
    findings.add_each("route-ends", np.flatnonzero(wrong), lambda p: f"{path(p)} does not join its pair")

    looped, missing = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    slots, of_hops = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.int32)]
    for part in _whole_paths(path_of_node):
        nodes, paths, within = node[part], path_of_node[part], inside[part]
        looped.append(_loops(nodes, paths))
        hop = np.flatnonzero((np.diff(paths) == 0) & within[:-1] & within[1:])
        exists = links[nodes[hop], nodes[hop + 1]] > 0
        missing.append(part.start + hop[~exists])
        hop = hop[exists & (key >= 0)[pair_of_path[paths[hop]]]]
        slots.append((nodes[hop] * n + nodes[hop + 1]).astype(np.int32))  # of 4096 servers at most
        of_hops.append(paths[hop])
    findings.add_each("route-loop", np.concatenate(looped), lambda p: f"{path(p)} visits a server twice")
    findings.add_each(
        "route-link",
        np.concatenate(missing),
        lambda h: f"{path(int(path_of_node[h]))} uses a link {node[h]} -> {node[h + 1]} that does not exist",
    )
    return Hops(
        slot=np.concatenate(slots),
        path=np.concatenate(of_hops),
        pair=key[pair_of_path],
        share=np.where(np.isfinite(table.share), table.share, 0.0),
    )
