"""The plan of a language model in training is that of the first fabric; the others stand beside it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solvers.llm_training.plan import TRAINING_FABRICS, best_network
from solvers.llm_training.strategies import search
from solvers.stop import Stop
from tests.support.llm_cases import training
from tests.support.smallest import problem_of
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import DIRECT_FABRICS, SWITCHED_FABRICS
from topoopt.core.parallelism import PipelineSchedule, Recompute
from topoopt.core.proofs import Status
from topoopt.kinds.llm_training.figures import fabric_bounds_s
from topoopt.kinds.llm_training.page import answer
from topoopt.kinds.pipeline import solve

FEW = {
    "pipeline": (1, 2, 4),
    "context": (1,),
    "schedule": (PipelineSchedule.ONE_F_ONE_B,),
    "recompute": (Recompute.NONE,),
    "zero": (1,),
    "micro_batch": (1,),
    "short_ends": (),
}


def _small(*fabrics: str) -> LlmTrainingProblem:
    problem = problem_of("llm-training")
    return replace(problem, space=replace(problem.space, **FEW), fabrics=fabrics)  # type: ignore[arg-type]


def _experts() -> LlmTrainingProblem:
    """Mixtral on servers of one GPU with slow links: tokens to experts cross servers."""
    problem = training("mixtral-8x22b", 64, 64, 2048)
    space = replace(
        problem.space, **{**FEW, "tensor": (1, 2), "pipeline": (1, 2), "expert": (4, 8), "micro_batch": (1, 2)}
    )
    cluster = replace(problem.cluster, gpu_memory_bytes=None, gpus_per_server=1, servers=64, degree=4, per_gpu=False)
    cluster = replace(cluster, link_gbps=50.0)
    return replace(problem, space=space, cluster=cluster, top=2, fabrics=("direct-connect", "ideal-switch"))


def test_the_names_of_fabrics_are_those_of_the_table() -> None:
    """The checker has a table of its own, of which ones pass on what others send."""
    direct = {name for name, line in TRAINING_FABRICS.items() if line.direct}
    assert direct == set(DIRECT_FABRICS)
    assert set(TRAINING_FABRICS) == {*DIRECT_FABRICS, *SWITCHED_FABRICS}


def test_the_order_of_fabrics_decides_the_plan_alone() -> None:
    """Whatever stands first, each fabric comes to the same; the objective, its bound and the answer are the first's."""
    names = ("direct-connect", "ideal-switch", "rail-only")
    found = {}
    for first in range(3):
        order = (*names[first:], *names[:first])
        solution = solve(_small(*order))
        assert solution.check.ok, solution.check.violations
        figures = solution.figures
        assert tuple(one.fabric for one in figures.fabrics) == order
        one = figures.fabrics[0]
        assert solution.objective.value == one.iteration_time_s
        assert (solution.plan.fabrics[0], figures.breakdown, figures.memory) == (one.plan, one.breakdown, one.memory)
        assert figures.best[0].strategy == one.plan.strategy
        assert ("an ideal switch" if order[0] == "ideal-switch" else order[0]) in answer(solution)
        bounds = fabric_bounds_s(solution)
        times = {
            each.fabric: (each.iteration_time_s, bound) for each, bound in zip(figures.fabrics, bounds, strict=True)
        }
        assert found.setdefault("times", times) == times
    ideal, direct = found["times"]["ideal-switch"], found["times"]["direct-connect"]
    assert ideal[0] == pytest.approx(ideal[1], rel=1e-12)  # sums of other orders
    assert ideal[0] < direct[0]


def test_a_plan_on_a_network_is_the_best_of_all_strategies() -> None:
    """Against a network for every strategy of the space that fits: time, the next best in their order, and the bound,
    which none of them betters, and without which the gap would be larger: tokens take hops on direct links."""
    problem = _experts()
    solution = solve(problem)
    assert solution.check.ok, solution.check.violations
    every = search(problem, Stop(), count=10_000).ranked
    assert 10 <= len(every) < 100
    networks = [best_network(problem, "direct-connect", one) for one in every]
    times = np.sort([one.evaluated.iteration_time_s for one in networks if one is not None])
    first = solution.figures.fabrics[0]
    assert first.iteration_time_s <= times[0] * (1 + 1e-9)  # ranks of the best may stand better
    assert [one.iteration_time_s for one in first.next] == pytest.approx(times[1:3])
    assert every[0].iteration_time_s < solution.bound.value <= times[0]
    assert solution.status is Status.FEASIBLE
    assert solution.gap == pytest.approx(1 - solution.bound.value / first.iteration_time_s)


def test_a_network_that_is_as_good_as_a_switch_is_proven_to_be() -> None:
    """Two servers with all their interfaces between them are an ideal switch."""
    problem = training("llama3-70b", 16, 16, 4096)
    space = replace(problem.space, **{**FEW, "tensor": (8,), "pipeline": (1, 2)})
    cluster = replace(problem.cluster, gpu_memory_bytes=None, per_gpu=False)
    solution = solve(replace(problem, space=space, cluster=cluster, fabrics=("direct-connect",)))
    assert solution.status is Status.OPTIMAL
    assert solution.check.ok
    assert solution.objective.value == pytest.approx(solution.figures.ranked[0].iteration_time_s)
