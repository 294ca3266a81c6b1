"""Names of the release before: functions that make problems of keywords. They stay for one release, and warn."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

from topoopt.library.instances import problem_of

ALIASES = {
    "allocation_problem": "AllocationInstance",
    "collective_problem": "CollectiveInstance",
    "hierarchy_problem": "HierarchicalInstance",
    "placement_problem": "PlacementInstance",
    "routing_problem": "RoutingInstance",
    "shared_cluster_problem": "SharedClusterInstance",
    "topology_problem": "TopologyInstance",
}
"""Name of the function -> public class of the instance, which takes the same keywords."""


def alias(name: str) -> Callable[..., Any]:
    """Return a function of the release before."""

    def problem(**fields: Any) -> Any:
        text = f"topoopt.{name}(...) goes with the next release; topoopt.{ALIASES[name]}(...) takes the same keywords"
        warnings.warn(text, FutureWarning, stacklevel=2)
        return problem_of(getattr(import_module("topoopt"), ALIASES[name])(**fields))

    problem.__name__ = name
    problem.__doc__ = f"The problem of a `topoopt.{ALIASES[name]}`; this name goes with the next release."
    return problem
