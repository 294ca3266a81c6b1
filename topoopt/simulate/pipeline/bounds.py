"""What no order of the passes of a pipeline is below, one or several stages a rank.

Rank r cannot begin before the forward passes of the stages before its first one, and then has all its work to do; and
between its first forward and its last backward pass lie all forward and backward passes of its own, while the last
backward pass still goes through the stages before. Backward passes count whole where they are not split, else only what
the stage before waits for.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.parallelism import PipelineShape, StageCosts


def makespan_bound_s(shape: PipelineShape, costs: StageCosts, *, split: bool = True) -> float:
    """Seconds; stage j p + r is on rank r.

    Args:
        split: whether gradients of weights may be passes of their own.
    """
    p, m = shape.ranks, shape.micro_batches
    back = costs.inputs_s if split else costs.inputs_s + costs.weights_s
    hop = costs.transfer_s if p > 1 else 0.0
    rank = np.arange(p)
    ahead = np.concatenate([[0.0], np.cumsum(costs.forward_s)])[:p] + hop * rank
    behind = np.concatenate([[0.0], np.cumsum(back)])[:p] + hop * rank

    def of_ranks(times: np.ndarray) -> np.ndarray:
        return np.asarray(times.reshape(shape.chunks, p).sum(axis=0))

    work = m * of_ranks(costs.forward_s + costs.inputs_s + costs.weights_s)
    chain = m * of_ranks(costs.forward_s + back)
    return float(max((ahead + work).max(), (ahead + chain + behind).max()))
