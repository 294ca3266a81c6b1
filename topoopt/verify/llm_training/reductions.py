"""Families that reduce on schedules, or on rings whose rounds count: laws of the schedules, and the rate they allow.

All groups of a family begin together and take a step after the other in step, each as long as its fullest link; a
reduce-scatter and an all-gather with something between count as twice the slower of both.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.group_schedule import METHODS_OF, RINGS, GroupSchedule
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import ALLREDUCE_FAMILIES, DimensionLoad, TrainingNetwork
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.search_settings import AllReduceChoice
from topoopt.verify.laws.findings import ViolationLog
from topoopt.verify.laws.schedules import check_schedules
from topoopt.verify.llm_training.groups import MemberGroups
from topoopt.verify.llm_training.model_sizes import on_tensor_ranks, sizes_of

DIRECT = "direct-connect"


@dataclass(frozen=True)
class Vector:
    """What one AllReduce of a group of ranks reduces.

    Attributes:
        bytes: all of it.
        apart: a reduce-scatter and an all-gather, each alone.
        rounds_counted: of it, by the closed form itself.
    """

    bytes: float
    apart: bool
    rounds_counted: int


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


def check_reductions(
    findings: ViolationLog,
    problem: LlmTrainingProblem,
    strategy: ParallelStrategy,
    network: TrainingNetwork,
    groups: dict[F, MemberGroups],
    made: dict[F, tuple[GroupSchedule, ...]],
) -> dict[F, float]:
    """What is wrong with what families reduce on; bytes a second of a GPU that schedules allow."""
    where, choice = network.fabric, problem.search.allreduce
    if not rounds_counted(problem, network):
        return {}
    loads = {load.dimension: load for load in network.loads}
    if len(made) < len(network.schedules) or not set(made) <= set(groups) & set(ALLREDUCE_FAMILIES):
        findings.add("schedules", f"{where}: schedules of families that do not reduce between servers, or twice")
        return {}
    rates = {}
    for family in (one for one in ALLREDUCE_FAMILIES if one in groups):
        if family not in made:
            if choice is not AllReduceChoice.BEST:
                findings.add("schedules", f"{where}: {family.value} reduces on rings, {choice.value} is asked for")
            rounds = 2 * (max(map(len, groups[family].on)) - 1)
            _check_stated(findings, where, loads[family], RINGS, rounds)
        elif _sound(findings, problem, network, made[family], set(groups[family].on)):
            one = _Steps(problem, network, made[family], groups[family], vector_of(problem, strategy, family))
            rates[family] = one.rate()
            methods = ", ".join(sorted({each.method for each in made[family]}))
            _check_stated(findings, where, loads[family], methods, one.rounds)
    return rates


def ring_rate(problem: LlmTrainingProblem, vector: Vector, groups: MemberGroups, rate: float, hops: int) -> float:
    """What is left of the rate of rings when their rounds count."""
    rounds = max(2 * (max(map(len, groups.on)) - 1) - vector.rounds_counted, 0)
    passed = 2.0 * vector.bytes * (1.0 - 1.0 / groups.ranks)
    return passed / (passed / rate + rounds * _round_s(problem, hops))


def _round_s(problem: LlmTrainingProblem, hops: int) -> float:
    return (problem.cluster.message_latency_us + hops * problem.cluster.hop_latency_us) / 1e6


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
) -> bool:
    """Every group has one, which adds everything up once and brings it to all, over links that there are."""
    n = problem.cluster.servers
    links = np.zeros((n, n), dtype=np.int64)
    for tail, head, parallel in network.links:
        links[tail, head] = parallel
    own = ViolationLog()
    check_schedules(own, schedules, links)
    for violation in own.violations():
        findings.add(violation.code, f"{network.fabric}: {violation.message}")
    if {one.members for one in schedules} != servers or len(schedules) != len(servers):
        findings.add("schedules", f"{network.fabric}: schedules are not of all groups, each once")
        return False
    allowed = METHODS_OF[problem.search.allreduce]
    if other := sorted({one.method for one in schedules} - allowed):
        findings.add("schedules", f"{network.fabric}: schedules by {other}, {sorted(allowed)} are asked for")
        return False
    if any((one.from_bytes, one.below_bytes) != (0, None) for one in schedules):
        findings.add("schedules", f"{network.fabric}: schedules for some sizes only")
        return False
    return own.clean


class _Steps:
    """Bytes on links and through servers in every step of the schedules of a family."""

    def __init__(
        self,
        problem: LlmTrainingProblem,
        network: TrainingNetwork,
        schedules: tuple[GroupSchedule, ...],
        groups: MemberGroups,
        vector: Vector,
    ) -> None:
        self._problem, self._network, self._vector, self._groups = problem, network, vector, groups
        self._steps = max(one.schedule.steps + one.pieces - 1 for one in schedules)
        self._hops = max(len(route) - 1 for one in schedules for route in one.schedule.routes)
        # Copies in the first row, sums in the second.
        self._links: dict[tuple[int, int], Floats] = defaultdict(lambda: np.zeros((2, self._steps)))
        self._servers: dict[int, Floats] = defaultdict(lambda: np.zeros((2, self._steps)))
        for one in schedules:
            self._lay(one, groups.on[one.members] * vector.bytes / one.pieces / one.schedule.blocks.total)
        self.rounds = self._rounds()

    def _lay(self, one: GroupSchedule, unit: float) -> None:
        sends, routes = one.schedule.sends, one.schedule.routes
        size = one.schedule.blocks.units[sends.block] * unit
        for late in range(one.pieces):
            table = np.zeros((len(routes), 2, self._steps))
            np.add.at(table, (sends.route, sends.reduce.astype(np.int64), sends.step + late), size)
            for route, sent in zip(routes, table, strict=True):
                self._servers[route[0]] += sent
                for hop in itertools.pairwise(route):
                    self._links[hop] += sent
                    self._servers[hop[1]] += sent

    def _seconds(self) -> Floats:
        """float64[2, steps], of the fullest link or network inside a server."""
        problem, network = self._problem, self._network
        cluster, reached, g = problem.cluster, problem.device.reached, problem.cluster.gpus_per_server
        rate = {(tail, head): parallel * network.link_gbps * 1.25e8 for tail, head, parallel in network.links}
        busy = [sent / (rate[link] * reached.network) for link, sent in self._links.items()]
        if network.fabric == DIRECT and cluster.per_gpu and g > 1:
            inside = g * cluster.intra_server_gbps * 1.25e8 * reached.scale_up
            busy += [through * (g - 1) / g / inside for through in self._servers.values()]
        table = np.array(busy)
        alone = table.max(axis=0)
        return np.concatenate([alone, table.sum(axis=1).max(axis=0)[None]])

    def _rounds(self) -> int:
        if not self._vector.apart:
            return self._steps
        used = np.array(list(self._links.values())).max(axis=0) > 0
        return 2 * int(used.sum(axis=1).max())

    def rate(self) -> float:
        """Bytes a second of a GPU, those that it would pass on on a ring."""
        vector, groups = self._vector, self._groups
        copies, sums, together = self._seconds().sum(axis=1)
        seconds = 2.0 * max(float(copies), float(sums)) if vector.apart else float(together)
        rounds = max(self.rounds - vector.rounds_counted, 0)
        seconds += rounds * _round_s(self._problem, self._hops)
        # Ranks of one server reduce before servers do, and gather behind.
        cluster, reached = self._problem.cluster, self._problem.device.reached
        inside = cluster.intra_server_gbps * 1.25e8 * reached.scale_up
        own = max(groups.ranks / len(servers) for servers in groups.on)
        seconds += 2.0 * vector.bytes * max(1.0 - 1.0 / own, 0.0) / inside
        return 2.0 * vector.bytes * (1.0 - 1.0 / groups.ranks) / seconds
