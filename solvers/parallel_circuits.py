"""Configurations of parallel switches: greedy starts, ruin and recreate, one linear program of durations.

Times are microseconds, and include the delay of first configurations.

References
----------
Bojja Venkatakrishnan et al.: Costly circuits, submodular schedules (Eclipse), SIGMETRICS 2016. Schrimpf et al.: Record
breaking optimization results using the ruin and recreate principle, 2000. Spectra, arXiv:2603.07373.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from formulations.circuit_matching import all_targets, configuration_arrays, duration_arrays
from solvers.backends import SOLVERS, SolverLimits
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints

NOTHING = 1e-12
"""Part of the largest demand that is none."""

SHARPNESSES = (0.0, 3.0, 10.0, 30.0)
"""How much more a pair of busy servers counts: exponents."""

SAMPLES = 12
"""Durations that a step of the greedy start tries; half of them when a plan is rebuilt."""

TIMED = 3
"""Starts whose durations a linear program chooses."""

EXCHANGES = 3
"""Rounds of exchanges between configurations."""

RUINED = 10
"""Configurations that a round drops at most."""

WORSE = 3e-4
"""Part of the best makespan by which a worse plan is accepted, in the mean."""

NEAR = 1.005
"""Within this factor of the best a plan may be timed by the linear program."""


@dataclass(frozen=True, eq=False)
class Steps:
    """Configurations without switches: int64[K, n] targets, and float64[K] durations."""

    targets: Ints
    durations: Floats

    @staticmethod
    def of(targets: list[Ints], durations: list[float], servers: int) -> Steps:
        return Steps(np.array(targets, dtype=np.int64).reshape(-1, servers), np.array(durations, dtype=np.float64))

    def then(self, others: Steps) -> Steps:
        """Return these and others."""
        return Steps(np.concatenate((self.targets, others.targets)), np.append(self.durations, others.durations))

    def __getitem__(self, index: Ints) -> Steps:
        return Steps(self.targets[index], self.durations[index])

    def remainder(self, demand: Floats) -> Floats:
        """Return the demand that they do not serve."""
        served = np.zeros_like(demand)
        for targets, duration in zip(self.targets, self.durations, strict=True):
            served[np.arange(len(demand)), targets] += duration
        return np.where(demand - served > NOTHING * demand.max(), demand - served, 0.0)


@dataclass(frozen=True, eq=False)
class Timed:
    """Configurations on switches, int64[K], with their makespan."""

    makespan: float
    switch: Ints
    steps: Steps


# Steps that serve a demand.


def coloured(rest: Floats, *, exchanges: bool = True) -> Steps:
    """Return few configurations: each covers all servers with most peers left, and large demands meet large ones."""
    servers, smallest = len(rest), NOTHING * rest.max(initial=0.0)
    rows, left = np.arange(servers), rest.copy()
    targets: list[Ints] = []
    carried: list[Floats] = []
    while (left > smallest).any():
        sends = left > smallest
        out, into = sends.sum(axis=1), sends.sum(axis=0)
        most = max(out.max(), into.max())
        fullest = (out == most).astype(np.float64)[:, None] + (into == most)
        weight = np.where(sends, left + 4 * servers * left.max() * fullest, 0.0)
        _, columns = linear_sum_assignment(weight, maximize=True)
        targets.append(columns.astype(np.int64))
        carried.append(left[rows, columns])
        left[rows, columns] = 0.0
    if exchanges and len(targets) > 1:
        _exchange(carried, targets, smallest)
    durations = [float(amounts.max()) for amounts in carried]
    used = [k for k, duration in enumerate(durations) if duration > smallest]
    return Steps.of([targets[k] for k in used], [durations[k] for k in used], servers)


def _exchange(carried: list[Floats], targets: list[Ints], smallest: float) -> None:
    """Swap cycles of the union of two configurations where the sum of their durations falls; in place."""
    rows = np.arange(len(targets[0]))
    for _ in range(EXCHANGES):
        improved = False
        order = sorted(range(len(targets)), key=lambda k: -carried[k].max())
        for a, first in enumerate(order):
            for second in order[a + 1 :]:
                x, y = carried[first], carried[second]
                if min(x.max(), y.max()) <= smallest:
                    continue
                cycle = _cycles(targets[first], targets[second])
                larger = np.zeros(len(rows))
                np.maximum.at(larger, cycle, y)
                own = np.zeros(len(rows))
                np.maximum.at(own, cycle, x)
                swap = (larger > own)[cycle]
                more, less = np.where(swap, y, x), np.where(swap, x, y)
                if more.max() + less.max() < (x.max() + y.max()) * (1 - NOTHING):
                    p, q = targets[first], targets[second]
                    targets[first], targets[second] = np.where(swap, q, p), np.where(swap, p, q)
                    carried[first], carried[second] = more, less
                    improved = True
        if not improved:
            return


def _cycles(first: Ints, second: Ints) -> Ints:
    """Return int64[n], the smallest server of the cycle that each server is on in the union of two permutations."""
    inverse = np.empty_like(second)
    inverse[second] = np.arange(len(second))
    step = inverse[first]
    label = np.arange(len(step))
    for _ in range(max(1, math.ceil(math.log2(len(step)))) + 1):  # labels spread twice as far each time
        label = np.minimum(label, label[step])
        step = step[step]
    return label


def greedy(
    rest: Floats, delay: float, rng: np.random.Generator, sharpness: float, longest: float, samples: int
) -> Steps:
    """Return the permutations that serve most in a unit of time, and a colouring of what is left when it is cheaper.

    Args:
        sharpness: how much more the demands of busy servers count.
        longest: duration that none of them exceeds.
        samples: durations that are tried for each.
    """
    servers, smallest, left = len(rest), NOTHING * rest.max(initial=0.0), rest.copy()
    rows = np.arange(servers)
    targets: list[Ints] = []
    durations: list[float] = []
    best: tuple[float, int, Steps] | None = None
    spent = 0.0
    while True:
        tail = coloured(left, exchanges=False)
        total = spent + float(tail.durations.sum()) + delay * len(tail.durations)
        if best is None or total < best[0] * (1 - NOTHING):
            best = total, len(targets), tail
        sends = left > smallest
        if not sends.any() or spent >= best[0]:
            break
        out, into = left.sum(axis=1) + delay * sends.sum(axis=1), left.sum(axis=0) + delay * sends.sum(axis=0)
        top = max(out.max(), into.max())
        price = np.exp(sharpness * (out / top - 1))[:, None] + np.exp(sharpness * (into / top - 1))
        tried = np.unique(np.quantile(np.minimum(left[sends], longest), rng.random(samples), method="nearest"))
        chosen, ratio = (rows, longest), -1.0
        for duration in tried.tolist():
            weight = price * (np.minimum(duration, left) + delay * (sends & (left <= duration + smallest)))
            _, columns = linear_sum_assignment(weight, maximize=True)
            gain = float(weight[rows, columns].sum()) / (delay + duration)
            if gain > ratio:
                chosen, ratio = (columns.astype(np.int64), duration), gain
        columns, duration = chosen
        left[rows, columns] = np.maximum(left[rows, columns] - duration, 0.0)
        left[left < smallest] = 0.0
        targets.append(columns)
        durations.append(duration)
        spent += delay + duration
    _, count, tail = best
    return Steps.of(targets[:count], durations[:count], servers).then(tail)


# Steps on switches.


def partitions(total: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write a number as a sum of whole numbers, largest first."""
    if total == 0:
        yield ()
    for first in range(min(total, most), 0, -1):
        yield from ((first, *others) for others in partitions(total - first, first))


