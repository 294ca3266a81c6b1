"""Parallel branches of an operator graph, and the layers of those that stand side by side."""

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
