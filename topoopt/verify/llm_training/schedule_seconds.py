"""What schedules of AllReduces put on links: sizes that the file states, steps that groups take together, seconds.

All groups of a family begin together and take a step after the other in step, each as long as its fullest link; a
reduce-scatter and an all-gather with something between count as twice the slower of both.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.group_schedule import GroupSchedule
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import TrainingNetwork
from topoopt.verify.laws.findings import as_int
from topoopt.verify.llm_training.groups import MemberGroups, Pairs
from topoopt.verify.llm_training.link_loads import BYTES_OF_GBIT, DIRECT, FamilySeconds

MOST_UNITS = 2.0**62
"""Sums of units up to this are exact in 64 bits."""

ENTRIES_PER_EVENT = 50
"""Numbers of an array that are looked at in the time of an event."""

MOST_ENTRIES = 20_000_000
"""Numbers of the arrays of one schedule: half a GB."""

Node = tuple[int, int]
"""A link (tail, head), or the network inside a server (server, server)."""


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


def passed(vector: Vector, groups: MemberGroups) -> float:
    """Bytes that a GPU passes on on a ring, by which rates are counted."""
    return 2.0 * vector.bytes * (1.0 - 1.0 / groups.ranks)


def waits_s(problem: LlmTrainingProblem, vector: Vector, rounds: int, hops: int) -> float:
    """Latencies of rounds beyond those that the closed form counts."""
    of_round = (problem.cluster.message_latency_us + hops * problem.cluster.hop_latency_us) / 1e6
    return max(rounds - vector.rounds_counted, 0) * of_round


def padding(one: GroupSchedule) -> str:
    """What a schedule has beyond what its group needs; empty: nothing. Looks at sizes before anything is executed."""
    sends, routes, members = one.schedule.sends, one.schedule.routes, len(one.members)
    blocks, needed = len(one.schedule.blocks.units), 2 * (members - 1)
    pieces = as_int(one.pieces)
    if pieces is None or pieces < 1:
        return f"{one.pieces!r} pieces"
    if not blocks or len(sends) != needed * blocks:
        return f"{len(sends)} messages for {blocks} blocks, {needed} for each are needed"
    if len(np.unique(sends.route)) != len(routes) or len(set(routes)) != len(routes):
        return "routes that no message takes, or one twice"
    if any(len(set(route)) != len(route) for route in routes):
        return "a route that meets a server twice"
    if sends.step.min() < 0 or len(np.unique(sends.step)) != one.schedule.steps:
        return "steps in which nothing is sent"
    if not one.schedule.blocks.units.astype(np.float64).sum() * needed * pieces < MOST_UNITS:
        return "more units than can be counted"
    return ""


def schedule_work(one: GroupSchedule, servers: int, links: int) -> float:
    """Events that executing a schedule takes, and adding up its loads; inf where its arrays would be too large."""
    routes, blocks = one.schedule.routes, len(one.schedule.blocks.units)
    hops = sum(map(len, routes)) + len(one.schedule.sends) * max(map(len, routes), default=0)
    entries = blocks * servers + 2 * (one.schedule.steps + one.pieces) * (links + servers)
    return hops + links + entries / ENTRIES_PER_EVENT if entries <= MOST_ENTRIES else math.inf


def schedule_seconds(
    problem: LlmTrainingProblem,
    network: TrainingNetwork,
    schedules: tuple[GroupSchedule, ...],
    groups: MemberGroups,
    vector: Vector,
) -> tuple[FamilySeconds, int]:
    """Of sound schedules, for each byte that a GPU would pass on on a ring; and the rounds of one AllReduce."""
    cluster, reached = problem.cluster, problem.device.reached
    g = cluster.gpus_per_server
    own = network.fabric == DIRECT and cluster.per_gpu and g > 1
    rate: dict[Node, float] = {
        (tail, head): parallel * network.link_gbps * BYTES_OF_GBIT * reached.network
        for tail, head, parallel in network.links
    }
    of_gpu = cluster.intra_server_gbps * BYTES_OF_GBIT * reached.scale_up
    steps = max(one.steps for one in schedules)
    seconds: dict[Node, Floats] = defaultdict(lambda: np.zeros((2, steps)))
    begun: dict[int, float] = defaultdict(float)
    for one in schedules:
        unit = groups.on[one.members] * vector.bytes / one.pieces / one.schedule.blocks.total
        inside = unit * (g - 1) / g / (g * of_gpu) if own else 0.0  # met by the interface of any GPU
        for link, units in _units(one):
            seconds[link][:, : one.steps] += units * (unit / rate[link])
            if inside:
                seconds[link[1], link[1]][:, : one.steps] += units * inside
        for server, units in _begun(one):
            begun[server] += float(units.sum()) * unit
            if inside:
                seconds[server, server][:, : one.steps] += units * inside
    return _family(problem, schedules, groups, vector, seconds, max(begun.values()))


def _family(
    problem: LlmTrainingProblem,
    schedules: tuple[GroupSchedule, ...],
    groups: MemberGroups,
    vector: Vector,
    seconds: dict[Node, Floats],
    begun: float,
) -> tuple[FamilySeconds, int]:
    """Groups in step, those of one server before and behind what servers do."""
    slowest = np.zeros((3, max(one.steps for one in schedules)))
    for parts in seconds.values():
        np.maximum(slowest, np.concatenate([parts, parts.sum(axis=0, keepdims=True)]), out=slowest)
    sums, copies, together = slowest.sum(axis=1).tolist()
    if vector.apart:
        taken, rounds = 2.0 * max(sums, copies), 2 * int((slowest[:2] > 0).sum(axis=1).max())
    else:
        taken, rounds = together, slowest.shape[1]
    hops = max(len(route) - 1 for one in schedules for route in one.schedule.routes)
    cluster, reached = problem.cluster, problem.device.reached
    local = max(groups.ranks / len(servers) for servers in groups.on)
    inside = 2.0 * vector.bytes * max(1.0 - 1.0 / local, 0.0)
    taken += waits_s(problem, vector, rounds, hops)
    taken += inside / (cluster.intra_server_gbps * BYTES_OF_GBIT * reached.scale_up)
    each = passed(vector, groups)
    on_links: Pairs = {link: float(parts.sum()) / each for link, parts in seconds.items()}
    waits = max(taken / each - max(on_links.values()), 0.0)
    return FamilySeconds(on_links, begun / each, hops, waits), rounds


def _units(one: GroupSchedule) -> Iterator[tuple[Node, Ints]]:
    """int64[2, steps] over each link: sums, then copies."""
    links = sorted({hop for route in one.schedule.routes for hop in itertools.pairwise(route)})
    number = {link: place for place, link in enumerate(links)}
    sends = one.schedule.sends
    table = np.zeros((len(links), 2, one.schedule.steps), dtype=np.int64)
    size = one.schedule.blocks.units[sends.block]
    longest = max(map(len, one.schedule.routes))
    for hop in range(longest - 1):
        on = np.array(
            [number[route[hop], route[hop + 1]] if hop + 1 < len(route) else -1 for route in one.schedule.routes]
        )[sends.route]
        there = on >= 0
        phase = 1 - sends.reduce[there].astype(np.int64)
        np.add.at(table, (on[there], phase, sends.step[there]), size[there])
    for link, units in zip(links, table, strict=True):
        yield link, in_pieces(units, one.pieces)


def _begun(one: GroupSchedule) -> Iterator[tuple[int, Ints]]:
    """int64[2, steps] that each server begins to send: sums, then copies."""
    sends = one.schedule.sends
    servers, place = np.unique(sends.tail, return_inverse=True)
    table = np.zeros((len(servers), 2, one.schedule.steps), dtype=np.int64)
    phase = 1 - sends.reduce.astype(np.int64)
    np.add.at(table, (place.ravel(), phase, sends.step), one.schedule.blocks.units[sends.block])
    for server, units in zip(servers.tolist(), table, strict=True):
        yield server, in_pieces(units, one.pieces)


def in_pieces(units: Ints, pieces: int) -> Ints:
    """Every piece does what whole blocks would, a step behind the one before."""
    steps = units.shape[1]
    total = np.zeros((2, steps + pieces), dtype=np.int64)
    np.cumsum(units, axis=1, out=total[:, 1 : steps + 1])
    total[:, steps + 1 :] = total[:, steps : steps + 1]
    found = total[:, 1:].copy()
    found[:, pieces:] -= total[:, 1:steps]
    return found
