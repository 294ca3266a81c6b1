"""Check the proof of a routing's bound without a solver, and without code of the solvers.

For any lengths l >= 0 of the arcs, theta >= sum_ij D_ij dist_l(i, j) / sum_a capacity_a l_a (weak duality), whoever
found the lengths. Where paths have at most h hops, so have those that dist is taken over; and with a price q of a unit
of flow on an arc, theta + q sum_sa flow_sa >= sum_ij D_ij dist_(l + q C)(i, j) / C with C = sum_a capacity_a l_a.
Lengths are rounded to integers, which is again a valid choice, so that distances are exact; the sums are exact
rationals for small networks and have a proven rounding margin for large ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.network import LengthCertificate
from topoopt.core.solution import Bound
from topoopt.core.topology import Topology

_FAR = np.int64(2**62)
_UNIT = 2.0**-53
_EXACT_SERVERS = 128
_KIND = "arc-lengths"


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
    topology: Topology, demand: Floats, lengths: Floats, *, max_hops: int | None = None, hop_price: float = 0.0
) -> Bound:
    """Largest float64 known not to exceed the bound that `lengths` (float64[m]) prove.

    Exact rationals up to 128 servers. Beyond, integer distances times demand are summed in float64: n^2 products and
    n^2 - 1 additions of non-negative terms err by a factor of at most (1 + 2^-53)^(n^2), taken off.

    Args:
        max_hops: longest path allowed; None for any.
        hop_price: not negative; the bound is then on theta + hop_price * mean hops of the demand.

    Raises:
        InputError: lengths or demand that do not fit the topology.
        InfeasibleError: demand between servers that no path, or none within `max_hops`, joins.
    """
    if topology.servers <= _EXACT_SERVERS:
        exact = exact_theta_bound(topology, demand, lengths, max_hops=max_hops, hop_price=hop_price)
        return Bound(_rounded_down(exact), "link lengths, exact rational arithmetic")
    price, distance = _priced_distances(topology, demand, lengths, max_hops, hop_price)
    total = float(np.sum(np.where(demand > 0, demand * distance, 0.0)))
    n = topology.servers
    value = total / price * (1.0 - 2.0 * (n * n + 3) * _UNIT)
    return Bound(value, "link lengths, exact integer distances, float64 sums with a rounding margin")


def certified_circulant_bound(offsets: Ints, capacity: Floats, weight: Floats, lengths: Floats) -> Bound:
    """The same for a circulant of any size: every server sends weight[j] to the server j further on.

    Args:
        offsets, capacity, lengths: of the classes of arcs v -> v + offset.
        weight: float64[n].

    Raises:
        InputError: lengths that are no lengths. InfeasibleError: a displacement with demand out of reach.
    """
    n = len(weight)
    scaled = integer_lengths(n, lengths)
    distance = np.full(n, _FAR)
    distance[0] = 0
    for p, length in zip(offsets.tolist(), scaled.tolist(), strict=True):
        cosets = math.gcd(n, p)
        size = n // cosets
        where = (np.arange(cosets)[:, None] + p * np.arange(size, dtype=np.int64)) % n
        ring = distance[where]
        # from the nearest element once round: dist[k] = min over i <= k of ring[i] + (k - i) length
        turn = (ring.argmin(axis=1)[:, None] + np.arange(size)) % size
        ring = np.take_along_axis(ring, turn, axis=1)
        walked = np.arange(size) * length
        best = np.minimum.accumulate(np.where(ring < _FAR, ring, _FAR) - walked, axis=1) + walked
        best = np.where(ring.min(axis=1)[:, None] < _FAR, best, _FAR)
        distance[np.take_along_axis(where, turn, axis=1)] = best
    served = weight > 0
    if (distance[served] >= _FAR).any():
        raise InfeasibleError(f"displacement {int(np.flatnonzero(served & (distance >= _FAR))[0])} is out of reach")
    total = math.fsum((weight[served] * distance[served]).tolist())  # products err by 2^-53 each, the sum once more
    price = sum(Fraction(float(c)) * int(length) for c, length in zip(capacity, scaled, strict=True))
    return Bound(float(total / float(price) * (1 - 8 * _UNIT)), "class lengths, exact integer distances")


def certificate_document(certificate: LengthCertificate) -> dict[str, Any]:
    """The certificate as JSON values (floats keep all their digits in JSON)."""
    return {"kind": _KIND, "lengths": [float(value) for value in certificate.lengths]}


def certificate_from_document(document: Mapping[str, Any]) -> LengthCertificate:
    """Read it back.

    Raises:
        InputError: another kind, or lengths that are no list of numbers >= 0.
    """
    if document.get("kind") != _KIND:
        raise InputError([Problem("unknown certificate", path="kind", value=repr(document.get("kind")), allowed=_KIND)])
    lengths = document.get("lengths")
    numbers = isinstance(lengths, list) and all(isinstance(x, int | float) and not isinstance(x, bool) for x in lengths)
    if not numbers or not all(math.isfinite(x) and x >= 0 for x in lengths or ()):
        raise InputError([Problem("lengths must be finite numbers", path="lengths", allowed=">= 0")])
    return LengthCertificate(np.array(lengths, dtype=np.float64))


def integer_distances(topology: Topology, demand: Floats, lengths: Floats) -> tuple[Ints, Ints]:
    """Integer lengths, and all-pairs distances by Floyd and Warshall, exact; demand must be joined by paths."""
    scaled = _scaled(topology, demand, lengths, 0.0)
    distance = _all_pairs(topology, scaled)
    _refuse_cut(distance, demand, "")
    return scaled, distance


def _priced_distances(
    topology: Topology, demand: Floats, lengths: Floats, max_hops: int | None, hop_price: float
) -> tuple[int, Ints]:
    """Capacity times integer lengths, summed, and exact all-pairs distances of these lengths plus the price of hops."""
    if not (0 <= hop_price < math.inf):
        raise InputError(f"certificate: the price of a hop is {hop_price!r}, a number not negative expected")
    volume = sum((Fraction(float(value)) for value in demand[demand > 0]), Fraction(0))
    added = 0.0
    if hop_price > 0 and lengths.shape == topology.multiplicity.shape and np.isfinite(lengths).all() and volume > 0:
        added = hop_price / float(volume) * float(lengths @ topology.multiplicity)
    scaled = _scaled(topology, demand, lengths, added)
    price = sum(int(c) * int(length) for c, length in zip(topology.multiplicity, scaled, strict=True))
    if price <= 0:
        raise InputError("certificate: lengths vanish beside the price of hops")
    if hop_price > 0:  # rounded down, which lowers distances and so the bound
        scaled = scaled + int(Fraction(hop_price) * price / volume)
    distance = _all_pairs(topology, scaled) if max_hops is None else within_hops(topology, scaled, max_hops)
    _refuse_cut(distance, demand, "" if max_hops is None else f" of at most {max_hops} hops")
    return price, distance


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


def _all_pairs(topology: Topology, lengths: Ints) -> Ints:
    """int64[n, n]: distances by Floyd and Warshall; 2^60 or more where there is no path."""
    n, arcs = topology.servers, topology.arcs
    distance = np.full((n, n), _FAR)
    np.fill_diagonal(distance, 0)
    np.minimum.at(distance, (arcs[:, 0], arcs[:, 1]), lengths)
    through = np.empty_like(distance)
    for k in range(n):
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
