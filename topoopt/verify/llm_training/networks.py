"""Constraints of the network of a plan, and the rates that it gives.

A network has the links of the fabric that it names (`fabrics`), rings and routes that carry all groups, and sound
schedules. Bytes are put on links path by path.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.collective import METHODS_OF, RINGS, GroupSchedule
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import (
    ALLREDUCE_FAMILIES,
    REGIONAL,
    RING_FAMILIES,
    FabricPlan,
    NetworkPlan,
    ServerRoute,
)
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import RANK_ORDER, ParallelStrategy
from topoopt.core.search_settings import AllReduceChoice
from topoopt.verify.checker import ViolationLog, WorkBudget, as_int
from topoopt.verify.laws.schedules import executed
from topoopt.verify.llm_training.costs import (
    DimensionRates,
    dense_layers,
    ideal_rates,
    inner_rank,
    latency,
    rank_weights,
    stage_rows,
)
from topoopt.verify.llm_training.fabrics import (
    DIRECT,
    RAIL_ONLY,
    RAIL_TREE,
    Arc,
    MemberGroups,
    Pairs,
    check_form,
    groups_of,
    stage_hops,
)
from topoopt.verify.llm_training.space import records_of, row_of

BYTES_OF_GBIT = 1.25e8

FULL = 1e-12
"""A link is full when no more than this part of it is free."""

MAX_UNITS = 2.0**62
"""Sums of units up to this are exact in 64 bits."""

ENTRIES_PER_EVENT, MAX_ENTRIES = 50, 20_000_000
"""Numbers of an array that are looked at in the time of an event; numbers of the arrays of one schedule: half a GB."""

Paths = dict[Arc, list[tuple[tuple[int, ...], float]]]
"""Paths from server to server, and the share that each carries."""


@dataclass(frozen=True)
class FamilySeconds:
    """Seconds for every byte that each GPU of a family sends.

    Attributes
    ----------
    seconds : of each link, both directions between stages together where either is slower.
    sent : the most bytes that leave a server.
    hops : of the longest route; a switch is one.
    waits : seconds besides those of the slowest link: latencies of rounds, steps that fill other links.
    method, rounds : what it reduces on, and the rounds of one AllReduce, where these are counted.
    """

    seconds: Pairs
    sent: float
    hops: int
    waits: float = 0.0
    method: str = ""
    rounds: int = 0

    @property
    def taken(self) -> float:
        """Seconds of a byte, with the network unshared."""
        return max(self.seconds.values(), default=0.0) + self.waits


Loads = dict[F, FamilySeconds]


SoundNetwork = tuple[Loads, dict[F, float], dict[F, float], DimensionRates]
"""Loads of families, bytes a second unshared and shared, and rates for the time model."""


# Loads of links and rates


def network_rates(
    findings: ViolationLog, problem: LlmTrainingProblem, plan: FabricPlan, budget: WorkBudget
) -> SoundNetwork | None:
    """Check a network and return its rates; None: it is not sound.

    Raises
    ------
    BeyondWorkError
        It takes more work than is left.
    """
    network, strategy, servers = plan.network, plan.strategy, range(problem.cluster.servers)
    if sorted(network.places or servers) != list(servers):
        findings.add("places", f"{network.fabric}: ranks are not on every server once")
        return None
    if not check_form(findings, problem, plan):
        return None
    places = network.places or tuple(servers)
    groups = groups_of(strategy, places, problem.cluster.gpus_per_server)
    schedules = _schedules(findings, problem, network)
    loads = _on_routes(findings, problem, network, strategy, places, groups, set(schedules))
    ringed = set(loads) | (set(schedules) if network.fabric == DIRECT else set())
    if not {rings.dimension for rings in network.rings} <= ringed:
        findings.add("rings", f"{network.fabric}: rings of a family that has none between servers")
    reduced = _with_rounds(findings, problem, strategy, network, groups, loads, schedules, budget)
    if reduced is None:
        return None
    alone = _rates_alone(problem, strategy, reduced)
    shared = _rates_shared(problem, strategy, reduced, alone)
    return reduced, alone, shared, _as_rates(problem, strategy, shared, reduced)


def _on_routes(
    findings: ViolationLog, problem: LlmTrainingProblem, network: NetworkPlan, strategy: ParallelStrategy,
    places: tuple[int, ...], groups: dict[F, MemberGroups], on_schedules: set[F],
) -> Loads:  # fmt: skip
    """Return loads of all families between servers, without those that reduce on schedules."""
    if len({rings.dimension for rings in network.rings}) < len(network.rings):
        findings.add("rings", f"{network.fabric}: rings of a family are listed twice")
    links = {(tail, head) for tail, head, _ in network.links}
    hub = max((head for _, head in links), default=0)
    regional = network.fabric == REGIONAL  # circuits are for tokens only
    paths = _paths(findings, network, network.routes, {arc for arc in links if hub in arc} if regional else links)
    tokens = _paths(findings, network, network.token_routes, links) if regional else paths
    sent = {f: [_sent(findings, network, f, group)] for f, group in groups.items() if f not in on_schedules}
    ahead, on_rails = stage_hops(strategy, places, problem.cluster.gpus_per_server)
    if ahead:
        sent[F.PIPELINE] = [ahead, {(b, a): amount for (a, b), amount in ahead.items()}]
    loads = {}
    for family, directions in sent.items():
        relayed = on_rails if family is F.PIPELINE else 0.0 if family is F.EXPERT else groups[family].relayed
        loads[family] = _load(problem, network, directions, tokens if family is F.EXPERT else paths, relayed)
    return loads


def _sent(findings: ViolationLog, network: NetworkPlan, family: F, group: MemberGroups) -> Pairs:
    """Return bytes from server to server."""
    sent: Pairs = defaultdict(float)
    if family not in RING_FAMILIES:
        for servers, count in group.on.items():
            for arc in itertools.permutations(servers, 2):
                sent[arc] += count * group.ranks / len(servers) / (len(servers) - 1)
        return sent
    rest = dict(group.on)
    for orders in next((rings.orders for rings in network.rings if rings.dimension == family), ()):
        count = rest.pop(tuple(sorted(orders[0])) if orders else (), 0)
        if not count or any(sorted(order) != sorted(orders[0]) for order in orders):
            findings.add("rings", f"{network.fabric}: a ring of {family.value} is of no group, or of one twice")
            continue
        for order in orders:
            for arc in zip(order, order[1:] + order[:1], strict=True):
                sent[arc] += count / len(orders)
    if rest:
        findings.add("rings", f"{network.fabric}: {len(rest)} groups of {family.value} have no rings")
    return sent


def _paths(findings: ViolationLog, network: NetworkPlan, routes: Sequence[ServerRoute], links: set[Arc]) -> Paths:
    """Return routes by their ends, every step of them a link, shares summing to 1; a link is the route of its ends."""
    paths: Paths = defaultdict(list)
    for route in routes:
        if any(step not in links for step in itertools.pairwise(route.path)):
            findings.add("routes", f"{network.fabric}: route {route.path} takes a link that there is not")
        if len(set(route.path)) < len(route.path) or not route.share > 0:
            findings.add("routes", f"{network.fabric}: route {route.path} of share {route.share!r} is of no use")
        paths[route.path[0], route.path[-1]].append((route.path, route.share))
    for pair, listed in paths.items():
        if abs(sum(share for _, share in listed) - 1.0) > 1e-6:
            findings.add("routes", f"{network.fabric}: shares of {pair} do not sum to 1")
    for step in links - set(paths):
        paths[step] = [(step, 1.0)]
    return paths


def _relays(problem: LlmTrainingProblem, network: NetworkPlan) -> bool:
    """Return whether bytes are met by the interface of any GPU, and cross the network inside the server."""
    return network.fabric == DIRECT and problem.cluster.per_gpu and problem.cluster.gpus_per_server > 1


def _arc_rates(problem: LlmTrainingProblem, network: NetworkPlan) -> tuple[dict[Arc, float], float]:
    """Return bytes a second of links, and of the network inside a server."""
    cluster, reached = problem.cluster, problem.device.reached
    rate = network.link_gbps * BYTES_OF_GBIT * reached.network
    inside = cluster.gpus_per_server * cluster.intra_server_gbps * BYTES_OF_GBIT * reached.scale_up
    return {(tail, head): count * rate for tail, head, count in network.links}, inside


def _load(
    problem: LlmTrainingProblem, network: NetworkPlan, directions: list[Pairs], paths: Paths, relayed: float
) -> FamilySeconds:
    cluster, g = problem.cluster, problem.cluster.gpus_per_server
    met = (g - 1) / g * _relays(problem, network)
    rates, inside_rate = _arc_rates(problem, network)
    seconds, largest, hops = Pairs(), 0.0, 1
    for sent in directions:
        load, out, inside = (defaultdict[Any, float](float) for _ in range(3))
        for pair, amount in sent.items():
            if pair not in paths:
                raise ValueError(f"{network.fabric}: servers {pair[0]} and {pair[1]} send and have no route")
            out[pair[0]] += amount
            for path, share in paths[pair]:
                if share > 0:
                    hops = max(hops, len(path) - 1 - any(node >= cluster.servers for node in path))
                for step in itertools.pairwise(path):
                    load[step] += amount * share
        for server, amount in out.items():
            inside[server] += relayed * amount * (network.fabric == RAIL_ONLY) + met * amount
        for (_, head), amount in load.items():
            inside[head] += met * amount
        largest = max([largest, *out.values()])
        took = {step: amount / rates[step] for step, amount in load.items()}
        took |= {(s, s): amount / inside_rate for s, amount in inside.items() if amount > 0}
        for arc, value in took.items():
            seconds[arc] = max(seconds.get(arc, 0.0), value)
    return FamilySeconds(seconds, largest, hops + 2 * (network.fabric == RAIL_TREE and relayed > 0))


# Families that reduce on schedules, or on rings whose rounds count
#
# All groups of a family start together and take a step after the other in step, each as long as its fullest link. A
# reduce-scatter and an all-gather with something between count as twice the slower of both.


Vector = tuple[float, bool, int]
"""What one AllReduce of a group of ranks reduces: its bytes, whether a reduce-scatter and an all-gather stand each by
itself, and the rounds that the closed form counts."""


def _vector(problem: LlmTrainingProblem, s: ParallelStrategy, family: F) -> Vector:
    """Return activations of a micro-batch, or gradients of a mean layer, which ZeRO holds as 16-bit weights."""
    model, size = problem.model, problem.formats.gradient_bytes
    if family is F.TENSOR:
        whole = 2.0 * s.micro_batch * problem.batch.length / s.context * model.hidden
        return whole, s.sequence, 2 * (s.tensor - 1).bit_length()
    rank, dense = rank_weights(model, np.array([float(s.tensor)])), dense_layers(model)
    weights = rank.experts / (s.expert * s.expert_tensor)
    if family is F.DATA:
        weights = float(dense * rank.dense[0] + (model.layers - dense) * rank.routed[0]) / model.layers
    return weights * (min(size, 2) if s.zero else size), s.zero > 0, 0


def _rounds_count(problem: LlmTrainingProblem, network: NetworkPlan) -> bool:
    """Return whether AllReduces have a choice; otherwise they are on rings, whose rounds take no time of their own."""
    switched = any(max(tail, head) >= problem.cluster.servers for tail, head, _ in network.links)
    return problem.search.allreduce is not AllReduceChoice.RINGS and not switched


def _schedules(
    findings: ViolationLog, problem: LlmTrainingProblem, network: NetworkPlan
) -> dict[F, tuple[GroupSchedule, ...]]:
    if _rounds_count(problem, network):
        return {made.dimension: made.schedules for made in network.schedules}
    if network.schedules:
        findings.add("schedules", f"{network.fabric}: AllReduces on schedules in place of rings")
    return {}


def _with_rounds(
    findings: ViolationLog, problem: LlmTrainingProblem, strategy: ParallelStrategy, network: NetworkPlan,
    groups: dict[F, MemberGroups], loads: Loads, made: dict[F, tuple[GroupSchedule, ...]], budget: WorkBudget,
) -> Loads | None:  # fmt: skip
    """Return all loads, those that reduce with their rounds; None where a schedule is not sound."""
    where, choice = network.fabric, problem.search.allreduce
    if not _rounds_count(problem, network):
        return loads
    if len(made) < len(network.schedules) or not set(made) <= set(groups) & set(ALLREDUCE_FAMILIES):
        findings.add("schedules", f"{where}: schedules of families that do not reduce between servers, or twice")
        return None
    loads = dict(loads)
    for family in ALLREDUCE_FAMILIES:
        if family not in groups:
            continue
        vector, group = _vector(problem, strategy, family), groups[family]
        if family in made:
            if not _sound(findings, problem, network, made[family], set(group.on), budget):
                return None
            loads[family] = _schedule_load(problem, network, made[family], group, vector)
            continue
        if choice is not AllReduceChoice.BEST:
            findings.add("schedules", f"{where}: {family.value} reduces on rings, the instance says {choice.value}")
        rounds = 2 * (max(map(len, group.on)) - 1)
        waits = _waits(problem, vector, rounds, loads[family].hops) / _passed(vector, group)
        loads[family] = replace(loads[family], waits=waits, method=RINGS, rounds=rounds)
    return loads


def _passed(vector: Vector, group: MemberGroups) -> float:
    """Return the bytes that a GPU passes on on a ring, by which rates are counted."""
    return 2.0 * vector[0] * (1.0 - 1.0 / group.ranks)


def _waits(problem: LlmTrainingProblem, vector: Vector, rounds: int, hops: int) -> float:
    """Return latencies of rounds beyond those that the closed form counts."""
    return max(rounds - vector[2], 0) * latency(problem, hops)


def _sound(
    findings: ViolationLog, problem: LlmTrainingProblem, network: NetworkPlan,
    schedules: tuple[GroupSchedule, ...], servers: set[tuple[int, ...]], budget: WorkBudget,
) -> bool:  # fmt: skip
    """Return whether every group has a schedule that adds everything up once and brings it to all, over its links."""
    where, allowed = network.fabric, METHODS_OF[problem.search.allreduce]
    errors = [text for text in map(padding, schedules) if text]
    if {made.members for made in schedules} != servers or len(schedules) != len(servers):
        errors = ["schedules that are not of all groups, each once"]
    elif other := sorted({made.method for made in schedules} - allowed):
        errors = [f"schedules by {other}, the instance allows {sorted(allowed)}"]
    elif any((made.from_bytes, made.below_bytes) != (0, None) for made in schedules):
        errors = ["schedules for some sizes only"]
    findings.add_each("schedules", range(len(errors)), lambda k: f"{where} has {errors[k]}")
    if errors:
        return False
    n = problem.cluster.servers
    budget.take(sum(_schedule_work(made, n, len(network.links)) for made in schedules))
    table, log = np.zeros((n, n), dtype=np.int64), ViolationLog()
    for tail, head, count in network.links:
        table[tail, head] = count
    for position, made in enumerate(schedules):
        executed(log, f"schedule {position}", made, table)
    for violation in log.violations():
        findings.add(violation.code, f"{where}: {violation.message}")
    return log.clean


def padding(made: GroupSchedule) -> str:
    """Return what a schedule has beyond the needs of its group; sizes alone are looked at before it is executed."""
    sends, routes, blocks = made.schedule.sends, made.schedule.routes, len(made.schedule.blocks.units)
    pieces, needed = as_int(made.pieces), 2 * (len(made.members) - 1)
    if pieces is None or pieces < 1:
        return f"{made.pieces!r} pieces"
    if not blocks or len(sends) != needed * blocks:
        return f"{len(sends)} messages for {blocks} blocks, {needed} for each are needed"
    if len(np.unique(sends.route)) != len(routes) or len(set(routes)) != len(routes):
        return "routes that no message takes, or one twice"
    if any(len(set(route)) != len(route) for route in routes):
        return "a route that meets a server twice"
    if sends.step.min() < 0 or len(np.unique(sends.step)) != made.schedule.steps:
        return "steps in which nothing is sent"
    if not made.schedule.blocks.units.astype(np.float64).sum() * needed * pieces < MAX_UNITS:
        return "more units than can be counted"
    return ""


def _schedule_work(made: GroupSchedule, servers: int, links: int) -> float:
    """Return the events that executing a schedule takes; inf where its arrays would be too large."""
    routes, blocks = made.schedule.routes, len(made.schedule.blocks.units)
    hops = sum(map(len, routes)) + len(made.schedule.sends) * max(map(len, routes), default=0)
    entries = blocks * servers + 2 * (made.schedule.steps + made.pieces) * (links + servers)
    return hops + links + entries / ENTRIES_PER_EVENT if entries <= MAX_ENTRIES else math.inf


def _schedule_load(
    problem: LlmTrainingProblem, network: NetworkPlan, schedules: tuple[GroupSchedule, ...],
    groups: MemberGroups, vector: Vector,
) -> FamilySeconds:  # fmt: skip
    """Return the load of sound schedules, for each byte that a GPU would pass on on a ring."""
    g, steps = problem.cluster.gpus_per_server, max(made.steps for made in schedules)
    size, halves, _ = vector
    rates, inside_rate = _arc_rates(problem, network)
    met = (g - 1) / g / inside_rate * _relays(problem, network)
    seconds: dict[Arc, Floats] = defaultdict(lambda: np.zeros((2, steps)))
    begun = defaultdict[int, float](float)
    for made in schedules:
        unit = groups.on[made.members] * size / made.pieces / made.schedule.blocks.total
        for (tail, head), units in _units(made):
            if tail == head:
                begun[tail] += float(units.sum()) * unit
            else:
                seconds[tail, head][:, : made.steps] += units * (unit / rates[tail, head])
            if met:
                seconds[head, head][:, : made.steps] += units * (unit * met)
    slowest = np.zeros((3, steps))
    for parts in seconds.values():
        np.maximum(slowest, np.concatenate([parts, parts.sum(axis=0, keepdims=True)]), out=slowest)
    sums, copies, taken = slowest.sum(axis=1).tolist()
    rounds = steps
    if halves:
        taken, rounds = 2.0 * max(sums, copies), 2 * int((slowest[:2] > 0).sum(axis=1).max())
    hops = max(len(route) - 1 for made in schedules for route in made.schedule.routes)
    # Groups are in step, those of one server before and behind what servers do.
    local = max(groups.ranks / len(servers) for servers in groups.on)
    taken += _waits(problem, vector, rounds, hops)
    taken += 2.0 * size * max(1.0 - 1.0 / local, 0.0) / (inside_rate / g)
    passed = _passed(vector, groups)
    on_links = {arc: float(parts.sum()) / passed for arc, parts in seconds.items()}
    waits = max(taken / passed - max(on_links.values()), 0.0)
    methods = ", ".join(sorted({made.method for made in schedules}))
    return FamilySeconds(on_links, max(begun.values()) / passed, hops, waits, methods, rounds)


def _units(made: GroupSchedule) -> Iterator[tuple[Arc, Ints]]:
    """Yield int64[2, steps], sums and copies, over each link, and under (server, server) what a server starts."""
    sends, routes = made.schedule.sends, [(route[0], *route) for route in made.schedule.routes]
    arcs = sorted({hop for route in routes for hop in itertools.pairwise(route)})
    number = {arc: index for index, arc in enumerate(arcs)}
    table = np.zeros((len(arcs), 2, made.schedule.steps), dtype=np.int64)
    size = made.schedule.blocks.units[sends.block]
    for hop in range(max(map(len, routes)) - 1):
        on = np.array([number[r[hop], r[hop + 1]] if hop + 1 < len(r) else -1 for r in routes])[sends.route]
        there = on >= 0
        phase = 1 - sends.reduce[there].astype(np.int64)
        np.add.at(table, (on[there], phase, sends.step[there]), size[there])
    for arc, units in zip(arcs, table, strict=True):
        yield arc, in_pieces(units, made.pieces)


def in_pieces(units: Ints, pieces: int) -> Ints:
    """Return what pieces do: each what whole blocks would, a step behind the one before."""
    steps = units.shape[1]
    total = np.zeros((2, steps + pieces), dtype=np.int64)
    np.cumsum(units, axis=1, out=total[:, 1 : steps + 1])
    total[:, steps + 1 :] = total[:, steps : steps + 1]
    moved = total[:, 1:].copy()
    moved[:, pieces:] -= total[:, 1:steps]
    return moved


# Rates, unshared and beside those that send at the same time


def _named(family: F) -> str:
    """Return the name of the rate of a family."""
    return family.value.replace("-", "_")


def _rates_alone(problem: LlmTrainingProblem, strategy: ParallelStrategy, loads: Loads) -> dict[F, float]:
    """Return bytes a second of a GPU when no other family sends; at most those on an ideal switch."""
    ideal = ideal_rates(problem, records_of([row_of(strategy)]))
    limits = {family: float(getattr(ideal, _named(family))[0]) for family in F}
    if strategy.order != RANK_ORDER:
        outside = float(ideal.expert[0])
        limits = dict.fromkeys(F, ideal.inside) | {F.EXPERT: outside, F.PIPELINE: outside}
        limits[F.TENSOR] = min(ideal.inside, outside)
    return {f: min(limits[f], 1.0 / load.taken) if load.taken > 0 else limits[f] for f, load in loads.items()}


def _as_rates(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: Mapping[F, float], loads: Loads
) -> DimensionRates:
    """Return rates for the time model; families inside servers have the rate of their links."""
    ideal = ideal_rates(problem, records_of([row_of(strategy)]))
    inside, own = np.full_like(ideal.tensor, ideal.inside), (F.EXPERT, F.PIPELINE)
    changes: dict[str, Any] = {_named(family): inside for family in F if family not in own}
    changes |= {_named(family): np.full_like(inside, rate) for family, rate in rates.items()}
    changes |= {f"{f.value}_hops": loads[f].hops for f in (F.TENSOR, F.CONTEXT, *own) if f in loads}
    return replace(ideal, **changes)


def _rates_shared(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, loads: Loads, alone: Mapping[F, float]
) -> dict[F, float]:
    """Return rates beside the families that send at the same time, by how much of the time they do.

    A family that meets another for the part u of its time takes (1 - u + u / x) as long, x the part of its rate that
    max-min fairness leaves it. Exchanges inside the passes and transfers between stages meet each other, the reduction
    of gradients meets both, as far as it is done during the last backward pass.
    """
    r, rates, overlap = records_of([row_of(strategy)]), _as_rates(problem, strategy, alone, loads), problem.overlap
    inner = inner_rank(problem, r, rates)
    backward = float(inner.back[0, 0])
    whole = float(inner.forward[0, 0]) + backward
    busy = {f: float(inner.parts[f.value][0, 0]) / whole for f in (F.TENSOR, F.CONTEXT, F.EXPERT)}
    hidden = overlap.pipeline and strategy.pipeline > 1
    busy[F.PIPELINE] = min(1.0, 2.0 * strategy.chunks * float(inner.hop[0]) / whole) if hidden else 0.0
    layers = np.array(strategy.stage_layers, dtype=np.float64)[:, None]
    reduced = stage_rows(problem, r, layers, rates).reduced[:, 0]
    longest = float(reduced.reshape(strategy.chunks, strategy.pipeline).sum(axis=0).max())
    exchanges, shared = (F.TENSOR, F.CONTEXT, F.EXPERT), {}
    for family, load in loads.items():
        during = 1.0
        others: tuple[F, ...] = (F.PIPELINE,)
        if family is F.PIPELINE:
            others = exchanges if overlap.pipeline else ()
        elif family in (F.DATA, F.EXPERT_DATA):
            others = (*exchanges, F.PIPELINE) if overlap.data else ()
            during = min(1.0, backward / longest) if longest > 0 else 1.0
        longer = sum(
            during * busy[other] * (1.0 / part_kept(load, loads[other]) - 1.0)
            for other in others
            if other in loads and busy[other] > 0
        )
        shared[family] = alone[family] / (1.0 + longer)
    return shared


def part_kept(family: FamilySeconds, other: FamilySeconds) -> float:
    """Return the part of its unshared rate that a family keeps beside another.

    Both rise alike until what they share is full, or one of them has all of its rate: waiting fills no link.
    """
    # Under a pair of negative numbers is the rate of the family itself.
    a = {arc: seconds / family.taken for arc, seconds in family.seconds.items()} | {(-1, -1): 1.0}
    b = {arc: seconds / other.taken for arc, seconds in other.seconds.items()} | {(-2, -2): 1.0}
    both = {arc: a.get(arc, 0.0) + b.get(arc, 0.0) for arc in a.keys() | b.keys()}
    level = 1.0 / max(both.values())
    if any(a.get(arc, 0.0) > 0 for arc, load in both.items() if 1.0 - level * load <= FULL):
        return level
    # The other one has all of its rate: this one goes on until a link has no more capacity.
    return level + min((1.0 - level * both[arc]) / load for arc, load in a.items() if load > 0)
