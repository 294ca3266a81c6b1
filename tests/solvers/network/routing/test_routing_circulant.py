"""Circulants with shift-invariant demand: equal to the full program, published values, closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.network.flows import RoutingProof, network_of
from solvers.network.orbits import by_orbits, symmetry_of
from solvers.network.routes import circulant_topology
from solvers.network.routing import route
from solvers.network.symmetric import circulant_classes, route_circulant
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.network import SourceFlow
from topoopt.verify.laws.routing import certified_theta_bound, check_flow


def all_to_all(n: int) -> np.ndarray:
    """One unit for every displacement but 0."""
    weight = np.ones(n)
    weight[0] = 0
    return weight


@pytest.mark.parametrize(("offsets", "theta"), [((1, 5, 33, 181), 2432.0), ((1, 31), 16368.0)])
def test_published_values_at_1024(offsets: tuple[int, ...], theta: float) -> None:
    """All-to-all on 1024 servers has the theta measured elsewhere, proven from both sides."""
    result = route_circulant(offsets, all_to_all(1024))
    assert result.theta == pytest.approx(theta, rel=1e-8)
    assert result.bound == pytest.approx(theta, rel=1e-8)


@given(st.integers(4, 48), st.data())
@settings(max_examples=6)
def test_equals_the_full_program(n: int, data: st.DataObject) -> None:
    """The collapsed program and the arc formulation by interior point agree on random circulants and demands."""
    more = data.draw(st.lists(st.integers(2, n - 1), max_size=3 if n < 20 else 2, unique=True))
    weight = np.random.default_rng(data.draw(st.integers(0, 10**6))).lognormal(0, 1.5, n)
    weight[0] = 0
    offsets = [1, *more]
    topology = circulant_topology(n, len(offsets), LinkDirection.UNIDIRECTIONAL, offsets)
    demand = np.array([np.roll(weight, i) for i in range(n)])
    by_class = route(topology, demand, method="orbits")
    full = route(topology, demand, method="ipx")
    assert by_class.theta == pytest.approx(full.theta, rel=1e-6)
    assert by_class.bound == pytest.approx(full.bound, rel=1e-6)
    check = check_flow(topology, demand, by_class.flow)
    assert check.violations == ()
    assert check.theta == pytest.approx(by_class.theta, rel=1e-9)
    assert certified_theta_bound(topology, demand, by_class.certificate.lengths) <= by_class.theta * (1 + 1e-12)


def test_parallel_classes_count_as_capacity() -> None:
    """Two parallel links per arc of a ring halve theta; the class has capacity 2."""
    topology = circulant_topology(6, 2, LinkDirection.UNIDIRECTIONAL, [1, 1])
    classes = circulant_classes(topology)
    assert classes is not None
    offsets, capacity = classes
    assert offsets.tolist() == [1]
    assert capacity.tolist() == [2.0]
    demand = np.ones((6, 6)) - np.eye(6)
    assert route(topology, demand).theta == pytest.approx(15 / 2)


def test_bidirectional_ring_closed_form() -> None:
    """All-to-all on an odd ring of fibre pairs: (n^2 - 1) / 8 on every arc."""
    n = 10_001
    result = route_circulant([1, n - 1], all_to_all(n))
    assert result.theta == pytest.approx((n * n - 1) / 8, rel=1e-8)


def test_independent_bound_on_a_large_ring() -> None:
    """The checker's distances in integers prove the same bound for 1500 servers."""
    n = 1500
    topology = circulant_topology(n, 4, LinkDirection.UNIDIRECTIONAL, [1, 6, 37, 230])
    demand = np.ones((n, n)) - np.eye(n)
    result = route(topology, demand, method="orbits")
    proven = certified_theta_bound(topology, demand, result.certificate.lengths)
    assert proven <= result.theta
    assert proven == pytest.approx(result.theta, rel=1e-7)


def test_cosets_that_do_not_cover_the_ring() -> None:
    """Even offsets alone cannot reach odd displacements: refused when those have demand, fine when not."""
    weight = all_to_all(12)
    with pytest.raises(InfeasibleError):
        route_circulant([2, 4], weight)
    weight[1::2] = 0
    # displacements 2, 4, .., 10 over offset 2 and 4: lengths (1/3, 2/3) cost 1/3 per step of 2, 15 steps of 2 in all
    assert route_circulant([2, 4], weight).theta == pytest.approx(5.0, rel=1e-8)


def test_bad_circulants_are_refused() -> None:
    """Repeated or out-of-range offsets, self-demand, misshapen capacities: all reported at once."""
    weight = all_to_all(8)
    weight[0] = 1
    with pytest.raises(InputError) as caught:
        route_circulant([1, 1, 9], weight, capacity=[1.0])
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize("seed", range(5))
def test_one_source_stands_for_all(seed: int) -> None:
    """The proof that looks at one source only has the value, the bound and the flow of the one that looks at each."""
    draw = np.random.default_rng(seed)
    n = int(draw.integers(5, 30))
    offsets = [1, *draw.integers(1, n, 2).tolist()]
    topology = circulant_topology(n, 3, LinkDirection.UNIDIRECTIONAL, offsets)
    weight = draw.lognormal(0, 1.5, n)
    weight[0] = 0.0
    demand = weight[(np.arange(n) - np.arange(n)[:, None]) % n]
    network = network_of(topology, demand)
    one, each = (RoutingProof(network, 1e-9, symmetry=group) for group in (symmetry_of(network, ring=True), None))
    by_orbits(one)
    assert one.flow is not None
    turned = SourceFlow(one.flow)
    table = SourceFlow(np.array(list(turned.rows(topology))))
    each.offer_flow(table.flow)
    each.offer_lengths(one.lengths)
    assert one.value == pytest.approx(each.value, rel=1e-12)
    assert one.bound == pytest.approx(each.bound, rel=1e-12)
    exact = each.offer_rough_flow(table.flow, one.lengths)
    assert exact == pytest.approx(one.value, rel=1e-12)
    for flow in (turned, table):
        found = check_flow(topology, demand, flow)
        assert not found.violations
        assert found.theta == pytest.approx(one.value, rel=1e-12)
