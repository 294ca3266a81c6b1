"""Check the proof of a routing's bound without a solver, and without code of the solvers.

For any lengths l >= 0 of the arcs, theta >= sum_ij D_ij dist_l(i, j) / sum_a capacity_a l_a (weak duality), whoever
found the lengths. Where paths have at most h hops, so have those that dist is taken over; and with a price q of a unit
of flow on an arc, theta + q sum_sa flow_sa >= sum_ij D_ij dist_(l + q C)(i, j) / C with C = sum_a capacity_a l_a.
Lengths are rounded to integers, which is again a valid choice, so that distances are exact; the sums are exact
rationals for small networks and have a proven rounding margin for large ones.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.process import end_if_left
from topoopt.core.topology import Topology
from topoopt.verify.laws.turning import turned_distances

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
    price, distance = _priced_distances(topology, demand, lengths, max_hops, hop_price)
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
    dims: tuple[int, ...] = (),
) -> float:
    """Largest float64 known not to exceed the bound that `lengths` (float64[m]) prove.

    Exact rationals up to 128 servers. Beyond, integer distances times demand are summed in float64: n^2 products and
    n^2 - 1 additions of non-negative terms err by a factor of at most (1 + 2^-53)^(n^2), taken off.

    Args:
        max_hops: longest path allowed; None for any.
        hop_price: not negative; the bound is then on theta + hop_price * mean hops of the demand.
        dims: of a box that may look the same from its every server, which saves time beyond 128 of them.

    Raises:
        InputError: lengths or demand that do not fit the topology.
        InfeasibleError: demand between servers that no path, or none within `max_hops`, joins.
    """
    if topology.servers <= _EXACT_SERVERS:
        exact = exact_theta_bound(topology, demand, lengths, max_hops=max_hops, hop_price=hop_price)
        return _rounded_down(exact)
    price, distance = _priced_distances(topology, demand, lengths, max_hops, hop_price, dims)
    total = float(np.sum(np.where(demand > 0, demand * distance, 0.0)))
    n = topology.servers
    return total / price * (1.0 - 2.0 * (n * n + 3) * _UNIT)


def _priced_distances(
    topology: Topology,
    demand: Floats,
    lengths: Floats,
    max_hops: int | None,
    hop_price: float,
    dims: tuple[int, ...] = (),
) -> tuple[Fraction | int, Ints]:
    """Capacity times integer lengths, summed, and exact all-pairs distances of these lengths plus the price of hops."""
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
    distance = all_pairs(topology, scaled, dims) if max_hops is None else within_hops(topology, scaled, max_hops)
    _refuse_cut(distance, demand, "" if max_hops is None else f" of at most {max_hops} hops")
    return price, distance


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


def _refuse_cut(distance: Ints, demand: Floats, limit: str) -> None:
    cut = (distance >= 2**60) & (demand > 0)
    if cut.any():
        i, j = np.argwhere(cut)[0]
        raise InfeasibleError(f"no path{limit} from server {i} to server {j}, which have demand")


def all_pairs(topology: Topology, lengths: Ints, dims: tuple[int, ...] = ()) -> Ints:
    """int64[n, n]: distances, exact; 2^60 or more where there is no path.

    Where all servers look alike, on a ring or a box of `dims`, from one of them. Else by Bellman and Ford, server by
    server, as paths are of few hops as a rule; where they are not, Floyd and Warshall go on from there.
    """
    n, arcs = topology.servers, topology.arcs
    alike = turned_distances(topology, lengths, int(_FAR), dims)
    if alike is not None:
        return alike
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


def within_hops(topology: Topology, lengths: Ints, max_hops: int) -> Ints:
    """int64[n, n]: distances over paths of at most `max_hops` arcs, by as many rounds of Bellman and Ford, exact.

    Args:
        lengths: int64[m], not negative, a path of n arcs below 2^53. 2^60 or more stands for no such path.
    """
    n = topology.servers
    order = np.argsort(topology.arcs[:, 1], kind="stable")
    tails, heads = topology.arcs[order].T
    distance = np.full((n, n), _FAR)
    np.fill_diagonal(distance, 0)
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


def _rounded_down(exact: Fraction) -> float:
    value = float(exact)
    return value if Fraction(value) <= exact else math.nextafter(value, -math.inf)
