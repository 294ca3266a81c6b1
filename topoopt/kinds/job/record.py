"""The kind `co-optimisation`."""

from __future__ import annotations

from topoopt.core.bill import PLAN_FABRIC, iterations_per_s_per_million_usd
from topoopt.core.errors import Problem
from topoopt.core.job import DEFAULT_FABRICS, CoOptimisation
from topoopt.core.job_solution import JobSolution
from topoopt.core.search_settings import AllReduceChoice
from topoopt.kinds.job.read import read_co_optimisation
from topoopt.kinds.job.schema import CoOptimisationFile
from topoopt.kinds.kind import Kind, KindFiles, at_first_use, called_later


def _problems(instance: CoOptimisation) -> list[Problem]:
    problems: list[Problem] = []
    if instance.search.allreduce is not AllReduceChoice.RINGS:
        from solvers.job.methods import allreduce_problems

        problems += allreduce_problems(instance.search, instance.cluster)
    if instance.baselines.fabrics != DEFAULT_FABRICS:
        from topoopt.kinds.job.fabric_comparison import fabric_problems

        problems += fabric_problems(instance)
    return problems


def _value_per_million_usd(solution: JobSolution) -> float | None:
    usd = None if solution.prices is None else solution.prices.of(PLAN_FABRIC)
    return iterations_per_s_per_million_usd(solution.objective.value, usd)


RECORDS = (
    Kind(
        name="co-optimisation",
        files=KindFiles(CoOptimisationFile, read_co_optimisation, "topoopt.kinds.job.solution_file"),
        check=called_later("topoopt.kinds.job.check", "check_job"),
        solver=at_first_use("topoopt.kinds.job.solve", "SOLVER"),
        pages=at_first_use("topoopt.kinds.job.show", "PAGES"),
        problems=_problems,
        explain=at_first_use("topoopt.kinds.job.explain", "explain"),
        evaluate=at_first_use("topoopt.kinds.job.evaluate", "given_plan"),
        value_per_million_usd=_value_per_million_usd,
        takes_budget=True,
        takes_prices=True,
        takes_jobs=True,
        takes_crew=True,
    ),
)
