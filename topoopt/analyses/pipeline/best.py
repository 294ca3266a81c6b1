"""How far schedules of a tiny pipeline are from the best one in the memory that each of them takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from solvers.pipeline.best_order import MOST_BATCHES, MOST_RANKS, OrderTask, best_order
from solvers.stop import Stop
from topoopt.analyses.pipeline.rows import ScheduleRow
from topoopt.analyses.pipeline.run import PipelineQuestion
from topoopt.core.errors import InputError, Problem
from topoopt.core.pipeline import PipelineSchedule
from topoopt.simulate.pipeline import pipeline_time
from topoopt.simulate.pipeline.timeline import TickCosts, most_held

METHODS = ("cp-sat", "milp")
ACTIVATIONS, FOR_WEIGHTS = 34.0, 32.0
"""Bytes of a layer over s b h that a forward pass leaves, and that wait for the weights (arXiv:2401.10241, table 2)."""


def require_tiny(question: PipelineQuestion, method: str) -> None:
    """Refuse what is not solved exactly.

    Raises:
        InputError: too large, several stages a rank, an unknown method; all are listed.
    """
    shape = question.shape
    sizes = (
        ("--stages", shape.ranks, MOST_RANKS),
        ("--micro-batches", shape.micro_batches, MOST_BATCHES),
        ("--chunks", shape.chunks, 1),
    )
    problems = [
        Problem("too large for the best order", path=path, value=str(value), allowed=f"at most {most}")
        for path, value, most in sizes
        if value > most
    ]
    if question.layers is not None:
        problems.append(Problem("stages are given for the best order", path="--layers", value="", allowed="no --best"))
    if method not in METHODS:
        problems.append(Problem("unknown method", path="--method", value=method, allowed=", ".join(METHODS)))
    if problems:
        raise InputError(problems)


def against_best(question: PipelineQuestion, rows: Sequence[ScheduleRow], stop: Stop, method: str) -> list[ScheduleRow]:
    """The rows with the least time that the slowest rank can take in the same memory; DualPipe, which holds the model
    twice, is not compared."""
    shape, costs = question.shape, question.costs
    ticks = TickCosts.of(costs, shape.micro_batches)
    held, late = np.full(shape.ranks, ACTIVATIONS), np.full(shape.ranks, FOR_WEIGHTS)
    adds = np.stack([held, late - held, -late])
    done = []
    for row in rows:
        if row.schedule is PipelineSchedule.DUALPIPE:
            done.append(row)
            continue
        orders = pipeline_time(row.schedule, shape, costs, whole=True).orders
        room = float(most_held(orders, held, late).max())
        best = best_order(OrderTask(shape, ticks, adds, room, longest_rank=True), stop, method=method)
        done.append(
            replace(row, best_ms=ticks.seconds(best.ticks) * 1e3, best_bound_ms=ticks.seconds(best.bound) * 1e3)
        )
    return done
