"""What a study of failures answers, in one sentence: what the worst failure of each part costs after its repair."""

from __future__ import annotations

from topoopt.analyses.resilience.tables import worst_first
from topoopt.core.failures import FailureOutcome, Resilience
from topoopt.core.result import CheckResult
from topoopt.drawing.format import percent, ratio
from topoopt.drawing.sentences import SAME, SMALL, rejection


def answer(result: Resilience) -> str:
    """The worst single failures, after the best repair found."""
    parts = (("link", result.links), ("server", result.servers), (result.switch, result.planes))
    told = [f"the worst failure of one {name} {_costs(result, outcomes)}" for name, outcomes in parts if outcomes]
    early = "" if result.complete else ", of the failures evaluated before the end"
    refused = rejection(CheckResult(not result.violations, result.violations))
    text = "; ".join(told) or "no single failure was evaluated"
    return refused or f"After the best repair {text}{early}." if told else refused or f"{text[0].upper()}{text[1:]}."


def _costs(result: Resilience, outcomes: tuple[FailureOutcome, ...]) -> str:
    worst = worst_first(outcomes)[0]
    slow = worst.slowdown(result.nominal)
    if slow is None:
        return f"leaves demand undelivered ({worst.failure.label})"
    what = "theta" if result.objective == "theta" else "the time"
    if abs(slow - 1) < SAME:
        return "costs nothing"
    if slow < 1:
        return f"leaves {what} {percent(1 - slow)} below that of the plan, whose own routes are not the best"
    much = f"by {percent(slow - 1)}" if slow < SMALL else f"to {ratio(slow)}"
    return f"raises {what} {much} ({worst.failure.label})"
