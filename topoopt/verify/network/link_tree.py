"""Evaluate a proof of a bound on theta over all topologies: a tree over the links, without a solver, in integers.

Let x_ij be the links i -> j of any topology the problem allows, lambda its throughput, D the demand. Lengths l >= 0 of
all ordered pairs make every path of i -> j at least dist_l(i, j) long, the shortest over all pairs, linked or not, so

    lambda S <= sum l_ij x_ij,  S = sum D_ij dist_l(i, j),  and  theta = 1 / lambda >= L  where  sum l_ij x_ij <= S / L.

The lengths of a proof have to show that for every topology (`topoopt.verify.laws.link_tree`).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.link_tree import LinkTree
from topoopt.core.network import TopologyProblem
from topoopt.verify.laws.link_tree import LeafCases, LinkRules, distances, parts_of, proven_by_leaves


def tree_bound(problem: TopologyProblem, proof: LinkTree, claimed: float) -> float:
    """What a proof shows of theta on all topologies of a problem with one demand, `claimed` or a little more.

    Raises:
        InputError: the proof is malformed, too large to be looked at, or has no multipliers for some topology.
    """
    if not 0 < claimed < np.inf or problem.several:
        raise InputError("tree over the links: more than one demand, or a bound that is no positive number")
    place, lengths, prices = parts_of(proof, problem.servers)
    cases = _cases(problem.demand[place], lengths, claimed)
    return max(claimed, proven_by_leaves(_rules(problem, place), lengths, prices, cases))


def _rules(problem: TopologyProblem, place: tuple[Ints, ...]) -> LinkRules:
    n, both, may_lose = problem.servers, problem.links is LinkDirection.BIDIRECTIONAL, problem.max_changed
    allowed = ~np.eye(n, dtype=np.bool_)
    for tail, head in problem.forbidden:
        allowed[tail, head] = False
        if both:
            allowed[head, tail] = False
    kept = np.zeros((n, n), dtype=np.int64)
    for tail, head in problem.kept if may_lose is not None else ():
        kept[tail, head] += 1
    if both:
        kept = np.maximum(kept, kept.T)
    return LinkRules(
        both,
        problem.degree,
        problem.degree if problem.parallel_links else 1,
        allowed[place],
        kept[place],
        may_lose or 0,
        problem.max_hops,
    )


def _cases(demand: Floats, lengths: Ints, claimed: float) -> LeafCases:
    """One: the limits are S / L rounded down, or -1, which no leaf reaches, where S is 0 and says nothing of lambda."""
    exact = [[Fraction(value) for value in row] for row in demand.tolist()]
    unit = max(value.denominator for row in exact for value in row)  # all are powers of 2
    whole = np.array([[int(value * unit) for value in row] for row in exact], dtype=object)
    sums = (distances(lengths).astype(object) * whole).sum(axis=(1, 2)).tolist()
    divisor = Fraction(claimed) * unit
    limit = np.array([min(2**62, int(each / divisor)) if each else -1 for each in sums], dtype=np.int64)
    carried = np.array([float(Fraction(each, unit)) for each in sums])
    return LeafCases(limit[:, None], np.zeros(1), carried[:, None])
