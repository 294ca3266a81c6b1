"""The checker of repairs: what is right passes, every corruption is named. Plans are made by hand, without solvers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.verify_cases import circulant, make_cluster, path_table
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import LengthCertificate, SourceFlow
from topoopt.core.outcomes import Failure, FailureOutcome, Rewiring
from topoopt.core.workload import AllReduceDemand, Demand, GroupRings, Ring
from topoopt.verify.failures import check_repair, check_rerouted, check_rewiring, check_training_repair, surviving_links

RATE = 1e6
LOST = Failure(links=((0, 1),))


def ring_of_four():
    """Four servers in a ring, one of whose fibre pairs (0-1) failed: the rest is the path 1 2 3 0."""
    topology = circulant(make_cluster(4, 2), (1,))
    demand = Demand(np.zeros((4, 4)), (AllReduceDemand((0, 1, 2, 3), 4e6),))
    demand.model_parallel_bytes[0, 1] = 1e6
    routes = path_table(4, {(0, 1): [((0, 3, 2, 1), 1.0)]})
    order = (0, 1, 2, 3)
    paths = ((0, 3, 2, 1), (1, 2), (2, 3), (3, 0))
    rings = (GroupRings(order, (Ring(order, 1.0, paths),)),)
    # 0->3, 3->2 and 2->1 carry 1e6 and 6e6 bytes of the ring step, 1 ms each million
    outcome = FailureOutcome(LOST, 0, 3, 20 / 12, 1, 1, 1, 7.0, "detour")
    return topology, demand, outcome, routes, rings


def codes(topology, demand, outcome, routes, rings):
    """Codes of all violations."""
    return {violation.code for violation in check_repair(topology, demand, outcome, routes, rings, RATE)}


def test_a_right_repair_passes() -> None:
    """The ring goes the long way round, and the time stated is that of its busiest link."""
    assert codes(*ring_of_four()) == set()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"disconnected_pairs": 1}, "failure-pairs"),
        ({"diameter": 2}, "failure-diameter"),
        ({"diameter": None}, "failure-diameter"),
        ({"mean_hops": 1.5}, "failure-hops"),
        ({"mean_hops": None}, "failure-hops"),
        ({"value": 6.9}, "failure-time"),
        ({"value": None}, "failure-time"),
        ({"failure": Failure(links=((0, 2),))}, "failure-shape"),
    ],
)
def test_wrong_figures_are_named(changes: dict[str, object], code: str) -> None:
    """Each figure of an outcome is recomputed."""
    topology, demand, outcome, routes, rings = ring_of_four()
    assert code in codes(topology, demand, replace(outcome, **changes), routes, rings)


def test_dead_links_shares_and_missing_traffic_are_named() -> None:
    """A route or a ring over the failed link, shares that do not sum to 1, traffic without a way."""
    topology, demand, outcome, routes, rings = ring_of_four()
    direct = path_table(4, {(0, 1): [((0, 1), 1.0)]})
    assert "route-link" in codes(topology, demand, outcome, direct, rings)
    half = path_table(4, {(0, 1): [((0, 3, 2, 1), 0.5)]})
    assert "route-share" in codes(topology, demand, outcome, half, rings)
    none = path_table(4, {(2, 1): [((2, 1), 1.0)]})
    assert "route-missing" in codes(topology, demand, outcome, none, rings)
    ring = rings[0].rings[0]
    dead = replace(ring, paths=((0, 1), *ring.paths[1:]))
    assert "ring-link" in codes(topology, demand, outcome, routes, (replace(rings[0], rings=(dead,)),))
    less = replace(ring, share=0.9)
    assert "ring-share" in codes(topology, demand, outcome, routes, (replace(rings[0], rings=(less,)),))
    assert "ring-missing" in codes(topology, demand, outcome, routes, ())


RING = (0, 1, 2, 3)
LONG_WAY = {(0, 1): [((0, 3, 2, 1), 1.0)], (1, 2): [((1, 2), 1.0)], (2, 3): [((2, 3), 1.0)], (3, 0): [((3, 0), 1.0)]}


@pytest.mark.parametrize(
    ("routes", "ring", "named"),
    [
        ({}, (RING, RING), ()),
        ({(0, 1): [((0, 3, 2, 1), 0.5)]}, (RING, RING), ("do not sum to 1",)),
        ({(0, 1): [((0, 3, 2), 1.0)]}, (RING, RING), ("does not lead from 0 to 1",)),
        ({(0, 1): [((0, 1), 1.0)]}, (RING, RING), ("uses a dead link",)),
        ({}, ((0, 1, 2), RING), ("is not of the servers [0, 1, 2]",)),
        ({}, (RING, (0, 3, 2, 1)), ("nothing leads from 0 to 3",)),
    ],
)
def test_laws_of_a_repair_of_training(routes, ring, named) -> None:
    """Each law by itself: shares, ends, links, members of a ring, and a route for each of its steps."""
    topology, _, outcome, _, _ = ring_of_four()
    found = check_training_repair(topology, outcome, LONG_WAY | routes, [ring])
    assert len(found) == len(named)
    assert all(text in str(violation) for text, violation in zip(named, found, strict=True))


def test_nothing_passes_through_a_failed_server() -> None:
    """A route over a failed server is named; one that ends there is not."""
    topology = circulant(make_cluster(4, 2), (1,))
    demand = Demand(np.zeros((4, 4)), ())
    demand.model_parallel_bytes[1, 3] = demand.model_parallel_bytes[1, 2] = 1e6
    outcome = FailureOutcome(Failure(servers=(2,)), 0, 2, 8 / 6, 0, 0, 1, 5.0, "reroute")
    through = path_table(4, {(1, 2): [((1, 2), 1.0)], (1, 3): [((1, 2, 3), 1.0)]})
    assert codes(topology, demand, outcome, through, ()) == {"failure-relay"}
    round_it = path_table(4, {(1, 2): [((1, 2), 1.0)], (1, 3): [((1, 0, 3), 1.0)]})
    assert codes(topology, demand, outcome, round_it, ()) == set()


def test_planes_and_single_fibres() -> None:
    """A failed switch takes its row, a fibre one direction."""
    topology = circulant(make_cluster(5, 2, LinkDirection.UNIDIRECTIONAL), (1, 2))
    left = surviving_links(topology, Failure(planes=(0,)))
    assert int(left.sum()) == 5
    assert all(left[i, (i + 2) % 5] == 1 for i in range(5))
    left = surviving_links(topology, Failure(links=((0, 1),)))
    assert (left[0, 1], int(left.sum())) == (0, 9)
    with pytest.raises(ValueError, match="does not exist"):
        surviving_links(topology, Failure(links=((1, 0),)))


def test_theta_after_a_failure() -> None:
    """Three servers in a ring without 0-1: all passes server 2, theta 2, proven by length 1 of arc 2 -> 1 (or any)."""
    topology = circulant(make_cluster(3, 2), (1,))
    demand = np.ones((3, 3)) - np.eye(3)
    arcs = replace(
        topology, arcs=np.array([[0, 2], [1, 2], [2, 0], [2, 1]], dtype=np.int32), multiplicity=np.ones(4, np.int32)
    )
    flow = np.array([[2.0, 0, 0, 1.0], [0, 2.0, 1.0, 0], [0, 0, 1.0, 1.0]])
    lengths = LengthCertificate(np.array([1.0, 0, 0, 0]))
    outcome = FailureOutcome(LOST, 0, 2, 8 / 6, 0, 0, 0, 2.0, "routed anew", bound=2.0)
    given = (topology, demand, outcome, arcs, SourceFlow(flow), lengths)
    assert check_rerouted(*given) == ()
    for changed, code in (
        (replace(outcome, value=1.9), "failure-theta"),
        (replace(outcome, bound=2.1), "failure-bound"),
        (replace(outcome, failure=Failure(links=((1, 2),))), "failure-links"),
    ):
        found = check_rerouted(topology, demand, changed, arcs, SourceFlow(flow), lengths)
        assert code in {violation.code for violation in found}
    short = SourceFlow(np.where(flow == 2.0, 1.0, flow))
    assert "failure-flow" in {v.code for v in check_rerouted(topology, demand, outcome, arcs, short, lengths)}


def test_rewiring_laws() -> None:
    """What stands is what survived, less the given up, plus the set ones; no failed link is set again."""
    topology = circulant(make_cluster(6, 2), (1,))
    after = circulant(make_cluster(6, 2), (1,))
    right = Rewiring(LOST, ((3, 4),), ((0, 3), (1, 4)), 1, 2.0, 1.0, "made up")
    pairs = {(1, 2), (2, 3), (4, 5), (0, 5), (0, 3), (1, 4)}
    arcs = np.array(sorted(pairs | {(b, a) for a, b in pairs}), dtype=np.int32)
    after = replace(after, arcs=arcs, multiplicity=np.ones(len(arcs), np.int32), offsets=())
    assert check_rewiring(topology, right, after) == ()
    few = replace(right, allowed=0)
    assert {v.code for v in check_rewiring(topology, few, after)} == {"rewiring-circuits"}
    assert {v.code for v in check_rewiring(topology, replace(right, added=()), after)} == {"rewiring-links"}
    again = replace(right, removed=(), added=((0, 1),))
    assert {v.code for v in check_rewiring(topology, again, topology)} == {"rewiring-failed"}
