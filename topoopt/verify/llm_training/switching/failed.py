"""A step after interfaces failed, followed again on the ports of the plan."""

from __future__ import annotations

from topoopt.core.switched_step import EVERY_STAGE, FailedFigures, SwitchedStep, SwitchMode
from topoopt.core.switching import RailJob
from topoopt.verify.laws.findings import ViolationLog, differs
from topoopt.verify.llm_training.switching.follow import Follower, orders_of
from topoopt.verify.llm_training.switching.ports import WHOLE, PortRates, rates_of
from topoopt.verify.llm_training.switching.ports_bound import SLACK


def check_failed(
    job: RailJob, step: SwitchedStep, gpus_per_server: int, failed: int, stated: FailedFigures
) -> tuple[str, ...]:
    """What is wrong with the figures of one failure of so many interfaces of a server."""
    orders, demand = orders_of(job), step.mode is SwitchMode.ON_DEMAND
    findings = ViolationLog()

    def rates(whole: list[PortRates]) -> list[PortRates]:
        found = []
        for rank, one in enumerate(whole):
            working = gpus_per_server - (failed if stated.rank in (rank, EVERY_STAGE) else 0)
            scaled = (rate * working / gpus_per_server for rate in (one.hop, one.ring, one.inside))
            found.append(PortRates(*scaled))
        return found

    own = rates([rates_of(job, rank, one) for rank, one in enumerate(step.plan)])
    network = rates([WHOLE] * job.ranks)
    due = Follower(job, step.plan, step.delay_s, demand=demand, rates=own, orders=orders).step().step_s
    electrical = Follower(job, [None] * job.ranks, 0.0, demand=demand, rates=network, orders=orders).step().step_s
    for name, value in (("step_s", due), ("electrical_s", electrical)):
        if differs(getattr(stated, name), value, SLACK):
            findings.add("figure", f"stage {stated.rank}: {name} comes to {value!r} s, not {getattr(stated, name)!r}")
    return tuple(map(str, findings.findings().violations))
