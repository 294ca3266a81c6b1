"""Stages of a pipeline from the devices of its operators: the first of all orders, so that one placement has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.placement.stage_graph import order_pairs
from topoopt.core.arrays import Int32s, Ints
from topoopt.core.placement import PlacementProblem, StageShape, Throughput

if TYPE_CHECKING:
    import networkx as nx


def _blocks(problem: PlacementProblem) -> tuple[Ints, set[tuple[int, int]]]:
    """int64[operators]: co-located group of each; and pairs of groups of which the first is in no later stage."""
    block_of = np.empty(len(problem.operators), dtype=np.int64)
    for block, members in enumerate(problem.colocated()):
        block_of[list(members)] = block
    return block_of, order_pairs(problem, block_of)


def stage_numbers(problem: PlacementProblem, settings: Throughput, device: Int32s) -> Int32s | None:
    """int32[operators], None for free sets and where there is no order in which nothing runs backwards.

    Contiguous: places of the devices in use, always the first in file order that waits for no other. Interleaved: the
    earliest stages.
    """
    import networkx as nx

    if settings.stages is StageShape.FREE:
        return None
    block_of, pairs = _blocks(problem)
    home = np.zeros(int(block_of.max()) + 1, dtype=np.int64)
    home[block_of] = device
    if settings.stages is StageShape.INTERLEAVED:
        stage = _interleaved(home, pairs, len(problem.devices), settings.stages_per_device)
        return None if stage is None else stage[block_of].astype(np.int32)
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(sorted(set(home.tolist())))
    ends = ((int(home[a]), int(home[b])) for a, b in pairs)
    graph.add_edges_from(sorted((a, b) for a, b in ends if a != b))
    if not nx.is_directed_acyclic_graph(graph):
        return None
    place = {at: i for i, at in enumerate(nx.lexicographical_topological_sort(graph))}
    return np.array([place[at] for at in device.tolist()], dtype=np.int32)


def _interleaved(home: Ints, pairs: set[tuple[int, int]], k: int, rounds: int) -> Ints | None:
    """int64[blocks]: groups that need each other share a stage; the others come as early as their device allows."""
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(home)))
    graph.add_edges_from(sorted(pairs))
    parts = nx.condensation(graph)
    stage = np.zeros(len(home), dtype=np.int64)
    for part in nx.topological_sort(parts):
        members = sorted(parts.nodes[part]["members"])
        if len(set(home[members].tolist())) > 1:
            return None
        low = max((int(stage[a]) for b in members for a in graph.predecessors(b)), default=0)
        stage[members] = low + (int(home[members[0]]) - low) % k
    return stage if int(stage.max()) < k * rounds else None
