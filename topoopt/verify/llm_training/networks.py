"""Constraints of the network of a plan, and the rates that it gives.

A network has the links of the fabric that it names, rings and routes that carry all groups, and sound schedules. Bytes
are put on links path by path.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from topoopt.core.arrays import Draws, Floats, Ints
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.collective import METHODS_OF, RINGS, GroupSchedule
from topoopt.core.job import FabricGraph
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
from topoopt.core.parallelism import RANK_ORDER, ParallelStrategy, PipelineSchedule
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.result import AllReduceChoice
from topoopt.verify.checker import ViolationLog, WorkBudget, as_int, differs
from topoopt.verify.laws import networks as laws
from topoopt.verify.laws.schedules import executed, joined
from topoopt.verify.llm_training import costs
from topoopt.verify.llm_training.layers import layer_on_rank, rank_positions, records_of, row_of

RAIL_TREE, RAIL_ONLY, DIRECT, CUBES, EXPANDER = "rail-fat-tree", "rail-only", "direct-connect", "torus-3d", "expander"

CUBE = 4
"""Servers along each side of the cubes of a torus of cubes."""

ATTEMPTS = 50
"""How often a cycle of an expander is drawn at most."""

Arc = tuple[int, int]
"""A link (tail, head), or the network inside a server (server, server)."""

Pairs = dict[Arc, float]


@dataclass(frozen=True)
class MemberGroups:
    """Groups of a family that leave a server.

    Attributes:
        ranks: of a group.
        on: how many groups are on exactly these servers.
        relayed: part of the edges of their rings between servers that join GPUs of other rails; of groups of different
            numbers of servers the largest.
    """

    ranks: int
    on: dict[tuple[int, ...], int]
    relayed: float


def groups_of(strategy: ParallelStrategy, places: tuple[int, ...], g: int) -> dict[F, MemberGroups]:
    """Return the families that pass bytes round or exchange tokens, without those that stay inside servers.

    Args:
        places: server of each block of g ranks.
    """
    groups = {}
    for family, rows in _members(strategy).items():
        on: dict[tuple[int, ...], int] = defaultdict(int)
        edges: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        for ranks in rows:
            servers = tuple(sorted({places[rank // g] for rank in ranks}))
            if len(servers) > 1:
                on[servers] += 1
                for a, b in zip(ranks, ranks[1:] + ranks[:1], strict=True):
                    if a // g != b // g:
                        edges[len(servers)][a % g != b % g] += 1
        if on:
            groups[family] = MemberGroups(len(rows[0]), dict(on), max(b / (a + b) for a, b in edges.values()))
    return groups


def _members(strategy: ParallelStrategy) -> dict[F, list[list[int]]]:
    size = strategy.expert * strategy.expert_tensor
    members: dict[F, dict[object, list[int]]] = {family: defaultdict(list) for family in F}
    for rank, at in enumerate(rank_positions(strategy)):
        t, c, d, p = at[D.TENSOR], at[D.CONTEXT], at[D.DATA], at[D.PIPELINE]
        position = t + strategy.tensor * (c + strategy.context * d)
        paired = strategy.schedule is PipelineSchedule.DUALPIPE
        pair = frozenset((p, strategy.pipeline - 1 - p)) if paired else p
        members[F.TENSOR][c, d, p].append(rank)
        members[F.CONTEXT][t, d, p].append(rank)
        members[F.DATA][t, pair].append(rank)
        if strategy.expert > 1:
            members[F.EXPERT][position // size, p].append(rank)
            members[F.EXPERT_DATA][position % size, pair].append(rank)
    return {family: list(rows.values()) for family, rows in members.items() if rows}


def stage_hops(strategy: ParallelStrategy, places: tuple[int, ...], g: int) -> tuple[Pairs, float]:
    """Return how many ranks of a server send to the next stage, by server; the part that sends to another rail."""
    rows: dict[object, dict[int, int]] = defaultdict(dict)
    for rank, at in enumerate(rank_positions(strategy)):
        rows[at[D.TENSOR], at[D.CONTEXT], at[D.DATA]][at[D.PIPELINE]] = rank
    p, hops, rails = strategy.pipeline, Pairs(), [0, 0]
    back = strategy.chunks > 1 and strategy.schedule is not PipelineSchedule.DUALPIPE_V
    for row in rows.values():
        for stage in range(p if back and p > 1 else p - 1):
            a, b = row[stage], row[(stage + 1) % p]
            if a // g != b // g:
                key = places[a // g], places[b // g]
                hops[key] = hops.get(key, 0.0) + 1.0
                rails[a % g != b % g] += 1
    return hops, rails[1] / max(sum(rails), 1)


Links = dict[Arc, int]


def check_form(findings: ViolationLog, problem: LlmTrainingProblem, plan: FabricPlan) -> bool:
    """Return whether the links are those of the fabric that the network names."""
    network = plan.network
    links = {(tail, head): count for tail, head, count in network.links}
    loops = any(tail == head for tail, head in links)
    wrong = ""
    if loops or len(links) != len(network.links) or min(links.values(), default=1) < 1:
        wrong = "links that are none, or are listed twice"
    elif network.fabric not in FORMS:
        wrong = "links, and is no fabric"
    elif network.degree_split and network.fabric != DIRECT:
        wrong = "interfaces that are split, where the links are given"
    elif plan.network.form and network.fabric != CUBES:
        wrong = f"the form {plan.network.form!r}"
    wrong = wrong or FORMS[network.fabric](problem, plan, links)
    if wrong:
        findings.add("fabrics", f"{network.fabric} has {wrong}")
    return not wrong


def _rate_error(network: NetworkPlan, gbps: float) -> str:
    return f"links of {network.link_gbps!r} Gbit/s, not {gbps!r}" if differs(network.link_gbps, gbps, 1e-9) else ""


def _same(links: Links, expected: Mapping[Arc, int]) -> str:
    return "" if links == expected else "other links than the fabric has"


def _in_both_directions(pairs: Iterable[Arc], count: int = 1) -> Counter[Arc]:
    links = Counter[Arc]()
    for a, b in pairs:
        links[a, b] += count
        links[b, a] += count
    return links


def _spokes(n: int, count: int) -> Counter[Arc]:
    return _in_both_directions(((server, n) for server in range(n if count else 0)), count)


def _star(problem: LlmTrainingProblem, plan: FabricPlan, links: Links) -> str:
    cluster = problem.cluster
    return _rate_error(plan.network, cluster.link_gbps) or _same(links, _spokes(cluster.servers, cluster.degree))


def _regional(problem: LlmTrainingProblem, plan: FabricPlan, links: Links) -> str:
    """Interfaces that are not optical lead to node n; circuits both ways join servers that exchange tokens."""
    cluster, network, n = problem.cluster, plan.network, problem.cluster.servers
    circuits = {arc: count for arc, count in links.items() if n not in arc}
    hub = {arc: count for arc, count in links.items() if n in arc}
    wrong = _rate_error(network, cluster.link_gbps)
    if wrong := wrong or _same(hub, _spokes(n, cluster.degree - cluster.optical_interfaces)):
        return wrong
    if any(circuits.get((b, a)) != count for (a, b), count in circuits.items()):
        return "a circuit that leads one way only"
    groups = groups_of(plan.strategy, network.places or tuple(range(n)), cluster.gpus_per_server)
    if not set(circuits) <= _exchange(groups):
        return "circuits between servers that exchange no tokens"
    used, limit = Counter(tail for tail, _ in Counter(circuits).elements()), cluster.optical_interfaces
    return f"a server with more than {limit} circuits" if max(used.values(), default=0) > limit else ""


def _cubes(problem: LlmTrainingProblem, plan: FabricPlan, links: Links) -> str:
    """A torus of three axes, of whole cubes where they fit; axes of one server have no links."""
    cluster, network, n = problem.cluster, plan.network, problem.cluster.servers
    unit = CUBE if n % CUBE**3 == 0 else 1
    whole, forms = [side for side in range(unit, n + 1, unit) if n % side == 0], dict[str, tuple[list[int], bool]]()
    for a, b in itertools.product(whole, repeat=2):
        sides = [a, b, n // (a * b)]
        if n % (a * b) or sides[2] % unit:
            continue
        low, mid, high = sorted(sides)
        forms[note := f"{' x '.join(map(str, sides))} torus"] = [side for side in sides if side > 1], False
        if sides == [low, mid, high] and low > 1 and high == 2 * low and mid in (low, high):
            forms[f"{note}, twisted"] = sides, True
    sides, twisted = forms.get(network.form, ([], False))
    steps = laws.torus_steps(sides, twisted=twisted)
    if not steps or links != _in_both_directions(itertools.chain(*steps)):
        return f"other links than a torus of its size, or those of another one than a {network.form!r}"
    return _rate_error(network, cluster.degree * cluster.link_gbps / (2 * len(steps)))


def _fat_tree(problem: LlmTrainingProblem, plan: FabricPlan, links: Links) -> str:
    cluster, n = problem.cluster, problem.cluster.servers
    half = next(half for half in itertools.count(1) if 2 * half**3 >= n)
    racks = 2 * half * half
    up = [(server, n + server // half) for server in range(n)]
    for pod, i, j in itertools.product(range(2 * half), range(half), range(half)):
        above = n + racks + pod * half
        up += [(n + pod * half + i, above + j), (above + i, n + 2 * racks + i * half + j)]
    return _rate_error(plan.network, cluster.degree * cluster.link_gbps) or _same(links, _in_both_directions(up))


def _wired(problem: LlmTrainingProblem, plan: FabricPlan, links: Links) -> str:
    c, network = problem.cluster, plan.network
    cluster = Cluster(c.servers, c.gpus_per_server, c.degree, c.link_gbps, c.links)
    graph = FabricGraph(tuple((tail, head, count) for (tail, head), count in links.items()), ())
    table = laws.links_of(graph, c.servers)
    if table is None:
        return "links of servers that there are not"
    rate = _rate_error(network, c.link_gbps)
    if network.fabric == EXPANDER:  # drawn: see check_drawn_links
        return rate or laws.unlawful(table, cluster) or laws.dark_interfaces(table, cluster)
    return rate or laws.fabric_error(
        table, graph, laws.RequestedFabric(network.fabric, None, 1.0, laws.RACK, None), cluster
    )


def _direct(problem: LlmTrainingProblem, plan: FabricPlan, links: Links) -> str:
    cluster, network = problem.cluster, plan.network
    if any(max(arc) >= cluster.servers for arc in links):
        return "a switch"
    used = [Counter(arc[end] for arc in Counter(links).elements()) for end in (0, 1)]
    if max((*used[0].values(), *used[1].values()), default=0) > cluster.degree:
        return f"a server with more than {cluster.degree} interfaces"
    if cluster.links is LinkDirection.BIDIRECTIONAL and any(links.get((b, a)) != k for (a, b), k in links.items()):
        return "a link that leads one way only"
    return _rate_error(network, cluster.link_gbps) or _split_error(problem, network, plan.strategy, links)


def _split_error(problem: LlmTrainingProblem, network: NetworkPlan, strategy: ParallelStrategy, links: Links) -> str:
    """Return whether the links are those of the split: rings, joined stages, else pairs that exchange tokens."""
    split, g = dict(network.degree_split), problem.cluster.gpus_per_server
    places = network.places or tuple(range(problem.cluster.servers))
    groups, (hops, _) = groups_of(strategy, places, g), stage_hops(strategy, places, g)
    leaders = set[F]()  # of families whose rings are of the same servers the first one
    for family, group in groups.items():
        rings = [other for other in leaders if other in RING_FAMILIES]
        if family not in RING_FAMILIES or not any(set(groups[other].on) == set(group.on) for other in rings):
            leaders.add(family)
    if set(split) != leaders | ({F.PIPELINE} if hops else set()):
        return "a split over other families than those that send"
    if list(network.degree_split) != sorted(split.items()) or sum(split.values()) > problem.cluster.degree:
        return "a split that is none of its interfaces"
    rest = Counter(links)
    for rings_of in network.rings:
        if (family := rings_of.dimension) in split:
            met = max(Counter(server for servers in groups[family].on for server in servers).values())
            ring_links = _ring_links(rings_of.orders, split[family] // met, problem.cluster.links)
            if ring_links is None:
                return f"other rings of {family} than its split"
            rest.subtract(ring_links)
    if split.get(F.PIPELINE):
        edges = _in_both_directions(hops).keys()
        neighbours = max(Counter(tail for tail, _ in edges).values())
        rest.subtract(dict.fromkeys(edges, split[F.PIPELINE] // neighbours))
    used, exchange = Counter[int](), _exchange(groups)
    for arc, count in rest.items():
        if count < 0 or (count > 0 and arc not in exchange):
            return "links of other families than its split"
        used[arc[0]] += count
    return "" if max(used.values(), default=0) <= split.get(F.EXPERT, 0) else "more links than its split"


def _exchange(groups: Mapping[F, MemberGroups]) -> set[Arc]:
    on = groups[F.EXPERT].on if F.EXPERT in groups else {}
    return {arc for servers in on for arc in itertools.permutations(servers, 2)}


def _ring_links(
    orders: Iterable[tuple[tuple[int, ...], ...]], interfaces: int, links: LinkDirection
) -> Counter[Arc] | None:
    count = interfaces // 2 * 2 if links is LinkDirection.BIDIRECTIONAL else interfaces  # a ring both ways is two
    arcs = Counter[Arc]()
    for rings in orders:
        if len(rings[0]) == 2:
            a, b = rings[0]
            arcs.update({(a, b): interfaces, (b, a): interfaces})
            continue
        if count and len(rings) != count:
            return None
        for ring in rings if count else ():
            arcs.update(zip(ring, ring[1:] + ring[:1], strict=True))
    return arcs


FORMS: Mapping[str, Callable[[LlmTrainingProblem, FabricPlan, Links], str]] = MappingProxyType(
    {DIRECT: _direct, CUBES: _cubes, RAIL_TREE: _star, RAIL_ONLY: _star, REGIONAL: _regional, "fat-tree": _fat_tree}
    | dict.fromkeys(("torus-2d", "hypercube", "generalized-kautz", "random-regular", EXPANDER), _wired)
)
"""What is wrong with the links of a fabric, by its name; empty: nothing."""


def check_drawn_links(findings: ViolationLog, problem: LlmTrainingProblem, network: NetworkPlan, seed: int) -> None:
    """Check that the links of an expander are those of the seed."""
    if network.fabric == EXPANDER:
        links = Counter({(tail, head): count for tail, head, count in network.links})
        if links != expander_links(problem.cluster.servers, problem.cluster.degree, seed):
            findings.add("fabrics", f"{EXPANDER} has other links than those drawn from seed {seed}")


def expander_links(servers: int, degree: int, seed: int) -> Counter[Arc]:
    """Return d // 2 random cycles through all servers, links both ways; an odd interface joins random pairs.

    A cycle that has a link of an earlier one is drawn again, up to 50 times in all.
    """
    draws, links = Draws(seed), Counter[Arc]()
    for _ in range(degree // 2):
        for _ in range(ATTEMPTS):
            order = draws.permutation(servers).tolist()
            steps = list(itertools.pairwise([*order, order[0]]))
            if not any(links[step] for step in steps):
                break
        links.update(_in_both_directions(steps))
    if degree % 2:
        order = draws.permutation(servers).tolist()
        links.update(_in_both_directions(zip(order[::2], order[1::2], strict=False)))
    return +links


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

    Attributes:
        seconds: of each link, both directions between stages together where either is slower.
        sent: the most bytes that leave a server.
        hops: of the longest route; a switch is one.
        waits: seconds besides those of the slowest link: latencies of rounds, steps that fill other links.
        method, rounds: what it reduces on, and the rounds of one AllReduce, where these are counted.
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


# Loads of links and rates


def network_rates(
    findings: ViolationLog, problem: LlmTrainingProblem, plan: FabricPlan, budget: WorkBudget
) -> tuple[Loads, dict[F, float], dict[F, float], costs.DimensionRates] | None:
    """Return loads of families, bytes a second unshared and shared, rates for the time model; None: it is not sound.

    Raises:
        BeyondWorkError: it takes more work than is left.
    """
    network, strategy, servers = plan.network, plan.strategy, range(problem.cluster.servers)
    if sorted(network.places or servers) != list(servers):
        findings.add("places", f"{network.fabric}: ranks are not on every server once")
        return None
    if not check_form(findings, problem, plan):
        return None
    places = network.places or tuple(servers)
    groups = groups_of(strategy, places, problem.cluster.gpus_per_server)
    switched = any(max(tail, head) >= problem.cluster.servers for tail, head, _ in network.links)
    count = problem.search.allreduce is not AllReduceChoice.RINGS and not switched
    if network.schedules and not count:
        findings.add("schedules", f"{network.fabric}: AllReduces on schedules in place of rings")
    scheduled = {row.dimension for row in network.schedules} if count else set[F]()
    loads = _on_routes(findings, problem, network, strategy, places, groups, scheduled)
    ringed = set(loads) | (scheduled if network.fabric == DIRECT else set())
    families = {rings.dimension for rings in network.rings}
    if not families <= ringed or len(families) < len(network.rings):
        findings.add("rings", f"{network.fabric}: rings of a family that has none between servers, or twice")
    reduced = _with_rounds(findings, problem, plan, groups, loads, budget) if count else loads
    if reduced is None:
        return None
    alone = _rates_alone(problem, strategy, reduced)
    shared = _rates_shared(problem, strategy, reduced, alone)
    return reduced, alone, shared, _as_rates(problem, strategy, shared, reduced)


def _on_routes(
    findings: ViolationLog, problem: LlmTrainingProblem, network: NetworkPlan, strategy: ParallelStrategy,
    places: tuple[int, ...], groups: dict[F, MemberGroups], on_schedules: set[F],
) -> Loads:  # fmt: skip
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
    model, size = problem.model, problem.formats.gradient_bytes
    if family is F.TENSOR:
        whole = 2.0 * s.micro_batch * problem.batch.length / s.context * model.hidden
        return whole, s.sequence, 2 * (s.tensor - 1).bit_length()
    t, order = np.array([float(s.tensor)]), model.order
    layers = [layer_on_rank(kind, model.hidden, t) for kind in model.kinds]
    routed = [experts for kind in order if (experts := layers[kind][2])]
    weights = sum(routed) / max(len(routed), 1) / (s.expert * s.expert_tensor)
    if family is F.DATA:
        weights = sum(order.count(kind) * float(matrices[0]) for kind, (matrices, _, _) in enumerate(layers)) / len(
            order
        )
    return weights * (min(size, 2) if s.zero else size), s.zero > 0, 0


def _with_rounds(
    findings: ViolationLog, problem: LlmTrainingProblem, plan: FabricPlan, groups: dict[F, MemberGroups], loads: Loads,
    budget: WorkBudget,
) -> Loads | None:  # fmt: skip
    """Return all loads, those that reduce with their rounds; None where a schedule is not sound."""
    network, choice, loads = plan.network, problem.search.allreduce, dict(loads)
    where, made = network.fabric, {row.dimension: row.schedules for row in network.schedules}
    if len(made) < len(network.schedules) or not set(made) <= set(groups) & set(ALLREDUCE_FAMILIES):
        findings.add("schedules", f"{where}: schedules of families that do not reduce between servers, or twice")
        return None
    for family in (family for family in ALLREDUCE_FAMILIES if family in groups):
        vector, group = _vector(problem, plan.strategy, family), groups[family]
        if family in made:
            executions = _executed(findings, problem, network, made[family], set(group.on), budget)
            if executions is None:
                return None
            loads[family] = _schedule_load(problem, network, executions, group, vector)
            continue
        if choice is not AllReduceChoice.BEST:
            findings.add("schedules", f"{where}: {family.value} reduces on rings, the instance says {choice.value}")
        rounds = 2 * (max(map(len, group.on)) - 1)
        waits = _waits(problem, vector, rounds, loads[family].hops) / _passed(vector, group)
        loads[family] = replace(loads[family], waits=waits, method=RINGS, rounds=rounds)
    return loads


def _passed(vector: Vector, group: MemberGroups) -> float:
    return 2.0 * vector[0] * (1.0 - 1.0 / group.ranks)


def _waits(problem: LlmTrainingProblem, vector: Vector, rounds: int, hops: int) -> float:
    """Return latencies of rounds beyond those that the closed form counts."""
    return max(rounds - vector[2], 0) * costs.latency(problem, hops)


def _executed(
    findings: ViolationLog, problem: LlmTrainingProblem, network: NetworkPlan,
    schedules: tuple[GroupSchedule, ...], servers: set[tuple[int, ...]], budget: WorkBudget,
) -> list[tuple[GroupSchedule, list[Ints]]] | None:  # fmt: skip
    """Return schedules and links of their routes, where each group has one that adds all up and brings it to all."""
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
        return None
    table, log = _link_table(problem, network), ViolationLog()
    budget.take(sum(_schedule_work(made, len(table), len(network.links)) for made in schedules))
    routes = [(made, executed(log, f"schedule {position}", made, table)) for position, made in enumerate(schedules)]
    for violation in log.violations():
        findings.add(violation.code, f"{where}: {violation.message}")
    return [(made, arcs) for made, arcs in routes if arcs is not None] if log.clean else None


def _link_table(problem: LlmTrainingProblem, network: NetworkPlan) -> Ints:
    table = np.zeros((problem.cluster.servers,) * 2, dtype=np.int64)
    for tail, head, count in network.links:
        table[tail, head] = count
    return table


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
    routes, blocks = made.schedule.routes, len(made.schedule.blocks.units)
    hops = sum(map(len, routes)) + len(made.schedule.sends) * max(map(len, routes), default=0)
    entries = blocks * servers + 2 * (made.schedule.steps + made.pieces) * (links + servers)
    return hops + links + entries / ENTRIES_PER_EVENT if entries <= MAX_ENTRIES else math.inf


def _schedule_load(
    problem: LlmTrainingProblem, network: NetworkPlan, schedules: list[tuple[GroupSchedule, list[Ints]]],
    groups: MemberGroups, vector: Vector,
) -> FamilySeconds:  # fmt: skip
    """Return the load of sound schedules, for each byte that a GPU would pass on on a ring."""
    g, steps = problem.cluster.gpus_per_server, max(made.steps for made, _ in schedules)
    size, halves, _ = vector
    rates, inside_rate = _arc_rates(problem, network)
    met = (g - 1) / g / inside_rate * _relays(problem, network)
    seconds: dict[Arc, Floats] = defaultdict(lambda: np.zeros((2, steps)))
    begun, ends = np.zeros(problem.cluster.servers), joined(_link_table(problem, network)).tolist()
    for made, routes in schedules:
        unit, sends = groups.on[made.members] * size / made.pieces / made.schedule.blocks.total, made.schedule.sends
        units = made.schedule.blocks.units[sends.block]
        np.add.at(begun, [made.schedule.routes[k][0] for k in sends.route], units * (made.pieces * unit))
        on = [routes[route] for route in sends.route]
        of = np.repeat(np.arange(len(on)), [len(arcs) for arcs in on])
        table = np.zeros((len(ends), 2, made.schedule.steps), dtype=np.int64)
        np.add.at(table, (np.concatenate(on), 1 - sends.reduce[of].astype(np.int64), sends.step[of]), units[of])
        for link in np.flatnonzero(table.any(axis=(1, 2))).tolist():
            (tail, head), moved = ends[link], in_pieces(table[link], made.pieces)
            seconds[tail, head][:, : made.steps] += moved * (unit / rates[tail, head])
            if met:
                seconds[head, head][:, : made.steps] += moved * (unit * met)
    slowest = np.zeros((3, steps))
    for parts in seconds.values():
        np.maximum(slowest, np.concatenate([parts, parts.sum(axis=0, keepdims=True)]), out=slowest)
    sums, copies, taken = slowest.sum(axis=1).tolist()
    rounds = steps
    if halves:
        taken, rounds = 2.0 * max(sums, copies), 2 * int((slowest[:2] > 0).sum(axis=1).max())
    hops = max(len(arcs) for _, routes in schedules for arcs in routes)
    # Groups are in step, those of one server before and behind what servers do.
    local = max(groups.ranks / len(servers) for servers in groups.on)
    taken += _waits(problem, vector, rounds, hops)
    taken += 2.0 * size * max(1.0 - 1.0 / local, 0.0) / (inside_rate / g)
    passed = _passed(vector, groups)
    on_links = {arc: float(parts.sum()) / passed for arc, parts in seconds.items()}
    waits = max(taken / passed - max(on_links.values()), 0.0)
    methods = ", ".join(sorted({made.method for made, _ in schedules}))
    return FamilySeconds(on_links, float(begun.max()) / passed, hops, waits, methods, rounds)


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
    return family.value.replace("-", "_")


def _rates_alone(problem: LlmTrainingProblem, strategy: ParallelStrategy, loads: Loads) -> dict[F, float]:
    ideal = costs.ideal_rates(problem, records_of([row_of(strategy)]))
    limits = {family: float(getattr(ideal, _named(family))[0]) for family in F}
    if strategy.order != RANK_ORDER:
        outside = float(ideal.expert[0])
        limits = dict.fromkeys(F, ideal.inside) | {F.EXPERT: outside, F.PIPELINE: outside}
        limits[F.TENSOR] = min(ideal.inside, outside)
    return {f: min(limits[f], 1.0 / load.taken) if load.taken > 0 else limits[f] for f, load in loads.items()}


def _as_rates(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: Mapping[F, float], loads: Loads
) -> costs.DimensionRates:
    ideal = costs.ideal_rates(problem, records_of([row_of(strategy)]))
    changes: dict[str, Any] = {_named(family): np.full_like(ideal.tensor, rate) for family, rate in rates.items()}
    changes |= {f"{f.value}_hops": loads[f].hops for f in (F.TENSOR, F.CONTEXT, F.EXPERT, F.PIPELINE) if f in loads}
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
    layers = np.array(strategy.stage_layers, dtype=np.float64)[:, None]
    inner = costs.inner_rank(problem, r, layers, rates)
    backward = float(inner.back[0, 0])
    whole = float(inner.forward[0, 0]) + backward
    busy = {f: float(inner.parts[f.value][0, 0]) / whole for f in (F.TENSOR, F.CONTEXT, F.EXPERT)}
    hidden = overlap.pipeline and strategy.pipeline > 1
    busy[F.PIPELINE] = min(1.0, 2.0 * strategy.chunks * float(inner.hop[0]) / whole) if hidden else 0.0
    reduced = costs.stage_rows(problem, r, layers, rates).reduced[:, 0]
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
