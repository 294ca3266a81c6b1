"""The checker of jobs, with the prices it asks for."""

from __future__ import annotations

from dataclasses import replace

from topoopt.core.job import CoOptimisation
from topoopt.core.job_solution import JobSolution
from topoopt.costs.default_book import default_price_book
from topoopt.verify.job.check import check_solution
from topoopt.verify.laws.findings import BRIEF, CheckDepth, CheckFindings


def check_job(instance: CoOptimisation, solution: JobSolution, depth: CheckDepth = BRIEF) -> CheckFindings:
    """What is wrong with a solution; its prices are held against the book given, else against the shipped one."""
    return check_solution(instance, solution, replace(depth, book=depth.book or default_price_book()))
