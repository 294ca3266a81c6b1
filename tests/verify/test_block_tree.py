"""Proofs by blocks of links at every node of a tree: they prove the least theta of all topologies, and no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.network.branching import search_blocks
from solvers.network.space import open_space, route
from solvers.network.tree import TreeOutcome
from solvers.stop import Stop
from tests.support.every_topology import least_theta
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.network import LARGEST_PRICE, BlockTree, TopologyProblem
from topoopt.core.proofs import StopReason
from topoopt.verify.network.trees import blocks_bound
from topoopt.workloads.demands import demand_matrix

ONE_WAY = LinkDirection.UNIDIRECTIONAL

# Servers, seed of balanced skew, optimum by a joint program of links and routing.
PUBLISHED = ((6, 1, 3.437), (6, 2, 3.553), (6, 3, 3.610), (7, 1, 4.572), (7, 2, 4.233), (7, 3, 4.322))


def random_problem(n: int, seed: int, *, degree: int = 2, **rules: Any) -> TopologyProblem:
    """Lognormal demand, a third of it missing."""
    rng = np.random.default_rng(seed)
    demand = rng.lognormal(0.0, 1.5, (n, n)) * (rng.random((n, n)) < 0.7)
    np.fill_diagonal(demand, 0.0)
    demand[np.arange(n), (np.arange(n) + 1) % n] += 0.5
    return TopologyProblem("case", n, degree, ONE_WAY, demand, **rules)


def proven(problem: TopologyProblem) -> tuple[TreeOutcome, BlockTree]:
    """What is found from a ring of double links, and its proof."""
    n = problem.servers
    ring = np.zeros((n, n), dtype=np.int64)
    ring[np.arange(n), (np.arange(n) + 1) % n] = 2
    first = route(problem.demand, ring)
    assert first is not None
    found = search_blocks(open_space(problem), first.theta * (1 + 1e-9), Stop())
    assert found.proof is not None
    return found, found.proof


@pytest.mark.parametrize(("n", "seed"), [(4, 7), (4, 3), (4, 12)])
def test_what_is_proven_is_the_least_of_all_topologies(n: int, seed: int) -> None:
    """Against all topologies, each routed by another program."""
    problem = random_problem(n, seed)
    found, proof = proven(problem)
    least = least_theta(problem)
    assert blocks_bound(problem, proof) == found.bound <= least
    assert found.bound == pytest.approx(least, rel=1e-6)
    with pytest.raises(InputError, match=r"not closed"):
        blocks_bound(problem, replace(proof, theta=least * (1 + 1e-6)))


@given(st.integers(0, 10**6))
@settings(max_examples=3)
def test_random_demand(seed: int) -> None:
    """The same for any demand, scaled by a trillion either way, too: nothing rests on the size of numbers."""
    problem = random_problem(4, seed)
    scale = 10.0 ** (seed % 25 - 12)
    scaled = replace(problem, demand=problem.demand * scale)
    found, proof = proven(scaled)
    assert found.bound == pytest.approx(least_theta(problem) * scale, rel=1e-6)
    assert blocks_bound(scaled, proof) == found.bound


@pytest.mark.parametrize(("n", "seed", "optimum"), PUBLISHED)
def test_published_optima(n: int, seed: int, optimum: float) -> None:
    """Balanced skew, where the best topology is known."""
    problem = TopologyProblem("case", n, 2, ONE_WAY, demand_matrix("balanced-skew", n, seed=seed))
    found, proof = proven(problem)
    assert found.bound == pytest.approx(optimum, abs=6e-4)
    assert blocks_bound(problem, proof) == found.bound


PROBLEM = random_problem(4, 3)
PROOF = proven(PROBLEM)[1]
LEAST = least_theta(PROBLEM)


@given(st.data())
@settings(max_examples=60)
def test_no_numbers_prove_more_than_the_truth(data: st.DataObject) -> None:
    """Any prices, random or those of a proof with some altered: a bound above the optimum is rejected."""
    rng = np.random.default_rng(data.draw(st.integers(0, 10**9)))
    tables = {name: getattr(PROOF, name).copy() for name in ("price", "relief", "shift", "bar")}
    for name, table in tables.items():
        if data.draw(st.booleans()):
            least = -200 if name == "shift" else 0
            tables[name] = rng.integers(least, 200, table.shape) * rng.integers(0, 2, table.shape)
        else:
            table[rng.random(table.shape) < 0.1] = data.draw(st.sampled_from([0, 1, 1000, LARGEST_PRICE]))
    with pytest.raises(InputError):
        blocks_bound(PROBLEM, replace(PROOF, **tables, theta=LEAST * (1 + 1e-6)))


def test_demand_beyond_theta_over_double_links() -> None:
    """One pair with most of the demand: direct double links carry twice a link, and so do two hops of double links."""
    for heavy in (5.0, 40.0):
        demand = np.ones((4, 4)) - np.eye(4)
        demand[0, 2] = heavy
        problem = TopologyProblem("heavy", 4, 2, ONE_WAY, demand)
        found, proof = proven(problem)
        assert found.bound == pytest.approx(least_theta(problem), rel=1e-6)
        assert blocks_bound(problem, proof) == found.bound


def _rejected(problem: TopologyProblem, proof: BlockTree) -> bool:
    try:
        blocks_bound(problem, proof)
    except InputError:
        return True
    return False


def _without(proof: BlockTree, node: int) -> BlockTree:
    """The proof without a node that has no children."""
    kept = np.delete(np.arange(len(proof.parent)), node)
    parent = proof.parent[kept]
    tables = {name: getattr(proof, name)[kept] for name in ("heads", "server", "bar", "price", "relief", "shift")}
    return replace(proof, parent=parent - (parent > node), **tables)


def test_a_proof_without_a_node_or_of_another_problem_is_rejected() -> None:
    """Any leaf left out, prices spoilt, another choice of links, another demand: something is left open."""
    problem = random_problem(5, 4)
    proof = proven(problem)[1]
    assert not _rejected(problem, proof)
    leaves = np.flatnonzero(proof.server < 0)
    assert len(leaves) > 3
    assert all(_rejected(problem, _without(proof, int(leaf))) for leaf in leaves[:12])
    for name in ("price", "relief", "shift", "bar"):
        assert _rejected(problem, replace(proof, **{name: np.zeros_like(getattr(proof, name))})) or name == "relief"
    assert _rejected(problem, replace(proof, relief=proof.relief + proof.relief.max()))
    swapped = proof.heads.copy()
    swapped[leaves[:2]] = swapped[leaves[:2]][::-1]
    assert _rejected(problem, replace(proof, heads=swapped)) or (swapped == proof.heads).all()
    undivided = np.where(np.arange(len(proof.server)) == 0, -1, proof.server)
    assert _rejected(problem, replace(proof, server=undivided))
    assert _rejected(replace(problem, demand=problem.demand.T), proof)
    for other in ({"degree": 3}, {"links": LinkDirection.BIDIRECTIONAL}, {"parallel_links": False}, {"max_hops": 3}):
        assert _rejected(replace(problem, **other), proof)  # type: ignore[arg-type]
    assert _rejected(replace(problem, forbidden=((0, 1),)), proof)


MALFORMED: dict[str, Callable[[BlockTree], BlockTree]] = {
    "nodes, 1 to": lambda p: replace(p, parent=p.parent[:0]),
    "wrong shape": lambda p: replace(p, price=p.price[:, :3]),
    "root must be first": lambda p: replace(p, parent=np.where(p.parent < 0, 0, p.parent)),
    "before its children": lambda p: replace(p, parent=np.arange(len(p.parent))),
    "do not exist": lambda p: replace(p, heads=p.heads + 4),
    "negative price": lambda p: replace(p, price=p.price - 1),
    "a number above": lambda p: replace(p, shift=p.shift + LARGEST_PRICE + 1),
    "positive and finite": lambda p: replace(p, theta=0.0),
    "no choice of a server": lambda p: replace(p, server=np.full_like(p.server, -1)),
}


@pytest.mark.parametrize("issue", list(MALFORMED))
def test_malformed_proofs_are_refused(issue: str) -> None:
    """Shapes, ranges and sizes are looked at before anything is computed."""
    with pytest.raises(InputError, match=issue):
        blocks_bound(PROBLEM, MALFORMED[issue](PROOF))


def test_the_search_ends_at_its_limits() -> None:
    """Too few nodes: no bound, no proof; a network better than the one known is kept."""
    cut_short = search_blocks(open_space(random_problem(5, 4)), 1e9, Stop(), most_nodes=2)
    assert (cut_short.bound, cut_short.proof, cut_short.stopped_by) == (0.0, None, StopReason.BUDGET)


@pytest.mark.heavy
@pytest.mark.parametrize(("seed", "known"), [(1, 8.069), (2, np.inf), (3, np.inf)])
def test_ten_servers(seed: int, known: float) -> None:
    """Proven, checked, and no worse than what a joint program found in 150 s without proof."""
    problem = TopologyProblem("case", 10, 2, ONE_WAY, demand_matrix("balanced-skew", 10, seed=seed))
    found, proof = proven(problem)
    assert blocks_bound(problem, proof) == found.bound < known
    assert found.counts is not None
    routed = route(problem.demand, found.counts)
    assert routed is not None
    assert routed.theta == pytest.approx(found.bound, rel=1e-6)
