"""What no strategy of an instance betters on a fabric, by the certificate of its search on an ideal switch.

A shape that was not searched has its own bound, as no fabric is faster than an ideal switch. Of a shape that was
searched it is the least that one of its strategies that fit takes at rates which no network of the fabric exceeds:
those of an ideal switch; where servers are joined directly, tokens of a group of k servers take no fewer hops than the
Moore bound lets them, and every hop takes up a link.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from solvers.llm_training.network.fabrics import TRAINING_FABRICS
from solvers.llm_training.records import columns_of_rows, rows_of_shape
from solvers.llm_training.shape_bounds import shape_numbers
from topoopt.core.arrays import Floats
from topoopt.core.llm_training import GpuCluster, LlmTrainingProblem
from topoopt.core.llm_training_plan import ShapeOutcome, ShapeVerdict
from topoopt.core.regular_graphs import moore_bound
from topoopt.simulate.llm_training.roofline import roofline_columns
from topoopt.simulate.llm_training.strategies import StrategyColumns
from topoopt.simulate.llm_training.transfers import GroupRates


def fabric_bound_s(
    problem: LlmTrainingProblem, fabric: str, shapes: Iterable[ShapeOutcome], value: float = np.inf
) -> float:
    """Seconds.

    Args:
        shapes: the certificate.
        value: of a plan; what takes longer anyway is not looked at.
    """
    direct = TRAINING_FABRICS[fabric].direct
    least = value
    for line in shapes:
        if line.verdict is ShapeVerdict.MEMORY:
            continue
        known = line.bound_s if line.best_s is None else line.best_s
        if known >= least:
            continue
        hops = direct and line.best_s is not None and line.shape.expert * line.shape.expert_tensor > 1
        least = min(least, _searched_s(problem, line) if hops else known)
    return least


def _searched_s(problem: LlmTrainingProblem, line: ShapeOutcome) -> float:
    """The least of the strategies of a shape that fit, at optimistic rates."""
    rows = rows_of_shape(problem, replace(line.shape, expert=1, expert_tensor=1))
    shapes = np.tile(np.array(shape_numbers(line.shape), dtype=np.float64), (len(rows), 1))
    columns = columns_of_rows(problem, shapes, rows)
    step = roofline_columns(problem, problem.device, columns, optimistic_rates(problem, columns))
    usable = problem.cluster.usable_bytes
    total = step.total if usable is None else step.total[step.memory.total <= usable]
    return float(total.min())


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
