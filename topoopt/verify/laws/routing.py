"""Constraints of routings: flows conserve what they carry, routes and rings run over links, bounds follow from
certificates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.network import SourceFlow
from topoopt.core.process import end_if_left
from topoopt.core.proofs import Tolerance
from topoopt.core.topology import Topology
from topoopt.core.workload import GroupRings, PathTable, Ring
from topoopt.verify.checker import ViolationLog, as_float, as_int, float_array, int_array


@dataclass(frozen=True, eq=False)
class Orbits:
    """Orbits of a group of permutations that keep the arcs and what they carry, all of one size.

    A group that leaves a server where it is, and not all servers and arcs, has orbits of several sizes.

    Attributes:
        moves: int64[g, n], generators.
        servers: int64[n], least server of the orbit of each.
        arcs: int64[m], least arc of the orbit of each.
    """

    moves: Ints
    servers: Ints
    arcs: Ints

    @property
    def sources(self) -> Ints:
        """int64[k], the first server of each orbit."""
        return np.unique(self.servers)


def generators_of(servers: int, dims: tuple[int, ...], given: object = None) -> Ints | None:
    """int64[g, n]: permutations of servers as given, or steps along the rings of a box; None where they are none."""
    if given is None:
        dims = dims or (servers,)
        if any(size < 1 for size in dims) or math.prod(dims) != servers:
            return None
        number = np.arange(servers).reshape(dims)
        return np.array([np.roll(number, -1, axis).ravel() for axis in range(len(dims))])
    moves = int_array(given, 2)
    if moves is None or moves.shape[1] != servers or (np.sort(moves, axis=1) != np.arange(servers)).any():
        return None
    return moves


def orbits_of(topology: Topology, moves: Ints | None) -> Orbits | None:
    """The orbits of servers and arcs; None where an arc or its capacity is not kept, or orbits are of several sizes."""
    n, arcs = topology.servers, topology.arcs.astype(np.int64)
    if moves is None or not len(arcs):
        return None
    keys = arcs[:, 0] * n + arcs[:, 1]
    order = np.argsort(keys)
    moved = moves[:, arcs[:, 0]] * n + moves[:, arcs[:, 1]]
    image = order[np.minimum(np.searchsorted(keys[order], moved), len(keys) - 1)]
    if (keys[image] != moved).any() or (topology.capacity[image] != topology.capacity).any():
        return None
    orbits = Orbits(moves, _least_in_orbit(moves), _least_in_orbit(image))
    sizes = [np.unique(label, return_counts=True)[1] for label in (orbits.servers, orbits.arcs)]
    return orbits if (np.concatenate(sizes) == sizes[0][0]).all() else None


def _least_in_orbit(images: Ints) -> Ints:
    """int64[k]: the least item that permutations, int64[g, k], lead to from each."""
    label = [-1] * images.shape[1]
    rows = images.tolist()
    for start in range(len(label)):
        if label[start] < 0:
            label[start] = start
            waiting = [start]
            while waiting:
                item = waiting.pop()
                for row in rows:
                    if label[row[item]] < 0:
                        label[row[item]] = start
                        waiting.append(row[item])
    return np.array(label, dtype=np.int64)


def _changed(table: Floats, orbits: Orbits) -> list[tuple[int, int]]:
    """Some pairs of servers for which a table, [n, n], has another entry than for what a generator makes of them."""
    off = [np.argwhere(table[np.ix_(move, move)] != table)[:5] for move in orbits.moves]
    return [(int(s), int(v)) for s, v in np.concatenate(off)[:5]]


ROUNDING = Tolerance.ROUNDING.relative

PASSING = 2.0**-49
"""Part of all that passes a server by which sums of doubles may be off: a dozen roundings of 2^-53 each."""


@dataclass(frozen=True)
class FlowCheck:
    """Outcome of `check_flow`: theta of the flow (largest load over capacity), and what is wrong with it."""

    theta: float
    violations: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.violations


def check_flow(topology: Topology, demand: Floats, flow: SourceFlow, *, tolerance: float = ROUNDING) -> FlowCheck:
    """Conservation of every source's flow at every server, no negative flow, and the theta it has.

    A flow conserves when what stays at a server differs from its demand by `tolerance` of that one entry at most, and
    by what doubles cannot tell (`PASSING`, of all that comes and leaves there). So an entry counts as delivered or not
    however large the others of its source are. Capacity is no constraint of its own: theta says how far every link is
    filled.
    """
    n, arcs = topology.servers, topology.arcs
    orbits = orbits_of(topology, generators_of(n, flow.dims, flow.generators)) if flow.by_orbits else None
    if flow.by_orbits and orbits is None:
        return FlowCheck(math.inf, ("rows of some sources stand for all, but the servers differ in their arcs",))
    sources = np.arange(n) if orbits is None else orbits.sources
    if flow.flow.shape != (len(sources), len(arcs)) or demand.shape != (n, n):
        return FlowCheck(math.inf, (f"flow has shape {flow.flow.shape}, demand {demand.shape}",))
    if not np.isfinite(flow.flow).all():
        return FlowCheck(math.inf, ("flow is not finite",))
    violations = []
    for s, a in np.argwhere(flow.flow < 0)[:5]:
        violations.append(f"source {sources[s]} sends {flow.flow[s, a]:g} over {arcs[a, 0]} -> {arcs[a, 1]}")
    comes, leaves = np.zeros((len(sources), n)), np.zeros((len(sources), n))
    for s, row in enumerate(flow.flow):
        end_if_left()
        comes[s] = np.bincount(arcs[:, 1], weights=row, minlength=n)
        leaves[s] = np.bincount(arcs[:, 0], weights=row, minlength=n)
    stays = comes - leaves
    wanted = demand[sources]
    wanted[np.arange(len(sources)), sources] = -wanted.sum(axis=1)
    wrong = np.abs(stays - wanted) > tolerance * np.abs(wanted) + PASSING * (comes + leaves)
    for s, v in np.argwhere(wrong)[:5]:
        violations.append(f"source {sources[s]}: {stays[s, v]:.9g} stays at server {v}, demand is {wanted[s, v]:.9g}")
    if wrong.sum() > 5:
        violations.append(f"and {int(wrong.sum()) - 5} more servers where a flow is not conserved")
    load = flow.flow.sum(axis=0)
    if orbits is not None:
        load = np.bincount(orbits.arcs, load, len(arcs))[orbits.arcs]
        violations += [
            f"source {s}: its demand {demand[s, v]:.9g} at server {v} is not what the rows of other sources say"
            for s, v in _changed(demand, orbits)
        ]
    return FlowCheck(float((load / topology.capacity).max(initial=0.0)), tuple(violations))


def check_hops(topology: Topology, flow: SourceFlow, max_hops: int) -> tuple[str, ...]:
    """Whether the flow is made of paths of at most `max_hops` hops, as its split `by_hop` must show.

    Every sum must hold but for what doubles cannot tell, so that no entry is too small to be looked at. It does when,
    for every source, hop 1 leaves the source only and no server sends on more with its hops up to k + 1 than came to it
    with hops up to k: what waits a step just has fewer hops. Conservation is for `check_flow` to say.
    """
    n, arcs = topology.servers, topology.arcs
    split = flow.by_hop
    if split is None or flow.flow.shape != (n, len(arcs)):
        return (f"no split of the flow by hops shows that paths have at most {max_hops} hops",)
    if split.ndim != 3 or split.shape[1:] != (n, len(arcs)) or len(split) > max_hops:
        return (f"the flow by hops has shape {split.shape}, at most ({max_hops}, {n}, {len(arcs)}) expected",)
    if not np.isfinite(split).all() or (split < 0).any():
        return ("the flow by hops has entries that are negative or not finite",)
    violations = []
    off = np.abs(split.sum(axis=0) - flow.flow) > PASSING * flow.flow
    for s, a in np.argwhere(off)[:5]:
        violations.append(f"source {s}: the hops over {arcs[a, 0]} -> {arcs[a, 1]} do not add up to the flow there")
    for s in range(n):
        end_if_left()
        came, left = np.zeros(n), np.zeros(n)
        came[s] = math.inf
        for k, layer in enumerate(split[:, s]):
            left += np.bincount(arcs[:, 0], weights=layer, minlength=n)
            early = np.flatnonzero(left > came * (1 + PASSING))
            if len(early):
                v = int(early[0])
                violations.append(
                    f"source {s}: server {v} has sent on {left[v]:.9g} with hop {k + 1}, but {came[v]:.9g} came before"
                )
                break
            came += np.bincount(arcs[:, 1], weights=layer, minlength=n)
    return tuple(violations)


_FAR = np.int64(2**62)
_UNIT = 2.0**-53
_EXACT_SERVERS = 128
_MANY_HOPS = 16  # a round for so many servers: more take longer than Floyd and Warshall


def integer_lengths(servers: int, lengths: Floats, added: float = 0.0) -> Ints:
    """Lengths scaled and rounded down so that no simple path exceeds 2^52, hence exact in integers and in float64.

    Args:
        added: what every arc will be lengthened by, in the same unit; leaves room for it.

    Raises:
        InputError: negative, not finite, or all zero.
    """
    if not np.isfinite(lengths).all() or (lengths < 0).any() or not lengths.any():
        raise InputError("certificate: lengths must be finite, not negative, and not all 0")
    unit = float(lengths.max()) + added
    most = 2.0**52 / servers
    return np.floor(lengths / unit * most).astype(np.int64)


def exact_theta_bound(
    topology: Topology, demand: Floats, lengths: Floats, *, max_hops: int | None = None, hop_price: float = 0.0
) -> Fraction:
    """The bound as a rational number, nothing rounded but the lengths; meant for about 128 servers or fewer.

    Raises:
        InputError: lengths or demand that do not fit the topology.
        InfeasibleError: demand between servers that no path, or none within `max_hops`, joins.
    """
    price, distance, _ = _priced_distances(topology, demand, lengths, max_hops, hop_price)
    total = Fraction(0)
    for i, j in np.argwhere(demand > 0):
        total += Fraction(float(demand[i, j])) * int(distance[i, j])
    return total / price


def certified_theta_bound(
    topology: Topology,
    demand: Floats,
    lengths: Floats,
    *,
    max_hops: int | None = None,
    hop_price: float = 0.0,
    moves: Ints | None = None,
) -> float:
    """Largest float64 known not to exceed the bound that `lengths` (float64[m]) prove.

    Exact rationals up to 128 servers. Beyond, integer distances times demand are summed in float64: n^2 products and
    n^2 - 1 additions of non-negative terms err by a factor of at most (1 + 2^-53)^(n^2), taken off.

    Args:
        max_hops: longest path allowed; None for any.
        hop_price: not negative; the bound is then on theta + hop_price * mean hops of the demand.
        moves: int64[g, n], permutations that may keep arcs, demand and lengths: beyond 128 servers one source of each
            orbit is enough.

    Raises:
        InputError: lengths or demand that do not fit the topology.
        InfeasibleError: demand between servers that no path, or none within `max_hops`, joins.
    """
    if topology.servers <= _EXACT_SERVERS:
        exact = exact_theta_bound(topology, demand, lengths, max_hops=max_hops, hop_price=hop_price)
        value = float(exact)
        return value if Fraction(value) <= exact else math.nextafter(value, -math.inf)
    price, distance, sources = _priced_distances(topology, demand, lengths, max_hops, hop_price, moves)
    n, sent = topology.servers, demand[sources]
    total = float(np.sum(np.where(sent > 0, sent * distance, 0.0))) * (n // len(sources))
    return total / price * (1.0 - 2.0 * (n * n + 3) * _UNIT)


def _priced_distances(
    topology: Topology,
    demand: Floats,
    lengths: Floats,
    max_hops: int | None,
    hop_price: float,
    moves: Ints | None = None,
) -> tuple[Fraction | int, Ints, Ints]:
    """Capacity times integer lengths, summed, exact distances of these lengths plus the price of hops, and the sources.

    Distances are int64[k, n], from sources int64[k]: all, or one of each orbit, all of which are of one size.
    """
    if not (0 <= hop_price < math.inf):
        raise InputError(f"certificate: the price of a hop is {hop_price!r}, a number not negative expected")
    volume = Fraction(0)
    if hop_price > 0:
        volume = sum((Fraction(float(value)) for value in demand[demand > 0]), volume)
    added = 0.0
    if lengths.shape == topology.capacity.shape and np.isfinite(lengths).all() and volume > 0:
        added = hop_price / float(volume) * float(lengths @ topology.capacity)
    scaled = _scaled(topology, demand, lengths, added)
    price = _price(topology, scaled)
    if price <= 0:
        raise InputError("certificate: lengths vanish beside the price of hops")
    if hop_price > 0:  # rounded down, which lowers distances and so the bound
        scaled = scaled + int(Fraction(hop_price) * price / volume)
    n, orbits = topology.servers, orbits_of(topology, moves)
    if orbits is not None and (_changed(demand, orbits) or (scaled[orbits.arcs] != scaled).any()):
        orbits = None
    sources = np.arange(n) if orbits is None else orbits.sources
    limit = n - 1 if max_hops is None else max_hops
    everyone = orbits is None and max_hops is None
    distance = all_pairs(topology, scaled) if everyone else within_hops(topology, scaled, limit, sources)
    _refuse_cut(distance, demand, sources, "" if max_hops is None else f" of at most {max_hops} hops")
    return price, distance, sources


def _price(topology: Topology, scaled: Ints) -> Fraction | int:
    """Capacity times integer lengths, summed exactly; any double is a rational number."""
    if topology.rates is None:
        return sum(int(c) * int(length) for c, length in zip(topology.multiplicity, scaled, strict=True))
    terms = (Fraction(float(c)) * int(length) for c, length in zip(topology.rates, scaled, strict=True))
    return sum(terms, Fraction(0))


def _scaled(topology: Topology, demand: Floats, lengths: Floats, added: float) -> Ints:
    n, arcs = topology.servers, topology.arcs
    if lengths.shape != (len(arcs),):
        raise InputError(f"certificate: {len(arcs)} arcs, but lengths of shape {lengths.shape}")
    if demand.shape != (n, n) or not np.isfinite(demand).all() or (demand < 0).any():
        raise InputError(f"certificate: demand must be a finite, non-negative {n} by {n} matrix")
    return integer_lengths(n, lengths, added)


def _refuse_cut(distance: Ints, demand: Floats, sources: Ints, limit: str) -> None:
    cut = (distance >= 2**60) & (demand[sources] > 0)
    if cut.any():
        i, j = np.argwhere(cut)[0]
        raise InfeasibleError(f"no path{limit} from server {sources[i]} to server {j}, which have demand")


def all_pairs(topology: Topology, lengths: Ints) -> Ints:
    """int64[n, n]: distances, exact; 2^60 or more where there is no path.

    By Bellman and Ford, server by server, as paths are of few hops as a rule; where they are not, Floyd and Warshall go
    on from there.
    """
    n, arcs = topology.servers, topology.arcs
    order = np.argsort(arcs[:, 1], kind="stable")
    first = np.searchsorted(arcs[order, 1], np.arange(n + 1))
    into = [(arcs[part, 0], lengths[part, None]) for part in map(order.__getitem__, map(slice, first[:-1], first[1:]))]
    distance = np.full((n, n), _FAR)  # [v, s]: from s to v
    np.fill_diagonal(distance, 0)
    changed = np.ones(n, dtype=np.bool_)
    for _ in range(max(n // _MANY_HOPS, 8)):
        fresh = np.zeros(n, dtype=np.bool_)
        for v, (tails, length) in enumerate(into):
            if len(tails) and (changed[tails].any() or fresh[tails].any()):
                best = (distance[tails] + length).min(axis=0)
                if (best < distance[v]).any():
                    np.minimum(distance[v], best, out=distance[v])
                    fresh[v] = True
        end_if_left()
        if not fresh.any():
            return np.ascontiguousarray(distance.T)
        changed = fresh
    distance = np.ascontiguousarray(distance.T)
    through = np.empty_like(distance)
    for k in range(n):
        end_if_left()
        # _FAR + 2^52 does not overflow, and a path by an unreachable server is not below _FAR
        np.add(np.minimum(distance[:, k : k + 1], _FAR - 1), np.minimum(distance[k], 2**60), out=through)
        np.minimum(distance, through, out=distance)
    return distance


def within_hops(topology: Topology, lengths: Ints, max_hops: int, sources: Ints) -> Ints:
    """int64[k, n]: distances over paths of at most `max_hops` arcs, by as many rounds of Bellman and Ford, exact.

    Args:
        lengths: int64[m], not negative, a path of n arcs below 2^53. 2^60 or more stands for no such path.
        max_hops: of a path.
        sources: int64[k], servers where paths start.
    """
    n = topology.servers
    order = np.argsort(topology.arcs[:, 1], kind="stable")
    tails, heads = topology.arcs[order].T
    distance = np.full((len(sources), n), _FAR)
    distance[np.arange(len(sources)), sources] = 0
    if not len(order):
        return distance
    first = np.flatnonzero(np.append(True, heads[1:] != heads[:-1]))
    for _ in range(min(max_hops, n - 1)):
        end_if_left()
        arriving = np.minimum(distance[:, tails], _FAR - 2**53) + lengths[order]
        step = distance.copy()
        step[:, heads[first]] = np.minimum(step[:, heads[first]], np.minimum.reduceat(arriving, first, axis=1))
        if np.array_equal(step, distance):
            break
        distance = step
    return distance


SHARE_TOLERANCE = Tolerance.ROUNDING.relative


RingHops = tuple[tuple[int, ...], float, list[tuple[int, int]]]
"""What one readable ring puts on the links: its members send a share of their bytes along all its hops together."""


def check_rings(
    findings: ViolationLog, rings: tuple[GroupRings, ...], links: Ints, payload_bytes: dict[tuple[int, ...], int] | None
) -> tuple[RingHops, ...]:
    """Report what is wrong; the hops of all rings that could be followed.

    Args:
        findings: where to report.
        rings: one entry per group.
        links: int64[n, n], parallel links i -> j.
        payload_bytes: sorted members -> payload; None if it is not known, then no group needs rings.
    """
    seen: set[tuple[int, ...]] = set()
    hops: list[RingHops] = []
    for position, group in enumerate(rings):
        check = partial(_check_group, findings, group, links, seen, hops)
        findings.guard("ring-shape", f"group {position} of the rings", check)
    for members, payload in (payload_bytes or {}).items():
        if members not in seen:
            findings.add("ring-missing", f"{payload} bytes are all-reduced over servers {list(members)} without a ring")
    return tuple(hops)


def _servers(values: Iterable[object], n: int) -> tuple[int, ...] | None:
    numbers = tuple(as_int(value) for value in values)
    servers = tuple(number for number in numbers if number is not None and 0 <= number < n)
    return servers if len(servers) == len(numbers) else None


def _check_group(
    findings: ViolationLog, group: GroupRings, links: Ints, seen: set[tuple[int, ...]], hops: list[RingHops]
) -> None:
    """Report what is wrong with a group; its members go to `seen`, the hops of its readable rings to `hops`."""
    n = len(links)
    members = _servers(group.members, n)
    if members is None or len(set(members)) < max(len(members), 2):
        findings.add("ring-group", f"group {group.members!r} is not two or more different servers of 0..{n - 1}")
        return
    key = tuple(sorted(members))
    if key in seen:
        findings.add("ring-duplicate", f"group {list(key)} has more than one entry")
        return
    seen.add(key)
    total = sum(as_float(ring.share) for ring in group.rings)
    if not abs(total - 1.0) <= SHARE_TOLERANCE:
        findings.add("ring-share", f"the rings of group {list(key)} carry {total!r} of its payload, 1 expected")
    for index, ring in enumerate(group.rings):
        where = f"ring {index} of group {list(key)}"
        share = as_float(ring.share)
        if not 0.0 < share < float("inf"):
            findings.add("ring-share", f"{where} carries a share of {ring.share!r}")
            share = 0.0
        order = _servers(ring.order, n)
        if order is None or tuple(sorted(order)) != key:
            findings.add("ring-order", f"{where} visits {list(ring.order)}, not every member exactly once")
            continue
        ring_hops = _check_ring_paths(findings, where, ring, order, links)
        hops.append((key, share, ring_hops))


def _check_ring_paths(
    findings: ViolationLog, where: str, ring: Ring, order: tuple[int, ...], links: Ints
) -> list[tuple[int, int]]:
    if len(ring.paths) != len(order):
        findings.add("ring-paths", f"{where} has {len(ring.paths)} paths for {len(order)} members")
        return []
    hops: list[tuple[int, int]] = []
    for index, given in enumerate(ring.paths):
        here, there = order[index], order[(index + 1) % len(order)]
        path = _servers(given, len(links))
        if path is None or len(path) < 2 or path[0] != here or path[-1] != there:
            findings.add("ring-ends", f"{where}: path {list(given)} does not lead from {here} to {there}")
            continue
        if len(set(path)) < len(path):
            findings.add("ring-loop", f"{where}: path {list(given)} visits a server twice")
        for tail, head in pairwise(path):
            if links[tail, head] > 0:
                hops.append((tail, head))
            else:
                findings.add("ring-link", f"{where} uses a link {tail} -> {head} that does not exist")
    return hops


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


def _is_pointer(pointer: Ints, items: int, total: int) -> bool:
    """Whether `pointer` cuts 0..total into `items` runs."""
    return bool(
        len(pointer) == items + 1 and pointer[0] == 0 and pointer[-1] == total and (pointer[1:] >= pointer[:-1]).all()
    )


def _read(routes: PathTable) -> PathTable | None:
    """The table with integers and numbers of 64 bits; None where its arrays do not fit together."""
    source, target = int_array(routes.source, 1), int_array(routes.target, 1)
    pair_ptr, path_ptr = int_array(routes.pair_ptr, 1), int_array(routes.path_ptr, 1)
    share, node = float_array(routes.share, 1), int_array(routes.node, 1)
    if source is None or target is None or pair_ptr is None or path_ptr is None or share is None or node is None:
        return None
    if len(source) != len(target):
        return None
    if not _is_pointer(pair_ptr, len(source), len(share)) or not _is_pointer(path_ptr, len(share), len(node)):
        return None
    columns: dict[str, Any] = {"source": source, "target": target, "share": share, "node": node}
    return replace(routes, pair_ptr=pair_ptr, path_ptr=path_ptr, **columns)


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
    return _check_route_paths(findings, table, key, links)


def _check_pairs(findings: ViolationLog, table: PathTable, n: int) -> Ints:
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


def _loops(nodes: Ints | Int32s, paths: Int32s) -> Ints:
    by_path = np.lexsort((nodes, paths))
    twice = (np.diff(nodes[by_path]) == 0) & (np.diff(paths[by_path]) == 0)
    return np.unique(paths[by_path[1:][twice]]).astype(np.int64)


def _repeated(table: PathTable) -> list[int]:
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


def _check_route_paths(findings: ViolationLog, table: PathTable, key: Ints, links: Ints) -> Hops:
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
