"""The topologies a problem allows: what is refused, what fits, and which of them a result is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from formulations.network.joint_topology import allowed_arcs, kept_counts
from solvers.network.constructions.assemble import switched
from solvers.network.exact.bounds import best_bound, moore_hops
from solvers.network.exact.result import OPTIMALITY, TopologyResult
from solvers.network.exact.routed import Counts, Routed, hop_distances
from solvers.network.plans import topology_plan
from topoopt.core.arrays import Bools, Floats
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.network import (
    BlockTree,
    LayerPrices,
    LengthCertificate,
    LinkTree,
    RoutingPlan,
    SourceFlow,
    TopologyProblem,
)
from topoopt.core.proofs import Bound, StopReason
from topoopt.core.topology import Topology


@dataclass(frozen=True, eq=False)
class Space:
    """A problem in tables.

    Attributes:
        problem: as stated.
        demand: float64[n, n].
        allowed: bool[n, n], pairs that may have a link.
        kept: int64[n, n], links as they stand, when some must stay; else None.
        bound: lower bound on theta over all topologies.
        layer_prices: what it rests on if it is by layers.
    """

    problem: TopologyProblem
    demand: Floats
    allowed: Bools
    kept: Counts | None
    bound: Bound
    layer_prices: LayerPrices

    @property
    def bidirectional(self) -> bool:
        """Whether links are fibre pairs."""
        return self.problem.links is LinkDirection.BIDIRECTIONAL

    @property
    def most_links(self) -> int:
        """Largest number of parallel links."""
        return self.problem.degree if self.problem.parallel_links else 1

    def changed(self, counts: Counts) -> int:
        """Links of the network as it stands that are given up."""
        if self.kept is None:
            return 0
        lost = int(np.maximum(self.kept - counts, 0).sum())
        return lost // 2 if self.bidirectional else lost

    def fits(self, counts: Counts) -> bool:
        """Whether a table of link counts satisfies every constraint and carries every demand."""
        return self.broken(counts) is None

    def broken(self, counts: Counts) -> str | None:
        """What is wrong with a table of link counts; None where every constraint holds and every demand has a path."""
        problem = self.problem
        if (counts < 0).any() or (counts[~self.allowed] > 0).any():
            return "a link that is not allowed"
        if counts.max(initial=0) > self.most_links:
            return "parallel links"
        if counts.sum(axis=0).max() > problem.degree or counts.sum(axis=1).max() > problem.degree:
            return f"a server with more than {problem.degree} links"
        if self.bidirectional and not np.array_equal(counts, counts.T):
            return "a link of one direction"
        if problem.max_changed is not None and self.changed(counts) > problem.max_changed:
            return f"more than {problem.max_changed} links of the network as it stands given up"
        far = hop_distances(counts)
        if problem.max_hops is not None and far.max() > problem.max_hops:
            return f"servers more than {problem.max_hops} hops apart"
        return "servers with demand that nothing joins" if np.isinf(far[self.demand > 0]).any() else None


def open_space(problem: TopologyProblem) -> Space:
    """Tables of a problem.

    Raises:
        InputError: sizes, demand or links that make no sense; all are listed.
        InfeasibleError: the Moore bound or the number of interfaces already excludes every topology.
    """
    problems = _faults(problem)
    if problems:
        raise InputError(problems)
    n, degree = problem.servers, problem.degree
    needed = moore_hops(n, degree, problem.links)
    joined = bool((problem.demand.sum(axis=1) > 0).all()) and bool((problem.demand > 0).sum() == n * (n - 1))
    if needed is None and (joined or problem.max_hops is not None):
        raise InfeasibleError(f"{n} servers of {degree} interface(s) with {problem.links} links cannot all be joined")
    if problem.max_hops is not None and needed is not None and problem.max_hops < needed:
        raise InfeasibleError(infeasible_hops(problem, "by the Moore bound", None))
    allowed = allowed_arcs(problem)
    kept = kept_counts(problem) if problem.max_changed is not None else None
    demand = np.asarray(problem.demand, dtype=np.float64)
    return Space(problem, demand, allowed, kept, *best_bound(problem, allowed))


def infeasible_hops(problem: TopologyProblem, proof: str, known: int | None) -> str:
    """Sentence for a hop limit no topology meets."""
    text = f"no allowed topology has every pair within {problem.max_hops} hops ({proof}); the Moore bound is "
    text += f"{moore_hops(problem.servers, problem.degree, problem.links)} hops"
    return text + (f", the smallest limit known to be feasible {known}" if known is not None else "")


def as_topology(space: Space, counts: Counts, origin: str) -> Topology:
    """Topology of link counts (which may leave servers without demand apart)."""
    problem = space.problem
    arcs = np.argwhere(counts > 0)
    units = np.repeat(arcs, counts[arcs[:, 0], arcs[:, 1]], axis=0)
    return switched(Topology.of_arcs(problem.servers, units, degree=problem.degree, links=problem.links, origin=origin))


def finish(
    space: Space,
    counts: Counts,
    routed: Routed,
    proven: Bound,
    stopped_by: StopReason,
    method: str,
    work: int,
    restriction: str = "",
    tree: LinkTree | None = None,
    blocks: BlockTree | None = None,
) -> TopologyResult:
    """Result with `proven` and the cheap bound; with a restriction, `proven` holds in the family only."""
    known = (space.bound,) if restriction else (space.bound, proven)
    bounds = tuple(replace(one, value=min(one.value, routed.theta)) for one in known)
    bound = max(one.value for one in bounds)
    optimal = routed.theta - bound <= OPTIMALITY * routed.theta
    proofs = [LengthCertificate(routed.lengths).certificate(), space.layer_prices.certificate()]
    if tree is not None:
        proofs.append(tree.certificate(min(proven.value, routed.theta)))
    if blocks is not None:
        proofs.append(blocks.certificate())
    return TopologyResult(
        plan=topology_plan(as_topology(space, counts, method), RoutingPlan(flows=(SourceFlow(routed.flow),))),
        certificates=tuple(proofs),
        bounds=bounds,
        stopped_by=StopReason.CONVERGED if optimal else stopped_by,
        method=method,
        notes=(f"searched {restriction} only",) if restriction else (),
        theta=routed.theta,
        restricted_bound=max(bound, min(proven.value, routed.theta)),
        work=work,
    )


def _faults(problem: TopologyProblem) -> list[Problem]:
    n, demand = problem.servers, np.asarray(problem.demand, dtype=np.float64)
    found = []
    if n < 2:
        found.append(Problem("too few servers", path="servers", value=str(n), allowed=">= 2"))
    if problem.degree < 1:
        found.append(Problem("too few interfaces", path="degree", value=str(problem.degree), allowed=">= 1"))
    if demand.shape != (n, n):
        found.append(Problem("wrong size", path="demand", value=str(demand.shape), allowed=f"({n}, {n})"))
    elif not np.isfinite(demand).all() or (demand < 0).any():
        found.append(Problem("demand must be finite and not negative", path="demand"))
    elif np.diagonal(demand).any():
        found.append(Problem("a server has demand to itself", path="demand"))
    elif not demand.any():
        found.append(Problem("there is no demand", path="demand"))
    if problem.max_hops is not None and problem.max_hops < 1:
        found.append(Problem("out of range", path="max_hops", value=str(problem.max_hops), allowed=">= 1"))
    if problem.max_changed is not None and problem.max_changed < 0:
        found.append(Problem("out of range", path="max_changed", value=str(problem.max_changed), allowed=">= 0"))
    for name, arcs in (("forbidden", problem.forbidden), ("kept", problem.kept)):
        for i, j in arcs:
            if not (0 <= i < n and 0 <= j < n) or i == j:
                found.append(Problem("no such arc", path=name, value=f"{i} -> {j}"))
    return found
