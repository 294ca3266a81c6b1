"""Refusal of topology problems that the search cannot take."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem
from topoopt.core.network import TopologyProblem


def check_problem(problem: TopologyProblem) -> Floats:
    """The demand as float64[n, n].

    Raises:
        InputError: with everything that is wrong.
    """
    n = problem.servers
    problems = []
    if n < 2:
        problems.append(Problem("a topology needs two servers at least", path="servers", value=str(n), allowed=">= 2"))
    if problem.degree < 1:
        problems.append(Problem("degree is too small", path="degree", value=str(problem.degree), allowed=">= 1"))
    demand = np.array(problem.demand, dtype=np.float64)
    if demand.shape != (n, n):
        problems.append(
            Problem("demand has the wrong shape", path="demand", value=str(demand.shape), allowed=f"({n}, {n})")
        )
    elif not np.isfinite(demand).all() or (demand < 0).any():
        problems.append(Problem("demand must be finite and not negative", path="demand", allowed=">= 0"))
    elif np.diag(demand).any():
        problems.append(Problem("a server has demand to itself", path="demand", allowed="zero diagonal"))
    elif not demand.any():
        problems.append(Problem("there is no demand at all", path="demand", allowed="one entry above 0"))
    for tail, head in problem.kept:
        if not (0 <= tail < n and 0 <= head < n):
            problems.append(Problem("kept link names an unknown server", path="kept", value=f"{tail} -> {head}"))
    if problem.max_hops is not None and problem.max_hops < 1:
        problems.append(Problem("hop limit is too small", path="max_hops", value=str(problem.max_hops), allowed=">= 1"))
    for tail, head in problem.forbidden:
        if not (0 <= tail < n and 0 <= head < n):
            problems.append(
                Problem("forbidden link names an unknown server", path="forbidden", value=f"{tail} -> {head}")
            )
    if problems:
        raise InputError(problems)
    return demand
