"""Constraints of the links of a network: those of the fabric that it names; and who exchanges bytes over them."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from topoopt.core.arrays import Draws
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.job import FabricGraph
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import REGIONAL, RING_FAMILIES, FabricPlan, NetworkPlan
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import RANK_ORDER, ParallelStrategy, PipelineSchedule
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.verify.checker import ViolationLog, differs
from topoopt.verify.laws.networks import (
    RACK,
    RequestedFabric,
    dark_interfaces,
    fabric_error,
    links_of,
    torus_steps,
    unlawful,
)

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

    Attributes
    ----------
    ranks : of a group.
    on : how many groups are on exactly these servers.
    relayed : part of the edges of their rings between servers that join GPUs of other rails; of groups of different
        numbers of servers the largest.
    """

    ranks: int
    on: dict[tuple[int, ...], int]
    relayed: float


def rank_positions(strategy: ParallelStrategy) -> Iterator[dict[D, int]]:
    """Yield the coordinates of each rank; ranks count fastest along the first dimension of the order."""
    sizes = {dimension: getattr(strategy, dimension.value) for dimension in RANK_ORDER}
    for rank in range(strategy.gpus):
        at, rest = {}, rank
        for dimension in strategy.order:
            rest, at[dimension] = divmod(rest, sizes[dimension])
        yield at


def groups_of(strategy: ParallelStrategy, places: tuple[int, ...], g: int) -> dict[F, MemberGroups]:
    """Return the families that pass bytes round or exchange tokens, without those that stay inside servers.

    Parameters
    ----------
    places : server of each block of g ranks.
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
    """Return the ranks of every group in the order of its ring."""
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
Form = Callable[[LlmTrainingProblem, FabricPlan, Links], str]
"""What is wrong with links; empty: nothing."""


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


def _spokes(n: int, count: int) -> Links:
    return {arc: count for server in range(n) for arc in ((server, n), (n, server))}


def _star(problem: LlmTrainingProblem, plan: FabricPlan, links: Links) -> str:
    """All interfaces of every server lead to node n."""
    cluster = problem.cluster
    rate = _rate_error(plan.network, cluster.link_gbps)
    return rate or _same(links, _spokes(cluster.servers, cluster.degree))


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
    used = Counter[int]()
    for (tail, _), count in circuits.items():
        used[tail] += count
    limit = cluster.optical_interfaces
    return f"a server with more than {limit} circuits" if max(used.values(), default=0) > limit else ""


def _cubes(problem: LlmTrainingProblem, plan: FabricPlan, links: Links) -> str:
    """A torus of three axes, of whole cubes where they fit; axes of one server have no links."""
    cluster, network, n = problem.cluster, plan.network, problem.cluster.servers
    unit = CUBE if n % CUBE**3 == 0 else 1
    whole = [side for side in range(unit, n + 1, unit) if n % side == 0]
    for a, b in itertools.product(whole, repeat=2):
        sides = (a, b, n // (a * b))
        if n % (a * b) or sides[2] % unit:
            continue
        low, mid, high = sorted(sides)
        twistable = sides == (low, mid, high) and low > 1 and high == 2 * low and mid in (low, high)
        for twisted in (False, True) if twistable else (False,):
            note = f"{' x '.join(map(str, sides))} torus" + (", twisted" if twisted else "")
            steps = torus_steps([side for side in sides if side > 1], twisted=twisted) if network.form == note else []
            expected = Counter(arc for axis in steps for tail, head in axis for arc in ((tail, head), (head, tail)))
            if network.form == note and links == expected:
                return _rate_error(network, cluster.degree * cluster.link_gbps / (2 * len(steps)))
    return f"other links than a torus of its size, or those of another one than a {network.form!r}"


def _fat_tree(problem: LlmTrainingProblem, plan: FabricPlan, links: Links) -> str:
    """Three tiers of switches of k ports, k even and k^3 / 4 at least the servers, which fill the racks in order."""
    cluster, n = problem.cluster, problem.cluster.servers
    half = next(half for half in itertools.count(1) if 2 * half**3 >= n)
    racks = 2 * half * half
    up = [(server, n + server // half) for server in range(n)]
    for pod, i, j in itertools.product(range(2 * half), range(half), range(half)):
        above = n + racks + pod * half
        up += [(n + pod * half + i, above + j), (above + i, n + 2 * racks + i * half + j)]
    rate = _rate_error(plan.network, cluster.degree * cluster.link_gbps)
    return rate or _same(links, {arc: 1 for tail, head in up for arc in ((tail, head), (head, tail))})


def _wired(problem: LlmTrainingProblem, plan: FabricPlan, links: Links) -> str:
    """Servers are joined to each other as in fabrics of the same name for any kind."""
    c, network = problem.cluster, plan.network
    cluster = Cluster(c.servers, c.gpus_per_server, c.degree, c.link_gbps, c.links)
    graph = FabricGraph(tuple((tail, head, count) for (tail, head), count in links.items()), ())
    table = links_of(graph, c.servers)
    if table is None:
        return "links of servers that there are not"
    rate = _rate_error(network, c.link_gbps)
    if network.fabric == EXPANDER:  # drawn: see check_drawn_links
        return rate or unlawful(table, cluster) or dark_interfaces(table, cluster)
    return rate or fabric_error(table, graph, RequestedFabric(network.fabric, None, 1.0, RACK, None), cluster)


def _direct(problem: LlmTrainingProblem, plan: FabricPlan, links: Links) -> str:
    """Links are within the interfaces, each of a family by the split."""
    cluster, network = problem.cluster, plan.network
    out, into = Counter[int](), Counter[int]()
    for (tail, head), count in links.items():
        if max(tail, head) >= cluster.servers:
            return "a switch"
        out[tail] += count
        into[head] += count
    if max((*out.values(), *into.values()), default=0) > cluster.degree:
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
        edges = {arc for a, b in hops for arc in ((a, b), (b, a))}
        neighbours = max(Counter(tail for tail, _ in edges).values())
        rest.subtract(dict.fromkeys(edges, split[F.PIPELINE] // neighbours))
    used, exchange = Counter[int](), _exchange(groups)
    for arc, count in rest.items():
        if count < 0 or (count > 0 and arc not in exchange):
            return "links of other families than its split"
        used[arc[0]] += count
    return "" if max(used.values(), default=0) <= split.get(F.EXPERT, 0) else "more links than its split"


def _exchange(groups: Mapping[F, MemberGroups]) -> set[Arc]:
    """Return the pairs of servers that exchange tokens."""
    on = groups[F.EXPERT].on if F.EXPERT in groups else {}
    return {arc for servers in on for arc in itertools.permutations(servers, 2)}


def _ring_links(
    orders: Iterable[tuple[tuple[int, ...], ...]], interfaces: int, links: LinkDirection
) -> Counter[Arc] | None:
    """Return links of rings through groups that have so many interfaces of a server; None: there is another number."""
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


FORMS: Mapping[str, Form] = MappingProxyType(
    {DIRECT: _direct, CUBES: _cubes, RAIL_TREE: _star, RAIL_ONLY: _star, REGIONAL: _regional, "fat-tree": _fat_tree}
    | dict.fromkeys(("torus-2d", "hypercube", "generalized-kautz", "random-regular", EXPANDER), _wired)
)
"""Fabrics with links by name."""


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
        links.update(steps)
        links.update((head, tail) for tail, head in steps)
    if degree % 2:
        order = draws.permutation(servers).tolist()
        pairs = list(zip(order[::2], order[1::2], strict=False))
        links.update(pairs)
        links.update((b, a) for a, b in pairs)
    return +links
