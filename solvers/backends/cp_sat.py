"""CP-SAT of OR-Tools solves pure integer programs, whose rows are scaled exactly to whole numbers."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import lcm
from typing import Any

import numpy as np
from ortools.sat import sat_parameters_pb2
from ortools.sat.python import cp_model

from formulations.programs import LpArrays
from solvers.backends.backend import Claim, OnIncumbent, Options, SolverTask, bad_option
from solvers.backends.highs import run_highs
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import Problem, raise_any
from topoopt.core.proofs import Status, StopReason

MOST_COEFFICIENT = 2**50
_SLACK = 1e-9


WholeRow = tuple[Ints, tuple[int, ...], int | None, int | None]
"""(column, coefficient, low, high): low <= sum(coefficient * x[column]) <= high in integers; None: no bound."""


def whole_numbers(values: Floats) -> tuple[tuple[int, ...], int] | None:
    """Integers and the scale that makes them of the values; None if no small scale does (to rounding)."""
    if (values == np.rint(values)).all():
        return (tuple(int(v) for v in values), 1) if np.abs(values).max(initial=0.0) < MOST_COEFFICIENT else None
    scale, fractions = 1, []
    for v in values.tolist():
        fraction = Fraction(v).limit_denominator(10**6)
        if abs(float(fraction) - v) > 1e-15 * max(1.0, abs(v)):
            return None
        scale = lcm(scale, fraction.denominator)
        fractions.append(fraction)
    scaled = tuple(int(fraction * scale) for fraction in fractions)
    return (scaled, scale) if max(map(abs, scaled), default=0) < MOST_COEFFICIENT else None


def _whole_side(bound: float, rounding: np.ufunc, slack: float) -> int:
    """A side of a row as an integer: itself if it is whole, else rounded, forgiving what scaling may have added."""
    return int(bound) if bound.is_integer() else int(rounding(bound + slack * (1 + abs(bound))))


def whole_rows(program: LpArrays) -> tuple[list[WholeRow], list[str]]:
    """All rows in integers, and the names of those that cannot be written so."""
    matrix = program.matrix().tocsr()
    rows, impossible = [], []
    for i in range(program.rows):
        entries = slice(matrix.indptr[i], matrix.indptr[i + 1])
        scaled = whole_numbers(matrix.data[entries])
        if scaled is None:
            impossible.append(program.row_name(i))
            continue
        coefficient, scale = scaled
        low, high = float(program.row_lower[i]) * scale, float(program.row_upper[i]) * scale
        rows.append(
            (
                matrix.indices[entries].astype(np.int64),
                coefficient,
                _whole_side(low, np.ceil, -_SLACK) if np.isfinite(low) else None,
                _whole_side(high, np.floor, _SLACK) if np.isfinite(high) else None,
            )
        )
    return rows, impossible


PASSES = 10


def implied_bounds(program: LpArrays, *, objective_at_most: float = np.inf) -> tuple[Floats, Floats]:
    """Bounds (lower, upper) of float64[columns] that hold for every integer point of the program.

    Each row, and the objective cut if one is given, bounds each of its variables once the others are at their best;
    repeated `PASSES` times.
    """
    lower, upper = np.ceil(program.lower - _SLACK), np.floor(program.upper + _SLACK)
    matrix = program.matrix().tocoo()
    row, column, value = matrix.row, matrix.col, matrix.data
    row_lower, row_upper = program.row_lower, program.row_upper
    if np.isfinite(objective_at_most):
        used = np.flatnonzero(program.cost)
        row = np.concatenate((row, np.full(len(used), program.rows)))
        column, value = np.concatenate((column, used)), np.concatenate((value, program.cost[used]))
        row_lower = np.append(row_lower, -np.inf)
        row_upper = np.append(row_upper, objective_at_most)
    keep = value != 0
    row, column, value = row[keep], column[keep], value[keep]
    for _ in range(PASSES):
        before = (lower.copy(), upper.copy())
        for sign, high in ((1.0, row_upper), (-1.0, -row_lower)):
            factor = sign * value
            least = np.where(factor > 0, factor * lower[column], factor * upper[column])
            endless = ~np.isfinite(least)
            total = np.bincount(row, weights=np.where(endless, 0.0, least), minlength=len(high))
            count = np.bincount(row, weights=endless, minlength=len(high))
            others = total[row] - np.where(endless, 0.0, least)
            others[(count[row] - endless) > 0] = -np.inf
            finite = np.isfinite(others) & np.isfinite(high[row])
            limit = (high[row][finite] - others[finite]) / factor[finite]
            up = factor[finite] > 0
            limit = np.where(up, np.floor(limit + _SLACK * (1 + np.abs(limit))), limit)
            limit = np.where(up, limit, np.ceil(limit - _SLACK * (1 + np.abs(limit))))
            np.minimum.at(upper, column[finite][up], limit[up])
            np.maximum.at(lower, column[finite][~up], limit[~up])
        if (before[0] == lower).all() and (before[1] == upper).all():
            break
    return lower, upper


STATUS_MAP = {
    "UNKNOWN": (Status.UNKNOWN, StopReason.BUDGET),
    "MODEL_INVALID": (Status.UNKNOWN, StopReason.ERROR),
    "FEASIBLE": (Status.FEASIBLE, StopReason.BUDGET),
    "INFEASIBLE": (Status.INFEASIBLE, StopReason.CONVERGED),
    "OPTIMAL": (Status.OPTIMAL, StopReason.CONVERGED),
}

# CP-SAT needs finite domains: variables that no row bounds are cut here, and what that proves is checked afterwards.
_CUT = 10**9
_LARGEST = 2.0**50
_MOST_ACTIVITY = 2**61


@cache
def option_names() -> frozenset[str]:
    """Fields of SatParameters that hold one value."""
    fields = sat_parameters_pb2.SatParameters.DESCRIPTOR.fields
    return frozenset(field.name for field in fields if not field.is_repeated and field.message_type is None)


class _Report(cp_model.CpSolverSolutionCallback):
    def __init__(self, variables: list[Any], on_incumbent: OnIncumbent) -> None:
        super().__init__()
        self._variables, self._on_incumbent = variables, on_incumbent

    def on_solution_callback(self) -> None:
        self._on_incumbent(np.array([self.value(variable) for variable in self._variables], dtype=np.float64))


def run_cp_sat(task: SolverTask) -> Claim:
    """Solve; rows must be whole numbers once scaled by a common denominator.

    Raises:
        InputError: a row cannot be scaled to whole numbers, or activities leave 64 bits.
    """
    program = task.program
    lower, upper = implied_bounds(program)
    if (lower > upper).any():
        name = program.column_name(int(np.argmax(lower > upper)))
        return Claim(Status.INFEASIBLE, StopReason.CONVERGED, f"the rows leave no whole value for {name}")
    kept = (np.abs(lower) <= _LARGEST, np.abs(upper) <= _LARGEST)
    low = np.where(kept[0], lower, np.clip(lower, -_CUT, _CUT))
    high = np.where(kept[1], upper, np.clip(upper, -_CUT, _CUT))
    low, high = np.minimum(low, high), np.maximum(low, high)
    claim = _solved(task, low, high)
    if kept[0].all() and kept[1].all():
        return claim
    return _uncut(claim, task, low, high)


def _uncut(claim: Claim, task: SolverTask, low: Floats, high: Floats) -> Claim:
    """What a claim about the program with cut domains says about the program itself."""
    program = task.program
    if claim.x is not None:
        inside = implied_bounds(program, objective_at_most=float(program.cost @ claim.x))
        if (inside[0] >= low).all() and (inside[1] <= high).all():
            return claim  # nothing better lies outside the cut
    limits = replace(task.limits, time_s=task.time_left_s(least=0.01))
    relaxed = run_highs(SolverTask(replace(program, integer=None), limits, {}))
    if relaxed.status is Status.INFEASIBLE:
        return replace(claim, status=Status.INFEASIBLE, bound=None)
    if relaxed.unbounded and claim.x is not None:
        # An integer point and an unbounded relaxation of rational data: the integer program is unbounded (Meyer 1974).
        return Claim(Status.UNKNOWN, StopReason.CONVERGED, "unbounded: its relaxation is", unbounded=True)
    bound = None
    if relaxed.status is Status.OPTIMAL and relaxed.x is not None:
        bound = float(program.cost @ relaxed.x)
    note = f"{claim.message}, with variables that have no bounds cut at {_CUT}"
    status = Status.FEASIBLE if claim.x is not None else Status.UNKNOWN
    stop = StopReason.BUDGET if claim.stopped_by is StopReason.CONVERGED else claim.stopped_by
    return replace(claim, status=status, stopped_by=stop, message=note, bound=bound)


def _least(cost: Floats, low: Floats, high: Floats) -> float:
    """Least objective that the domains alone allow."""
    return float(np.minimum(cost * low, cost * high).sum())


def _solved(task: SolverTask, low: Floats, high: Floats) -> Claim:
    program, limits, options, start = task.program, task.limits, task.options, task.start
    rows, impossible = whole_rows(program)
    reach = np.maximum(np.abs(low), np.abs(high))
    problems = [Problem("the coefficients have no small common denominator", path=name) for name in impossible]
    for number, (column, coefficient, _, _) in enumerate(rows):
        if sum(abs(a) * int(r) for a, r in zip(coefficient, reach[column], strict=True)) > _MOST_ACTIVITY:
            problems.append(Problem("coefficients times bounds leave 64 bits", path=program.row_name(number)))
    raise_any(problems)
    model = cp_model.CpModel()
    variables = [
        model.new_int_var(int(a), int(b), program.column_name(j))
        for j, (a, b) in enumerate(zip(low, high, strict=True))
    ]
    for column, coefficient, least, most in rows:
        terms = cp_model.LinearExpr.weighted_sum([variables[j] for j in column], list(coefficient))
        model.add_linear_constraint(
            terms, -_MOST_ACTIVITY if least is None else least, _MOST_ACTIVITY if most is None else most
        )
    exact = whole_numbers(program.cost)
    cost, scale = exact if exact is not None else (tuple(program.cost.tolist()), 1)
    model.minimize(cp_model.LinearExpr.weighted_sum(variables, list(cost)))
    if start is not None and np.isfinite(start).all():
        for variable, value in zip(variables, np.clip(np.rint(start), low, high), strict=True):
            model.add_hint(variable, int(value))
    solver = cp_model.CpSolver()
    settings: Options = {"num_workers": limits.threads, "random_seed": limits.seed, "relative_gap_limit": 0.0}
    if (left := task.time_left_s()) is not None:
        # large models take seconds to build, which count for the one who waits
        settings = {**settings, "max_time_in_seconds": left}
    for name, value in {**settings, **options}.items():
        try:
            setattr(solver.parameters, name, value)
        except (TypeError, ValueError, AttributeError) as error:
            raise bad_option("CP-SAT", name, value) from error
    report = None if task.on_incumbent is None else _Report(variables, task.on_incumbent)
    code = solver.solve(model, report)
    status, stopped_by = STATUS_MAP[code.name]
    if stopped_by is StopReason.BUDGET and limits.time_s is not None:
        # CP-SAT does not say which limit it met; without another one it was the clock.
        other = any(name.startswith("max_") or name.endswith("_limit") for name in options)
        if not other or time.monotonic() - task.began >= 0.9 * limits.time_s:
            stopped_by = StopReason.TIME
    has_solution = status in (Status.OPTIMAL, Status.FEASIBLE)
    bound = None
    if status is not Status.INFEASIBLE and code.name != "MODEL_INVALID" and exact is not None:
        bound = float(solver.best_objective_bound) / scale
        if code.name == "UNKNOWN" and bound == 0.0 and _least(program.cost, low, high) < 0.0:
            bound = None  # what CP-SAT answers too when its time was over before it looked at the objective
    return Claim(
        status,
        stopped_by,
        f"CP-SAT: {code.name}",
        np.array([solver.value(variable) for variable in variables], dtype=np.float64) if has_solution else None,
        bound,
        algorithm="cp-sat",
    )