def spread(durations: Floats, delay: float, groupings: Iterable[tuple[int, ...]]) -> tuple[float, Ints, Ints]:
    """Return makespan, int64[pieces] steps and int64[pieces] switches.

    Switches form groups. Longest first, a step goes to the group that it would leave least loaded. Within a group of m
    switches steps lie end to end and are cut into m equal parts; each cut takes one more delay.

    Args:
        groupings: sizes of groups; the best is taken.
    """
    order = np.argsort(-durations, kind="stable").tolist()
    best: tuple[float, tuple[int, ...], list[list[int]]] | None = None
    for sizes in groupings:
        size = np.array(sizes, dtype=np.float64)
        load = (size - 1) * delay
        members: list[list[int]] = [[] for _ in sizes]
        for k in order:
            cheapest = int(((load + delay + durations[k]) / size).argmin())
            load[cheapest] += delay + durations[k]
            members[cheapest].append(k)
        value = float((load / size).max())
        if best is None or value < best[0] * (1 - NOTHING):
            best = value, sizes, members
    assert best is not None
    pieces = []
    first = 0
    for count, group in zip(best[1], best[2], strict=True):
        share = (float(durations[group].sum()) + delay * (len(group) + count - 1)) / count
        switch, last, room = first, first + count - 1, share
        for k in group:
            left = float(durations[k])
            pieces.append((k, switch))
            while delay + left > room * (1 + NOTHING) and switch < last:
                left -= max(0.0, room - delay)
                switch, room = switch + 1, share
                pieces.append((k, switch))
            room -= delay + left
        first += count
    steps, where = np.array(pieces, dtype=np.int64).T
    return best[0], steps, where


