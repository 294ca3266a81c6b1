"""Proofs by a tree over the links: what they prove is the least theta of all topologies, and no numbers prove more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.network import tree
from solvers.network.space import open_space
from solvers.network.tree import TreeOutcome, search_tree
from solvers.stop import Stop
from tests.support.every_topology import least_theta
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.network import LARGEST_MULTIPLIER, LinkTree, TopologyProblem
from topoopt.verify.network.trees import tree_bound

ONE_WAY, PAIRS = LinkDirection.UNIDIRECTIONAL, LinkDirection.BIDIRECTIONAL
RING = tuple(arc for i in range(4) for arc in ((i, (i + 1) % 4), ((i + 1) % 4, i)))
RULES: dict[str, dict[str, Any]] = {
    "plain": {},
    "degree-1": {"degree": 1},
    "forbidden": {"forbidden": ((0, 1), (2, 3), (3, 0))},
    "single-links": {"parallel_links": False},
    "kept": {"kept": RING, "max_changed": 1},
    "hops": {"max_hops": 1, "degree": 3},
    "hops-2": {"max_hops": 2, "forbidden": ((0, 1),)},
}
PARTNERS = ("degree-1", PAIRS)
"""One fibre pair a server joins nobody but partners, so that there is no network."""


def random_problem(n: int, seed: int, links: LinkDirection, *, degree: int = 2, **rules: Any) -> TopologyProblem:
    """Lognormal demand, a third of it missing."""
    rng = np.random.default_rng(seed)
    demand = rng.lognormal(0.0, 1.0, (n, n)) * (rng.random((n, n)) < 0.7)
    np.fill_diagonal(demand, 0.0)
    demand[np.arange(n), (np.arange(n) + 1) % n] += 0.5
    return TopologyProblem("case", n, degree, links, demand, **rules)


def proven(problem: TopologyProblem) -> TreeOutcome:
    """Branch and bound without any network known before."""
    found = search_tree(open_space(problem), np.inf, Stop())
    assert found.proof is not None
    return found


@pytest.mark.parametrize(("rules", "links"), [case for case in product(RULES, (ONE_WAY, PAIRS)) if case != PARTNERS])
def test_what_is_proven_is_the_least_of_all_topologies(rules: str, links: LinkDirection) -> None:
    """Four servers, every rule: bound and network found against all topologies, each routed by another program."""
    problem = random_problem(4, 7, links, **RULES[rules])
    found = proven(problem)
    least = least_theta(problem)
    assert found.proof is not None
    assert found.bound <= tree_bound(problem, found.proof, found.bound) <= least * (1 + 1e-9)
    assert found.bound == pytest.approx(least, rel=1e-9)
    with pytest.raises(InputError, match="no leaf"):
        tree_bound(problem, found.proof, least * (1 + 1e-6))


@given(st.integers(0, 10**6), st.sampled_from([ONE_WAY, PAIRS]), st.sampled_from([3, 4]))
@settings(max_examples=8)
def test_random_demand(seed: int, links: LinkDirection, n: int) -> None:
    """The same for any demand, scaled by a trillion either way, too: nothing rests on the size of numbers."""
    problem = random_problem(n, seed, links)
    scale = 10.0 ** (seed % 25 - 12)
    scaled = replace(problem, demand=problem.demand * scale)
    found = proven(scaled)
    assert found.proof is not None
    assert found.bound == pytest.approx(least_theta(problem) * scale, rel=1e-7)
    assert tree_bound(scaled, found.proof, found.bound) == pytest.approx(found.bound, rel=1e-9)


@given(st.data())
@settings(max_examples=40)
def test_no_numbers_prove_more_than_the_truth(data: st.DataObject) -> None:
    """Any multipliers, random or a proof with some altered, in any order: a bound above the optimum is rejected."""
    links = data.draw(st.sampled_from([ONE_WAY, PAIRS]))
    problem, found, least = CASES[links]
    rng = np.random.default_rng(data.draw(st.integers(0, 10**9)))
    tables = found.multipliers.copy()
    if data.draw(st.booleans()):
        tables = rng.integers(0, 50, (40, 4, 4)) * rng.integers(0, 2, (40, 4, 4))
    else:
        tables[rng.random(tables.shape) < 0.1] = data.draw(st.sampled_from([0, 1, 1000, LARGEST_MULTIPLIER]))
    proof = LinkTree(rng.permutation(4), tables)
    with pytest.raises(InputError):
        tree_bound(problem, proof, least * (1 + 1e-6))


def _case(links: LinkDirection) -> tuple[TopologyProblem, LinkTree, float]:
    problem = random_problem(4, 3, links)
    found = proven(problem).proof
    assert found is not None
    return problem, found, least_theta(problem)


CASES = {links: _case(links) for links in (ONE_WAY, PAIRS)}


def test_a_proof_without_one_of_its_leaves_or_of_another_problem_is_rejected() -> None:
    """Multipliers left out, spoilt lengths, spoilt prices, more links, another demand: a topology is left over."""
    problem = random_problem(5, 1, ONE_WAY)
    found = proven(problem)
    proof = found.proof
    assert proof is not None
    assert tree_bound(problem, proof, found.bound) == pytest.approx(found.bound, rel=1e-9)
    assert tree_bound(problem, proof, found.bound / 2) > found.bound / 2 * (1 + 1e-6), "a claim too low is found out"
    alone = [replace(proof, multipliers=np.delete(proof.multipliers, k, axis=0)) for k in range(len(proof.multipliers))]
    rejected = [_rejected(problem, each, found.bound) for each in alone]
    assert 2 * sum(rejected) > len(rejected), "without some a leaf has children that others close"
    off = ~np.eye(5, dtype=np.bool_)
    longer, dearer = proof.multipliers.copy(), proof.multipliers.copy()
    longer[:, off] += longer.max() // 3
    dearer[:, ~off] += dearer.max()
    for tables in (longer, dearer, np.zeros_like(longer), proof.multipliers.transpose(0, 2, 1)):
        assert _rejected(problem, replace(proof, multipliers=tables), found.bound)
    assert _rejected(replace(problem, degree=3), proof, found.bound)
    assert _rejected(replace(problem, demand=problem.demand.T), proof, found.bound)


def _rejected(problem: TopologyProblem, proof: LinkTree, bound: float) -> bool:
    try:
        return tree_bound(problem, proof, bound) < bound
    except InputError:
        return True


def test_rules_left_out_of_a_proof_are_missed() -> None:
    """A proof for a problem with a rule says nothing of the problem without it, where the rule costs something."""
    for rules in ({"forbidden": ((0, 1), (1, 0), (0, 2))}, {"kept": RING, "max_changed": 0}):
        problem = random_problem(4, 11, ONE_WAY, **rules)
        found = proven(problem)
        assert found.proof is not None
        free = replace(problem, forbidden=(), max_changed=None)
        assert least_theta(free) < found.bound * (1 - 1e-6)
        assert _rejected(free, found.proof, found.bound)


MALFORMED: dict[str, Callable[[LinkTree], LinkTree]] = {
    "multipliers, 1 to": lambda p: replace(p, multipliers=p.multipliers[:0]),
    "1 to 5000": lambda p: replace(p, multipliers=np.zeros((5001, 4, 4), dtype=np.int64)),
    "wrong shape": lambda p: replace(p, multipliers=p.multipliers[:, :3, :3]),
    "every server once": lambda p: replace(p, order=np.array([0, 1, 2, 2])),
    "below 0": lambda p: replace(p, multipliers=-1 - p.multipliers),
    "above": lambda p: replace(p, multipliers=p.multipliers + LARGEST_MULTIPLIER + 1),
}


@pytest.mark.parametrize("issue", list(MALFORMED))
def test_malformed_proofs_are_refused(issue: str) -> None:
    """Shapes, ranges and sizes are looked at before anything is computed."""
    problem, proof, least = CASES[ONE_WAY]
    with pytest.raises(InputError, match=issue):
        tree_bound(problem, MALFORMED[issue](proof), least / 2)


@pytest.mark.parametrize("claimed", [0.0, -1.0, np.nan, np.inf])
def test_a_bound_that_is_no_number_is_refused(claimed: float) -> None:
    """Nothing is proven of a bound that is not positive and finite."""
    problem, proof, _ = CASES[ONE_WAY]
    with pytest.raises(InputError, match="no positive number"):
        tree_bound(problem, proof, claimed)


def test_search_without_a_network_says_so_or_gives_up() -> None:
    """Nothing is allowed: an infinite bound. Too few programs: none, and no proof."""
    nobody = random_problem(4, 2, ONE_WAY, forbidden=((0, 3), (1, 3), (2, 3)))
    assert search_tree(open_space(nobody), np.inf, Stop()).bound == np.inf
    cut_short = search_tree(open_space(random_problem(5, 1, ONE_WAY)), np.inf, Stop(), most_programs=3)
    assert (cut_short.bound, cut_short.proof) == (0.0, None)


def test_work_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """More choices of links than fit, or more nodes than are looked at: refused, whatever the proof says."""
    wide = TopologyProblem("wide", 8, 5, ONE_WAY, np.ones((8, 8)) - np.eye(8))
    with pytest.raises(InputError, match="too many choices"):
        tree_bound(wide, LinkTree(np.arange(8), np.ones((5000, 8, 8), dtype=np.int64)), 100.0)
    problem = random_problem(5, 1, ONE_WAY)
    found = proven(problem)
    assert found.proof is not None
    monkeypatch.setattr("topoopt.verify.laws.link_tree.MOST_WORK", 100)
    with pytest.raises(InputError, match="more nodes"):
        tree_bound(problem, found.proof, found.bound)


def test_a_network_that_cannot_be_routed_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may leave demands undelivered that are small beside others; then no network is named."""
    problem = random_problem(4, 7, ONE_WAY)
    monkeypatch.setattr(tree, "route", lambda *_: None)
    assert search_tree(open_space(problem), np.inf, Stop()).counts is None
