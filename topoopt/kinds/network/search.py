"""Searches for topologies: single seeds, the portfolio, the best after the worst link failure; bounds by formulas.

Method `robust`: theta after the worst single link failure is least, and its price. The topology of least theta without
failure comes first, by the method `auto`; then the search of `solvers.failures.robust`, over all topologies, or
(`within_percent`) over those whose theta without failure is not so much above it. Every failure of what comes out is
routed again, and each routing checked with its certificate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from solvers.failures.robust import NetworkEvaluator, RobustSearch, WorstTheta, exchanged, exhaustive
from solvers.failures.worst import single_links
from solvers.network import relays
from solvers.network.assembly import topology_plan
from solvers.network.enumeration import MOST_SERVERS
from solvers.network.local import filled
from solvers.network.polish import budget_of, default_proposals
from solvers.network.relays import TwoLayerDuals, cases_of, relay_cases, relay_prices, two_layer_multipliers
from solvers.network.routing import route
from solvers.network.search import Routed, TopologySearchResult, quick_start, search_topology
from solvers.network.seeds import SEEDS, seed_topologies
from solvers.network.space import Space, as_topology, open_space
from solvers.network.uniform import is_uniform, search_uniform
from solvers.stop import Stop, first_part
from topoopt.core.arrays import Floats
from topoopt.core.errors import CheckError, InfeasibleError, InputError, LimitError, Problem, TopooptError
from topoopt.core.network import (
    LinkCounts,
    RelayPrices,
    RobustDesign,
    TopologyPlan,
    TopologyProblem,
    TwoLayerMultipliers,
)
from topoopt.core.outcomes import FailureOutcome
from topoopt.core.proofs import Argument, Bound, StopReason
from topoopt.core.result import Certificate, SearchResult
from topoopt.core.topology import Topology
from topoopt.kinds.kind import Effort
from topoopt.kinds.network.read import circulants_only
from topoopt.verify.failures import check_rerouted
from topoopt.verify.network.bounds import (
    LEFT,
    evaluate_relay,
    failed_link_bound,
    hops_beyond,
    quick_bound,
    two_layer_bound,
)

Search = SearchResult[TopologyPlan]

TWO_LAYER_SERVERS = 160
"""Above this the n^3 arrays of the two-layer bound are too large."""


def formula_bound(
    problem: TopologyProblem, *, cases: int = 1, stop: Stop | None = None
) -> tuple[Bound, tuple[Certificate, ...]]:
    """The best of all formulas, a bound on theta over all topologies, and what it rests on.

    The two-layer bound takes some ten seconds at 128 servers, and is left out where it does not fit or `stop` leaves
    no time for it. Where it beats the quick formulas, relay blocks start from it (20 s at 64 servers, 40 s at 128);
    what they prove is stated only once the checker has shown it.

    Args:
        problem: for one demand.
        cases: in which relay blocks are looked at, at most; each takes as long again.
        stop: ends what takes long.
    """
    quick = quick_bound(problem)
    duals = _duals(problem, stop=stop)
    if duals is None:
        return quick, ()
    multipliers = TwoLayerMultipliers(duals.weight, duals.first_link)
    proven = two_layer_bound(problem, multipliers, duals.iterations)
    if proven.value <= quick.value:
        return quick, ()
    n, d, demand = problem.servers, problem.degree, problem.demand
    iterations = relays.default_iterations(n, d)
    if not iterations:
        return proven, (multipliers.certificate(),)
    further = hops_beyond(n, d, demand) * LEFT  # its prices are searched anew by whoever checks

    def shown(prices: RelayPrices) -> bool:
        return evaluate_relay(n, d, demand, prices) >= prices.theta

    used = np.zeros((d, n, n))
    relay = relay_prices(d, demand, duals, proven.value, further, iterations, shown=shown, stop=stop, used=used)
    if relay is None:
        return proven, (multipliers.certificate(),)

    def shown_there(prices: RelayPrices, counts: LinkCounts) -> bool:
        return evaluate_relay(n, d, demand, prices, counts) >= prices.theta

    tree = relay_cases(d, demand, duals, relay, used, further, cases, shown=shown_there, stop=stop)
    if tree is not None:
        return Bound(min(prices.theta for prices in tree.prices), Argument.RELAY_CASES), (tree.certificate(),)
    return Bound(relay.theta, Argument.RELAY_BLOCKS), (relay.certificate(),)


def multipliers_of(problem: TopologyProblem, bound: Bound) -> TwoLayerMultipliers | None:
    """The multipliers behind a stated bound, found again; None for a bound that has none."""
    if bound.argument is not Argument.TWO_LAYER or bound.iterations is None or problem.several:
        return None
    return best_multipliers(problem, most=bound.iterations)


def best_multipliers(problem: TopologyProblem, *, most: int | None = None) -> TwoLayerMultipliers | None:
    """Multipliers for the two-layer bound; None where it does not fit.

    Args:
        problem: its size, degree and demand are looked at.
        most: iterations; no more than help are ever made.
    """
    duals = _duals(problem, most=most)
    return None if duals is None else TwoLayerMultipliers(duals.weight, duals.first_link)


def _duals(problem: TopologyProblem, *, most: int | None = None, stop: Stop | None = None) -> TwoLayerDuals | None:
    help_up_to = relays.default_two_layer_iterations(problem.servers)
    iterations = help_up_to if most is None else min(most, help_up_to)
    if not 3 <= problem.servers <= TWO_LAYER_SERVERS:
        return None
    duals = two_layer_multipliers(problem.degree, problem.demand, iterations, stop=stop)
    return duals if duals.iterations else None


# Seeds and the portfolio.

START_SHARE = 0.5
"""Part of a time limit that the cheap constructions may take at most: without it some searches never see them all."""

BOUND_SHARE = 0.2
"""Part of a time limit that bounds may take at most."""

FINE_SERVERS = 64
"""Up to here the last routing is solved to optimality; beyond, that takes longer than the search."""


def seed_topology(problem: TopologyProblem, effort: Effort, name: str) -> Search:
    """One seed, routed.

    Raises:
        InputError: there is no such seed of this size, or it breaks a constraint, which seeds know nothing of.
        InfeasibleError: no topology satisfies the constraints.
    """
    space = open_space(problem)
    broken = None
    try:
        topology = SEEDS[name](
            problem.servers, problem.degree, problem.links, problem.demand, np.random.default_rng(effort.search.seed)
        )
    except InfeasibleError as error:  # of this method, which says nothing of the problem
        broken = f"this method makes no topology here: {error}"
    else:
        why = space.broken(topology.adjacency())
        broken = None if why is None else f"the topology of this method breaks a constraint: {why}"
    if broken is not None:
        raise InputError([Problem(broken, path="search.method", value=name, allowed="auto, exact, milp")])
    return routed_topology(space, topology, name, effort.stop)


def _for_bounds(stop: Stop) -> Stop:
    """Bounds are cut short only where there is a limit, so that results without one stay reproducible."""
    return stop if stop.deadline is None else first_part(stop, BOUND_SHARE, math.inf)


def routed_topology(space: Space, topology: Topology, method: str, stop: Stop) -> Search:
    """A topology that the space allows, its demand routed, bounded over all topologies."""
    routing = route(topology, space.problem.demand, stop=stop)
    early = routing.stopped_by in (StopReason.TIME, StopReason.INTERRUPTED)
    return Search(
        plan=topology_plan(topology, routing.plan),
        certificates=(*routing.certificates, space.layer_prices.certificate()),
        bounds=(space.bound, quick_bound(space.problem)),
        stopped_by=routing.stopped_by if early else StopReason.CONVERGED,
        method=method,
    )


def _start(problem: TopologyProblem, effort: Effort, method: str) -> Routed | None:
    """The best of the cheap constructions, offered before bounds are derived: bounded by the busiest server."""
    busiest = max(problem.demand.sum(axis=0).max(), problem.demand.sum(axis=1).max())
    cut = Bound(float(busiest) / problem.degree, Argument.NODE_CUT)

    def first(best: Callable[[], Routed]) -> Search:
        topology, routing = best()
        return Search(
            plan=topology_plan(topology, routing.plan),
            certificates=routing.certificates,
            bounds=(cut,),
            stopped_by=StopReason.TIME,
            method=method,
        )

    return quick_start(
        problem,
        seed=effort.search.seed,
        stop=effort.stop if effort.stop.deadline is None else first_part(effort.stop, START_SHARE, math.inf),
        on_incumbent=lambda best: effort.keep(partial(first, best), rough=True),
    )


def _start_if_any(problem: TopologyProblem, effort: Effort, method: str) -> Routed | None:
    try:
        return _start(problem, effort, method)
    except InfeasibleError:  # no construction exists: the search says what that means
        return None


def demand_links(problem: TopologyProblem) -> Topology:
    """With one fibre pair a server, demand says all that matters: who sends to whom is linked to it.

    Links of the network as it stands are left to servers without demand.

    Raises:
        InfeasibleError: no topology satisfies the constraints.
    """
    most = problem.demands.max(axis=0)
    space = open_space(replace(problem, demand=most))
    counts = ((most > 0) | (most > 0).T).astype(np.int64)
    for tail, head in problem.kept:
        if not counts[[tail, head]].any():
            counts[[tail, head], [head, tail]] = 1
    broken = space.broken(counts)
    if broken is not None:
        raise InfeasibleError(f"with one link a server the demand needs {broken}")
    return as_topology(space, counts, "links of the demand")


def portfolio(problem: TopologyProblem, effort: Effort) -> Search:
    """All seeds, annealing on hops, polish on theta, exact link counts; ends early when a bound is reached.

    Ctrl-C and the time limit end bounds and search, and the best so far is returned.

    Raises:
        InfeasibleError: no topology satisfies the constraints. LimitError: none of those met does.
    """
    if problem.single_links:
        return routed_topology(open_space(problem), demand_links(problem), "portfolio", effort.stop)
    start = None if circulants_only(problem) else _start_if_any(problem, effort, "portfolio")
    cases = cases_of(problem.servers, effort.search.budget)
    formula, formula_proofs = formula_bound(problem, cases=cases, stop=_for_bounds(effort.stop))
    space = open_space(problem)
    bounds = (space.bound, formula)
    goal = max(bound.value for bound in bounds)
    budget = budget_of(
        problem.servers,
        effort.search.budget,
        accuracy=1e-6 if problem.servers <= FINE_SERVERS else 1e-4,
        circulants_only=circulants_only(problem),
    )

    def searched(result: TopologySearchResult) -> Search:
        proofs = (*result.routing.certificates, space.layer_prices.certificate(), *formula_proofs)
        return Search(
            plan=topology_plan(result.topology, result.routing.plan),
            certificates=proofs,
            bounds=bounds,
            stopped_by=result.stopped_by,
            method="portfolio",
        )

    return searched(
        search_topology(
            problem,
            seed=effort.search.seed,
            budget=budget,
            goal=goal,
            stop=effort.stop,
            on_incumbent=lambda best: effort.keep(lambda: searched(best())),
            jobs=effort.options.jobs,
            start=start,
        )
    )


def not_uniform(problem: TopologyProblem) -> Problem | None:
    """Why annealing of orbits of links does not cover a problem, or None."""
    allowed = "another method"
    for rule in problem.rules:
        return Problem("this method knows no constraints", path=rule, allowed=allowed)
    if problem.several or problem.single_links or not is_uniform(problem.demand):
        text = "this method needs uniform demand and links that join all servers"
        return Problem(text, path="search.method", value=ORBITS, allowed=allowed)
    return None


ORBITS = "orbits"
"""Method for uniform demand, of `solvers.network.uniform`."""


def by_orbits(problem: TopologyProblem, effort: Effort) -> Search:
    """Annealing of whole orbits of links under imposed groups, each graph routed exactly; uniform demand alone.

    By symmetry no other multipliers than those of layers prove more of uniform demand.

    Raises:
        InfeasibleError: so many links join no graph. LimitError: the limit came before there was one.
    """
    limited = effort.stop.deadline is not None and not circulants_only(problem)
    start = _start_if_any(problem, effort, ORBITS) if limited else None
    space = open_space(problem)
    bounds = (space.bound, quick_bound(problem))
    budget = effort.search.budget
    scale = 1.0 if budget is None else budget / default_proposals(problem.servers)

    def searched(result: TopologySearchResult) -> Search:
        return Search(
            plan=topology_plan(result.topology, result.routing.plan),
            certificates=(*result.routing.certificates, space.layer_prices.certificate()),
            bounds=bounds,
            stopped_by=result.stopped_by,
            method=ORBITS,
        )

    return searched(
        search_uniform(
            problem,
            seed=effort.search.seed,
            scale=scale,
            bound=max(bound.value for bound in bounds),
            stop=effort.stop,
            on_incumbent=lambda best: effort.keep(lambda: searched(best())),
            start=start,
        )
    )


# Robust topologies.

EXCHANGE_SERVERS = 16
"""Up to here link ends are exchanged; beyond, the best of the nominal topology and all seeds is taken."""

PROGRAMS = ((8, 4000, 20), (12, 1200, 8), (EXCHANGE_SERVERS, 500, 3))
"""Linear programs of the exchanges, and random networks to start from, up to so many servers."""

MOST_KEPT = 1_000_000
"""Servers times arcs times links up to which the routing after each failure is kept as a proof."""


def robust(
    problem: TopologyProblem, effort: Effort, least_theta: Callable[[TopologyProblem, Effort], Search]
) -> Search:
    """The topology whose worst single link failure is best.

    Args:
        least_theta: method that makes the topology of least theta without failure.

    Raises:
        InputError: each topology loses some demand with one failed link, and the problem does not ask that none does.
        InfeasibleError: no topology satisfies the constraints; or each loses some demand, and the problem asks that.
        LimitError: none was found that keeps all demand.
    """
    first = least_theta(problem, replace(effort, timing=None))  # a network without its worst failure is nothing to keep
    goal = problem.search.robust
    within = None if goal is None else goal.within_percent
    reference = _theta(problem, first.plan)
    bound = failed_link_bound(problem.servers, problem.degree, problem.links, problem.demand, left=LEFT)
    if math.isinf(bound.value):
        raise _hopeless(problem, "one link a server: whichever fails, some demand has no path")
    limit = math.inf if within is None else reference * (1 + within / 100)
    best, complete = _searched(problem, effort, first.plan.topology, limit, bound.value)
    if best is None:
        if complete:
            raise _hopeless(problem, "every topology allowed loses some demand when one link fails (all were tried)")
        raise LimitError("no topology was found that keeps all demand when one link fails (not proven)")
    topology = as_topology(open_space(problem), best.counts, "robust against single link failures")
    outcomes, failures, proofs = evaluated(topology, problem, effort)
    worst = _worst(outcomes)
    nominal = [outcome.value for outcome in evaluated(first.plan.topology, problem, effort)[0]]
    nominal_worst = None if None in nominal else max(theta for theta in nominal if theta is not None)
    # Where it takes no time to the end, as a routing cut short may be worse than that after the worst failure.
    small = problem.servers <= EXCHANGE_SERVERS
    routing = route(topology, problem.demand, stop=replace(effort.stop, deadline=None) if small else effort.stop)
    robust_design = RobustDesign(
        nominal_theta=reference,
        nominal_worst_theta=nominal_worst,
        failures=failures,
        worst_theta=None if failures else worst.value or 0.0,
        worst_link=None if failures else worst.failure.links[0],
        enumerated_theta=min(best.worst, worst.value or 0.0) if complete else None,
    )
    plan = replace(topology_plan(topology, routing.plan), robust=robust_design)
    others = [proof for proof in first.certificates if proof.argument is not Argument.ARC_LENGTHS]
    return Search(
        plan=plan,
        certificates=(*routing.certificates, *others, *proofs),
        bounds=first.bounds,
        stopped_by=effort.stop.reason() or (StopReason.CONVERGED if complete else StopReason.BUDGET),
        method="robust",
    )


def _theta(problem: TopologyProblem, plan: TopologyPlan) -> float:
    return float((plan.flows[0].load(plan.topology) / plan.topology.capacity).max())


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
    best = exchanged(search, starts, goal, effort.stop, programs=programs)
    if problem.servers > MOST_SERVERS:
        return best, False
    try:
        return exhaustive(search, best, effort.stop)
    except InputError:  # too many networks to list
        return best, False


def _seeds(problem: TopologyProblem, space: Space, seed: int) -> list[np.ndarray]:
    made = seed_topologies(problem.servers, problem.degree, problem.links, problem.demand, seed=seed)
    tables = [topology.adjacency() for _, topology in made]
    return [counts for counts in tables if space.fits(counts)]


def _best_of(
    problem: TopologyProblem, space: Space, starts: list[np.ndarray], limit: float, effort: Effort
) -> WorstTheta | None:
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


def _worst(outcomes: tuple[FailureOutcome, ...]) -> FailureOutcome:
    return max(outcomes, key=lambda outcome: outcome.value or 0.0)


def evaluated(
    topology: Topology, problem: TopologyProblem, effort: Effort
) -> tuple[tuple[FailureOutcome, ...], tuple[Floats, ...], tuple[Certificate, ...]]:
    """Outcomes of all single link failures, and the checked routings with the lengths of the worst one.

    Raises:
        CheckError: a routing breaks a law (a bug of ours).
    """
    links = single_links(topology)
    kept = problem.servers * len(topology.arcs) * len(links) <= MOST_KEPT
    evaluator = NetworkEvaluator(topology, problem.demand, stop=effort.stop, alike=not kept)
    repairs = [evaluator.repair(failure) for failure in links]
    for outcome, plan in repairs:
        if plan is not None:
            after, routing = plan
            laws = check_rerouted(
                topology,
                problem.demand,
                outcome,
                after,
                routing.flow,
                routing.certificate,
            )
            if laws:
                raise CheckError("\n".join(str(law) for law in laws))
    outcomes = tuple(evaluator.outcome(failure) for failure in links)
    routed = [plan for _, plan in repairs]
    if not kept or any(plan is None for plan in routed):
        return outcomes, (), ()
    failures, worst = [], _worst(outcomes).failure
    proofs: tuple[Certificate, ...] = ()
    ids = topology.arc_ids()
    for failure, plan in zip(links, routed, strict=True):
        assert plan is not None
        after, routing = plan
        flow = np.zeros((problem.servers, len(topology.arcs)))
        there = ids[after.arcs[:, 0], after.arcs[:, 1]]
        flow[:, there] = list(routing.flow.rows(after))
        failures.append(flow)
        if failure == worst:
            lengths = np.zeros(len(topology.arcs))
            lengths[there] = routing.certificate.lengths
            link = np.array(failure.links[0], dtype=np.int64)
            proofs = (Certificate(Argument.ARC_LENGTHS, {"lengths": lengths, "link": link}),)
    return outcomes, tuple(failures), proofs
