"""Plans whose pods forward: to begin with, exchanges of circuits, and the same with fewer circuits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from solvers.dag_topology.route_choice import BETTER, RoutedPlan, routed, served
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.dag_topology_solution import Route
from topoopt.simulate.dag.forwarded_circuits import RoutedJob

MOST_TRIALS = 4_000
"""Plans that exchanges look at."""

ROUNDS = 3
"""Times that all pairs are asked for circuits they can spare."""


def free_ports(job: RoutedJob, circuits: Ints) -> Ints:
    """int64[pods]."""
    ends = np.array(job.pairs).ravel()
    used = np.bincount(ends, np.repeat(circuits, 2), minlength=job.problem.pods).astype(np.int64)
    free: Ints = np.array(job.problem.ports, dtype=np.int64) - used
    return free


def joined(job: RoutedJob, stop: Stop) -> RoutedPlan | None:
    """A plan with at most one circuit a pair; None: none was found.

    Circuits go to the largest volumes while ports are free, or round a hub first; then one is exchanged for another
    while that serves more directions.
    """
    for skeleton in _skeletons(job):
        circuits = skeleton
        routes, unserved = routed(job, circuits)
        while unserved and stop.reason() is None:
            found = next((one for one in _swaps(job, circuits) if routed(job, one)[1] < unserved), None)
            if found is None:
                break
            circuits = found
            routes, unserved = routed(job, circuits)
        if routes is not None:
            return RoutedPlan.of(job, circuits, routes)
    return None


def _skeletons(job: RoutedJob) -> Iterator[Ints]:
    volume = _demand(job)
    by_volume = np.argsort(-volume, kind="stable").tolist()
    pods = np.unique(job.problem.directions).tolist()
    none = np.zeros(len(job.pairs), dtype=np.int64)
    yield _added(job, none, [p for p in by_volume if volume[p] > 0])
    yield _added(job, none, [int(job.number[a, b]) for a, b in zip(pods, [*pods[1:], pods[0]], strict=True) if a != b])
    for hub in sorted(pods, key=lambda pod: (-job.problem.ports[pod], pod)):
        star = [int(job.number[hub, pod]) for pod in pods if pod != hub]
        yield _added(job, none, [*sorted(star, key=lambda p: -volume[p]), *(p for p in by_volume if volume[p] > 0)])


def _demand(job: RoutedJob) -> Floats:
    """float64[all pairs]: in both directions."""
    volume: Floats = np.zeros(len(job.pairs))
    for k, ends in enumerate(job.problem.directions):
        volume[job.number[ends]] += job.volume[k]
    return volume


def _added(job: RoutedJob, circuits: Ints, pairs: list[int]) -> Ints:
    """A circuit more for each pair that has none, in this order, while ports are free."""
    circuits = circuits.copy()
    free = free_ports(job, circuits)
    for pair in pairs:
        one, other = job.pairs[pair]
        if circuits[pair] == 0 and free[one] > 0 and free[other] > 0:
            circuits[pair] += 1
            free[[one, other]] -= 1
    return circuits


def _swaps(job: RoutedJob, circuits: Ints) -> Iterator[Ints]:
    """One pair gives up its circuits, and others without get one while ports are free."""
    absent = np.flatnonzero(circuits == 0).tolist()
    for gone in (-1, *np.flatnonzero(circuits > 0).tolist()):
        without = circuits.copy()
        if gone >= 0:
            without[gone] = 0
        for first in absent:
            trial = _added(job, without, [first, *absent])
            if trial[first]:
                yield trial


def filled_up(job: RoutedJob, plan: RoutedPlan, stop: Stop) -> RoutedPlan:
    """Circuits while ports are free, each to the pair whose busier arc has most volume a circuit; the best met."""
    load = np.zeros(2 * len(job.pairs))
    for k, route in enumerate(plan.routes):
        load[job.arcs(route)] += job.volume[k]
    load = load.reshape(-1, 2).max(axis=1)
    ends = np.array(job.pairs)
    best, circuits = plan, plan.circuits.copy()
    while stop.reason() is None:
        room = (free_ports(job, circuits)[ends] > 0).all(axis=1) & (load > 0) & (circuits > 0)
        if not room.any():
            break
        circuits[int(np.argmax(np.where(room, load / np.maximum(circuits, 1), -1.0)))] += 1
        trial = RoutedPlan.of(job, circuits.copy(), plan.routes)
        if trial.value < best.value * BETTER:
            best = trial
    return best


def traded(job: RoutedJob, plan: RoutedPlan, stop: Stop, tell: Callable[[RoutedPlan], None]) -> RoutedPlan:
    """Move circuits from pair to pair, also the last one of a pair, the first move that gains each time."""
    trials, moved = 0, True
    while moved:
        moved = False
        for pair in _gainers(job, plan):
            for circuits in _trades(job, plan.circuits, pair):
                if trials >= MOST_TRIALS or stop.reason() is not None:
                    return plan
                trials += 1
                trial = served(job, circuits, _kept(job, plan, pair))
                if trial is not None and trial.value < plan.value * BETTER:
                    plan, moved = trial, True
                    tell(plan)
                    break
    return plan


def _gainers(job: RoutedJob, plan: RoutedPlan) -> list[int]:
    """Pairs that may gain: those that something is transferred between or that have circuits, and those of pods with
    a peer in common."""
    near = (_demand(job) > 0) | (plan.circuits > 0)
    peers = near[job.number]
    np.fill_diagonal(peers, False)
    two = (peers.astype(np.int64) @ peers.astype(np.int64)) > 0
    wanted = near | two[tuple(np.array(job.pairs).T)]
    order = np.argsort(-_demand(job), kind="stable")
    return [int(pair) for pair in order if wanted[pair]]


def _kept(job: RoutedJob, plan: RoutedPlan, pair: int) -> list[Route | None]:
    """Routes of a plan, but for those of the pods that a pair joins anew."""
    ends = set(job.pairs[pair])
    new = plan.circuits[pair] == 0
    return [None if new and {route[0], route[-1]} == ends else route for route in plan.routes]


def _trades(job: RoutedJob, circuits: Ints, gaining: int) -> Iterator[Ints]:
    """A circuit more for a pair, taken from pairs at its ends where these have no port free."""
    free = free_ports(job, circuits)
    givers: list[list[int]] = []
    for pod in job.pairs[gaining]:
        at = [p for p in job.number[pod, np.arange(job.problem.pods) != pod].tolist() if circuits[p] and p != gaining]
        givers.append([-1] if free[pod] > 0 else at)
    for one in givers[0]:
        for other in givers[1]:
            trial = circuits.copy()
            trial[gaining] += 1
            for pair in (one, other):
                if pair >= 0:
                    trial[pair] -= 1
            yield trial


def thinned_routes(job: RoutedJob, plan: RoutedPlan, limit: float, stop: Stop) -> RoutedPlan:
    """The same with fewer circuits, done before a limit: pairs give up all of theirs, others forwarding, or some."""
    for _ in range(ROUNDS):
        before = plan.total
        load = np.zeros(len(job.pairs))
        for k, route in enumerate(plan.routes):
            load[[arc // 2 for arc in job.arcs(route)]] += job.volume[k]
        for pair in np.argsort(load, kind="stable").tolist():
            if plan.circuits[pair] == 0:
                continue
            if stop.reason() is not None:
                return plan
            plan = _spared(job, plan, pair, limit, stop)
        if plan.total == before:
            break
    return plan


def _spared(job: RoutedJob, plan: RoutedPlan, pair: int, limit: float, stop: Stop) -> RoutedPlan:
    """One pair with as few circuits as do, none if that does."""
    low, high = 1, int(plan.circuits[pair])
    without = plan.circuits.copy()
    without[pair] = 0
    trial = served(job, without, plan.routes)
    if trial is not None and trial.value < limit:
        return trial
    while low < high and stop.reason() is None:
        fewer = plan.circuits.copy()
        fewer[pair] = (low + high) // 2
        trial = RoutedPlan.of(job, fewer, plan.routes)
        if trial.value < limit:
            plan, high = trial, int(fewer[pair])
        else:
            low = int(fewer[pair]) + 1
    return plan
