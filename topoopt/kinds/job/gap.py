"""What of the gap of a plan a better bound may close, and what only a better plan can.

A bound that holds on any network holds on an ideal switch as well, so none is above what some strategy takes there,
nor above what one takes on a random graph of the same links. What lies between that time and the plan is for better
plans, or for bounds that know the links.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from topoopt.core.job_solution import JobSolution
from topoopt.core.verdict import Status
from topoopt.drawing.format import milliseconds, percent

IDEAL, GRAPH = "ideal-switch", "random-regular"


@dataclass(frozen=True, order=True)
class KnownTime:
    """A time that no bound on any plan is above, and where it is reached; infinite: none is known."""

    ms: float = math.inf
    where: str = "an ideal switch"


@dataclass(frozen=True)
class GapParts:
    """A gap in two parts of the iteration time.

    Attributes:
        limit_ms: that no bound which holds on an ideal switch, or on any links, is above.
        where: this is reached.
        bound_at_most: part between the bound and this.
        plan_at_least: part between this and the plan.
    """

    limit_ms: float
    where: str
    bound_at_most: float
    plan_at_least: float

    @property
    def likelier(self) -> str:
        """What may close the larger part."""
        return "a better bound" if self.bound_at_most > self.plan_at_least else "a better plan"

    @property
    def words(self) -> str:
        """One sentence."""
        bounds, reached = percent(self.bound_at_most), milliseconds(self.limit_ms)
        return (
            f"{bounds} at most are for better bounds, as {reached} are reached on {self.where}, and "
            f"{percent(self.plan_at_least)} for better plans, or bounds that know the links"
        )


def reached(solution: JobSolution) -> KnownTime:
    """On an ideal switch of the interfaces of the plan, or on a random graph of its links, whichever is faster."""
    # A fabric of that name may have been asked for at another rate, which its description tells.
    link = solution.cluster.link_gbps
    switch = f" {solution.cluster.degree * link:g} Gbit/s per server"
    graph = f" graph of {link:g} Gbit/s links,"
    found = [KnownTime()]
    for line in solution.baselines:
        if line.fabric == IDEAL and line.description.endswith(switch):
            found.append(KnownTime(line.iteration_time_ms))
        elif line.fabric == GRAPH and graph in line.description:
            found.append(KnownTime(line.iteration_time_ms, "a random graph of the same links"))
    return min(found)


def gap_parts(solution: JobSolution, known: KnownTime) -> GapParts | None:
    """The parts; None without a gap, or where nothing is known of an ideal switch or a random graph.

    Args:
        known: by some strategy.
    """
    value, bound = solution.objective.value, solution.bound.value
    if solution.status is Status.OPTIMAL or not value > bound or not math.isfinite(known.ms):
        return None
    limit = max(bound, min(value, known.ms))
    return GapParts(limit, known.where, (limit - bound) / value, (value - limit) / value)
