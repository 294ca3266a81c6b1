"""Wait or move: what a waiting job gains by moves, against what the moved jobs lose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.shards.find import find_shard
from topoopt.core.optical_layer import OpticalLayer, ShardShape
from topoopt.core.shard_moves import MovePlan, RunningJob


@dataclass(frozen=True)
class MoveDecision:
    """Whether to move.

    Attributes:
        wait_s: until the job fits without moves; infinite: never.
        delay_s: until it fits by moves.
        cost_server_s: server-seconds the moved jobs stand still, pause times servers of each.
        saved_server_s: server-seconds the waiting job starts earlier, its servers times (wait_s - delay_s).
        pays: cost_server_s < saved_server_s.
    """

    wait_s: float
    delay_s: float
    cost_server_s: float
    saved_server_s: float
    pays: bool


def wait_s(
    layer: OpticalLayer, free: NDArray[np.bool_], running: Sequence[RunningJob], shape: ShardShape, seed: int = 0
) -> float:
    """Seconds until the search meets a shard, if running jobs end when they say and nobody else takes servers.

    0 when it fits now; infinite when it does not fit beside nothing but servers that are busy without a job here.
    Other waiting jobs are not looked at, so with a queue this is the least wait the search sees.
    """
    left = free.copy()
    count = int(left.sum())
    if count >= shape.servers and find_shard(layer, left, shape, seed) is not None:
        return 0.0
    for end in sorted({job.remaining_s for job in running}):
        for job in running:
            if job.remaining_s == end:
                left[list(job.shard.servers)] = True
                count += job.shape.servers
        if count >= shape.servers and find_shard(layer, left, shape, seed) is not None:
            return end
    return float("inf")


def decide(plan: MovePlan, servers: int, wait: float) -> MoveDecision:
    """Move when fewer server-seconds stand still than the waiting job saves.

    sum over moved jobs of pause_s * servers  <  servers of the waiting job * (wait_s - delay_s)

    Args:
        plan: the moves.
        servers: of the waiting job.
        wait: seconds until it fits without moves, see `wait_s`.
    """
    saved = servers * (wait - plan.delay_s)
    return MoveDecision(wait, plan.delay_s, plan.cost_server_s, saved, plan.cost_server_s < saved)
