"""What no strategy is below on a fabric: by the lines of the certificate, and by the hops of tokens on direct links."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.llm_training import GpuCluster, LlmTrainingProblem
from topoopt.core.llm_training_plan import DIRECT_FABRICS, ShapeVerdict
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.verify.llm_training.space import Records
from topoopt.verify.llm_training.transfers import DimensionRates, ideal_rates


def proven_bound(solution: LlmTrainingSolution, fabric: str, value: float, hopped: float) -> float:
    """Seconds that no strategy is below, by lines that hold.

    Args:
        value: of the plan.
        hopped: the fastest of shapes that were searched where tokens take the hops that direct links need.
    """
    direct = fabric in DIRECT_FABRICS
    verdicts = (ShapeVerdict.LEFT, ShapeVerdict.BOUND) if direct else (ShapeVerdict.LEFT,)
    lines = [line.bound_s for line in solution.shapes if line.verdict in verdicts]
    return min([value, hopped if direct else solution.ranked[0].iteration_time_s, *lines])


def hopped_rates(problem: LlmTrainingProblem, r: Records) -> DimensionRates:
    """Rates on an ideal switch, but that a byte to an expert takes up as many interfaces as links on its way."""
    ideal, g = ideal_rates(problem, r), problem.cluster.gpus_per_server
    counts, place = np.unique(np.maximum(1, r.x * r.y // g), return_inverse=True)
    hops: Floats = np.array([_hops(int(count), problem.cluster) for count in counts])
    return replace(ideal, expert=ideal.expert / hops[place])


def _hops(servers: int, cluster: GpuCluster) -> float:
    """Least mean distance from a server to the others of its group.

    Links to d servers, from each of these to d more, or to d - 1 where one leads back (Hoffman and Singleton 1960).
    """
    degree = max(2, cluster.degree)
    further = degree - (1 if cluster.links == "bidirectional" else 0)
    left, ring, away, total = servers - 1, degree, 1, 0
    while left > 0:
        here = min(left, ring)
        total += here * away
        left, ring, away = left - here, ring * further, away + 1
    return total / (servers - 1) if servers > 1 else 1.0
