"""The bound of a solution against what its argument proves, and a claimed bound beside it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.proofs import Argument, Bound, Tolerance, beats
from topoopt.core.result import SolutionHead
from topoopt.verify.laws.findings import ViolationLog

Derivations = Mapping[Argument, Callable[[], float]]
"""What each argument that a kind accepts proves, in the unit of the objective."""


def check_stated(
    findings: ViolationLog,
    stated: Bound,
    derivations: Derivations,
    value: float,
    *,
    code: str = "bound",
    maximise: bool = False,
    less: Tolerance = Tolerance.ROUNDING,
    absolute: float = 0.0,
) -> None:
    """Derive a bound again by its argument; one without a derivation here proves nothing.

    It is what is derived, or the value where rounding carries that past it.

    Args:
        stated: as the solution has it.
        derivations: of the arguments this kind accepts; they may raise InputError, InfeasibleError or ValueError where
            the certificate in the file proves nothing.
        value: of the objective.
        code: of the violations.
        maximise: whether it is an upper bound.
        less: part by which it may say less than what is derived; never more than rounding may it say more.
        absolute: what may be rounding besides.
    """
    derive = derivations.get(stated.argument)
    if derive is None:
        allowed = ", ".join(derivations) or "none"
        findings.add(code, f"{stated.argument} proves no bound here; what is derived again: {allowed}")
        return
    try:
        proven = derive()
    except (InputError, InfeasibleError, ValueError) as error:
        findings.add(code, f"{stated.argument} proves nothing here: {error}")
        return
    due = max(proven, value) if maximise else min(proven, value)
    more = beats(stated.value, due, Tolerance.ROUNDING, maximise=not maximise, absolute=absolute)
    if more or beats(due, stated.value, less, maximise=not maximise, absolute=absolute):
        findings.add(code, f"{stated.argument} proves {proven!r}, the solution states {stated.value!r}")


def check_claim(
    findings: ViolationLog,
    solution: SolutionHead,
    known: Collection[Argument],
    *,
    maximise: bool = False,
    rounding: Tolerance = Tolerance.ROUNDING,
    absolute: float = 0.0,
) -> None:
    """A claimed bound comes from somebody who makes such claims, and lies between the verified one and the value.

    Args:
        known: arguments of the kind that are only claimed.
        maximise: whether bounds are upper ones.
        rounding, absolute: by how much it may be past the value.
    """
    claimed = solution.claimed_bound
    if claimed is None:
        return
    if claimed.argument not in known:
        findings.add("claim", f"{claimed.argument} is no claim of this kind: {', '.join(known) or 'it makes none'}")
    value = solution.objective.value
    if beats(value, claimed.value, rounding, maximise=maximise, absolute=absolute):
        findings.add("claim", f"the objective {value!r} is better than the claimed bound {claimed.value!r}")
    looser = claimed.value >= solution.bound.value if maximise else claimed.value <= solution.bound.value
    if looser:
        findings.add("claim", f"{claimed.value!r} is claimed, where {solution.bound.value!r} is proven")
