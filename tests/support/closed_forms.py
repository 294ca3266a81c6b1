"""Makespans in one line of arithmetic, where they are exact.

p ranks, m micro-batches, v chunks; F, B and W seconds of a micro-batch in all chunks of a rank, Q = F + B + W; c from a
stage to the next, and transfers block nobody.

    GPipe         sum_s F_s + (m-1) max F_s + sum_s (B_s + W_s) + (m-1) max (B_s + W_s) + 2c (p-1), any stages
    1F1B          p Q + (m-1) Q + 2c (p-1) + 2c (m-1 - ceil((m-1) / p)), equal stages: what is sent is waited for, as
                  rank 0 has just as many micro-batches on their way as come back in time
    interleaved   m Q + (p-1) Q / v, equal stages, c = 0, whole groups of p
    ZB-H1         m Q + (p-1) (F + B - W), equal stages, c = 0, m >= p, W <= B and W <= F
    DualPipe      m Q + (p/2-1) (F + 2 B - W), equal stages, c = 0, F = B = W

The bubbles without transfers are those of the papers (arXiv:2104.04473, 2401.10241, 2412.19437).
"""

from __future__ import annotations

import numpy as np

from topoopt.core.parallelism import PipelineSchedule, PipelineShape, StageCosts


def closed_form_s(schedule: PipelineSchedule, shape: PipelineShape, costs: StageCosts) -> float | None:
    """The makespan where the formula of the schedule is exact; None where it is not, or there is none."""
    p, m = shape.ranks, shape.micro_batches
    forward, inputs, weights = (
        part.reshape(shape.chunks, p).sum(axis=0) for part in (costs.forward_s, costs.inputs_s, costs.weights_s)
    )
    c = costs.transfer_s if p > 1 else 0.0
    if c > 0.0 and costs.blocking:
        return None
    back = inputs + weights
    if schedule is PipelineSchedule.GPIPE:
        return float(forward.sum() + back.sum() + (m - 1) * (forward.max() + back.max()) + 2.0 * c * (p - 1))
    if any(np.ptp(part) > 0.0 for part in (costs.forward_s, costs.inputs_s, costs.weights_s)):
        return None
    f, b, w = float(forward[0]), float(inputs[0]), float(weights[0])
    all_of_it = f + b + w
    match schedule:
        case PipelineSchedule.ONE_F_ONE_B:
            waits = (p - 1) + (m - 1) + (1 - m) // p
            return (p + m - 1) * all_of_it + 2.0 * c * waits
        case PipelineSchedule.INTERLEAVED if c == 0.0 and m % p == 0 and shape.group in (0, p):
            return m * all_of_it + (p - 1) * all_of_it / shape.chunks
        case PipelineSchedule.ZB_H1 if c == 0.0 and m >= p and w <= min(b, f):
            return m * all_of_it + (p - 1) * (f + b - w)
        case PipelineSchedule.DUALPIPE if c == 0.0 and f == b == w:
            return m * all_of_it + (p / 2 - 1) * (f + 2.0 * b - w)
    return None
