"""Branch and bound on circuits: starts, what must hold in a box of circuits, and the least that a box can reach.

What must hold in a box of circuits if the job is to be done before a given time, and circuits to start with.

Heads and tails: with as many circuits as a pair may still have, no transfer begins before its head, and what follows it
takes its tail. Transfers of one direction of a pair share its circuits, and all that leave (enter) a pod share its
ports; the preemptive schedule of largest tails (Jackson) is the earliest that one such machine can be done, tails
included. So each pair needs some least number of circuits; what it needs, others at the same pods cannot have.

A start gives one circuit to each pair, then more where the simulated job gains most; then circuits are exchanged.

Branch and bound on circuits: what no box can reach, and the least that one can.

A path is a chain of groups of steps, all of a group before all of the next; a group is one step, or several transfers
of one direction of a pair, which takes the time of their volumes together. Its length is a constant, of its tasks, and
volumes over circuits. No plan is done before any mean of the lengths of some paths. The best mean for a box comes from
a linear program over circuits, whose paths are added as they are needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from solvers.stop import BestFirst, Incumbent, Stop
from topoopt.core.arrays import Bools, Floats, Ints, offsets
from topoopt.core.dag_topology import DagTopologyProblem, PathMean, Split, StepPath
from topoopt.core.errors import InfeasibleError
from topoopt.native import placement
from topoopt.simulate.dag import StepGraph, in_order, makespan

MARGIN = 1e-10
"""Part of the target by which a time may stay below it and count as not below: rounding of sums."""


@dataclass(frozen=True, eq=False)
class BoxLaws:
    """A problem as arrays.

    Attributes:
        graph: of its steps.
        rate: volume that a circuit carries in a unit of time.
        ports: int64[pods].
        ends: int64[pairs, 2].
        most: int64[pairs], circuits at most.
    """

    graph: StepGraph
    rate: float
    ports: Ints
    ends: Ints
    most: Ints

    @staticmethod
    def of(problem: DagTopologyProblem) -> BoxLaws:
        """Of a problem whose pods have a port for every pair."""
        return BoxLaws(
            graph=StepGraph.of(problem),
            rate=problem.rate,
            ports=np.array(problem.ports, dtype=np.int64),
            ends=np.array(problem.pairs, dtype=np.int64),
            most=problem.most,
        )

    @cached_property
    def pair_volume(self) -> Floats:
        """float64[pairs]: in both directions."""
        volume: Floats = np.zeros(len(self.most))
        np.add.at(volume, self.graph.channel // 2, self.graph.volume)
        return volume

    @cached_property
    def _bounds(self) -> placement.CircuitBounds:
        graph = self.graph
        return placement.CircuitBounds(
            graph.first,
            graph.successor,
            graph.order,
            graph.duration,
            graph.volume,
            graph.channel,
            self.ends,
            self.ports,
            self.rate,
        )

    def within(self, circuits: Ints) -> bool:
        """Whether the ports of all pods suffice for these circuits."""
        used = np.bincount(self.ends.ravel(), np.repeat(circuits, 2), minlength=len(self.ports))
        return bool((used <= self.ports).all())

    def narrowed(self, least: Ints, most: Ints, target: float) -> tuple[Ints, Ints] | None:
        """The part of a box that can be done before the target; None: no part of it.

        Args:
            least, most: int64[pairs], circuits.
            target: the job must be done before it.
        """
        return self._bounds.propagated(least, most, target * (1.0 - MARGIN))


def crowded(problem: DagTopologyProblem) -> list[int]:
    """Pods with fewer ports than pods that they transfer to or from."""
    degree = np.bincount(np.array(problem.pairs).ravel(), minlength=problem.pods)
    return [pod for pod in range(problem.pods) if degree[pod] > problem.ports[pod]]


def refuse_crowded(problem: DagTopologyProblem) -> None:
    """Every pair that something is transferred between needs a circuit of its own.

    Raises:
        InfeasibleError: a pod has fewer ports than such pairs.
    """
    short = crowded(problem)
    if short:
        degree = np.bincount(np.array(problem.pairs).ravel(), minlength=problem.pods)
        rows = [
            f"pod {pod} transfers to or from {degree[pod]} others and has {problem.ports[pod]}" for pod in short[:5]
        ]
        more = f", and {len(short) - 5} more" if len(short) > 5 else ""
        raise InfeasibleError(f"too few ports for a circuit to every peer: {'; '.join(rows)}{more}")


def dealt(laws: BoxLaws, least: Ints, most: Ints, weight: Floats) -> Ints:
    """Circuits from `least` on, each to the pair of largest weight for each of its circuits, while ports are free."""
    circuits = least.copy()
    free = laws.ports - used_ports(laws, circuits)
    while True:
        extendable = (free[laws.ends] > 0).all(axis=1) & (circuits < most)
        if not extendable.any():
            return circuits
        pair = int(np.argmax(np.where(extendable, weight / circuits, -1.0)))
        circuits[pair] += 1
        free[laws.ends[pair]] -= 1


def filled(laws: BoxLaws, circuits: Ints, most: Ints, stop: Stop) -> tuple[float, Ints]:
    """Add circuits while ports are free: each time the one after which the job is done first.

    Where no single circuit helps, the pair with most volume per circuit gets one: two may help together.

    Args:
        circuits: int64[pairs], within the ports.
        most: int64[pairs].

    Returns:
        The least makespan met on the way, and its circuits.
    """
    circuits = circuits.copy()
    volume = laws.pair_volume
    best, kept = makespan(laws.graph, circuits, laws.rate), circuits.copy()
    while stop.reason() is None:
        free = np.flatnonzero(_free(laws, circuits) & (circuits < most))
        if not len(free):
            break
        values = np.array([makespan(laws.graph, _plus(circuits, (p, 1)), laws.rate) for p in free.tolist()])
        now = makespan(laws.graph, circuits, laws.rate)
        helps = values.min() < now * (1 - 1e-12)
        chosen = int(free[np.argmin(values)] if helps else free[np.argmax(volume[free] / circuits[free])])
        circuits[chosen] += 1
        value = float(values[free == chosen][0])
        if value < best * (1 - 1e-12):
            best, kept = value, circuits.copy()
    return best, kept


def exchanged(laws: BoxLaws, value: float, circuits: Ints, stop: Stop) -> tuple[float, Ints]:
    """Move circuits from pair to pair, the first move that gains each time, until none does.

    A move takes one circuit from a pair, or from two, and gives one to another where the ports allow it.
    """
    circuits = circuits.copy()
    moved = True
    while moved:
        moved = False
        for p in range(len(circuits)):
            if stop.reason() is not None:
                return value, circuits
            better = _better(laws, value, circuits, p)
            if better is not None:
                value, circuits = better
                moved = True
    return value, circuits


def _better(laws: BoxLaws, value: float, circuits: Ints, gaining: int) -> tuple[float, Ints] | None:
    """A circuit more for a pair, taken from the pairs at its ends where they have no port free."""
    if circuits[gaining] >= laws.most[gaining]:
        return None
    used = used_ports(laws, circuits)
    givers: list[list[int]] = []
    for pod in laws.ends[gaining].tolist():
        if used[pod] < laws.ports[pod]:
            givers.append([-1])
        else:
            at = np.flatnonzero((laws.ends == pod).any(axis=1) & (circuits > 1)).tolist()
            givers.append([p for p in at if p != gaining])
    for giver in givers[0]:
        for second in givers[1]:
            changes = [(gaining, 1), *((p, -1) for p in (giver, second) if p >= 0)]
            trial = _plus(circuits, *changes)
            faster = makespan(laws.graph, trial, laws.rate)
            if faster < value * (1 - 1e-12):
                return faster, trial
    return None


def thinned(laws: BoxLaws, circuits: Ints, limit: float, stop: Stop) -> Ints:
    """The same with as few circuits of each pair as still do it before a limit, one pair after the other, twice.

    At first a pair gives half of what it could, so that slack is not all taken by the first.
    """
    circuits = circuits.copy()
    for part in (0.5, 1.0):
        for pair in np.argsort(-circuits, kind="stable").tolist():
            low, high = 1, int(circuits[pair])
            while low < high:
                if stop.reason() is not None:
                    return circuits
                middle = (low + high) // 2
                trial = _plus(circuits, (pair, middle - int(circuits[pair])))
                if makespan(laws.graph, trial, laws.rate) < limit:
                    high = middle
                else:
                    low = middle + 1
            circuits[pair] -= int(part * (int(circuits[pair]) - high))
    return circuits


def used_ports(laws: BoxLaws, circuits: Ints) -> Ints:
    """int64[pods]: ports at which circuits end."""
    return np.bincount(laws.ends.ravel(), np.repeat(circuits, 2), minlength=len(laws.ports)).astype(np.int64)


def _free(laws: BoxLaws, circuits: Ints) -> Bools:
    free: Bools = used_ports(laws, circuits) < laws.ports
    tails, heads = laws.ends.T
    both: Bools = free[tails] & free[heads]
    return both


def _plus(circuits: Ints, *changes: tuple[int, int]) -> Ints:
    changed = circuits.copy()
    for pair, by in changes:
        changed[pair] += by
    return changed


SOURCE, SINK = -1, -2

MOST_STEPS = 20_000
"""Steps above which transfers are not grouped: what is before what takes a bit for each two steps."""


class PathPool:
    """Paths met so far, shared by all programs of a problem.

    They are of a graph of the steps, and behind them of a node for each transfer that continues a run: it ends no
    sooner than the run so far.

    Attributes:
        fixed: float64[nodes], durations.
        moved: float64[nodes], the time of the volume over one circuit.
        pair: int64[nodes], -1 for tasks.
        transfer: int64[nodes], the transfer of a node of a run; -1 for steps.
        paths: as they are written.
        constants: constant part of each path.
        by_pair: float64[pairs] of each path, time over one circuit by pair.
    """

    def __init__(self, problem: DagTopologyProblem, graph: StepGraph) -> None:
        steps, transfers = len(graph.waits), len(graph.volume)
        runs = _runs(problem, graph) if steps <= MOST_STEPS else []
        edges = [(before, step) for step, waits_for in enumerate(problem.after) for before in waits_for]
        own: list[int] = []
        for run in runs:
            for k, (gate, transfer, user) in enumerate(run):
                node = steps + len(own)
                own.append(transfer)
                edges += [(gate, node)] if gate >= 0 else []
                edges += [(node - 1, node)] if k else []
                edges += [(node, user)] if user >= 0 else []
        nodes = steps + len(own)
        tail, head = (np.array([edge[k] for edge in edges], dtype=np.int64) for k in range(2))
        by_tail = np.argsort(tail, kind="stable")
        first = offsets(np.bincount(tail, minlength=nodes))
        successor = head[by_tail]
        grouped = np.array(own, dtype=np.int64)
        pair = np.full(nodes, -1, dtype=np.int64)
        pair[:transfers], pair[steps:] = graph.channel // 2, graph.channel[grouped] // 2
        moved = np.zeros(nodes)
        moved[:transfers], moved[steps:] = graph.volume / problem.rate, graph.volume[grouped] / problem.rate
        fixed = np.zeros(nodes)
        fixed[:steps] = graph.duration
        of_run = np.full(nodes, -1, dtype=np.int64)
        of_run[steps:] = grouped
        order = in_order(first, successor, np.bincount(head, minlength=nodes).astype(np.int64))
        self.fixed, self.moved, self.pair, self.transfer = fixed, moved, pair, of_run
        self._steps = placement.Steps(first, successor, order)
        self.paths: list[StepPath] = []
        self.constants: list[float] = []
        self.by_pair: list[Floats] = []
        self._members: set[StepPath] = set()

    def __contains__(self, path: StepPath) -> bool:
        return path in self._members

    def add(self, path: StepPath, pairs: int) -> None:
        moved, fixed = np.zeros(pairs), 0.0
        for step in (step for group in path for step in group):
            pair = int(self.pair[step])
            if pair >= 0:
                moved[pair] += self.moved[step]
            else:
                fixed += float(self.fixed[step])
        self.paths.append(path)
        self._members.add(path)
        self.constants.append(fixed)
        self.by_pair.append(moved)

    def longest(self, slowness: Floats) -> tuple[float, StepPath]:
        """The longest path.

        Args:
            slowness: float64[pairs], one over circuits.
        """
        length = self.fixed + self.moved * np.append(slowness, 0.0)[self.pair]
        end, nodes = self._steps.longest_path(length)
        path: list[tuple[int, ...]] = []
        before = -1
        for node in nodes.tolist():
            transfer = int(self.transfer[node])
            if transfer >= 0 and before == node - 1 and self.transfer[before] >= 0:
                path[-1] = (*path[-1], transfer)
            else:
                path.append((node,) if transfer < 0 else (transfer,))
            before = node
        return end, tuple(path)


Run = list[tuple[int, int, int]]
"""(what it waits for, transfer, what waits for it) of transfers of a channel; the first and the last may be none."""


def _runs(problem: DagTopologyProblem, graph: StepGraph) -> list[Run]:
    """Transfers of a channel, each begun and needed no sooner than the one before: k..l take their volumes together,
    between what k waits for and what waits for l."""
    after, order = problem.after, problem.order
    earlier = [0] * len(after)
    for step in order:
        for before in after[step]:
            earlier[step] |= earlier[before] | 1 << before
    position = {step: k for k, step in enumerate(order)}

    def precedes(first: int, second: int) -> bool:
        if first < 0 or second < 0:
            return first in (second, SOURCE) or second == SINK
        return first == second or bool(earlier[second] >> first & 1)

    runs: list[Run] = []
    by_channel: dict[int, list[int]] = {}
    for transfer in sorted(range(len(graph.volume)), key=position.__getitem__):
        by_channel.setdefault(int(graph.channel[transfer]), []).append(transfer)
    for transfers in by_channel.values():
        run: Run = []
        for transfer in transfers:
            users = graph.successor[graph.first[transfer] : graph.first[transfer + 1]].tolist() or [SINK]
            ends = run[-1] if run else (SOURCE, transfer, SOURCE)
            gate = next((step for step in after[transfer] or (SOURCE,) if precedes(ends[0], step)), None)
            user = next((step for step in users if ends[2] == SOURCE or precedes(ends[2], step)), None)
            if gate is None or user is None:
                runs.append(run)
                run, gate, user = [], (after[transfer] or (SOURCE,))[0], users[0]
            run.append((gate, transfer, user))
        runs.append(run)
    return [run for run in runs if len(run) > 1]


ENOUGH = 1e-9
"""Part of the unit of time (that of a plan) by which a row may be missed."""

EXCESS = 1e3
"""Circuits that a plan would take for one unit of time beyond the limit."""


class PathProgram:
    """Least makespan of a box, or, with a limit of time, fewest circuits."""

    def __init__(self, laws: BoxLaws, pool: PathPool, unit: float, limit: float | None = None) -> None:
        import highspy

        self.laws, self.pool, self.unit, self.limit = laws, pool, unit, limit
        pairs = self.pairs = len(laws.most)
        solver = self._solver = highspy.Highs()
        for name, value in {"output_flag": False, "threads": 1, "presolve": "off"}.items():
            solver.setOptionValue(name, value)
        few = limit is not None
        cost = [EXCESS if few else 1.0, *[1.0 if few else 0.0] * pairs, *[0.0] * pairs]
        for column_cost in cost:
            solver.addCol(column_cost, 0.0, highspy.kHighsInf, 0, [], [])
        for pod, ports in enumerate(laws.ports.tolist()):
            own = [1 + p for p in np.flatnonzero((laws.ends == pod).any(axis=1)).tolist()]
            solver.addRow(-highspy.kHighsInf, float(ports), len(own), own, [1.0] * len(own))
        self._inf = highspy.kHighsInf
        self._rows: list[int] = [-1] * len(laws.ports)
        self._chords: set[tuple[int, int]] = set()
        self._handed = 0

    def relaxed(self, least: Ints, most: Ints, stop: Stop) -> tuple[float, PathMean, Floats]:
        """Of a box; rows that it needs are added. Left in the middle it says less, and no less true.

        Returns:
            The bound, evaluated from the mean, not the word of the solver; the mean that gives it; float64[pairs], the
            circuits that the program chooses.
        """
        solver, pairs = self._solver, self.pairs
        for p in range(pairs):
            solver.changeColBounds(1 + p, float(least[p]), float(most[p]))
            solver.changeColBounds(1 + pairs + p, 1.0 / float(most[p]), 1.0 / float(least[p]))
        for _ in range(60):
            self._hand_over()
            solver.run()
            x = np.array(solver.getSolution().col_value)
            if not self._extended(x, least, most) or stop.reason() is not None:
                break
        return self._relaxation(x, least, most)

    def _hand_over(self) -> None:
        shift = 0.0 if self.limit is None else self.limit
        while self._handed < len(self.pool.paths):
            path = self._handed
            moved = self.pool.by_pair[path]
            used = np.flatnonzero(moved).tolist()
            columns = [0, *(1 + self.pairs + p for p in used)]
            values = [1.0, *(-float(moved[p]) / self.unit for p in used)]
            self._solver.addRow(
                (self.pool.constants[path] - shift) / self.unit, self._inf, len(columns), columns, values
            )
            self._rows.append(path)
            self._handed += 1

    def _extended(self, x: Floats, least: Ints, most: Ints) -> bool:
        pairs, added = self.pairs, False
        circuits, slowness = x[1 : 1 + pairs], x[1 + pairs :]
        low = np.clip(np.floor(circuits + 1e-9), least, np.maximum(most - 1, least)).astype(np.int64)
        chord = 1.0 / low - (circuits - low) / (low * (low + 1.0))
        for p in np.flatnonzero((slowness < chord - 1e-9) & (least < most)).tolist():
            k = int(low[p])
            if (p, k) not in self._chords:
                self._chords.add((p, k))
                step = 1.0 / (k * (k + 1.0))
                self._solver.addRow(1.0 / k + k * step, self._inf, 2, [1 + p, 1 + pairs + p], [step, 1.0])
                self._rows.append(-1)
                added = True
        length, path = self.pool.longest(np.maximum(slowness, chord))
        reached = float(x[0]) * self.unit + (0.0 if self.limit is None else self.limit)
        if length > reached + 10 * ENOUGH * self.unit and path not in self.pool:
            self.pool.add(path, pairs)
            added = True
        return added

    def _relaxation(self, x: Floats, least: Ints, most: Ints) -> tuple[float, PathMean, Floats]:
        dual = np.array(self._solver.getSolution().row_dual)
        pods = len(self.laws.ports)
        weights = tuple(
            (path, float(dual[row])) for row, path in enumerate(self._rows) if path >= 0 and dual[row] > 1e-12
        )
        scale = 1.0 if self.limit is None else 1.0 / self.unit
        prices = np.maximum(-dual[:pods], 0.0) * (self.unit if self.limit is None else 1.0)
        mean = PathMean(tuple((path, value * scale) for path, value in weights), tuple(prices.tolist()))
        return self.value(mean, least, most), mean, x[1 : 1 + self.pairs]

    def weights(self, mean: PathMean) -> Floats:
        """float64[pairs]: time over one circuit in the mean."""
        moved: Floats = np.zeros(self.pairs)
        for path, weight in mean.weights:
            moved = moved + weight * self.pool.by_pair[path]
        return moved

    def value(self, mean: PathMean, least: Ints, most: Ints) -> float:
        """What a mean says of a box: a least makespan, or fewest circuits of plans done by the limit."""
        total = sum(weight for _, weight in mean.weights)
        if total <= 0.0:
            return 0.0
        moved = self.weights(mean)
        fixed = sum(weight * self.pool.constants[path] for path, weight in mean.weights)
        prices = np.array(mean.prices)
        price = prices[self.laws.ends].sum(axis=1) + (0.0 if self.limit is None else 1.0)
        best = np.where(price > 0, np.sqrt(moved / np.maximum(price, 1e-300)), most)
        low = np.clip(np.floor(np.minimum(best, 1e9)), least, most)
        high = np.minimum(low + 1, most)
        per_pair = np.minimum(moved / low + price * low, moved / high + price * high)
        bound = float(per_pair.sum() + fixed - prices @ self.laws.ports)
        return bound / total if self.limit is None else bound - total * self.limit


SAME = 1e-8
"""Part of the time allowed by which a plan may be later: rounding."""

CLOSED: Split = (-1, 0)

WHOLE = 1e-6
"""What a number of circuits may be short of a whole one and count as it: rounding of sums."""


@dataclass
class _Box:
    """A node of the tree.

    Attributes:
        bound: no plan of it is better; inf: none is good enough.
        split: once it is split.
        mean: that gives the bound; None: windows of time, or the only plan that is left.
        parts: two, once it is split.
    """

    least: Ints
    most: Ints
    bound: float
    mean: PathMean | None
    split: Split | None = None
    parts: list[_Box] = field(default_factory=list)


Judge = Callable[[Ints, Ints], tuple[float, PathMean | None, Split | None]]
"""(least, most) of a box -> bound, what gives it, and how to split it; None where nothing is left to split."""


class BoxTree:
    """Boxes, split where the bound is least."""

    def __init__(self, laws: BoxLaws, judge: Judge) -> None:
        self._judge, self._open = judge, BestFirst[_Box]()
        self.boxes = 0
        self.root = self._judged(np.ones_like(laws.most), laws.most)

    def _judged(self, least: Ints, most: Ints) -> _Box:
        bound, mean, split = self._judge(least, most)
        box = _Box(least, most, bound, mean, split)
        self.boxes += 1
        if split is not None and bound < math.inf:
            self._open.add(bound, box)
        return box

    def grow(self, good: Callable[[], float], stop: Stop, most_boxes: int) -> float:
        """Split until no open box has a bound below what is good, or a limit comes; the bound of all boxes."""
        while self._open.bound < good():
            if self.boxes >= most_boxes or stop.reason() is not None:
                break
            box = self._open.pop()
            pair, count = box.split or CLOSED
            low, high = box.most.copy(), box.least.copy()
            low[pair], high[pair] = count, count + 1
            for least, most in ((box.least, low), (high, box.most)):
                part = self._judged(least, most)
                if part.bound < box.bound:
                    part.bound, part.mean = box.bound, box.mean
                box.parts.append(part)
        return min(leaf.bound for leaf in self.leaves())

    def leaves(self) -> list[_Box]:
        """In the order of a walk."""
        closed, waiting = [], [self.root]
        while waiting:
            box = waiting.pop()
            waiting += reversed(box.parts)
            closed += [] if box.parts else [box]
        return closed

    def written(self, means: list[PathMean]) -> tuple[Split, ...]:
        """Splits in the order of a walk; means of leaves are added to the list."""
        number = {mean: k for k, mean in enumerate(means)}
        splits: list[Split] = []
        waiting = [self.root]
        while waiting:
            box = waiting.pop()
            waiting += reversed(box.parts)
            if box.parts:
                splits.append(box.split or CLOSED)
                continue
            if box.mean is not None and box.mean not in number:
                number[box.mean] = len(means)
                means.append(box.mean)
            splits.append((-1, 0 if box.mean is None else number[box.mean] + 1))
        return tuple(splits)


def split_of(least: Ints, most: Ints, circuits: Floats, weight: Floats) -> Split | None:
    """Where a choice is farthest from whole numbers, by the time at stake; the widest pair where it is whole."""
    wide = most > least
    if not wide.any():
        return None
    part = np.abs(circuits - np.round(circuits))
    stake = np.where(wide, weight * part / np.maximum(circuits, 1.0) ** 2, -1.0)
    if stake.max() > 1e-9 * max(float(weight.max()), 1e-300):
        pair = int(np.argmax(stake))
        return pair, int(np.clip(math.floor(circuits[pair]), least[pair], most[pair] - 1))
    pair = int(np.argmax(np.where(wide, weight * (1.0 / least - 1.0 / most), -1.0)))
    count = math.floor(circuits[pair] + 0.5)
    if count >= most[pair]:
        count -= 1
    return pair, int(np.clip(count, least[pair], most[pair] - 1))


def earliest(laws: BoxLaws, program: PathProgram, best: Incumbent, stop: Stop, cutoff: float = math.inf) -> BoxTree:
    """The tree of boxes by the time before which none of their plans is done; better plans replace `best`.

    Args:
        cutoff: plans that are done no earlier do not matter.
    """

    def offer(circuits: Ints) -> float:
        value = makespan(laws.graph, circuits, laws.rate)
        if value < best.value * (1 - 1e-12):
            best.value, best.circuits = value, circuits
        return value

    def judge(least: Ints, most: Ints) -> tuple[float, PathMean | None, Split | None]:
        narrowed = laws.narrowed(least, most, min(best.value, cutoff))
        if narrowed is None:
            return math.inf, None, None
        least, most = narrowed
        if (least == most).all():
            return offer(least), None, None
        bound, mean, circuits = program.relaxed(least, most, stop)
        low = np.clip(np.floor(circuits + 1e-6), least, most).astype(np.int64)
        offer(dealt(laws, low, most, laws.pair_volume))
        return bound, mean, split_of(least, most, circuits, program.weights(mean))

    return BoxTree(laws, judge)


def fewest(laws: BoxLaws, program: PathProgram, limit: float, best: Incumbent, stop: Stop) -> BoxTree:
    """The tree of boxes by the circuits that plans done by the limit need; plans with fewer replace `best`."""
    after = limit * (1 + SAME)

    def in_time(circuits: Ints) -> bool:
        done = makespan(laws.graph, circuits, laws.rate) < after * (1 - MARGIN)
        if done and circuits.sum() < best.value:
            best.value, best.circuits = float(circuits.sum()), circuits
        return done

    def judge(least: Ints, most: Ints) -> tuple[float, PathMean | None, Split | None]:
        narrowed = laws.narrowed(least, most, after)
        if narrowed is None:
            return math.inf, None, None
        least, most = narrowed
        if in_time(least):
            return float(least.sum()), None, None
        if (least == most).all():
            return math.inf, None, None
        bound, mean, circuits = program.relaxed(least, most, stop)
        rounded = np.clip(np.ceil(circuits - 1e-6), least, most).astype(np.int64)
        if laws.within(rounded):
            in_time(rounded)
        whole, by_windows = math.ceil(bound - WHOLE), float(least.sum())
        split = split_of(least, most, circuits, program.weights(mean))
        return (by_windows, None, split) if by_windows >= whole else (float(whole), mean, split)

    return BoxTree(laws, judge)
