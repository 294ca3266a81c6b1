"""An allocation problem in the arrays of `bandwidth_allocation`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from formulations.allocation.bandwidth_allocation import BandwidthAllocation, build_arrays
from formulations.parts.arrays import LpArrays
from topoopt.core.allocation import GBIT_BYTES, AllocationGoal, AllocationProblem, Surplus
from topoopt.core.arrays import Floats, Ints


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
        """Whether every transfer has one route."""
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
    numbers, place = np.unique(np.concatenate(shared), return_inverse=True)
    capacity = problem.shared_gbps()[numbers]
    finite = np.isfinite(capacity)
    renumbered = np.cumsum(finite) - 1
    kept = finite[place]
    return SharedCapacities(
        owner=np.array(owner, dtype=np.int64),
        shared=renumbered[place][kept],
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
    if problem.goal is AllocationGoal.COMPLETION_TIME:
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
    worth: Floats | None = None,
) -> BandwidthAllocation:
    """Data of the linear program; left out: floor = base, nothing rises, nothing has a worth."""
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
        worth=nothing if worth is None else worth,
        transfer_names=shares.names,
        shared_names=network.names,
    )


def from_allocation(problem: AllocationProblem, options: Mapping[str, float]) -> LpArrays:
    """The first program of an allocation: all transfers rise together, or the largest total where that is the goal."""
    network, shares = network_of(problem), shares_of(problem)
    if problem.goal is AllocationGoal.MIN_GUARANTEE and problem.surplus is Surplus.SUM:
        return build_arrays(program_of(network, shares, worth=shares.gain))
    return build_arrays(program_of(network, shares, gain=shares.gain))


def fitted(network: SharedCapacities, rates: Floats) -> Floats:
    """Rates of routes, not negative and scaled down where rounding lets them exceed a capacity by a hair."""
    rates = np.maximum(rates, 0.0)
    load = np.bincount(network.shared, weights=network.use * rates[network.route], minlength=len(network.capacity))
    over = np.maximum(1.0, load / network.capacity)
    worst = np.ones(len(rates))
    np.maximum.at(worst, network.route, over[network.shared])
    return np.asarray(rates / worst, dtype=np.float64)
