"""The checker of every kind says what it finds: identity, constraints, objective, bound and status of a result."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.price_book import PriceBook
from topoopt.core.process import Left, end_if_left
from topoopt.core.proofs import Argument, Bound, Status, StopReason, Tolerance, beats, meets
from topoopt.core.result import UNCHECKED, Certificate, Decides, LeftOut, Result, SolutionHead, deciding, maximised

REPEATS_SHOWN = 20
"""Violations of one code listed one by one; the rest are counted."""


@dataclass(frozen=True)
class Violation:
    """One law a plan or a solution breaks: a short fixed code, and a sentence naming what breaks it."""

    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


@dataclass(frozen=True)
class CheckFindings:
    """What a check of a solution found.

    Attributes:
        violations: all that is wrong; empty: what was recomputed holds.
        not_recomputed: figures that were not recomputed, each with the reason.
    """

    violations: tuple[Violation, ...]
    not_recomputed: tuple[LeftOut, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong with what was recomputed."""
        return not self.violations

    @property
    def claimed(self) -> tuple[LeftOut, ...]:
        """What the value or the bound rests on and was not recomputed."""
        return deciding(self.not_recomputed)

    @property
    def holds(self) -> bool:
        """Nothing is wrong, and all that the value and the bound rest on was recomputed."""
        return self.ok and not self.claimed


@dataclass(frozen=True)
class CheckDepth:
    """How far a check goes.

    Attributes:
        events: of all simulations together; one that takes more is left out, and said to be. 0: a quick check.
        book: prices of networks; None: those shipped.
        tell: told (what is being done, steps done, of how many) of a check that takes long; None: nobody listens.
        memory_bytes: that a simulation may take, by estimate; one that takes more is left out as well.
    """

    events: int = 200_000_000
    book: PriceBook | None = None
    tell: Callable[[str, int, int | None], None] | None = None
    memory_bytes: int = 2_000_000_000


FULL = CheckDepth()
"""Everything is recomputed that can be within minutes: a plan of 128 servers takes 1 to 11 million events."""

BRIEF = CheckDepth(events=1_000_000)
"""About two seconds at most: for what is checked on the way to something else."""


class BeyondWorkError(Exception):
    """A part of a check takes more events than there are left."""


@dataclass
class WorkBudget:
    """Events that a check may still spend, estimated from sizes before anything is done."""

    left: float = FULL.events

    def take(self, work: float) -> None:
        """Spend what is about to be done.

        Raises:
            BeyondWorkError: it is more than is left.
        """
        if not work <= self.left:
            raise BeyondWorkError(f"{work:.3g} events are more than the {self.left:.3g} that this check has left")
        self.left -= work


def plain(value: object) -> object:
    """A value as it stands in a file."""
    return value.value if isinstance(value, Enum) else value


@dataclass
class ViolationLog:
    """Collects violations while a check runs; at most `REPEATS_SHOWN` of a code are kept, all are counted."""

    shown: list[Violation] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    ended: str | None = None

    def add(self, code: str, message: str) -> None:
        """Report a violation; beyond `REPEATS_SHOWN` of a code it is only counted."""
        count = self.counts[code] = self.counts.get(code, 0) + 1
        if count <= REPEATS_SHOWN:
            self.shown.append(Violation(code, message))

    def add_each(self, code: str, items: Iterable[int] | Ints, describe: Callable[[int], str]) -> None:
        """Report one violation per item; messages are only made for those that are shown."""
        listed = np.asarray(items, dtype=np.int64).ravel()
        remaining = max(REPEATS_SHOWN - self.counts.get(code, 0), 0)
        self.shown.extend(Violation(code, describe(int(item))) for item in listed[:remaining])
        if len(listed):
            self.counts[code] = self.counts.get(code, 0) + len(listed)

    def hold(self, code: str, *rows: tuple[str, object, object]) -> None:
        """Report rows (name, value in the solution, value of the instance) whose values differ."""
        for name, value, expected in rows:
            if value != expected:
                self.add(code, f"the solution has {name} {plain(value)!r}, the instance {plain(expected)!r}")

    def guard(self, code: str, what: str, check: Callable[[], None], decides: Decides = Decides.BOTH) -> None:
        """Run a check of data of any shape: what it cannot even read is a violation, never a crash.

        Once time or memory has run out, this part and all that follow are left out. `decides` says what rests on it.
        """
        if self.ended is None:
            try:
                end_if_left()
                with np.errstate(all="ignore"):
                    check()
                return
            except Left:
                self.ended = "the time limit of the check came"
            except MemoryError:
                self.ended = "it takes more memory than the check may"
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                self.add(code, f"{what} cannot be read: {type(error).__name__}: {error}")
                return
        self.leave_out(what, self.ended, decides)

    def leave_out(self, figure: str, reason: str, decides: Decides = Decides.NOTHING) -> None:
        """Say that a figure is not recomputed, and whether the value or the bound rests on it."""
        self.left_out.append(LeftOut(figure, reason, decides))

    def findings(self) -> CheckFindings:
        """Return the violations, and the figures that were not recomputed."""
        return CheckFindings(self.violations(), tuple(self.left_out))

    @property
    def clean(self) -> bool:
        """Whether no violation has been reported so far."""
        return not self.counts

    def violations(self) -> tuple[Violation, ...]:
        """All of them in order of discovery, then one line per code that was cut short."""
        rest = [
            Violation(code, f"{count - REPEATS_SHOWN} more of this kind")
            for code, count in self.counts.items()
            if count > REPEATS_SHOWN
        ]
        return (*self.shown, *rest)


