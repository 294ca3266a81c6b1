"""The best contiguous pipeline over equal links, derived by a walk over all order ideals: plain arrays, no solver.

What stands in the first j stages is a set of blocks with all that they need (an order ideal, or down-set); a stage is
the difference of two such sets, one within the other. What it sends and receives depends on this difference alone if
all transfers cost the same, so its load on a device does too. A pipeline is a path from the empty set to all blocks:
one step a device, each device once, the largest load as small as can be.

Blocks are co-located groups, those of a cycle joined. A block without work joins a neighbour where that costs nothing.
Block b may always be in the stage of x if x follows b and so does, behind x, all else that follows b directly, or the
mirror image; if the tensors of b without x cost no more than those of b and x alone; and if b has no bytes, or every
device holds everything. Let b be apart from x, and move it. A tensor of b and x alone stops costing both stages. One of
b, x and others reaches no new stage. One of b without x adds at most its cost to each of these two stages, and to no
third one, which paid before. So no load grows. Where a load is more than one sum, tensors of b without x must be free.

Where there are too many ideals, the bytes of a quarter of the blocks without work are left out, the smallest ones, or
of half, and so on: these may join a neighbour then. Loads only become smaller, so that the value is a bound.

GPipe adds the largest forward load to the largest backward load. Among pipelines whose forward loads are below a cap
the least backward load is computed; a better pipeline than the incumbent has forward loads below the value less that,
which is the next cap, until no pipeline is below it.

References
----------
Tarnawski et al.: Efficient Algorithms for Device Placement of DNN Graph Operators, NeurIPS 2020 (ideals).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.placement import PlacementProblem, Throughput
from topoopt.core.proofs import Tolerance
from topoopt.verify.placement.bounds import order_edges, transfer_table

MAX_SETS = 50_000
"""Order ideals, seconds; where there are more, nothing is derived."""

MAX_ENTRIES = 20_000_000
"""Blocks of all ideals together, for memory."""

MAX_STATES = 64
"""Ways to have used so many devices of each class."""

MAX_CAPS = 60
"""Caps on forward loads looked at, two walks over the sets each."""

ROUNDED = 1e-12
"""Part of a sum by which a test that drops sets is weaker, for rounding."""

CHUNK = 1 << 14
"""Sets whose members are multiplied with ends of tensors at once."""

Words = NDArray[np.uint64]
Ends = tuple[int, ...]
Edges = frozenset[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class _Blocks:
    """What a pipeline is cut into.

    Attributes:
        work: float64[phases, blocks, kinds], ms; inf where a block cannot run.
        size_bytes: int64[blocks].
        nets: blocks that a tensor touches -> float64[phases], ms of its transfer.
        edges: (a, b): a is in no later stage than b; without cycles.
    """

    work: Floats
    size_bytes: Ints
    nets: Mapping[Ends, Floats]
    edges: Edges

    @staticmethod
    def of(problem: PlacementProblem, classes: list[int], phases: int) -> _Blocks:
        """Return the blocks of a problem; `classes`: class of each kind of device."""
        groups = problem.colocated()
        group_of = {i: g for g, members in enumerate(groups) for i in members}
        work, size_bytes = np.zeros((phases, len(groups), len(classes))), np.zeros(len(groups), dtype=np.int64)
        for i, operator in enumerate(problem.operators):
            work[int(operator.backward) % phases, group_of[i]] += [operator.times_ms[c] for c in classes]
            size_bytes[group_of[i]] += operator.memory_bytes
        host = [entry.host for entry in problem.devices]
        payer = host.index(False) if False in host else 0
        other = next((d for d in range(len(host)) if d != payer), payer)
        nets: dict[Ends, Floats] = {}
        for tensor in problem.tensors:
            ends = tuple(sorted({group_of[tensor.producer], *(group_of[user] for user in tensor.consumers)}))
            cost = nets.setdefault(ends, np.zeros(phases))
            phase = int(problem.operators[tensor.producer].backward) % phases
            cost[phase] += float(transfer_table(problem, tensor.size_bytes)[payer, other])
        edges = frozenset((group_of[a], group_of[b]) for a, b in order_edges(problem))
        follows = _followers(len(groups), edges)
        turning = sorted({a for a, b in edges if a != b and follows[b] >> a & 1})  # on a cycle
        first = {a: min(b for b in turning if follows[a] >> b & 1 and follows[b] >> a & 1) for a in turning}
        return _Blocks(work, size_bytes, nets, edges).joined({a: b for a, b in first.items() if a != b})

    def joined(self, joins: Mapping[int, int]) -> _Blocks:
        """Return the blocks with some of them in others, which stay."""
        count = len(self.size_bytes)
        stay = [b for b in range(count) if b not in joins]
        index = {b: i for i, b in enumerate(stay)}
        index |= {b: index[to] for b, to in joins.items()}
        work, size_bytes = self.work[:, stay].copy(), self.size_bytes[stay].copy()
        for b in joins:
            work[:, index[b]] += self.work[:, b]
            size_bytes[index[b]] += self.size_bytes[b]
        nets: dict[Ends, Floats] = {}
        for ends, cost in self.nets.items():
            renamed = tuple(sorted({index[b] for b in ends}))
            if len(renamed) > 1 and cost.any():
                nets[renamed] = nets.get(renamed, 0.0) + cost
        edges = frozenset((index[a], index[b]) for a, b in self.edges if index[a] != index[b])
        return _Blocks(work, size_bytes, nets, edges)

    def without_idle(self, capacity: float, *, one_sum: bool) -> _Blocks:
        """Return the blocks after those without work have joined neighbours, see the module text.

        Args:
            capacity: bytes of the smallest device.
            one_sum: whether the objective is the largest sum of work and transfers of a stage.
        """
        roomy = self.size_bytes.sum() <= capacity
        blocks = self
        while joins := blocks._idle(roomy=bool(roomy), one_sum=one_sum):
            blocks = blocks.joined(joins)
        return blocks

    def with_light_idle(self, part: float) -> _Blocks:
        """Return the same where of blocks without work only a part has bytes, the largest ones."""
        idle = np.flatnonzero(~self.work.any(axis=(0, 2)) & (self.size_bytes > 0))
        light = idle[np.argsort(-self.size_bytes[idle], kind="stable")][int(part * len(idle)) :]
        size_bytes = self.size_bytes.copy()
        size_bytes[light] = 0
        return replace(self, size_bytes=size_bytes)

    def _idle(self, *, roomy: bool, one_sum: bool) -> dict[int, int]:
        count = len(self.size_bytes)
        follows = _followers(count, self.edges)
        after: list[list[int]] = [[] for _ in range(count)]
        before: list[list[int]] = [[] for _ in range(count)]
        for a, b in sorted(self.edges):
            after[a].append(b)
            before[b].append(a)
        near: list[list[tuple[Ends, float]]] = [[] for _ in range(count)]
        for ends, cost in self.nets.items():
            for b in ends:
                near[b].append((ends, float(cost.sum())))
        joins: dict[int, int] = {}
        taken: set[int] = set()
        for b in np.flatnonzero(~self.work.any(axis=(0, 2))).tolist():
            if self.size_bytes[b] and not roomy:
                continue
            goals = [x for x in after[b] if all(follows[x] >> y & 1 for y in after[b])]
            goals += [x for x in before[b] if all(follows[y] >> x & 1 for y in before[b])]
            for x in goals:
                lost = sum(cost for ends, cost in near[b] if x not in ends)
                gained = sum(cost for ends, cost in near[b] if len(ends) == 2 and x in ends) if one_sum else 0.0
                if lost <= gained and not {b, x} & taken:
                    joins[b] = x
                    taken |= {b, x}
                    break
        return joins


def _followers(count: int, edges: Edges) -> list[int]:
    """Return what follows each element, itself included, as bits."""
    reach, changed = [1 << i for i in range(count)], True
    backwards = sorted(edges, reverse=True)  # one pass, where elements are numbered in their order
    while changed:
        changed = False
        for a, b in backwards:
            if reach[a] | reach[b] != reach[a]:
                reach[a], changed = reach[a] | reach[b], True
    return reach


def order_ideals(count: int, edges: Edges, most: int) -> Words:
    """Return uint64[sets, words], all sets of elements with whatever these need, each once.

    Elements come in topological order. An ideal of the first i elements is one of the first i + 1 as it stands, and
    with element i if it holds all that i needs. So none is made twice, and nothing is thrown away.

    Raises:
        ValueError: There are more than `most`.
    """
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for a, b in sorted(edges):
        before[b].append(a)
        after[a].append(b)
    rows = np.zeros((1, max(1, -(-count // 64))), dtype=np.uint64)
    waits = [len(row) for row in before]
    stack = [i for i in reversed(range(count)) if not waits[i]]
    while stack:
        i = stack.pop()
        for b in after[i]:
            waits[b] -= 1
            if not waits[b]:
                stack.append(b)
        may = np.ones(len(rows), dtype=bool)
        for a in before[i]:
            may &= (rows[:, a // 64] >> np.uint64(a % 64) & np.uint64(1)).astype(bool)
        more = rows[may]
        more[:, i // 64] |= np.uint64(1 << i % 64)
        rows = np.concatenate([rows, more])
        if len(rows) > most:
            raise ValueError(f"more than {most} sets of operators that nothing leads into")
    return rows


def _ideals_of(blocks: _Blocks) -> Words:
    count = len(blocks.size_bytes)
    return order_ideals(count, blocks.edges, min(MAX_SETS, MAX_ENTRIES // max(count, 1)))


Loads = Callable[[Floats], Floats]
"""float64[phases, stages, kinds] -> float64[stages, kinds], what has to be small; inf where a stage is not allowed."""


class _PipelineWalk:
    """Tables of one problem by kind of device, over ideals by the least work in them."""

    def __init__(self, problem: PlacementProblem, settings: Throughput, max_sets: int) -> None:
        kinds = [(entry.class_index, entry.memory_bytes, entry.host) for entry in problem.devices]
        self.kinds = list(dict.fromkeys(kinds))
        self.counts = [kinds.count(kind) for kind in self.kinds]
        if prod(count + 1 for count in self.counts) > MAX_STATES:
            raise ValueError(f"more than {MAX_STATES} ways to use the devices")
        self.phases, self.overlapped = 2 if settings.schedule == "gpipe" else 1, settings.communication == "overlapped"
        one_sum = self.phases == 1 and not self.overlapped
        capacity = min((np.inf if room is None else room for _, room, _ in self.kinds), default=np.inf)
        every = _Blocks.of(problem, [kind[0] for kind in self.kinds], self.phases)
        blocks = every.without_idle(capacity, one_sum=one_sum)
        for part in (0.75, 0.5, 0.25, 0.0, None):
            try:
                rows = _ideals_of(blocks)
                break
            except ValueError:  # without some bytes of what is idle, which only makes loads smaller
                if part is None:
                    raise
                blocks = every.with_light_idle(part).without_idle(capacity, one_sum=one_sum)
        if len(rows) > max_sets:  # so that fewer sets do not prove another bound
            raise ValueError(f"more than {max_sets} sets of operators that nothing leads into")
        count = len(blocks.size_bytes)
        inside = np.unpackbits(rows.view(np.uint8).reshape(len(rows), -1), axis=1, bitorder="little")[:, :count]
        total = blocks.work.sum(axis=0)  # of both passes
        least = inside @ total.min(axis=1)
        order = np.lexsort((inside.sum(axis=1, dtype=np.int64), least))
        self.rows, self.least, inside = rows[order], least[order], inside[order]
        able = np.isfinite(blocks.work)
        self.work: Floats = inside.astype(np.float64) @ np.where(able, blocks.work, 0.0)
        self.unable = inside @ (~able.all(axis=0)).astype(np.float64)
        self.bytes = inside.astype(np.int64) @ blocks.size_bytes
        self.cost = np.array([*blocks.nets.values()]).reshape(len(blocks.nets), self.phases)
        self._count_ends(inside, [*blocks.nets])
        self._weigh(inside, total, one_sum=one_sum)

    def _count_ends(self, inside: NDArray[np.uint8], nets: list[Ends]) -> None:
        """For each tensor and ideal, how many of its blocks are inside; the costs of tensors that cross an ideal."""
        ends = np.zeros((inside.shape[1], len(nets)), dtype=np.float32)
        for e, net in enumerate(nets):
            ends[list(net), e] = 1
        size = ends.sum(axis=0)
        self.count = np.empty((len(nets), len(inside)), dtype=np.uint16)
        for begin in range(0, len(inside), CHUNK):
            part = inside[begin : begin + CHUNK].astype(np.float32) @ ends
            self.count[:, begin : begin + CHUNK] = part.T
        self.crosses = (self.count > 0) & (self.count < size[:, None])
        self.border = np.zeros((self.phases, len(inside)))
        for cost, crosses in zip(self.cost, self.crosses, strict=True):
            self.border += cost[:, None] * crosses

    def _weigh(self, inside: NDArray[np.uint8], total: Floats, *, one_sum: bool) -> None:
        """Weights of blocks for some speeds of kinds: the time of a block is at least its weight times the speed."""
        finite = np.where(np.isfinite(total), total, 0.0)
        speeds = [np.ones(len(self.kinds))]
        both = (finite > 0).all(axis=1)
        if len(self.kinds) > 1 and both.any():
            ratio = finite[both] / finite[both, :1]
            speeds += [np.quantile(ratio, part, axis=0) for part in (0.0, 0.1, 0.5)]
        self.speeds = [speed for speed in speeds if (speed > 0).all()]
        self.weights = [inside @ (total / speed).min(axis=1) for speed in self.speeds]
        self.paid = self.border.sum(axis=0) if one_sum else None

    def fits(self, used: tuple[int, ...], limit: float) -> Bools:
        """bool[sets]: whether what is left after a set may fit the devices that are left, all below a limit."""
        left = np.array(self.counts) - used
        good = np.ones(len(self.rows), dtype=bool)
        for speed, weight in zip(self.speeds, self.weights, strict=True):
            good &= (weight[-1] - weight) * (1 - ROUNDED) <= float((left / speed).sum()) * limit
        if self.paid is not None and not any(kind[2] and some for kind, some in zip(self.kinds, left, strict=True)):
            # All that is left pays its work and, once at least, every tensor that crosses into it.
            rest = self.weights[0][-1] - self.weights[0] + self.paid
            good &= rest * (1 - ROUNDED) <= float(left.sum()) * limit
        return good

    def stages(self, at: int, later: Ints) -> tuple[Ints, Floats]:
        """Of some sets those that hold one, and float64[phases, stages, kinds], loads of what they have more."""
        for word in np.flatnonzero(self.rows[at]):
            own = self.rows[at, word]
            later = later[(self.rows[later, word] & own) == own]
        sent = self.border[:, later].copy()
        for e in np.flatnonzero(self.crosses[:, at]):
            # A tensor that crosses into the stage is paid if it has an end there, or else not though it goes on.
            more = (self.count[e, later] > self.count[e, at]).astype(np.int8) - self.crosses[e, later]
            sent += self.cost[e][:, None] * more
        table: Floats = self.work[:, later] - self.work[:, at, None]
        held = self.bytes[later] - self.bytes[at]
        for q, (_, capacity, host) in enumerate(self.kinds):
            if not host:
                table[:, :, q] = np.maximum(table[:, :, q], sent) if self.overlapped else table[:, :, q] + sent
            if capacity is not None:
                table[:, held > capacity, q] = np.inf
        table[:, self.unable[later] > self.unable[at]] = np.inf
        return later, table

    def least_peak(self, limit: float, loads: Loads) -> float:
        """Least of the largest loads of all pipelines, infinite where none is below the limit."""
        counts = self.counts
        states = list(product(*(range(count + 1) for count in counts)))
        best = {state: np.full(len(self.rows), np.inf) for state in states}
        opened = {state: self.fits(state, limit) for state in states}
        steps = {
            state: [
                (q, (*state[:q], state[q] + 1, *state[q + 1 :])) for q in range(len(counts)) if state[q] < counts[q]
            ]
            for state in states
        }
        first = {state: int(np.argmax(row)) if row.any() else len(row) for state, row in opened.items()}
        upper = np.searchsorted(self.least, self.least + limit, side="right")
        reachable = np.zeros(len(self.rows), dtype=bool)
        best[states[0]][0], reachable[0] = 0.0, True
        for at in range(len(self.rows) - 1):
            here = [state for state in states if best[state][at] < limit] if reachable[at] else []
            goals = {after for state in here for _, after in steps[state]}
            lowest = max(at + 1, min((first[after] for after in goals), default=len(self.rows)))
            if lowest >= upper[at]:
                continue
            wanted = np.zeros(upper[at] - lowest, dtype=bool)
            for after in goals:
                wanted |= opened[after][lowest : upper[at]]
            later, parts = self.stages(at, lowest + np.flatnonzero(wanted))
            table = loads(parts)
            some = (table < limit).any(axis=1)
            later, table = later[some], table[some]
            for state in here:
                for q, after in steps[state]:
                    reached = np.maximum(table[:, q], best[state][at])
                    good = (reached < limit) & opened[after][later]
                    targets = later[good]
                    best[after][targets] = np.minimum(best[after][targets], reached[good])
                    reachable[targets] = True
        return float(min(values[-1] for values in best.values()))


def _equal_links(problem: PlacementProblem) -> bool:
    host = np.array([entry.host for entry in problem.devices])
    paid = ~np.eye(len(host), dtype=bool) & ~np.logical_and.outer(host, host)
    return all(len(set(transfer_table(problem, size)[paid].tolist())) <= 1 for size in (0, 10**9))


def least_pipeline(problem: PlacementProblem, settings: Throughput, value: float, max_sets: int = MAX_SETS) -> float:
    """Least objective of all contiguous pipelines, ms, or the value of a known one if nothing is better.

    What is better by less than rounding counts as equal. Where there are too many sets, some operators without work
    may be anywhere, whatever their bytes: a lower bound.

    Raises:
        ValueError: Links differ, stages need not be contiguous, or there are too many sets or caps.
    """
    if settings.stages != "contiguous" or not _equal_links(problem):
        raise ValueError("not a contiguous pipeline over equal links")
    walk = _PipelineWalk(problem, settings, max_sets)
    limit = value * (1 - Tolerance.ROUNDING.relative)
    if walk.phases == 1:
        return min(value, walk.least_peak(limit, lambda parts: np.asarray(parts[0])))
    best, cap = value, limit
    for _ in range(MAX_CAPS):
        peak = walk.least_peak(limit, lambda parts: np.where(parts[0] < cap, parts[1], np.inf))  # noqa: B023
        if not peak < limit:
            return best
        if limit - peak < cap:
            cap = limit - peak
            continue
        cap = walk.least_peak(limit, lambda parts: np.where(parts[1] <= peak, parts[0], np.inf))  # noqa: B023
        best = min(best, cap + peak)
        limit = min(limit, best)
    raise ValueError(f"more than {MAX_CAPS} caps of forward loads")
