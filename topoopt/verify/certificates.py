"""Check a routing and the proof of its bound without a solver, and without code of the solvers.

For any lengths l >= 0 of the arcs, theta >= sum_ij D_ij dist_l(i, j) / sum_a capacity_a l_a (weak duality), whoever
found the lengths. They are rounded to integers, which is again a valid choice, so that distances are exact; the sums
are exact rationals for small networks and have a proven rounding margin for large ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.network_problem import LengthCertificate, SourceFlow
from topoopt.core.solution import Bound
from topoopt.core.topology import Topology

_FAR = np.int64(2**62)
_UNIT = 2.0**-53
_EXACT_SERVERS = 128
_KIND = "arc-lengths"


@dataclass(frozen=True)
class FlowCheck:
    """Outcome of `check_flow`: theta of the flow (largest load over capacity), and what is wrong with it."""

    theta: float
    violations: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.violations


def integer_lengths(servers: int, lengths: NDArray[np.float64]) -> NDArray[np.int64]:
    """Lengths scaled and rounded down so that no simple path exceeds 2^52, hence exact in integers and in float64.

    Raises:
        InputError: negative, not finite, or all zero.
    """
    if not np.isfinite(lengths).all() or (lengths < 0).any() or not lengths.any():
        raise InputError("certificate: lengths must be finite, not negative, and not all 0")
    unit = float(lengths.max())
    most = 2.0**52 / servers
    return np.floor(lengths / unit * most).astype(np.int64)


def exact_theta_bound(topology: Topology, demand: NDArray[np.float64], lengths: NDArray[np.float64]) -> Fraction:
    """The bound as a rational number, nothing rounded but the lengths; meant for about 128 servers or fewer.

    Raises:
        InputError: lengths or demand that do not fit the topology.
        InfeasibleError: demand between servers that no path joins.
    """
    scaled, distance = integer_distances(topology, demand, lengths)
    total = Fraction(0)
    for i, j in np.argwhere(demand > 0):
        total += Fraction(float(demand[i, j])) * int(distance[i, j])
    return total / sum(int(c) * int(length) for c, length in zip(topology.multiplicity, scaled, strict=True))


def certified_theta_bound(topology: Topology, demand: NDArray[np.float64], lengths: NDArray[np.float64]) -> Bound:
    """Largest float64 known not to exceed the bound that `lengths` (float64[m]) prove.

    Exact rationals up to 128 servers. Beyond, integer distances times demand are summed in float64: n^2 products and
    n^2 - 1 additions of non-negative terms err by a factor of at most (1 + 2^-53)^(n^2), taken off.

    Raises:
        InputError: lengths or demand that do not fit the topology.
        InfeasibleError: demand between servers that no path joins.
    """
    if topology.servers <= _EXACT_SERVERS:
        exact = exact_theta_bound(topology, demand, lengths)
        return Bound(_rounded_down(exact), "link lengths, exact rational arithmetic")
    scaled, distance = integer_distances(topology, demand, lengths)
    total = float(np.sum(np.where(demand > 0, demand * distance, 0.0)))
    price = sum(int(c) * int(length) for c, length in zip(topology.multiplicity, scaled, strict=True))
    n = topology.servers
    value = total / price * (1.0 - 2.0 * (n * n + 3) * _UNIT)
    return Bound(value, "link lengths, exact integer distances, float64 sums with a rounding margin")


def certified_circulant_bound(
    offsets: NDArray[np.int64],
    capacity: NDArray[np.float64],
    weight: NDArray[np.float64],
    lengths: NDArray[np.float64],
) -> Bound:
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


def check_flow(
    topology: Topology, demand: NDArray[np.float64], flow: SourceFlow, *, tolerance: float = 1e-9
) -> FlowCheck:
    """Conservation of every source's flow at every server, no negative flow, and the theta it has.

    A flow conserves when what stays at a server differs from its demand by `tolerance` of the source's total demand at
    most. Capacity is no constraint of its own: theta says how far every link is filled.
    """
    n, arcs = topology.servers, topology.arcs
    if flow.flow.shape != (n, len(arcs)) or demand.shape != (n, n):
        return FlowCheck(math.inf, (f"flow has shape {flow.flow.shape}, demand {demand.shape}",))
    if not np.isfinite(flow.flow).all():
        return FlowCheck(math.inf, ("flow is not finite",))
    violations = []
    for s, a in np.argwhere(flow.flow < 0)[:5]:
        violations.append(f"source {s} sends {flow.flow[s, a]:g} over {arcs[a, 0]} -> {arcs[a, 1]}")
    stays = np.zeros((n, n))
    for s in range(n):
        stays[s] = np.bincount(arcs[:, 1], weights=flow.flow[s], minlength=n)
        stays[s] -= np.bincount(arcs[:, 0], weights=flow.flow[s], minlength=n)
    wanted = demand.copy()
    np.fill_diagonal(wanted, -demand.sum(axis=1))
    wrong = np.abs(stays - wanted) > tolerance * demand.sum(axis=1)[:, None]
    for s, v in np.argwhere(wrong)[:5]:
        violations.append(f"source {s}: {stays[s, v]:.9g} stays at server {v}, demand is {wanted[s, v]:.9g}")
    if wrong.sum() > 5:
        violations.append(f"and {int(wrong.sum()) - 5} more servers where a flow is not conserved")
    theta = float((flow.flow.sum(axis=0) / topology.multiplicity).max(initial=0.0))
    return FlowCheck(theta, tuple(violations))


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


def integer_distances(
    topology: Topology, demand: NDArray[np.float64], lengths: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Integer lengths, and all-pairs distances by Floyd and Warshall, exact; demand must be joined by paths."""
    n, arcs = topology.servers, topology.arcs
    if lengths.shape != (len(arcs),):
        raise InputError(f"certificate: {len(arcs)} arcs, but lengths of shape {lengths.shape}")
    if demand.shape != (n, n) or not np.isfinite(demand).all() or (demand < 0).any():
        raise InputError(f"certificate: demand must be a finite, non-negative {n} by {n} matrix")
    scaled = integer_lengths(n, lengths)
    distance = np.full((n, n), _FAR)
    np.fill_diagonal(distance, 0)
    np.minimum.at(distance, (arcs[:, 0], arcs[:, 1]), scaled)
    through = np.empty_like(distance)
    for k in range(n):
        # _FAR + 2^52 does not overflow, and a path by an unreachable server is not below _FAR
        np.add(np.minimum(distance[:, k : k + 1], _FAR - 1), np.minimum(distance[k], 2**60), out=through)
        np.minimum(distance, through, out=distance)
    cut = (distance >= 2**60) & (demand > 0)
    if cut.any():
        i, j = np.argwhere(cut)[0]
        raise InfeasibleError(f"no path from server {i} to server {j}, which have demand")
    return scaled, distance


def _rounded_down(exact: Fraction) -> float:
    value = float(exact)
    return value if Fraction(value) <= exact else math.nextafter(value, -math.inf)
