"""Interfaces that fail: GPUs without one send over those of the others in their server, which all share alike then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topoopt.core.switching import EVERY_STAGE, FailedFigures, RailJob, SwitchedStep
from topoopt.simulate.switching.shares import RailShares
from topoopt.simulate.switching.step import Delays, RailOrders, follow


def left_shares(shares: RailShares, rank: int, left: float) -> RailShares:
    """Rates where a part of the interfaces of a server of a stage is left, or of all servers.

    What is passed on round a ring goes through that server as well, and replicas run in step: the whole stage is as
    slow as it.
    """
    part = np.where((np.arange(len(shares.hops)) == rank) | (rank == EVERY_STAGE), left, 1.0)
    return replace(shares, hops=shares.hops * part, rings=shares.rings * part, inside=shares.inside * part)


def failed_figures(job: RailJob, known: RailOrders, step: SwitchedStep, rank: int, left: float) -> FailedFigures:
    """The step on the ports of a plan after a failure; passes keep their order."""
    plan, delays = step.plan, Delays.same(step.delay_s)
    late = follow(job, known, left_shares(RailShares.of(job, plan), rank, left), plan, delays, step.mode)
    electrical = follow(job, known, left_shares(RailShares.whole(job.ranks), rank, left))
    return FailedFigures(rank, late.step_s, electrical.step_s)
