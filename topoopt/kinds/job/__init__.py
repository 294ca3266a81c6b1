"""The kind `co-optimisation`: strategy, topology and routes of a training job."""

from __future__ import annotations

from topoopt.core.data import called_later
from topoopt.core.errors import Problem
from topoopt.core.job import DEFAULT_FABRICS, CoOptimisation, JobPlan
from topoopt.core.price_book import PLAN_FABRIC, iterations_per_s_per_million_usd
from topoopt.core.result import AllReduceChoice, Result
from topoopt.files.results import ResultFormat
from topoopt.kinds.job.read import CoOptimisationInstance, read_co_optimisation
from topoopt.kinds.kind import Kind, KindFiles, at_first_use, pages_of

SOLUTION_FILE = ResultFormat("co-optimisation", JobPlan, read_co_optimisation)


def _problems(problem: CoOptimisation) -> list[Problem]:
    problems: list[Problem] = []
    if problem.search.allreduce is not AllReduceChoice.RINGS:
        from solvers.job.methods import allreduce_problems

        problems += allreduce_problems(problem.search, problem.cluster)
    if problem.baselines.choices != DEFAULT_FABRICS:
        from topoopt.kinds.job.methods import fabric_problems

        problems += fabric_problems(problem)
    return problems


def _value_per_million_usd(result: Result[CoOptimisation, JobPlan]) -> float | None:
    prices = result.figures.prices
    usd = None if prices is None else prices.of(PLAN_FABRIC)
    return iterations_per_s_per_million_usd(result.objective.value, usd)


RECORDS = (
    Kind(
        name="co-optimisation",
        files=KindFiles(CoOptimisationInstance, read_co_optimisation, "topoopt.kinds.job"),
        check=called_later("topoopt.verify.job.check", "CHECKER"),
        solver=at_first_use("topoopt.kinds.job.methods", "SOLVER"),
        figures_class=at_first_use("topoopt.kinds.job.figures", "job_figures"),
        pages=pages_of(at_first_use("topoopt.kinds.job.page", "page")),
        problems=_problems,
        format_2=at_first_use("topoopt.kinds.job.methods", "from_format_2"),
        explain=at_first_use("topoopt.kinds.job.explain", "explain"),
        evaluate=at_first_use("topoopt.kinds.job.methods", "given_plan"),
        value_per_million_usd=_value_per_million_usd,
        takes_budget=True,
        takes_prices=True,
        takes_jobs=True,
        takes_crew=True,
    ),
)
