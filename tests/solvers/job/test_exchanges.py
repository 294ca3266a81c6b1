"""Exchanges of links: degrees, paths and rings hold, the best of all tiny graphs is reached, nothing gets worse."""

from __future__ import annotations

import itertools
import time

import networkx as nx
import numpy as np
import pytest

from solvers.job.exchanges.circuits import circuit_links, wanted_circuits
from solvers.job.exchanges.moves import Proposer
from solvers.job.exchanges.repair import rewired
from solvers.job.exchanges.ring_search import rings_anew
from solvers.job.exchanges.search import LinkExchange
from solvers.job.exchanges.wants import wants_of
from solvers.job.exchanges.wiring import wiring_of
from solvers.job.methods import run_method
from solvers.job.realise import demand_routed, realise
from solvers.network.constructions.assemble import assemble, link_arcs
from solvers.network.constructions.cycles import hamiltonian_cycles
from solvers.stop import Stop
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.exchange_gain import exchange_gain_ms
from topoopt.core.job_solution import ConvergencePoint
from topoopt.core.reachability import strongly_connected
from topoopt.core.search_settings import AllReduceChoice, LinkStart
from topoopt.core.strategy import Placement, Strategy
from topoopt.core.workload import Operator, OperatorInput, Split, Workload
from topoopt.simulate.demand import demand_of
from topoopt.simulate.lower import build_task_graph
from topoopt.simulate.time_models.evaluate import simulate
from topoopt.verify.job.plan import check_plan

BOTH = LinkDirection.BIDIRECTIONAL
ONE_WAY = LinkDirection.UNIDIRECTIONAL


def job(n: int, elements: int = 65536, weights: int = 1_000_000) -> Workload:
    """Three tables on single servers, two dense layers over any divisor of n."""
    wide = tuple(Split(p, 2.0 / p, 4.0 / p, 0) for p in range(1, n + 1) if n % p == 0)
    one = (Split(1, 0.5, 1.0, 0),)
    tables = [
        Operator(f"table{k}", "embedding", elements * (k + 1), 4, (), (), one, locally_reduced=False) for k in range(3)
    ]
    inputs = tuple(OperatorInput(k) for k in range(3))
    layers = [
        Operator("dense0", "dense", elements, 4, (weights,), inputs, wide),
        Operator("dense1", "dense", 1, 4, (weights,), (OperatorInput(3),), wide),
    ]
    return Workload("job", 16 * n, (*tables, *layers))


def strategy(n: int, workload: Workload) -> Strategy:
    """Tables on servers 0, 1 and 3 (mod n), layers on all."""
    last = [len(operator.splits) - 1 for operator in workload.operators]
    spread = [0, 1 % n, 3 % n, 0, 0]
    return Strategy(tuple(Placement(split, offset) for split, offset in zip(last, spread, strict=True)))


def random_links(n: int, degree: int, links: LinkDirection, seed: int, spare: int = 0):
    """A connected topology of random links, some interfaces left free."""
    rng = np.random.default_rng(seed)
    ring = rng.permutation(n)
    arcs = (
        [(int(a), int(b)) for a, b in zip(ring, np.roll(ring, -1), strict=True)]
        if n > 2 or links is ONE_WAY
        else [(0, 1)]
    )
    used = np.zeros((2, n), dtype=int)
    for a, b in arcs:
        used[0, a] += 1
        used[1, b] += 1
        if links is BOTH:
            used[0, b] += 1
            used[1, a] += 1
    for _ in range(20 * n * degree):
        a, b = (int(x) for x in rng.integers(n, size=2))
        room = used[0, a] < degree and used[1, b] < degree
        if links is BOTH:
            room = room and used[0, b] < degree and used[1, a] < degree
        if a == b or not room or len(arcs) >= n * degree // (2 if links is BOTH else 1) - spare:
            continue
        arcs.append((a, b))
        used[0, a] += 1
        used[1, b] += 1
        if links is BOTH:
            used[0, b] += 1
            used[1, a] += 1
    return assemble(n, degree, links, [link_arcs(arcs) if links is BOTH else np.array(arcs)], "random")


def wiring_for(cluster: Cluster, workload: Workload, topology):
    graph = build_task_graph(cluster, workload, strategy(cluster.servers, workload))
    demand = demand_of(graph)
    made = realise(cluster, topology, [group.members for group in demand.allreduce])
    return graph, wiring_of(topology, made.routes, made.rings, demand)


