"""Solve the strategy program (`strategy_choice`) and prove its value: relaxation, branch and bound, MILP.

The proof is a tree of cuts with the duals of a linear relaxation at every leaf; `strategy_certificate`
evaluates it from the instance, so no claim of the solver is trusted. Work is limited by counts, never by the clock.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from formulations.job.strategy_choice import StrategyChoice, build_arrays, chosen_splits
from solvers.backends import SOLVERS, SolverLimits
from solvers.job.branching import Allowed, Branching, Relaxed
from solvers.job.warm_program import WarmProgram
from topoopt.core.arrays import Floats
from topoopt.core.workload import StrategyCase, StrategyCut

Tree = tuple[StrategyCut | StrategyCase, ...]

MOST_COEFFICIENTS = 200_000
"""Programs with more are not solved. Of the jobs in `instances` the largest have 150 000 (gpt-16, 1.0 s of one core by
HiGHS dual simplex) and 100 000 (bert-128, 2.9 s)."""

QUICK_COEFFICIENTS = 20_000
"""Where time is up, programs with more are not solved: what is left takes some tenths of a second."""

SOLVED_COEFFICIENTS = 6_000_000
"""Linear programs of a proof times their coefficients, at most about; one program at least, `MOST_PROGRAMS` at most."""

MOST_PROGRAMS = 150

IN_VAIN, RISE = 24, 1e-5
"""A proof ends when so many programs in a row raised the bound by less than this part of it."""


def prove(
    data: StrategyChoice,
    most_coefficients: int = MOST_COEFFICIENTS,
    *,
    allowed: Allowed | None = None,
    programs: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Tree | None:
    """Best proof within the limits: the relaxation, then the case of least value is cut in two, again and again.

    A case whose relaxation is whole cannot be improved, and ends the search when it is the least. None if the program
    has more than `most_coefficients` or its relaxation has no optimum (nothing is proven then).

    Args:
        allowed: bool[states] per operator, those that the proof is for; None: all.
        programs: linear programs solved, about; None: by the size of the program, and no more where they are in vain.
        stop: whether time is up; the tree so far is a proof.
    """
    program = build_arrays(data)
    if program.nonzeros > most_coefficients:
        return None
    warm = WarmProgram(program)
    every = allowed or tuple(np.ones(count, dtype=np.bool_) for count in data.splits)
    first = _relax(data, warm, every)
    if first is None:
        return None
    nodes: list[StrategyCut | StrategyCase] = [first.case]
    waiting = [(first.value, 0, first, every)]
    most = programs or max(1, min(MOST_PROGRAMS, SOLVED_COEFFICIENTS // max(1, program.nonzeros)))
    branching = Branching(lambda allowed: _relax(data, warm, allowed), len(data.splits))
    risen, risen_at, settled = first.value, 0, np.inf
    while branching.solved < most - 1 and waiting and waiting[0][0] < settled and not stop():
        value, at, here, part = waiting[0]
        if value > risen * (1.0 + RISE):
            risen, risen_at = value, branching.solved
        elif programs is None and branching.solved - risen_at > IN_VAIN:
            break
        cut = branching.best(here, part)
        if cut is None:
            break
        heapq.heappop(waiting)
        inside = tuple(np.flatnonzero(cut.inside).tolist())
        nodes[at] = StrategyCut(cut.operator, inside, len(nodes), len(nodes) + 1)
        for child, states in cut.halves:
            if child is None:  # the multipliers of the case above hold in this one, too: any do
                nodes.append(here.case)
                settled = min(settled, here.value)
            else:
                nodes.append(child.case)
                heapq.heappush(waiting, (max(child.value, here.value), len(nodes) - 1, child, states))
    return tuple(nodes)


def _relax(data: StrategyChoice, warm: WarmProgram, allowed: Allowed) -> Relaxed | None:
    """The relaxation with only some states allowed; None: the solver found no optimum (nothing fits, or it failed)."""
    result = warm.solve(np.concatenate(allowed))
    if result is None:
        return None
    value, chosen, dual = result
    shares = tuple(chosen[low:high] for low, high in pairwise(data.split_start.tolist()))
    return Relaxed(value, shares, _case(data, dual))


def _case(data: StrategyChoice, dual: Floats) -> StrategyCase:
    """Multipliers of a case from the duals of the relaxation."""
    rows = data.rows_of_pairs
    law_at = int(rows[-1]) + len(data.quantities)
    weights = dual[law_at : law_at + len(data.laws)]
    prices = []
    for (u, _), low, high in zip(data.pairs, rows[:-1], rows[1:], strict=True):
        cut = low + data.splits[u]
        ends = [-dual[low:cut], -dual[cut:high]]
        prices.append((tuple(map(_short, ends[0].tolist())), tuple(map(_short, ends[1].tolist()))))
    return StrategyCase(
        laws=tuple((law.name, _short(w)) for law, w in zip(data.laws, weights.tolist(), strict=True) if w > 0.0),
        memory=max(0.0, -_short(float(dual[-1]))) if data.room is not None else 0.0,
        prices=tuple(prices),
    )


def _short(number: float) -> float:
    """A multiplier to nine digits: any number proves what it proves, and a file of many cases is half as long."""
    return float(f"{number:.9g}") + 0.0


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
