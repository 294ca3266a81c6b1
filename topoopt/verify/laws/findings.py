"""What the checker reports, and how it reads arrays it does not trust."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.price_book import PriceBook
from topoopt.core.process import Left, end_if_left
from topoopt.core.proofs import Status, StopReason, Tolerance, meets
from topoopt.core.result import UNCHECKED, Decides, LeftOut, SolutionHead, deciding

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
        """Nothing is wrong."""
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
        """Report one violation."""
        count = self.counts[code] = self.counts.get(code, 0) + 1
        if count <= REPEATS_SHOWN:
            self.shown.append(Violation(code, message))

    def add_each(self, code: str, items: Iterable[int] | Ints, describe: Callable[[int], str]) -> None:
        """Report one violation per item; messages are only made for those that are shown."""
        listed = np.asarray(items, dtype=np.int64).ravel()
        room = max(REPEATS_SHOWN - self.counts.get(code, 0), 0)
        self.shown.extend(Violation(code, describe(int(item))) for item in listed[:room])
        if len(listed):
            self.counts[code] = self.counts.get(code, 0) + len(listed)

    def hold(self, code: str, *rows: tuple[str, object, object]) -> None:
        """Report what the solution states (name, stated, due) otherwise than the instance."""
        for name, stated, due in rows:
            if stated != due:
                self.add(code, f"the solution has {name} {plain(stated)!r}, the instance {plain(due)!r}")

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
        """All that was found."""
        return CheckFindings(self.violations(), tuple(self.left_out))

    @property
    def clean(self) -> bool:
        """Nothing reported so far."""
        return not self.counts

    def violations(self) -> tuple[Violation, ...]:
        """All of them in order of discovery, then one line per code that was cut short."""
        rest = [
            Violation(code, f"{count - REPEATS_SHOWN} more of this kind")
            for code, count in self.counts.items()
            if count > REPEATS_SHOWN
        ]
        return (*self.shown, *rest)


class CheckedProblem(Protocol):
    """What instances of all kinds have."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def sha256(self) -> str: ...


def check_identity(
    findings: ViolationLog, problem: CheckedProblem, solution: SolutionHead, *rows: tuple[str, object, object]
) -> None:
    """The solution is of this instance, repeats of it what it should, `rows` (name, stated, due), and calls itself one.

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
