"""A topology is there before bounds are looked for; what follows a search is allowed for."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from solvers.network.polish import SearchBudget
from solvers.network.search import START_ACCURACY
from solvers.network.seeds import seed_topologies
from solvers.stop import Stop
from solvers.timing import AFTERWARDS, SPARE_S, Timing
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import TopologyProblem
from topoopt.core.proofs import Argument, Bound, Status
from topoopt.kinds.kind import Effort
from topoopt.kinds.network import search as searches
from topoopt.kinds.pipeline import judged
from topoopt.workloads.demands import demand_matrix


class NoTimeError(Exception):
    """Stands for the moment at which a run is left."""


@pytest.mark.parametrize("demand", ["uniform", "skew"])
@pytest.mark.parametrize("links", list(LinkDirection))
def test_the_first_topology_comes_before_bounds(
    demand: str, links: LinkDirection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was kept when the bounds began passes the check, with the traffic of the busiest server as its bound."""

    def left(*_: object, **__: object) -> None:
        raise NoTimeError

    monkeypatch.setattr(searches, "formula_bound", left)
    problem = TopologyProblem("case", 24, 4, links, demand_matrix(demand, 24, seed=1))
    timing = Timing(Stop(time.monotonic() + 3600.0), 3600.0)
    effort = Effort(problem.search, timing.for_search(1.0), timing=timing)
    with pytest.raises(NoTimeError):
        searches.portfolio(problem, effort)
    assert timing.kept is not None
    solution = judged(problem, timing.kept(), replace(effort, timing=None))
    assert solution.check.ok, solution.check.violations
    busiest = max(problem.demand.sum(axis=0).max(), problem.demand.sum(axis=1).max())
    assert solution.bound.value == pytest.approx(busiest / 4)
    assert solution.bound.argument is Argument.NODE_CUT
    reached = solution.objective.value <= solution.bound.value * (1 + 1e-6)  # skew over single links: the cut is met
    assert solution.status is (Status.OPTIMAL if reached else Status.FEASIBLE)
    assert reached == (demand == "skew" and links is LinkDirection.UNIDIRECTIONAL)


@pytest.mark.parametrize(("servers", "links"), [(32, LinkDirection.UNIDIRECTIONAL), (40, LinkDirection.BIDIRECTIONAL)])
def test_a_search_cut_short_is_no_worse_than_any_cheap_method(
    servers: int, links: LinkDirection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once bounds are derived nothing more is routed: the plan is the best of the constructions, not the first one."""
    rng = np.random.default_rng(3)
    demand = np.where(rng.random((servers, servers)) < 0.1, rng.lognormal(size=(servers, servers)), 0.0)
    np.fill_diagonal(demand, 0.0)
    problem = TopologyProblem("case", servers, 4, links, demand)
    stop = Stop()

    def interrupting(*_: object, **__: object) -> tuple[Bound, tuple[Any, ...]]:
        stop.interrupted.set()
        return Bound(0.0, Argument.NODE_CUT), ()

    thetas = {
        name: float((result.plan.flows[0].load(result.plan.topology) / result.plan.topology.capacity).max())
        for name in ("totient", "matching", "random")
        for result in [searches.seed_topology(problem, Effort(problem.search, Stop()), name)]
    }
    assert thetas["totient"] > 1.1 * min(thetas.values()), "the first construction is not the best here"
    monkeypatch.setattr(searches, "formula_bound", interrupting)
    plan = searches.portfolio(problem, Effort(problem.search, stop)).plan
    theta = float((plan.flows[0].load(plan.topology) / plan.topology.capacity).max())
    assert theta <= min(thetas.values()) * (1 + START_ACCURACY)


@pytest.mark.parametrize(
    ("budget", "proposals", "evaluations"), [(None, None, None), (3_000_000, 3_000_000, 36_000), (0, 0, 0)]
)
def test_the_budget_of_a_call_goes_to_annealing_and_polish(
    budget: int | None, proposals: int | None, evaluations: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 16 servers three times the default of 1 000 000 swaps takes three times its 12 000 evaluations."""
    asked: list[SearchBudget] = []

    def taken(*_: object, budget: SearchBudget, **__: object) -> None:
        asked.append(budget)
        raise NoTimeError

    monkeypatch.setattr(searches, "search_topology", taken)
    monkeypatch.setattr(searches, "formula_bound", lambda *_, **__: (Bound(1.0, Argument.NODE_CUT), ()))
    problem = TopologyProblem("case", 16, 4, LinkDirection.UNIDIRECTIONAL, demand_matrix("balanced-skew", 16, seed=1))
    with pytest.raises(NoTimeError):
        searches.portfolio(problem, Effort(replace(problem.search, budget=budget), Stop()))
    assert [(each.proposals, each.evaluations) for each in asked] == [(proposals, evaluations)]


def test_seeds_are_made_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one can be routed before slower ones are begun."""

    def slow(*_: object) -> Any:
        raise NoTimeError

    monkeypatch.setattr("solvers.network.seeds.best_permutation", slow)
    seeds = seed_topologies(8, 2, LinkDirection.UNIDIRECTIONAL, np.ones((8, 8)) - np.eye(8))
    assert next(seeds)[0] == "totient"
    with pytest.raises(NoTimeError):
        next(seeds)


def test_a_search_leaves_time_for_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """For as much as the first whole plan took, and for figures and file, as measured; a rough plan says nothing."""
    now = [0.0]
    monkeypatch.setattr("solvers.stop.time.monotonic", lambda: now[0])
    stop = Stop(100.0)
    asked: list[int] = []

    def measure(found: int) -> tuple[float, float]:
        asked.append(found)
        return 7.0, 11.0

    timing = Timing(stop, 100.0, measure=measure)
    search = timing.for_search(1.0)
    assert search.deadline == 100.0
    now[0] = 1.0
    timing.keep(lambda: 1, search, rough=True)
    assert search.deadline == 100.0
    now[0] = 4.0
    timing.keep(lambda: 2, search)
    assert search.deadline == pytest.approx(100.0 - AFTERWARDS * 4.0)
    assert not asked, "a search this young may end by itself"
    now[0] = 20.0
    timing.keep(lambda: 3, search)
    assert asked == [3]
    assert search.deadline == pytest.approx(100.0 + SPARE_S - 7.0 - 11.0)
