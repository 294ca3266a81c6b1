"""Uniform demand: graphs under imposed groups, known optima, one source an orbit, and what the checker refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import topoopt
from solvers.network.annealing import arcs_of, topology_of
from solvers.network.lifts import Lift, divided, groups, race
from solvers.network.routing import route
from solvers.network.seeds import kautz_seed
from solvers.network.uniform import is_uniform, removed, search_uniform
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import LengthCertificate, SourceFlow, TopologyProblem
from topoopt.core.topology import Symmetry, Topology
from topoopt.verify.laws.routing import certified_theta_bound, check_flow, generators_of, orbits_of
from topoopt.verify.network.checker import routing_bound

TWO_WAY, ONE_WAY = LinkDirection.BIDIRECTIONAL, LinkDirection.UNIDIRECTIONAL


def uniform(n: int) -> Floats:
    """A unit from each server to each other."""
    return np.ones((n, n)) - np.eye(n)


def problem_of(n: int, d: int, links: LinkDirection = TWO_WAY) -> TopologyProblem:
    """Without constraints."""
    return TopologyProblem("case", n, d, links, uniform(n))


def lift_of(seed: int) -> tuple[Lift, Topology, Symmetry]:
    """A connected graph under a group that is not the ring, of one orbit or several."""
    rng = np.random.default_rng(seed)
    links = ONE_WAY if seed % 2 else TWO_WAY
    for number in range(100):
        kinds = groups(int(rng.choice([4, 6, 8, 12])))
        group = kinds[int(rng.integers(len(kinds)))]
        orbits = int(rng.integers(1, 4))
        lift = Lift.empty(orbits * group.order, 3, links, group).annealed(seed * 100 + number, 50, 3.0, 1.0, 3)
        if np.isfinite(lift.mean_hops):
            topology = topology_of(lift.heads, links, "drawn")
            symmetry = Symmetry.of(topology.arcs, topology.servers, lift.generators)
            assert symmetry is not None
            return lift, topology, symmetry
    raise AssertionError("none of a hundred graphs is connected")


@pytest.mark.parametrize("seed", range(12))
def test_one_source_an_orbit_has_the_optimum_of_all_sources(seed: int) -> None:
    """Theta of the full program; the rows, moved by the group, say what the checker makes of the sources alone."""
    lift, topology, symmetry = lift_of(seed)
    demand = uniform(topology.servers)
    hops = nx.DiGraph(topology.arcs.tolist())
    assert lift.mean_hops == pytest.approx(nx.average_shortest_path_length(hops), rel=1e-12)
    by_orbits = route(topology, demand, symmetry=symmetry)
    full = route(topology, demand, method="ipx")
    assert by_orbits.theta == pytest.approx(full.theta, rel=1e-6)
    assert len(by_orbits.flow.flow) == lift.orbits
    table = SourceFlow(np.array(list(by_orbits.flow.rows(topology))))
    np.testing.assert_allclose(by_orbits.flow.load(topology), table.flow.sum(axis=0), rtol=1e-9, atol=1e-12)
    for flow in (by_orbits.flow, table):
        check = check_flow(topology, demand, flow)
        assert check.violations == ()
        assert check.theta == pytest.approx(by_orbits.theta, rel=1e-9)


def test_the_checker_takes_one_source_an_orbit_beyond_128_servers() -> None:
    """Equal lengths prove the sum of distances over the links, as all pairs of networkx say."""
    kinds = groups(33)
    lift = Lift.empty(132, 4, TWO_WAY, kinds[0]).annealed(1, 300, 3.0, 1.0, 5)
    topology = topology_of(lift.heads, TWO_WAY, "drawn")
    moves = generators_of(132, (), lift.generators)
    orbits = orbits_of(topology, moves)
    assert orbits is not None
    assert orbits.sources.tolist() == [0, 1, 2, 3]
    lengths = np.ones(len(topology.arcs)) * topology.multiplicity.max()
    far = dict(nx.all_pairs_shortest_path_length(nx.DiGraph(topology.arcs.tolist())))
    total = sum(sum(row.values()) for row in far.values())
    proven = certified_theta_bound(topology, uniform(132), lengths, moves=moves)
    assert proven == pytest.approx(total / float(topology.multiplicity.sum()), rel=1e-9)
    uneven = lengths.copy()
    uneven[3] *= 2.0  # then no symmetry may be used, and all sources count
    assert certified_theta_bound(topology, uniform(132), uneven, moves=moves) == pytest.approx(
        certified_theta_bound(topology, uniform(132), uneven), rel=1e-12
    )


@pytest.mark.parametrize("change", ["swap", "identity", "too many", "no permutation", "short", "less", "demand"])
def test_wrong_generators_are_refused(change: str) -> None:
    """Permutations that keep no links, or make other orbits; flows that lose something; demand that is not kept."""
    lift, topology, symmetry = lift_of(4)
    n, demand = topology.servers, uniform(topology.servers)
    flow = route(topology, demand, symmetry=symmetry).flow
    moves = lift.generators.copy()
    rows = flow.flow.copy()
    if change == "swap":
        moves[0, [0, 1]] = moves[0, [1, 0]]
    elif change == "identity":
        moves = np.arange(n, dtype=np.int32)[None]
    elif change == "too many":
        rows = np.vstack((rows, rows[:1]))
    elif change == "no permutation":
        moves[0, 0] = moves[0, 1]
    elif change == "short":
        moves = moves[:, :-1]
    elif change == "less":
        rows[0] *= 1 - 1e-6
    else:
        demand[1, 0] = 2.0
    assert check_flow(topology, demand, replace(flow, flow=rows, generators=moves)).violations


def test_a_group_that_leaves_a_server_in_place_is_refused() -> None:
    """A star of three leaves: turning the leaves keeps the centre, so that rows do not say which source moves where."""
    star = Topology.from_edges([(0, 1), (0, 2), (0, 3)])
    turned = np.array([[0, 2, 3, 1]], dtype=np.int32)
    assert Symmetry.of(star.arcs, 4, turned) is None
    assert orbits_of(star, turned.astype(np.int64)) is None


def test_petersen() -> None:
    """10 servers of 3 links: mean hops 5/3, the only Moore graph of this size; all links alike, so theta is 9 x 5/9."""
    result = search_uniform(problem_of(10, 3), scale=0.2, bound=5.0)
    assert result.routing.theta == pytest.approx(5.0, rel=1e-6)
    graph = nx.Graph(result.topology.arcs.tolist())
    assert nx.is_isomorphic(graph, nx.petersen_graph())


def test_no_worse_than_generalized_kautz() -> None:
    """12 servers of 3 links one-way: 12 = 3^2 + 3 makes a Kautz graph, of the fewest hops that there are."""
    kautz = route(kautz_seed(12, 3, ONE_WAY, uniform(12), np.random.default_rng(0)), uniform(12))
    result = search_uniform(problem_of(12, 3, ONE_WAY), scale=0.02)
    assert result.routing.theta <= kautz.theta * (1 + 1e-6)


def test_a_solution_from_file_to_checked_file(tmp_path: Path) -> None:
    """The same seed gives the same bytes; rows of some sources alone; generators that are damaged are found."""
    instance = {
        "schema_version": 1, "kind": "topology", "name": "u40", "servers": 40, "degree": 4, "links": "bidirectional",
        "demand": {"family": "uniform"}, "search": {"budget": 20_000},
    }  # fmt: skip
    file = tmp_path / "u40.yaml"
    file.write_text(json.dumps(instance))
    problem = topoopt.read_instance(file)
    solved = [topoopt.solve(problem) for _ in range(2)]
    flow = solved[0].plan.flows[0]
    assert solved[0].check.ok
    assert flow.generators is not None
    assert len(flow.flow) < 40
    np.testing.assert_array_equal(solved[0].plan.circuits, solved[1].plan.circuits)
    np.testing.assert_array_equal(flow.flow, solved[1].plan.flows[0].flow)
    topoopt.write_solution(solved[0], tmp_path / "solution.json")
    read = topoopt.read_solution(tmp_path / "solution.json")
    np.testing.assert_array_equal(read.plan.flows[0].generators, flow.generators)
    assert topoopt.check(problem, read).ok
    moved = flow.generators.copy()
    moved[0] = np.roll(moved[0], 1)
    wrong = replace(read, plan=replace(read.plan, flows=(replace(flow, generators=moved),)))
    assert "flow" in {violation.code for violation in topoopt.check(problem, wrong).violations}
    lengths = next(proof for proof in read.certificates if "generators" in proof.arrays)
    assert routing_bound(problem, read.figures.topology, [lengths]) == pytest.approx(read.objective.value, rel=1e-5)
    for damaged in (moved, np.zeros_like(moved), moved[:, :-1], moved[:0]):
        arrays = {**lengths.arrays, "generators": damaged.astype(np.int64).ravel()}
        with pytest.raises(ValueError, match=r"generators|reshape"):
            routing_bound(problem, read.figures.topology, [replace(lengths, arrays=arrays)])


@pytest.mark.parametrize("links", [TWO_WAY, ONE_WAY])
def test_servers_are_removed(links: LinkDirection) -> None:
    """Nobody has more links than before, and at most an end is left over where there is an odd number."""
    *_, lifts = race(32, 4, links, 0.01, 3, Stop())
    n = 29
    arcs = removed(lifts[0].heads, n, links, np.random.default_rng(0))
    assert (arcs[:, 0] != arcs[:, 1]).all()
    assert arcs.min() >= 0
    assert arcs.max() < n
    out, into = (np.bincount(arcs[:, end], minlength=n) for end in (0, 1))
    assert max(out.max(), into.max()) <= 4
    before = len(arcs_of(lifts[0].heads[:n]))
    assert len(arcs) >= before - 2
    if links is TWO_WAY:
        assert sorted(map(tuple, arcs.tolist())) == sorted(map(tuple, arcs[:, ::-1].tolist()))


@pytest.mark.parametrize(
    ("total", "wanted", "parts"),
    [
        (12.0, [9.0, 9.0, 9.0], [4.0, 4.0, 4.0]),
        (12.0, [9.0, 2.0, 9.0], [5.0, 2.0, 5.0]),
        (12.0, [1.0, 2.0, 20.0, 4.0], [1.0, 2.0, 5.0, 4.0]),
        (12.0, [1.0, 2.0], [1.0, 2.0]),
    ],
)
def test_what_small_spaces_do_not_need_goes_to_large_ones(
    total: float, wanted: list[float], parts: list[float]
) -> None:
    """By hand; nobody has more than it wants, and nothing is left where somebody wants more."""
    assert divided(total, wanted) == pytest.approx(parts)


def test_what_is_uniform() -> None:
    """All entries equal and above 0, none of a server to itself."""
    assert is_uniform(3.5 * uniform(5))
    assert not is_uniform(np.zeros((5, 5)))
    changed = uniform(5)
    changed[3, 2] = 1.5
    assert not is_uniform(changed)
    assert not is_uniform(np.ones((5, 5)))


def test_the_certificate_says_under_which_group() -> None:
    """As the flow does: generators, a box, or nothing for the ring."""
    lengths, row = LengthCertificate(np.ones(4)), np.ones((1, 4))
    assert list(lengths.certificate(SourceFlow(row)).arrays) == ["lengths"]
    assert lengths.certificate(SourceFlow(row, None, (2, 2))).arrays["box"].tolist() == [2, 2]
    moves = np.array([[1, 0, 3, 2]], dtype=np.int32)
    assert lengths.certificate(SourceFlow(row, None, (), moves)).arrays["generators"].tolist() == [1, 0, 3, 2]
