"""Models of one's own: the Pyomo model of an instance to be changed, and the checked plan that it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topoopt.core.errors import InputError, Problem
from topoopt.kinds.kind import SolveOptions
from topoopt.library.instances import problem_of

if TYPE_CHECKING:
    from topoopt.kinds.own_model import ModelAnswer, OwnModel

HOOK = "change"
"""Name of the function that a file of constraints has."""


@dataclass(frozen=True, eq=False)
class SolvedModel:
    """A solved model.

    Attributes:
        solution: the plan it gives, checked as every solution; None where solutions of the formulation are no plans.
        answer: what the solver said of the model itself: status, objective, bound, and what was changed in it.
        model: with the values of the best point.
    """

    solution: Any
    answer: ModelAnswer
    model: Any


def model(problem: Any, formulation: str | None = None, **options: float) -> Any:
    """The Pyomo model of an instance, with the names of the algebra, to be read, changed and solved.

        model = topoopt.model(problem)                             # joint_topology, for a problem of kind topology
        model.no_link = pyomo.environ.Constraint(expr=model.x[0, 3] == 0)
        solved = topoopt.solve_model(model, solver="gurobi")
        solved.solution.objective, solved.solution.check.ok

    Rules that only break symmetry are left out, as constraints of yours could clash with them.

    Args:
        problem: of any kind that a formulation takes.
        formulation: name, as in `topoopt dump-model --list`; None: the one whose solutions are plans of this kind.
        options: of the formulation, as in that list; with any of them, or where there is no readable model, variables
            are `x[name]` and constraints `row[name]`, with the names of `topoopt dump-model`.

    Raises:
        InputError: no such formulation or option, or an instance that it does not take.
    """
    from topoopt.kinds.own_model import build_model

    return build_model(problem_of(problem), formulation, options)


def solve_model(
    model: Any, *, solver: str = "highs", seed: int | None = None, time_limit_s: float | None = None
) -> SolvedModel:
    """Solve a model that `topoopt.model` made, changed or not; the plan it gives is checked against the instance.

    What the solver claims is held against all rows of the model. Bounds of the solution are over all plans of the
    instance: they hold for yours, too, as constraints added leave fewer plans. What the solver proves of a model
    with constraints added is `claimed_bound`, of one with another objective only `answer.bound`.

    Args:
        model: linear, with whole numbers or without.
        solver: a name that `topoopt doctor` lists, or `pyomo:NAME`.
        seed, time_limit_s: None: as the instance says.

    Raises:
        InputError: not such a model, not a linear one, or a solver that is not found.
        InfeasibleError: nothing satisfies the model.
        LimitError: the limit came before anything was found.
    """
    from topoopt.kinds import kind_of
    from topoopt.kinds.own_model import OwnModel, origin_of
    from topoopt.kinds.pipeline import solve

    origin = origin_of(model)
    own = OwnModel(model, solver)
    problem = origin.problem
    if origin.formulation not in kind_of(problem).solver().models(problem):
        settings = problem.search.but(seed=seed, time_limit_s=time_limit_s)
        return SolvedModel(None, own.solved(settings.time_limit_s, settings.seed), model)
    solution = solve(problem, SolveOptions(seed, time_limit_s, chosen=own.method()))
    assert own.answer is not None
    return SolvedModel(solution, own.answer, model)


def hooked_model(problem: Any, formulation: str | None, solver: str, hook: Path | None) -> OwnModel:
    """The model of an instance, changed by the function `change(model, problem)` of a file, which is run.

    Raises:
        InputError: a file that cannot be read, has no such function, or fails (with its line).
    """
    from topoopt.files.untrusted import file_sha256
    from topoopt.kinds.own_model import OwnModel, build_model

    made = build_model(problem, formulation, {})
    if hook is None:
        return OwnModel(made, solver)
    change = _function_of(hook)
    try:
        change(made, problem)
    except Exception as error:
        raise InputError([_failed(hook, error)]) from error
    return OwnModel(made, solver, f"{hook.name} (sha256 {file_sha256(hook, MOST_BYTES)[:16]})")


MOST_BYTES = 10_000_000
"""Of a file of constraints."""


def _function_of(hook: Path) -> Callable[[Any, Any], object]:
    from topoopt.files.untrusted import read_text

    text = read_text(hook, MOST_BYTES)
    names: dict[str, Any] = {"__name__": "model_hook", "__file__": str(hook)}
    try:
        exec(compile(text, str(hook), "exec"), names)
    except Exception as error:
        raise InputError([_failed(hook, error)]) from error
    change = names.get(HOOK)
    if not callable(change):
        allowed = f"def {HOOK}(model, problem): ..."
        raise InputError([Problem("no such function", file=str(hook), path=HOOK, allowed=allowed)])
    function: Callable[[Any, Any], object] = change
    return function


def _failed(hook: Path, error: Exception) -> Problem:
    """Where a file of constraints failed."""
    lines = [error.lineno] if isinstance(error, SyntaxError) else []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(hook):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    words = str(error).splitlines()[0] if str(error) else ""
    return Problem(f"{type(error).__name__}: {words}", file=str(hook), line=lines[-1] if lines else None)
