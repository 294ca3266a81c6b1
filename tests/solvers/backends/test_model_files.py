"""Models as text and as Pyomo models: readable, deterministic, and the same program when read back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import highspy
import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csc_array

from formulations.programs import LpArrays, bound_text, model_text, row_text, safe_names
from solvers.backends import SOLVERS
from solvers.backends.pyomo_backends import arrays_of, model_of
from topoopt.core.proofs import Status

INF = float("inf")
FORMS: tuple[Literal["lp", "mps"], ...] = ("lp", "mps")


def sample() -> LpArrays:
    """Every kind of row and bound, names that need care, and one whole variable."""
    rows = csc_array(np.array([[1, 1, 0, 0], [1e-7, 1, 0, 0], [0, 1, 1, 0], [1, 0, -1, 0], [0, 0, 0, 0]], dtype=float))
    return LpArrays(
        np.array([1.0, 1.5, 0.0, -2.0]),
        np.array([0.0, -INF, 1.0, 4.0]),
        np.array([INF, INF, 7.0, 4.0]),
        np.array([2.0, 1.0, -INF, 0.0, -1.0]),
        np.array([INF, 1.0, 9.0, 3.25, 1.0]),
        rows.indptr.astype(np.int64),
        rows.indices.astype(np.int64),
        rows.data,
        integer=np.array([False, False, True, False]),
        column_names=("flow[0,(1,2)]", "e12", "a b", "free"),
        row_names=("need", "room[1]", "other", "range", "empty"),
    )


def test_lp_text_is_as_written_by_hand() -> None:
    """The whole file of a small program, word for word."""
    small = replace(
        sample(),
        row_names=("need", "room[1]", "other", "range", "st"),
    )
    assert model_text(small, "lp", title="by hand").splitlines() == [
        "\\ by hand",
        "Minimize",
        " cost: + flow(0,(1,2)) + 1.5 _e12 + 0 a_b - 2 _free",
        "Subject To",
        " need: + flow(0,(1,2)) + _e12 >= 2",
        " room(1): + 1e-07 flow(0,(1,2)) + _e12 = 1",
        " other: + _e12 + a_b <= 9",
        " range.low: + flow(0,(1,2)) - a_b >= 0",
        " range.high: + flow(0,(1,2)) - a_b <= 3.25",
        " st.low: 0 flow(0,(1,2)) >= -1",
        " st.high: 0 flow(0,(1,2)) <= 1",
        "Bounds",
        " 0 <= flow(0,(1,2)) <= +inf",
        " _e12 free",
        " 1 <= a_b <= 7",
        " 4 <= _free <= 4",
        "General",
        " a_b",
        "End",
    ]


@pytest.mark.parametrize("form", FORMS)
def test_files_read_back_by_highs_are_the_same_program(form: Literal["lp", "mps"], tmp_path: Path) -> None:
    """Names, costs, bounds, integrality and optimum survive the file; ranges are two rows in LP."""
    data = sample()
    file = tmp_path / f"model.{form}"
    file.write_text(model_text(data, form, title="sample"))
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    assert solver.readModel(str(file)) == highspy.HighsStatus.kOk
    model = solver.getLp()
    assert list(model.col_names_) == ["flow(0,(1,2))", "_e12", "a_b", "_free"]
    assert list(model.row_names_)[:3] == ["need", "room(1)", "other"]
    np.testing.assert_array_equal(model.col_cost_, data.cost)
    np.testing.assert_array_equal(model.col_lower_, data.lower)
    np.testing.assert_array_equal(model.col_upper_, data.upper)
    assert [kind == highspy.HighsVarType.kInteger for kind in model.integrality_] == [False, False, True, False]
    if form == "mps":
        np.testing.assert_array_equal(model.row_lower_, data.row_lower)
        np.testing.assert_array_equal(model.row_upper_, data.row_upper)
    solver.run()
    direct = SOLVERS["highs"](data)
    assert direct.status is Status.OPTIMAL
    assert solver.getInfo().objective_function_value == pytest.approx(direct.objective)


@pytest.mark.parametrize("form", FORMS)
def test_same_program_same_bytes(form: Literal["lp", "mps"]) -> None:
    """The order in which coefficients are stored does not show in the file."""
    data = sample()
    order = np.concatenate([np.arange(a, b)[::-1] for a, b in zip(data.start[:-1], data.start[1:], strict=True)])
    shuffled = replace(data, index=data.index[order], value=data.value[order])
    assert model_text(shuffled, form) == model_text(data, form)


def test_long_rows_are_wrapped(tmp_path: Path) -> None:
    """Three hundred terms: no line over 120 characters, and the file still reads."""
    n = 300
    data = LpArrays(
        np.ones(n), np.zeros(n), np.ones(n), np.array([1.0]), np.array([INF]),
        np.arange(n + 1), np.zeros(n, dtype=np.int64), np.ones(n),
    )  # fmt: skip
    text = model_text(data, "lp")
    assert max(map(len, text.splitlines())) <= 120
    file = tmp_path / "long.lp"
    file.write_text(text)
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    assert solver.readModel(str(file)) == highspy.HighsStatus.kOk
    assert (solver.getNumCol(), solver.getNumNz()) == (n, n)


def test_impossible_bounds_are_refused() -> None:
    """A lower bound of +inf cannot be written."""
    data = sample()
    with pytest.raises(ValueError, match="cannot be written"):
        model_text(replace(data, lower=np.full(4, INF)), "lp")


@settings(max_examples=40)
@given(st.lists(st.text(max_size=6), max_size=8))
def test_safe_names_differ_and_never_look_like_numbers(names: list[str]) -> None:
    """Whatever the names, files get as many different ones, none that a reader takes for a number."""
    safe = safe_names(names)
    assert len(set(safe)) == len(safe) == len(names)
    assert all(name and not name[0].isdigit() and not name.isspace() and " " not in name for name in safe)
    for name in safe:
        with pytest.raises(ValueError, match="could not convert"):
            float(name if name.lower() not in ("nan", "_inf") else "x")


def test_constraints_in_words() -> None:
    """Equality, range, one side, and a bound."""
    data = sample()
    assert row_text(data, 1) == "room[1]: 1e-07 flow[0,(1,2)] + e12 = 1"
    assert row_text(data, 3) == "range: flow[0,(1,2)] - a b >= 0 and <= 3.25"
    assert row_text(data, 3, "upper") == "range: flow[0,(1,2)] - a b <= 3.25"
    assert bound_text(data, 2, "upper") == "bound: a b <= 7"


def test_pyomo_model_and_back() -> None:
    """The arrays come back with the same columns, bounds and integers; the range is split in two rows."""
    data = sample()
    model = model_of(data)
    assert str(model.row["need"].expr) == "2.0  <=  x['flow[0,(1,2)]'] + x[e12]"
    back = arrays_of(model)
    assert back.column_names is not None
    order = [back.column_names.index(str(model.x[name])) for name in data.column_names or ()]
    np.testing.assert_array_equal(back.cost[order], data.cost)
    np.testing.assert_array_equal(back.lower[order], data.lower)
    np.testing.assert_array_equal(back.upper[order], data.upper)
    np.testing.assert_array_equal(back.is_integer[order], data.is_integer)
    assert SOLVERS["highs"](back).objective == pytest.approx(SOLVERS["highs"](data).objective)


def test_any_pyomo_model_becomes_arrays() -> None:
    """max 3 x + 5 y of Wyndor Glass written in Pyomo: 36 by every linear backend, as -36 to be minimised."""
    model = pyo.ConcreteModel()
    model.x, model.y = pyo.Var(domain=pyo.NonNegativeReals), pyo.Var(domain=pyo.NonNegativeReals)
    model.door = pyo.Constraint(expr=model.x <= 4)
    model.window = pyo.Constraint(expr=2 * model.y <= 12)
    model.both = pyo.Constraint(expr=pyo.inequality(0, 3 * model.x + 2 * model.y, 18))
    model.profit = pyo.Objective(expr=3 * model.x + 5 * model.y, sense=pyo.maximize)
    data = arrays_of(model)
    assert data.row_names == ("door", "window", "both_upper", "both_lower")
    for name in ("highs", "highs-ipx", "pyomo"):
        assert SOLVERS[name](data).objective == pytest.approx(-36.0, rel=1e-6)
    del model.profit
    with pytest.raises(ValueError, match="one objective"):
        arrays_of(model)


def test_pyomo_model_refuses_equal_names() -> None:
    """Two columns of one name would merge silently."""
    with pytest.raises(ValueError, match="one name"):
        model_of(replace(sample(), column_names=("a", "a", "b", "c")))
