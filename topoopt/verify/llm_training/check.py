"""The checker of language models in training: constraints of the plan, its value, and the bounds."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial

from topoopt.core.dag_topology import CircuitProof
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import (
    DIRECT_FABRICS,
    IDEAL_SWITCH,
    PHOTONIC_RAILS,
    POD_CIRCUITS,
    FabricPlan,
    LlmTrainingPlan,
    PodClaims,
    StrategyShape,
    pod_claims,
    pods_certificates,
    rail_bounds_s,
    rails_certificate,
    shape_outcomes,
    shapes_certificate,
)
from topoopt.core.llm_training_plan import shapes_of as shapes_of_certificates
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.proofs import Argument, Status, StopReason, Tolerance, beats, meets
from topoopt.core.result import Certificate, Decides, Result
from topoopt.verify.checker import (
    FULL,
    BeyondWorkError,
    CheckDepth,
    CheckFindings,
    ViolationLog,
    WorkBudget,
    check_bound,
    check_claim,
    check_identity,
    differs,
)
from topoopt.verify.llm_training.costs import DimensionRates, bytes_of, ideal_rates, layers_of
from topoopt.verify.llm_training.iteration import (
    check_shapes,
    fabric_bound,
    plan_seconds,
    take_followed,
    within_work,
)
from topoopt.verify.llm_training.layers import (
    records_of,
    row_in,
    row_of,
    shape_of,
    shapes_of,
    strategies_of,
)
from topoopt.verify.llm_training.networks import check_drawn_links, network_rates
from topoopt.verify.llm_training.pods import check_pods
from topoopt.verify.llm_training.rails import check_rail_bounds, check_rails, rails_bound

ARRAYS = frozenset(
    frozenset(certificate.arrays)
    for certificate in (
        shapes_certificate((), ()),
        rails_certificate(()),
        *pods_certificates(PodClaims((), (), None, 0, {0: CircuitProof((), 0, ())})),
    )
)
"""Names of the arrays of each certificate."""

RANK = 10.0
"""Events of each GPU whose groups are enumerated."""


def check_llm_training(
    problem: LlmTrainingProblem, result: Result[LlmTrainingProblem, LlmTrainingPlan], depth: CheckDepth = FULL
) -> CheckFindings:
    """Return all constraints that the plan breaks, all figures that are wrong, and bounds that are not proven.

    Never raises, whatever the result holds; the instance is taken as valid.
    """
    check = _Check(problem, result, WorkBudget(depth.events))
    check.run()
    return check.findings.findings()


@dataclass
class _Check:
    """Parts of a check, each within the work that those before it left."""

    problem: LlmTrainingProblem
    result: Result[LlmTrainingProblem, LlmTrainingPlan]
    budget: WorkBudget
    findings: ViolationLog = field(default_factory=ViolationLog)
    ranked_s: list[float] = field(default_factory=list)
    took_s: dict[str, float] = field(default_factory=dict)

    @property
    def plan(self) -> LlmTrainingPlan:
        return self.result.plan

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        return self.result.certificates

    @property
    def claimed(self) -> dict[str, float]:
        bounds = [self.result.bound.value, *shapes_of_certificates(self.certificates)["fabric_bounds_s"].tolist()]
        return dict(zip((plan.fabric for plan in self.plan.fabrics), bounds, strict=True))

    def run(self) -> None:
        """Run all parts; what is too large for the instance is refused before anything is gone through."""
        findings = self.findings
        findings.guard("identity", "the identity", self._identity)
        self._part("size", "sizes", self._sizes)
        if findings.clean:
            self._part("strategy", "strategies", self._strategies, Decides.VALUE, Decides.BOUND)
        if not findings.clean:
            return
        self._part("order", "strategies ranked", self._ranked, Decides.BOUND)
        for number, plan in enumerate(self.plan.fabrics):
            name = f"the plan on {plan.fabric}" if number else "the plan"
            self._part("fabrics", name, partial(self._fabric, plan), *(() if number else (Decides.VALUE,)))
        self._part("objective", "the objective", self._objective)
        fastest: list[tuple[float, float]] = []
        self._part("certificate", "shapes", lambda: fastest.append(self._shapes()), Decides.BOUND)
        self._part("certificate", "rails", self._rails, Decides.BOUND)
        self._part("certificate", "bounds", lambda: self._claims(fastest[0] if fastest else None))

    def _part(self, code: str, figure: str, check: Callable[[], None], *decides: Decides) -> None:
        within_work(self.findings, figure, lambda: self.findings.guard(code, figure, check), *decides)

    def _identity(self) -> None:
        check_identity(self.findings, self.problem, self.result)
        objective = self.result.objective
        if (objective.name, objective.unit) != ("iteration_time", "s"):
            self.findings.add("objective", f"{objective.name} in {objective.unit} in place of iteration_time in s")

    def _sizes(self) -> None:
        problem, plan, add = self.problem, self.plan, self.findings.add
        shape_outcomes(self.certificates)  # raises where its arrays do not fit together, however little is recomputed
        names = tuple(row.fabric for row in plan.fabrics)
        ended = self.result.stopped_by is not StopReason.CONVERGED
        if names != problem.fabrics[: len(names)] or (names != problem.fabrics and not ended):
            add("fabrics", f"the fabrics are {', '.join(names)}, not {', '.join(problem.fabrics)}")
        limit = 1 + max(problem.top, len(rail_bounds_s(self.certificates)) if PHOTONIC_RAILS in names else 0)
        if len(plan.ranked) > limit:
            add("order", f"{len(plan.ranked)} strategies are ranked, at most {limit} may be")
        if len(shapes_of_certificates(self.certificates)["fabric_bounds_s"]) != len(names) - 1:
            add("bound", f"not a bound for each of {len(names) - 1} fabrics after the first")
        proofs = 1 + len(pod_claims(self.certificates).proofs) if POD_CIRCUITS in names else 0
        expected = Counter({Argument.ALL_SHAPES: 1 + (PHOTONIC_RAILS in names), Argument.POD_CIRCUITS: proofs})
        if Counter(certificate.argument for certificate in self.certificates) != +expected:
            add("certificate", "certificates of other arguments, or some that are not read")
        if any(frozenset(certificate.arrays) not in ARRAYS for certificate in self.certificates):
            add("certificate", "a certificate with arrays that are not read")
        for row in plan.fabrics:
            self._form(row)

    def _form(self, plan: FabricPlan) -> None:
        fabric, network, add = plan.fabric, plan.network, self.findings.add
        if len(plan.next) > self.problem.top:
            add("fabrics", f"{len(plan.next)} more strategies on {fabric} than may be listed")
        if (fabric == PHOTONIC_RAILS) != bool(plan.ports):
            add("rails", f"ports of rails and {fabric}")
        if (fabric == POD_CIRCUITS) != (plan.pods is not None):
            add("pods", f"circuits between pods and {fabric}")
        if fabric in (IDEAL_SWITCH, PHOTONIC_RAILS, POD_CIRCUITS):
            if plan.next or any(getattr(network, part.name) for part in fields(network) if part.name != "fabric"):
                add("network", f"{fabric} has no links of its own")
            if fabric == IDEAL_SWITCH and plan.strategy != self.plan.ranked[0]:
                add("plan", "the plan on an ideal switch is not the first of the strategies ranked")

    def _strategies(self) -> None:
        """Check that each strategy is of the space, fits into memory, and is listed once."""
        usable, lists = self.problem.usable_bytes, {"ranked": list(self.plan.ranked)}
        for number, plan in enumerate(self.plan.fabrics):
            lists[f"fabrics[{number}]"] = [plan.strategy, *plan.next]
            if plan.pods is not None:
                lists[f"fabrics[{number}].pods"] = [candidate.strategy for candidate in plan.pods.candidates]
        shapes, rows = set(shapes_of(self.problem)), dict[StrategyShape, set[tuple[float, ...]]]()
        for where, strategies in lists.items():
            seen = set[ParallelStrategy]()
            for number, strategy in enumerate(strategies):
                wrong = "is listed twice" if strategy in seen else strategy_error(self.problem, strategy)
                seen.add(strategy)
                shape = shape_of(strategy)
                if not wrong and shape in shapes and shape not in rows:
                    table = strategies_of(self.problem, shape)
                    self.budget.take(len(table))
                    rows[shape] = set(map(tuple, table.tolist()))
                if not wrong and row_in(self.problem, strategy) not in rows.get(shape, ()):
                    wrong = "is none of the space"
                if wrong:
                    self.findings.add("strategy", f"{where}: strategy {number} {wrong}")
                elif usable is not None and (held := sum(bytes_of(self.problem, strategy).values())) > usable:
                    self.findings.add("memory", f"{where}: strategy {number} takes {held!r} bytes of {usable}")

    def _ranked(self) -> None:
        take_followed(self.budget, self.problem, self.plan.ranked)
        times = [plan_seconds(self.problem, strategy) for strategy in self.plan.ranked]
        if any(beats(later, earlier, Tolerance.ROUNDING) for earlier, later in itertools.pairwise(times)):
            self.findings.add("order", "strategies are not in the order of their times")
        self.ranked_s = times

    def _fabric(self, plan: FabricPlan) -> None:
        findings, problem, budget = self.findings, self.problem, self.budget
        took: float | None = None
        if plan.fabric == PHOTONIC_RAILS:
            took = check_rails(findings, problem, plan, budget)
        elif plan.fabric == POD_CIRCUITS:
            took = check_pods(findings, problem, plan, self.plan.ranked[0], pod_claims(self.certificates), budget)
        else:
            take_followed(budget, problem, [plan.strategy])
            budget.take(RANK * problem.cluster.gpus)
            rates = self._rates(plan)
            if rates is not None:
                took = plan_seconds(problem, plan.strategy, lambda _: rates)
        if took is not None:
            self.took_s[plan.fabric] = took

    def _rates(self, plan: FabricPlan) -> DimensionRates | None:
        if plan.fabric == IDEAL_SWITCH:
            return ideal_rates(self.problem, records_of([row_of(plan.strategy)]))
        check_drawn_links(self.findings, self.problem, plan.network, self.result.seed)
        sound = network_rates(self.findings, self.problem, plan, self.budget)
        return None if sound is None else sound[-1]

    def _objective(self) -> None:
        took, value = self.took_s.get(self.plan.fabrics[0].fabric), self.result.objective.value
        rounding = Tolerance.LONG_SUMS.relative if self.plan.fabrics[0].ports else Tolerance.ROUNDING.relative
        if took is not None and differs(value, took, rounding):
            self.findings.add("objective", f"the iteration takes {took!r} s, not {value!r}")

    def _timed(self) -> list[tuple[ParallelStrategy, float]]:
        if not self.ranked_s:
            raise BeyondWorkError("strategies ranked were not followed")
        return list(zip(self.plan.ranked, self.ranked_s, strict=True))

    def _value(self, fabric: str) -> float | None:
        return self.result.objective.value if fabric == self.plan.fabrics[0].fabric else self.took_s.get(fabric)

    def _shapes(self) -> tuple[float, float]:
        ranked, outcomes = self._timed(), shape_outcomes(self.certificates)
        direct = [self._value(plan.fabric) for plan in self.plan.fabrics if plan.fabric in DIRECT_FABRICS]
        if None in direct:
            raise BeyondWorkError("a plan on direct links was not followed")
        slowest = max((value for value in direct if value is not None), default=0.0)
        resting = set(self.claimed) - {POD_CIRCUITS, *DIRECT_FABRICS}
        claimed = max((self.claimed[fabric] for fabric in resting), default=0.0)
        converged = self.result.stopped_by is StopReason.CONVERGED
        return check_shapes(
            self.findings, self.problem, outcomes, ranked, slowest, claimed, self.budget, converged=converged
        )

    def _rails(self) -> None:
        value = self._value(PHOTONIC_RAILS)
        if value is not None and any(plan.fabric == PHOTONIC_RAILS for plan in self.plan.fabrics):
            bounds_s = rail_bounds_s(self.certificates)
            check_rail_bounds(self.findings, self.problem, self._timed(), bounds_s, value, self.budget)

    def _proven(self, fabric: str, fastest: tuple[float, float]) -> float | None:
        value, claimed = self._value(fabric), self.claimed[fabric]
        if value is None:
            return None
        shapes = shape_outcomes(self.certificates)
        if fabric == PHOTONIC_RAILS:
            return rails_bound(value, rail_bounds_s(self.certificates), self.ranked_s, shapes, claimed, fastest[1])
        if fabric == POD_CIRCUITS:
            return pod_claims(self.certificates).bound_s(value)
        return fabric_bound(shapes, fabric, claimed, value, (self.ranked_s[0], self.ranked_s[-1]), fastest)

    def _claims(self, fastest: tuple[float, float] | None) -> None:
        """Check bounds and status.

        Args:
            fastest: of the strategies on direct links and of what the search left; None: that was left out, and so are
                bounds that rest on it.
        """
        findings, result, first = self.findings, self.result, self.plan.fabrics[0]
        value, bound = result.objective.value, result.bound
        argument, rounding = Argument.ALL_SHAPES, Tolerance.ROUNDING
        if first.pods is not None:
            argument, rounding = Argument.POD_CIRCUITS, Tolerance.EVENTS
        if fastest is not None:
            reached = fastest
            check_bound(findings, bound, {argument: lambda: self._proven(first.fabric, reached) or 0.0}, value)
        elif bound.argument is not argument:
            findings.add("bound", f"{bound.argument} proves no bound; what is derived again: {argument}")
        check_claim(findings, result, ())
        if beats(value, bound.value, rounding):
            findings.add("bound", f"{value!r} s is better than its bound {bound.value!r}")
        self._status(optimal=meets(value, bound.value, rounding))
        for plan in self.plan.fabrics[1:]:
            figure = self.claimed[plan.fabric]
            proven = None if fastest is None else self._proven(plan.fabric, fastest)
            if proven is not None and differs(figure, proven):
                findings.add("bound", f"the bound on {plan.fabric} is {proven!r}, not {figure!r}")

    def _status(self, *, optimal: bool) -> None:
        findings, result = self.findings, self.result
        claimed = not result.bound.verified or bool(result.check.claimed)
        left_out = any(figure.decides is not Decides.NOTHING for figure in findings.left_out)
        called = result.status is Status.OPTIMAL
        if (called and (claimed or not optimal)) or (not called and optimal and not (claimed or left_out)):
            text = f"{result.objective.value!r} and bound {result.bound.value!r}"
            findings.add("status", f"called {result.status} with {text}")


def strategy_error(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> str:
    """Return what is wrong with the layers of chunks; empty: they are those of the row of the strategy."""
    p, v, layers = strategy.pipeline, strategy.chunks, list(strategy.stage_layers)
    if len(layers) != p * v or sum(layers) != problem.model.layers:
        return "does not have all layers on all chunks"
    if layers != layers_of(problem, records_of([row_in(problem, strategy)]), p, v)[:, 0].tolist():
        return f"has layers {' '.join(map(str, layers))}, not those of the rule"
    return ""
