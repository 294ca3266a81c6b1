"""Stages by rounding the linear relaxation of the stage-order program.

In the relaxation y[b, j] is how much of block b is in stage j or before. Taking for each block the first stage where
y[b, j] >= u keeps the order, for any u. Such a partition may not fit the memory and is rarely the best near it: it is
only used to sort the blocks, by stage, then by mean stage, and the order is sliced by dynamic programming, which knows
memory and finds nothing worse than the partition itself where that fits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.placement.stage_order import data_of
from formulations.placement.stage_order_arrays import build_arrays
from solvers.backends import SolverLimits, solve_guarded
from solvers.placement.order_slices import random_order
from solvers.placement.throughput import Search, offer_order, work_bound
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.verdict import StopReason

THRESHOLDS = 8
DIGITS = 6
"""Digits to which values of the relaxation count: an order must not turn on its tolerance."""


def relaxed_stages(search: Search, seed: int, stop: Stop) -> tuple[Floats | None, float, StopReason]:
    """(float64[blocks, stages] of y, None if there is no solution; a lower bound on the load; why it ended)."""
    upper = search.value if np.isfinite(search.value) else np.inf
    data = data_of(search.graph, search.settings, lower=work_bound(search.graph, search.settings), upper=upper)
    program = replace(build_arrays(data), integer=None)
    limits = SolverLimits(time_s=stop.remaining_s(), seed=seed % 2**31)
    result = solve_guarded("highs", program, limits, stop=stop)
    bound = 0.0 if result.bound is None else float(result.bound)
    if result.x is None or data.slot_of_stage is None:
        return None, bound, result.stopped_by
    first, width = 2 if data.gpipe else 1, len(data.slot_of_stage)
    table = result.x[first : first + data.blocks * width].reshape(data.blocks, width)
    return np.round(table, DIGITS), bound, result.stopped_by


def rounded_orders(search: Search, y: Floats, seed: int) -> list[list[int]]:
    """Topological orders of the blocks by thresholds of the relaxation, and by mean stages alone."""
    position = np.empty(search.graph.size)
    position[random_order(search.graph, None)] = np.arange(search.graph.size)
    mean = np.round((1.0 - y).sum(axis=1), DIGITS)
    rng = np.random.default_rng(seed)
    orders = [np.lexsort((position, mean)).tolist()]
    for u in rng.uniform(0.0, 1.0, THRESHOLDS):
        stage = (y < u).sum(axis=1)
        orders.append(np.lexsort((position, mean, stage)).tolist())
    return orders


def round_stages(search: Search, seed: int, stop: Stop) -> tuple[float, StopReason]:
    """Offer what the relaxation leads to; its bound, and why it ended."""
    y, bound, why = relaxed_stages(search, seed, stop)
    if y is None:
        return bound, why
    for order in rounded_orders(search, y, seed):
        offer_order(search, search.graph, order)
    return bound, why
