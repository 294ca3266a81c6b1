"""Pipelines followed in the plainest way: passes as a graph of what waits for what, longest paths in fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import networkx as nx

from topoopt.core.parallelism import PassKind
from topoopt.simulate.pipeline_timeline import PassOrders

Pass = tuple[str, int, int]
"""F, B (gradients of inputs, or all) or W; micro-batch; stage."""

NAMES = {
    PassKind.FORWARD: "F",
    PassKind.JOINED: "F",
    PassKind.BACKWARD: "B",
    PassKind.INPUTS: "B",
    PassKind.WEIGHTS: "W",
}


def lanes_of(orders: PassOrders) -> list[list[tuple[PassKind, int, int]]]:
    """What each rank does, in its order."""
    rows = [(PassKind(int(kind)), int(i), int(stage)) for kind, i, stage in orders.passes]
    return [rows[a:b] for a, b in zip(orders.start[:-1].tolist(), orders.start[1:].tolist(), strict=True)]


def plain_makespan(
    orders: PassOrders, costs: dict[str, list[Fraction]], transfer: Fraction, *, blocking: bool
) -> Fraction:
    """Longest path through the passes; those joined are not understood.

    Args:
        costs: of F, B (of the inputs) and W, by stage.
    """
    graph: nx.DiGraph[Pass] = nx.DiGraph()
    duration: dict[Pass, Fraction] = {}
    home = orders.rank_of_stage.tolist()

    def leaves(one: Pass) -> bool:
        """Whether what a pass makes goes to another rank."""
        name, _, stage = one
        target = {"F": orders.after, "B": orders.before, "W": [-1] * len(home)}[name][stage]
        return target >= 0 and home[target] != home[stage]

    for lane in lanes_of(orders):
        names = [(NAMES[kind], i, stage) for kind, i, stage in lane]
        for (kind, _, stage), one in zip(lane, names, strict=True):
            duration[one] = costs[one[0]][stage] + (costs["W"][stage] if kind is PassKind.BACKWARD else 0)
        for one, behind in pairwise(names):
            graph.add_edge(one, behind, wait=transfer if blocking and leaves(one) else Fraction(0))
        graph.add_nodes_from(names)
    for name, i, stage in list(graph):
        needs = []
        if name == "F" and orders.before[stage] >= 0:
            needs = [("F", i, int(orders.before[stage]))]
        elif name == "B":
            needs = [("F", i, stage)] + [("B", i, int(s)) for s in [orders.after[stage]] if s >= 0]
        elif name == "W":
            needs = [("B", i, stage)]
        for need in needs:
            wait = transfer if home[need[2]] != home[stage] else Fraction(0)
            old = graph.edges[need, (name, i, stage)]["wait"] if graph.has_edge(need, (name, i, stage)) else wait
            graph.add_edge(need, (name, i, stage), wait=max(wait, old))
    ends: dict[Pass, Fraction] = {}
    for one in nx.topological_sort(graph):
        begin = max((ends[need] + graph.edges[need, one]["wait"] for need in graph.predecessors(one)), default=0)
        ends[one] = begin + duration[one]
    return max(ends.values())
