"""The network of a plan: of the form that it claims, rings and routes that carry all groups, every figure anew.

Groups are found rank by rank and bytes are laid on links path by path, with code of its own.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import ALLREDUCE_FAMILIES, FabricOutcome, TrainingNetwork
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.findings import ViolationLog
from topoopt.verify.llm_training.forms import check_form
from topoopt.verify.llm_training.groups import MemberGroups, groups_of
from topoopt.verify.llm_training.iteration import given_rates, seconds_of
from topoopt.verify.llm_training.link_loads import FamilySeconds, family_seconds
from topoopt.verify.llm_training.network_rates import as_rates, free, rates_alone, rates_shared
from topoopt.verify.llm_training.reductions import (
    DIRECT,
    check_reductions,
    reducing,
    ring_rate,
    rounds_counted,
    vector_of,
)
from topoopt.verify.llm_training.space import records_of, row_of
from topoopt.verify.llm_training.step import recomputed
from topoopt.verify.llm_training.transfers import DimensionRates

RELATIVE = Tolerance.ROUNDING.relative
BYTES_OF = {
    F.TENSOR: "tensor_sent_bytes", F.CONTEXT: "context_sent_bytes", F.EXPERT: "expert_crossing_sent_bytes",
    F.PIPELINE: "pipeline_sent_bytes", F.DATA: "data_dense_sent_bytes", F.EXPERT_DATA: "data_expert_sent_bytes",
}  # fmt: skip
NO_TIME = 1e18
"""Bytes a second of transfers that take no time."""

Loads = dict[F, FamilySeconds]
Rates = dict[F, float]


def check_network(findings: ViolationLog, problem: LlmTrainingProblem, outcome: FabricOutcome) -> DimensionRates | None:
    """All that a network breaks, and figures that it does not give; its rates, None: nothing is to be made of it."""
    network, strategy = outcome.plan.network, outcome.plan.strategy
    where, servers = network.fabric, list(range(problem.cluster.servers))
    if sorted(network.places or servers) != servers:
        findings.add("places", f"{where}: ranks do not stand on every server once")
        return None
    if not check_form(findings, problem, outcome):
        return None
    groups = groups_of(strategy, network.places or tuple(servers), problem.cluster.gpus_per_server)
    made = reducing(findings, problem, network)
    loads = family_seconds(findings, problem, network, strategy, groups, set(made))
    due = set(loads) | set(made)
    if {load.dimension for load in network.loads} != due or len(network.loads) != len(due):
        findings.add(
            "loads", f"{where}: the families that send between servers are {', '.join(sorted(due))}, each once"
        )
        return None
    laid = set(made) if where == DIRECT else set()
    if not {rings.dimension for rings in network.rings} <= set(loads) | laid:
        findings.add("rings", f"{where}: rings of a family that has none between servers")
    if rounds_counted(problem, network):
        on_schedules = check_reductions(findings, problem, strategy, network, groups, made)
        _check_most(findings, problem, outcome, groups, loads, on_schedules)
        rates = _stated_rates(problem, network, strategy, loads)
    else:
        alone = rates_alone(problem, strategy, loads)
        shared = rates_shared(problem, strategy, loads, alone)
        rates = as_rates(problem, records_of([row_of(strategy)]), shared, loads)
        _check_loads(findings, problem, outcome, loads, alone, shared, rates)
    return rates


def _check_loads(
    findings: ViolationLog,
    problem: LlmTrainingProblem,
    outcome: FabricOutcome,
    loads: Loads,
    alone: Rates,
    shared: Rates,
    rates: DimensionRates,
) -> None:
    """What every family asks for and gets."""
    where, r = outcome.plan.network.fabric, records_of([row_of(outcome.plan.strategy)])
    due = recomputed(problem, [outcome.plan.strategy], partial(given_rates, rates))
    total = float(due.total[0])
    for load in outcome.plan.network.loads:
        family = load.dimension
        sent = float(due.sent[BYTES_OF[family]][0])
        hidden = float(seconds_of(problem, r, partial(given_rates, free(rates, family, NO_TIME)))[0])
        rows = (
            ("bytes_sent", load.bytes_sent, sent * loads[family].sent, 0.0),
            ("seconds", load.seconds, sent / alone[family], 0.0),
            ("gbytes_per_s", load.gbytes_per_s, alone[family] / 1e9, 0.0),
            ("shared_gbytes_per_s", load.shared_gbytes_per_s, shared[family] / 1e9, 0.0),
            ("exposed_s", load.exposed_s, max(0.0, total - hidden), total),
        )
        for name, stated, value, scale in rows:
            if not abs(stated - value) <= RELATIVE * max(value, scale):
                findings.add("rates", f"{where}: {name} of {family} is {stated!r}, {value!r} is due")
        if load.hops != loads[family].hops:
            findings.add("loads", f"{where}: the longest way of {family} has {loads[family].hops} hops")


def _check_most(
    findings: ViolationLog,
    problem: LlmTrainingProblem,
    outcome: FabricOutcome,
    groups: dict[F, MemberGroups],
    loads: Loads,
    on_schedules: Rates,
) -> None:
    """Where AllReduces have a choice, no family gets more than its links or its schedules give."""
    network, strategy = outcome.plan.network, outcome.plan.strategy
    for load in network.loads:
        family = load.dimension
        if family in loads:
            most = 1.0 / loads[family].fullest if loads[family].fullest > 0 else np.inf
            if family in ALLREDUCE_FAMILIES and load.method:
                vector = vector_of(problem, strategy, family)
                most = ring_rate(problem, vector, groups[family], most, loads[family].hops)
        else:
            most = on_schedules.get(family, 0.0)
        if load.gbytes_per_s * 1e9 > most * (1.0 + RELATIVE):
            text = f"{network.fabric}: {family} gets {most / 1e9!r} GB/s of the links, not {load.gbytes_per_s!r}"
            findings.add("rates", text)
        if load.shared_gbytes_per_s > load.gbytes_per_s * (1.0 + RELATIVE):
            findings.add("rates", f"{network.fabric}: {family} gets more beside others than alone")
        if family in loads and load.hops != loads[family].hops:
            findings.add("loads", f"{network.fabric}: the longest way of {family} has {loads[family].hops} hops")
    figures = "bytes_sent, seconds, exposed_s, gbytes_per_s, shared_gbytes_per_s"
    findings.leave_out(
        f"{figures} on {network.fabric}", "of families beside schedules of AllReduces only limits are known"
    )


def _stated_rates(
    problem: LlmTrainingProblem, network: TrainingNetwork, strategy: ParallelStrategy, loads: Loads
) -> DimensionRates:
    """Those stated, which are no more than those of the links."""
    stated = {load.dimension: load.shared_gbytes_per_s * 1e9 for load in network.loads}
    hops = {load.dimension: FamilySeconds({}, 0.0, load.hops) for load in network.loads}
    return as_rates(problem, records_of([row_of(strategy)]), stated, {**loads, **hops})
