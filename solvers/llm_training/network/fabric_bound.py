"""What no strategy of an instance betters on a fabric, by the certificate of its search on an ideal switch.

A shape that is left has its own bound, and no other strategy is faster than the best on an ideal switch: orders stay
the same on any fabric, and no pass, hop or reduction takes less than there. Where servers are joined directly, tokens
of a group of k servers take no fewer hops than the Moore bound lets them, and every hop takes up a link: the bound is
the least that a strategy that fits takes at such rates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from solvers.llm_training.network.fabrics import TRAINING_FABRICS
from solvers.llm_training.records import rows_of_shape
from solvers.llm_training.row_strategies import columns_of_rows
from solvers.llm_training.shape_bounds import shape_numbers
from topoopt.core.arrays import Floats
from topoopt.core.llm_training import GpuCluster, LlmTrainingProblem
from topoopt.core.llm_training_plan import ShapeOutcome, ShapeVerdict, StrategyShape
from topoopt.core.regular_graphs import moore_bound
from topoopt.simulate.llm_training.iteration_times import iteration_times
from topoopt.simulate.llm_training.ledger import ledger
from topoopt.simulate.llm_training.order_bound import order_bounds
from topoopt.simulate.llm_training.stage_parts import stage_parts
from topoopt.simulate.llm_training.strategies import StrategyColumns
from topoopt.simulate.llm_training.transfers import GroupRates


def fabric_bound_s(
    problem: LlmTrainingProblem, fabric: str, shapes: Iterable[ShapeOutcome], best_s: float, value: float
) -> float:
    """Seconds.

    Args:
        shapes: the certificate.
        best_s: of the fastest strategy on an ideal switch.
        value: of a plan; what takes longer anyway is not looked at.
    """
    lines = [line for line in shapes if line.verdict is not ShapeVerdict.MEMORY and line.bound_s < value]
    left = [line.bound_s for line in lines if line.verdict is not ShapeVerdict.SEARCHED]
    if not TRAINING_FABRICS[fabric].direct or problem.model.experts is None:
        return min([best_s, value, *(line.bound_s for line in lines if line.verdict is ShapeVerdict.LEFT)])
    searched = [line for line in lines if line.verdict is ShapeVerdict.SEARCHED]
    least = value
    for line in sorted(searched, key=lambda line: line.bound_s):
        if line.bound_s < least:
            least = min(least, _searched_s(problem, line.shape, least))
    return min([least, *left])


def _searched_s(problem: LlmTrainingProblem, shape: StrategyShape, least: float) -> float:
    """The least of the strategies of a shape that fit, at optimistic rates; inf where none is below what is known."""
    rows = rows_of_shape(problem, replace(shape, expert=1, expert_tensor=1))
    shapes = np.tile(np.array(shape_numbers(shape), dtype=np.float64), (len(rows), 1))
    columns = columns_of_rows(problem, shapes, rows)
    usable = problem.cluster.usable_bytes
    if usable is not None:
        columns = columns.rows(np.flatnonzero(ledger(problem, columns).total <= usable))
    if not len(columns.tensor):
        return np.inf
    parts = stage_parts(problem, problem.device, columns, optimistic_rates(problem, columns))
    columns = columns.rows(np.flatnonzero(order_bounds(problem, columns, parts) < least))
    if not len(columns.tensor):
        return np.inf
    return float(iteration_times(problem, problem.device, columns, optimistic_rates(problem, columns)).min())


def optimistic_rates(problem: LlmTrainingProblem, columns: StrategyColumns) -> GroupRates:
    """Rates that no direct links of the cluster exceed: every byte of an exchange takes up as many links as hops."""
    cluster = problem.cluster
    ideal = GroupRates.of(cluster, problem.device.reached, columns)
    servers = np.maximum(1.0, columns.expert * columns.expert_tensor // cluster.gpus_per_server)
    hops = {count: _mean_hops(int(count), cluster) for count in np.unique(servers).tolist()}
    mean: Floats = np.array([hops[count] for count in servers.tolist()])
    return replace(ideal, expert=ideal.expert / mean)


def _mean_hops(servers: int, cluster: GpuCluster) -> float:
    """Of the ways from a server to all others of its group, at least."""
    if servers <= cluster.degree + 1:
        return 1.0
    return moore_bound(servers, max(2, cluster.degree), cluster.links).distances / (servers - 1)
