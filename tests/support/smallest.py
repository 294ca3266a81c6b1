"""The smallest instances of every kind, solved once a session."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.support import at_once_cases
from tests.support.paths import INSTANCES
from topoopt.kinds import kind_of
from topoopt.kinds.files import read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve

SMALLEST = {
    "co-optimisation": "tiny-4.yaml",
    "hierarchical-bandwidth": "hierarchical/resnet50-3d.yaml",
    "routing": "networks/k4-4.yaml",
    "topology": "networks/uniform-5-2.yaml",
    "topology of several demands": "networks/hot-experts-8.yaml",
    "allocation": "networks/parking-lot-5.yaml",
    "placement": "placement/branches-3.yaml",
    "shared-cluster": "shared/trace-16.yaml",
    "collective": "collectives/ring-5.yaml",
    "llm-training": "llm-training/small-16.yaml",
    "dag-topology": "dag-topology/two-stages.yaml",
    "regional-circuits": "regional-circuits/hot-experts-8.yaml",
    "parallel-circuits": "parallel-circuits/shifts-4.yaml",
    "shared-cluster of jobs at once": None,
}
"""Files by kind; a kind whose instances differ much has one of each sort."""


@cache
def problem_of(case: str) -> Any:
    """The smallest shipped instance of a kind, or one made by hand."""
    file = SMALLEST[case]
    return at_once_cases.read(at_once_cases.instance()) if file is None else read_instance(INSTANCES / file)


@cache
def solution_of(case: str) -> Any:
    """Solved by the method that is chosen by default, with a small budget where there is one."""
    problem = problem_of(case)
    budget = 20 if kind_of(problem).takes_budget else None
    return solve(problem, SolveOptions(budget=budget, seed=1, objective_only=True))
