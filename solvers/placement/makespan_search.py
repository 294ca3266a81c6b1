"""Placement of least makespan without proof: the state of a search, first placements, annealing, priorities.

First placements: single device, topological fill, earliest finish (HEFT), first fit, and list scheduling on pairs of
operator and device: earliest start (m-ETF), favourite child (m-SCT). Of the operators whose producers are placed, list
scheduling takes the one that can start first anywhere, as far as memory allows. With favourite children, chosen by a
linear program, such a child stays on the device of its parent. Earliest finish scatters chains over all devices and is
poor where communication is dear; the other placements then win.

Annealing moves groups in rounds of growing length, each from the best placement so far; priorities of a fixed placement
are annealed from longest tails first. Of few operators on unequal devices, devices and order are annealed at once:
without contention a device waits for the next one of the order. What the search retains is a `PlacedSchedule` of the
simulator, so its value is never the claim of a solver.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from formulations.placed_graphs import FavouriteChildren, favourite_children_arrays, favourites
from solvers.backends import SOLVERS, SolverLimits
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InfeasibleError
from topoopt.core.placement import Latency, PlacementProblem
from topoopt.core.proofs import Argument, Bound, StopReason
from topoopt.native import placement
from topoopt.simulate.placement import (
    ALONE,
    STATIC,
    UNLIMITED,
    PlacedSchedule,
    PlacementArrays,
    ordered,
    placement_arrays,
    simulated,
    uniform_rates,
)


class GroupGraph(NamedTuple):
    """Groups, which of them exchange tensors, and what each needs.

    Attributes:
        neighbour_ptr: int64[G+1]; neighbour: int64, groups at the other end of a tensor, ascending.
        memory: int64[G].
        time: float64[G, k], inf where a member cannot run.
    """

    neighbour_ptr: Ints
    neighbour: Ints
    memory: Ints
    time: Floats


def group_graph(a: PlacementArrays) -> GroupGraph:
    """Return the co-located groups of a problem, and which of them exchange tensors."""
    groups, k = len(a.group_ptr) - 1, len(a.room)
    memory = np.zeros(groups, dtype=np.int64)
    np.add.at(memory, a.group, a.memory)
    time = np.zeros((groups, k), dtype=np.float64)
    np.add.at(time, a.group, a.time)
    producer = np.repeat(np.arange(len(a.needs)), np.diff(a.tensor_ptr))
    source = a.group[np.repeat(producer, np.diff(a.user_ptr))].astype(np.int64)
    target = a.group[a.user].astype(np.int64)
    other = source != target
    pairs = np.unique(np.concatenate((source[other] * groups + target[other], target[other] * groups + source[other])))
    counts = np.bincount(pairs // groups, minlength=groups)
    pointers = np.zeros(groups + 1, dtype=np.int64)
    np.cumsum(counts, out=pointers[1:])
    return GroupGraph(pointers, pairs % groups, memory, time)


WIDTH = 64
"""Ready operators looked at, longest tails first."""

PROGRAM_S = 2.0

Placement = Ints


def earliest_start(a: PlacementArrays, g: GroupGraph) -> Iterator[Placement]:
    """List scheduling by earliest start on any device (m-ETF)."""
    yield from _listed(a, g, {})


def favourite_child(a: PlacementArrays, g: GroupGraph) -> Iterator[Placement]:
    """m-SCT; nothing for large graphs, or if no operator has a favourite child."""
    if not 0 < len(a.user) <= 2_000:  # consumers up to which the program of favourite children is solved
        return
    used = sorted(set(a.server.tolist()))
    across = len(used) > 1
    rate = float((a.network if across else a.inside)[used].min())
    alpha = a.alpha if across else a.alpha_inside
    cost: dict[tuple[int, int], float] = {}
    for i in range(len(a.needs)):
        for tensor in range(a.tensor_ptr[i], a.tensor_ptr[i + 1]):
            sends = alpha + (float(a.tensor_size[tensor]) / rate if a.tensor_size[tensor] > 0 else 0.0)
            for j in a.user[a.user_ptr[tensor] : a.user_ptr[tensor + 1]].tolist():
                cost[i, j] = max(cost.get((i, j), 0.0), sends)
    data = FavouriteChildren(a.time.min(axis=1), cost)
    result = SOLVERS["highs"](favourite_children_arrays(data), SolverLimits(time_s=PROGRAM_S))
    if result.x is not None and (chosen := favourites(data, result.x)):
        yield from _listed(a, g, chosen)


def _listed(a: PlacementArrays, g: GroupGraph, children: Mapping[int, int]) -> Iterator[Placement]:
    n, k = a.time.shape
    parent = {child: operator for operator, child in children.items()}
    rates = uniform_rates(a) if a.sharing == STATIC else np.zeros((len(a.network), len(a.network)))
    rank = placement.tails(a, np.argmin(a.time, axis=1).astype(np.int64), rates)
    homes = np.full(len(g.memory), -1, dtype=np.int64)
    free, left = np.zeros(k), a.room.copy()
    arrives = np.zeros((n, k))
    same = a.server[:, None] == a.server[None, :]
    speed = np.where(same, a.inside[a.server][:, None], np.minimum.outer(a.network[a.server], a.network[a.server]))
    fixed = np.where(same, a.alpha_inside, a.alpha) * (1 - np.eye(k))
    waiting = a.needs.copy()
    ready: list[tuple[float, int]] = sorted((-float(rank[i]), i) for i in np.flatnonzero(waiting == 0).tolist())
    for _ in range(n):
        some = np.array([i for _, i in ready[:WIDTH]], dtype=np.int64)
        groups = a.group[some]
        settled = homes[groups]
        allowed = (g.memory[groups][:, None] <= left[None, :]) & np.isfinite(g.time[groups])
        at_home = np.arange(k)[None, :] == settled[:, None]
        allowed = np.where(settled[:, None] >= 0, at_home, allowed)
        for row, i in enumerate(some.tolist()):
            if i in parent and settled[row] < 0:
                d = int(homes[a.group[parent[i]]])
                if allowed[row, d]:
                    allowed[row] = np.arange(k) == d
        start = np.where(allowed, np.maximum(free[None, :], arrives[some]), np.inf)
        if not np.isfinite(start).any():
            return
        row, d = divmod(int(np.argmin(start)), k)
        i = int(some[row])
        ready.remove((-float(rank[i]), i))
        if homes[a.group[i]] < 0:
            homes[a.group[i]] = d
            if left[d] != UNLIMITED:
                left[d] -= g.memory[a.group[i]]
        end = float(start[row, d]) + float(a.time[i, d])
        if a.time[i, d] > 0:
            free[d] = end
        for tensor in range(a.tensor_ptr[i], a.tensor_ptr[i + 1]):
            size = a.tensor_size[tensor]
            away = np.where(size > 0, size / speed[d], 0.0)
            there = end + fixed[d] + np.where(np.arange(k) == d, 0.0, away)
            for j in a.user[a.user_ptr[tensor] : a.user_ptr[tensor + 1]].tolist():
                arrives[j] = np.maximum(arrives[j], there)
                waiting[j] -= 1
                if waiting[j] == 0:
                    insort(ready, (-float(rank[j]), j))
    yield homes


def _by_speed(g: GroupGraph) -> list[int]:
    finite = np.where(np.isfinite(g.time), g.time, 0.0).sum(axis=0) + 1e9 * np.isinf(g.time).sum(axis=0)
    return [int(d) for d in np.argsort(finite, kind="stable")]


def _orders(a: PlacementArrays) -> Iterator[Ints]:
    """Groups by their first member: depth first, and by the time at which it could start."""
    groups = len(a.group_ptr) - 1
    depth_first = np.empty(len(a.topo))
    depth_first[a.topo] = np.arange(len(a.topo))
    early = np.zeros(len(a.topo))
    fastest = a.time.min(axis=1)
    for i in a.topo:
        done = early[i] + fastest[i]
        for user in a.user[a.user_ptr[a.tensor_ptr[i]] : a.user_ptr[a.tensor_ptr[i + 1]]]:
            early[user] = max(early[user], done)
    for key in (depth_first, early):
        first = np.full(groups, np.inf)
        np.minimum.at(first, a.group, key)
        yield np.argsort(first, kind="stable")


def single(a: PlacementArrays, g: GroupGraph) -> Iterator[Placement]:
    """All on one device, each that can hold them."""
    for d in range(len(a.room)):
        if g.memory.sum() <= a.room[d] and np.isfinite(g.time[:, d]).all():
            yield np.full(len(g.memory), d, dtype=np.int64)


def _filled(a: PlacementArrays, g: GroupGraph, order: Ints, share: float) -> Placement | None:
    devices = _by_speed(g)
    used, work = np.zeros(len(devices), dtype=np.int64), np.zeros(len(devices))
    homes = np.empty(len(g.memory), dtype=np.int64)
    at = 0
    for group in order:
        ahead = devices[at:] + devices[:at]
        fits = [d for d in ahead if used[d] + g.memory[group] <= a.room[d] and np.isfinite(g.time[group, d])]
        if not fits:
            return None
        d = fits[0]
        if d == devices[at] and work[d] + g.time[group, d] > share and at + 1 < len(devices) and len(fits) > 1:
            d = fits[1]
        if d in devices[at:] and g.memory[group] + g.time[group, d] > 0:
            at = devices.index(d)
        homes[group] = d
        used[d] += g.memory[group]
        work[d] += g.time[group, d]
    return homes


def fill(a: PlacementArrays, g: GroupGraph) -> Iterator[Placement]:
    """Topological fill up to memory, and up to equal parts of the work."""
    total = float(np.where(np.isfinite(g.time), g.time, np.inf).min(axis=1).sum())
    for order in _orders(a):
        for parts in dict.fromkeys((1, 2, len(a.room))):
            homes = _filled(a, g, order, np.inf if parts == 1 else total / parts)
            if homes is not None:
                yield homes


def first_fit(a: PlacementArrays, g: GroupGraph) -> Iterator[Placement]:
    """First fit decreasing by memory: finds room where an order along the graph does not."""
    devices = _by_speed(g)
    left = a.room.copy()
    homes = np.empty(len(g.memory), dtype=np.int64)
    for group in np.argsort(-g.memory, kind="stable"):
        fits = [d for d in devices if g.memory[group] <= left[d] and np.isfinite(g.time[group, d])]
        if not fits:
            return
        homes[group] = fits[0]
        left[fits[0]] -= g.memory[group] if left[fits[0]] != UNLIMITED else 0
    yield homes


def earliest_finish(a: PlacementArrays, g: GroupGraph) -> Iterator[Placement]:
    """HEFT: operators by longest tail, each on the device where it ends first, a group where its first member is."""
    n, k = a.time.shape
    rates = uniform_rates(a) if a.sharing == STATIC else np.zeros((len(a.network), len(a.network)))
    fast = np.argmin(a.time, axis=1).astype(np.int64)
    rank = placement.tails(a, fast, rates)
    homes = np.full(len(g.memory), -1, dtype=np.int64)
    free, left = np.zeros(k), a.room.copy()
    ready = np.zeros((n, k))  # when the inputs of an operator could be on each device
    same = a.server[:, None] == a.server[None, :]
    speed = np.where(same, a.inside[a.server][:, None], np.minimum.outer(a.network[a.server], a.network[a.server]))
    fixed = np.where(same, a.alpha_inside, a.alpha) * (1 - np.eye(k))
    position = np.empty(n)
    position[a.topo] = np.arange(n)
    for i in np.lexsort((position, -rank)):
        group = a.group[i]
        if homes[group] < 0:
            open_to = (g.memory[group] <= left) & np.isfinite(g.time[group])
            if not open_to.any():
                return
            ends = np.where(open_to, np.maximum(free, ready[i]) + a.time[i], np.inf)
            homes[group] = int(np.argmin(ends))
            if left[homes[group]] != UNLIMITED:
                left[homes[group]] -= g.memory[group]
        d = homes[group]
        end = max(free[d], ready[i, d]) + a.time[i, d]
        free[d] = end if a.time[i, d] > 0 else free[d]
        for tensor in range(a.tensor_ptr[i], a.tensor_ptr[i + 1]):
            arrive = end + fixed[d] + np.where(np.arange(k) == d, 0.0, a.tensor_size[tensor] / speed[d])
            for user in a.user[a.user_ptr[tensor] : a.user_ptr[tensor + 1]]:
                ready[user] = np.maximum(ready[user], arrive)
    yield homes


STARTS: Mapping[str, Callable[[PlacementArrays, GroupGraph], Iterator[Placement]]] = {
    "single": single,
    "fill": fill,
    "earliest-finish": earliest_finish,
    "earliest-start": earliest_start,
    "favourite-child": favourite_child,
    "first-fit": first_fit,
}
"""Each yields the placements it finds; none where memory runs out on its way."""


def first_placements(a: PlacementArrays, g: GroupGraph) -> list[tuple[str, Placement]]:
    """All of them, by name, without repeats."""
    seen: dict[bytes, tuple[str, Placement]] = {}
    for name, make in STARTS.items():
        for homes in make(a, g):
            seen.setdefault(homes.tobytes(), (name, homes))
    return list(seen.values())


HOT, COLD = 0.02, 0.0002
"""Relative worsening accepted with chance 1/e, at the start and the end of a round."""
ORDER_HOT, FEW_HOT, ORDER_COOLED = 0.02, 28.0, 0.05
"""The same of orders: at least, times the square of the number of operators, and at the end as a part of that."""
BATCH_OPERATORS = 60_000
"""Operators simulated between two looks at the clock: some ten milliseconds."""


def device_of(a: PlacementArrays, homes: Placement) -> Ints:
    """int64[n], device of each operator."""
    return homes[a.group].astype(np.int64)


def anneal(
    a: PlacementArrays,
    g: GroupGraph,
    start: Placement,
    rates: Floats,
    *,
    allocate: bool,
    moves: int,
    seed: int,
    stop: Stop,
    goal: float = 0.0,
) -> Placement:
    """Return the best placement of a search from one that fits.

    Args:
        rates: static rates in bytes/ms; unused with other sharing.
        allocate: choose static rates for each placement in closed form.
        moves: limit that makes runs repeatable.
        goal: proven bound, at which to end.
    """
    search = placement.PlacementAnnealing(a, g, start, rates, allocate, seed % 2**64)
    batch = max(8, BATCH_OPERATORS // len(a.group))
    made, length = 0, 1500
    ended = False
    while not ended and made < moves:
        length = min(length, moves - made)
        done = 0
        while done < length:
            now = min(batch, length - done)
            hot, cold = (HOT * (COLD / HOT) ** (step / length) for step in (done, done + now))
            search.run(now, hot, cold)
            done += now
            ended = search.value() <= goal * (1 + 1e-12) or stop.reason() is not None
            if ended:
                break
        made += done
        length *= 2
        if not ended:
            search.restart()
    return search.placement()


def anneal_orders(
    a: PlacementArrays, g: GroupGraph, incumbent: PlacedSchedule, start: Placement, moves: int, seed: int, stop: Stop
) -> tuple[Placement, Floats]:
    """Return the best placement of a search over devices and orders at once, and the place of each operator in order.

    A few operators that start later or elsewhere change a larger part of a small graph, which is what is accepted.
    """
    n = len(a.group)
    rank = np.empty(n)
    rank[a.topo] = np.arange(n)
    order = np.lexsort((rank, incumbent.start_ms)).astype(np.int64)
    search = placement.OrderAnnealing(a, g, start, uniform_rates(a), order, seed % 2**64)
    hot, batch, made = max(ORDER_HOT, FEW_HOT / n**2), max(8, BATCH_OPERATORS // n), 0
    while made < moves and stop.reason() is None:
        now = min(batch, moves - made)
        search.run(now, *(hot * ORDER_COOLED ** (step / moves) for step in (made, made + now)))
        made += now
    rank[search.order()] = np.arange(n)
    return search.placement(), rank


def polish_priorities(
    a: PlacementArrays, incumbent: PlacedSchedule, moves: int, seed: int, stop: Stop
) -> PlacedSchedule:
    """A schedule of the same placement, not worse."""
    device, rates = incumbent.device, incumbent.rates
    starts = (-placement.tails(a, device, rates), incumbent.start_ms)
    searches = [placement.PriorityAnnealing(a, device, rates, start, seed % 2**64) for start in starts]
    search = min(searches, key=lambda candidate: candidate.value())
    batch, made = max(8, BATCH_OPERATORS // len(device)), 0
    while made < moves and stop.reason() is None:
        search.run(min(batch, moves - made))
        made += batch
    polished = simulated(a, device, rates, search.priority())
    return polished if polished.makespan_ms < incumbent.makespan_ms else incumbent


CLOSE = 1e-9
"""Relative distance from a bound at which a value has reached it."""


@dataclass
class LatencySearch:
    """The state of one solve.

    Attributes:
        floor: lower bound by a formula, ms.
        claim: a larger one by a program; None where there is none.
        best: best schedule so far; `place`: its placement by groups.
        stopped_by: why the last engine ended, if it says so.
        better: called after each schedule that is better than those before.
    """

    problem: PlacementProblem
    a: PlacementArrays
    g: GroupGraph
    stop: Stop
    seed: int
    floor: Bound
    claim: Bound | None = None
    best: PlacedSchedule | None = None
    homes: Placement | None = None
    stopped_by: StopReason | None = None
    better: Callable[[], None] | None = None

    @property
    def allocate(self) -> bool:
        """Whether static rates are chosen here."""
        settings = self.problem.objective
        chosen = isinstance(settings, Latency) and settings.rates == "optimised"
        return self.a.sharing == STATIC and chosen

    @property
    def bound(self) -> float:
        """The larger of floor and claim, ms."""
        return self.floor.value if self.claim is None else self.claim.value

    @property
    def value(self) -> float:
        """Best makespan, inf before there is one."""
        return np.inf if self.best is None else self.best.makespan_ms

    def closed(self) -> bool:
        """Whether the best one is proven optimal."""
        return self.value <= self.bound * (1 + CLOSE)

    def offer(self, schedule: PlacedSchedule, homes: Placement) -> bool:
        """Keep a schedule if it is better."""
        if schedule.makespan_ms < self.value:
            self.best, self.homes = schedule, homes
            if self.better is not None:
                self.better()
            return True
        return False

    def rates_for(self, homes: Placement) -> list[Floats]:
        """Static rates worth trying for a placement, in closed form; one unused table for other kinds of sharing."""
        if not self.allocate:
            return [uniform_rates(self.a)]
        device = device_of(self.a, homes)
        tables = [placement.rates_by_volume(self.a, device, power) for power in (0.5, 1.0)]
        return tables if self.best is None else [*tables, self.best.rates]

    def offer_place(self, homes: Placement, start_ms: Floats | None = None) -> bool:
        """Simulate a placement, also in the order of given starts."""
        device = device_of(self.a, homes)
        better = False
        for rates in self.rates_for(homes):
            better |= self.offer(simulated(self.a, device, rates), homes)
            if start_ms is not None:
                better |= self.offer(simulated(self.a, device, rates, start_ms), homes)
        if start_ms is not None and self.a.sharing == ALONE:
            better |= self.offer(ordered(self.a, device, uniform_rates(self.a), start_ms), homes)
        return better

    def raise_bound(self, value: float, argument: Argument) -> None:
        """Take over a bound; one that rounding lifts above a value that is reached counts as reached."""
        if value > self.bound:
            self.claim = Bound(min(value, self.value), argument)


def require_capacity(problem: PlacementProblem) -> None:
    """Refuse what no placement can hold.

    Raises:
        InfeasibleError: A group that fits no device, or more bytes than all devices have.
    """
    a = placement_arrays(problem)
    g = group_graph(a)
    fits = np.isfinite(g.time) & (g.memory[:, None] <= a.room[None, :])
    homeless = np.flatnonzero(~fits.any(axis=1))
    if len(homeless):
        group = int(homeless[0])
        members = a.group_member[a.group_ptr[group] : a.group_ptr[group + 1]].tolist()
        names = ", ".join(problem.operators[i].name for i in members[:5])
        raise InfeasibleError(
            f"no device can hold {names}{', ...' if len(members) > 5 else ''} "
            f"({g.memory[group]} bytes; {len(homeless)} such groups of operators)"
        )
    if g.memory.sum() > sum(a.room.tolist()):
        raise InfeasibleError(f"the operators need {g.memory.sum()} bytes, the devices have {sum(a.room.tolist())}")


def open_search(problem: PlacementProblem, floor: Bound, seed: int, stop: Stop) -> LatencySearch:
    """A search that knows nothing but a lower bound.

    Raises:
        InfeasibleError: See `require_capacity`; or devices without links to the rest.
    """
    require_capacity(problem)
    a = placement_arrays(problem)
    return LatencySearch(problem, a, group_graph(a), stop, seed, floor)


def reason_of(search: LatencySearch) -> StopReason:
    """Why a search that ran its course ended."""
    if search.closed():
        return StopReason.CONVERGED
    return search.stop.reason() or search.stopped_by or StopReason.BUDGET
