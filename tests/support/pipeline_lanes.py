"""Passes of a pipeline by rank, and when the checker ends them."""

from __future__ import annotations

from topoopt.core.parallelism import PassKind, StageCosts
from topoopt.simulate.pipeline import PassOrders
from topoopt.verify.llm_training.iteration import pass_ends

NAMES = {
    PassKind.FORWARD: "F",
    PassKind.JOINED: "F",
    PassKind.BACKWARD: "B",
    PassKind.INPUTS: "B",
    PassKind.WEIGHTS: "W",
}
"""F, B (gradients of inputs, or all) or W."""


def lanes_of(orders: PassOrders) -> list[list[tuple[PassKind, int, int]]]:
    """What each rank does, in its order: passes, micro-batches, stages."""
    rows = [(PassKind(int(kind)), int(i), int(stage)) for kind, i, stage in orders.passes]
    return [rows[a:b] for a, b in zip(orders.start[:-1].tolist(), orders.start[1:].tolist(), strict=True)]


def checked_makespan(orders: PassOrders, costs: StageCosts) -> float:
    """When the last pass ends, by the checker."""
    lanes = [[(kind.name[0], i, stage) for kind, i, stage in lane] for lane in lanes_of(orders)]
    return max(max(ends) for ends in pass_ends(lanes, costs))
