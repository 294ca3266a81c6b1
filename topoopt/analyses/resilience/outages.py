"""Throughput of a plan over days on which servers are down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.failures import Copies, OutageRow, OutageStudy
from topoopt.core.result import Result
from topoopt.verify.failures import copies_up, servers_exchanged
from topoopt.workloads.cluster_draws import server_outages


def copies_of(solution: Result[Any, Any]) -> Copies:
    """Of the plan of a solution.

    Raises:
        InputError: a server holds parts of several copies.
    """
    strategy, cluster = solution.plan.strategy, solution.figures.problem.cluster
    ranks = max(strategy.tensor * strategy.context, strategy.expert * strategy.expert_tensor) * strategy.pipeline
    if ranks % cluster.gpus_per_server:
        allowed = f"multiples of the {cluster.gpus_per_server} GPUs of a server"
        raise InputError([Problem("GPUs of a copy of the model share a server", value=str(ranks), allowed=allowed)])
    return Copies(strategy.gpus // ranks, ranks // cluster.gpus_per_server)


def outage_study(solution: Result[Any, Any], spares: Sequence[int], days: int, seed: int) -> OutageStudy:
    """Draw days, and follow the copies of the model through them.

    Raises:
        InputError: the plan is not made of whole servers.
        CheckError: another count of the copies differs.
    """
    copies = copies_of(solution)

    def down_of(number: int) -> Bools:
        return server_outages(copies.number * copies.servers_each + number, days, np.random.default_rng(seed))

    asked = [(0, False), *((number, True) for number in spares)]
    found = [_row(solution, copies, down_of(number), number, circuits=circuits) for number, circuits in asked]
    down = tuple(down_of(0).sum(axis=1).tolist())
    return OutageStudy(
        solution.name, copies, seed, down, tuple(row for row, _ in found), tuple(left for _, left in found)
    )


def _row(
    solution: Result[Any, Any], copies: Copies, down: Bools, spares: int, *, circuits: bool
) -> tuple[OutageRow, tuple[float, ...]]:
    up = _copies_up(down, copies, circuits=circuits)
    exchanged = _exchanged(down, up * copies.servers_each) if circuits else 0
    again = copies_up(down, copies.number, copies.servers_each, circuits=circuits)
    if up.tolist() != again or (circuits and exchanged != servers_exchanged(down, again, copies.servers_each)):
        raise CheckError("copies of the model that are up are counted otherwise by the checker")
    left: Floats = up / copies.number
    part = np.sort(left)
    p99 = float(part[int(0.01 * len(part))])
    step = solution.objective.value
    row = OutageRow(
        spares=spares,
        circuits=circuits,
        mean=float(part.mean()),
        p99=p99,
        worst=float(part[0]),
        whole_days=float((part >= 1.0).mean()),
        exchanged=exchanged / max(len(down) - 1, 1),
        p99_step_s=step / p99 if p99 else None,
        worst_step_s=step / float(part[0]) if part[0] else None,
    )
    return row, tuple(left.tolist())


def _exchanged(down: Bools, needed: Ints) -> int:
    """Servers that come in over all days but the first: those in use stay while they are up."""
    used, found = np.zeros(down.shape[1], dtype=np.bool_), 0
    for day, count in enumerate(needed.tolist()):
        order = np.argsort(np.where(down[day], 2, np.where(used, 0, 1)), kind="stable")
        chosen = np.zeros_like(used)
        chosen[order[:count]] = True
        found += int((chosen & ~used).sum()) if day else 0
        used = chosen
    return found


def _copies_up(down: Bools, copies: Copies, *, circuits: bool) -> Ints:
    """int64[days]."""
    if circuits:
        return np.asarray(np.minimum(copies.number, (~down).sum(axis=1) // copies.servers_each), dtype=np.int64)
    own = down[:, : copies.number * copies.servers_each].reshape(len(down), copies.number, copies.servers_each)
    return np.asarray((~own.any(axis=2)).sum(axis=1), dtype=np.int64)
