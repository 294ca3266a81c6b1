"""Pyomo models of programs in arrays, and back: the readable form, for people and for cross-checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo
from pyomo.core.expr import LinearExpression
from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler

from formulations.parts.arrays import LpArrays
from topoopt.core.arrays import Floats


def model_of(program: LpArrays, start: Floats | None = None) -> Any:
    """A ConcreteModel with variables `x[name]`, constraints `row[name]`, and `cost` to minimise.

    Rows without coefficients are left out: Pyomo takes no constraint without variables.
    """
    columns = [program.column_name(j) for j in range(program.columns)]
    rows = [program.row_name(i) for i in range(program.rows)]
    if len(set(columns)) < len(columns) or len(set(rows)) < len(rows):
        raise ValueError("two columns, or two rows, have one name")
    position = {name: j for j, name in enumerate(columns)}
    whole = program.is_integer

    def domain(_: Any, name: str) -> Any:
        return pyo.Integers if whole[position[name]] else pyo.Reals

    def bounds(_: Any, name: str) -> tuple[float | None, float | None]:
        j = position[name]
        return _finite(program.lower[j]), _finite(program.upper[j])

    model = pyo.ConcreteModel()
    model.columns = pyo.Set(initialize=columns)
    model.x = pyo.Var(model.columns, domain=domain, bounds=bounds)
    variables = [model.x[name] for name in columns]
    if start is not None:
        for variable, value in zip(variables, start, strict=True):
            variable.set_value(float(value), skip_validation=True)
    matrix = program.matrix().tocsr()
    model.row = pyo.Constraint(pyo.Any)
    for i, name in enumerate(rows):
        entries = slice(matrix.indptr[i], matrix.indptr[i + 1])
        if entries.start == entries.stop:
            continue
        terms = LinearExpression(
            linear_coefs=matrix.data[entries].tolist(), linear_vars=[variables[j] for j in matrix.indices[entries]]
        )
        low, high = _finite(program.row_lower[i]), _finite(program.row_upper[i])
        model.row[name] = (low, terms, high) if low != high or low is None else terms == low
    model.cost = pyo.Objective(
        expr=LinearExpression(linear_coefs=program.cost.tolist(), linear_vars=variables), sense=pyo.minimize
    )
    return model


def arrays_of(model: Any) -> LpArrays:
    """The arrays of any linear Pyomo model: active constraints, in model order; a maximisation has its cost negated.

    Constants in the objective are dropped; every variable that appears is a column, by its full name.

    Raises:
        ValueError: no objective, or more than one.
    """
    objectives = list(model.component_data_objects(pyo.Objective, active=True))
    if len(objectives) != 1:
        raise ValueError(f"a model needs one objective, not {len(objectives)}")
    form = LinearStandardFormCompiler().write(model, mixed_form=True, set_sense=pyo.minimize)
    matrix = form.A.tocsc()
    # The compiler splits a ranged constraint in two rows, each with its side; names tell them apart.
    side = [row.bound_type for row in form.rows]
    rhs = np.asarray(form.rhs, dtype=np.float64)
    low = np.array([b if s <= 0 else -np.inf for s, b in zip(side, rhs, strict=True)], dtype=np.float64)
    high = np.array([b if s >= 0 else np.inf for s, b in zip(side, rhs, strict=True)], dtype=np.float64)
    bounds = [variable.bounds for variable in form.columns]
    cost = np.asarray(form.c.todense(), dtype=np.float64).reshape(-1)
    return LpArrays(
        cost=cost,
        lower=np.array([-np.inf if a is None else a for a, _ in bounds], dtype=np.float64),
        upper=np.array([np.inf if b is None else b for _, b in bounds], dtype=np.float64),
        row_lower=low,
        row_upper=high,
        start=matrix.indptr.astype(np.int64),
        index=matrix.indices.astype(np.int64),
        value=np.asarray(matrix.data, dtype=np.float64),
        integer=np.array([not variable.is_continuous() for variable in form.columns], dtype=np.bool_),
        column_names=tuple(variable.name for variable in form.columns),
        row_names=_row_names(form.rows),
    )


def _row_names(rows: list[Any]) -> tuple[str, ...]:
    count: dict[str, int] = {}
    for row in rows:
        count[row.constraint.name] = count.get(row.constraint.name, 0) + 1
    return tuple(
        row.constraint.name
        if count[row.constraint.name] == 1
        else f"{row.constraint.name}_{'lower' if row.bound_type < 0 else 'upper'}"
        for row in rows
    )


def _finite(bound: float) -> float | None:
    return float(bound) if np.isfinite(bound) else None
