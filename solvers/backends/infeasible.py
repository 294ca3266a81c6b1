"""Why a program has no solution: an irreducible infeasible subset of its constraints, in the user's names.

HiGHS proposes a subset of a linear program (its strategies 2 and 6; the default one proposes nothing); a deletion
filter, solved by another backend, then proves it: what is left has no solution, and dropping any one member gives one.
Programs that are infeasible for whole numbers only go through the filter from the start.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from formulations.programs import LpArrays, bound_text, row_text
from solvers.backends.backend import SolverLimits
from solvers.backends.table import SOLVERS
from topoopt.core.arrays import Floats
from topoopt.core.proofs import Status

Member = tuple[Literal["row", "column"], int, Literal["lower", "upper"]]
"""One side of a row, or one bound of a variable: kind, index, side."""


@dataclass(frozen=True)
class InfeasibleSubset:
    """Constraints that clash.

    Attributes:
        members: the clashing sides; without members nothing clashes, or nothing was proved in time.
        infeasible: proved: the members alone (and integrality) have no solution.
        irreducible: proved: without any one of them there is a solution.
        texts: the members in words, one each, with names.
        source: `highs` or `deletion filter`.
    """

    members: tuple[Member, ...]
    infeasible: bool
    irreducible: bool
    texts: tuple[str, ...]
    source: str


def infeasible_subset(program: LpArrays, limits: SolverLimits | None = None) -> InfeasibleSubset:
    """An irreducible infeasible subset of a program, re-verified; `infeasible` is False if it has a solution.

    Args:
        program: sound arrays (see `shape_errors`); crossed bounds are fine, they are a subset of two.
        limits: time for everything; what is not proved by then is flagged.
    """
    limits = limits or SolverLimits()
    deadline = None if limits.time_s is None else time.monotonic() + limits.time_s
    every = _all_sides(program)
    proposals = [("highs", _proposed(program, strategy)) for strategy in (2, 6)] if not _crossed(program) else []
    for claimed_by, proposal in proposals:
        if proposal and _feasible(program, proposal, deadline, limits) is False:
            return _filtered(program, proposal, claimed_by, deadline, limits)
    if _feasible(program, every, deadline, limits) is not False:
        return InfeasibleSubset((), False, False, (), "deletion filter")
    return _filtered(program, every, "deletion filter", deadline, limits)


def restricted(program: LpArrays, members: Sequence[Member]) -> LpArrays:
    """The program with these sides only, and nothing to minimise; integrality stays."""
    bounds = {
        ("row", "lower"): np.full(program.rows, -np.inf),
        ("row", "upper"): np.full(program.rows, np.inf),
        ("column", "lower"): np.full(program.columns, -np.inf),
        ("column", "upper"): np.full(program.columns, np.inf),
    }
    given = _given(program)
    for kind, index, side in members:
        bounds[kind, side][index] = given[kind, side][index]
    return replace(
        program,
        cost=np.zeros(program.columns),
        row_lower=bounds["row", "lower"],
        row_upper=bounds["row", "upper"],
        lower=bounds["column", "lower"],
        upper=bounds["column", "upper"],
    )


def _given(program: LpArrays) -> dict[tuple[str, str], Floats]:
    return {
        ("row", "lower"): program.row_lower,
        ("row", "upper"): program.row_upper,
        ("column", "lower"): program.lower,
        ("column", "upper"): program.upper,
    }


def _all_sides(program: LpArrays) -> list[Member]:
    kinds: tuple[Literal["row", "column"], ...] = ("row", "column")
    sides: tuple[Literal["lower", "upper"], ...] = ("lower", "upper")
    given = _given(program)
    endless = {"lower": -np.inf, "upper": np.inf}
    return [
        (kind, int(i), side)
        for kind in kinds
        for side in sides
        for i in np.flatnonzero(given[kind, side] != endless[side])
    ]


def _crossed(program: LpArrays) -> bool:
    return bool((program.lower > program.upper).any() or (program.row_lower > program.row_upper).any())


def _proposed(program: LpArrays, strategy: int) -> list[Member]:
    """What HiGHS proposes for the linear relaxation; may be empty or wrong."""
    import highspy

    from solvers.backends.highs import load

    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("iis_strategy", strategy)
    load(solver, replace(program, integer=None, cost=np.zeros(program.columns)))
    status, subset = solver.getIis()
    if status == highspy.HighsStatus.kError or not subset.valid_:
        return []
    rest, members = set(_all_sides(program)), list[Member]()
    kinds: tuple[tuple[Literal["row", "column"], object, object], ...] = (
        ("row", subset.row_index_, subset.row_bound_),
        ("column", subset.col_index_, subset.col_bound_),
    )
    wanted = highspy.IisBoundStatus
    for kind, index, bound in kinds:
        for i, code in zip(index, bound, strict=True):  # type: ignore[call-overload]
            if int(code) in (int(wanted.kIisBoundStatusLower), int(wanted.kIisBoundStatusBoxed)):
                members.append((kind, int(i), "lower"))
            if int(code) in (int(wanted.kIisBoundStatusUpper), int(wanted.kIisBoundStatusBoxed)):
                members.append((kind, int(i), "upper"))
    return [member for member in members if member in rest]


def _feasible(
    program: LpArrays, members: Sequence[Member], deadline: float | None, limits: SolverLimits
) -> bool | None:
    """Whether the members have a common solution (checked); None: not known in the time left."""
    left = None if deadline is None else deadline - time.monotonic()
    if left is not None and left <= 0:
        return None
    judge = SOLVERS["highs" if program.has_integers else "highs-simplex"]
    result = judge(restricted(program, members), replace(limits, time_s=left))
    if result.x is not None:
        return True
    return False if result.status is Status.INFEASIBLE else None


def _filtered(
    program: LpArrays, members: list[Member], claimed_by: str, deadline: float | None, limits: SolverLimits
) -> InfeasibleSubset:
    """Drop what is not needed, in blocks that get smaller; each member kept was seen to be needed."""
    proved = True
    block = max(1, len(members) // 4)
    while True:
        i = 0
        while i < len(members):
            without = members[:i] + members[i + block :]
            verdict = _feasible(program, without, deadline, limits)
            if verdict is False:
                members = without
                continue
            if verdict is None and block == 1:
                proved = False
            i += block
        if block == 1:
            break
        block = max(1, block // 4)
    members = sorted(members, key=lambda member: (member[0] != "row", *member[1:]))
    texts = tuple(
        row_text(program, index, side) if kind == "row" else bound_text(program, index, side)
        for kind, index, side in members
    )
    return InfeasibleSubset(tuple(members), True, proved, texts, claimed_by)
