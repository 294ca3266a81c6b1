"""A step one of whose stages lags behind, followed again on the ports of the plan."""

from __future__ import annotations

from dataclasses import replace

from topoopt.core.switched_step import StragglerFigures, SwitchedStep, SwitchMode
from topoopt.core.switching import RailJob
from topoopt.verify.laws.findings import ViolationLog, differs
from topoopt.verify.llm_training.switching.follow import Follower, orders_of
from topoopt.verify.llm_training.switching.ports_bound import SLACK


def check_straggler(job: RailJob, step: SwitchedStep, slowdown: float, stated: StragglerFigures) -> tuple[str, ...]:
    """What is wrong with the figures of one stage; passes keep the order that they have without it."""
    own = [stage % job.ranks == stated.rank for stage in range(job.ranks * job.chunks)]
    longer = [slowdown if one else 1.0 for one in own]
    exchange = job.exchange
    if exchange is not None:
        exchange = tuple(
            replace(one, head_s=one.head_s * by, tail_s=one.tail_s * by)
            for one, by in zip(exchange, longer, strict=True)
        )
    forward, inputs, weights = (
        tuple(value * by for value, by in zip(times, longer, strict=True))
        for times in (job.forward_s, job.inputs_s, job.weights_s)
    )
    slow = replace(job, exchange=exchange, forward_s=forward, inputs_s=inputs, weights_s=weights)
    orders, demand = orders_of(job), step.mode is SwitchMode.ON_DEMAND
    findings = ViolationLog()
    for name, ports, delay_s in (
        ("step_s", step.plan, step.delay_s),
        ("electrical_s", [None] * job.ranks, 0.0),
    ):
        value = Follower(slow, ports, delay_s, demand=demand, orders=orders).step().step_s
        if differs(getattr(stated, name), value, SLACK):
            findings.add("figure", f"stage {stated.rank}: {name} comes to {value!r} s, not {getattr(stated, name)!r}")
    return tuple(map(str, findings.findings().violations))
