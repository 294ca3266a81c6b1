"""Fewer, larger operators: blocks of a placed graph that run as one, for objective latency.

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

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from solvers.placement.block_graph import BlockGraph, Guard
from topoopt.core.arrays import Bools, Ints
from topoopt.core.placement import GraphOperator, PlacementProblem, Tensor
from topoopt.simulate.placement.arrays import PlacementArrays, placement_arrays

PASSES = 12
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
    guard = Guard.of(a, graph)
    for _ in range(PASSES if rules else 0):
        before = graph.blocks
        graph.refresh()
        for rule, apply in (("B5", _chains), ("B6", _edges)):
            if rule in rules:
                used[rule] = used.get(rule, 0) + apply(graph, guard, target)
        if graph.blocks == before or graph.blocks <= target:
            break
    return _built(problem, graph, idle, used)


def _idle_sources(a: PlacementArrays, graph: BlockGraph) -> Bools:
    """Rule B1: which operators joined their consumer."""
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


def _chains(graph: BlockGraph, guard: Guard, target: int) -> int:
    merged = 0
    for first in graph.in_order():
        u = graph.find(first)
        while graph.blocks > target and len(graph.after[u]) == 1:
            v = next(iter(graph.after[u]))
            if len(graph.before[v]) != 1 or not guard.allows(graph, u, v):
                break
            u = graph.merge(u, v)
            merged += 1
    return merged


def _edges(graph: BlockGraph, guard: Guard, target: int) -> int:
    edges = [(-cost, u, v) for u in graph.in_order() for v, cost in graph.after[u].items()]
    merged = 0
    for _, one, other in sorted(edges):
        if graph.blocks <= target:
            break
        u, v = graph.find(one), graph.find(other)
        if u == v or v not in graph.after[u] or not guard.allows(graph, u, v):
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
