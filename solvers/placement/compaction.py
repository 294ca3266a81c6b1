"""Fewer, larger operators: blocks of a placed graph that run as one, for objective latency.

Blocks are merged one pair at a time, with longest paths and a topological order kept up.

Exact rule, always:
* B1: an operator of zero time without inputs and with one consumer joins it, if it is in the same co-located group, or
  in no other and memory never decides. (B2, one variable a group, holds everywhere in this project.)
Guarded rules, of which none is exact: a block leaves no gap for others and is never cut.
* B5: a chain link (only consumer, only producer) is fused.
* B6: edges by falling communication are fused if that makes no cycle and does not raise the longest path with
  communication on unlimited devices (edge zeroing, Sarkar 1989).
A guarded merge is refused if the block would have more work than max(longest operator, total / (4 k)), or its joined
co-located groups more work than total / (3 k) or more memory than half a device: groups glued together leave nothing to
place (class guard). A bound on the compact graph is no bound on the original one.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from topoopt.core.arrays import Bools, Ints
from topoopt.core.placement import GraphOperator, PlacementProblem, Tensor
from topoopt.simulate.placement import UNLIMITED, PlacementArrays, placement_arrays

WORK_SHARE, GROUP_SHARE, MEMORY_SHARE = 4, 3, 0.5


class BlockGraph:
    """Blocks, named by one of their operators.

    `head` (to the start) and `tail` (from the start to the end) are longest paths with communication on unlimited
    devices. Merges only let them grow where they must; what became shorter is seen at the next `refresh`, so that in
    between they are upper bounds.
    """

    def __init__(self, a: PlacementArrays) -> None:
        n = len(a.needs)
        self.time = a.time.copy()
        self.work = [float(time) for time in a.time.min(axis=1)]
        self.memory = a.memory.tolist()
        self.after: list[dict[int, float]] = [{} for _ in range(n)]
        self.before: list[dict[int, float]] = [{} for _ in range(n)]
        used = sorted(set(a.server.tolist()))
        rate = float(a.network[used].min()) if len(used) > 1 else float(a.inside[used].min())
        alpha = a.alpha if len(used) > 1 else a.alpha_inside
        for i in range(n):
            for tensor in range(a.tensor_ptr[i], a.tensor_ptr[i + 1]):
                cost = alpha + (float(a.tensor_size[tensor]) / rate if a.tensor_size[tensor] > 0 else 0.0)
                for j in a.user[a.user_ptr[tensor] : a.user_ptr[tensor + 1]].tolist():
                    self.after[i][j] = self.before[j][i] = max(cost, self.after[i].get(j, 0.0))
        self.blocks = n
        self._into = list(range(n))
        self._order: list[int | None] = a.topo.tolist()
        self._position = [0] * n
        for at, i in enumerate(a.topo.tolist()):
            self._position[i] = at
        self._group_into = list(range(len(a.group_ptr) - 1))
        self._group = a.group.tolist()
        self.group_work = np.bincount(a.group, weights=a.time.min(axis=1)).tolist()
        self.group_memory = [0] * len(self._group_into)
        for i in range(n):
            self.group_memory[self._group[i]] += self.memory[i]
        self.head, self.tail = [0.0] * n, [0.0] * n
        self.longest = 0.0
        self.refresh()

    def find(self, i: int) -> int:
        """Return the block that an operator is in."""
        while self._into[i] != i:
            self._into[i] = self._into[self._into[i]]
            i = self._into[i]
        return i

    def group(self, block: int) -> int:
        """Joined co-located group of a block."""
        g = self._group[block]
        while self._group_into[g] != g:
            g = self._group_into[g]
        return int(g)

    def in_order(self) -> list[int]:
        return [block for block in self._order if block is not None]

    def refresh(self) -> None:
        """Compute the longest paths anew, shorter ones as well."""
        order = self.in_order()
        for u in order:
            self.head[u] = max((self._arrives(p, cost) for p, cost in self.before[u].items()), default=0.0)
        for u in reversed(order):
            self.tail[u] = self.work[u] + max((cost + self.tail[v] for v, cost in self.after[u].items()), default=0.0)
        self.longest = max((self.tail[u] for u in order), default=0.0)

    def _arrives(self, block: int, cost: float) -> float:
        return self.head[block] + self.work[block] + cost

    def _merged_paths(self, u: int, v: int) -> tuple[float, float]:
        into = [self._arrives(p, cost) for x in (u, v) for p, cost in self.before[x].items() if p not in (u, v)]
        out = [cost + self.tail[w] for x in (u, v) for w, cost in self.after[x].items() if w not in (u, v)]
        return max(into, default=0.0), self.work[u] + self.work[v] + max(out, default=0.0)

    def path_after_merge(self, u: int, v: int) -> float:
        """Longest path through the block that u and v would be; no other path gets longer."""
        return sum(self._merged_paths(u, v))

    def second_path(self, u: int, v: int) -> bool:
        """Whether v can be reached from u other than directly, so that merging them makes a cycle."""
        last = self._position[v]
        stack = [w for w in self.after[u] if w != v and self._position[w] < last]
        seen = set(stack)
        while stack:
            for w in self.after[stack.pop()]:
                if w == v:
                    return True
                if w not in seen and self._position[w] < last:
                    seen.add(w)
                    stack.append(w)
        return False

    def merge(self, u: int, v: int) -> int:
        """Join two blocks between which there is at most a direct edge from u to v; the name of the new block."""
        if self._position[u] > self._position[v]:
            u, v = v, u
        head, tail = self._merged_paths(u, v)
        self._reorder(u, v)
        self._into[v] = u
        self.blocks -= 1
        self.time[u] += self.time[v]
        self.work[u] += self.work[v]
        self.memory[u] += self.memory[v]
        for near, far in ((self.after, self.before), (self.before, self.after)):
            for w, cost in near[v].items():
                far[w].pop(v, None)
                if w != u:
                    near[u][w] = far[w][u] = max(cost, near[u].get(w, 0.0))
            near[u].pop(v, None)
            near[v] = {}
        first, other = self.group(u), self.group(v)
        if first != other:
            self._group_into[other] = first
            self.group_work[first] += self.group_work[other]
            self.group_memory[first] += self.group_memory[other]
        self._raise_from(u, head, tail)
        return u

    def _reorder(self, u: int, v: int) -> None:
        """Put the new block, under the name u, where v was, and what follows u behind it; v leaves the order."""
        low, high = self._position[u], self._position[v]
        later = {u}
        stay, move = [], []
        for at in range(low + 1, high):
            w = self._order[at]
            if w is None:
                continue
            if any(p in later for p in self.before[w]):
                later.add(w)
                move.append(w)
            else:
                stay.append(w)
        row: list[int | None] = [*stay, u, *move]
        row += [None] * (high - low + 1 - len(row))
        for at, block in enumerate(row, start=low):
            self._order[at] = block
            if block is not None:
                self._position[block] = at

    def _raise_from(self, u: int, head: float, tail: float) -> None:
        self.head[u], self.tail[u] = head, tail
        queue = [(self._position[u], u)]
        while queue:
            _, x = heapq.heappop(queue)
            for w, cost in self.after[x].items():
                if self._arrives(x, cost) > self.head[w]:
                    self.head[w] = self._arrives(x, cost)
                    heapq.heappush(queue, (self._position[w], w))
        queue = [(-self._position[u], u)]
        while queue:
            _, x = heapq.heappop(queue)
            for p, cost in self.before[x].items():
                if self.work[p] + cost + self.tail[x] > self.tail[p]:
                    self.tail[p] = self.work[p] + cost + self.tail[x]
                    heapq.heappush(queue, (-self._position[p], p))


def guard_of(a: PlacementArrays, graph: BlockGraph) -> Callable[[int, int], bool]:
    """Whether a merge of two blocks keeps within most work of a block, most work and memory of joined groups."""
    blocks = graph.in_order()
    total, k = sum(graph.work[u] for u in blocks), len(a.room)
    smallest = int(a.room.min())
    max_memory = float("inf") if smallest == UNLIMITED else MEMORY_SHARE * smallest
    longest = max((graph.work[u] for u in blocks), default=0.0)
    max_work, max_group_work = max(longest, total / (WORK_SHARE * k)), total / (GROUP_SHARE * k)

    def allows(u: int, v: int) -> bool:
        if graph.work[u] + graph.work[v] > max_work or not np.isfinite(graph.time[u] + graph.time[v]).any():
            return False
        first, other = graph.group(u), graph.group(v)
        if first == other:  # they are one already, and are not looked at again
            return True
        work = graph.group_work[first] + graph.group_work[other]
        return work <= max_group_work and graph.group_memory[first] + graph.group_memory[other] <= max_memory

    return allows


RULES = ("B5", "B6")


@dataclass(frozen=True, eq=False)
class Compaction:
    """A compact problem and what became of the original one.

    Attributes:
        problem: of blocks.
        block_of: int64[n], block of each operator.
        idle: bool[n], operators of zero time that joined their consumer (B1).
        tensor_of: int64, original number of each tensor that is left.
        used: how often each rule was.
    """

    problem: PlacementProblem
    block_of: Ints
    idle: Bools
    tensor_of: Ints
    used: dict[str, int]


def compacted(problem: PlacementProblem, *, rules: tuple[str, ...] = RULES, target: int = 0) -> Compaction:
    """Fuse until nothing more may be, or `target` blocks are left; `rules`: guarded ones to use."""
    a = placement_arrays(problem)
    graph = BlockGraph(a)
    idle = _idle_sources(a, graph)
    used = {"B1": int(idle.sum())}
    allows = guard_of(a, graph)
    for _ in range(12 if rules else 0):
        before = graph.blocks
        graph.refresh()
        for rule, apply in (("B5", _chains), ("B6", _edges)):
            if rule in rules:
                used[rule] = used.get(rule, 0) + apply(graph, allows, target)
        if graph.blocks == before or graph.blocks <= target:
            break
    return _built(problem, graph, idle, used)


def _idle_sources(a: PlacementArrays, graph: BlockGraph) -> Bools:
    roomy = int(a.memory.sum()) <= int(a.room.min())
    sizes = np.diff(a.group_ptr)
    idle = np.zeros(len(a.needs), dtype=np.bool_)
    for i in a.topo[::-1].tolist():
        users = np.unique(a.user[a.user_ptr[a.tensor_ptr[i]] : a.user_ptr[a.tensor_ptr[i + 1]]])
        if a.needs[i] or len(users) != 1 or a.time[i].any():
            continue
        same = a.group[i] == a.group[users[0]]
        if same or (roomy and sizes[a.group[i]] == 1):
            graph.merge(i, graph.find(int(users[0])))
            idle[i] = True
    return idle


def _chains(graph: BlockGraph, allows: Callable[[int, int], bool], target: int) -> int:
    merged = 0
    for first in graph.in_order():
        u = graph.find(first)
        while graph.blocks > target and len(graph.after[u]) == 1:
            v = next(iter(graph.after[u]))
            if len(graph.before[v]) != 1 or not allows(u, v):
                break
            u = graph.merge(u, v)
            merged += 1
    return merged


def _edges(graph: BlockGraph, allows: Callable[[int, int], bool], target: int) -> int:
    edges = [(-cost, u, v) for u in graph.in_order() for v, cost in graph.after[u].items()]
    merged = 0
    for _, first, other in sorted(edges):
        if graph.blocks <= target:
            break
        u, v = graph.find(first), graph.find(other)
        if u == v or v not in graph.after[u] or not allows(u, v):
            continue
        if graph.path_after_merge(u, v) <= graph.longest * (1 + 1e-12) and not graph.second_path(u, v):
            graph.merge(u, v)
            merged += 1
    return merged


def _built(problem: PlacementProblem, graph: BlockGraph, idle: Bools, used: dict[str, int]) -> Compaction:
    order = graph.in_order()
    number = {block: index for index, block in enumerate(order)}
    n = len(problem.operators)
    block_of = np.array([number[graph.find(i)] for i in range(n)], dtype=np.int64)
    members: list[list[int]] = [[] for _ in order]
    for i, block in enumerate(block_of.tolist()):
        members[block].append(i)
    shared: dict[int, int] = defaultdict(int)
    for block in order:
        shared[graph.group(block)] += 1
    operators = []
    for block, inside in zip(order, members, strict=True):
        times = np.array([problem.operators[i].times_ms for i in inside]).sum(axis=0)
        group = graph.group(block)
        operators.append(
            GraphOperator(
                f"block{number[block]}",
                tuple(times.tolist()),
                sum(problem.operators[i].memory_bytes for i in inside),
                f"group{group}" if shared[group] > 1 else None,
                all(problem.operators[i].backward for i in inside),
            )
        )
    tensors = []
    for index, tensor in enumerate(problem.tensors):
        source = int(block_of[tensor.producer])
        users = tuple(sorted({int(block_of[user]) for user in tensor.consumers} - {source}))
        if users:
            tensors.append((source, index, Tensor(source, users, tensor.size_bytes)))
    tensors.sort(key=lambda row: row[:2])
    compact = replace(problem, operators=tuple(operators), tensors=tuple(tensor for _, _, tensor in tensors))
    return Compaction(compact, block_of, idle, np.array([index for _, index, _ in tensors], dtype=np.int64), used)
