"""Rates of transfers that share links: one step of lexicographic (max-min fair) allocation, or the largest total.

Decided: the rate of every transfer on each of its routes. Routes are given, so the program is a packing one. Max-min
fairness needs a sequence of these programs: each raises all transfers that can still rise together, and its dual values
name some that cannot (Bertsekas and Gallager, Data Networks, section 6.5; for several routes Pioro and Medhi, Routing,
Flow and Capacity Design, chapter 8).

Sets        TRANSFERS t; ROUTES k, each of one transfer t(k); SHARED r: links, egress and ingress of servers.
Parameters  use[r, k] >= 0: part of route k's traffic that uses r;  capacity[r] > 0, Gbit/s;
            floor[t] >= 0: rate that is kept (guaranteed, or reached before), Gbit/s;  ceiling[t], Gbit/s, or infinite;
            gain[t] >= 0: how fast t rises with the level (0: does not rise);  value[t] >= 0: of a unit of its rate.
Variables   rate[k] >= 0, Gbit/s;  level >= 0 (only if some gain is above 0).

    maximise    level + sum_t value[t] sum_{k of t} rate[k]
    (1) fit         sum_k use[r, k] rate[k] <= capacity[r]                              for every r in use
    (2) keep        sum_{k of t} rate[k] - gain[t] level >= floor[t]                    for every t
    (3) limit       sum_{k of t} rate[k] <= ceiling[t]                                  where finite

Uses: max-min fair rates, gain = weight; above guarantees, floor = guarantee; least completion time of transfers that
start together, gain = size, where time = 1 / level; largest weighted total above guarantees, gain = 0 and
value = weight. Dual: prices of (1) and (3) prove that nothing above is possible, see `PriceCertificate`.

Size: |ROUTES| + 1 columns, |SHARED| + 2 |TRANSFERS| rows at most. Against `path_split` (least largest load of given
demands) the rates are free here; with gain = demand and no limits level = 1 / theta.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from formulations.programs import Families, LpArrays
from topoopt.core.allocation import GBIT_BYTES, AllocationProblem
from topoopt.core.arrays import Floats, Ints, offsets


@dataclass(frozen=True, eq=False)
class BandwidthAllocation:
    """Data of the problem.

    Attributes:
        owner: int64[K], transfer of each route, 0..T-1; every transfer has one route at least.
        shared, route, use: the non-zero use[r, k], equally long arrays, each pair once.
        capacity: float64[R], finite.
        floor, ceiling, gain, value: float64[T].
        transfer_names, shared_names: for people; None: numbers.
    """

    owner: Ints
    shared: Ints
    route: Ints
    use: Floats
    capacity: Floats
    floor: Floats
    ceiling: Floats
    gain: Floats
    value: Floats
    transfer_names: tuple[str, ...] | None = None
    shared_names: tuple[str, ...] | None = None

    @property
    def transfers(self) -> int:
        return len(self.floor)

    def limited(self) -> Ints:
        """Transfers with a finite ceiling: rows (3), in this order."""
        return np.flatnonzero(np.isfinite(self.ceiling))

    def rises(self) -> bool:
        return bool((self.gain > 0).any())


def build_arrays(data: BandwidthAllocation) -> LpArrays:
    """The linear program (minimising the negative); columns rate[k], then level; rows (1), (2), (3)."""
    limited, rising = data.limited(), np.flatnonzero(data.gain > 0)
    made = Families()
    rate = made.columns(len(data.owner), cost=-data.value[data.owner], names=_rate_names(data))
    level = made.columns(int(data.rises()), cost=-1.0, names=["level"] * data.rises())
    names = _names(data.transfer_names, data.transfers)
    shared = _names(data.shared_names, len(data.capacity))
    fit = made.rows(len(data.capacity), -np.inf, data.capacity, [f"fit_{name}" for name in shared])
    keep = made.rows(data.transfers, data.floor, np.inf, [f"keep_{name}" for name in names])
    limit = np.zeros(data.transfers, dtype=np.int64)
    limit[limited] = made.rows(len(limited), -np.inf, data.ceiling[limited], [f"limit_{names[t]}" for t in limited])
    made.terms(fit[data.shared], rate[data.route], data.use)
    made.terms(keep[data.owner], rate, 1.0)
    made.terms(limit[data.owner], rate, 1.0, where=np.isfinite(data.ceiling)[data.owner])
    if data.rises():
        made.terms(keep[rising], level, -data.gain[rising])
    return made.arrays()


def _names(given: tuple[str, ...] | None, count: int) -> tuple[str, ...]:
    return given if given is not None else tuple(str(i) for i in range(count))


def _rate_names(data: BandwidthAllocation) -> list[str]:
    names = _names(data.transfer_names, data.transfers)
    choice = np.bincount(data.owner, minlength=data.transfers)
    first = offsets(choice)
    order = np.argsort(data.owner, kind="stable")
    within = np.empty(len(order), dtype=np.int64)
    within[order] = np.arange(len(order)) - first[data.owner[order]]
    return [
        f"rate_{names[t]}" if choice[t] == 1 else f"rate_{names[t]}_{k}"
        for t, k in zip(data.owner.tolist(), within.tolist(), strict=True)
    ]


@dataclass(frozen=True, eq=False)
class SharedCapacities:
    """What the transfers share.

    Attributes:
        owner: int64[K], transfer of each route.
        shared, route, use: non-zero parts of the routes on what is shared; `shared` counts from 0 to R-1.
        capacity: float64[R], Gbit/s, finite.
        numbers: int64[R], number of each in the numbering of the problem.
        names: of each, for people.
    """

    owner: Ints
    shared: Ints
    route: Ints
    use: Floats
    capacity: Floats
    numbers: Ints
    names: tuple[str, ...]

    @property
    def single_route(self) -> bool:
        return len(self.owner) == int(self.owner[-1]) + 1


@dataclass(frozen=True, eq=False)
class Shares:
    """How transfers rise: rate = base + gain * level, up to a ceiling.

    Attributes:
        base, gain, ceiling: float64[T], Gbit/s, (unit of gain), Gbit/s; gain above 0, ceiling not below base.
        names: of the transfers.
    """

    base: Floats
    gain: Floats
    ceiling: Floats
    names: tuple[str, ...]


def network_of(problem: AllocationProblem) -> SharedCapacities:
    """Everything finite that some route uses; unused links play no part."""
    m, n = len(problem.topology.arcs), problem.topology.servers
    owner: list[int] = []
    shared, route, use = [], [], []
    for t, transfer in enumerate(problem.transfers):
        ends = np.array([m + transfer.source, m + n + transfer.destination], dtype=np.int64)
        for part in transfer.routes:
            shared.append(np.concatenate((part.arcs, ends)))
            use.append(np.concatenate((part.fraction, np.ones(2))))
            route.append(np.full(len(part.arcs) + 2, len(owner), dtype=np.int64))
            owner.append(t)
    numbers, position = np.unique(np.concatenate(shared), return_inverse=True)
    capacity = problem.shared_gbps()[numbers]
    finite = np.isfinite(capacity)
    renumbered = np.cumsum(finite) - 1
    kept = finite[position]
    return SharedCapacities(
        owner=np.array(owner, dtype=np.int64),
        shared=renumbered[position][kept],
        route=np.concatenate(route)[kept],
        use=np.concatenate(use)[kept],
        capacity=capacity[finite],
        numbers=numbers[finite],
        names=tuple(problem.shared_name(int(number)) for number in numbers[finite]),
    )


def unit_of(network: SharedCapacities) -> float:
    """The largest capacity, Gbit/s: programs are best in numbers near 1."""
    return float(network.capacity.max()) if len(network.capacity) else 1.0


def shares_of(problem: AllocationProblem) -> Shares:
    """How transfers rise under the goal of a problem."""
    transfers = problem.transfers
    gain = np.array([transfer.weight for transfer in transfers])
    if problem.goal == "completion-time":
        gain = np.array([(transfer.size_bytes or 0.0) / GBIT_BYTES for transfer in transfers])
    return Shares(
        base=np.array([transfer.min_gbps for transfer in transfers]),
        gain=gain,
        ceiling=np.array([transfer.max_gbps for transfer in transfers]),
        names=tuple(transfer.name for transfer in transfers),
    )


def program_of(
    network: SharedCapacities,
    shares: Shares,
    *,
    floor: Floats | None = None,
    gain: Floats | None = None,
    weight: Floats | None = None,
) -> BandwidthAllocation:
    """Data of the linear program; left out: floor = base, nothing rises, nothing has a value."""
    nothing = np.zeros(len(shares.base))
    return BandwidthAllocation(
        owner=network.owner,
        shared=network.shared,
        route=network.route,
        use=network.use,
        capacity=network.capacity,
        floor=shares.base if floor is None else floor,
        ceiling=shares.ceiling,
        gain=nothing if gain is None else gain,
        value=nothing if weight is None else weight,
        transfer_names=shares.names,
        shared_names=network.names,
    )


def from_allocation(problem: AllocationProblem, options: Mapping[str, float]) -> LpArrays:
    """The first program of an allocation: all transfers rise together, or the largest total where that is the goal."""
    network, shares = network_of(problem), shares_of(problem)
    if problem.goal == "min-guarantee" and problem.surplus == "sum":
        return build_arrays(program_of(network, shares, weight=shares.gain))
    return build_arrays(program_of(network, shares, gain=shares.gain))


def fitted(network: SharedCapacities, rates: Floats) -> Floats:
    """Rates of routes, not negative and scaled down where rounding lets them exceed a capacity by a hair."""
    rates = np.maximum(rates, 0.0)
    load = np.bincount(network.shared, weights=network.use * rates[network.route], minlength=len(network.capacity))
    over = np.maximum(1.0, load / network.capacity)
    worst = np.ones(len(rates))
    np.maximum.at(worst, network.route, over[network.shared])
    return np.asarray(rates / worst, dtype=np.float64)