def require_whole(wiring, degree: int, links: LinkDirection) -> None:
    """Links within the interfaces, every path over links, all traffic carried once."""
    counts = wiring.counts
    assert (counts >= 0).all()
    assert not counts.diagonal().any()
    assert counts.sum(axis=0).max() <= degree
    assert counts.sum(axis=1).max() <= degree
    assert links is ONE_WAY or (counts == counts.T).all()
    served = wiring.traffic.model_parallel_bytes > 0
    assert set(wiring.routes) == {tuple(pair) for pair in np.argwhere(served).tolist()}
    for pair, paths in wiring.routes.items():
        assert sum(share for share, _ in paths) == pytest.approx(1.0)
        assert all((path[0], path[-1]) == pair for _, path in paths)
    assert [group.members for group in wiring.rings] == [group.members for group in wiring.traffic.allreduce]
    for group in wiring.rings:
        assert sum(ring.share for ring in group.rings) == pytest.approx(1.0)
        for ring in group.rings:
            assert sorted(ring.order) == sorted(group.members)
            steps = list(zip(ring.order, (*ring.order[1:], ring.order[0]), strict=True))
            assert [(path[0], path[-1]) for path in ring.paths] == steps
    paths = [path for own in wiring.routes.values() for _, path in own]
    paths += [path for group in wiring.rings for ring in group.rings for path in ring.paths]
    assert all(counts[arc] > 0 for path in paths for arc in itertools.pairwise(path))


@pytest.mark.parametrize("links", [BOTH, ONE_WAY])
@pytest.mark.parametrize(
    ("n", "degree", "spare"), [(2, 2, 0), (3, 2, 0), (5, 2, 1), (6, 3, 2), (7, 3, 0), (8, 4, 0), (9, 4, 3)]
)
def test_what_exchanges_leave_is_whole(links, n, degree, spare):
    """A walk of accepted exchanges keeps degrees, connection, routes and rings, whatever their times."""
    cluster, workload = Cluster(n, 1, degree, 10.0, links), job(n)
    graph, wiring = wiring_for(cluster, workload, random_links(n, degree, links, n, spare))
    search = LinkExchange(cluster, graph, seed=1, stop=Stop())
    proposer = Proposer(degree, links, np.random.default_rng(n))
    changed = 0
    for _ in range(60):
        network = search.network(wiring)
        wants = wants_of(graph, simulate(graph, network), wiring, paired=links is BOTH, circuits=None)
        exchange = proposer.propose(wiring.counts, wants, set())
        mended = None if exchange is None else rewired(wiring, exchange)
        if mended is None:
            continue
        assert mended.counts.sum() >= wiring.counts.sum()  # links are moved, or added where interfaces are free
        require_whole(mended, degree, links)
        wiring = rings_anew(mended, paired=links is BOTH, seed=3)
        require_whole(wiring, degree, links)
        assert strongly_connected(n, np.argwhere(wiring.counts > 0))
        changed += 1
    assert changed > 0 or n == 2


@pytest.mark.parametrize(("n", "degree"), [(3, 2), (5, 4), (6, 4), (9, 4), (16, 4), (17, 6), (32, 8)])
def test_cycles_take_every_link_once(n, degree):
    """Random regular graphs of even degree: as many Hamiltonian cycles as pairs of interfaces, no link twice."""
    for seed in range(4):
        plain = nx.random_regular_graph(degree, n, seed=seed)
        if not nx.is_connected(plain):
            continue
        counts = nx.to_numpy_array(plain, dtype=int, nodelist=range(n)).astype(np.int64)
        cycles = hamiltonian_cycles(counts, (), seed=seed)
        assert cycles is not None
        used = np.zeros_like(counts)
        for order in cycles:
            assert sorted(order) == list(range(n))
            for here, there in zip(order, (*order[1:], order[0]), strict=True):
                used[[here, there], [there, here]] += 1
        assert (used == counts).all()


def test_there_are_no_cycles_where_interfaces_are_odd_or_links_apart():
    """Odd degree, free interfaces, two parts."""
    complete = np.ones((4, 4), dtype=np.int64) - np.eye(4, dtype=np.int64)
    assert hamiltonian_cycles(complete, (), seed=0) is None
    path = np.diag([1, 1, 1], 1)
    assert hamiltonian_cycles((path + path.T).astype(np.int64), (), seed=0) is None
    triangle = np.ones((3, 3), dtype=np.int64) - np.eye(3, dtype=np.int64)
    assert hamiltonian_cycles(np.kron(np.eye(2, dtype=np.int64), triangle), (), seed=0) is None
    assert hamiltonian_cycles(np.array([[0, 2], [2, 0]]), (), seed=0) is None


