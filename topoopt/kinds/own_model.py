"""Models that a user changes: a formulation in Pyomo with constraints or another objective, any solver, a checked plan.

The model is solved as arrays, whatever the solver: what it claims is held against every row and bound. What
was changed is found by comparing the arrays with those of the formulation as it is, and decides what bounds mean: with
rows added, plans are fewer, so that every bound on all plans still holds and the solver's own bound holds for these
plans alone; with rows taken out or another objective, the solver's bound says nothing of the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyomo.environ as pyo
from pyomo.repn import generate_standard_repn

from formulations.programs import Changes, LpArrays, changes_of
from formulations.table import FORMULATIONS, build_named
from solvers.backends.backend import SolverLimits
from solvers.backends.pyomo_backends import arrays_of, model_of
from solvers.backends.table import any_solver
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem
from topoopt.core.proofs import Status, StopReason
from topoopt.kinds import kind_of
from topoopt.kinds.kind import Effort, Method, ModelProof

MOST_NAMED = 6
"""Rows named in a note."""


@dataclass(frozen=True)
class ModelOrigin:
    """What a model was made of; the model has it as its attribute `topoopt`.

    Attributes:
        problem: instance.
        formulation: name in the table of formulations.
        given: the arrays of the model as it was made.
    """

    problem: Any
    formulation: str
    given: LpArrays


@dataclass(frozen=True, eq=False)
class ModelAnswer:
    """What a solver answered, recomputed from the arrays of the model.

    Attributes:
        status, stopped_by, message: of the solver; the status holds for the model as it was changed.
        objective: of the model, in its own sense, constants included; None without a point.
        bound: on it, as the solver says; None: nothing known.
        changes: what was changed.
    """

    status: Status
    stopped_by: StopReason
    message: str
    objective: float | None
    bound: float | None
    changes: Changes


def default_formulation(problem: Any) -> str:
    models = kind_of(problem).solver().models(problem)
    if not models:
        text = "no formulation of this kind gives a plan; topoopt.model takes the name of another one"
        fitting = ", ".join(name for name, line in FORMULATIONS.items() if problem.kind in line.kinds)
        raise InputError([Problem(text, path="formulation", value=problem.kind, allowed=fitting or "none")])
    return next(iter(models))


def build_model(problem: Any, formulation: str | None, options: Mapping[str, float]) -> Any:
    """The Pyomo model of an instance, with its origin; see `topoopt.model`."""
    name = default_formulation(problem) if formulation is None else formulation
    plans = kind_of(problem).solver().models(problem)
    model = plans[name][0](problem) if name in plans and not options else model_of(build_named(name, problem, options))
    model.topoopt = ModelOrigin(problem, name, arrays_of(model))
    return model


def origin_of(model: Any) -> ModelOrigin:
    """What a model was made of.

    Raises:
        InputError: it was not made by `topoopt.model`.
    """
    origin = getattr(model, "topoopt", None)
    if not isinstance(origin, ModelOrigin):
        allowed = "what topoopt.model returned, or a clone of it"
        raise InputError([Problem("not a model of an instance", path="model", allowed=allowed)])
    return origin


@dataclass
class OwnModel:
    """A model to be solved, and what came of it.

    Attributes:
        model: of Pyomo, with its origin.
        solver: name, see `any_solver`.
        changed_by: who changed the model, for people; empty: nobody.
        answer: None until it was solved.
    """

    model: Any
    solver: str
    changed_by: str = ""
    answer: ModelAnswer | None = field(default=None)

    def method(self) -> Method:
        """What the pipeline of all kinds runs."""
        return Method("model", "a formulation by a solver of one's choice", self._run)

    def solved(self, time_s: float | None, seed: int) -> ModelAnswer:
        """Solve, load the values into the model, and remember the answer.

        Raises:
            InputError: a model that is not linear, or has no objective; a solver that is not found.
        """
        origin = origin_of(self.model)
        backend = any_solver(self.solver)
        try:
            with _fixed_as_bounds(self.model):
                program = arrays_of(self.model)
        except Exception as error:  # Pyomo raises many kinds of errors for what is not linear
            text = f"the model cannot be solved: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
            raise InputError(
                [Problem(text, path="model", allowed="linear constraints and one linear objective")]
            ) from None
        result = backend(program, SolverLimits(time_s=time_s, seed=seed % 2**31))
        sign, constant = _objective_of(self.model)
        if result.x is not None:
            variables = {variable.name: variable for variable in self.model.component_data_objects(pyo.Var)}
            for j, value in enumerate(result.x.tolist()):
                variables[program.column_name(j)].set_value(value, skip_validation=True)
        self.answer = ModelAnswer(
            result.status,
            result.stopped_by,
            result.message,
            None if result.objective is None else sign * result.objective + constant,
            None if result.bound is None else sign * result.bound + constant,
            changes_of(origin.given, program),
        )
        return self.answer

    def _run(self, problem: Any, effort: Effort) -> Any:
        origin = origin_of(self.model)
        plans = kind_of(problem).solver().models(problem)
        if origin.formulation not in plans:
            text = "solutions of this formulation are no plans"
            allowed = ", ".join(plans) or "none for this kind"
            raise InputError([Problem(text, path="formulation", value=origin.formulation, allowed=allowed)])
        effort.tell(f"{origin.formulation} by {self.solver}")
        answer = self.solved(effort.stop.remaining_s(), effort.search.seed)
        if answer.status is Status.INFEASIBLE:
            own = " with the constraints added" if answer.changes.added else ""
            raise InfeasibleError(f"nothing satisfies the model{own}, says {self.solver}: {answer.message}")
        if answer.objective is None:
            if answer.stopped_by in (StopReason.TIME, StopReason.MEMORY, StopReason.INTERRUPTED):
                raise LimitError("the limit came before the solver found anything")
            raise InputError([Problem(f"{self.solver} found nothing: {answer.message}", path="model")])
        added, loosened, other_objective = answer.changes
        says = answer.bound is not None and not other_objective and not loosened
        proof = ModelProof(
            self.solver,
            answer.bound if says else None,
            bool(added),
            answer.stopped_by,
            notes_of(self, origin.formulation, answer),
        )
        _, plan_of = plans[origin.formulation]
        return plan_of(problem, self.model, effort, proof)


def notes_of(own: OwnModel, formulation: str, answer: ModelAnswer) -> tuple[str, ...]:
    """What has to be said beside a plan that a model gave."""
    added, loosened, other_objective = answer.changes
    words = [f"formulation {formulation}, solved by {own.solver}: {answer.status.value}"]
    by = f" by {own.changed_by}" if own.changed_by else ""
    if added:
        words.append(
            f"constraints added{by}: {_few(added)}; the checker does not know them, and bounds are over all "
            "plans of the instance, these constraints or not"
        )
    if loosened:
        words.append(
            f"constraints taken out or loosened{by}: {_few(loosened)}; the checker holds the plan against the "
            "instance all the same"
        )
    if other_objective:
        words.append(
            f"another objective{by}: {answer.objective:.6g}, bound {_number(answer.bound)} as the solver says; what is "
            "stated as the objective here is still that of the kind, which was not minimised"
        )
    return tuple(words)


def _few(names: tuple[str, ...]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.6g}"


def _objective_of(model: Any) -> tuple[float, float]:
    """(1 or -1: what the cost of the arrays is to be multiplied with, constant of the objective)."""
    objective = next(iter(model.component_data_objects(pyo.Objective, active=True)))
    constant = generate_standard_repn(objective.expr).constant
    return (1.0 if objective.sense == pyo.minimize else -1.0), float(constant)


@contextmanager
def _fixed_as_bounds(model: Any) -> Iterator[None]:
    """Variables that were fixed stay columns, with one value: what was changed can be told by their names then."""
    fixed = [(variable, variable.bounds) for variable in model.component_data_objects(pyo.Var) if variable.fixed]
    for variable, _ in fixed:
        variable.setlb(variable.value)
        variable.setub(variable.value)
        variable.unfix()
    try:
        yield
    finally:
        for variable, (low, high) in fixed:
            value = variable.value
            variable.setlb(low)
            variable.setub(high)
            variable.fix(value)
