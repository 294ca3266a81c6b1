"""The network of a plan: of the form that it claims, rings and routes that carry all groups, every figure anew.

Groups are found rank by rank and bytes are laid on links path by path, with code of its own.
"""

from __future__ import annotations

from functools import partial

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import FabricOutcome
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.findings import ViolationLog
from topoopt.verify.llm_training.forms import check_form
from topoopt.verify.llm_training.groups import groups_of
from topoopt.verify.llm_training.iteration import given_rates, seconds_of
from topoopt.verify.llm_training.link_loads import DIRECT, FamilySeconds, family_seconds
from topoopt.verify.llm_training.network_rates import as_rates, free, rates_alone, rates_shared
from topoopt.verify.llm_training.reductions import reducing, with_rounds
from topoopt.verify.llm_training.space import records_of, row_of
from topoopt.verify.llm_training.step import recomputed
from topoopt.verify.llm_training.transfers import DimensionRates
from topoopt.verify.llm_training.work import WorkBudget

RELATIVE = Tolerance.ROUNDING.relative
BYTES_OF = {
    F.TENSOR: "tensor_sent_bytes", F.CONTEXT: "context_sent_bytes", F.EXPERT: "expert_crossing_sent_bytes",
    F.PIPELINE: "pipeline_sent_bytes", F.DATA: "data_dense_sent_bytes", F.EXPERT_DATA: "data_expert_sent_bytes",
}  # fmt: skip
NO_TIME = 1e18
"""Bytes a second of transfers that take no time."""

Loads = dict[F, FamilySeconds]
Rates = dict[F, float]


def check_network(
    findings: ViolationLog, problem: LlmTrainingProblem, outcome: FabricOutcome, budget: WorkBudget | None = None
) -> DimensionRates | None:
    """All that a network breaks, and figures that it does not give.

    Args:
        budget: events that may be spent; None: as many as any check.

    Returns:
        its rates; None: nothing is to be made of it.

    Raises:
        BeyondWorkError: it takes more work than is left.
    """
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
    reduced = with_rounds(findings, problem, strategy, network, groups, loads, made, budget or WorkBudget())
    if reduced is None:
        return None
    alone = rates_alone(problem, strategy, reduced)
    shared = rates_shared(problem, strategy, reduced, alone)
    rates = as_rates(problem, records_of([row_of(strategy)]), shared, reduced)
    _check_loads(findings, problem, outcome, reduced, alone, shared, rates)
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
