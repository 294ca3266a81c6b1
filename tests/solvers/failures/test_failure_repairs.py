"""Repairs at once: each strategy on cases whose outcome is known, and laws that hold for all of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.failures.job import JobEvaluator
from solvers.failures.repairs import RING_REPAIRS, PlanTraffic, damage_of, disjoint_detours, other_orders
from solvers.failures.worst import (
    after,
    links_left,
    links_of,
    not_forwarding,
    parts_of,
    reach,
    single_links,
    single_planes,
    single_servers,
)
from solvers.network.routes import balanced_routes
from tests.support.failure_cases import (
    MEGABYTE,
    UNIDIRECTIONAL,
    BusiestLink,
    circulant,
    circulant_job,
    circulant_rings,
    cluster,
    demand,
    of_links,
)
from topoopt.core.outcomes import Failure
from topoopt.core.workload import AllReduceDemand, Demand, GroupRings
from topoopt.verify.failures import check_repair


def checked(evaluator: JobEvaluator, failure: Failure) -> None:
    """The checker accepts the repair of a failure."""
    repair = evaluator.repair(failure)
    assert repair[1] is not None
    rate = evaluator.cluster.link_bytes_per_ms
    plan, asked = repair[1], evaluator.traffic.demand
    assert check_repair(evaluator.topology, asked, repair[0], plan.routes, plan.rings, rate) == ()


def test_circulant_with_one_long_link_lost() -> None:
    """Spec (j): circulant {1, 13} without 0-13 keeps the rings of distance 1, and 13 = 1 + 13 - 1 in three hops."""
    evaluator = circulant_job(128, (1, 13))
    failure = Failure(links=((0, 13),))
    damage = damage_of(evaluator.traffic, not_forwarding(evaluator.topology, failure))
    assert damage.broken_rings == {(0, 2), (0, 3)}  # rings of +13 and -13
    plan = RING_REPAIRS["detour"](damage)
    assert plan is not None
    before, now = evaluator.traffic.rings[0].rings, plan.rings[0].rings
    assert now[:2] == before[:2]
    mended = [path for path in now[2].paths if len(path) > 2]
    assert len(mended) == 1
    steps = sorted((b - a) % 128 for a, b in pairwise(mended[0]))
    assert (mended[0][0], mended[0][-1]) == (0, 13)
    assert steps == [1, 13, 127]
    outcome = evaluator.outcome(failure)
    assert (outcome.broken_rings, outcome.rings, outcome.disconnected_pairs) == (2, 4, 0)
    checked(evaluator, failure)


def test_re_split_leaves_the_surviving_rings_equal_shares() -> None:
    """Two of four rings lost: the other two carry half each, twice what they did."""
    evaluator = circulant_job(16, (1, 3))
    failure = Failure(links=((0, 3),))
    plan = RING_REPAIRS["re-split"](damage_of(evaluator.traffic, after(evaluator.topology, failure)))
    assert plan is not None
    assert [r.share for r in plan.rings[0].rings] == pytest.approx([0.5, 0.5])
    tried = dict(evaluator.outcome(failure).trials)
    assert tried["re-split"] == pytest.approx(2 * evaluator.nominal)


def test_spread_never_loses_to_the_cut_and_beats_re_split() -> None:
    """Server 0 keeps three of four links: no repair is below 4/3, and several detours do better than two rings of
    four."""
    evaluator = circulant_job(32, (1, 7))
    outcome = evaluator.outcome(Failure(links=((0, 7),)))
    tried = dict(outcome.trials)
    assert outcome.value == min(value for value in tried.values() if value is not None)
    assert tried["spread"] is not None
    assert tried["re-split"] is not None
    assert 4 / 3 * evaluator.nominal <= tried["spread"] * (1 + 1e-9)
    assert tried["spread"] < tried["re-split"]


def test_lend_takes_a_link_without_allreduce() -> None:
    """Spec (j): a ring that lost 0-1 goes over 0-3 and 3-1, which carry no AllReduce, and transfers leave these."""
    pairs = [(i, (i + 1) % 6) for i in range(6)] + [(0, 3), (1, 3), (0, 2)]
    topology = of_links(6, 4, pairs)
    asked = Demand(np.zeros((6, 6)), (AllReduceDemand(tuple(range(6)), MEGABYTE),))
    asked.model_parallel_bytes[0, 3] = 5e5
    rings = circulant_rings(6, (1,))
    traffic = PlanTraffic(topology, balanced_routes(topology, asked.model_parallel_bytes), rings, asked)
    evaluator = BusiestLink(cluster(6, 4), traffic)
    failure = Failure(links=((0, 1),))
    damage = damage_of(traffic, after(topology, failure))
    plan = RING_REPAIRS["lend"](damage)
    assert plan is not None
    mended = next(path for path in plan.rings[0].rings[0].paths if len(path) > 2)
    assert mended == (0, 3, 1)
    route = plan.routes.path(int(np.flatnonzero((plan.routes.source == 0) & (plan.routes.target == 3))[0]))
    assert route == (0, 2, 3)  # the transfer makes room
    checked(evaluator, failure)
    alone = circulant_job(16, (1, 3))  # every link carries AllReduce: nothing to lend
    tried = dict(alone.outcome(Failure(links=((0, 1),))).trials)
    assert tried["lend"] is None


def test_links_that_carry_nothing_are_not_missed() -> None:
    """A failed idle link changes neither time nor routes of traffic."""
    topology = circulant(8, (1, 3))
    asked = demand(8, MEGABYTE)
    routes = balanced_routes(circulant(8, (1,)))
    traffic = PlanTraffic(topology, routes, circulant_rings(8, (1,)), asked)
    outcome = BusiestLink(cluster(8, 4), traffic).outcome(Failure(links=((0, 3),)))
    assert outcome.repair == "none needed"
    assert outcome.trials == ()
    assert outcome.value == BusiestLink(cluster(8, 4), traffic).nominal


def test_cut_off_server_is_told() -> None:
    """A path of three servers without its last link: four ordered pairs are cut off and nothing is delivered."""
    topology = of_links(3, 2, [(0, 1), (1, 2)])
    asked = demand(3, 0.0, 1.0)
    evaluator = BusiestLink(cluster(3, 2), PlanTraffic(topology, balanced_routes(topology), (), asked))
    outcome = evaluator.outcome(Failure(links=((1, 2),)))
    assert (outcome.disconnected_pairs, outcome.diameter, outcome.value) == (4, None, None)
    assert outcome.repair == "impossible"
    without = replace(asked, model_parallel_bytes=np.array([[0, 1.0, 0], [1.0, 0, 0], [0, 0, 0]]))
    evaluator = BusiestLink(cluster(3, 2), PlanTraffic(topology, balanced_routes(topology), (), without))
    outcome = evaluator.outcome(Failure(links=((1, 2),)))  # the server cut off has no traffic
    assert (outcome.disconnected_pairs, outcome.value) == (4, evaluator.nominal)


def test_a_failed_server_forwards_nothing() -> None:
    """In a ring of six, what passed through server 0 goes the other way round; own traffic of server 0 stays."""
    topology = circulant(6, (1,))
    asked = demand(6, 0.0, MEGABYTE)
    evaluator = BusiestLink(cluster(6, 2), PlanTraffic(topology, balanced_routes(topology), (), asked))
    failure = Failure(servers=(0,))
    repair = evaluator.repair(failure)
    assert repair[1] is not None
    for index in range(len(repair[1].routes.share)):
        assert 0 not in repair[1].routes.path(index)[1:-1]
    outcome = repair[0]
    assert (outcome.disconnected_pairs, outcome.diameter, outcome.spare_circuits) == (0, 4, 2)  # a path of five servers
    checked(evaluator, failure)


def test_planes_take_one_interface_of_every_server() -> None:
    """Each row of the switches of a circulant is one distance one way: 16 arcs go with it."""
    topology = circulant(16, (1, 3))
    assert len(single_planes(topology)) == 4
    for failure in single_planes(topology):
        left = links_left(topology, failure)
        assert int((topology.multiplicity - left).sum()) == 16
        gone = topology.arcs[left < topology.multiplicity]
        assert sorted(gone[:, 0].tolist()) == list(range(16))


def test_unidirectional_failures_take_one_arc() -> None:
    """A single fibre has one direction; a fibre pair two."""
    one = of_links(4, 2, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)], links=UNIDIRECTIONAL)
    left = links_left(one, Failure(links=((0, 2),)))
    assert int((one.multiplicity - left).sum()) == 1
    pair = circulant(4, (1,))
    assert int((pair.multiplicity - links_left(pair, Failure(links=((0, 1),)))).sum()) == 2


def test_parallel_links_fail_one_by_one() -> None:
    """Two fibres between the same servers are two links; without one the ring still stands, at half the rate."""
    topology = of_links(2, 2, [(0, 1), (0, 1)])
    assert links_of(topology) == ((0, 1), (0, 1))
    assert len(single_links(topology)) == 1
    assert len(parts_of(topology, "links")) == 2
    asked = demand(2, MEGABYTE)
    rings = (GroupRings((0, 1), circulant_rings(2, (1,))[0].rings[:1]),)
    rings = (replace(rings[0], rings=(replace(rings[0].rings[0], share=1.0),)),)
    evaluator = BusiestLink(cluster(2, 2), PlanTraffic(topology, balanced_routes(topology), rings, asked))
    outcome = evaluator.outcome(Failure(links=((0, 1),)))
    assert outcome.broken_rings == 0
    assert outcome.value == pytest.approx(2 * evaluator.nominal)
    assert evaluator.outcome(Failure(links=((0, 1), (0, 1)))).value is None


def test_detours_share_no_arc_and_are_shortest_first() -> None:
    """Round a lost link of a circulant of degree 4 there are three ways."""
    surviving = after(circulant(32, (1, 7)), Failure(links=((0, 7),)))
    ways = disjoint_detours(surviving, 0, 7)
    assert len(ways) == 3
    arcs = [pair for way in ways for pair in pairwise(way)]
    assert len(arcs) == len(set(arcs))
    assert [len(way) for way in ways] == sorted(len(way) for way in ways)
    assert len(ways[0]) == 4


@settings(max_examples=40)
@given(n=st.integers(4, 14), turn=st.integers(0, 13), second=st.integers(0, 13))
def test_other_orders_are_rings_without_the_lost_steps(n: int, turn: int, second: int) -> None:
    """On a complete graph, reversals give Hamiltonian cycles that avoid both directions of what was lost."""
    lost = sorted({turn % n, second % n})
    alive = ~np.eye(n, dtype=np.bool_)
    given_ring = circulant_rings(n, (1,))[0].rings[0]
    dead = [(given_ring.order[at], given_ring.order[(at + 1) % n]) for at in lost]
    for a, b in dead:
        alive[a, b] = alive[b, a] = False
    for made in other_orders(given_ring, lost, alive, np.zeros((n, n))):
        assert sorted(made.order) == list(range(n))
        assert made.share == given_ring.share
        ends = [(made.order[i], made.order[(i + 1) % n]) for i in range(n)]
        assert [(path[0], path[-1]) for path in made.paths] == ends
        assert all(alive[a, b] for path in made.paths for a, b in pairwise(path))


@settings(max_examples=25)
@given(
    n=st.sampled_from([5, 7, 9, 11, 13]),
    seed=st.integers(0, 10_000),
    lost=st.integers(1, 3),
    transfers=st.sampled_from([0.0, 2e4]),
)
def test_all_bytes_arrive_after_any_repair(n: int, seed: int, lost: int, transfers: float) -> None:
    """Whatever links fail, the repair is accepted by the checker, or some traffic has no path at all."""
    evaluator = circulant_job(n, (1, 2), MEGABYTE, transfers)
    rng = np.random.default_rng(seed)
    links = links_of(evaluator.topology)
    chosen = tuple(sorted(links[int(i)] for i in rng.choice(len(links), lost, replace=False)))
    failure = Failure(links=chosen)
    outcome = evaluator.outcome(failure)
    if outcome.value is None:
        assert outcome.disconnected_pairs > 0
    else:
        checked(evaluator, failure)
        assert outcome.value >= evaluator.nominal * (1 - 1e-9)


@settings(max_examples=20)
@given(n=st.sampled_from([8, 10, 11]), seed=st.integers(0, 10_000))
def test_a_spare_link_never_makes_a_failure_worse(n: int, seed: int) -> None:
    """The plan left as it is, two servers joined that were not: every single failure is repaired at least as well."""
    plain = circulant_job(n, (1, 3), MEGABYTE, 2e4)
    rng = np.random.default_rng(seed)
    there = links_of(plain.topology)
    apart = [(a, b) for a in range(n) for b in range(a + 1, n) if (a, b) not in there]
    links = [*there, apart[int(rng.integers(len(apart)))]]
    richer = of_links(n, 5, links)
    traffic = replace(plain.traffic, topology=richer)
    more = BusiestLink(cluster(n, 5), traffic)
    for index in rng.choice(len(links) - 1, 4, replace=False):
        failure = Failure(links=(links[int(index)],))
        before, now = plain.outcome(failure).value, more.outcome(failure).value
        assert before is not None
        assert now is not None
        assert now <= before * (1 + 1e-9)


def test_reach_counts_what_breadth_first_search_counts() -> None:
    """Distances of a damaged ring of five: one failed link makes a path, its ends four hops apart."""
    topology = circulant(5, (1,))
    far = reach(after(topology, Failure(links=((0, 1),))))
    assert far[:2] == (0, 4)
    assert far[2] == pytest.approx(2 * (4 * 1 + 3 * 2 + 2 * 3 + 1 * 4) / 20)
    far = reach(after(topology, Failure(links=((0, 1), (2, 3)))))
    assert far[0] == 2 * 2 * 3
    assert len(single_servers(topology)) == 5
