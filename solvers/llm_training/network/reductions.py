"""What families reduce on: rings, or schedules for all their groups, by the size of one AllReduce of each family."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from solvers.collective.allreduce_options import AllReduceOption
from solvers.collective.group_options import GroupOption, GroupOptions
from solvers.llm_training.network.evaluation import EvaluatedNetwork, evaluated
from solvers.stop import Stop
from topoopt.core.group_schedule import GroupSchedule
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import ALLREDUCE_FAMILIES
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.search_settings import AllReduceChoice
from topoopt.simulate.llm_training.network.buckets import Bucket, family_buckets, rounds_counted
from topoopt.simulate.llm_training.network.groups import FamilyGroups
from topoopt.simulate.llm_training.network.links import LinkGraph
from topoopt.simulate.llm_training.network.rates import schedule_loads

Schedules = tuple[GroupSchedule, ...]


def with_schedules(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, one: EvaluatedNetwork, groups: FamilyGroups, stop: Stop
) -> EvaluatedNetwork:
    """The same links with each family on what is fastest alone of what the instance asks for.

    All groups of a family are on the same kind of schedule where they can, as they take its steps together; where the
    best is asked for, a family stays on its rings if these are as fast, their rounds counted.
    """
    choice, graph = problem.search.allreduce, one.network.graph
    own = [family for family in ALLREDUCE_FAMILIES if family in groups.collectives]
    if not own or not rounds_counted(problem, graph):
        return one
    buckets, loads = family_buckets(problem, strategy), schedule_loads(problem, graph)
    rings = evaluated(problem, strategy, replace(one.network, schedules={}), groups)
    makers = GroupOptions(choice, message_us=problem.cluster.message_latency_us, stop=stop)
    options: dict[tuple[int, ...], tuple[GroupOption, ...]] = {}
    chosen: dict[F, Schedules] = {}
    for family in own:
        sizes = _sizes(one, groups, family, buckets[family])
        for members in sizes:
            if members not in options:
                options[members] = makers.of(_network(problem, graph, members))
        least = rings.found.loads[family].taken if choice is AllReduceChoice.BEST else np.inf
        for schedules in _proposals(options, sizes):
            load = loads.load(groups.collectives[family], one.network.places, schedules, buckets[family])
            if load.taken < least:
                least, chosen[family] = load.taken, schedules
    return evaluated(problem, strategy, replace(one.network, schedules=chosen), groups) if chosen else rings


def _sizes(one: EvaluatedNetwork, groups: FamilyGroups, family: F, bucket: Bucket) -> dict[tuple[int, ...], int]:
    """Members of the groups of servers of a family -> bytes that all groups of ranks on them reduce at once."""
    found = {}
    for own in groups.collectives[family]:
        rows = np.sort(one.network.places[own.blocks], axis=1).tolist()
        found.update({tuple(row): round(n * bucket.whole_bytes) for row, n in zip(rows, own.groups, strict=True)})
    return found


def _network(problem: LlmTrainingProblem, graph: LinkGraph, members: tuple[int, ...]) -> RatedNetwork:
    """The links with the members as ranks; other servers pass on, as switches do."""
    rate = Fraction(str(graph.link_gbps)) / 8
    ends = zip(graph.tail.tolist(), graph.head.tolist(), graph.parallel.tolist(), strict=True)
    return RatedNetwork.of_links(
        ~np.isin(np.arange(graph.nodes), members),
        [(tail, head, rate * parallel) for tail, head, parallel in ends],
        latency_us=problem.cluster.hop_latency_us,
    )


def _proposals(
    options: dict[tuple[int, ...], tuple[GroupOption, ...]], sizes: dict[tuple[int, ...], int]
) -> Iterator[Schedules]:
    """For each kind schedules of that kind, where a group has any, in the pieces that are best for their size."""
    for kind in sorted({each.family for members in sizes for each in options[members]}):
        own = {
            members: [each.option for each in options[members] if each.family == kind]
            or [each.option for each in options[members]]
            for members in sizes
        }
        for place in range(max(map(len, own.values()))):
            yield tuple(
                _in_pieces(members, own[members][min(place, len(own[members]) - 1)], size)
                for members, size in sizes.items()
            )


def _in_pieces(members: tuple[int, ...], option: AllReduceOption, size: int) -> GroupSchedule:
    return GroupSchedule(members, 0, None, option.method, option.best(size).pieces, option.schedule)
