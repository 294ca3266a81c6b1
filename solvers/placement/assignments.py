"""All assignments of blocks to devices, cut off by bounds: exact where no two devices or links are alike.

Blocks are assigned one after the other, thousands of partial assignments at a time, with exact loads. A partial
assignment is dropped if

* its busiest device alone, or work and transfers spread over all devices, are no better than the incumbent;
* a device lacks memory, or cannot run a block;
* no order of the devices (contiguous) or of their stages (interleaved) has every tensor run forwards;
* it uses a device before another one that is as good (not where devices have a fixed order).

The most promising are followed first. When time is over, the remaining ones bound the optimum from below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.placement.stage_graph import Net, StageGraph, device_slots
from solvers.placement.pipelines import Positions, Search
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.placement import Communication, Schedule, StageShape, Throughput
from topoopt.core.proofs import StopReason

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True, eq=False)
class Partial:
    """Partial assignments, one a row.

    Attributes
    ----------
    device : int64[rows, blocks assigned].
    compute, sent : float64[rows, 2, devices], by phase.
    memory : int64[rows, devices].
    after : int64[rows, devices], the devices that come later in the pipeline, as bits (contiguous).
    stage : int64[rows, blocks assigned], earliest stages (interleaved).
    bound : float64[rows], below the objective of whatever follows.
    """

    device: Ints
    compute: Floats
    sent: Floats
    memory: Ints
    after: Ints
    stage: Ints
    bound: Floats

    def rows(self, which: Ints | Bools | slice) -> Partial:
        """Some of the rows."""
        return Partial(**{name: table[which] for name, table in vars(self).items()})


def _payments(graph: StageGraph, net: Net, group: list[int]) -> Floats:
    """float64[devices, sets of devices, devices]: what each device pays, by source and set of consumers' devices."""
    k = len(group)
    pair = graph.costs.between(net)[np.ix_(group, group)]
    pair[np.arange(k), np.arange(k)] = 0.0
    inside = (np.arange(2**k)[:, None] >> np.arange(k)) & 1 == 1
    paid = np.where(inside[None], pair[:, None, :], 0.0)
    slowest = paid.max(axis=2)
    paid[np.arange(k), :, np.arange(k)] = slowest
    paid[:, :, [graph.groups[q].host for q in group]] = 0.0
    return np.asarray(paid)


def _sequence(graph: StageGraph) -> list[int]:
    """Blocks in a topological order; of those that may come next, the one with most work and traffic."""
    import networkx as nx

    weight = np.where(np.isfinite(graph.time_ms), graph.time_ms, 0.0).sum(axis=0).mean(axis=1)
    for net, cost in zip(graph.nets, graph.costs.mean(graph.nets).mean(axis=1).tolist(), strict=True):
        weight[[net.source, *net.targets]] += cost
    order: nx.DiGraph[int] = nx.DiGraph()
    order.add_nodes_from(range(graph.size))
    order.add_edges_from(graph.order.tolist())
    return list(nx.lexicographical_topological_sort(order, key=lambda block: (-weight[block], block)))


