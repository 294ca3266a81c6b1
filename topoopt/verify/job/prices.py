"""Prices in a solution: which networks have one, and what their parts cost by the price book, counted again."""

from __future__ import annotations

from math import inf

from topoopt.core.bill import PLAN_FABRIC
from topoopt.core.job import CoOptimisation
from topoopt.core.job_solution import JobSolution
from topoopt.core.price_book import PriceBook
from topoopt.verify.job.fabrics.asked import asked_fabric
from topoopt.verify.job.fabrics.parts_list import plan_parts, price_at, price_of
from topoopt.verify.laws.findings import ViolationLog, as_float, differs


def book_at_hand(solution: JobSolution, book: PriceBook | None) -> PriceBook | None:
    """The book, if it is the one that the solution was made with."""
    if book is None or solution.prices is None or solution.prices.book_sha256 != book.sha256:
        return None
    return book


def check_prices(
    findings: ViolationLog, instance: CoOptimisation, solution: JobSolution, book: PriceBook | None
) -> None:
    """Each network once, that of the plan first, then the baselines; every price recounted.

    Args:
        book: that the solution was made with; None: not at hand, and the prices are not recounted.
    """
    if solution.prices is None:
        findings.leave_out("prices", "the solution has none")
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
    if book is None:
        reason = f"the book {solution.prices.book!r} they are of is neither the shipped one nor given"
        findings.leave_out("prices", reason)
        return
    if solution.prices.book != book.name:
        findings.add("prices", f"the price book is called {solution.prices.book!r}, it is {book.name!r}")
    _recount(findings, instance, solution, book)


def _recount(findings: ViolationLog, instance: CoOptimisation, solution: JobSolution, book: PriceBook) -> None:
    cluster = instance.cluster
    due: dict[str, float | None] = {
        PLAN_FABRIC: price_at(plan_parts(cluster.servers, cluster.degree), book, cluster.link_gbps)
    }
    choices = {choice.name: choice for choice in instance.baselines.fabrics}
    for baseline in solution.baselines:
        if baseline.fabric in choices:
            asked = asked_fabric(choices[baseline.fabric], instance.baselines)
            due.setdefault(baseline.fabric, price_of(asked, cluster, book))
    stated = dict(solution.prices.usd) if solution.prices is not None else {}
    for fabric, usd in due.items():
        if usd is None:
            findings.leave_out(f"price of {fabric}", "the checker does not know how it is counted")
        elif fabric not in stated:
            findings.add("prices", f"{fabric} has no price, {usd!r} USD expected")
        elif differs(as_float(stated[fabric]), usd):
            findings.add("prices", f"{fabric} costs {stated[fabric]!r} USD, its parts cost {usd!r}")
    if list(stated) != [fabric for fabric in due if fabric in stated]:
        findings.add("prices", "the prices are not in the order of the baselines")
