"""Cayley digraphs with a demand that translations keep: the full program's optimum from one source."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solvers.network.assembly import assemble
from solvers.network.flows import network_of
from solvers.network.orbits import symmetry_of
from solvers.network.routing import automatic, route
from topoopt.core.arrays import Floats
from topoopt.core.cluster import LinkDirection
from topoopt.core.topology import SemidirectGroup, Topology
from topoopt.verify.laws.routing import certified_theta_bound, check_flow

GROUP = SemidirectGroup(8, 4, 3)


def cayley(group: SemidirectGroup, generators: list[int]) -> Topology:
    """x -> x s for every generator; one named twice has two links."""
    parts = [group.arcs([s]) for s in generators]
    return assemble(group.elements, len(parts), LinkDirection.UNIDIRECTIONAL, parts, "Cayley digraph")


def translated(group: SemidirectGroup, weight: Floats) -> Floats:
    """Every x sends weight[j] to x j."""
    n = group.elements
    demand, everyone = np.empty((n, n)), np.arange(n)
    for x in range(n):
        demand[x, group.products(np.array(x), everyone)] = weight
    return demand


def weights(n: int, seed: int | None) -> Floats:
    """Ones, or lognormal(1.5); nothing to itself."""
    weight = np.ones(n) if seed is None else np.random.default_rng(seed).lognormal(0.0, 1.5, n)
    weight[0] = 0.0
    return weight


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("generators", [[1, 4, 9], [1, 4, 4, 30]])
def test_equals_the_full_program(generators: list[int], seed: int | None) -> None:
    """A group that does not commute, uneven demand, parallel links: interior points on all sources agree."""
    topology, demand = cayley(GROUP, generators), translated(GROUP, weights(GROUP.elements, seed))
    by_class, full = route(topology, demand, method="orbits"), route(topology, demand, method="ipx")
    assert by_class.theta == pytest.approx(full.theta, rel=1e-6)
    assert by_class.bound == pytest.approx(full.theta, rel=1e-6)
    check = check_flow(topology, demand, by_class.flow)
    assert check.violations == ()
    assert check.theta == pytest.approx(by_class.theta, rel=1e-9)
    again = certified_theta_bound(topology, demand, by_class.certificate.lengths)
    assert again == pytest.approx(by_class.bound, rel=1e-9)


def test_torus_closed_form() -> None:
    """6 x 8, links both ways: the longer rings carry (8 / 2)^2 / 2 a link for each of the 6 rows of targets."""
    group = SemidirectGroup(6, 8, 1)
    topology = cayley(group, [1, 7, 8, 40])
    result = route(topology, translated(group, weights(48, None)), method="orbits")
    assert result.theta == pytest.approx(6 * 8.0, rel=1e-8)
    assert result.bound == pytest.approx(6 * 8.0, rel=1e-8)


def test_only_what_translations_keep_is_taken() -> None:
    """`auto` takes a group that fits, and none once a link or an entry of the demand differs."""
    group = SemidirectGroup(16, 4, 5)
    topology, demand = cayley(group, [1, 4, 23]), translated(group, weights(64, 3))
    found = symmetry_of(network_of(topology, demand))
    assert found is not None
    everyone = np.arange(64)
    translated_by = {tuple(group.products(np.array(x), everyone).tolist()) for x in range(64)}
    assert set(map(tuple, found.moves.tolist())) == translated_by
    wider = cayley(group, [1, 4, 23, 30, 47])
    assert automatic(network_of(wider, demand), 1e-3) == "orbits"
    uneven = demand.copy()
    uneven[5, 9] *= 2.0
    assert symmetry_of(network_of(topology, uneven)) is None
    links = topology.multiplicity.copy()
    links[7] += 1
    other = replace(topology, multiplicity=links)
    assert symmetry_of(network_of(other, demand)) is None