class AssignmentTree:
    """What does not change while the assignments of one problem are looked through; `order`: blocks as they come."""

    def __init__(self, graph: StageGraph, settings: Throughput) -> None:
        self.graph, self.settings = graph, settings
        self.group = list(device_slots(graph))
        self.k = len(self.group)
        self.order = _sequence(graph)
        self._place = {block: i for i, block in enumerate(self.order)}
        self._nets: list[list[int]] = [[] for _ in self.order]
        for t, net in enumerate(graph.nets):
            for block in (net.source, *net.targets):
                self._nets[self._place[block]].append(t)
        self._paid = [_payments(graph, net, self.group) for net in graph.nets]
        self._before: list[list[int]] = [[] for _ in self.order]
        for a, b in graph.order.tolist():
            self._before[self._place[b]].append(self._place[a])
        phases = [[0], [1]] if settings.schedule is Schedule.GPIPE else [[0, 1]]
        fastest = np.array([graph.time_ms[phase].sum(axis=0).min(axis=1)[self.order] for phase in phases])
        self._phases = phases
        self._left = np.concatenate([np.cumsum(fastest[:, ::-1], axis=1)[:, ::-1], np.zeros((len(phases), 1))], axis=1)
        limits = [graph.groups[q].memory_bytes for q in self.group]
        self._capacity = [np.iinfo(np.int64).max if limit is None else limit for limit in limits]

    def root(self) -> Partial:
        """Nothing assigned."""
        none, idle = np.zeros((1, 0), dtype=np.int64), np.zeros((1, 2, self.k))
        zero = np.zeros((1, self.k), dtype=np.int64)
        return Partial(none, idle, idle, zero, zero, none, np.zeros(1))

    def extended(self, part: Partial, below: float) -> Partial:
        """All ways to assign the next block that may lead to an objective below this."""
        parts = [extended for d in range(self.k) if (extended := self._with(part, d)) is not None]
        if not parts:
            parts = [self._put(part.rows(slice(0, 0)), 0)]
        joined = Partial(**{name: np.concatenate([vars(part)[name] for part in parts]) for name in vars(part)})
        joined = replace(joined, bound=np.maximum(joined.bound, self._bound(joined)))
        return joined.rows(joined.bound < below)

    def _with(self, part: Partial, d: int) -> Partial | None:
        """The next block on one device, in the rows where that is allowed; None if it is nowhere."""
        block, q = self.order[part.device.shape[1]], self.group[d]
        if not np.isfinite(self.graph.time_ms[:, block, q]).all():
            return None
        keep = part.memory[:, d] + self.graph.memory_bytes[block] <= self._capacity[d]
        peers = [e for e in range(d) if self.group[e] == q]
        if peers and self.settings.stages is not StageShape.INTERLEAVED:
            keep &= (part.device == peers[-1]).any(axis=1)  # like devices are used in file order
        keep &= self._in_order(part, d)
        return self._put(part.rows(keep), d) if keep.any() else None

    def _in_order(self, part: Partial, d: int) -> Bools:
        """bool[rows]: whether what the next block needs can come before it."""
        at = part.device.shape[1]
        if self.settings.stages is StageShape.INTERLEAVED:
            return np.asarray(self._earliest(part, d) < self.k * self.settings.stages_per_device)
        good = np.ones(len(part.bound), dtype=bool)
        if self.settings.stages is StageShape.CONTIGUOUS:
            for i in self._before[at]:
                good &= (part.after[:, d] >> part.device[:, i]) & 1 == 0
        return good

    def _earliest(self, part: Partial, d: int) -> Ints:
        """int64[rows]: first stage of a device not before the stages of what the next block needs."""
        low = part.stage[:, self._before[part.device.shape[1]]].max(axis=1, initial=0)
        return np.asarray(low + (d - low) % self.k)

    def _put(self, part: Partial, d: int) -> Partial:
        """Every row with the next block on this device."""
        at, rows = part.device.shape[1], len(part.bound)
        block = self.order[at]
        compute, memory = part.compute.copy(), part.memory.copy()
        compute[:, :, d] += self.graph.time_ms[:, block, self.group[d]]
        memory[:, d] += self.graph.memory_bytes[block]
        after, stage = part.after.copy(), part.stage
        if self.settings.stages is StageShape.CONTIGUOUS:
            for i in self._before[at]:
                source = part.device[:, i]
                later = after[:, d] | 1 << d
                leads = ((after >> source[:, None]) & 1 == 1) | (np.arange(self.k) == source[:, None])
                leads &= (source != d)[:, None]
                after |= np.where(leads, later[:, None], 0)
        elif self.settings.stages is StageShape.INTERLEAVED:
            stage = np.column_stack([stage, self._earliest(part, d)])
        device = np.column_stack([part.device, np.full(rows, d)])
        return Partial(device, compute, self._sent(part, device), memory, after, stage, part.bound)

    def _sent(self, part: Partial, device: Ints) -> Floats:
        """Transfers paid for after the last column was added."""
        at, sent = device.shape[1] - 1, part.sent.copy()
        for t in self._nets[at]:
            net = self.graph.nets[t]
            source = self._place[net.source]
            if source > at:
                continue
            users = np.zeros(len(device), dtype=np.int64)
            for position in (self._place[v] for v in net.targets):
                if position < at:
                    users |= 1 << device[:, position]
            if source != at:
                sent[:, net.phase] -= self._paid[t][device[:, source], users]
                users |= 1 << device[:, at]
            sent[:, net.phase] += self._paid[t][device[:, source], users]
        return sent

    def _bound(self, part: Partial) -> Floats:
        """float64[rows]: busiest device so far, and all work and transfers over all devices."""
        left = self._left[:, part.device.shape[1]]
        total = np.zeros(len(part.bound))
        for phase, rest in zip(self._phases, left.tolist(), strict=True):
            compute, sent = part.compute[:, phase].sum(axis=1), part.sent[:, phase].sum(axis=1)
            if self.settings.communication is Communication.ADDED:
                load = compute + sent
                mean = load.sum(axis=1)
            else:
                load, mean = np.maximum(compute, sent), compute.sum(axis=1)
            total += np.maximum(load.max(axis=1), (mean + rest) / self.k)
        return total


