"""The smallest shipped instance of every kind, solved once a session."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.support.paths import INSTANCES
from topoopt.kinds import kind_named
from topoopt.kinds.instance_file import read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve

SMALLEST = {
    "co-optimisation": "tiny-4.yaml",
    "hierarchical-bandwidth": "hierarchical/resnet50-3d.yaml",
    "routing": "networks/k4-4.yaml",
    "topology": "networks/uniform-5-2.yaml",
    "allocation": "networks/parking-lot-5.yaml",
    "placement": "placement/branches-3.yaml",
    "shared-cluster": "shared/trace-16.yaml",
}


@cache
def problem_of(kind: str) -> Any:
    """The smallest shipped instance of a kind."""
    return read_instance(INSTANCES / SMALLEST[kind])


@cache
def solution_of(kind: str) -> Any:
    """Solved by the method that is chosen by default, with a small budget where there is one."""
    budget = 20 if kind_named(kind).takes_budget else None
    return solve(problem_of(kind), SolveOptions(budget=budget, seed=1))
