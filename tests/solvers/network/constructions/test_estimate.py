"""What ranks the portfolio, against its definition over all pairs of servers."""

from __future__ import annotations

from math import gcd

import numpy as np
import pytest

from solvers.network.distances import coins_of, hop_table
from solvers.network.finder import BusyEstimate, _canonical, by_displacement, invariant_units
from topoopt.core.arrays import Floats
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.workload import AllReduceDemand, Demand

BOTH = LinkDirection.BIDIRECTIONAL


def traffic(n: int, seed: int, units: tuple[int, ...] = (1,)) -> Floats:
    """Whole bytes between all servers, the same after a multiplication by any of the units."""
    drawn = np.random.default_rng(seed).integers(0, 9, (n, n)).astype(np.float64)
    np.fill_diagonal(drawn, 0.0)
    return sum((drawn[np.ix_(u * np.arange(n) % n, u * np.arange(n) % n)] for u in units), np.zeros((n, n)))


def test_traffic_by_displacement() -> None:
    """Entry j is what servers send j further, written out."""
    amount = traffic(11, 0)
    wanted = [sum(amount[i, (i + j) % 11] for i in range(11)) for j in range(11)]
    assert by_displacement(amount).tolist() == wanted


@pytest.mark.parametrize("n", [12, 17])
@pytest.mark.parametrize("distances", [(1, 5), (1, 2), (3, 4)])
def test_busy_time_of_transfers_is_bytes_times_hops(n: int, distances: tuple[int, ...]) -> None:
    """Without AllReduces: bytes x hops of every pair, over all links, which are four a server."""
    cluster, amount = Cluster(n, 4, 4, 100.0, links=BOTH), traffic(n, n)
    hops = hop_table(n, coins_of(n, distances, BOTH))
    byte_hops = sum(amount[i, j] * hops[(j - i) % n] for i in range(n) for j in range(n))
    found = BusyEstimate(cluster, Demand(amount, ()))(distances)
    assert found == pytest.approx(byte_hops / (n * 4 * cluster.link_bytes_per_ms))


def test_busy_time_of_an_allreduce_on_its_own_ring() -> None:
    """All 12 servers reduce P bytes over rings of distances 1 and 5: 2 (11/12) P each, over four links."""
    cluster = Cluster(12, 4, 4, 100.0, links=BOTH)
    demand = Demand(np.zeros((12, 12)), (AllReduceDemand(tuple(range(12)), 6e6),))
    assert BusyEstimate(cluster, demand)((1, 5)) == pytest.approx(2 * 11 / 12 * 6e6 / 4 / cluster.link_bytes_per_ms)


@pytest.mark.parametrize(("n", "units"), [(16, (1,)), (16, (1, 15)), (15, (1, 4)), (16, (1, 3, 9, 11)), (20, (1, 9))])
def test_units_that_leave_the_demand_as_it_is(n: int, units: tuple[int, ...]) -> None:
    """The same as holding every unit against the whole matrix."""
    amount = traffic(n, 3, units)
    image = {u: u * np.arange(n) % n for u in range(1, n) if gcd(u, n) == 1}
    wanted = tuple(u for u, at in image.items() if np.array_equal(amount[np.ix_(at, at)], amount))
    assert set(units) <= set(wanted)
    assert invariant_units(n, Demand(amount, ())) == wanted


def test_units_keep_the_payloads_of_groups() -> None:
    """A group {0, 1} has an image {0, u} without a payload unless u is 1, and -1 exchanges {0, 1} with {0, 7}."""
    none = np.zeros((8, 8))
    assert invariant_units(8, Demand(none, (AllReduceDemand((0, 1), 1.0),))) == (1,)
    both = (AllReduceDemand((0, 1), 1.0), AllReduceDemand((0, 7), 1.0))
    assert invariant_units(8, Demand(none, both)) == (1, 7)
    assert invariant_units(8, Demand(none, (both[0], AllReduceDemand((0, 7), 2.0)))) == (1,)


@pytest.mark.parametrize("links", list(LinkDirection))
def test_name_of_a_distance_set_is_the_least_of_its_images(links: LinkDirection) -> None:
    """Written out, image by image; all images have one name."""
    n, units = 35, [u for u in range(1, 35) if gcd(u, 35) == 1]

    def image(u: int) -> tuple[int, ...]:
        moved = [u * p % n for p in (2, 9, 30)]
        return tuple(sorted(min(p, n - p) if links is BOTH else p for p in moved))

    wanted = min(image(u) for u in units)
    assert {_canonical(n, links, image(u), np.array(units)) for u in units} == {wanted}
