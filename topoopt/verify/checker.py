"""The checker of every kind: identity, constraints, objective, bound and status of a result.

A kind says in a `Checker` what is particular about it. What the heads of all results must keep is written here, once.
The checker imports `core` and numpy alone, and shares no code with solvers, simulators and figures.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from topoopt.core.proofs import Argument, Status, StopReason, Tolerance, beats
from topoopt.core.result import Certificate, Decides, Result, maximised
from topoopt.verify.laws.bounds import check_claim, check_stated
from topoopt.verify.laws.findings import CheckDepth, CheckFindings, ViolationLog, check_identity, check_status, differs

Constraint = tuple[str, Callable[[Any, Any], Iterable[str]]]
"""Code of the violations, and (problem, plan) -> a message for each violation."""

Derivation = Callable[[Any, Sequence[Certificate]], float]
"""(problem, certificates) -> the bound that an argument proves. Raises ValueError where the arrays prove nothing."""


@dataclass(frozen=True, kw_only=True)
class Checker:
    """What is particular about a kind.

    Attributes
    ----------
    objective : problem -> name and unit of the objective.
    constraints : what a plan must keep, in this order; after a violated constraint no later one is evaluated, since it
        may rely on the earlier ones.
    value : (problem, plan) -> objective of a plan that keeps the constraints.
    arguments : problem -> the arguments that count for it, each with its derivation.
    scale : problem -> size of the figures whose rounding the objective inherits; 0 for none.
    claims : arguments that a result may claim without proof.
    exhaustive : arguments that take long to derive and need a certificate; assembly takes their bounds of the method.
    work : (problem, result) -> events that the derivation of the bound takes; beyond the depth it is left out.
    of_results : constraints of (problem, result), for what a plan says that is held against the certificates.
    unchecked : (problem, plan) -> (part of the plan, why nothing recomputes it).
    further : (problem, result) -> why a plan whose objective meets the bound is not optimal, for kinds with more than
        one objective; None for kinds with one.
    evidence : (log, problem, result) -> None; reports what is wrong with certificates and statements beside the bound
        of the objective, and which of them cannot be recomputed.
    less : by how much a bound may state less than its argument derives.
    tolerance, optimal : of recomputed figures, and of an objective that meets its bound.
    claim_tolerance : by how much a claimed bound may be past the objective.
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

        Parameters
        ----------
        problem : taken as valid.
        result : not trusted; its stored verdict is not read.
        depth : how much may be recomputed.

        Returns
        -------
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
        check_stated(log, result.bound, derivations, value, maximise=maximise, less=less, absolute=noise)

    def _status(self, log: ViolationLog, problem: Any, result: Result[Any, Any]) -> None:
        # Of several objectives in order, a plan that was cut short may have reached the bound of the first alone.
        conclusive = self.further is None or result.stopped_by is StopReason.CONVERGED
        maximise, noise = self.maximise(problem), self.rounding(problem)
        check_status(log, result, self.optimal, maximise=maximise, absolute=noise, conclusive=conclusive)
        if result.status is Status.OPTIMAL and self.further is not None:
            self._constraint(log, "optimality", self.further(problem, result))
