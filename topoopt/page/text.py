"""Numbers, sizes and comparisons are written as text here, with units and as many digits as readers can use."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from topoopt.core.proofs import Status
from topoopt.core.result import CheckResult, Decides, SolutionHead

SIGNIFICANT_DIGITS = 4
MAX_DECIMALS = 4
USUAL_DECIMALS = 3
"""Decimals at most for values of 0.01 and more."""
ROUNDING = 1e-9
"""Fractions below are rounding."""
HUGE = 1e15
"""From here on a value has a power of ten."""
LISTED_SERVERS = 6
"""Longer server sets are shown as a range, a progression or their first members."""

_BYTE_UNITS = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def number(value: float) -> str:
    """Four significant digits, three decimals (four below 0.01), thousands separated: 12,346; 20.31; 0.840; 0.0042.

    From 10¹⁵ on with a power of ten: 4.319 × 10¹⁶.
    """
    if math.isnan(value):
        return "n/a"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    size = abs(value)
    smallest = 10.0**-MAX_DECIMALS
    if size < smallest / 2:
        return f"<{smallest:.{MAX_DECIMALS}f}" if value > 0 else "0"
    if size >= HUGE:
        return scientific(value, SIGNIFICANT_DIGITS)
    most = USUAL_DECIMALS if size >= 0.01 else MAX_DECIMALS
    decimals = min(most, max(0, SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(size))))
    return f"{value:,.{decimals}f}".replace("-", "−")


def power_of_ten(exponent: int) -> str:
    """`10⁶`."""
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def precise(value: float) -> str:
    """Six significant digits, for where a figure comes from: 1234.57; 4.31942 × 10¹⁶; rounding of 0 as 0."""
    if not math.isfinite(value):
        return number(value)
    return "0" if abs(value) < 1e-12 else scientific(value, 6)


def scientific(value: float, digits: int) -> str:
    """So many significant digits, with a power of ten where plain digits would be more."""
    shown, _, power = f"{value:.{digits}g}".partition("e")
    return (f"{shown} × {power_of_ten(int(power))}" if power else shown).replace("-", "−")


def milliseconds(value: float) -> str:
    """Time with its unit: `20.31 ms`."""
    return f"{number(value)} ms"


def byte_size(value: float) -> str:
    """Size in decimal units: `33.55 MB`."""
    if not math.isfinite(value):
        return f"{number(value)} B"
    for scale, unit in _BYTE_UNITS:
        if abs(value) >= scale:
            return f"{number(value / scale)} {unit}"
    return f"{value:.0f} B"


def percent(fraction: float) -> str:
    """Fraction as a percentage with one decimal; tiny ones as `<0.1 %`."""
    if not math.isfinite(fraction):
        return "n/a"
    if ROUNDING < fraction < 0.0005:
        return "<0.1 %"
    return f"{100 * fraction + 0.0:.1f} %".replace("-", "−").replace("−0.0 ", "0.0 ")


def ratio(value: float) -> str:
    """Quotient of two times: `1.31×`; `6.84 × 10¹⁹⁸ times`."""
    if not math.isfinite(value):
        return "n/a"
    if value >= HUGE:
        return f"{scientific(value, 3)} times"
    return f"{value:.2f}×" if value < 10 else f"{value:,.1f}×"


def quotient(numerator: float, denominator: float) -> float:
    """numerator / denominator, NaN when the denominator is 0."""
    return numerator / denominator if denominator else math.nan


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 server`, `16 servers`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def server_set(servers: Sequence[int], n: int) -> str:
    """Compact text of a set of servers: `all 16`, `0,4,8,12`, `0–63`, `0,2,…,126 (64)`, `0,3,4,… (12)`."""
    members = sorted(set(servers))
    count = len(members)
    if count == 0:
        return "none"
    if count == n and n > 1:
        return f"all {n}"
    if count <= LISTED_SERVERS:
        return ",".join(str(v) for v in members)
    step = members[1] - members[0]
    if all(b - a == step for a, b in itertools.pairwise(members)):
        return f"{members[0]}–{members[-1]}" if step == 1 else f"{members[0]},{members[1]},…,{members[-1]} ({count})"
    return f"{members[0]},{members[1]},{members[2]},… ({count})"


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters, the middle left out: names differ at both ends."""
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 2
    return f"{text[: limit - 1 - tail]}…{text[len(text) - tail :] if tail else ''}"


SAME = 0.005
"""Relative difference of times that is none for people."""

SMALL = 1.1
"""Factors below are told in percent."""

OBJECTIVES = {
    "iteration_time": "iteration time",
    "max_load": "largest load of a device",
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


def possible_improvement(solution: SolutionHead, what: str, better: str) -> str:
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
    parts = {claim.decides for claim in check.claimed}
    rests = "value" if parts == {Decides.VALUE} else "bound" if parts == {Decides.BOUND} else "value and the bound"
    left = "; ".join(f"{claim.figure} ({claim.reason})" for claim in check.claimed[:3])
    more = f"; and {len(check.claimed) - 3} more" if len(check.claimed) > 3 else ""
    on = "rests on" if rests in ("value", "bound") else "rest on"
    return f"It holds as far as looked at: the {rests} {on} what was not recomputed: {left}{more}."


def full_answer(answer: str, check: CheckResult) -> str:
    """The answer of a kind, and what of it is only claimed."""
    return f"{answer} {claims(check)}".rstrip()
