"""topoopt: network topology, routing, bandwidth and parallelization strategy of machine-learning training clusters.

    import topoopt

    problem = topoopt.read_instance("instances/tiny-6.yaml")  # or topoopt.TopologyInstance(servers=8, degree=2, ...)
    solution = topoopt.solve(problem, seed=1)
    solution.objective.value, solution.bound.value, solution.check.ok

Problems come from files (`read_instance`), mappings (`instance_from_dict`) or arguments (`TopologyInstance(...)`,
`CoOptimisationInstance(...)`, a class for each kind). `solve`, `check`, `evaluate`, `explain`, `report`, `compare`,
`read_solution` and `write_solution` take every kind of problem, or say which they take. A solution is plain data:
`solution.to_dict()`, `solution.tables()`. `model` gives the Pyomo model of an instance, to be changed and solved by
`solve_model`. `Topology` is made of links, arrays and graphs of networkx, and
`topoopt.topologies` has well-known ones. Everything that is wrong with an input is one `InputError`.

Nothing heavy loads with this module: each name does on first use (PEP 562).
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from topoopt.analyses.collective.calls import audit_schedule, collective_bounds, find_topologies
    from topoopt.analyses.replay import replay
    from topoopt.core.cluster import Cluster
    from topoopt.core.errors import CheckError, InfeasibleError, InputError, LimitError, TopooptError
    from topoopt.core.topology import Topology
    from topoopt.core.workload import Placement, Strategy
    from topoopt.kinds.allocation.read import AllocationInstance, TransferSource, TransferStatement
    from topoopt.kinds.collective.read import CollectiveInstance
    from topoopt.kinds.dag_topology.read import DagTopologyInstance
    from topoopt.kinds.files import read_instance, read_solution, write_instance, write_solution
    from topoopt.kinds.hierarchy.read import HierarchicalInstance
    from topoopt.kinds.job.read import CoOptimisationInstance
    from topoopt.kinds.llm_training.schema import LlmTrainingInstance
    from topoopt.kinds.network.read import RoutingInstance, TopologyInstance
    from topoopt.kinds.parallel_circuits.read import ParallelCircuitsInstance
    from topoopt.kinds.placement.read import PlacementInstance
    from topoopt.kinds.regional_circuits.read import RegionalCircuitsInstance
    from topoopt.kinds.shared_cluster.read import SharedClusterInstance
    from topoopt.library import topologies
    from topoopt.library.calls import (
        check,
        evaluate,
        explain,
        instance_from_dict,
        methods,
        model,
        problem_of,
        report,
        solve,
        solve_model,
    )
    from topoopt.library.compare import compare, pipeline_schedules

__version__ = "0.1.0"

_NAMES = {
    "topoopt.analyses.collective.calls": ("audit_schedule", "collective_bounds", "find_topologies"),
    "topoopt.analyses.replay": ("replay",),
    "topoopt.core.cluster": ("Cluster",),
    "topoopt.core.errors": ("CheckError", "InfeasibleError", "InputError", "LimitError", "TopooptError"),
    "topoopt.core.workload": ("Placement", "Strategy"),
    "topoopt.core.topology": ("Topology",),
    "topoopt.kinds.allocation.read": ("AllocationInstance", "TransferSource", "TransferStatement"),
    "topoopt.kinds.collective.read": ("CollectiveInstance",),
    "topoopt.kinds.dag_topology.read": ("DagTopologyInstance",),
    "topoopt.kinds.hierarchy.read": ("HierarchicalInstance",),
    "topoopt.kinds.files": (
        "read_instance",
        "read_solution",
        "write_instance",
        "write_solution",
    ),
    "topoopt.kinds.job.read": ("CoOptimisationInstance",),
    "topoopt.kinds.llm_training.schema": ("LlmTrainingInstance",),
    "topoopt.kinds.network.read": ("RoutingInstance", "TopologyInstance"),
    "topoopt.kinds.parallel_circuits.read": ("ParallelCircuitsInstance",),
    "topoopt.kinds.placement.read": ("PlacementInstance",),
    "topoopt.kinds.regional_circuits.read": ("RegionalCircuitsInstance",),
    "topoopt.kinds.shared_cluster.read": ("SharedClusterInstance",),
    "topoopt.library.calls": (
        "check",
        "evaluate",
        "explain",
        "instance_from_dict",
        "methods",
        "model",
        "problem_of",
        "report",
        "solve",
        "solve_model",
    ),
    "topoopt.library.compare": (
        "compare",
        "pipeline_schedules",
    ),
}
"""Public names by the module they are in."""

_ALIASES = (
    "allocation_problem",
    "collective_problem",
    "hierarchy_problem",
    "job_problem",
    "placement_problem",
    "routing_problem",
    "shared_cluster_problem",
    "topology_problem",
)
"""Names that go with the next release; using one warns."""

_MODULES = {"topologies": "topoopt.library.topologies"}
"""Public modules."""

_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "AllocationInstance",
    "CheckError",
    "Cluster",
    "CoOptimisationInstance",
    "CollectiveInstance",
    "DagTopologyInstance",
    "HierarchicalInstance",
    "InfeasibleError",
    "InputError",
    "LimitError",
    "LlmTrainingInstance",
    "ParallelCircuitsInstance",
    "Placement",
    "PlacementInstance",
    "RegionalCircuitsInstance",
    "RoutingInstance",
    "SharedClusterInstance",
    "Strategy",
    "Topology",
    "TopologyInstance",
    "TopooptError",
    "TransferSource",
    "TransferStatement",
    "__version__",
    "audit_schedule",
    "check",
    "collective_bounds",
    "compare",
    "evaluate",
    "explain",
    "find_topologies",
    "instance_from_dict",
    "methods",
    "model",
    "pipeline_schedules",
    "problem_of",
    "read_instance",
    "read_solution",
    "replay",
    "report",
    "solve",
    "solve_model",
    "topologies",
    "write_instance",
    "write_solution",
]


def __getattr__(name: str) -> object:
    if name in _ALIASES:
        return _import_module("topoopt.library.calls").alias(name)
    if name in _MODULES:
        return _import_module(_MODULES[name])
    if name in _MODULE_OF:
        value: object = getattr(_import_module(_MODULE_OF[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'topoopt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
