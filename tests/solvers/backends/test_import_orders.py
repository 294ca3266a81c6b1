"""HiGHS and OR-Tools in one process, whichever is imported first (highspy 1.15 and ortools 9.15 cannot)."""

from __future__ import annotations

import subprocess
import sys
from itertools import permutations

import pytest

SOLVE = {
    "highspy": """
        import highspy
        solver = highspy.Highs()
        solver.setOptionValue("output_flag", False)
        solver.addVar(0.0, 4.0)
        solver.changeColCost(0, -1.0)
        solver.run()
        assert solver.getInfo().objective_function_value == -4.0
    """,
    "ortools": """
        from ortools.sat.python import cp_model
        from ortools.pdlp.python import pdlp
        model = cp_model.CpModel()
        y = model.new_int_var(0, 5, "y")
        model.maximize(y)
        sat = cp_model.CpSolver()
        assert sat.solve(model) == cp_model.OPTIMAL
        assert sat.objective_value == 5.0
    """,
}


@pytest.mark.parametrize("order", list(permutations(SOLVE)))
def test_both_libraries_solve_in_either_order(order: tuple[str, ...]) -> None:
    """Both import and solve, then the first solves again."""
    lines = [line.strip() for name in (*order, order[0]) for line in SOLVE[name].strip().splitlines()]
    ran = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("order", [("highs", "cp-sat", "pyomo"), ("cp-sat", "highs", "pyomo")])
def test_table_loads_in_any_order(order: tuple[str, ...]) -> None:
    """The backends answer their self-test in whatever order their libraries are loaded."""
    code = (
        "from solvers.backends import SOLVERS, self_test\n"
        f"assert self_test({{name: SOLVERS[name] for name in {order!r}}}) == dict.fromkeys({order!r})\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_table_is_cheap_to_import() -> None:
    """Importing the table loads no solver library; that waits for the first solve."""
    code = (
        "import sys, solvers.backends\n"
        "loaded = {name.split('.')[0] for name in sys.modules} & {'highspy', 'ortools', 'pyomo', 'pandas'}\n"
        "assert not loaded, loaded\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
