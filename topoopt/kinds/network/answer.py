"""What a network answers, in one sentence: whether the demand fits, how much of it or how often, and what is proven."""

from __future__ import annotations

from topoopt.core.network_solution import NetworkSolution
from topoopt.core.verdict import Status
from topoopt.drawing.format import counted, number, ratio
from topoopt.drawing.sentences import by_how_much, full, rejection, surety_of

THETAS = ("theta", "worst-theta")
"""Objectives that are theta itself, so that their bound is one on theta."""


def answer(solution: NetworkSolution) -> str:
    """The throughput, what the busiest link needs for it, and how far from the best that is."""
    return rejection(solution.check) or f"{_fits(solution)}; {_room(solution)}{_failures(solution)}."


def _fits(solution: NetworkSolution) -> str:
    """Theta and its inverse in words; 1 is where the busiest link is just full."""
    theta, count = solution.theta, len(solution.thetas)
    needs, whole = full(theta), "The demand" if count == 1 else f"The worst of {counted(count, 'demand')}"
    rate = None if solution.topology.rates is not None else solution.link_gbps  # then each link has its own
    own = "" if rate is None else f" ({number(theta * rate)} of {number(rate)} Gbit/s)"
    if theta <= 0:
        return f"{whole} asks nothing of the links"
    if theta > 1 + 1e-9:
        part = f"so {full(solution.throughput)} of the demand fits"
        return f"{whole} does not fit: the busiest link would need {needs} of its capacity{own}, {part}"
    grown = f", and {ratio(solution.throughput)} as much would fit" if theta < 1 - 1e-9 else ""
    return f"{whole} fits: the busiest link is {needs} full{own}{grown}"


def _room(solution: NetworkSolution) -> str:
    """What is proven of all routes on these links, or of all links allowed."""
    other = "routing over these links" if solution.kind == "routing" else "network of these servers and interfaces"
    carries = solution.objective.name in THETAS
    if solution.status is Status.OPTIMAL:
        return f"no {other} {'carries more' if carries else 'completes sooner'} (proven)"
    if solution.bound.value <= 0:
        return f"whether another {other} {'carries more' if carries else 'completes sooner'} is not known"
    much = by_how_much(solution.objective.value / solution.bound.value)
    surety = surety_of(solution)
    if not carries:
        return f"no {other} can complete it more than {much} sooner ({surety})"
    return f"no {other} can carry more than {much} {'as much' if much.endswith('×') else 'more'} ({surety})"


def _failures(solution: NetworkSolution) -> str:
    """What a robust design stands."""
    found = solution.network.robustness
    if found is None:
        return ""
    return f"; after the worst failure of one link the busiest one needs {full(found.worst_theta)} of its capacity"
