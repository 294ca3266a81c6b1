"""Passes of a pipeline in a sequence in which each stands behind all that it waits for, run for many costs at once.

Which pass waits for which follows from the orders alone; how long passes take does not matter. So a sequence is found
once, and one sweep over it gives the ends of all passes, for as many sets of costs as there are, side by side. Times
are whole numbers held in doubles, which are exact below 2^53.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.simulate.jit import kernel, piece
from topoopt.simulate.pipeline.orders import BACKWARD, FORWARD, JOINED, WEIGHTS, PassOrders

LANES = 8
"""Sets of costs that a processor adds at once."""


@dataclass(frozen=True, eq=False)
class PassProgram:
    """Nodes in sequence: 0 is the begin, then one for each stage, when its weights are there, then those of passes.

    A node ends at the later one of two earlier nodes, each a transfer later where that is said, plus a cost.

    Attributes:
        nodes: int32[n, 5]: rank's node before, whether it is a transfer later, the node waited for, the same, row of
            costs.
        node_of_pass: int32[passes], in the order of the orders.
        pairs: int32[k, 2], stages of the model whose forward and backward pass are joined: rows behind those of passes.
        orders: of the passes.
    """

    nodes: Int32s
    node_of_pass: Int32s
    pairs: Int32s
    orders: PassOrders

    def costs(self, forward: Floats, inputs: Floats, weights: Floats) -> Floats:
        """float64[rows, R] of passes: float64[stages of the model, R] each; the last row is nothing."""
        back = inputs + weights
        joined = forward[self.pairs[:, 0]] + back[self.pairs[:, 1]]
        return np.concatenate([forward, back, inputs, weights, joined, np.zeros((1, forward.shape[1]))])

    def run(self, costs: Floats, transfer: Floats, ready: Floats, kept: Ints) -> Floats:
        """Ends of the nodes that are asked for, float64[kept, R].

        Args:
            costs: float64[rows, R], as `costs`.
            transfer: float64[R], from a rank to another one.
            ready: float64[S, R], before which no pass of a stage begins.
            kept: int64, nodes.
        """
        return _run(self.nodes, costs, transfer, ready, kept)


def pass_program(orders: PassOrders, *, blocking: bool) -> PassProgram:
    """Put the passes of orders into sequence.

    Args:
        blocking: a rank waits until what it sends has arrived.

    Raises:
        ValueError: passes wait for each other in a circle (a fault of the order).
    """
    ends = np.full((2, len(orders.before), orders.micro_batches), -1, dtype=np.int32)
    nodes, node_of_pass, pairs = _sequence(
        orders.start,
        orders.passes,
        orders.rank_of_stage,
        orders.before,
        orders.after,
        orders.model_stages,
        blocking,
        ends,
    )
    if not len(nodes):
        raise ValueError("passes wait for each other in a circle")
    return PassProgram(nodes, node_of_pass, pairs, orders)


@piece
def _source(kind: int, i: int, stage: int, before: Ints, after: Ints, ends: Int32s) -> int:  # pragma: no cover
    """The node that a pass waits for; 0: nothing; -1: it is not known yet."""
    if kind == FORWARD:
        return int(ends[0, before[stage], i]) if before[stage] >= 0 else 0
    if kind == WEIGHTS:
        return 0 if ends[1, stage, i] >= 0 else -1
    if ends[0, stage, i] < 0:
        return -1
    return int(ends[1, after[stage], i]) if after[stage] >= 0 else 0


@piece
def _write(
    nodes: Int32s, at: int, own: int, own_late: int, other: int, late: int, row: int
) -> int:  # pragma: no cover - compiled
    """The number of the node written."""
    nodes[at, 0], nodes[at, 1], nodes[at, 2], nodes[at, 3], nodes[at, 4] = own, own_late, other, late, row
    return at


@kernel
def _sequence(
    start: Ints,
    passes: Int32s,
    rank_of_stage: Ints,
    before: Ints,
    after: Ints,
    stages: int,
    blocking: bool,
    ends: Int32s,
) -> tuple[Int32s, Int32s, Int32s]:  # pragma: no cover - compiled
    # ends[0 | 1, stage, micro-batch]: the node of the forward | backward pass; -1: none yet
    ranks, copies = len(start) - 1, len(rank_of_stage)
    nodes = np.zeros((1 + 2 * copies + len(passes), 5), dtype=np.int32)
    node_of_pass = np.zeros(len(passes), dtype=np.int32)
    pairs, joins = np.zeros((4 * copies, 2), dtype=np.int32), 0
    waited = np.zeros(copies, dtype=np.bool_)
    at, last, late = start[:-1].copy(), np.zeros(ranks, dtype=np.int64), np.zeros(ranks, dtype=np.int64)
    node, left, moved = 1 + copies, len(passes), True
    nothing = 4 * stages + 4 * copies
    while left > 0 and moved:
        moved = False
        for turn in range(2 * ranks):
            rank = turn if turn < ranks else 2 * ranks - 1 - turn
            while at[rank] < start[rank + 1]:
                place = at[rank]
                kind, i, stage = passes[place, 0], passes[place, 1], passes[place, 2]
                joined = kind == JOINED
                ahead = joined or kind == FORWARD
                source = _source(FORWARD if joined else kind, i, stage, before, after, ends)
                if source < 0:
                    break
                back, behind, other = stage, i, 0
                if joined:
                    behind, back = passes[place + 1, 1], passes[place + 1, 2]
                    other = _source(BACKWARD, behind, back, before, after, ends)
                    if other < 0:
                        break
                neighbour = before[stage] if ahead else after[stage]
                away = 1 if kind != WEIGHTS and neighbour >= 0 and rank_of_stage[neighbour] != rank else 0
                if ahead and not waited[stage]:
                    waited[stage] = True
                    source, away = _write(nodes, node, source, away, 1 + stage, 0, nothing), 0
                    node += 1
                row = (0 if ahead else kind) * stages + stage % stages
                if joined:
                    first, second, row = stage % stages, back % stages, 0
                    while row < joins and (pairs[row, 0] != first or pairs[row, 1] != second):
                        row += 1
                    if row == joins:
                        pairs[joins, 0], pairs[joins, 1] = first, second
                        joins += 1
                    row += 4 * stages
                    own = _write(nodes, node, last[rank], late[rank], source, away, nothing)
                    node += 1
                    away = 1 if after[back] >= 0 and rank_of_stage[after[back]] != rank else 0
                    made = _write(nodes, node, own, 0, other, away, row)
                    node_of_pass[place + 1] = made
                    ends[1, back, behind] = made
                else:
                    made = _write(nodes, node, last[rank], late[rank], source, away, row)
                node += 1
                node_of_pass[place] = made
                last[rank], late[rank] = made, 0
                if kind != WEIGHTS:
                    ends[0 if ahead else 1, stage, i] = made
                if blocking and kind != WEIGHTS:
                    target = after[stage] if ahead else before[stage]
                    gone = target >= 0 and rank_of_stage[target] != rank
                    if joined:
                        gone = gone or (before[back] >= 0 and rank_of_stage[before[back]] != rank)
                    late[rank] = 1 if gone else 0
                at[rank] += 2 if joined else 1
                left -= 2 if joined else 1
                moved = True
    if left > 0:
        return nodes[:0], node_of_pass, pairs[:0]
    for one in range(node):
        if nodes[one, 4] == nothing:
            nodes[one, 4] = 4 * stages + joins
    return nodes[:node].copy(), node_of_pass, pairs[:joins].copy()


@kernel
def _run(
    nodes: Int32s, costs: Floats, transfer: Floats, ready: Floats, kept: Ints
) -> Floats:  # pragma: no cover - compiled
    count, rows, stages = costs.shape[1], costs.shape[0], ready.shape[0]
    found = np.empty((len(kept), count))
    ends = np.zeros((len(nodes), LANES))
    own, hop = np.zeros((rows, LANES)), np.zeros((2, LANES))
    for begin in range(0, count, LANES):
        width = min(LANES, count - begin)
        for lane in range(width):
            hop[1, lane] = transfer[begin + lane]
            for row in range(rows):
                own[row, lane] = costs[row, begin + lane]
            for stage in range(stages):
                ends[1 + stage, lane] = ready[stage, begin + lane]
        for node in range(1 + stages, len(nodes)):
            one, other = nodes[node, 0], nodes[node, 2]
            first, second, row = nodes[node, 1], nodes[node, 3], nodes[node, 4]
            for lane in range(LANES):
                a = ends[one, lane] + hop[first, lane]
                b = ends[other, lane] + hop[second, lane]
                ends[node, lane] = (a if a > b else b) + own[row, lane]
        for place in range(len(kept)):
            for lane in range(width):
                found[place, begin + lane] = ends[kept[place], lane]
    return found