def every_topology(n: int, degree: int):
    """All connected multigraphs of fibre pairs within the interfaces."""
    pairs = list(itertools.combinations(range(n), 2))
    for counts in itertools.product(range(degree + 1), repeat=len(pairs)):
        used = [0] * n
        for (a, b), count in zip(pairs, counts, strict=True):
            used[a] += count
            used[b] += count
        links = [pair for pair, count in zip(pairs, counts, strict=True) for _ in range(count)]
        if max(used) <= degree and len(links) >= n - 1 and strongly_connected(n, link_arcs(links)):
            yield assemble(n, degree, BOTH, [link_arcs(links)], "enumerated")


def best_routed(cluster: Cluster, graph, topology, wiring) -> float:
    """Iteration time, ms, on a topology with the rings it gets and the best routes for the traffic."""
    base = realise(cluster, topology, [group.members for group in wiring.traffic.allreduce])
    routed = [base, *demand_routed(cluster, base, wiring.traffic.model_parallel_bytes)]
    return min(simulate(graph, each.network).iteration_time_ms for each in routed)


@pytest.mark.parametrize(("n", "degree", "distance"), [(4, 2, 1e-9), (5, 2, 1e-9), (4, 3, 0.05)])
def test_the_best_of_all_tiny_graphs_is_reached(n, degree, distance):
    """From the worst links there are: as fast as every graph, each with its best routes, or within a distance of it."""
    cluster, workload = Cluster(n, 1, degree, 10.0), job(n)
    timed = []
    for topology in every_topology(n, degree):
        graph, wiring = wiring_for(cluster, workload, topology)
        timed.append((best_routed(cluster, graph, topology, wiring), len(timed), wiring))
    best, worst = min(timed, key=lambda entry: entry[:2]), max(timed, key=lambda entry: entry[:2])
    assert worst[0] > 1.05 * best[0]  # links matter
    found = LinkExchange(cluster, graph, seed=0, stop=Stop()).run(worst[2], 400, lambda time_ms: None)
    units = np.repeat(found.wiring.arcs, found.wiring.counts[tuple(found.wiring.arcs.T)], axis=0)
    links = assemble(n, degree, BOTH, [units], "found")
    reached = min(found.iteration_time_ms, best_routed(cluster, graph, links, found.wiring))
    assert reached <= best[0] * (1 + distance)


@pytest.mark.parametrize("links", [BOTH, ONE_WAY])
@pytest.mark.parametrize(("n", "degree"), [(2, 1), (3, 2), (5, 2), (7, 3), (8, 4)])
@pytest.mark.parametrize("topology", list(LinkStart))
def test_plans_only_gain_and_pass_the_checker(links, n, degree, topology):
    """With exchanges never slower than without, links on switches, the same again with the same seed."""
    cluster, workload = Cluster(n, 1, degree, 10.0, links), job(n)
    alone = run_method("alternating", cluster, workload, budget=60, seed=2, stop=Stop())
    first, again = (
        run_method("alternating", cluster, workload, budget=60, seed=2, stop=Stop(), exchanges=60, topology=topology)
        for _ in range(2)
    )
    assert first.iteration_time_ms <= alone.iteration_time_ms
    assert check_plan(cluster, workload, first.plan) == ()
    assert first.iteration_time_ms == again.iteration_time_ms
    assert first.notes == again.notes
    assert first.plan.topology.arcs.tobytes() == again.plan.topology.arcs.tobytes()
    assert first.plan.topology.switches.tobytes() == again.plan.topology.switches.tobytes()
    assert first.plan.routes.node.tobytes() == again.plan.routes.node.tobytes()
    assert first.plan.rings == again.plan.rings


def test_a_job_without_traffic_keeps_its_links():
    """One server does it all: nothing is simulated, and the plan says why."""
    one = (Split(1, 0.5, 1.0, 0),)
    workload = Workload("alone", 4, (Operator("table", "embedding", 8, 4, (), (), one, locally_reduced=False),))
    result = run_method(
        "alternating", Cluster(4, 1, 2, 10.0), workload, budget=20, seed=0, stop=Stop(), exchanges=50,
        topology=LinkStart.DAG,
    )  # fmt: skip
    assert any("nothing goes from a server to another" in note for note in result.notes)


