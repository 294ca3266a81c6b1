"""A placement somebody else made, as a solution: evaluated, bounded and checked like our own."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from solvers.placement.stage_numbers import stage_numbers
from solvers.stop import Stop
from topoopt.core.arrays import Int32s
from topoopt.core.errors import InputError, Problem
from topoopt.core.placement import PlacementProblem, StageShape, Throughput
from topoopt.core.placement_solution import PlacementSolution
from topoopt.core.proofs import Argument, Bound
from topoopt.core.verdict import StopReason
from topoopt.kinds.kind import Effort
from topoopt.kinds.pipeline import judged
from topoopt.kinds.placement.outcome import PlacementOutcome
from topoopt.verify.placement.loads import work_bound


def complete_placement(problem: PlacementProblem, named: Mapping[str, str]) -> Int32s:
    """Device of every operator from names of operators and devices; the rest follow their co-located operators.

    Raises:
        InputError: unknown names, operators placed nowhere, co-located operators placed apart; all of them.
    """
    index = {operator.name: i for i, operator in enumerate(problem.operators)}
    devices = {device.name: d for d, device in enumerate(problem.devices)}
    problems = [Problem("no operator of that name", value=name) for name in named if name not in index]
    for name in dict.fromkeys(named.values()):
        if name not in devices:
            problems.append(Problem("no device of that name", value=name, allowed=", ".join(devices)))
    found = {index[name]: devices[at] for name, at in named.items() if name in index and at in devices}
    device = np.full(len(problem.operators), -1, dtype=np.int32)
    for members in problem.colocated():
        places = sorted({found[i] for i in members if i in found})
        names = ", ".join(problem.operators[i].name for i in members[:4])
        if not places:
            problems.append(Problem("placed nowhere", value=names))
        elif len(places) > 1:
            problems.append(Problem("co-located operators placed apart", value=names))
        else:
            device[list(members)] = places[0]
    if problems:
        raise InputError(problems)
    return device


def evaluate_given(problem: PlacementProblem, named: Mapping[str, str], method: str) -> PlacementSolution:
    """The solution a placement by names amounts to; what it breaks stands in its check.

    Raises:
        InputError: see `complete_placement`; objective latency; interleaved stages.
    """
    settings = problem.objective
    if not isinstance(settings, Throughput) or settings.stages is StageShape.INTERLEAVED:
        text = "a placement alone can be judged for contiguous or free sets of objective throughput only"
        raise InputError([Problem(text, path="objective")])
    device = complete_placement(problem, named)
    stage = stage_numbers(problem, settings, device)
    bound = Bound(work_bound(problem, settings), Argument.DEVICE_WORK)
    outcome = PlacementOutcome(device, (bound,), StopReason.CONVERGED, method, stage)
    solution: PlacementSolution = judged(problem, outcome, Effort(problem.search, Stop()))
    return solution
