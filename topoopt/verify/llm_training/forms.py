"""Whether the links of a network are those of the fabric that it claims to be."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.job_solution import FabricGraph
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import REGIONAL, RING_FAMILIES, FabricOutcome, TrainingNetwork
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy
from topoopt.verify.job.fabrics.asked import RACK, AskedFabric
from topoopt.verify.job.fabrics.families import dark_fault, fault_of, links_of, unlawful
from topoopt.verify.laws.findings import ViolationLog, differs
from topoopt.verify.llm_training.groups import MemberGroups, groups_of, stage_hops
from topoopt.verify.llm_training.link_loads import DIRECT, RAIL_ONLY, RAIL_TREE

Links = dict[tuple[int, int], int]
Form = Callable[[LlmTrainingProblem, FabricOutcome, Links], str]
"""What is wrong with links, by their ends; empty: nothing."""

CUBES = "torus-3d"

CUBE = 4
"""Servers along each side of the cubes of a torus of cubes."""


def check_form(findings: ViolationLog, problem: LlmTrainingProblem, outcome: FabricOutcome) -> bool:
    """Whether the network is of the fabric that it names."""
    wrong = _form_fault(problem, outcome)
    if wrong:
        findings.add("fabrics", f"{outcome.plan.network.fabric} has {wrong}")
    return not wrong


def _form_fault(problem: LlmTrainingProblem, outcome: FabricOutcome) -> str:
    network = outcome.plan.network
    links = {(tail, head): parallel for tail, head, parallel in network.links}
    loops = any(tail == head for tail, head in links)
    if loops or len(links) != len(network.links) or min(links.values(), default=1) < 1:
        return "links that are none, or stand twice"
    if network.fabric not in FORMS:
        return "links, and is no fabric that is known"
    if network.degree_split and network.fabric != DIRECT:
        return "interfaces that are split, where the links are given"
    if outcome.note and network.fabric != CUBES:
        return f"the note {outcome.note!r}"
    return FORMS[network.fabric](problem, outcome, links)


def _rate_fault(network: TrainingNetwork, due: float) -> str:
    return f"links of {network.link_gbps!r} Gbit/s, {due!r} are due" if differs(network.link_gbps, due, 1e-9) else ""


def _star(problem: LlmTrainingProblem, outcome: FabricOutcome, links: Links) -> str:
    """All interfaces of every server on node n."""
    cluster, n = problem.cluster, problem.cluster.servers
    due = {ends: cluster.degree for server in range(n) for ends in ((server, n), (n, server))}
    return _rate_fault(outcome.plan.network, cluster.link_gbps) or _same(links, due)


def _regional(problem: LlmTrainingProblem, outcome: FabricOutcome, links: Links) -> str:
    """Interfaces that are not optical on node n; circuits both ways, between servers that exchange tokens."""
    cluster, network, n = problem.cluster, outcome.plan.network, problem.cluster.servers
    other = cluster.degree - cluster.optical_interfaces
    due = {ends: other for server in range(n) for ends in ((server, n), (n, server))}
    circuits = {ends: count for ends, count in links.items() if n not in ends}
    if wrong := _rate_fault(network, cluster.link_gbps) or _same({e: c for e, c in links.items() if n in e}, due):
        return wrong
    if any(circuits.get((b, a)) != count for (a, b), count in circuits.items()):
        return "a circuit that leads one way only"
    places = network.places or tuple(range(n))
    groups = groups_of(outcome.plan.strategy, places, cluster.gpus_per_server)
    exchange = {ends for servers in _on(groups, F.EXPERT) for ends in itertools.permutations(servers, 2)}
    if not set(circuits) <= exchange:
        return "circuits between servers that exchange no tokens"
    used = Counter(dict.fromkeys(range(n), 0))
    for (tail, _), count in circuits.items():
        used[tail] += count
    most = cluster.optical_interfaces
    return f"a server with more than {most} circuits" if max(used.values(), default=0) > most else ""


def _same(links: Links, due: Mapping[tuple[int, int], int]) -> str:
    return "" if links == due else "other links than the fabric has"


def _cubes(problem: LlmTrainingProblem, outcome: FabricOutcome, links: Links) -> str:
    """A torus of three axes, of cubes where there are whole ones; axes of one server have no links."""
    cluster = problem.cluster
    for sides in _sides(cluster.servers):
        a, b, c = sorted(sides)
        twists = [False, True] if list(sides) == [a, b, c] and a > 1 and c == 2 * a and b in (a, c) else [False]
        for twisted in twists:
            steps = _torus_steps(tuple(side for side in sides if side > 1), twisted)
            if links != Counter(itertools.chain.from_iterable(steps)):
                continue
            note = f"{' x '.join(map(str, sides))} torus" + (", twisted" if twisted else "")
            if outcome.note != note:
                continue
            return _rate_fault(outcome.plan.network, cluster.degree * cluster.link_gbps / (2 * len(steps)))
    return f"other links than a torus of its size, or those of another one than a {outcome.note!r}"


def _sides(n: int) -> Iterator[tuple[int, int, int]]:
    unit = CUBE if n % CUBE**3 == 0 else 1
    whole = [side for side in range(unit, n + 1, unit) if n % side == 0]
    for a, b in itertools.product(whole, repeat=2):
        if n % (a * b) == 0 and n // (a * b) % unit == 0:
            yield a, b, n // (a * b)


def _torus_steps(sides: tuple[int, ...], twisted: bool) -> list[list[tuple[int, int]]]:
    """Arcs of each axis, both ways; places count fastest along the last axis.

    Twisted: round a shortest axis a step also goes half the way along all longest ones (Camara et al., IEEE TPDS 2010).
    """
    scale = [math.prod(sides[axis + 1 :]) for axis in range(len(sides))]
    found: list[list[tuple[int, int]]] = []
    for axis, side in enumerate(sides):
        found.append([])
        for place in itertools.product(*map(range, sides)):
            after = list(place)
            after[axis] = (place[axis] + 1) % side
            if twisted and side == min(sides) and place[axis] == side - 1:
                for other, length in enumerate(sides):
                    if length == max(sides):
                        after[other] = (after[other] + length // 2) % length
            ends = [sum(one * step for one, step in zip(at, scale, strict=True)) for at in (place, after)]
            found[-1] += [(ends[0], ends[1]), (ends[1], ends[0])]
    return found


def _fat_tree(problem: LlmTrainingProblem, outcome: FabricOutcome, links: Links) -> str:
    """Three tiers of switches of k ports, k even and k^3 / 4 at least the servers, which fill the racks in order."""
    cluster, n = problem.cluster, problem.cluster.servers
    half = next(half for half in itertools.count(1) if 2 * half**3 >= n)
    racks, pods = 2 * half * half, 2 * half
    up = [(server, n + server // half) for server in range(n)]
    for pod, one, other in itertools.product(range(pods), range(half), range(half)):
        rack, above = n + pod * half + one, n + racks + pod * half
        up += [(rack, above + other), (above + one, n + 2 * racks + one * half + other)]
    due = {ends: 1 for tail, head in up for ends in ((tail, head), (head, tail))}
    return _rate_fault(outcome.plan.network, cluster.degree * cluster.link_gbps) or _same(links, due)


def _wired(problem: LlmTrainingProblem, outcome: FabricOutcome, links: Links) -> str:
    """Servers joined to each other, as fabrics of the same name are for any kind."""
    own, network = problem.cluster, outcome.plan.network
    cluster = Cluster(own.servers, own.gpus_per_server, own.degree, own.link_gbps, own.links)
    graph = FabricGraph(tuple((tail, head, count) for (tail, head), count in links.items()), ())
    table = links_of(graph, own.servers)
    if table is None:
        return "links of servers that there are not"
    rate = _rate_fault(network, own.link_gbps)
    if network.fabric == "expander":  # drawn: see check_drawn_links
        return rate or unlawful(table, cluster) or dark_fault(table, cluster)
    return rate or fault_of(table, graph, AskedFabric(network.fabric, None, 1.0, RACK, None), cluster)


def _direct(problem: LlmTrainingProblem, outcome: FabricOutcome, links: Links) -> str:
    """Links within the interfaces, each of a family by the split that is stated."""
    cluster, network = problem.cluster, outcome.plan.network
    out: dict[int, int] = defaultdict(int)
    into: dict[int, int] = defaultdict(int)
    for (tail, head), parallel in links.items():
        if max(tail, head) >= cluster.servers:
            return "a switch"
        out[tail] += parallel
        into[head] += parallel
    if max((*out.values(), *into.values()), default=0) > cluster.degree:
        return f"a server with more than {cluster.degree} interfaces"
    if cluster.links is LinkDirection.BIDIRECTIONAL and any(links.get((b, a)) != k for (a, b), k in links.items()):
        return "a link that leads one way only"
    return _rate_fault(network, cluster.link_gbps) or _split_fault(problem, network, outcome.plan.strategy, links)


def _split_fault(
    problem: LlmTrainingProblem, network: TrainingNetwork, strategy: ParallelStrategy, links: Links
) -> str:
    """Whether the links are those of the split: rings, joined stages, and for the rest pairs that exchange tokens."""
    split, g = dict(network.degree_split), problem.cluster.gpus_per_server
    places = network.places or tuple(range(problem.cluster.servers))
    groups, (hops, _) = groups_of(strategy, places, g), stage_hops(strategy, places, g)
    if set(split) != _leaders(groups) | ({F.PIPELINE} if hops else set()):
        return "a split over other families than those that send"
    if list(network.degree_split) != sorted(split.items()) or sum(split.values()) > problem.cluster.degree:
        return "a split that is none of its interfaces"
    left = Counter(links)
    for rings in network.rings:
        if rings.dimension in split:
            own = split[rings.dimension] // _met(groups[rings.dimension])
            due = _ring_links(rings.orders, own, problem.cluster.links)
            if due is None:
                return f"other rings of {rings.dimension} than its split"
            left.subtract(due)
    if split.get(F.PIPELINE):
        edges = {ends for a, b in hops for ends in ((a, b), (b, a))}
        neighbours = max(Counter(tail for tail, _ in edges).values())
        left.subtract(dict.fromkeys(edges, split[F.PIPELINE] // neighbours))
    used: dict[int, int] = defaultdict(int)
    exchange = {ends for servers in _on(groups, F.EXPERT) for ends in itertools.permutations(servers, 2)}
    for ends, count in left.items():
        if count < 0 or (count > 0 and ends not in exchange):
            return "links of other families than its split"
        used[ends[0]] += count
    return "" if max(used.values(), default=0) <= split.get(F.EXPERT, 0) else "more links than its split"


def _on(groups: Mapping[F, MemberGroups], family: F) -> set[tuple[int, ...]]:
    return set(groups[family].on) if family in groups else set()


def _met(groups: MemberGroups) -> int:
    """Groups that one server is in, at most."""
    return max(Counter(server for servers in groups.on for server in servers).values())


def _leaders(groups: Mapping[F, MemberGroups]) -> set[F]:
    """Families with links of their own: of those whose rings are of the same servers the first one."""
    found: set[F] = set()
    for family in groups:
        same = (_on(groups, other) == _on(groups, family) for other in found if other in RING_FAMILIES)
        if family not in RING_FAMILIES or not any(same):
            found.add(family)
    return found


def _ring_links(
    orders: tuple[tuple[tuple[int, ...], ...], ...], own: int, links: LinkDirection
) -> Counter[tuple[int, int]] | None:
    """Links of rings through groups that have so many interfaces of a server; None: they are too many, or too few."""
    both = links is LinkDirection.BIDIRECTIONAL
    found: Counter[tuple[int, int]] = Counter()
    for rings in orders:
        if len(rings[0]) == 2:
            a, b = rings[0]
            found.update({(a, b): own, (b, a): own})
            continue
        due = own // 2 * 2 if both else own  # a ring both ways is two
        if due and len(rings) != due:
            return None
        for ring in rings if due else ():
            found.update(zip(ring, ring[1:] + ring[:1], strict=True))
    return found


FORMS: Mapping[str, Form] = MappingProxyType(
    {
        DIRECT: _direct,
        CUBES: _cubes,
        RAIL_TREE: _star,
        RAIL_ONLY: _star,
        REGIONAL: _regional,
        "fat-tree": _fat_tree,
        **dict.fromkeys(("torus-2d", "hypercube", "generalized-kautz", "random-regular", "expander"), _wired),
    }
)
"""Fabrics with links by name."""
