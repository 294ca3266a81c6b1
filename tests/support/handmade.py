"""Results of jobs whose figures are given by hand: no search, no simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from topoopt.core.cluster import LinkSharing
from topoopt.core.job import CoOptimisation, JobPlan
from topoopt.core.result import Result
from topoopt.kinds import kind_named
from topoopt.kinds.job.figures import JobFigures

FIGURES = ("evaluation", "demand", "operators", "baselines", "prices")
LOG = {"initial_ms": "initial_ms", "convergence": "points"}
WORKLOAD = {"workload_name": "name", "samples": "samples"}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class HandmadeResult(Result[CoOptimisation, JobPlan]):
    """A result with figures that were not computed.

    Attributes
    ----------
    given : figures by name; all others follow from these.
    """

    given: Mapping[str, Any]

    @cached_property
    def figures(self) -> JobFigures:
        """Those given, and what follows from them."""
        assert self.problem is not None
        figures = JobFigures(self.problem, self.plan)
        vars(figures).update(self.given)
        return figures


def altered(result: HandmadeResult, **changes: Any) -> HandmadeResult:
    """The same with other fields, figures, parts of the problem or of the log."""
    figures = {name: changes.pop(name) for name in FIGURES if name in changes}
    log = {field: changes.pop(name) for name, field in LOG.items() if name in changes}
    workload = {field: changes.pop(name) for name, field in WORKLOAD.items() if name in changes}
    problem, plan = result.problem, changes.pop("plan", result.plan)
    assert problem is not None
    if workload:
        problem = replace(problem, workload=replace(problem.workload, **workload))
    if "cluster" in changes:
        cluster = changes.pop("cluster")
        plan = replace(plan, link_sharing=cluster.link_sharing)
        problem = replace(problem, cluster=replace(cluster, link_sharing=LinkSharing.FIFO))
    points = {"log": replace(result.log, **log)} if log else {}
    return replace(result, given={**result.given, **figures}, problem=problem, plan=plan, **points, **changes)


def report(result: Result[Any, Any]) -> str:
    """The page of a job."""
    return str(kind_named("co-optimisation").pages().report(result))
