"""Families that reduce on schedules, or on rings whose rounds count: laws of the schedules, and the rate they allow.

All groups of a family begin together and take a step after the other in step, each as long as its fullest link; a
reduce-scatter and an all-gather with something between count as twice the slower of both.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topoopt.core.group_schedule import METHODS_OF, RINGS, GroupSchedule
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import ALLREDUCE_FAMILIES, DimensionLoad, TrainingNetwork
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.search_settings import AllReduceChoice
from topoopt.verify.laws.findings import ViolationLog
from topoopt.verify.laws.schedules import executed
from topoopt.verify.llm_training.groups import MemberGroups
from topoopt.verify.llm_training.link_loads import FamilySeconds
from topoopt.verify.llm_training.model_sizes import on_tensor_ranks, sizes_of
from topoopt.verify.llm_training.schedule_seconds import (
    Vector,
    padding,
    passed,
    schedule_seconds,
    schedule_work,
    waits_s,
)
from topoopt.verify.llm_training.work import WorkBudget


def vector_of(problem: LlmTrainingProblem, strategy: ParallelStrategy, family: F) -> Vector:
    """Activations of a micro-batch; gradients of a layer, the mean of all, as 16-bit weights with ZeRO."""
    model, s = problem.model, strategy
    if family is F.TENSOR:
        whole = 2.0 * s.micro_batch * problem.batch.length / s.context * model.hidden
        return Vector(whole, s.sequence, 2 * (s.tensor - 1).bit_length())
    sizes, size = sizes_of(model), problem.formats.gradient_bytes
    size = min(size, 2) if s.zero else size
    if family is F.DATA:
        rank = on_tensor_ranks(model, np.array([float(s.tensor)]))
        layers = sizes.dense_layers * rank.dense[0] + sizes.expert_layers * rank.routed[0]
        return Vector(float(layers) / model.layers * size, s.zero > 0, 0)
    count = 0 if model.experts is None else model.experts.count
    return Vector(sizes.expert * count / (s.expert * s.expert_tensor) * size, s.zero > 0, 0)


def rounds_counted(problem: LlmTrainingProblem, network: TrainingNetwork) -> bool:
    """Whether AllReduces have a choice; where not, they are on rings, whose rounds take no time of their own."""
    n = problem.cluster.servers
    switched = any(max(tail, head) >= n for tail, head, _ in network.links)
    return problem.search.allreduce is not AllReduceChoice.RINGS and not switched


def reducing(
    findings: ViolationLog, problem: LlmTrainingProblem, network: TrainingNetwork
) -> dict[F, tuple[GroupSchedule, ...]]:
    """Schedules by family, where there may be any."""
    if rounds_counted(problem, network):
        return {one.dimension: one.schedules for one in network.schedules}
    if network.schedules or any(load.method or load.rounds for load in network.loads):
        findings.add("schedules", f"{network.fabric}: AllReduces on schedules, rings are due")
    return {}


def with_rounds(
    findings: ViolationLog,
    problem: LlmTrainingProblem,
    strategy: ParallelStrategy,
    network: TrainingNetwork,
    groups: dict[F, MemberGroups],
    loads: dict[F, FamilySeconds],
    made: dict[F, tuple[GroupSchedule, ...]],
    budget: WorkBudget,
) -> dict[F, FamilySeconds] | None:
    """What is wrong with what families reduce on; all loads, those that reduce with their rounds.

    Args:
        loads: of all families but those that reduce on schedules.
        made: what these reduce on.

    Returns:
        None where a schedule is not sound.

    Raises:
        BeyondWorkError: a schedule takes more work than the check may do.
    """
    where, choice = network.fabric, problem.search.allreduce
    if not rounds_counted(problem, network):
        return loads
    stated = {load.dimension: load for load in network.loads}
    if len(made) < len(network.schedules) or not set(made) <= set(groups) & set(ALLREDUCE_FAMILIES):
        findings.add("schedules", f"{where}: schedules of families that do not reduce between servers, or twice")
        return None
    found = dict(loads)
    for family in (one for one in ALLREDUCE_FAMILIES if one in groups):
        vector = vector_of(problem, strategy, family)
        if family not in made:
            if choice is not AllReduceChoice.BEST:
                findings.add("schedules", f"{where}: {family.value} reduces on rings, {choice.value} is asked for")
            rounds = 2 * (max(map(len, groups[family].on)) - 1)
            _check_stated(findings, where, stated[family], RINGS, rounds)
            waits = waits_s(problem, vector, rounds, loads[family].hops) / passed(vector, groups[family])
            found[family] = replace(loads[family], waits=waits)
        elif _sound(findings, problem, network, made[family], set(groups[family].on), budget):
            load, rounds = schedule_seconds(problem, network, made[family], groups[family], vector)
            found[family] = load
            methods = ", ".join(sorted({each.method for each in made[family]}))
            _check_stated(findings, where, stated[family], methods, rounds)
        else:
            return None
    for family in set(found) - set(ALLREDUCE_FAMILIES):
        _check_stated(findings, where, stated[family], "", 0)
    return found


def _check_stated(findings: ViolationLog, where: str, load: DimensionLoad, method: str, rounds: int) -> None:
    if (load.method, load.rounds) != (method, rounds):
        text = f"{load.rounds} rounds on {load.method or 'nothing'}, {rounds} on {method} are due"
        findings.add("schedules", f"{where}: {load.dimension.value} has {text}")


def _sound(
    findings: ViolationLog,
    problem: LlmTrainingProblem,
    network: TrainingNetwork,
    schedules: tuple[GroupSchedule, ...],
    servers: set[tuple[int, ...]],
    budget: WorkBudget,
) -> bool:
    """Every group has one, which adds everything up once and brings it to all, over links that there are."""
    where = network.fabric
    if {one.members for one in schedules} != servers or len(schedules) != len(servers):
        findings.add("schedules", f"{where}: schedules are not of all groups, each once")
        return False
    allowed = METHODS_OF[problem.search.allreduce]
    if other := sorted({one.method for one in schedules} - allowed):
        findings.add("schedules", f"{where}: schedules by {other}, {sorted(allowed)} are asked for")
        return False
    if any((one.from_bytes, one.below_bytes) != (0, None) for one in schedules):
        findings.add("schedules", f"{where}: schedules for some sizes only")
        return False
    padded = [text for text in map(padding, schedules) if text]
    findings.add_each("schedules", range(len(padded)), lambda k: f"{where}: a schedule has {padded[k]}")
    if padded:
        return False
    n, links = problem.cluster.servers, len(network.links)
    budget.take(sum(schedule_work(one, n, links) for one in schedules))
    table = np.zeros((n, n), dtype=np.int64)
    for tail, head, parallel in network.links:
        table[tail, head] = parallel
    own = ViolationLog()
    for position, one in enumerate(schedules):
        executed(own, f"schedule {position}", one, table)
    for violation in own.violations():
        findings.add(violation.code, f"{where}: {violation.message}")
    return own.clean
