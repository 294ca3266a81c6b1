"""The kind `co-optimisation`."""

from __future__ import annotations

from typing import Any

from topoopt.core.bill import PLAN_FABRIC, iterations_per_s_per_million_usd
from topoopt.core.errors import Problem
from topoopt.core.job import DEFAULT_FABRICS, CoOptimisation
from topoopt.core.job_solution import JobSolution
from topoopt.kinds.job.read import read_co_optimisation
from topoopt.kinds.job.schema import CoOptimisationFile
from topoopt.kinds.job.solution_file import SOLUTION_FILE
from topoopt.kinds.kind import Effort, Explanation, Kind, Pages, Question, Solver
from topoopt.verify.job.check import check_solution


def _solver() -> Solver:
    from topoopt.kinds.job.solve import SOLVER

    return SOLVER


def _pages() -> Pages:
    from topoopt.kinds.job.show import PAGES

    return PAGES


def _explain(instance: CoOptimisation | None, solution: JobSolution, question: Question) -> Explanation:
    from topoopt.kinds.job.explain import explain

    return explain(instance, solution, question)


def _evaluate(
    instance: CoOptimisation, effort: Effort, solution: JobSolution | None, **given: Any
) -> tuple[CoOptimisation, Any]:
    from topoopt.kinds.job.evaluate import given_plan

    return instance, given_plan(instance, effort, solution, **given)


def _problems(instance: CoOptimisation) -> list[Problem]:
    if instance.baselines.fabrics == DEFAULT_FABRICS:
        return []
    from topoopt.kinds.job.fabric_comparison import fabric_problems

    return fabric_problems(instance)


def _value_per_million_usd(solution: JobSolution) -> float | None:
    usd = None if solution.prices is None else solution.prices.of(PLAN_FABRIC)
    return iterations_per_s_per_million_usd(solution.objective.value, usd)


RECORDS = (
    Kind(
        name="co-optimisation",
        summary="parallelization strategy, topology and routes of a training job",
        problem=CoOptimisation,
        solution=JobSolution,
        schema=CoOptimisationFile,
        read=read_co_optimisation,
        read_solution=SOLUTION_FILE.read,
        write_solution=SOLUTION_FILE.write,
        document=SOLUTION_FILE.document,
        check=check_solution,
        solver=_solver,
        pages=_pages,
        problems=_problems,
        explain=_explain,
        evaluate=_evaluate,
        value_per_million_usd=_value_per_million_usd,
        takes_budget=True,
        takes_prices=True,
    ),
)
