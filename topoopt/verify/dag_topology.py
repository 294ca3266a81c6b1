"""The checker of kind `dag-topology` follows the job over its circuits, and closes every box of the proof again."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from topoopt.core.dag_topology import (
    DagTopologyPlan,
    DagTopologyProblem,
    DagTopologyResult,
    PathMean,
    Split,
    StepPath,
    proof_of,
)
from topoopt.core.proofs import Argument, Tolerance
from topoopt.core.result import Certificate
from topoopt.verify.checker import (
    BeyondWorkError,
    CheckDepth,
    Checker,
    CheckFindings,
    Derivation,
    WorkBudget,
    int_array,
)

ROUNDING = 1e-12
"""Part of the largest volume on a channel that is nothing."""


def followers(problem: DagTopologyProblem) -> list[list[int]]:
    """Return the steps that wait for each step."""
    later: list[list[int]] = [[] for _ in problem.after]
    for step, entry in enumerate(problem.after):
        for before in entry:
            later[before].append(step)
    return later


def order_of(problem: DagTopologyProblem, later: Sequence[Sequence[int]]) -> list[int]:
    """Return all steps, each behind what it waits for."""
    waits = [len(entry) for entry in problem.after]
    order = [step for step, count in enumerate(waits) if not count]
    for step in order:
        for follower in later[step]:
            waits[follower] -= 1
            if not waits[follower]:
                order.append(follower)
    return order


def circuit_ends(problem: DagTopologyProblem, counts: Sequence[int]) -> list[int]:
    """Return the circuits that end at each pod."""
    used = [0] * problem.pods
    for (a, b), count in zip(problem.pairs, counts, strict=True):
        used[a] += count
        used[b] += count
    return used


def follow(problem: DagTopologyProblem, counts: Sequence[int]) -> tuple[list[float], list[float]]:
    """(start, end) of all steps; each begins once what it waits for has ended.

    Transfers of one direction of a pair that are under way together get equal parts of its circuits. Between two
    changes on such a channel what is left of each shrinks evenly; one change is looked at at a time.

    Args:
        counts: circuits of each pair, in ascending order of pairs.
    """
    after, transfers, later = problem.after, problem.transfers, followers(problem)
    waits = [len(entry) for entry in after]
    rates = dict(zip(problem.pairs, (count * problem.rate for count in counts), strict=True))
    start, end = [0.0] * len(after), [0.0] * len(after)
    left: dict[tuple[int, int], dict[int, float]] = {}
    since: dict[tuple[int, int], float] = {}
    tasks: list[tuple[float, int]] = []
    ready = [step for step, count in enumerate(waits) if not count]
    now = 0.0

    def catch_up(channel: tuple[int, int]) -> None:
        flows = left.get(channel)
        if flows:
            moved = (now - since[channel]) * rates[min(channel), max(channel)] / len(flows)
            for step in flows:
                flows[step] -= moved
        since[channel] = now

    def next_end(channel: tuple[int, int]) -> float:
        flows = left[channel]
        rate = rates[min(channel), max(channel)]
        return since[channel] + max(min(flows.values()), 0.0) * len(flows) / rate if flows else math.inf

    while True:
        for step in ready:
            start[step] = now
            if step < len(transfers):
                move = transfers[step]
                catch_up((move.source, move.target))
                left.setdefault((move.source, move.target), {})[step] = move.volume
            else:
                heapq.heappush(tasks, (now + problem.tasks[step - len(transfers)].duration, step))
        ready = []
        channel = min((entry for entry in left if left[entry]), key=next_end, default=None)
        over = next_end(channel) if channel is not None else math.inf
        ended: list[int] = []
        if tasks and tasks[0][0] <= over:
            now, step = heapq.heappop(tasks)
            ended = [step]
        elif channel is not None:
            flows = left[channel]
            first = min(flows, key=flows.__getitem__)
            now = over
            catch_up(channel)
            noise = ROUNDING * max(transfers[step].volume for step in flows)
            ended = [step for step, rest in flows.items() if step == first or rest <= noise]
            for step in ended:
                del flows[step]
        else:
            return start, end
        for step in ended:
            end[step] = now
            for follower in later[step]:
                waits[follower] -= 1
                if not waits[follower]:
                    ready.append(follower)


MARGIN = 1e-9
"""Part of the target that counts as rounding of sums."""


@dataclass(frozen=True)
class Box:
    """Circuits of each pair, from `least` to `most`."""

    least: tuple[int, ...]
    most: tuple[int, ...]

    @property
    def point(self) -> bool:
        """Whether the box holds one choice of circuits alone."""
        return self.least == self.most

    def split(self, pair: int, count: int) -> tuple[Box, Box]:
        """The part with at most so many circuits of a pair, and the rest.

        Raises:
            ValueError: one of them is empty, or there is no such pair.
        """
        if pair >= len(self.least) or not self.least[pair] <= count < self.most[pair]:
            raise ValueError(f"pair {pair} cannot be split at {count}")
        low, high = list(self.most), list(self.least)
        low[pair], high[pair] = count, count + 1
        return Box(self.least, tuple(low)), Box(tuple(high), self.most)


@dataclass(frozen=True, eq=False)
class Boxes:
    """A problem, and a time that the job is to be done before.

    Attributes:
        problem: of the instance.
        target: of the bound.
    """

    problem: DagTopologyProblem
    target: float

    @property
    def late(self) -> float:
        """What counts as not before the target."""
        return self.target * (1.0 - MARGIN)

    @property
    def whole(self) -> Box:
        """All circuits that the ports of the pods allow a pair."""
        ports = self.problem.ports
        return Box(tuple(1 for _ in self.problem.pairs), tuple(min(ports[a], ports[b]) for a, b in self.problem.pairs))

    @cached_property
    def _later(self) -> list[list[int]]:
        return followers(self.problem)

    @cached_property
    def _order(self) -> list[int]:
        return order_of(self.problem, self._later)

    @cached_property
    def _channels(self) -> list[list[int]]:
        index = {pair: k for k, pair in enumerate(self.problem.pairs)}
        lists: list[list[int]] = [[] for _ in range(2 * len(index))]
        for m, move in enumerate(self.problem.transfers):
            ends = (min(move.source, move.target), max(move.source, move.target))
            lists[2 * index[ends] + (move.source > move.target)].append(m)
        return lists

    @cached_property
    def _sides(self) -> list[tuple[int, list[int]]]:
        out: dict[tuple[int, bool], list[int]] = {}
        for m, move in enumerate(self.problem.transfers):
            out.setdefault((move.source, True), []).append(m)
            out.setdefault((move.target, False), []).append(m)
        return [(pod, members) for (pod, _), members in sorted(out.items())]

    def narrowed(self, box: Box) -> Box | None:
        """What of a box is left when all rules have been applied until nothing changes; None: nothing."""
        least, most = list(box.least), list(box.most)
        problem = self.problem
        while True:
            needed = circuit_ends(self.problem, least)
            for p, (a, b) in enumerate(problem.pairs):
                free = min(problem.ports[a] - needed[a], problem.ports[b] - needed[b]) + least[p]
                most[p] = min(most[p], free)
                if most[p] < least[p]:
                    return None
            head, length, tail = self._windows(most)
            if max(h + own + t for h, own, t in zip(head, length, tail, strict=True)) >= self.late:
                return None
            possible = circuit_ends(self.problem, most)
            for pod, members in self._sides:
                speed = problem.rate * min(problem.ports[pod], possible[pod])
                if self._done(members, head, tail, speed) >= self.late:
                    return None
            raised = [self._needed(p, least[p], most[p], head, tail) for p in range(len(least))]
            if any(count > top for count, top in zip(raised, most, strict=True)):
                return None
            if raised == least:
                return Box(tuple(least), tuple(most))
            least = raised

    def _windows(self, most: Sequence[int]) -> tuple[list[float], list[float], list[float]]:
        problem = self.problem
        length = [0.0] * len(problem.transfers) + [task.duration for task in problem.tasks]
        for k, members in enumerate(self._channels):
            for m in members:
                length[m] = problem.transfers[m].volume / (problem.rate * most[k // 2])
        head, tail = self._around(length)
        return head, length, tail

    def _around(self, length: Sequence[float]) -> tuple[list[float], list[float]]:
        head, tail = [0.0] * len(length), [0.0] * len(length)
        for step in self._order:
            for follower in self._later[step]:
                head[follower] = max(head[follower], head[step] + length[step])
        for step in reversed(self._order):
            tail[step] = max((length[follower] + tail[follower] for follower in self._later[step]), default=0.0)
        return head, tail

    def _needed(self, pair: int, least: int, most: int, head: list[float], tail: list[float]) -> int:
        """Circuits without which one direction of a pair is done too late; more than `most`: no number does."""
        for members in self._channels[2 * pair : 2 * pair + 2]:
            while least <= most and members and self._done(members, head, tail, self.problem.rate * least) >= self.late:
                least += 1
        return least

    def _done(self, members: list[int], head: list[float], tail: list[float], speed: float) -> float:
        """When one machine of that speed is done with all of them, tails included."""
        waiting = sorted(members, key=lambda m: head[m], reverse=True)
        queue: list[tuple[float, int]] = []
        left = {m: self.problem.transfers[m].volume / speed for m in members}
        now, done = 0.0, 0.0
        while waiting or queue:
            if not queue:
                now = max(now, head[waiting[-1]])
            while waiting and head[waiting[-1]] <= now:
                m = waiting.pop()
                heapq.heappush(queue, (-tail[m], m))
            urgent = queue[0][1]
            if waiting and now + left[urgent] > head[waiting[-1]]:
                left[urgent] -= head[waiting[-1]] - now
                now = head[waiting[-1]]
            else:
                now += left[urgent]
                done = max(done, now + tail[urgent])
                heapq.heappop(queue)
        return done


class Means:
    """Paths of a problem and their means, of the proof of a solution."""

    def __init__(self, problem: DagTopologyProblem, paths: Sequence[StepPath], means: Sequence[PathMean]) -> None:
        self._problem, self._paths, self._means = problem, paths, means
        self._index = {pair: k for k, pair in enumerate(problem.pairs)}
        self._added: dict[int, tuple[float, float, list[float]]] = {}

    @cached_property
    def _earlier(self) -> list[int]:
        """Of each step, a bit for every step before it."""
        later, earlier = followers(self._problem), [0] * len(self._problem.after)
        for step in order_of(self._problem, later):
            for follower in later[step]:
                earlier[follower] |= earlier[step] | 1 << step
        return earlier

    @cached_property
    def _lengths(self) -> list[tuple[float, list[float]]]:
        """(tasks, time over one circuit by pair) of every path."""
        return [self._length(number, path) for number, path in enumerate(self._paths)]

    def _length(self, number: int, path: StepPath) -> tuple[float, list[float]]:
        problem, before = self._problem, 0
        count = len(problem.transfers)
        fixed, moved = 0.0, [0.0] * len(problem.pairs)
        for group in path:
            if not group or len(set(group)) < len(group) or not all(0 <= step < len(problem.after) for step in group):
                raise ValueError(f"path {number}: not groups of steps")
            channels = {(m.source, m.target) for m in (problem.transfers[step] for step in group if step < count)}
            if len(group) > 1 and (len(channels) > 1 or max(group) >= count):
                raise ValueError(f"path {number}: a group that is not of one direction of a pair")
            if any(self._earlier[step] & before != before for step in group):
                raise ValueError(f"path {number}: steps that need not wait for those before them")
            before = 0
            for step in group:
                before |= 1 << step
                if step >= count:
                    fixed += problem.tasks[step - count].duration
                else:
                    own = problem.transfers[step]
                    pair = self._index[min(own.source, own.target), max(own.source, own.target)]
                    moved[pair] += own.volume / problem.rate
        return fixed, moved

    def _sum(self, number: int) -> tuple[float, float, list[float]]:
        if number not in self._added:
            mean, pairs = self._means[number], len(self._problem.pairs)
            fine = [*(weight for _, weight in mean.weights), *mean.prices]
            if len(mean.prices) != self._problem.pods or any(not 0 <= entry < math.inf for entry in fine):
                raise ValueError(f"mean {number}: a price for each pod, no number below zero")
            if any(not 0 <= path < len(self._paths) for path, _ in mean.weights):
                raise ValueError(f"mean {number}: a path that is not there")
            fixed, moved = 0.0, [0.0] * pairs
            for path, weight in mean.weights:
                of_path, by_pair = self._lengths[path]
                fixed += weight * of_path
                for pair in range(pairs):
                    moved[pair] += weight * by_pair[pair]
            self._added[number] = sum(weight for _, weight in mean.weights), fixed, moved
        return self._added[number]

    def makespan(self, number: int, box: Box) -> float:
        """No circuits of a box do the job before this.

        Raises:
            ValueError: no such mean, or not of paths.
        """
        weight, fixed, moved = self._of(number)
        if weight <= 0:
            return 0.0
        return (self._least(number, box, moved, 0.0) + fixed) / weight

    def circuits(self, number: int, box: Box, limit: float) -> float:
        """Circuits of a box that do the job within a limit are no fewer than this.

        Raises:
            ValueError: no such mean, or not of paths.
        """
        weight, fixed, moved = self._of(number)
        return self._least(number, box, moved, 1.0) + fixed - weight * limit

    def _of(self, number: int) -> tuple[float, float, list[float]]:
        if not 0 <= number < len(self._means):
            raise ValueError(f"mean {number} is not there")
        return self._sum(number)

    def _least(self, number: int, box: Box, moved: list[float], charge: float) -> float:
        """Least of the sum over pairs of time and of price, without what all ports are paid."""
        prices = self._means[number].prices
        total = -sum(price * ports for price, ports in zip(prices, self._problem.ports, strict=True))
        for (a, b), time, least, most in zip(self._problem.pairs, moved, box.least, box.most, strict=True):
            price = prices[a] + prices[b] + charge
            count = most if price <= 0 else min(max(math.isqrt(int(min(time / price, 1e18))), least), most)
            total += min(time / circuits + price * circuits for circuits in (count, min(count + 1, most)))
        return total


WHOLE = 1e-7
"""By how much a number of circuits must exceed the whole number below it: rounding of sums."""

EVENTS_PER_STEP = 20
"""What narrowing a box takes for each step of the graph, beside an event of a simulation."""


SLACK_ROUNDING = 6e-9
"""Part of the time allowed by which a plan may be later: rounding."""


def close_boxes(
    boxes: Boxes,
    tree: Sequence[Split],
    means: Means,
    makespan: Callable[[Sequence[int]], float],
    budget: WorkBudget,
    fewest: int | None = None,
) -> None:
    """Go through a tree of a proof: no circuits do the job before the target, or no fewer than so many.

    Args:
        makespan: of the job over circuits.
        fewest: None: that of any number of circuits is shown.

    Raises:
        ValueError: it is no tree of boxes, or one of them is not closed.
        BeyondWorkError: it takes more events than there are.
    """

    def closes(box: Box) -> bool:
        enough = fewest is not None and sum(box.least) >= fewest
        return enough or (box.point and makespan(box.least) >= boxes.late)

    def by_mean(number: int, box: Box) -> bool:
        enough = fewest is not None and means.circuits(number, box, boxes.late) > fewest - 1 + WHOLE
        return enough or means.makespan(number, box) >= boxes.late

    waiting = [boxes.whole]
    for pair, count in tree:
        if not waiting:
            raise ValueError("more splits than boxes")
        box = waiting.pop()
        if pair >= 0:
            waiting += reversed(box.split(pair, count))
            continue
        budget.take(len(box.least))
        if count > 0 and by_mean(count - 1, box):
            continue
        budget.take(EVENTS_PER_STEP * len(boxes.problem.after))
        left = boxes.narrowed(box)
        if left is None or closes(left) or (count > 0 and by_mean(count - 1, left)):
            continue
        raise ValueError(f"a box from {list(box.least)} to {list(box.most)} is open")
    if waiting:
        raise ValueError(f"{len(waiting)} boxes are not looked at")


def padding(
    trees: Mapping[str, Sequence[Split]], paths: Sequence[StepPath], means: Sequence[PathMean]
) -> Iterator[str]:
    """Each thing that is too much, in words.

    Args:
        trees: all that refer to these paths and means, by name.
    """
    used = set[int]()
    for name, tree in trees.items():
        closed = [count for pair, count in tree if pair < 0]
        if len(tree) != max(2 * len(closed) - 1, 0):
            yield f"{name} closes {len(closed)} boxes of {len(tree)}, which is no tree"
        used.update(count - 1 for count in closed if count > 0)
    for number, mean in enumerate(means):
        if number not in used:
            yield f"mean {number} closes no box"
        if len({path for path, _ in mean.weights}) < len(mean.weights):
            yield f"mean {number} has a path twice"
    weighted = {path for mean in means for path, _ in mean.weights}
    for number in set(range(len(paths))) - weighted:
        yield f"path {number} is in no mean"
    if len(set(paths)) < len(paths) or len(set(means)) < len(means):
        yield "a path or a mean stands twice"


RELATIVE = Tolerance.EVENTS.relative


def circuits_fit(problem: DagTopologyProblem, plan: DagTopologyPlan) -> Iterator[str]:
    """A whole number of at least 1 for each pair, in the plan and in the fastest one."""
    for name, counts in _plans(plan):
        values = int_array(counts, 1)
        if values is None or len(values) != len(problem.pairs) or (values < 1).any():
            yield f"{name}: not a whole number of at least 1 for each pair"


def ports_suffice(problem: DagTopologyProblem, plan: DagTopologyPlan) -> Iterator[str]:
    """No more circuits end at a pod than it has ports."""
    for name, counts in _plans(plan):
        used = circuit_ends(problem, counts.tolist())
        for pod, ports in enumerate(problem.ports):
            if used[pod] > ports:
                yield f"{name}: {used[pod]} at pod {pod}, of {ports}"


def within_slack(problem: DagTopologyProblem, plan: DagTopologyPlan) -> Iterator[str]:
    """The job takes no longer than the slack allows beyond the fastest plan."""
    if plan.fastest is None:
        return
    makespan, fastest = makespan_of(problem, plan), max(follow(problem, plan.fastest.tolist())[1])
    if makespan > fastest * (1 + problem.slack_percent / 100) * (1 + RELATIVE):
        yield f"the job takes {makespan!r}, the fastest plan {fastest!r}"


def _plans(plan: DagTopologyPlan) -> list[tuple[str, Any]]:
    fastest = [] if plan.fastest is None else [("circuits of the fastest plan", plan.fastest)]
    return [("circuits", plan.circuits), *fastest]


def makespan_of(problem: DagTopologyProblem, plan: DagTopologyPlan) -> float:
    return max(follow(problem, plan.circuits.tolist())[1])


def proven_makespan(
    problem: DagTopologyProblem, certificates: Sequence[Certificate], events: float, plan: DagTopologyPlan | None = None
) -> float:
    """Walk both trees of the one certificate of a problem; without a plan the first alone, which is for the makespan.

    Returns:
        The time before which no circuits do the job.

    Raises:
        ValueError: there is another number of certificates, or of another argument, something in it is needless, or a
            box is open.
        BeyondWorkError: the boxes take more events than there are.
    """
    if [certificate.argument for certificate in certificates] != [Argument.CIRCUIT_BRANCHING]:
        raise ValueError(f"one certificate expected, for {Argument.CIRCUIT_BRANCHING}")
    bound, proof = proof_of(certificates[0], problem.pods)
    trees = {"makespan_tree": proof.makespan_tree, "circuits_tree": proof.circuits_tree}
    needless = next(padding(trees, proof.paths, proof.means), None)
    if needless is not None:
        raise ValueError(needless)
    if not bound >= 0:
        raise ValueError(f"a bound of {bound!r}")
    means, budget = Means(problem, proof.paths, proof.means), WorkBudget(events)

    def makespan(counts: Sequence[int]) -> float:
        return max(follow(problem, counts)[1])

    close_boxes(Boxes(problem, bound), proof.makespan_tree, means, makespan, budget)
    if plan is None:
        return bound
    if not 0 <= proof.circuits_bound <= plan.circuits.sum():
        raise ValueError(f"{plan.circuits.sum()} circuits are fewer than {proof.circuits_bound}, said to be needed")
    limit = makespan(plan.fastest_circuits.tolist()) * (1 + problem.slack_percent / 100) * (1 + SLACK_ROUNDING)
    try:
        close_boxes(Boxes(problem, limit), proof.circuits_tree, means, makespan, budget, proof.circuits_bound)
    except ValueError as error:
        raise ValueError(f"fewer than {proof.circuits_bound} circuits are not excluded: {error}") from error
    return bound


def _makespan_bound(problem: DagTopologyProblem, certificates: Sequence[Certificate]) -> float:
    return proven_makespan(problem, certificates, math.inf)


CHECKER = Checker(
    objective=lambda problem: ("makespan", problem.time_unit),
    constraints=(("circuits", circuits_fit), ("ports", ports_suffice), ("slack", within_slack)),
    value=makespan_of,
    arguments=lambda _: {Argument.CIRCUIT_BRANCHING: _makespan_bound},
    tolerance=Tolerance.EVENTS,
    optimal=Tolerance.EVENTS,
    claim_tolerance=Tolerance.EVENTS,
)


def check(problem: DagTopologyProblem, result: DagTopologyResult, depth: CheckDepth) -> CheckFindings:
    """Check a result of any content, both trees within the events of the depth; never raises."""
    proven: list[float | ValueError] = []

    def work(problem: DagTopologyProblem, result: DagTopologyResult) -> int:
        """Walk the trees; more events than the depth has where they take more."""
        try:
            proven.append(proven_makespan(problem, result.certificates, depth.events, result.plan))
        except BeyondWorkError:
            return depth.events + 1
        except ValueError as error:
            proven.append(error)
        return 0

    def derived(problem: DagTopologyProblem, certificates: Sequence[Certificate]) -> float:
        if isinstance(proven[0], ValueError):
            raise proven[0]
        return proven[0]

    table: Mapping[Argument, Derivation] = {Argument.CIRCUIT_BRANCHING: derived}
    return replace(CHECKER, work=work, arguments=lambda _: table)(problem, result, depth)
