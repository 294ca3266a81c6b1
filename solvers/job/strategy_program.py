"""Solve the strategy program (`strategy_choice`) and prove its value: relaxation, branch and bound, MILP.

The proof is a tree of cuts with the duals of a linear relaxation at every leaf; `strategy_certificate`
evaluates it from the instance, so no claim of the solver is trusted. Work is limited by counts, never by the clock.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

import numpy as np

from formulations.job.strategy_choice import StrategyChoice, build_arrays, chosen_splits
from formulations.parts.arrays import LpArrays
from solvers.backends import SOLVERS, SolverLimits
from topoopt.core.arrays import Bools, Floats
from topoopt.core.strategy import StrategyCase, StrategyCertificate, StrategyCut

MOST_COEFFICIENTS = 200_000
"""Programs with more are not solved. Of the jobs in `instances` the largest have 150 000 (gpt-16, 1.0 s of one core by
HiGHS dual simplex) and 100 000 (bert-128, 2.9 s)."""

QUICK_COEFFICIENTS = 20_000
"""Where time is up, programs with more are not solved: what is left takes some tenths of a second."""

CASE_COEFFICIENTS = 50_000
"""Cases of a proof times the coefficients of the program, at most about; one case at least, `MOST_CASES` at most."""

MOST_CASES = 100
WHOLE = 1e-6


@dataclass(frozen=True, eq=False)
class Relaxed:
    """The linear relaxation of a case.

    Attributes:
        value: its optimum as the duals prove it, ms.
        shares: z of the solution, float64[splits] per operator.
        case: the duals; None if the solver found no optimum (no choice fits the memory, or it failed).
    """

    value: float
    shares: tuple[Floats, ...]
    case: StrategyCase | None


def relax(data: StrategyChoice, program: LpArrays, allowed: tuple[Bools, ...] | None = None) -> Relaxed:
    """Solve the relaxation with only some splits allowed."""
    splits = int(data.split_start[-1])
    upper = program.upper.copy()
    if allowed is not None:
        upper[:splits] = np.concatenate(allowed)
    result = SOLVERS["highs-simplex"](replace(program, integer=None, upper=upper))
    if result.x is None or result.row_dual is None or result.bound is None:
        return Relaxed(np.inf, (), None)
    start = data.split_start
    shares = tuple(result.x[start[o] : start[o + 1]] for o in range(len(data.splits)))
    return Relaxed(result.bound, shares, _case(data, result.row_dual))


def prove(data: StrategyChoice, most_coefficients: int = MOST_COEFFICIENTS) -> StrategyCertificate | None:
    """Best proof within the limits: the relaxation, then the case of least value is cut in two, again and again.

    A case whose relaxation is whole cannot be improved, and ends the search when it is the least. None if the program
    has more than `most_coefficients` or its relaxation has no optimum (nothing is proven then).
    """
    program = build_arrays(data)
    if program.nonzeros > most_coefficients:
        return None
    root = relax(data, program)
    if root.case is None:
        return None
    nodes: list[StrategyCut | StrategyCase] = [root.case]
    every = tuple(np.ones(count, dtype=np.bool_) for count in data.splits)
    waiting = [(root.value, 0, root, every)]
    most = max(1, min(MOST_CASES, CASE_COEFFICIENTS // max(1, program.nonzeros)))
    leaves = 1
    while leaves < most:
        _, at, here, allowed = waiting[0]
        divided = _divide(here)
        if divided is None:
            break
        heapq.heappop(waiting)
        operator, inside = divided
        children = []
        for mask in (inside, ~inside):
            part = (*allowed[:operator], allowed[operator] & mask, *allowed[operator + 1 :])
            children.append((relax(data, program, part), part))
        nodes[at] = StrategyCut(operator, tuple(np.flatnonzero(inside).tolist()), len(nodes), len(nodes) + 1)
        for child, part in children:
            place = len(nodes)
            # The multipliers of the case above hold in this one, too: any do.
            nodes.append(child.case if child.case is not None else _of(here))
            value = child.value if child.case is not None else here.value
            heapq.heappush(waiting, (max(value, here.value), place, child if child.case is not None else here, part))
        leaves += 1
    return StrategyCertificate(tuple(nodes))


def _of(relaxed: Relaxed) -> StrategyCase:
    assert relaxed.case is not None
    return relaxed.case


def _divide(relaxed: Relaxed) -> tuple[int, Bools] | None:
    """The operator whose split is least decided, and the half of its splits to divide by; None if all are whole."""
    undecided = [1.0 - float(share.max()) for share in relaxed.shares]
    operator = int(np.argmax(undecided))
    if undecided[operator] <= WHOLE:
        return None
    share = relaxed.shares[operator]
    low = np.cumsum(share) <= 0.5
    low[: int(np.flatnonzero(share > WHOLE)[0]) + 1] = True
    return operator, low


def _case(data: StrategyChoice, dual: Floats) -> StrategyCase:
    """Multipliers of a case from the duals of the relaxation."""
    rows = data.rows_of_pairs
    law_at = int(rows[-1]) + len(data.quantities)
    weights = dual[law_at : law_at + len(data.laws)]
    prices = []
    for (u, _), low, high in zip(data.pairs, rows[:-1], rows[1:], strict=True):
        cut = low + data.splits[u]
        prices.append((tuple((-dual[low:cut]).tolist()), tuple((-dual[cut:high]).tolist())))
    return StrategyCase(
        laws=tuple((law.name, float(w)) for law, w in zip(data.laws, weights, strict=True) if w > 0.0),
        memory=max(0.0, -float(dual[-1])) if data.room is not None else 0.0,
        prices=tuple(prices),
    )


def choose_splits(data: StrategyChoice, nodes: int) -> tuple[int, ...] | None:
    """Splits of a good strategy by branch and bound with at most `nodes` nodes; None: none found, or too large.

    The value of the result is `longest_path`; how far it is from the least is not claimed here.
    """
    program = build_arrays(data)
    if program.nonzeros > MOST_COEFFICIENTS:
        return None
    options = {"mip_max_nodes": nodes, "mip_rel_gap": 1e-4}
    result = SOLVERS["highs"](program, SolverLimits(), options)
    return None if result.x is None else chosen_splits(data, result.x)
