"""Method `robust` of kind `topology`: theta after the worst single link failure is least, and its price.

The topology of least theta without failure comes first, by the method `auto`; then the search of
`solvers.failures.robust`, over all topologies, or (`within_percent`) over those whose theta without failure is not so
much above it. Every failure of what comes out is routed again, and each routing checked with its certificate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from solvers.failures.listing import single_links
from solvers.failures.network import NetworkEvaluator
from solvers.failures.robust import RobustSearch, WorstTheta, exchanged, exhaustive
from solvers.network.exact.all_networks import MOST_SERVERS
from solvers.network.exact.local import filled
from solvers.network.exact.space import Space, as_topology, open_space
from solvers.network.routing import route
from solvers.network.search import seed_topologies
from topoopt.core.arrays import Floats
from topoopt.core.errors import CheckError, InfeasibleError, InputError, LimitError, Problem, TopooptError
from topoopt.core.failures import FailureOutcome
from topoopt.core.network import TopologyProblem
from topoopt.core.network_solution import FoundNetwork, LinkFailure, Robustness
from topoopt.core.proofs import Argument, Bound
from topoopt.core.topology import Topology
from topoopt.core.verdict import StopReason, Tolerance, settle
from topoopt.kinds.kind import Effort
from topoopt.verify.failures.laws import check_rerouted
from topoopt.verify.network.bounds import LEFT
from topoopt.verify.network.topology_bounds.failed_link import failed_link_bound

EXCHANGE_SERVERS = 16
"""Up to here link ends are exchanged; beyond, the best of the nominal topology and all seeds is taken."""

PROGRAMS = ((8, 4000, 20), (12, 1200, 8), (EXCHANGE_SERVERS, 500, 3))
"""Linear programs of the exchanges, and random networks to start from, up to so many servers."""

MOST_KEPT = 1_000_000
"""Servers times arcs times links up to which the routing after each failure is kept as a proof."""


def robust(
    problem: TopologyProblem, effort: Effort, nominal: Callable[[TopologyProblem, Effort], FoundNetwork]
) -> FoundNetwork:
    """The topology whose worst single link failure is best.

    Args:
        nominal: method that makes the topology of least theta without failure.

    Raises:
        InputError: each topology loses some demand with one failed link, and the problem does not ask that none does.
        InfeasibleError: no topology satisfies the constraints; or each loses some demand, and the problem asks that.
        LimitError: none was found that keeps all demand.
    """
    found = nominal(problem, replace(effort, timing=None))  # a network without its worst failure is nothing to keep
    first = found.network
    goal = problem.search.robust
    within = None if goal is None else goal.within_percent
    reference = first.thetas[0]
    bound = failed_link_bound(problem.servers, problem.degree, problem.links, problem.demand, left=LEFT)
    if math.isinf(bound.value):
        raise _hopeless(problem, "one link a server: whichever fails, some demand has no path")
    limit = math.inf if within is None else reference * (1 + within / 100)
    best, complete = _searched(problem, effort, first.topology, limit, bound.value)
    if best is None:
        if complete:
            raise _hopeless(problem, "every topology allowed loses some demand when one link fails (all were tried)")
        raise LimitError("no topology was found that keeps all demand when one link fails (not proven)")
    topology = as_topology(open_space(problem), best.counts, "robust against single link failures")
    stood = evaluated(topology, problem, effort)
    worst = stood.worst
    known = [outcome.value for outcome in evaluated(first.topology, problem, effort).outcomes]
    listed = [Bound(min(best.worst, worst.value or 0.0), Argument.TOPOLOGY_ENUMERATION)] if complete else []
    verdict = settle(worst.value or 0.0, (bound, *listed), Tolerance.LINEAR_PROGRAM)
    # Where it takes no time to the end, as a routing cut short may be worse than that after the worst failure.
    small = problem.servers <= EXCHANGE_SERVERS
    routing = route(topology, problem.demand, stop=replace(effort.stop, deadline=None) if small else effort.stop)
    robustness = Robustness(
        worst_theta=worst.value or 0.0,
        worst_link=worst.failure.links[0],
        bound=verdict.bound,
        claimed_bound=verdict.claimed_bound,
        within_percent=within,
        nominal_theta=reference,
        nominal_worst_theta=None if None in known else max(value for value in known if value is not None),
        failures=stood.failures,
        lengths=stood.lengths,
    )
    return FoundNetwork(
        replace(
            routing.network(topology),
            enumeration=first.enumeration,
            tree=first.tree,
            layer_prices=first.layer_prices,
            robustness=robustness,
        ),
        found.bounds,
        effort.stop.reason() or (StopReason.CONVERGED if complete else StopReason.BUDGET),
        "robust",
        multipliers=found.multipliers,
    )


def _hopeless(problem: TopologyProblem, text: str) -> TopooptError:
    """No topology stands any failure: the problem has no solution only if that is asked for."""
    if problem.search.robust is not None:
        return InfeasibleError(text)
    return InputError([Problem(text, path="search.method", value="robust", allowed="auto, without a robust goal")])


def _searched(
    problem: TopologyProblem, effort: Effort, first: Topology, limit: float, goal: float
) -> tuple[WorstTheta | None, bool]:
    """The best network found, and whether all were considered."""
    space = open_space(problem)
    search = RobustSearch(space, limit)
    starts = [first.adjacency(), *_seeds(problem, space, effort.search.seed)]
    if problem.servers > EXCHANGE_SERVERS:
        return _best_of(problem, space, starts, limit, effort), False
    programs, random = next(row[1:] for row in PROGRAMS if problem.servers <= row[0])
    rng = np.random.default_rng(effort.search.seed)
    empty = np.zeros((problem.servers, problem.servers), dtype=np.int64)
    if space.kept is None and problem.servers > MOST_SERVERS:
        starts += [filled(space, empty, rng) for _ in range(random)]
    starts = [counts for counts in starts if space.fits(counts)]
    found = exchanged(search, starts, goal, effort.stop, programs=programs)
    if problem.servers > MOST_SERVERS:
        return found, False
    try:
        return exhaustive(search, found, effort.stop)
    except InputError:  # too many networks to list
        return found, False


def _seeds(problem: TopologyProblem, space: Space, seed: int) -> list[np.ndarray]:
    """Networks of all ideas that break no rule."""
    made = seed_topologies(problem.servers, problem.degree, problem.links, problem.demand, seed=seed)
    counts = [topology.adjacency() for _, topology in made]
    return [each for each in counts if space.fits(each)]


def _best_of(
    problem: TopologyProblem, space: Space, starts: list[np.ndarray], limit: float, effort: Effort
) -> WorstTheta | None:
    """The best of some networks, each failure of each routed."""
    best: WorstTheta | None = None
    for counts in starts:
        evaluator = NetworkEvaluator(as_topology(space, counts, ""), problem.demand, stop=effort.stop)
        if evaluator.nominal > limit * (1 + 1e-9):
            continue
        worst = evaluator.nominal
        where = (0, 0)
        for failure in single_links(evaluator.topology):
            value = evaluator.outcome(failure).value
            if value is None or (best is not None and value >= best.worst):
                break
            if value > worst:
                worst, where = value, failure.links[0]
        else:
            best = WorstTheta(counts, evaluator.nominal, worst, where)
        if effort.stop.reason() is not None and best is not None:
            break
    return best


@dataclass(frozen=True, eq=False)
class Stood:
    """How a topology stands every single link failure: outcomes, and routings with the proof of the worst one."""

    outcomes: tuple[FailureOutcome, ...]
    failures: tuple[LinkFailure, ...] = ()
    lengths: Floats | None = None

    @property
    def worst(self) -> FailureOutcome:
        """The failure of largest theta."""
        return max(self.outcomes, key=lambda outcome: outcome.value or 0.0)


def evaluated(topology: Topology, problem: TopologyProblem, effort: Effort) -> Stood:
    """Every single link failure, its routing checked.

    Raises:
        CheckError: a routing breaks a law (a bug of ours).
    """
    links = single_links(topology)
    kept = problem.servers * len(topology.arcs) * len(links) <= MOST_KEPT
    evaluator = NetworkEvaluator(topology, problem.demand, stop=effort.stop, alike=not kept)
    found = [evaluator.repair(failure) for failure in links]
    for each in found:
        if each.routing is not None:
            laws = check_rerouted(
                topology, problem.demand, each.outcome, each.topology, each.routing.flow, each.routing.certificate
            )
            if laws:
                raise CheckError("\n".join(str(law) for law in laws))
    stood = Stood(tuple(evaluator.outcome(failure) for failure in links))
    routed = [each.routing for each in found]
    if not kept or any(each is None for each in routed):
        return stood
    failures = []
    lengths: Floats = np.zeros(len(topology.arcs))
    ids = topology.arc_ids()
    for failure, each, routing in zip(links, found, routed, strict=True):
        assert routing is not None
        flow = np.zeros((problem.servers, len(topology.arcs)))
        there = ids[each.topology.arcs[:, 0], each.topology.arcs[:, 1]]
        flow[:, there] = list(routing.flow.rows(each.topology))
        failures.append(LinkFailure(failure.links[0], flow))
        if failure == stood.worst.failure:
            lengths[there] = routing.certificate.lengths
    return Stood(stood.outcomes, tuple(failures), lengths)