def check_identity(
    findings: ViolationLog, problem: Any, solution: SolutionHead, *rows: tuple[str, object, object]
) -> None:
    """The solution is of this instance, repeats of it what it should (`rows`, as of `ViolationLog.hold`), and is valid.

    A solution that is not checked yet says so; whatever else is no passed check is rejected.
    """
    if solution.status not in (Status.OPTIMAL, Status.FEASIBLE):
        findings.add("status", f"a solution whose status is {solution.status}")
    if solution.stopped_by is StopReason.ERROR:
        findings.add("status", "a solution after an error")
    own = solution.check
    if own != UNCHECKED and (not own.ok or own.violations):
        findings.add("own-check", "the solution says that its own check failed")
    findings.hold("identity", ("kind", solution.kind, problem.kind), ("name", solution.name, problem.name), *rows)
    findings.hold("instance-sha256", ("instance_sha256", solution.instance_sha256, problem.sha256))


def check_status(
    findings: ViolationLog,
    solution: SolutionHead,
    tolerance: Tolerance,
    *,
    maximise: bool = False,
    absolute: float = 0.0,
    conclusive: bool = True,
) -> None:
    """A solution is called optimal where its value is as good as its bound, and only there.

    Where it says itself that its value or bound is only claimed, the weaker word passes.

    Args:
        tolerance, maximise, absolute: by which the kind settles what a value and a bound amount to.
        conclusive: whether a value at its bound says that all is optimal; else the weaker word passes.
    """
    value, bound = as_float(solution.objective.value), as_float(solution.bound.value)
    met = meets(value, bound, tolerance, maximise=maximise, absolute=absolute)
    if (solution.status is Status.OPTIMAL) == met:
        return
    if not met or (conclusive and solution.bound.verified and not solution.check.claimed):
        text = f"{solution.objective.name} {value!r} and a bound of {bound!r}"
        findings.add("status", f"called {solution.status} with {text}")


def as_int(value: object) -> int | None:
    """The integer a value is, or None (floats and booleans are not integers)."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def as_float(value: object) -> float:
    """The number a value is, or NaN."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        return float(value)
    return float("nan")


def int_array(value: object, dimensions: int) -> Ints | None:
    """An int64 array of that many dimensions, or None if the value is not one of integers."""
    array = np.asarray(value)
    if array.ndim != dimensions or (array.size and array.dtype.kind not in "iu"):
        return None
    return array.astype(np.int64)


def float_array(value: object, dimensions: int) -> Floats | None:
    """A float64 array of that many dimensions, or None if the value is not one of numbers."""
    array = np.asarray(value)
    if array.ndim != dimensions or (array.size and array.dtype.kind not in "iuf"):
        return None
    return array.astype(np.float64)


def differs(
    value: float, expected: float, relative: float = Tolerance.ROUNDING.relative, absolute: float = 0.0
) -> bool:
    """Whether two figures disagree; anything not finite disagrees."""
    return not abs(value - expected) <= relative * max(abs(value), abs(expected)) + absolute


ROUNDING_UNIT = 2.0**-53
"""Relative error of one operation on doubles."""

ROUNDING_MARGIN = 1e-10
"""Part of a bound for its rounding where it is a sum of fewer than 10^5 terms of the order of the bound at most: their
errors stay below 10^5 * 2^-53 of it."""


def error_of_sum(terms: int, size: float) -> float:
    """How far a sum may be from its exact value (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).

    Args:
        terms: of the sum; products and quotients in a term count as one more each.
        size: sum of the absolute values of the terms.
    """
    return terms * ROUNDING_UNIT / (1.0 - terms * ROUNDING_UNIT) * size


Derivations = Mapping[Argument, Callable[[], float]]
"""What each argument that a kind accepts proves, in the unit of the objective."""


