"""What a search for topologies answers, in one sentence: the preferred one beside what no topology can beat."""

from __future__ import annotations

from topoopt.analyses.collective.find import TopologyFront
from topoopt.drawing.format import counted


def answer(found: TopologyFront) -> str:
    """Steps and bandwidth factor, each with its bound."""
    best, limits = found.preferred, found.limits
    steps = f"{counted(best.steps, 'step')} ({_least(best.steps <= limits.steps, str(limits.steps))})"
    factor = f"{best.bandwidth} ({_least(best.bandwidth <= limits.bandwidth, str(limits.bandwidth))})"
    size = f"{counted(found.wanted.servers, 'server')} with {counted(found.wanted.degree, 'link')} each"
    count = counted(len(found.entries), "topology", "topologies")
    return (
        f"Of {count} for {size}, of which none beats another in all, the preferred one broadcasts in {steps} at a "
        f"bandwidth factor of {factor}."
    )


def _least(reached: bool, bound: str) -> str:
    return "the least there can be" if reached else f"no topology has less than {bound}"
