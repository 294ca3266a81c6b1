"""What a seed draws is drawn again, whatever numpy a file states: a number in `versions` switches no check off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.valid_solutions import ARRIVALS, AT_ONCE, FABRICS, FABRICS_OF_TRAINING, written
from topoopt.core.solution import Decides
from topoopt.kinds import kind_of
from topoopt.kinds.instance_file import read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.kinds.shared_cluster.solution_file import SOLUTION_FILE
from topoopt.verify.laws.findings import FULL, CheckFindings

FALSE_CLAIMS = Path("../shared/data/false_claims/draws")

OTHER = (("numpy", "1.0.0"),)

ON_SHARDS = ARRIVALS.replace(FABRICS, "fabrics: [{kind: partitioned}]")
"""The paths of a fat-tree follow from the seed, too, without numpy."""

TRAINING = FABRICS_OF_TRAINING.replace("[direct-connect, torus-3d, fat-tree]", "[expander, fat-tree]")
BEHIND = FABRICS_OF_TRAINING.replace("[direct-connect, torus-3d, fat-tree]", "[fat-tree, expander]")

CASES = {"arrivals": ON_SHARDS, "at once": AT_ONCE, "training": TRAINING, "training, second fabric": BEHIND}

DRAWS = {
    "arrivals": {"draws of the jobs": Decides.VALUE, "bound": Decides.BOUND},
    "at once": {"draws of the jobs at once": Decides.VALUE, "bound": Decides.BOUND},
    "training": {"links of expander": Decides.VALUE},
    "training, second fabric": {},
}
"""What the answer rests on, where it was drawn otherwise."""


def checked(problem: Any, solution: Any) -> CheckFindings:
    """By the checker of its kind."""
    return kind_of(problem).check(problem, solution, FULL)


def claims(findings: CheckFindings) -> dict[str, Decides]:
    """What the answer rests on, as it was not recomputed."""
    return {one.figure: one.decides for one in findings.not_recomputed if one.decides is not Decides.NOTHING}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[str, Any, Any, Any]:
    """Its name, a problem, its solution, and that of another seed, which says that it is of the same."""
    problem = written(CASES[request.param])
    first, second = (solve(problem, SolveOptions(seed=seed)) for seed in (1, 2))
    return request.param, problem, first, replace(second, seed=1)


def test_draws_that_agree_are_verified(case: tuple[str, Any, Any, Any]) -> None:
    """Whatever the file says of its numpy, nothing rests on it."""
    _, problem, solution, _ = case
    for versions in (solution.versions, OTHER, ()):
        findings = checked(problem, replace(solution, versions=versions))
        assert findings.ok, findings.violations
        assert claims(findings) == {}
        assert not any("drawn with numpy" in one.reason for one in findings.not_recomputed)


def test_draws_that_differ_are_wrong_or_claimed(case: tuple[str, Any, Any, Any]) -> None:
    """Wrong under our numpy; of another one, which cannot be asked, what the answer rests on is claimed."""
    name, problem, _, other = case
    assert not checked(problem, other).ok
    ours = (("numpy", np.__version__.rsplit(".", 1)[0] + ".99"),)
    assert not checked(problem, replace(other, versions=ours)).ok
    findings = checked(problem, replace(other, versions=OTHER))
    assert findings.ok, findings.violations
    assert claims(findings) == DRAWS[name]
    assert any("drawn with numpy 1.0.0" in one.reason for one in findings.not_recomputed)


def _jobs(change: Callable[[Any], dict[str, Any]], solution: Any) -> Any:
    return replace(solution, jobs=replace(solution.jobs, **change(solution.jobs)))


IMPOSSIBLE: dict[str, Callable[[Any], Any]] = {
    "names": partial(_jobs, lambda jobs: {"names": ("first", *jobs.names[1:])}),
    "arrivals that fall": partial(_jobs, lambda jobs: {"arrival_s": jobs.arrival_s[::-1]}),
    "a time of no class": partial(_jobs, lambda jobs: {"iteration_ms": jobs.iteration_ms - 1.0}),
    "fewer jobs": lambda solution: replace(solution, jobs=_first(solution.jobs, 11)),
}


def _first(jobs: Any, count: int) -> Any:
    columns = ("names", "arrival_s", "class_index", "iterations", "iteration_ms")
    return replace(jobs, **{name: getattr(jobs, name)[:count] for name in columns})


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_no_generator_draws_is_rejected(name: str) -> None:
    """Names, numbers, order and times of jobs rest on the instance alone."""
    problem = written(ARRIVALS)
    solution = replace(solve(problem, SolveOptions(seed=1)), versions=OTHER)
    assert not checked(problem, IMPOSSIBLE[name](solution)).ok


MIXED = ARRIVALS.replace("spread: exponential", "mix: {two: 1}")
EQUAL = ARRIVALS.replace("spread: exponential", "mix: {two: 1, six: 1}")


def test_a_class_that_is_not_in_the_mix_is_rejected() -> None:
    """Jobs of another mix under the name of this one."""
    problem = written(MIXED)
    other = solve(written(EQUAL), SolveOptions(seed=1))
    findings = checked(problem, replace(other, versions=OTHER, instance_sha256=problem.sha256))
    assert "jobs" in {each.code for each in findings.violations}
    possible = solve(problem, SolveOptions(seed=1))
    claimed = checked(written(EQUAL), replace(possible, versions=OTHER, instance_sha256=written(EQUAL).sha256))
    assert claimed.ok, claimed.violations
    assert claims(claimed) == DRAWS["arrivals"]


def test_jobs_of_another_mix_are_claimed() -> None:
    """The file whose jobs are all small, of a mix of three large ones to a small one."""
    if not FALSE_CLAIMS.exists():
        pytest.skip(f"no {FALSE_CLAIMS}")
    problem = read_instance(FALSE_CLAIMS / "a.yaml")
    lie = SOLUTION_FILE.read(FALSE_CLAIMS / "lie.json")
    assert claims(checked(problem, lie)) == DRAWS["arrivals"]
    assert not checked(problem, replace(lie, versions=(("numpy", np.__version__),))).ok