def check_bound(
    findings: ViolationLog,
    bound: Bound,
    derivations: Derivations,
    value: float,
    *,
    maximise: bool = False,
    less: Tolerance = Tolerance.ROUNDING,
    absolute: float = 0.0,
) -> None:
    """Derive a bound again by its argument; one without a derivation here proves nothing.

    It is what is derived, or the value where rounding carries that past it.

    Args:
        bound: as the solution has it.
        derivations: of the arguments this kind accepts; they may raise InputError, InfeasibleError or ValueError where
            the certificate in the file proves nothing.
        value: of the objective.
        maximise: whether it is an upper bound.
        less: part by which it may say less than what is derived; never more than rounding may it say more.
        absolute: what may be rounding besides.
    """
    derive = derivations.get(bound.argument)
    if derive is None:
        allowed = ", ".join(derivations) or "none"
        findings.add("bound", f"{bound.argument} proves no bound here; what is derived again: {allowed}")
        return
    try:
        proven = derive()
    except (InputError, InfeasibleError, ValueError) as error:
        findings.add("bound", f"{bound.argument} proves nothing here: {error}")
        return
    expected = max(proven, value) if maximise else min(proven, value)
    more = beats(bound.value, expected, Tolerance.ROUNDING, maximise=not maximise, absolute=absolute)
    if more or beats(expected, bound.value, less, maximise=not maximise, absolute=absolute):
        findings.add("bound", f"{bound.argument} proves {proven!r}, the solution states {bound.value!r}")


def check_claim(
    findings: ViolationLog,
    solution: SolutionHead,
    claims: Collection[Argument],
    *,
    maximise: bool = False,
    rounding: Tolerance = Tolerance.ROUNDING,
    absolute: float = 0.0,
) -> None:
    """A claimed bound comes from somebody who makes such claims, and lies between the verified one and the value.

    Args:
        claims: arguments of the kind that are only claimed.
        maximise: whether bounds are upper ones.
        rounding, absolute: by how much it may be past the value.
    """
    claimed = solution.claimed_bound
    if claimed is None:
        return
    if claimed.argument not in claims:
        findings.add("claim", f"{claimed.argument} is no claim of this kind: {', '.join(claims) or 'it makes none'}")
    value = solution.objective.value
    if beats(value, claimed.value, rounding, maximise=maximise, absolute=absolute):
        findings.add("claim", f"the objective {value!r} is better than the claimed bound {claimed.value!r}")
    looser = claimed.value >= solution.bound.value if maximise else claimed.value <= solution.bound.value
    if looser:
        findings.add("claim", f"{claimed.value!r} is claimed, where {solution.bound.value!r} is proven")


Constraint = tuple[str, Callable[[Any, Any], Iterable[str]]]
"""Code of the violations, and (problem, plan) -> a message for each violation."""

Derivation = Callable[[Any, Sequence[Certificate]], float]
"""(problem, certificates) -> the bound that an argument proves. Raises ValueError where the arrays prove nothing."""


