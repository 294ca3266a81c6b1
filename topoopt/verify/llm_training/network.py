"""The network of a plan: links within the interfaces, rings and routes that carry all groups, rates and the time anew.

Groups are found rank by rank and bytes are laid on links path by path, with code of its own.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import ALLREDUCE_FAMILIES, RING_FAMILIES, FabricOutcome, TrainingNetwork
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.pipeline import PipelineSchedule
from topoopt.verify.laws.findings import ViolationLog
from topoopt.verify.llm_training.reductions import (
    DIRECT,
    RankGroups,
    check_reductions,
    reducing,
    ring_rate,
    vector_of,
)
from topoopt.verify.llm_training.space import records_of, row_of
from topoopt.verify.llm_training.transfers import DimensionRates, ideal_rates

RELATIVE = 1e-9
RATE = {
    F.TENSOR: "tensor", F.CONTEXT: "context", F.EXPERT: "expert", F.PIPELINE: "hop", F.DATA: "data",
    F.EXPERT_DATA: "expert_data",
}  # fmt: skip
RAIL_ONLY = "rail-only"

Pairs = dict[tuple[int, int], float]
Ways = dict[tuple[int, int], list[tuple[tuple[int, ...], float]]]


def check_network(findings: ViolationLog, problem: LlmTrainingProblem, outcome: FabricOutcome) -> DimensionRates | None:
    """All that a network breaks, and rates that it does not give; the rates, None: nothing is to be made of it."""
    network, strategy = outcome.plan.network, outcome.plan.strategy
    g, n = problem.cluster.gpus_per_server, problem.cluster.servers
    where = network.fabric
    places = network.places or tuple(range(n))
    if sorted(places) != list(range(n)):
        findings.add("places", f"{where}: ranks do not stand on every server once")
        return None
    _check_links(findings, problem, network)
    groups = dict(_groups(strategy, places, g))
    made = reducing(findings, problem, network)
    on_rings = {family: one for family, one in groups.items() if family not in made}
    pairs = dict(_sent(findings, network, on_rings))
    pairs[F.PIPELINE], relayed = _hops(strategy, places, g)
    ways = _ways(findings, network)
    stated = {load.dimension: load for load in network.loads}
    due = {family for family, sent in pairs.items() if sent} | set(made)
    if set(stated) != due:
        findings.add("loads", f"{where}: loads are of {sorted(stated)}, {sorted(due)} send between servers")
        return None
    on_schedules = check_reductions(findings, problem, strategy, network, groups, made)
    for family, load in stated.items():
        if family in made:
            most = on_schedules.get(family, 0.0)
        else:
            part = relayed if family is F.PIPELINE else 0.0 if family is F.EXPERT else groups[family].relayed
            most = _rate(findings, problem, network, pairs[family], ways, part)
        if family in ALLREDUCE_FAMILIES and family not in made and load.method:
            hops = _longest(pairs[family], ways)
            most = ring_rate(problem, vector_of(problem, strategy, family), groups[family], most, hops)
        if load.gbytes_per_s * 1e9 > most * (1.0 + RELATIVE):
            text = f"{where}: {family.value} gets {most / 1e9!r} GB/s of the links, not {load.gbytes_per_s!r}"
            findings.add("rates", text)
        if load.shared_gbytes_per_s > load.gbytes_per_s * (1.0 + RELATIVE):
            findings.add("rates", f"{where}: {family.value} gets more beside others than alone")
    return _rates(problem, outcome)


def _check_links(findings: ViolationLog, problem: LlmTrainingProblem, network: TrainingNetwork) -> None:
    """No server has more than its interfaces; a bidirectional link leads both ways."""
    cluster, n = problem.cluster, problem.cluster.servers
    out: dict[int, float] = defaultdict(float)
    into: dict[int, float] = defaultdict(float)
    links: dict[tuple[int, int], int] = {}
    for tail, head, parallel in network.links:
        if tail == head or parallel < 1 or (tail, head) in links:
            findings.add("links", f"{network.fabric}: link {tail} to {head} is none")
        links[tail, head] = parallel
        out[tail] += parallel * network.link_gbps
        into[head] += parallel * network.link_gbps
    most = cluster.degree * cluster.link_gbps * (1.0 + RELATIVE)
    for server in range(n):
        if max(out[server], into[server]) > most:
            findings.add("links", f"{network.fabric}: server {server} has more than its {cluster.degree} interfaces")
    if cluster.links == "bidirectional" and any(links.get((b, a)) != k for (a, b), k in links.items()):
        findings.add("links", f"{network.fabric}: a link leads one way only")


def _coordinates(strategy: ParallelStrategy) -> list[dict[D, int]]:
    sizes = {D.TENSOR: strategy.tensor, D.CONTEXT: strategy.context, D.DATA: strategy.data}
    sizes[D.PIPELINE] = strategy.pipeline
    found = []
    for rank in range(strategy.gpus):
        at, left = {}, rank
        for dimension in strategy.order:
            left, at[dimension] = divmod(left, sizes[dimension])
        found.append(at)
    return found


def _groups(strategy: ParallelStrategy, places: tuple[int, ...], g: int) -> Iterator[tuple[F, RankGroups]]:
    """Families that pass bytes round or exchange tokens, of those groups that leave a server."""
    whole = strategy.expert * strategy.expert_tensor
    members: dict[F, dict[object, list[int]]] = {family: defaultdict(list) for family in F}
    for rank, at in enumerate(_coordinates(strategy)):
        t, c, d, p = at[D.TENSOR], at[D.CONTEXT], at[D.DATA], at[D.PIPELINE]
        place = t + strategy.tensor * (c + strategy.context * d)
        members[F.TENSOR][c, d, p].append(rank)
        members[F.CONTEXT][t, d, p].append(rank)
        members[F.DATA][t, p].append(rank)
        if strategy.expert > 1:
            members[F.EXPERT][place // whole, p].append(rank)
            members[F.EXPERT_DATA][place % whole, p].append(rank)
    for family, rows in members.items():
        on: dict[tuple[int, ...], int] = defaultdict(int)
        crossing = [0, 0]
        for ranks in rows.values():
            servers = tuple(sorted({places[rank // g] for rank in ranks}))
            if len(servers) < 2:
                continue
            on[servers] += 1
            for a, b in zip(ranks, ranks[1:] + ranks[:1], strict=True):
                if a // g != b // g:
                    crossing[a % g != b % g] += 1
        if on:
            yield family, RankGroups(len(next(iter(rows.values()))), on, crossing[1] / max(sum(crossing), 1))


def _sent(
    findings: ViolationLog, network: TrainingNetwork, groups: Mapping[F, RankGroups]
) -> Iterator[tuple[F, Pairs]]:
    """Bytes from server to server for every byte that each GPU sends."""
    rings = {one.dimension: one.orders for one in network.rings}
    for family, one in groups.items():
        sent: Pairs = defaultdict(float)
        if family not in RING_FAMILIES:
            for servers, count in one.on.items():
                k = len(servers)
                for a in servers:
                    for b in servers:
                        if a != b:
                            sent[a, b] += count * one.ranks / k / (k - 1)
            yield family, sent
            continue
        left = dict(one.on)
        for orders in rings.get(family, ()):
            count = left.pop(tuple(sorted(orders[0])) if orders else (), 0)
            if not count or any(sorted(order) != sorted(orders[0]) for order in orders):
                findings.add("rings", f"{network.fabric}: a ring of {family.value} is of no group, or of one twice")
                continue
            for order in orders:
                for a, b in zip(order, order[1:] + order[:1], strict=True):
                    sent[a, b] += count / len(orders)
        if left:
            findings.add("rings", f"{network.fabric}: {len(left)} groups of {family.value} have no rings")
        yield family, sent


def _hops(strategy: ParallelStrategy, places: tuple[int, ...], g: int) -> tuple[Pairs, float]:
    """Ranks that send to the next stage, by server; the part of them that sends to another rail."""
    rows: dict[object, dict[int, int]] = defaultdict(dict)
    for rank, at in enumerate(_coordinates(strategy)):
        rows[at[D.TENSOR], at[D.CONTEXT], at[D.DATA]][at[D.PIPELINE]] = rank
    p, found, rails = strategy.pipeline, Pairs(), [0, 0]
    back = strategy.chunks > 1 and strategy.schedule is not PipelineSchedule.DUALPIPE_V
    for row in rows.values():
        for stage in range(p if back and p > 1 else p - 1):
            a, b = row[stage], row[(stage + 1) % p]
            if a // g != b // g:
                key = places[a // g], places[b // g]
                found[key] = found.get(key, 0.0) + 1.0
                rails[a % g != b % g] += 1
    return found, rails[1] / max(sum(rails), 1)


def _ways(
    findings: ViolationLog, network: TrainingNetwork
) -> dict[tuple[int, int], list[tuple[tuple[int, ...], float]]]:
    """Routes by their ends, every step of them a link, shares summing to one."""
    links = {(tail, head) for tail, head, _ in network.links}
    ways: Ways = defaultdict(list)
    for route in network.routes:
        if any(step not in links for step in itertools.pairwise(route.path)):
            findings.add("routes", f"{network.fabric}: route {route.path} takes a link that there is not")
        ways[route.path[0], route.path[-1]].append((route.path, route.share))
    for pair, listed in ways.items():
        if abs(sum(share for _, share in listed) - 1.0) > 1e-6 or min(share for _, share in listed) < 0:
            findings.add("routes", f"{network.fabric}: shares of {pair} do not sum to 1")
    for step in links - set(ways):
        ways[step] = [(step, 1.0)]
    return ways


def _rate(
    findings: ViolationLog,
    problem: LlmTrainingProblem,
    network: TrainingNetwork,
    sent: Pairs,
    ways: Ways,
    relayed: float,
) -> float:
    """Bytes a second of a GPU: of the fullest link, both ways of what stages send."""
    cluster, reached, g = problem.cluster, problem.device.reached, problem.cluster.gpus_per_server
    load: Pairs = defaultdict(float)
    inside: dict[int, float] = defaultdict(float)
    for pair, amount in sent.items():
        if pair not in ways:
            findings.add("routes", f"{network.fabric}: servers {pair[0]} and {pair[1]} send and have no route")
            return 0.0
        if network.fabric == RAIL_ONLY:
            inside[pair[0]] += relayed * amount
        if network.fabric == DIRECT and cluster.per_gpu and g > 1:
            inside[pair[0]] += amount * (g - 1) / g
        for path, share in ways[pair]:
            for step in itertools.pairwise(path):
                load[step] += amount * share
                if network.fabric == DIRECT and cluster.per_gpu and g > 1:
                    inside[step[1]] += amount * share * (g - 1) / g
    rates = {(tail, head): parallel * network.link_gbps * 1.25e8 for tail, head, parallel in network.links}
    seconds = max((amount / rates[step] for step, amount in load.items()), default=0.0) / reached.network
    server = g * cluster.intra_server_gbps * 1.25e8 * reached.scale_up
    seconds = max(seconds, max(inside.values(), default=0.0) / server)
    return np.inf if seconds == 0 else 1.0 / seconds


def _longest(sent: Pairs, ways: Ways) -> int:
    """Links of the longest way between servers that send."""
    return max((len(path) - 1 for pair in sent for path, share in ways.get(pair, []) if share > 0), default=1)


def _rates(problem: LlmTrainingProblem, outcome: FabricOutcome) -> DimensionRates:
    """Those stated, which are no more than those of the links."""
    network = outcome.plan.network
    records = records_of([row_of(outcome.plan.strategy)])
    ideal = ideal_rates(problem, records)
    loads = {load.dimension: load for load in network.loads}

    def rate(family: F, otherwise: np.ndarray) -> np.ndarray:
        value = loads[family].shared_gbytes_per_s * 1e9 if family in loads else None
        return otherwise if value is None else np.full_like(otherwise, value)

    def hops(family: F) -> int:
        return loads[family].hops if family in loads else 1

    inside = np.full_like(ideal.tensor, ideal.inside)
    return DimensionRates(
        ideal.inside,
        rate(F.TENSOR, inside),
        rate(F.CONTEXT, inside),
        rate(F.DATA, inside),
        rate(F.EXPERT_DATA, inside),
        rate(F.EXPERT, ideal.expert),
        rate(F.PIPELINE, ideal.hop),
        hops(F.TENSOR),
        hops(F.CONTEXT),
        hops(F.EXPERT),
        hops(F.PIPELINE),
    )
