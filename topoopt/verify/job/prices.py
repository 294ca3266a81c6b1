"""Prices in a solution: which networks have one. Without the price book, which is elsewhere, nothing is recounted."""

from __future__ import annotations

from math import inf

from topoopt.core.bill import PLAN_FABRIC
from topoopt.core.job_solution import JobSolution
from topoopt.verify.laws.findings import ViolationLog, as_float


def check_prices(findings: ViolationLog, solution: JobSolution) -> None:
    """Each network once, that of the plan first, only simulated ones beside it, no price below 0."""
    if solution.prices is None:
        return
    names = [fabric for fabric, _ in solution.prices.usd]
    if len(set(names)) < len(names):
        findings.add("prices", "a fabric has two prices")
    if names[:1] != [PLAN_FABRIC]:
        findings.add("prices", f"the first price is not that of {PLAN_FABRIC}")
    for fabric in dict.fromkeys(names):
        if fabric not in {PLAN_FABRIC, *(line.fabric for line in solution.baselines)}:
            findings.add("prices", f"a price of {fabric}, which was not simulated")
    for fabric, usd in solution.prices.usd:
        if not 0 <= as_float(usd) < inf:
            findings.add("prices", f"{fabric} costs {usd!r} USD")