def timed(
    demand: Floats, delay: float, switches: int, steps: Steps, groupings: Iterable[tuple[int, ...]] = ()
) -> Timed:
    """Return the steps on switches, with durations of the linear program; those without a duration are dropped.

    Args:
        groupings: of the switches; all without any.
    """
    value, index, where = spread(steps.durations, delay, groupings or partitions(switches, switches))
    smallest = NOTHING * demand.max()
    targets = steps.targets[index]
    while True:
        result = SOLVERS["highs"](duration_arrays(demand, delay, switches, where, targets), SolverLimits())
        if result.x is None:  # pragma: no cover - the program of a plan is feasible; it is kept as it was
            return Timed(value, where, Steps(targets, steps.durations[index]))
        durations = np.maximum(result.x[:-1], 0.0)
        used = durations > smallest
        if used.all():
            return Timed(float(result.x[-1]), where, Steps(targets, durations))
        where, targets = where[used], targets[used]


# Search.


def search(
    demand: Floats,
    delay: float,
    switches: int,
    bound: float,
    rounds: int,
    rng: np.random.Generator,
    stop: Stop,
    on_round: Callable[[int, int, Timed], None],
) -> Timed:
    """Return the best plan of greedy starts, and of ruin and recreate.

    Args:
        demand: float64[n, n].
        bound: no plan is below it; the search ends there.
        rounds: of ruin and recreate, where the stop has no deadline.
        on_round: called with (rounds done, number of rounds, the best so far).
    """
    groupings = tuple(partitions(switches, switches))
    longest = math.inf if switches == 1 else max(bound - delay, delay / 2, NOTHING * demand.max())

    def makespan(steps: Steps) -> float:
        return spread(steps.durations, delay, groupings)[0]

    pool = [coloured(demand)]
    for sharpness in SHARPNESSES:
        if stop.reason() is None:
            pool.append(greedy(demand, delay, rng, sharpness, longest, SAMPLES))
    pool.sort(key=makespan)
    best = min((timed(demand, delay, switches, steps) for steps in pool[:TIMED]), key=lambda plan: plan.makespan)
    current = pool[0]
    value = least = makespan(current)
    done = 0
    while stop.reason() is None and best.makespan > bound * (1 + 1e-9) and (stop.deadline is not None or done < rounds):
        on_round(done, rounds, best)
        done += 1
        rebuilt = recreated(demand, delay, current, rng, longest)
        reached = makespan(rebuilt)
        if reached > value and rng.random() > math.exp((value - reached) / (WORSE * least)):
            continue
        current, value = rebuilt, reached
        if reached < least * (1 - NOTHING) or (reached < least * NEAR and rng.random() < 0.02):
            plan = timed(demand, delay, switches, rebuilt)
            if plan.makespan < best.makespan * (1 - NOTHING):
                best = plan
            if switches == 1:  # durations of the program are the better start
                current, value = plan.steps, makespan(plan.steps)
            least = min(least, reached, value)
    return best


def recreated(demand: Floats, delay: float, current: Steps, rng: np.random.Generator, longest: float) -> Steps:
    """Return steps of which some are dropped, any or those of similar durations, and what they served is rebuilt."""
    count = len(current.durations)
    size = min(count, int(rng.integers(2, max(3, min(count, RUINED) + 1))))
    if rng.random() < 0.5:
        dropped = rng.choice(count, size=size, replace=False)
    else:
        first = int(rng.integers(0, count - size + 1))
        dropped = np.argsort(current.durations, kind="stable")[first : first + size]
    kept = current[np.setdiff1d(np.arange(count), dropped)]
    rest = kept.remainder(demand)
    if rng.random() < 0.4:
        return kept.then(coloured(rest))
    return kept.then(greedy(rest, delay, rng, float(rng.choice(SHARPNESSES)), longest, SAMPLES // 2))


def optimum(demand: Floats, delay: float, switches: int, makespan: float, stop: Stop) -> Timed | None:
    """Return the best plan of few servers, by the integer program of all configurations; None where it finds none.

    Args:
        makespan: of a plan.
    """
    program = configuration_arrays(demand, delay, switches, makespan, integral=True)
    result = SOLVERS["highs"](program, SolverLimits(time_s=stop.remaining_s()))
    if result.x is None:
        return None
    permutation = all_targets(demand)
    durations, used = result.x[1 : 1 + 2 * switches * len(permutation)].reshape(2, switches, len(permutation))
    where, which = np.nonzero((used > 0.5) & (durations > 0))
    steps = Steps(permutation[which], durations[where, which])
    if steps.remainder(demand).any():  # pragma: no cover - rounding of the solver
        return None
    return Timed(float(np.bincount(where, delay + steps.durations, switches).max()), where, steps)


# Methods to compare.


def spectra(demand: Floats, delay: float, switches: int) -> Timed:
    """Return Spectra's plan: few permutations, the longest first to the switch that is free first, then equalised."""
    return timed(demand, delay, switches, coloured(demand, exchanges=False), [(1,) * switches])


def eclipse(demand: Floats, delay: float, switches: int) -> Timed:
    """Return Eclipse's plan: permutations that serve most in a unit of time, one switch filled after the other."""
    steps = greedy(demand, delay, np.random.default_rng(0), 0.0, math.inf, SAMPLES)
    return timed(demand, delay, switches, steps, [(switches,)])
