"""What families of traffic put on links, path by path, for every byte that each of their GPUs sends."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import REGIONAL, RING_FAMILIES, ServerRoute, TrainingNetwork
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy
from topoopt.verify.laws.findings import ViolationLog
from topoopt.verify.llm_training.groups import MemberGroups, Pairs, stage_hops

RAIL_TREE, RAIL_ONLY, DIRECT = "rail-fat-tree", "rail-only", "direct-connect"
BYTES_OF_GBIT = 1.25e8

Ways = dict[tuple[int, int], list[tuple[tuple[int, ...], float]]]


@dataclass(frozen=True)
class FamilySeconds:
    """Of one family.

    Attributes:
        seconds: of each link (tail, head), both directions between stages taken together where either is slower, and of
            the network inside each server (server, server).
        sent: the most bytes that leave a server.
        hops: of the longest way; a switch is one.
        waits: seconds beside those of what is slowest: latencies of rounds, steps that fill other links.
    """

    seconds: Pairs
    sent: float
    hops: int
    waits: float = 0.0

    @property
    def fullest(self) -> float:
        """Seconds of what is slowest."""
        return max(self.seconds.values(), default=0.0)

    @property
    def taken(self) -> float:
        """Seconds of a byte, alone on the network."""
        return self.fullest + self.waits


def family_seconds(
    findings: ViolationLog,
    problem: LlmTrainingProblem,
    network: TrainingNetwork,
    strategy: ParallelStrategy,
    groups: dict[F, MemberGroups],
    on_schedules: set[F],
) -> dict[F, FamilySeconds]:
    """All families between servers, but for those that reduce on schedules.

    Raises:
        ValueError: a pair that sends has no way.
    """
    g = problem.cluster.gpus_per_server
    if len({each.dimension for each in network.rings}) < len(network.rings):
        findings.add("rings", f"{network.fabric}: rings of a family stand twice")
    places = network.places or tuple(range(problem.cluster.servers))
    ways, tokens = _ways(findings, network), _token_ways(findings, network)
    relayed = {family: 0.0 if family is F.EXPERT else one.relayed for family, one in groups.items()}
    on_links = {family: one for family, one in groups.items() if family not in on_schedules}
    sent = {family: [_sent(findings, network, family, one)] for family, one in on_links.items()}
    ahead, relayed[F.PIPELINE] = stage_hops(strategy, places, g)
    if ahead:
        sent[F.PIPELINE] = [ahead, {(b, a): amount for (a, b), amount in ahead.items()}]
    return {
        family: _family(problem, network, both, tokens if family is F.EXPERT else ways, relayed[family])
        for family, both in sent.items()
    }


def _sent(findings: ViolationLog, network: TrainingNetwork, family: F, one: MemberGroups) -> Pairs:
    """Bytes from server to server."""
    sent: Pairs = defaultdict(float)
    if family not in RING_FAMILIES:
        for servers, count in one.on.items():
            k = len(servers)
            for a, b in itertools.permutations(servers, 2):
                sent[a, b] += count * one.ranks / k / (k - 1)
        return sent
    left = dict(one.on)
    rings = {each.dimension: each.orders for each in network.rings}
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
    return sent


def _ways(findings: ViolationLog, network: TrainingNetwork) -> Ways:
    """Those of all but tokens where these have their own: circuits are no way of others then."""
    links = {(tail, head) for tail, head, _ in network.links}
    if network.fabric == REGIONAL:
        hub = max(head for _, head in links)
        links = {ends for ends in links if hub in ends}
    return _listed_ways(findings, network, network.routes, links)


def _token_ways(findings: ViolationLog, network: TrainingNetwork) -> Ways:
    """Of tokens to experts and back: circuits, or the switch that is node n."""
    if network.fabric != REGIONAL:
        return _ways(findings, network)
    links = {(tail, head) for tail, head, _ in network.links}
    return _listed_ways(findings, network, network.token_routes, links)


def _listed_ways(
    findings: ViolationLog, network: TrainingNetwork, routes: Sequence[ServerRoute], links: set[tuple[int, int]]
) -> Ways:
    """Routes by their ends, every step of them a link, shares summing to one; a link is the way between its ends."""
    ways: Ways = defaultdict(list)
    for route in routes:
        if any(step not in links for step in itertools.pairwise(route.path)):
            findings.add("routes", f"{network.fabric}: route {route.path} takes a link that there is not")
        if len(set(route.path)) < len(route.path) or not route.share > 0:
            findings.add("routes", f"{network.fabric}: route {route.path} of share {route.share!r} is of no use")
        ways[route.path[0], route.path[-1]].append((route.path, route.share))
    for pair, listed in ways.items():
        if abs(sum(share for _, share in listed) - 1.0) > 1e-6:
            findings.add("routes", f"{network.fabric}: shares of {pair} do not sum to 1")
    for step in links - set(ways):
        ways[step] = [(step, 1.0)]
    return ways


def _family(
    problem: LlmTrainingProblem, network: TrainingNetwork, directions: list[Pairs], ways: Ways, relayed: float
) -> FamilySeconds:
    cluster, reached, g = problem.cluster, problem.device.reached, problem.cluster.gpus_per_server
    own = network.fabric == DIRECT and cluster.per_gpu and g > 1
    rates = {(tail, head): parallel * network.link_gbps for tail, head, parallel in network.links}
    inside_rate = g * cluster.intra_server_gbps * BYTES_OF_GBIT * reached.scale_up
    seconds: Pairs = {}
    most, hops = 0.0, 1
    for sent in directions:
        load: Pairs = defaultdict(float)
        out: dict[int, float] = defaultdict(float)
        inside: dict[int, float] = defaultdict(float)
        for pair, amount in sent.items():
            if pair not in ways:
                raise ValueError(f"{network.fabric}: servers {pair[0]} and {pair[1]} send and have no route")
            out[pair[0]] += amount
            for path, share in ways[pair]:
                if share > 0:
                    switched = any(node >= cluster.servers for node in path)
                    hops = max(hops, len(path) - 1 - switched)
                for step in itertools.pairwise(path):
                    load[step] += amount * share
        for server, amount in out.items():
            inside[server] += relayed * amount * (network.fabric == RAIL_ONLY) + own * amount * (g - 1) / g
        for (_, head), amount in load.items():
            inside[head] += own * amount * (g - 1) / g  # met by the interface of any GPU
        most = max([most, *out.values()])
        for step, amount in load.items():
            seconds[step] = max(seconds.get(step, 0.0), amount / (rates[step] * BYTES_OF_GBIT * reached.network))
        for server, amount in inside.items():
            if amount > 0:
                seconds[server, server] = max(seconds.get((server, server), 0.0), amount / inside_rate)
    return FamilySeconds(seconds, most, hops + 2 * (network.fabric == RAIL_TREE and relayed > 0))
