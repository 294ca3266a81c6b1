"""The checker of network solutions: what is sound passes, every kind of damage is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.network_cases import NetworkResult, on_links, on_network, one_proof, one_routing
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.core.proofs import Argument, Bound, Status, StopReason
from topoopt.core.result import Certificate, CheckResult, Objective, Result
from topoopt.core.topology import Topology
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.network.methods import ROUTING_METHODS, TOPOLOGY_METHODS, UNLISTED
from topoopt.kinds.pipeline import solve
from topoopt.verify.checker import FULL
from topoopt.verify.network.checker import check_network, routing_bound

RING = Topology(
    servers=3,
    degree=1,
    links=LinkDirection.UNIDIRECTIONAL,
    arcs=np.array([[0, 1], [1, 2], [2, 0]], dtype=np.int32),
    multiplicity=np.ones(3, dtype=np.int32),
    switches=np.array([[1, 2, 0]], dtype=np.int32),
)
UNIFORM = np.ones((3, 3)) - np.eye(3)
FLOW = np.array([[2.0, 1.0, 0.0], [0.0, 2.0, 1.0], [1.0, 0.0, 2.0]])
PROBLEM = TopologyProblem("ring", 3, 1, LinkDirection.UNIDIRECTIONAL, UNIFORM, sha256="a")


def ring() -> NetworkResult:
    """All-to-all on a one-way ring of three: every arc carries 1 + 1 + 1 (two direct hops, one forwarded)."""
    return Result(
        name="ring",
        kind="topology",
        status=Status.OPTIMAL,
        stopped_by=StopReason.CONVERGED,
        objective=Objective("theta", 3.0, "link capacity"),
        bound=Bound(3.0, Argument.LAYERED_MOORE),
        check=CheckResult(True, ()),
        seed=0,
        method="by hand",
        plan=on_links(RING, FLOW),
        certificates=one_proof(np.ones(3)),
        instance_sha256="a",
        versions=(),
    )


def codes(problem: RoutingProblem | TopologyProblem, solution: NetworkResult) -> set[str]:
    """Codes of all violations."""
    return {violation.code for violation in check_network(problem, solution, FULL).violations}


def test_a_sound_solution_passes() -> None:
    """The ring by hand breaks nothing, as a chosen and as a given topology."""
    assert codes(PROBLEM, ring()) == set()
    given = RoutingProblem("ring", RING, UNIFORM, sha256="a")
    assert (
        codes(given, replace(ring(), kind="routing", plan=one_routing(FLOW), bound=Bound(3.0, Argument.ARC_LENGTHS)))
        == set()
    )


def doubled() -> Topology:
    """The ring with two links from 0 to 1."""
    return replace(RING, multiplicity=np.array([2, 1, 1], dtype=np.int32))


DAMAGE: list[tuple[str, Callable[[NetworkResult], NetworkResult], str]] = [
    ("theta", lambda s: replace(s, objective=replace(s.objective, value=2.9)), "objective"),
    ("objective", lambda s: replace(s, objective=replace(s.objective, name="time")), "objective"),
    ("bound", lambda s: replace(s, bound=Bound(3.1, Argument.LAYERED_MOORE)), "bound"),
    ("nan", lambda s: replace(s, bound=Bound(float("nan"), Argument.NODE_CUT)), "bound"),
    ("status", lambda s: replace(s, bound=Bound(2.0, Argument.NODE_CUT)), "status"),
    ("zero", lambda s: on_network(s, lengths=np.zeros(3)), "certificate"),
    ("negative", lambda s: on_network(s, lengths=-np.ones(3)), "certificate"),
    ("lost", lambda s: on_network(s, flow=s.plan.flows[0].flow * 0.9), "flow"),
    ("shape", lambda s: on_network(s, flow=np.ones((2, 3))), "flow"),
    ("degree", lambda s: on_network(s, circuits=np.array([[1, 2, 0], [1, -1, -1]])), "links"),
    ("dark", lambda s: on_network(s, circuits=np.full((1, 3), -1)), "flow"),
    ("loop", lambda s: on_network(s, circuits=np.array([[1, 2, 2]])), "links"),
    ("range", lambda s: on_network(s, circuits=np.array([[1, 2, 3]])), "links"),
    ("conflict", lambda s: on_network(s, circuits=np.array([[1, 1, 0]])), "links"),
    ("name", lambda s: replace(s, name="other"), "identity"),
    ("sha", lambda s: replace(s, instance_sha256="b"), "instance-sha256"),
]


@pytest.mark.parametrize(("name", "damage", "code"), DAMAGE, ids=[entry[0] for entry in DAMAGE])
def test_damage_is_found(name: str, damage: Callable[[NetworkResult], NetworkResult], code: str) -> None:
    """Every kind of damage has its code."""
    assert code in codes(PROBLEM, damage(ring()))


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (replace(PROBLEM, forbidden=((0, 1),)), "forbidden"),
        (replace(PROBLEM, max_hops=1), "max-hops"),
        (replace(PROBLEM, kept=((0, 2), (2, 1)), max_changed=1), "changed"),
        (replace(PROBLEM, links=LinkDirection.BIDIRECTIONAL), "links"),
        (replace(PROBLEM, servers=4, demand=np.ones((4, 4)) - np.eye(4)), "links"),
        (RoutingProblem("ring", doubled(), UNIFORM, sha256="a"), "bound"),
    ],
)
def test_broken_constraints_are_found(problem: RoutingProblem | TopologyProblem, code: str) -> None:
    """Every constraint of an instance is looked at."""
    assert code in codes(problem, replace(ring(), kind=problem.kind))


def test_parallel_links_are_found() -> None:
    """Two links where one is allowed."""
    problem = replace(PROBLEM, degree=2, parallel_links=False)
    circuits = np.array([[1, 2, 0], [1, -1, -1]], dtype=np.int32)
    assert "parallel" in codes(problem, on_network(ring(), circuits=circuits))


def test_a_node_cut_over_allowed_peers_passes() -> None:
    """Three units from server 0 over the two single links it may have: 3/2, more than the formula in d = 3 says."""
    demand = np.ones((4, 4)) - np.eye(4)
    problem = TopologyProblem(
        "case", 4, 3, LinkDirection.UNIDIRECTIONAL, demand, forbidden=((0, 3),), parallel_links=False
    )
    solution = solve(problem)
    assert solution.check.ok, solution.check.violations
    assert solution.bound.value == pytest.approx(1.5)
    assert solution.figures.theta == pytest.approx(1.5)


def test_every_method_of_the_solvers_has_its_line() -> None:
    """A new solver method shows up in the command line, and `auto` stands first."""
    assert set() == UNLISTED
    assert next(iter(ROUTING_METHODS)) == next(iter(TOPOLOGY_METHODS)) == "auto"


@st.composite
def routings(draw: st.DrawFn) -> RoutingProblem:
    """A one-way ring with chords, and a demand of a few whole numbers."""
    n = draw(st.integers(3, 6))
    linked = np.zeros((n, n), dtype=np.int64)
    linked[np.arange(n), (np.arange(n) + 1) % n] = 1
    for _ in range(draw(st.integers(0, 2 * n))):
        tail, head = draw(st.integers(0, n - 1)), draw(st.integers(0, n - 1))
        linked[tail, head] += tail != head
    demand = np.array(draw(st.lists(st.integers(0, 3), min_size=n * n, max_size=n * n)), dtype=np.float64)
    demand = demand.reshape(n, n)
    np.fill_diagonal(demand, 0)
    demand[0, 1] += 1
    arcs = np.argwhere(linked).astype(np.int32)
    topology = Topology(
        servers=n,
        degree=int(max(linked.sum(axis=0).max(), linked.sum(axis=1).max())),
        links=LinkDirection.UNIDIRECTIONAL,
        arcs=arcs,
        multiplicity=linked[arcs[:, 0], arcs[:, 1]].astype(np.int32),
        switches=np.zeros((0, n), dtype=np.int32),
    )
    return RoutingProblem("drawn", topology, demand)


@given(problem=routings(), factor=st.sampled_from([0.25, 3.0]))
@settings(max_examples=25)
def test_routing_is_proven_and_scales(problem: RoutingProblem, factor: float) -> None:
    """On random networks the answer is proven optimal and accepted; theta grows with the demand; a link never hurts."""
    solution = solve(problem, SolveOptions(method="simplex"))
    assert solution.check.ok
    assert solution.status is Status.OPTIMAL
    scaled = solve(replace(problem, demand=problem.demand * factor), SolveOptions(method="simplex"))
    assert scaled.figures.theta == pytest.approx(factor * solution.figures.theta, rel=1e-5)
    more = replace(problem.topology, multiplicity=problem.topology.multiplicity + 1)
    wider = solve(replace(problem, topology=more), SolveOptions(method="simplex"))
    assert wider.figures.theta <= solution.figures.theta * (1 + 1e-6)


ONES, TURN = np.ones(3), [1, 2, 0]


def of_lengths(lengths: object = ONES, **arrays: object) -> Certificate:
    """Lengths of the ring, and more arrays."""
    given = {name: np.array(value) for name, value in arrays.items()}
    return Certificate(Argument.ARC_LENGTHS, {"lengths": np.array(lengths), **given})


def layers(alpha: float) -> Certificate:
    """Prices of one layer of three servers."""
    return Certificate(Argument.LAYERED_MOORE, {"alpha": np.full(3, alpha), "beta": np.zeros(3)})


@pytest.mark.parametrize("sound", [
    [of_lengths()], [of_lengths(generators=TURN)], [of_lengths(generators=[2, 0, 1])], [of_lengths(box=[3])],
    [of_lengths(), layers(0.0)],
])  # fmt: skip
def test_certificates_that_are_read_pass(sound: list[Certificate]) -> None:
    """The ring looks the same from every server, so a turn keeps all; prices of layers are those of the bound."""
    assert codes(PROBLEM, replace(ring(), certificates=tuple(sound))) == set()


@pytest.mark.parametrize("damaged", [
    [of_lengths(generators=[1, 0, 2])],  # a permutation that does not keep the links
    [of_lengths(generators=[1, 1, 0])],  # none
    [of_lengths(generators=[1, 2])],
    [of_lengths(generators=[])],
    [of_lengths(generators=[1.0, 2.0, 0.0])],
    [of_lengths([1.0, 1.0, 1.5], generators=TURN)],  # lengths that the turn does not keep
    [of_lengths(box=[2])],
    [of_lengths(box=[])],
    [of_lengths(box=[3], generators=TURN)],  # of two groups, one is not read
    [of_lengths(symmetries=TURN)],
    [of_lengths(), of_lengths(link=[0, 1])],  # no failure is studied
    [of_lengths(), layers(0.0), layers(0.0)],
    [of_lengths(), Certificate(Argument.LINK_PRICES, {"prices": ONES})],  # of another kind
    [of_lengths(), Certificate(Argument.ARC_PRICES, {"prices": ONES})],
    [of_lengths(), Certificate(Argument.NODE_CUT, {})],
    [of_lengths(), Certificate(Argument.LINK_TREE, {"theta": ONES[:1], "order": np.array([0, 0, 2])})],
    [of_lengths(), Certificate(Argument.LINK_TREE, {"theta": ONES[:1], "order": np.array([0, 0, 2]),
                                                    "multipliers": np.ones(9, dtype=np.int64)})],
])  # fmt: skip
def test_certificates_that_nothing_reads_are_refused(damaged: list[Certificate]) -> None:
    """Whatever stands in a file is read, or the file is rejected: for a certificate may be optional, not wrong."""
    assert codes(PROBLEM, replace(ring(), certificates=tuple(damaged))) == {"certificate"}


def test_generators_that_do_not_keep_the_demand() -> None:
    """They would save sources that differ."""
    demand = np.array([[0, 2.0, 0], [0, 0, 1.0], [1.0, 0, 0]])
    problem = TopologyProblem("ring", 3, 1, LinkDirection.UNIDIRECTIONAL, demand)
    assert routing_bound(problem, RING, [of_lengths()]) == pytest.approx(4 / 3)
    with pytest.raises(ValueError, match="do not keep the demand"):
        routing_bound(problem, RING, [of_lengths(generators=TURN)])