def test_exchanges_end_at_a_limit():
    """A limit that has passed: what is there is returned; one that comes is kept to."""
    cluster, workload = Cluster(8, 1, 4, 10.0), job(8)
    graph, wiring = wiring_for(cluster, workload, random_links(8, 4, BOTH, 0))
    late = Stop(deadline=time.monotonic() - 1.0)
    search = LinkExchange(cluster, graph, seed=0, stop=late)
    found = search.run(wiring, 10**6, lambda time_ms: None)
    assert found.proposals == 0
    assert found.iteration_time_ms == search.time_ms(wiring)
    LinkExchange(cluster, graph, seed=0, stop=Stop()).run(wiring, 20, lambda time_ms: None)  # kernels are compiled
    begun = time.monotonic()
    soon = LinkExchange(cluster, graph, seed=0, stop=Stop(deadline=begun + 0.5))
    assert soon.run(wiring, 10**6, lambda time_ms: None).proposals < 10**6
    assert time.monotonic() - begun < 10.0


@pytest.mark.parametrize(
    ("method", "settings", "path"),
    [
        ("fixed-topology", {"exchanges": 10}, "search.exchanges"),
        ("fixed-topology", {"topology": LinkStart.DAG}, "search.topology"),
        ("alternating", {"exchanges": 10, "allreduce": AllReduceChoice.TREES}, "search.exchanges"),
        ("alternating", {"topology": LinkStart.DAG, "allreduce": AllReduceChoice.BFB}, "search.topology"),
        ("alternating", {"topology": LinkStart.DAG, "exchanges": 0}, "search.exchanges"),
    ],
)
def test_exchanges_that_nothing_makes_are_refused(method, settings, path):
    """Methods that keep their links, AllReduces that are not on rings, circuits to begin nothing with."""
    with pytest.raises(InputError) as refused:
        run_method(method, Cluster(4, 1, 2, 10.0), job(4), budget=10, seed=0, stop=Stop(), **settings)
    assert [problem.path for problem in refused.value.problems] == [path]


@pytest.mark.parametrize(("n", "degree"), [(3, 2), (5, 2), (8, 3), (9, 4), (12, 4)])
@pytest.mark.parametrize("links", [BOTH, ONE_WAY])
def test_circuits_become_links_that_join_all_servers(n, degree, links):
    """Circuits of the graph of a job, completed: within the interfaces, the circuits themselves among the links."""
    cluster, workload = Cluster(n, 1, degree, 10.0, links), job(n)
    graph, wiring = wiring_for(cluster, workload, random_links(n, degree, links, 1))
    begins = simulate(graph, LinkExchange(cluster, graph, seed=0, stop=Stop()).network(wiring)).start_ms
    circuits = wanted_circuits(cluster, graph, begins, Stop())
    assert circuits is not None
    assert (circuits == circuits.T).all()
    assert circuits.sum(axis=1).max() <= degree
    topology = circuit_links(cluster, circuits, np.ones((n, n)) - np.eye(n))
    assert topology is not None
    assert topology.degree_problems() == []
    assert strongly_connected(n, topology.arcs)


def test_circuits_of_two_parts_are_joined():
    """Two rings of four with all interfaces in use: one link of each is exchanged."""
    ring = np.zeros((4, 4), dtype=np.int64)
    for here in range(4):
        ring[here, (here + 1) % 4] = ring[(here + 1) % 4, here] = 1
    circuits = np.kron(np.eye(2, dtype=np.int64), ring)
    topology = circuit_links(Cluster(8, 1, 2, 10.0), circuits, np.zeros((8, 8)))
    assert topology is not None
    assert (circuits * topology.adjacency()).sum() == circuits.sum() - 4
    pairs = np.kron(np.eye(2, dtype=np.int64), np.array([[0, 1], [1, 0]]))
    assert circuit_links(Cluster(4, 1, 1, 10.0), pairs, np.zeros((4, 4))) is None


def test_the_gain_is_what_the_two_phases_took_off():
    """Falls of the best in the phases of exchanges count, those of other phases do not."""
    way = [(0, "start", 10.0), (5, "explore", 8.0), (9, "exchange", 7.5), (9, "exchange", 7.0)]
    way += [(12, "exchange strategy", 6.5), (12, "schedules", 6.0)]
    assert exchange_gain_ms([ConvergencePoint(*point) for point in way]) == pytest.approx(1.5)
    assert exchange_gain_ms([ConvergencePoint(*point) for point in way[:2]]) == 0
