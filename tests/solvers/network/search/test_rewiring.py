"""Re-optimising a running network by a few changes, and what is said when nothing fits."""

from __future__ import annotations

import numpy as np
import pytest

from solvers.network.exact import METHODS
from solvers.network.polish import SearchBudget
from solvers.network.routing import route
from solvers.network.search import search_topology
from solvers.network.space import ExactLimits
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, LimitError
from topoopt.core.network import TopologyProblem
from topoopt.core.topology import Topology
from topoopt.workloads.demands import demand_matrix

ONE_WAY, PAIRS = LinkDirection.UNIDIRECTIONAL, LinkDirection.BIDIRECTIONAL


def running(n: int, links: LinkDirection) -> tuple[tuple[int, int], ...]:
    """A network of degree 2 (single fibres) or 4 (pairs) around a ring, as arcs."""
    arcs = [(i, (i + step) % n) for i in range(n) for step in (1, 2)]
    return tuple(sorted(arcs if links is ONE_WAY else [*arcs, *((j, i) for i, j in arcs)]))


def lost(topology: Topology, kept: tuple[tuple[int, int], ...]) -> int:
    """Arcs of the network that stood which are gone."""
    counts = np.zeros((topology.servers, topology.servers), dtype=int)
    counts[topology.arcs[:, 0], topology.arcs[:, 1]] = topology.multiplicity
    for arc in kept:
        counts[arc] -= 1
    return int(-np.minimum(counts, 0).sum())


@pytest.mark.parametrize("links", [ONE_WAY, PAIRS])
@pytest.mark.parametrize("changes", [0, 2, 5])
def test_changes_stay_within_the_limit_and_pay(links: LinkDirection, changes: int) -> None:
    """No more links are given up than allowed; theta falls from the standing network's, which 0 changes keep."""
    n, degree = 16, 2 if links is ONE_WAY else 4
    kept = running(n, links)
    problem = TopologyProblem(
        "case", n, degree, links, demand_matrix("balanced-skew", n, seed=3), kept=kept, max_changed=changes
    )
    found = search_topology(problem, budget=SearchBudget(proposals=20_000))
    assert lost(found.topology, kept) <= changes * (1 if links is ONE_WAY else 2)
    name, _, theta = found.steps[0]
    assert name == "as it stands"
    assert found.routing.theta == pytest.approx(theta) if changes == 0 else found.routing.theta < theta
    assert route(found.topology, problem.demand).theta == pytest.approx(found.routing.theta, rel=2e-4)


@pytest.mark.parametrize("seed", range(4))
def test_never_better_than_the_exact_method(seed: int) -> None:
    """On five servers the optimum under the limit is known, and the search does not pass it."""
    kept = running(5, ONE_WAY)
    demand = np.random.default_rng(seed).lognormal(0, 1.5, (5, 5))
    np.fill_diagonal(demand, 0.0)
    problem = TopologyProblem("case", 5, 2, ONE_WAY, demand, kept=kept, max_changed=2)
    best = METHODS["branch-and-bound"](problem, ExactLimits())
    found = search_topology(problem, budget=SearchBudget(proposals=5_000))
    assert best.theta * (1 - 1e-6) <= found.routing.theta <= best.theta * 1.2


def test_other_rules_hold_as_well() -> None:
    """Forbidden links that stand count as changes; parallel links and far pairs are avoided."""
    kept = running(12, ONE_WAY)
    problem = TopologyProblem(
        "case", 12, 2, ONE_WAY, demand_matrix("skew", 12, seed=1), kept=kept, max_changed=3, forbidden=((0, 1),),
        parallel_links=False, max_hops=6,
    )  # fmt: skip
    found = search_topology(problem, budget=SearchBudget(proposals=20_000))
    assert (0, 1) not in {tuple(arc) for arc in found.topology.arcs.tolist()}
    assert lost(found.topology, kept) <= 3
    assert found.topology.multiplicity.max() == 1


def test_hop_limits_nobody_meets() -> None:
    """Below the Moore bound it is proven; above, the search says that nothing is, and what it knows."""
    for method in ("exact", "milp"):
        with pytest.raises(InfeasibleError, match="Moore bound is 3 hops"):
            METHODS[method](
                TopologyProblem("case", 9, 2, ONE_WAY, np.ones((9, 9)) - np.eye(9), max_hops=2), ExactLimits()
            )
    # Degree 2, 7 servers: a Moore digraph of diameter 2 does not exist (Plesnik and Znam 1974).
    problem = TopologyProblem("case", 7, 2, ONE_WAY, np.ones((7, 7)) - np.eye(7), max_hops=2)
    with pytest.raises(
        LimitError, match=r"not proven.*Moore bound is 2 hops, the smallest limit known to be feasible 3"
    ):
        search_topology(problem, budget=SearchBudget(proposals=5_000))
    with pytest.raises(LimitError, match="not proven"):  # two changes cannot bring a ring of 12 within 3 hops
        search_topology(
            TopologyProblem(
                "case",
                12,
                2,
                ONE_WAY,
                np.ones((12, 12)) - np.eye(12),
                kept=running(12, ONE_WAY),
                max_changed=1,
                max_hops=3,
            ),
            budget=SearchBudget(proposals=2_000),
        )
