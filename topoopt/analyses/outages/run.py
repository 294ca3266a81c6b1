"""Throughput of a plan over days on which servers are down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.verify.failures.outage_units import copies_up
from topoopt.workloads.server_outages import server_outages


@dataclass(frozen=True)
class OutageRow:
    """Days with so many spare servers.

    Attributes:
        spares: servers beside those of the plan.
        circuits: whether any servers make a copy of the model.
        mean, p99, worst: part of the throughput of the plan: mean of the days, what 99 % of them reach, least.
        whole_days: part of the days on which nothing is missing.
        p99_step_s, worst_step_s: seconds for as many sequences as an iteration of the plan takes; None: none is done.
    """

    spares: int
    circuits: bool
    mean: float
    p99: float
    worst: float
    whole_days: float
    p99_step_s: float | None
    worst_step_s: float | None


@dataclass(frozen=True)
class Copies:
    """Whole copies of a model that a plan has: experts are on as many ranks as share them.

    Attributes:
        number: of them.
        servers_each: that hold one.
    """

    number: int
    servers_each: int


def copies_of(solution: LlmTrainingSolution) -> Copies:
    """Of the plan of a solution.

    Raises:
        InputError: a server holds parts of several copies.
    """
    strategy, setting = solution.plan.strategy, solution.setting
    ranks = max(strategy.tensor * strategy.context, strategy.expert * strategy.expert_tensor) * strategy.pipeline
    if ranks % setting.gpus_per_server:
        allowed = f"multiples of the {setting.gpus_per_server} GPUs of a server"
        raise InputError([Problem("GPUs of a copy of the model share a server", value=str(ranks), allowed=allowed)])
    return Copies(strategy.gpus // ranks, ranks // setting.gpus_per_server)


def outage_rows(solution: LlmTrainingSolution, spares: Sequence[int], days: int, seed: int) -> list[OutageRow]:
    """Without spare servers and circuits, then with circuits for each number of spare servers.

    Raises:
        InputError: the plan is not made of whole servers.
        CheckError: another count of the copies differs.
    """
    copies = copies_of(solution)

    def row(number: int, *, circuits: bool) -> OutageRow:
        servers = copies.number * copies.servers_each + number
        down = server_outages(servers, days, np.random.default_rng(seed))
        return _row(solution, copies, down, number, circuits=circuits)

    return [row(0, circuits=False), *(row(number, circuits=True) for number in spares)]


def _row(solution: LlmTrainingSolution, copies: Copies, down: Bools, spares: int, *, circuits: bool) -> OutageRow:
    up = _copies_up(down, copies, circuits=circuits)
    if up.tolist() != copies_up(down, copies.number, copies.servers_each, circuits=circuits):
        raise CheckError("copies of the model that are up are counted otherwise by the checker")
    part: Floats = np.sort(up / copies.number)
    p99 = float(part[int(0.01 * len(part))])
    step = solution.objective.value
    return OutageRow(
        spares=spares,
        circuits=circuits,
        mean=float(part.mean()),
        p99=p99,
        worst=float(part[0]),
        whole_days=float((part >= 1.0).mean()),
        p99_step_s=step / p99 if p99 else None,
        worst_step_s=step / float(part[0]) if part[0] else None,
    )


def _copies_up(down: Bools, copies: Copies, *, circuits: bool) -> Ints:
    """int64[days]."""
    if circuits:
        return np.asarray(np.minimum(copies.number, (~down).sum(axis=1) // copies.servers_each), dtype=np.int64)
    own = down[:, : copies.number * copies.servers_each].reshape(len(down), copies.number, copies.servers_each)
    return np.asarray((~own.any(axis=2)).sum(axis=1), dtype=np.int64)
