"""Circuits of a region: dealt out, exchanged, proven by branch and bound, and when to reconfigure them.

By time T a pair with x circuits has b T x bytes carried. In a box of circuits each pair takes one of few choices: none,
or as many as carry all it sends, and with splitting any number between. All choices together keep ports and what the
electrical interfaces carry in T. If the cheapest choices of all pairs cost more than all ports and interfaces at some
prices, then no choice keeps them (Lagrangian relaxation).

References
----------
Liao et al.: MixNet, SIGCOMM 2025 (arXiv:2501.03905). Geoffrion: Lagrangean relaxation for integer programming, 1974.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from formulations.programs import Families, LpArrays
from solvers.backends import SOLVERS, SolverLimits
from solvers.stop import Incumbent, Stop, first_part
from topoopt.core.arrays import Floats, Ints
from topoopt.core.proofs import Status, StopReason
from topoopt.core.regional_circuits import RegionalCircuitsPlan, RegionalCircuitsProblem, Split, box_certificate
from topoopt.core.result import Certificate, SearchResult
from topoopt.simulate.circuits import RegionTraffic

MARGIN = 1e-10
"""Part of all prices by which the cheapest choices must be dearer."""

SERVED = 100.0
"""By so much a pair counts less once it has a circuit (Liao et al., MixNet, SIGCOMM 2025, arXiv:2501.03905)."""

SAME = 1e-12
"""Part of a time that is no gain."""

CLOSED: Split = (-1, 0)

CLOSE = 5e-7
"""Relative gap that is none."""

MAX_BOXES = 2_000
"""Closed boxes of a tree: what a solution file holds without growing large."""

MAX_PRICES = 100_000
"""Multipliers of a tree."""

PROGRAM_S = 10.0
"""Seconds that one integer program may take."""

NEAR = 1.02
"""Within this factor of the best so far circuits are improved by exchanges."""

MAX_RUNS = 60
"""Runs of several steps that are matched and proven together."""

SEARCH_SHARE = 0.5
"""Of the time left, for circuits of one run; the rest is for its proof."""

MAX_S = 60.0
"""Seconds for each run where there is no limit."""

Run = tuple[int, int]
"""First and last step."""

Circuits = SearchResult[RegionalCircuitsPlan]


# Choices of all pairs by a time.


@dataclass(frozen=True, eq=False)
class PairChoices:
    """The choices of all pairs within a box, by a time.

    Attributes:
        traffic: the demand.
        seconds: T.
        pair: int64[C], ascending.
        circuits: int64[C], of each choice.
        out, back: float64[C], bytes left to the electrical network.
        stuck: whether a pair has no choice at all.
    """

    traffic: RegionTraffic
    seconds: float
    pair: Ints
    circuits: Ints
    out: Floats
    back: Floats
    stuck: bool

    @staticmethod
    def of(traffic: RegionTraffic, seconds: float, least: Ints, most: Ints) -> PairChoices:
        """Return the choices of each pair with `least` to `most` circuits, int64[P]."""
        problem = traffic.problem
        unit = problem.circuit_rate * seconds
        need = np.ceil(traffic.larger / unit * (1.0 - 1e-12)).astype(np.int64)  # rounding may lack
        pairs = np.arange(len(need))
        if problem.split:
            top = np.minimum(most, np.maximum(least, need))
            count = np.maximum(top - least + 1, 0)
            pair = np.repeat(pairs, count)
            circuits = least[pair] + np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count)
            out = np.maximum(traffic.out[pair] - unit * circuits, 0.0)
            back = np.maximum(traffic.back[pair] - unit * circuits, 0.0)
        else:
            none = pairs[least == 0]
            full = np.maximum(least, np.maximum(need, 1))
            some = pairs[(full <= most) & ((need > 0) | (least > 0))]
            pair = np.concatenate((none, some))
            circuits = np.concatenate((np.zeros_like(none), full[some]))
            out = np.concatenate((traffic.out[none], np.zeros(len(some))))
            back = np.concatenate((traffic.back[none], np.zeros(len(some))))
            order = np.argsort(pair, kind="stable")
            pair, circuits, out, back = pair[order], circuits[order], out[order], back[order]
        stuck = len(np.unique(pair)) < len(pairs)
        return PairChoices(traffic, seconds, pair, circuits, out, back, stuck)

    def used(self) -> tuple[Ints, Ints, Floats]:
        """Return (choice, row, part of the row): rows are ports, leaving and reaching bytes of each server."""
        problem, ends = self.traffic.problem, self.traffic.ends
        n, first, second = problem.servers, ends[self.pair, 0], ends[self.pair, 1]
        ports = np.maximum(np.array(problem.ports), 1)
        wired = problem.electrical_rate * self.seconds
        rows = (first, second, n + first, n + second, 2 * n + second, 2 * n + first)
        parts = (
            self.circuits / ports[first], self.circuits / ports[second],
            self.out / wired, self.back / wired, self.out / wired, self.back / wired,
        )  # fmt: skip
        choice = np.tile(np.arange(len(self.pair)), len(rows))
        return choice, np.concatenate(rows), np.concatenate(parts)

    def program(self, *, integral: bool) -> LpArrays:
        """Return the program for the least s with every row at most 1 + s; integral choices keep all ports."""
        program = Families()
        selected = program.columns(len(self.pair), upper=1.0, integer=integral)
        excess = program.columns(1, cost=1.0)
        choice_of_pair = program.rows(len(self.traffic.out), 1.0, 1.0)
        program.terms(choice_of_pair[self.pair], selected, 1.0)
        limits = program.rows(3 * self.traffic.problem.servers, -np.inf, 1.0)
        choice, row, part = self.used()
        program.terms(limits[row], selected[choice], part)
        program.terms(limits[self.traffic.problem.servers if integral else 0 :], excess[0], -1.0)
        return program.arrays()

    def excluded(self, multipliers: Floats) -> bool:
        """Return whether prices show that no choice keeps ports and interfaces."""
        if self.stuck:
            return True
        choice, row, part = self.used()
        price = np.bincount(choice, part * multipliers[row], len(self.pair))
        first = np.flatnonzero(np.diff(self.pair, prepend=-1))
        total = float(multipliers.sum())
        return total > 0 and float(np.minimum.reduceat(price, first).sum()) > total * (1.0 + MARGIN)


def relaxed(choices: PairChoices) -> tuple[Floats, Floats] | None:
    """Return float64[C], parts of choices, and float64[3 n], prices, of the relaxation; None where HiGHS fails."""
    program = choices.program(integral=False)
    result = SOLVERS["highs"](program, SolverLimits(feasibility=1e-6))
    if result.x is None or result.row_dual is None:
        return None
    prices = np.maximum(-result.row_dual[len(choices.traffic.out) :], 0.0)
    return result.x[:-1], prices


def integral_choice(choices: PairChoices, seconds: float | None) -> Ints | None:
    """Return circuits that exceed ports and interfaces least, as far as HiGHS comes within the limit."""
    result = SOLVERS["highs"](choices.program(integral=True), SolverLimits(time_s=seconds))
    if result.status not in (Status.OPTIMAL, Status.FEASIBLE) or result.x is None:
        return None
    counts = np.zeros(len(choices.traffic.out), dtype=np.int64)
    picked = np.flatnonzero(result.x[:-1] > 0.5)
    counts[choices.pair[picked]] = choices.circuits[picked]
    return counts


# Circuits dealt out, and exchanges at what is slowest.


def free_ports(traffic: RegionTraffic, circuits: Ints) -> Ints:
    """Return int64[n], the ports without a circuit."""
    ends, n = traffic.ends, traffic.problem.servers
    used = np.bincount(ends[:, 0], circuits, n) + np.bincount(ends[:, 1], circuits, n)
    return np.array(traffic.problem.ports, dtype=np.int64) - used.astype(np.int64)


def largest_first(traffic: RegionTraffic) -> Ints:
    """Deal circuits to the pair with the largest demand, which counts a hundredth for each circuit it has (MixNet)."""
    return _dealt(traffic, np.zeros(len(traffic.out), dtype=np.int64), SERVED)


def in_turn(traffic: RegionTraffic) -> Ints:
    """Join every server to those at each distance in turn, whatever the demand, while ports are free."""
    n, left = traffic.problem.servers, list(traffic.problem.ports)
    number = {tuple(pair): k for k, pair in enumerate(traffic.ends.tolist())}
    circuits = np.zeros(len(traffic.out), dtype=np.int64)
    before = -1
    while circuits.sum() != before:
        before = circuits.sum()
        for distance in range(1, n // 2 + 1):
            for server in range(n if 2 * distance < n else distance):
                pair = tuple(sorted((server, (server + distance) % n)))
                if pair in number and all(left[end] for end in pair):
                    circuits[number[pair]] += 1
                    for end in pair:
                        left[end] -= 1
    return circuits


def _dealt(traffic: RegionTraffic, circuits: Ints, served: float = 1.0) -> Ints:
    """Add circuits to the pair with most bytes for each circuit, over and over, while both ends have ports."""
    circuits, left, ends = circuits.copy(), free_ports(traffic, circuits), traffic.ends
    weight = traffic.larger / np.where(circuits > 0, served * circuits, 1.0)
    while True:
        weight[(left[ends] <= 0).any(axis=1)] = 0.0
        pair = int(np.argmax(weight)) if len(weight) else -1
        if pair < 0 or weight[pair] <= 0:
            return circuits
        circuits[pair] += 1
        left[ends[pair]] -= 1
        weight[pair] = traffic.larger[pair] / (served * circuits[pair])


def within_ports(traffic: RegionTraffic, circuits: Ints, order: Floats) -> Ints:
    """Return the circuits of the first pairs in an order, as far as ports allow, and the others by demand."""
    retained, left = np.zeros_like(circuits), np.array(traffic.problem.ports, dtype=np.int64)
    for pair in np.argsort(-order, kind="stable").tolist():
        count = int(circuits[pair])
        if count and (left[traffic.ends[pair]] >= count).all():
            retained[pair] = count
            left[traffic.ends[pair]] -= count
    return _filled(traffic, retained)


def _filled(traffic: RegionTraffic, circuits: Ints) -> Ints:
    """Use free ports: a pair without a circuit may take as many as it needs to be no slower than the others."""
    best, time = circuits, traffic.seconds(circuits)
    for served in (1.0, SERVED):
        tried = _dealt(traffic, circuits, served)
        if traffic.seconds(tried) < time:
            best, time = tried, traffic.seconds(tried)
    return best


def exchanged(traffic: RegionTraffic, circuits: Ints, stop: Stop) -> tuple[float, Ints]:
    """Return time and circuits after exchanges at what is slowest, until none helps."""
    best, time = circuits, traffic.seconds(circuits)
    while stop.reason() is None:
        listed = _exchanges(traffic, best, time)
        if not listed:
            break
        tried = _filled(traffic, min(listed, key=traffic.seconds))
        if traffic.seconds(tried) >= time * (1.0 - SAME):
            break
        best, time = tried, traffic.seconds(tried)
    return time, best


def _exchanges(traffic: RegionTraffic, circuits: Ints, time: float) -> list[Ints]:
    """Return circuits in which a pair at a slowest server has what it needs, and others have less."""
    problem, ends = traffic.problem, traffic.ends
    need = np.ceil(traffic.larger / (problem.circuit_rate * time) * (1.0 + 1e-9)).astype(np.int64)
    served = problem.circuit_rate * circuits * time
    carried = served if problem.split else np.where(circuits > 0, np.inf, 0.0)
    left = traffic.by_server(np.maximum(traffic.out - carried, 0.0), np.maximum(traffic.back - carried, 0.0))
    full = left >= problem.electrical_rate * time * (1.0 - 1e-9)
    servers = np.flatnonzero(full.reshape(2, -1).any(axis=0))
    slow = np.isin(ends, servers).any(axis=1) & (circuits < need)
    if not problem.split:
        slow |= (circuits > 0) & (circuits < need)
    candidates = []
    for pair in np.flatnonzero(slow).tolist():
        targets = {int(need[pair])} if not problem.split else {int(circuits[pair]) + 1, int(need[pair])}
        exchanges = [_given(traffic, circuits, pair, count) for count in targets]
        candidates += [exchange for exchange in exchanges if exchange is not None]
    return candidates


def _given(traffic: RegionTraffic, circuits: Ints, pair: int, count: int) -> Ints | None:
    """Return circuits with so many of a pair; others at its endpoints lose theirs, those with least demand first."""
    tried, ends = circuits.copy(), traffic.ends
    tried[pair] = count
    left = free_ports(traffic, tried)
    for end in ends[pair].tolist():
        beside = np.flatnonzero((ends == end).any(axis=1) & (tried > 0))
        for other in sorted(beside.tolist(), key=lambda k: traffic.larger[k]):
            if left[end] >= 0:
                break
            if other != pair:
                less = min(int(tried[other]), int(-left[end])) if traffic.problem.split else int(tried[other])
                tried[other] -= less
                left[ends[other]] += less
        if left[end] < 0:
            return None
    return tried


# The circuits that carry a demand first, and the proof.


Proof = tuple[float, tuple[Split, ...], tuple[Floats, ...]]
"""No circuits carry the demand in fewer seconds: a tree of boxes, and prices for every closed box."""


def highest(traffic: RegionTraffic) -> Ints:
    """Return int64[P], the circuits that a pair could have if no other had any."""
    return np.asarray(np.array(traffic.problem.ports, dtype=np.int64)[traffic.ends].min(axis=1))


def matched(traffic: RegionTraffic, stop: Stop, *, programs: bool = True) -> tuple[Incumbent, Proof]:
    """Return the best circuits of a search, and what the relaxation proves.

    Args:
        programs: whether integer programs are solved where exchanges do not reach the relaxation.
    """
    best = Incumbent(np.inf, highest(traffic))
    for start in (largest_first(traffic), in_turn(traffic)):
        _better(best, *exchanged(traffic, start, stop))
    proof = relaxed_bound(traffic, best, stop)
    if not programs:
        return best, proof
    most = highest(traffic)
    low, high = proof[0], best.value
    while high - low > CLOSE * high and stop.reason() is None:
        middle = low + (high - low) / 2
        left = stop.remaining_s()
        choices = PairChoices.of(traffic, middle, np.zeros_like(most), most)
        circuits = integral_choice(choices, PROGRAM_S if left is None else min(PROGRAM_S, left))
        if circuits is not None:
            _better(best, *exchanged(traffic, circuits, stop))
        if best.value <= middle:
            high = best.value
        else:
            low = middle  # not proven: it only says where to look next
    return best, proof


def _better(best: Incumbent, seconds: float, circuits: Ints) -> None:
    if seconds < best.value:
        best.value, best.circuits = seconds, circuits


def relaxed_bound(traffic: RegionTraffic, best: Incumbent, stop: Stop) -> Proof:
    """Return the largest time that the relaxation excludes, to 1e-4; its roundings improve `best`."""
    proof = (0.0, (CLOSED,), (np.zeros(3 * traffic.problem.servers),))
    high = best.value * (1.0 - CLOSE)
    middle = high  # mostly the answer
    while high - proof[0] > 1e-4 * high and stop.reason() is None:
        most = highest(traffic)
        choices = PairChoices.of(traffic, middle, np.zeros_like(most), most)
        relaxation = relaxed(choices)
        if relaxation is None:
            break
        if choices.excluded(relaxation[1]):
            proof = (middle, (CLOSED,), (relaxation[1],))
        else:
            _better(best, *exchanged(traffic, _rounded(choices, relaxation[0]), stop))
            high = min(middle, best.value * (1.0 - CLOSE))
        middle = (proof[0] + high) / 2
    return proof


def _rounded(choices: PairChoices, selected: Floats) -> Ints:
    pairs = len(choices.traffic.out)
    mean = np.bincount(choices.pair, selected * choices.circuits, pairs)
    top = np.zeros(pairs, dtype=np.int64)
    np.maximum.at(top, choices.pair, np.where(selected > 0.05, choices.circuits, 0))
    return within_ports(choices.traffic, top, mean / np.maximum(top, 1))


def proven(traffic: RegionTraffic, best: Incumbent, proof: Proof, stop: Stop) -> Proof:
    """Return the largest time that is excluded within the limits, with its tree; improves `best` meanwhile.

    Args:
        proof: of the relaxation.
    """
    share = 1.0
    while share >= 1 / 64 and stop.reason() is None:  # part of the gap below which no better bound is sought
        low, top = proof[0], best.value * (1.0 - CLOSE)
        if low >= top:
            break
        stronger = _excluded(traffic, low + (top - low) * share, best, stop)
        if stronger is not None:
            proof = stronger
        elif best.value * (1.0 - CLOSE) >= top:
            share /= 2
    return proof


def _excluded(traffic: RegionTraffic, target: float, best: Incumbent, stop: Stop) -> Proof | None:
    """Return a proof that nothing is done by a time; None where the limits end it, or something is done."""
    tree: list[Split] = []
    prices: list[Floats] = []
    most = highest(traffic)
    boxes = [(np.zeros_like(most), most)]
    capacity = min(MAX_BOXES, max(MAX_PRICES // (3 * traffic.problem.servers), 1))
    while boxes:
        if len(prices) + len(boxes) > capacity or stop.reason() is not None:
            return None
        least, top = boxes.pop()
        choices = PairChoices.of(traffic, target, least, top)
        relaxation = None if choices.stuck else relaxed(choices)
        multipliers = np.zeros(3 * traffic.problem.servers) if relaxation is None else relaxation[1]
        if choices.excluded(multipliers):
            tree.append(CLOSED)
            prices.append(multipliers)
            continue
        if relaxation is None:
            return None
        near = _rounded(choices, relaxation[0])
        if traffic.seconds(near) < NEAR * best.value:
            _better(best, *exchanged(traffic, near, stop))
        split = _split(choices, relaxation[0], least, top)
        if best.value <= target or split is None:
            return None
        pair, count = split
        tree.append(split)
        low, high = top.copy(), least.copy()
        low[pair], high[pair] = count, count + 1
        boxes += [(high, top), (least, low)]
    return (target, tuple(tree), tuple(prices))


def _split(choices: PairChoices, selected: Floats, least: Ints, most: Ints) -> Split | None:
    """Return where to split the pair whose choice is least integral; None where all are integral."""
    pairs = len(choices.traffic.out)
    mean = np.bincount(choices.pair, selected * choices.circuits, pairs)
    deviation = np.abs(choices.circuits - mean[choices.pair])
    spread = np.bincount(choices.pair, selected * deviation, pairs)
    spread[least == most] = 0.0
    pair = int(np.argmax(spread))
    if spread[pair] <= 1e-9:
        return None
    return pair, int(np.clip(np.floor(mean[pair]), least[pair], most[pair] - 1))


# Circuits of all steps.


def traffic_of(problem: RegionalCircuitsProblem, run: Run) -> RegionTraffic:
    """Return the traffic of the steps of a run, added."""
    return RegionTraffic.of(problem, problem.demands[run[0] : run[1] + 1].sum(axis=0))


def runs_of(problem: RegionalCircuitsProblem) -> list[Run]:
    """Return every step, then the runs over which circuits may stay: all steps, then the shortest runs."""
    steps = len(problem.demands)
    runs = [(step, step) for step in range(steps)]
    if not any(problem.stalls_s):
        return runs
    longer = [(first, first + length - 1) for length in range(2, steps) for first in range(steps - length + 1)]
    return [*runs, *([(0, steps - 1), *longer][:MAX_RUNS] if steps > 1 else [])]


def best_circuits(
    problem: RegionalCircuitsProblem,
    stop: Stop,
    notify: Callable[[str, int, int], None],
    on_incumbent: Callable[[Callable[[], Circuits]], None],
) -> Circuits:
    """Return the best sequence of circuits that are matched to single steps and to runs, with the proofs of these.

    Args:
        notify: called with (what is done, runs done, number of runs).
        on_incumbent: called after each run with what makes a result of the runs so far.
    """
    candidates: list[Ints] = [in_turn(traffic_of(problem, (0, len(problem.demands) - 1)))]
    proofs: list[Certificate] = []
    runs = runs_of(problem)
    for index, run in enumerate(runs):
        notify("circuits", index, len(runs))
        traffic = traffic_of(problem, run)
        if run[0] == run[1]:
            candidates.append(largest_first(traffic))
        if stop.reason() is not None and run != (0, 0):
            continue
        remaining = max(1, sum(first == last for first, last in runs[index:]))  # single steps come before longer runs
        best, proof = matched(traffic, first_part(stop, SEARCH_SHARE / remaining, MAX_S))
        proof = proven(traffic, best, proof, first_part(stop, 1.0 / remaining, MAX_S))
        candidates.append(best.circuits)
        proofs += certified(run, best, proof)
        on_incumbent(partial(_cheapest, problem, tuple(candidates), tuple(proofs), stop))
    return _cheapest(problem, tuple(candidates), tuple(proofs), stop)


def _cheapest(
    problem: RegionalCircuitsProblem, candidates: tuple[Ints, ...], proofs: tuple[Certificate, ...], stop: Stop
) -> Circuits:
    return _result(problem, shortest(problem, candidates), proofs, stop, "matching")


def _result(
    problem: RegionalCircuitsProblem, circuits: Ints, proofs: Sequence[Certificate], stop: Stop, method: str
) -> Circuits:
    return SearchResult(
        plan=RegionalCircuitsPlan.of(problem, circuits),
        certificates=tuple(proofs),
        stopped_by=stop.reason() or StopReason.CONVERGED,
        method=method,
    )


def greedy_circuits(
    problem: RegionalCircuitsProblem, stop: Stop, deal: Callable[[RegionTraffic], Ints], *, fixed: bool
) -> Circuits:
    """Return circuits that are dealt out by a rule, for every step or once for all; the relaxation proves the bound."""
    last = len(problem.demands) - 1
    rows = []
    proofs: list[Certificate] = []
    first = deal(traffic_of(problem, (0, last)))
    for step in range(last + 1):
        traffic = traffic_of(problem, (step, step))
        rows.append(first if fixed else deal(traffic))
        best = Incumbent(traffic.seconds(rows[-1]), rows[-1])
        proofs += certified((step, step), best, relaxed_bound(traffic, best, stop))
    return _result(problem, np.array(rows), proofs, stop, "greedy")


def kept_circuits(problem: RegionalCircuitsProblem, stop: Stop) -> Circuits:
    """Return the circuits that carry all steps together first, for all of them."""
    last = len(problem.demands) - 1
    best, _ = matched(traffic_of(problem, (0, last)), first_part(stop, SEARCH_SHARE, MAX_S))
    return greedy_circuits(problem, stop, lambda _: best.circuits, fixed=True)


def certified(run: Run, best: Incumbent, proof: Proof) -> list[Certificate]:
    """Return the certificate of a proof; none where it proves nothing."""
    seconds = min(proof[0], best.value)
    return [box_certificate(*run, seconds, *proof[1:])] if seconds > 0 else []


def shortest(problem: RegionalCircuitsProblem, candidates: tuple[Ints, ...]) -> Ints:
    """Return int64[K, P], the cheapest sequence of candidates with its stalls, by dynamic programming."""
    choices = np.unique(np.array(candidates), axis=0)
    steps = [traffic_of(problem, (step, step)) for step in range(len(problem.demands))]
    cost: Floats = np.array([[step.seconds(row) for row in choices] for step in steps])
    total, origin = cost[0].copy(), np.zeros(cost.shape, dtype=np.int64)
    for step in range(1, len(steps)):
        cheapest = int(np.argmin(total))
        switched = total[cheapest] + problem.stalls_s[step]
        origin[step] = np.where(total <= switched, np.arange(len(choices)), cheapest)
        total = np.minimum(total, switched) + cost[step]
    selected = [int(np.argmin(total))]
    for step in range(len(steps) - 1, 0, -1):
        selected.append(int(origin[step, selected[-1]]))
    return np.asarray(choices[selected[::-1]])
