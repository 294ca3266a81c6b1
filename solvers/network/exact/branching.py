"""Best of all topologies of a few servers, for any demand and any constraints, with a proof that others can check."""

from __future__ import annotations

from math import inf
from typing import TypedDict

from solvers.network.exact.block_search import BlockOutcome, covers_blocks, search_blocks
from solvers.network.exact.local import local_search
from solvers.network.exact.result import OPTIMALITY, ExactLimits, TopologyResult
from solvers.network.exact.routed import Counts, Routed, route
from solvers.network.exact.space import Space, finish, infeasible_hops, open_space
from solvers.network.exact.tree_nodes import too_many_choices
from solvers.network.exact.tree_search import TreeOutcome, search_tree
from solvers.stop import Stop, first_part
from topoopt.core.errors import InfeasibleError, InputError, LimitError
from topoopt.core.network import BlockTree, LinkTree, TopologyProblem
from topoopt.core.proofs import Argument, Bound, StopReason

LOCAL_SHARE, LOCAL_MOST_S = 0.2, 20.0  # a work limit ends the search long before, so that results are reproducible

NAME = "branch-and-bound"


def solve_branching(problem: TopologyProblem, limits: ExactLimits) -> TopologyResult:
    """Best of all topologies by branch and bound over the links of one server after another (`tree_search`).

    Raises:
        InputError: bad problem, or one with too many servers or choices of links.
        InfeasibleError: no topology satisfies the constraints.
        LimitError: the limit came before any topology was found.
    """
    space = open_space(problem)
    faults = too_many_choices(space)
    if faults:
        raise InputError(faults)
    first = first_network(space, limits)
    if first is not None and first[1].theta <= space.bound.value * (1 + OPTIMALITY):
        return finish(space, *first, space.bound, StopReason.CONVERGED, NAME, 0)
    return concluded(space, first, branch_and_bound(space, first, limits.stop, limits.seed))


def branch_and_bound(
    space: Space, first: tuple[Counts, Routed] | None, stop: Stop, seed: int
) -> TreeOutcome | BlockOutcome:
    """By the links around every server where that is quicker, else by one linear program after another."""
    if first is not None and covers_blocks(space):
        return search_blocks(space, first[1].theta, stop, seed=seed)
    return search_tree(space, theta_of(first), stop)


def concluded(space: Space, first: tuple[Counts, Routed] | None, outcome: TreeOutcome | BlockOutcome) -> TopologyResult:
    """The result of branch and bound that set out from a network, or from none.

    Raises:
        InfeasibleError: no topology satisfies the constraints.
        LimitError: the limit came before any topology was found.
    """
    best = first if outcome.counts is None else (outcome.counts, routed(space, outcome.counts))
    if best is not None:
        return finish(space, *best, bound_of(outcome), outcome.stopped_by, NAME, outcome.work, **proof_of(outcome))
    if outcome.bound < inf:
        raise LimitError("the limit came before any topology was found")
    if space.problem.max_hops is not None:
        raise InfeasibleError(infeasible_hops(space.problem, "all were tried", None))
    raise InfeasibleError("no allowed topology carries every demand (all were tried)")


def theta_of(network: tuple[Counts, Routed] | None) -> float:
    """Infinite where there is no network."""
    return inf if network is None else network[1].theta


def bound_of(outcome: TreeOutcome | BlockOutcome) -> Bound:
    """What branch and bound proved; claimed, where no checker can be given the proof."""
    if outcome.proof is None:
        return Bound(outcome.bound, Argument.TOPOLOGY_BRANCHING)
    blocks = isinstance(outcome, BlockOutcome)
    return Bound(outcome.bound, Argument.LINK_BLOCKS if blocks else Argument.LINK_TREE)


class ProofParts(TypedDict, total=False):
    """What `finish` takes of a proof."""

    tree: LinkTree | None
    blocks: BlockTree | None


def proof_of(outcome: TreeOutcome | BlockOutcome) -> ProofParts:
    """Under its name in a result."""
    if isinstance(outcome, BlockOutcome):
        return {"blocks": outcome.proof}
    return {"tree": outcome.proof}


def first_network(space: Space, limits: ExactLimits) -> tuple[Counts, Routed] | None:
    """The best network known or met by a short search, routed; None if there is none."""
    known = None if limits.incumbent is None else limits.incumbent.adjacency()
    found = local_search(space, limits.seed, first_part(limits.stop, LOCAL_SHARE, LOCAL_MOST_S), known)
    if found is None:
        return None
    first = found[0], routed(space, found[0])
    limits.keep(finish(space, *first, space.bound, StopReason.TIME, "local search", 0))
    return first


def routed(space: Space, counts: Counts) -> Routed:
    """A network that carries every demand, routed."""
    found = route(space.demand, counts)
    assert found is not None
    return found
