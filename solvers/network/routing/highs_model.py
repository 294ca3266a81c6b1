"""Programs in arrays, handed to HiGHS."""

from __future__ import annotations

import highspy
import numpy as np

from formulations.parts.arrays import LpArrays


def highs_model(program: LpArrays) -> highspy.HighsLp:
    """Arrays in the form HiGHS takes."""
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = program.columns, program.rows
    model.col_cost_, model.col_lower_, model.col_upper_ = program.cost, program.lower, program.upper
    model.row_lower_, model.row_upper_ = program.row_lower, program.row_upper
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = program.start.astype(np.int32)
    model.a_matrix_.index_ = program.index.astype(np.int32)
    model.a_matrix_.value_ = program.value
    return model