MOST_DEVICES = 8
"""Costs of a net are tabulated for all sets of devices."""

PIECE = 4096
"""Partial assignments extended at once."""

MOST_ROWS = 4_000_000
"""Partial assignments extended at most; 10 blocks on 4 devices have 1.4 million without any cut off."""

ROUNDING = 1e-12
"""What is not better by more than this part of the objective is not better."""


def _positions(tree: AssignmentTree, leaves: Partial, row: int) -> Positions:
    """A complete assignment as stages (slots of free sets) and groups of slots."""
    import networkx as nx

    device, stage = np.empty(tree.graph.size, dtype=np.int64), np.empty(tree.graph.size, dtype=np.int64)
    device[tree.order] = leaves.device[row]
    if tree.settings.stages is StageShape.INTERLEAVED:
        stage[tree.order] = leaves.stage[row]
        return Positions(stage, np.array(tree.group))
    if tree.settings.stages is StageShape.FREE:
        return Positions(device, np.array(tree.group))
    later: nx.DiGraph[int] = nx.DiGraph()
    used = set(device.tolist())
    later.add_nodes_from(range(tree.k))
    later.add_edges_from((d, e) for d in used for e in used if int(leaves.after[row, d]) >> e & 1)
    pipeline = list(nx.lexicographical_topological_sort(later, key=lambda d: (d not in used, d)))
    position = np.argsort(pipeline)
    return Positions(position[device], np.array([tree.group[d] for d in pipeline]))


def enumerate_assignments(search: Search, stop: Stop, most_rows: int = MOST_ROWS) -> tuple[float, StopReason]:
    """Offer the best of all assignments; a lower bound on the objective, and why it ended.

    The bound is the value of the best placement where all were looked at, infinite if there is none.
    """
    if search.graph.devices > MOST_DEVICES:
        return 0.0, StopReason.BUDGET
    tree = AssignmentTree(search.graph, search.settings)
    left, rows = [tree.root()], 0
    while left:
        reason = stop.reason() or (StopReason.BUDGET if rows >= most_rows else None)
        if reason is not None:
            return min([search.value, *(float(part.bound.min()) for part in left)]), reason
        part = left.pop()
        part = part.rows(part.bound < search.value * (1 - ROUNDING))
        rows += len(part.bound)
        part = tree.extended(part, search.value * (1 - ROUNDING))
        if not len(part.bound):
            continue
        if part.device.shape[1] == search.graph.size:
            search.offer(_positions(tree, part, int(np.argmin(part.bound))))
            continue
        part = part.rows(np.argsort(-part.bound, kind="stable"))
        left += [part.rows(slice(i, i + PIECE)) for i in range(0, len(part.bound), PIECE)]
    return search.value, StopReason.CONVERGED
