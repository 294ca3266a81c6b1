"""Robust designs of jobs: no worse after the worst failure than the plan found without that goal, within the limit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.failures.job import JobEvaluator
from solvers.failures.repairs import PlanTraffic
from solvers.failures.robust import random_exchange
from solvers.failures.worst import single_links
from solvers.job.loop import LoopResult
from solvers.job.methods import run_method
from solvers.network.annealing import arcs_of, table_of
from solvers.stop import Stop
from tests.support.failure_cases import BIDIRECTIONAL, UNIDIRECTIONAL, circulant
from topoopt.core.cluster import Cluster
from topoopt.core.job import CoOptimisation
from topoopt.core.result import JobSearchSettings, RobustGoal
from topoopt.core.workload import Operator, OperatorInput, Split, Workload
from topoopt.kinds.job import RECORDS
from topoopt.kinds.pipeline import search_problems
from topoopt.simulate.network import build_task_graph, demand_of
from topoopt.verify.job.plan import check_plan


def job(n: int) -> Workload:
    """A table that cannot be divided, and two dense layers."""
    ways = [k for k in range(1, n + 1) if n % k == 0]
    splits = tuple(Split(k, 2.0 / k, 4.0 / k, 0) for k in ways)
    table = Operator("table", "embedding", 2000, 4, (1000,), (), (Split(1, 0.1, 0.1, 0),), locally_reduced=False)
    first = Operator("first", "dense", 500, 4, (4_000_000,), (OperatorInput(0),), splits)
    second = Operator("second", "dense", 10, 4, (2_000_000,), (OperatorInput(1),), splits)
    return Workload("job", 60 * n, (table, first, second))


def worst_ms(cluster: Cluster, workload: Workload, result: LoopResult) -> float:
    """Iteration time after the worst single link failure."""
    graph = build_task_graph(cluster, workload, result.plan.strategy)
    plan = result.plan
    evaluator = JobEvaluator(cluster, PlanTraffic(plan.topology, plan.routes, plan.rings, demand_of(graph)), graph)
    values = [evaluator.outcome(failure).value for failure in single_links(plan.topology)]
    return max(float("inf") if value is None else value for value in values)


@pytest.mark.parametrize("links", [BIDIRECTIONAL, UNIDIRECTIONAL])
def test_robust_is_not_worse_after_the_worst_failure(links) -> None:  # type: ignore[no-untyped-def]
    """The same search with and without the goal; a limit of 0 % keeps the time without failure."""
    cluster, workload = Cluster(6, 1, 3, 40.0, links), job(6)
    plain = run_method("alternating", cluster, workload, budget=60, seed=0, stop=Stop())
    free = run_method("robust", cluster, workload, budget=60, seed=0, stop=Stop())
    tight = run_method("auto", cluster, workload, budget=60, seed=0, stop=Stop(), robust=RobustGoal(within_percent=0.0))
    before = worst_ms(cluster, workload, plain)
    assert worst_ms(cluster, workload, free) <= before * (1 + 1e-12)
    assert worst_ms(cluster, workload, tight) <= before * (1 + 1e-12)
    assert tight.iteration_time_ms <= plain.iteration_time_ms * (1 + 1e-12)
    for result in (free, tight):
        assert check_plan(cluster, workload, result.plan) == ()
        assert any("price of robustness" in note for note in result.notes)


def test_other_methods_refuse_the_goal() -> None:
    """A goal that the method named would not look at is a problem of the instance."""
    plain = CoOptimisation("x", Cluster(2, 1, 1, 1.0), job(2))
    assert plain.search.robust is None
    asked = replace(plain, search=JobSearchSettings(method="alternating", robust=RobustGoal()))
    assert [problem.path for problem in search_problems(RECORDS[0], asked)] == ["search.method"]
    asked = replace(plain, search=JobSearchSettings(method="robust", robust=RobustGoal()))
    assert search_problems(RECORDS[0], asked) == []


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), n=st.integers(5, 12), paired=st.booleans())
def test_exchanges_keep_degrees(seed: int, n: int, paired: bool) -> None:
    """Every server has as many links as before, and none to itself."""
    table = table_of(circulant(n, (1, 2), BIDIRECTIONAL if paired else UNIDIRECTIONAL))
    made = random_exchange(table, np.random.default_rng(seed))
    if made is None:
        return
    before, after = arcs_of(table.out), arcs_of(made.out)
    for end in (0, 1):
        assert np.bincount(before[:, end], minlength=n).tolist() == np.bincount(after[:, end], minlength=n).tolist()
    assert (after[:, 0] != after[:, 1]).all()
    if paired:
        assert sorted(map(tuple, after.tolist())) == sorted(map(tuple, after[:, ::-1].tolist()))
