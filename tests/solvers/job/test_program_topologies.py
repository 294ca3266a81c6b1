"""Mathematical programs in the topology step: what they find, that plans hold it, and that they only ever gain."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.job.allreduce_mix import mix_rings
from solvers.job.methods import AUTO_PROGRAMS, METHODS, run_method
from solvers.job.program_topologies import PROGRAMS, TopologyQuestion, program_topologies
from solvers.job.realise import (
    LEAST_SHARE,
    MOST_RINGS,
    mix_realised,
    mixed_rings,
    mixed_routes,
    paths_of_flow,
    realise,
    with_rings_for,
)
from solvers.network.finder import find_topology
from solvers.network.routes import balanced_routes, circulant_topology
from solvers.stop import Stop
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.workload import AllReduceDemand, Demand, Operator, OperatorInput, Split, Workload, strided_groups
from topoopt.verify.job.plan import check_plan


def job(n: int) -> Workload:
    """Two tables on single servers and two dense layers over any divisor of n."""
    wide = tuple(Split(p, 2.0 / p, 4.0 / p, 0) for p in range(1, n + 1) if n % p == 0)
    one = (Split(1, 0.5, 1.0, 0),)
    operators = (
        Operator("table0", "embedding", 4096, 4, (), (), one, locally_reduced=False),
        Operator("table1", "embedding", 4096, 4, (), (), one, locally_reduced=False),
        Operator("dense0", "dense", 4096, 4, (1_000_000, 1000), (OperatorInput(0), OperatorInput(1)), wide),
        Operator("dense1", "dense", 1, 4, (1_000_000, 1000), (OperatorInput(2),), wide),
    )
    return Workload("job", 16 * n, operators)


def traffic(n: int, seed: int) -> Demand:
    """Skewed transfers, an AllReduce of all servers and one of every second server."""
    rng = np.random.default_rng(seed)
    moved = rng.lognormal(10.0, 1.0, (n, n)) * (rng.random((n, n)) < 0.6)
    np.fill_diagonal(moved, 0.0)
    groups = [AllReduceDemand(tuple(range(n)), 2e5)]
    if n % 2 == 0 and n > 2:
        groups.append(AllReduceDemand(tuple(range(0, n, 2)), 1e5))
    return Demand(moved, tuple(groups))


def loads(n: int, parts: list[tuple[float, tuple[int, ...]]]) -> np.ndarray:
    """float64[n, n]: bytes on each arc from (bytes, nodes) of paths."""
    load = np.zeros((n, n))
    for amount, path in parts:
        for here, there in pairwise(path):
            load[here, there] += amount
    return load


@settings(max_examples=20)
@given(st.integers(2, 9), st.integers(0, 10**6), st.sampled_from(list(LinkDirection)))
def test_paths_of_a_flow_carry_it(n: int, seed: int, links: LinkDirection) -> None:
    """Paths of all pairs, weighted by the bytes of the pair, put the flow back on the links."""
    demand = traffic(n, seed)
    cluster = Cluster(n, 1, 2 if n > 2 else 1, 100.0, links)
    topology = find_topology(cluster, demand)
    mix = mix_rings(topology, demand)
    total = demand.model_parallel_bytes.copy()
    for group, rings in zip(demand.allreduce, mix.rings, strict=True):
        for order, share in rings:
            for step in zip(order, (*order[1:], order[0]), strict=True):
                total[step] += share * group.wire_bytes_per_member
    paths = paths_of_flow(mix)
    assert set(paths) == set(map(tuple, np.argwhere(total > 0).tolist()))
    for (s, v), pieces in paths.items():
        assert sum(part for part, _ in pieces) == pytest.approx(1.0)
        assert all((path[0], path[-1]) == (s, v) and len(set(path)) == len(path) for _, path in pieces)
    carried = loads(n, [(total[pair] * part, path) for pair, pieces in paths.items() for part, path in pieces])
    flow = np.zeros((n, n))
    flow[topology.arcs[:, 0], topology.arcs[:, 1]] = mix.flow.flow.sum(axis=0)
    np.testing.assert_allclose(carried, flow, rtol=1e-6, atol=1e-6 * flow.max())


@settings(max_examples=15)
@given(st.integers(3, 9), st.integers(0, 10**6))
def test_mixed_rings_are_rings(n: int, seed: int) -> None:
    """Shares sum to one, none too small, not too many, every order a permutation with paths from member to member."""
    demand = traffic(n, seed)
    mix = mix_rings(find_topology(Cluster(n, 1, 2, 100.0), demand), demand)
    for group, rings in mixed_rings(mix, demand, paths_of_flow(mix)).items():
        assert sum(ring.share for ring in rings.rings) == pytest.approx(1.0)
        assert len(rings.rings) <= MOST_RINGS
        for ring in rings.rings:
            assert ring.share >= LEAST_SHARE or len(rings.rings) == 1
            assert sorted(ring.order) == sorted(group)
            ends = [(path[0], path[-1]) for path in ring.paths]
            assert ends == list(zip(ring.order, (*ring.order[1:], ring.order[0]), strict=True))


def test_mixed_routes_replace_only_what_is_given() -> None:
    """A given pair gets its paths and shares, every other pair keeps its own."""
    base = balanced_routes(circulant_topology(6, 2, LinkDirection.BIDIRECTIONAL, (1,)))
    new = mixed_routes(base, {(0, 3): [(0.75, (0, 1, 2, 3)), (0.25, (0, 5, 4, 3))]})
    assert np.array_equal(new.source, base.source)
    index = int(np.flatnonzero((new.source == 0) & (new.target == 3))[0])
    first, last = new.pair_ptr[index : index + 2].tolist()
    assert [(new.path(p), float(new.share[p])) for p in range(first, last)] == [
        ((0, 1, 2, 3), 0.75),
        ((0, 5, 4, 3), 0.25),
    ]
    same = mixed_routes(base, {})
    assert same.node.tobytes() == base.node.tobytes()
    assert same.path_ptr.tolist() == base.path_ptr.tolist()


def test_tailored_realisations_gain_rings_for_other_groups() -> None:
    """Mixed rings stay when the search asks for rings of all cosets."""
    cluster, demand = Cluster(8, 1, 3, 100.0), traffic(8, 1)
    base = realise(cluster, find_topology(cluster, demand), [group.members for group in demand.allreduce])
    mix = TopologyQuestion(cluster, demand, 0, Stop()).mix(base.topology)
    assert mix is not None
    mixed = next(iter(mix_realised(cluster, base, demand, mix)))
    groups = strided_groups(8)
    full = with_rings_for(cluster, mixed, groups)
    assert tuple(group.members for group in full.rings) == tuple(groups)
    kept = {group.members: group for group in full.rings}
    assert all(kept[group.members] == group for group in mixed.rings)
    assert full.tailored


@pytest.mark.parametrize("name", sorted(PROGRAMS))
@pytest.mark.parametrize("links", list(LinkDirection))
@pytest.mark.parametrize(("n", "degree"), [(2, 1), (3, 2), (4, 2), (6, 2)])
def test_programs_give_new_legal_topologies_and_repeat_themselves(
    name: str, links: LinkDirection, n: int, degree: int
) -> None:
    """Different from the base and each other, within the degree, the same when asked again."""
    cluster, demand = Cluster(n, 1, degree, 100.0, links), traffic(n, 3)
    base = find_topology(cluster, demand)
    found = program_topologies((name,), TopologyQuestion(cluster, demand, 5, Stop()), base)
    again = program_topologies((name,), TopologyQuestion(cluster, demand, 5, Stop()), base)
    keys = [(each.arcs.tobytes(), each.multiplicity.tobytes()) for each in (base, *found)]
    assert len(set(keys)) == len(keys)
    assert keys[1:] == [(each.arcs.tobytes(), each.multiplicity.tobytes()) for each in again]
    for topology in found:
        for end in (0, 1):
            used = np.bincount(topology.arcs[:, end], weights=topology.multiplicity, minlength=n)
            assert used.max() <= degree


def test_nothing_is_asked_without_traffic_or_time_or_beyond_the_size() -> None:
    """No demand, a stop, one server, a large cluster: no topologies."""
    cluster = Cluster(4, 1, 2, 100.0)
    base = circulant_topology(4, 2, LinkDirection.BIDIRECTIONAL, (1,))
    names = tuple(PROGRAMS)
    still = Demand(np.zeros((4, 4)), ())
    assert program_topologies(names, TopologyQuestion(cluster, still, 0, Stop()), base) == []
    assert TopologyQuestion(cluster, still, 0, Stop()).mix(base) is None
    late = Stop(deadline=time.monotonic())
    assert program_topologies(names, TopologyQuestion(cluster, traffic(4, 0), 0, late), base) == []
    large = Cluster(33, 1, 2, 100.0)
    ring = circulant_topology(33, 2, LinkDirection.BIDIRECTIONAL, (1,))
    assert program_topologies(names, TopologyQuestion(large, traffic(33, 0), 0, Stop()), ring) == []


@pytest.mark.parametrize("method", ["auto", *(name for name, method in METHODS.items() if method.programs)])
@pytest.mark.parametrize(
    ("n", "degree", "links"), [(4, 2, "bidirectional"), (6, 3, "unidirectional"), (8, 2, "bidirectional")]
)
def test_programs_never_worsen_a_plan(method: str, n: int, degree: int, links: str) -> None:
    """The same seed and budget: no slower than the alternating loop alone, checked, within the budget."""
    cluster, workload = Cluster(n, 2, degree, 50.0, LinkDirection(links)), job(n)
    alone = run_method("alternating", cluster, workload, budget=150, seed=2, stop=Stop())
    result = run_method(method, cluster, workload, budget=150, seed=2, stop=Stop())
    assert result.iteration_time_ms <= alone.iteration_time_ms
    assert result.proposals <= 150
    assert check_plan(cluster, workload, result.plan) == ()


def test_a_program_left_out_is_said() -> None:
    """Twelve servers are too many for the joint program: the notes say so."""
    cluster = Cluster(12, 2, 2, 50.0)
    result = run_method("exact-topology", cluster, job(12), budget=20, seed=0, stop=Stop())
    assert any("left out above 8 servers" in note for note in result.notes)
    assert set(AUTO_PROGRAMS) <= set(PROGRAMS)
