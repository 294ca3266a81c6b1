"""Parallel branches of an operator graph, the layers of those that stand side by side, and chains through the graph."""

from __future__ import annotations

from topoopt.core.workload import Workload


def branches(workload: Workload) -> list[list[int]]:
    """Parallel branches: connected components of the operators that some other operator can run beside."""
    count = len(workload.operators)
    before = [0] * count
    for index, operator in enumerate(workload.operators):
        for edge in operator.inputs:
            before[index] |= before[edge.producer] | 1 << edge.producer
    after = [0] * count
    for index in reversed(range(count)):
        for edge in workload.operators[index].inputs:
            after[edge.producer] |= after[index] | 1 << index
    trunk = {index for index in range(count) if (before[index] | after[index] | 1 << index) == (1 << count) - 1}
    component: dict[int, list[int]] = {}
    for index in range(count):
        if index in trunk:
            continue
        merged = [index]
        for edge in workload.operators[index].inputs:
            other = component.get(edge.producer)
            if other is not None and other[0] != merged[0]:
                merged = sorted({*merged, *other})
        for member in merged:
            component[member] = merged
    return [list(group) for group in {tuple(group): None for group in component.values()}]


def layers(workload: Workload) -> list[list[list[int]]]:
    """Branches that read the same operators, such as the experts of a bank, together; in order of their first one."""
    found: dict[frozenset[int], list[list[int]]] = {}
    for branch in branches(workload):
        sources = {edge.producer for index in branch for edge in workload.operators[index].inputs}
        found.setdefault(frozenset(sources - {*branch}), []).append(branch)
    return list(found.values())


def chains(workload: Workload) -> list[list[int]]:
    """The operators as chains of producers and consumers: the longest of the graph, then of what is left, and so on.

    An operator is as long as the compute of all its parts where that is least.
    """
    own = [
        min(split.parts * (split.forward_ms + split.backward_ms) for split in operator.splits)
        for operator in workload.operators
    ]
    left, found = {*range(len(own))}, []
    while left:
        length, before = dict.fromkeys(left, 0.0), dict.fromkeys(left, -1)
        for index in sorted(left):
            for edge in workload.operators[index].inputs:
                if edge.producer in left and length[edge.producer] > length[index]:
                    length[index], before[index] = length[edge.producer], edge.producer
            length[index] += own[index]
        chain = [max(left, key=lambda index: (length[index], -index))]
        while before[chain[-1]] >= 0:
            chain.append(before[chain[-1]])
        found.append(chain[::-1])
        left.difference_update(chain)
    return found
