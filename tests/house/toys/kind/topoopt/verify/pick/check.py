"""The checker of kind `pick`."""

from __future__ import annotations

from functools import partial

from topoopt.core.pick import PickProblem, PickSolution

from topoopt.core.proofs import Argument
from topoopt.verify.laws.bounds import check_stated
from topoopt.verify.laws.findings import CheckFindings, ViolationLog, differs


def check_pick(problem: PickProblem, solution: PickSolution) -> CheckFindings:
    """Each place once, as many as asked, and their sum."""
    log = ViolationLog()
    if len(set(solution.picked)) != problem.count:
        log.add("count", f"{len(set(solution.picked))} picked, asked for {problem.count}")
    if differs(solution.objective.value, sum(problem.values[place] for place in solution.picked)):
        log.add("objective", "not the sum of what was picked")
    most = partial(sum, sorted(problem.values)[-problem.count :])
    check_stated(log, solution.bound, {Argument.SORTING: most}, solution.objective.value, maximise=True)
    return log.findings()
