"""Runs of one instance agree, whatever limit, seed and budget they had: what is optimal is so for all of them.

Any two that are called optimal have one value, none is better than what another one proves, and each passes its check.
Where the seed draws the jobs of an instance, or a limit cuts off jobs that count, runs are of other questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import pytest

from tests.support import at_once_cases
from tests.support.valid_solutions import CASES
from topoopt.core.errors import LimitError
from topoopt.core.proofs import Status, Tolerance, beats
from topoopt.core.shared_cluster import JobsAtOnce
from topoopt.kinds import kind_of
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.verify.checker import BRIEF

SLOW = ("llm-training, fabrics",)
"""Ten seconds a run; the other cases of its kind have the same search."""

TOLERANCES = {"shared-cluster": Tolerance.ROUNDING, "co-optimisation": Tolerance.ROUNDING}
"""By which kinds call a value optimal, where it is not `LINEAR_PROGRAM`."""


def planned() -> Any:
    """Jobs of a planned class arrive, each on a shard of its own."""
    classes = [{"name": "short", "plan": "short.json", "iterations": 100}]
    fabrics = [{"kind": "partitioned"}]
    jobs = {"count": 6, "load": 0.5}
    return at_once_cases.read({**at_once_cases.instance(), "classes": classes, "jobs": jobs, "fabrics": fabrics})


PROBLEMS: dict[str, tuple[Callable[[], Any], SolveOptions]] = {
    **{name: (case.problem, case.options) for name, case in CASES.items() if name not in SLOW},
    "shared cluster, planned": (planned, SolveOptions(seed=1)),
}


@dataclass(frozen=True)
class Run:
    """A solution, and the question that it answers beside its instance."""

    solution: Any
    question: object


def _question(problem: Any, solution: Any) -> object:
    """What seed and limit made of an instance."""
    if problem.kind != "shared-cluster":
        return ()
    drawn = not isinstance(problem.jobs, tuple) or any(len(one.iteration_ms) > 1 for one in problem.classes)
    counted = (
        len(solution.figures.draws)
        if isinstance(problem.jobs, JobsAtOnce)
        else solution.figures.runs[0].finished.tobytes()
    )
    return (solution.seed if drawn else None, counted)


def _runs(problem: Any, options: SolveOptions) -> Iterator[Run]:
    """Those that find something."""
    changes: list[dict[str, Any]] = [{}, {"seed": 2}, {"time_limit_s": 0.02}, {"time_limit_s": 0.2}]
    changes += [{"budget": 3}, {"budget": 40, "seed": 3}] * kind_of(problem).takes_budget
    for change in changes:
        try:
            solution = solve(problem, replace(options, **change))
        except LimitError:
            continue
        yield Run(solution, _question(problem, solution))


@pytest.mark.parametrize("name", PROBLEMS)
def test_runs_agree(name: str) -> None:
    """Under six combinations of limit, seed and budget."""
    made, options = PROBLEMS[name]
    problem = made()
    runs = list(_runs(problem, options))
    assert runs
    tolerance = TOLERANCES.get(problem.kind, Tolerance.LINEAR_PROGRAM)
    for run in runs:
        findings = kind_of(problem).check(problem, run.solution, BRIEF)
        assert findings.ok, findings.violations
    greatest = any(
        beats(run.solution.bound.value, run.solution.objective.value, tolerance, maximise=True) for run in runs
    )
    for one, other in permutations(runs, 2):
        if one.question != other.question:
            continue
        value, bound = one.solution.objective.value, other.solution.bound.value
        assert not beats(value, bound, tolerance, maximise=greatest), (value, other.solution.bound)
        if one.solution.status is Status.OPTIMAL is other.solution.status:
            assert abs(value - other.solution.objective.value) <= tolerance.of(value), (one, other)
