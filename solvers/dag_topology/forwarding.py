"""Circuits and routes where pods forward: from the best direct circuits on, exchanges, then a proof; then fewest."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from solvers.dag_topology.box import MARGIN, crowded
from solvers.dag_topology.branching import CLOSED, SAME
from solvers.dag_topology.route_boxes import RouteLaws
from solvers.dag_topology.route_branching import RouteTree, earliest_routes, fewest_routes
from solvers.dag_topology.route_choice import RoutedPlan, rerouted
from solvers.dag_topology.route_starts import filled_up, joined, thinned_routes, traded
from solvers.dag_topology.search import CLOSE, FoundCircuits, search
from solvers.stop import Stop, first_part
from topoopt.core.arrays import Ints
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.dag_topology_solution import CircuitProof, Split
from topoopt.core.errors import InfeasibleError, LimitError
from topoopt.core.verdict import StopReason
from topoopt.simulate.dag.forwarded_circuits import RoutedJob

MOST_BOXES = 20_000
"""Boxes of a tree of routes."""

DIRECT_SHARE, TRADE_SHARE, BOUND_SHARE = 0.4, 0.5, 0.6
"""Parts of the time left: for direct circuits, for exchanges, for the least makespan; the rest is for fewest ones."""


@dataclass(frozen=True, eq=False)
class FoundRoutes:
    """Circuits with routes, and what is proven of all.

    Attributes:
        plan: the fewest circuits that do the job within the slack.
        fastest: the plan that does it first.
        bound: no circuits and routes do it earlier.
        proof: of both.
        stopped_by: why the search ended.
    """

    plan: RoutedPlan
    fastest: RoutedPlan
    bound: float
    proof: CircuitProof
    stopped_by: StopReason


Keep = Callable[[Callable[[], FoundRoutes]], None]
"""Called with what makes the result, should the search have to be left from here on."""


@dataclass
class _Plans:
    """The best so far: the fastest, and others that have fewer circuits."""

    fastest: RoutedPlan | None = None

    def offer(self, plan: RoutedPlan) -> float:
        if self.fastest is None or plan.value < self.fastest.value:
            self.fastest = plan
        return self.fastest.value


def direct_plan(job: RoutedJob, circuits: Ints) -> RoutedPlan:
    """Circuits of the pairs that something is transferred between, and no forwarding."""
    all_pairs = np.zeros(len(job.pairs), dtype=np.int64)
    all_pairs[[int(job.number[pair]) for pair in job.problem.pairs]] = circuits
    return RoutedPlan.of(job, all_pairs, job.problem.directions)


def forwarded(
    problem: DagTopologyProblem, stop: Stop, tell: Callable[[str], None], keep: Keep, most_boxes: int = MOST_BOXES
) -> FoundRoutes:
    """Least makespan, then fewest circuits within the slack; both with their proofs, as far as the limits allow.

    Raises:
        InfeasibleError: no circuits serve everything.
        LimitError: none were found.
    """
    job = RoutedJob.of(problem)
    laws = RouteLaws(job)
    tell("circuits")
    begun = _begun(job, laws, stop, tell, keep)
    plans = _Plans(min(begun, key=lambda plan: plan.value, default=None))
    bounding = first_part(stop, BOUND_SHARE, math.inf)
    if plans.fastest is not None:
        first = plans.fastest
        keep(lambda: plain(laws, first, first, problem, stop))
        trading = first_part(bounding, TRADE_SHARE, math.inf)
        plans.offer(rerouted(job, traded(job, first, trading, lambda _: None), trading))
    tell("bound")
    tree = earliest_routes(laws, plans.fastest, plans.offer)
    bound = tree.grow(lambda: _value(plans) * (1 - CLOSE), bounding, most_boxes)
    best = plans.fastest
    if best is None:
        raise _nothing(problem, bound)
    bound = min(bound, best.value)
    by_windows = root_bound(laws, best.value)
    splits: tuple[Split, ...] = (CLOSED,) if by_windows >= bound else tree.written()
    tell("fewest circuits")
    few, needed, few_tree = _fewest(job, laws, best, begun, stop, most_boxes)
    proof = CircuitProof(splits, int(min(needed, few.total)), few_tree.written())
    bound = max(bound, by_windows)
    whole = bound >= best.value * (1 - CLOSE) and needed >= few.total
    stopped = StopReason.CONVERGED if whole else stop.reason() or StopReason.BUDGET
    return FoundRoutes(few, best, bound, proof, stopped)


def _value(plans: _Plans) -> float:
    return math.inf if plans.fastest is None else plans.fastest.value


def _begun(job: RoutedJob, laws: RouteLaws, stop: Stop, tell: Callable[[str], None], keep: Keep) -> list[RoutedPlan]:
    """Plans to begin with: the best and the fewest direct circuits; where ports are too few for any, some that do."""
    problem = job.problem
    if not crowded(problem):
        direct = replace(problem, max_hops=1)

        def kept(found: Callable[[], FoundCircuits]) -> None:
            def made() -> FoundRoutes:
                own = found()
                few, fast = direct_plan(job, own.circuits), direct_plan(job, own.fastest)
                return plain(laws, few, fast, problem, stop)

            keep(made)

        found = search(direct, first_part(stop, DIRECT_SHARE, math.inf), tell, kept)
        return [direct_plan(job, found.fastest), direct_plan(job, found.circuits)]
    some = joined(job, stop)
    return [] if some is None else [filled_up(job, some, stop)]


def _fewest(
    job: RoutedJob, laws: RouteLaws, best: RoutedPlan, begun: list[RoutedPlan], stop: Stop, most_boxes: int
) -> tuple[RoutedPlan, float, RouteTree]:
    """(plan, circuits that are needed, the tree that proves it) within the slack of the best."""
    limit = best.value * (1 + job.problem.slack_percent / 100)
    before = limit * (1 + SAME) * (1 - MARGIN)
    part = first_part(stop, TRADE_SHARE, math.inf)
    fitting = [plan for plan in (best, *begun) if plan.value < before]
    few = min((thinned_routes(job, plan, before, part) for plan in fitting), key=lambda plan: plan.total)

    def offer(plan: RoutedPlan) -> int:
        nonlocal few
        few = plan if plan.total < few.total else few
        return few.total

    tree = fewest_routes(laws, limit, few.total, offer)
    needed = tree.grow(lambda: few.total - 0.5, stop, most_boxes)
    return few, needed, tree


def root_bound(laws: RouteLaws, value: float) -> float:
    """The largest time before which the root alone says that nothing is done, to 1e-7 of a value that is reached."""
    if laws.narrowed(laws.whole, value) is None:
        return value
    low, high = 0.0, value
    while high - low > 1e-7 * value:
        middle = (low + high) / 2
        if laws.narrowed(laws.whole, middle) is None:
            low = middle
        else:
            high = middle
    return low


def plain(
    laws: RouteLaws, few: RoutedPlan, fastest: RoutedPlan, problem: DagTopologyProblem, stop: Stop
) -> FoundRoutes:
    """Plans with what the root alone proves."""
    limit = fastest.value * (1 + problem.slack_percent / 100) * (1 + SAME)
    left = laws.narrowed(laws.whole, limit)
    needed = 0 if left is None else laws.circuits(left)
    proof = CircuitProof((CLOSED,), min(needed, few.total), (CLOSED,))
    return FoundRoutes(few, fastest, root_bound(laws, fastest.value), proof, stop.reason() or StopReason.CONVERGED)


def without_forwarding(problem: DagTopologyProblem, circuits: Ints, stop: Stop) -> FoundRoutes:
    """Circuits of the pairs that something is transferred between, which nothing is forwarded over, and what the root
    says of all plans."""
    job = RoutedJob.of(problem)
    plan = direct_plan(job, circuits)
    return plain(RouteLaws(job), plan, plan, problem, stop)


def _nothing(problem: DagTopologyProblem, bound: float) -> InfeasibleError | LimitError:
    """Why there is no plan."""
    hops = f"within {problem.max_hops} circuits one after the other (max_hops)"
    if math.isinf(bound):
        return InfeasibleError(f"too few ports: no circuits serve every transfer {hops}; all were tried")
    return LimitError(f"no circuits were found that serve every transfer {hops}; more ports or hops may help")
