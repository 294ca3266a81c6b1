"""Parts of the sentence that answers a question: how two times compare, and how much better anything could be."""

from __future__ import annotations

import math

from topoopt.core.proofs import Status
from topoopt.core.result import CheckResult, Decides, SolutionHead
from topoopt.drawing.format import counted, percent, precise, quotient, ratio

SAME = 0.005
"""Relative difference of times that is none for people."""

SMALL = 1.1
"""Factors below are told in percent."""

OBJECTIVES = {
    "iteration_time": "iteration time",
    "max_load": "largest load of a device",
    "makespan": "time of one step",
    "mean_iteration_time": "mean iteration time",
    "mean_completion_time": "mean completion time",
    "min_rate": "smallest rate",
    "min_weighted_rate": "smallest rate over weight",
    "min_surplus": "smallest rate above the guarantee, over weight",
    "weighted_total_rate": "weighted sum of the rates",
    "completion_time": "completion time",
    "completion-time": "completion time",
    "worst-theta": "theta of the worst demand",
    "time-times-cost": "time × cost",
    "algbw": "algorithm bandwidth",
}
"""What objectives are called where their name is not a word."""


def objective_text(name: str) -> str:
    """What an objective is called for people."""
    return OBJECTIVES.get(name, name.replace("_", " "))


UNITS = {"ns*USD": "ns × USD", "us": "µs"}
"""Units as people write them, where that differs."""


def quantity(value: float, unit: str) -> str:
    """A figure in six digits with its unit."""
    return f"{precise(value)} {UNITS.get(unit, unit)}".rstrip()


def bound_text(solution: SolutionHead) -> str:
    """The verified bound in six digits, and who proved it."""
    bound = solution.bound
    return f"{quantity(bound.value, solution.objective.unit)}, proved by: {bound.proved_by}"


def compared(own: float, other: float) -> tuple[str, str]:
    """How time `own` compares with `other`, for a card: `2.41× faster`, `1.08× slower`, `equal`; and for a sentence."""
    factor = 1.0 if own == other else quotient(other, own)
    if not math.isfinite(factor) or factor <= 0:
        return "–", "not comparable with"
    if abs(factor - 1) < SAME:
        return "equal", "as fast as"
    words = f"{ratio(factor)} faster" if factor > 1 else f"{ratio(1 / factor)} slower"
    return words, f"{words} than"


def full(utilisation: float) -> str:
    """A utilisation in three digits, `204 %`; more where it would read as exactly full and is not."""
    text = f"{100 * utilisation:.3g}" if utilisation < 10 else f"{100 * utilisation:,.0f}"
    return f"{100 * utilisation:.9g} %" if text == "100" else f"{text} %"


def by_how_much(factor: float) -> str:
    """A factor of at least 1 as what it adds: `0.4 %` where that is little, else `1.31×`."""
    return percent(factor - 1) if factor < SMALL else ratio(factor)


def room(solution: SolutionHead, what: str, better: str) -> str:
    """How much better anything can be: proven that it cannot, at most so much, or not known.

    Args:
        solution: with its verified bound.
        what: of which there is none better, as `plan on these servers`.
        better: as `faster`.
    """
    if solution.status is Status.OPTIMAL:
        return f"no {what} is {better} (proven)"
    value, bound = solution.objective.value, solution.bound.value
    factor = quotient(bound, value) if solution.objective.maximise else quotient(value, bound)
    if not math.isfinite(factor) or factor < 1:
        return f"how much {better} another {what} could be is not known"
    most = by_how_much(factor)
    least = f"as much as {most[1:]}" if most.startswith("<") else f"more than {most}"
    return f"no {what} can be {least} {better} ({surety_of(solution)})"


def surety_of(solution: SolutionHead) -> str:
    """What a statement that rests on the bound is."""
    return "proven" if solution.bound.verified else "claimed, not verified"


def rejection(check: CheckResult) -> str:
    """What is said instead of an answer where the checker rejects it; empty where it does not."""
    if check.ok:
        return ""
    count = len(check.violations)
    return f"The independent check rejects this result ({counted(count, 'violation')}): its figures prove nothing."


def claims(check: CheckResult) -> str:
    """What is said behind an answer that rests on figures which the check left out; empty where it rests on none."""
    if not check.ok or not check.claimed:
        return ""
    parts = {one.decides for one in check.claimed}
    rests = "value" if parts == {Decides.VALUE} else "bound" if parts == {Decides.BOUND} else "value and the bound"
    left = "; ".join(f"{one.figure} ({one.reason})" for one in check.claimed[:3])
    more = f"; and {len(check.claimed) - 3} more" if len(check.claimed) > 3 else ""
    on = "rests on" if rests in ("value", "bound") else "rest on"
    return f"It holds as far as looked at: the {rests} {on} what was not recomputed: {left}{more}."


def full_answer(answer: str, check: CheckResult) -> str:
    """The answer of a kind, and what of it is only claimed."""
    return f"{answer} {claims(check)}".rstrip()