@dataclass(frozen=True, kw_only=True)
class Checker:
    """What is particular about a kind.

    Attributes:
        objective: problem -> name and unit of the objective.
        constraints: what a plan must keep, in this order; after a violated constraint no later one is evaluated, since
            it may rely on the earlier ones.
        value: (problem, plan) -> objective of a plan that keeps the constraints.
        arguments: problem -> the arguments that count for it, each with its derivation.
        scale: problem -> size of the figures whose rounding the objective inherits; 0 for none.
        claims: arguments that a result may claim without proof.
        exhaustive: arguments that take long to derive and need a certificate; assembly takes their bounds of the
            method.
        work: (problem, result) -> events that the derivation of the bound takes; beyond the depth it is left out.
        of_results: constraints of (problem, result), for what a plan says that is held against the certificates.
        unchecked: (problem, plan) -> (part of the plan, why nothing recomputes it).
        further: (problem, result) -> why a plan whose objective meets the bound is not optimal, for kinds with more
            than one objective; None for kinds with one.
        evidence: (log, problem, result) -> None; reports what is wrong with certificates and statements beside the
            bound of the objective, and which of them cannot be recomputed.
        less: by how much a bound may state less than its argument derives.
        tolerance, optimal: of recomputed figures, and of an objective that meets its bound.
        claim_tolerance: by how much a claimed bound may be past the objective.
    """

    objective: Callable[[Any], tuple[str, str]]
    constraints: Sequence[Constraint]
    value: Callable[[Any, Any], float]
    arguments: Callable[[Any], Mapping[Argument, Derivation]]
    scale: Callable[[Any], float] = lambda _: 0.0
    claims: Collection[Argument] = ()
    exhaustive: Collection[Argument] = ()
    work: Callable[[Any, Any], int] = lambda *_: 0
    of_results: Sequence[Constraint] = ()
    unchecked: Callable[[Any, Any], Iterable[tuple[str, str]]] = lambda *_: ()
    further: Callable[[Any, Any], Iterable[str]] | None = None
    evidence: Callable[[ViolationLog, Any, Any], None] | None = None
    less: Callable[[Argument], Tolerance] = lambda _: Tolerance.ROUNDING
    tolerance: Tolerance = Tolerance.ROUNDING
    optimal: Tolerance = Tolerance.LINEAR_PROGRAM
    claim_tolerance: Tolerance = Tolerance.ROUNDING

    def __call__(self, problem: Any, result: Result[Any, Any], depth: CheckDepth) -> CheckFindings:
        """Check a result of any content; never raises.

        Args:
            problem: taken as valid.
            result: not trusted; its stored verdict is not read.
            depth: how much may be recomputed.

        Returns:
            All violations, and the figures that were not recomputed.
        """
        log = ViolationLog()
        log.guard("identity", "the head", lambda: self._identity(log, problem, result))
        for code, constraint in self.constraints:
            log.guard(code, f"the plan ({code})", lambda: self._constraint(log, code, constraint(problem, result.plan)))  # noqa: B023
            if code in log.counts:
                return log.findings()
        for code, constraint in self.of_results:
            log.guard(code, f"the result ({code})", lambda: self._constraint(log, code, constraint(problem, result)))  # noqa: B023
        log.guard("plan", "the plan", lambda: self._leave_out(log, problem, result))
        log.guard("objective", "the objective", lambda: self._objective(log, problem, result))
        log.guard("bound", "the bound", lambda: self._bound(log, problem, result, depth), Decides.BOUND)
        log.guard("status", "the status", lambda: self._status(log, problem, result))
        evidence = self.evidence
        if evidence is not None:
            log.guard("evidence", "the evidence", lambda: evidence(log, problem, result), Decides.NOTHING)
        return log.findings()

    def bound(self, problem: Any, argument: Argument, certificates: Sequence[Certificate]) -> float:
        """Return what an argument proves; assembly states this number, so that solver and checker agree."""
        return self.arguments(problem)[argument](problem, certificates)

    def maximise(self, problem: Any) -> bool:
        """Return whether more is better, so that the bound is an upper one."""
        return maximised(self.objective(problem)[0])

    def rounding(self, problem: Any) -> float:
        """Return the absolute error, in the unit of the objective, that rounding explains."""
        return self.tolerance.of(self.scale(problem))

    def _identity(self, log: ViolationLog, problem: Any, result: Result[Any, Any]) -> None:
        check_identity(log, problem, result)
        name, unit = self.objective(problem)
        log.hold("objective", ("the objective", result.objective.name, name), ("unit", result.objective.unit, unit))

    @staticmethod
    def _constraint(log: ViolationLog, code: str, messages: Iterable[str]) -> None:
        for message in messages:
            log.add(code, message)

    def _leave_out(self, log: ViolationLog, problem: Any, result: Result[Any, Any]) -> None:
        for name, reason in self.unchecked(problem, result.plan):
            log.leave_out(name, reason)

    def _objective(self, log: ViolationLog, problem: Any, result: Result[Any, Any]) -> None:
        expected = self.value(problem, result.plan)
        if differs(result.objective.value, expected, self.tolerance.relative, self.rounding(problem)):
            log.add("objective", f"the solution states {result.objective.value!r}, its plan has {expected!r}")

    def _bound(self, log: ViolationLog, problem: Any, result: Result[Any, Any], depth: CheckDepth) -> None:
        value, maximise, noise = result.objective.value, self.maximise(problem), self.rounding(problem)
        check_claim(log, result, self.claims, maximise=maximise, rounding=self.claim_tolerance, absolute=noise)
        if beats(value, result.bound.value, self.tolerance, maximise=maximise, absolute=noise):
            log.add("bound", f"the objective {value!r} is better than its bound {result.bound.value!r}")
        work = self.work(problem, result)
        if work > depth.events:
            log.leave_out("bound", f"{work} events are more than this check looks at", Decides.BOUND)
            return
        derivations = {
            argument: lambda derive=derive: derive(problem, result.certificates)
            for argument, derive in self.arguments(problem).items()
        }
        less = self.less(result.bound.argument)
        check_bound(log, result.bound, derivations, value, maximise=maximise, less=less, absolute=noise)

    def _status(self, log: ViolationLog, problem: Any, result: Result[Any, Any]) -> None:
        # Of several objectives in order, a plan that was cut short may have reached the bound of the first alone.
        conclusive = self.further is None or result.stopped_by is StopReason.CONVERGED
        maximise, noise = self.maximise(problem), self.rounding(problem)
        check_status(log, result, self.optimal, maximise=maximise, absolute=noise, conclusive=conclusive)
        if result.status is Status.OPTIMAL and self.further is not None:
            self._constraint(log, "optimality", self.further(problem, result))
