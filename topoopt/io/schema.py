"""The table of kinds of instance files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from topoopt.core.allocation_problem import AllocationProblem
from topoopt.core.errors import InputError, Problem
from topoopt.core.hierarchy import HierarchicalProblem
from topoopt.core.instance import CoOptimisation
from topoopt.core.network_problem import RoutingProblem, TopologyProblem
from topoopt.core.placement import PlacementProblem
from topoopt.core.robust_network import RobustProblem
from topoopt.core.shared_cluster import SharedCluster
from topoopt.core.shared_load import SharedLoadProblem
from topoopt.io.allocation_instances import read_allocation
from topoopt.io.allocation_schema import AllocationFile
from topoopt.io.co_optimisation import read_co_optimisation
from topoopt.io.co_optimisation_schema import CoOptimisationFile
from topoopt.io.documents import Document
from topoopt.io.faults import nearest_text, value_text
from topoopt.io.hierarchical_instances import read_hierarchical
from topoopt.io.hierarchical_schema import HierarchicalFile
from topoopt.io.network_instances import read_routing, read_topology
from topoopt.io.network_schema import RoutingFile, TopologyFile
from topoopt.io.placement_instances import read_placement
from topoopt.io.placement_schema import PlacementFile
from topoopt.io.price_book_schema import PriceBookFile
from topoopt.io.robust_instances import read_robust_network
from topoopt.io.robust_schema import RobustFile
from topoopt.io.shared_instances import read_shared_cluster
from topoopt.io.shared_load_instances import read_shared_load
from topoopt.io.shared_load_schema import SharedLoadFile
from topoopt.io.shared_schema import SharedClusterFile

Instance = (
    CoOptimisation
    | HierarchicalProblem
    | RoutingProblem
    | TopologyProblem
    | AllocationProblem
    | PlacementProblem
    | SharedLoadProblem
    | SharedCluster
    | RobustProblem
)
"""Union of the domain objects of all kinds."""

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True)
class Kind:
    """One kind of instance file: the shape of the file, and the way from a document to the domain object."""

    model: type[BaseModel]
    read: Callable[[Document], Instance]


KINDS: dict[str, Kind] = {
    "co-optimisation": Kind(CoOptimisationFile, read_co_optimisation),
    "hierarchical-bandwidth": Kind(HierarchicalFile, read_hierarchical),
    "routing": Kind(RoutingFile, read_routing),
    "topology": Kind(TopologyFile, read_topology),
    "allocation": Kind(AllocationFile, read_allocation),
    "placement": Kind(PlacementFile, read_placement),
    "shared-load": Kind(SharedLoadFile, read_shared_load),
    "shared-cluster": Kind(SharedClusterFile, read_shared_cluster),
    "robust-network": Kind(RobustFile, read_robust_network),
}


OTHER_FILES: dict[str, type[BaseModel]] = {"price-book": PriceBookFile}
"""Files that are no instances."""


def json_schema(kind: str | None = None) -> dict[str, Any]:
    """JSON Schema of one kind of file, or of all instances: then one of the kinds.

    Raises:
        InputError: no such kind.
    """
    if kind is None:
        models: list[tuple[type[BaseModel], JsonSchemaMode]]
        models = [(entry.model, "validation") for entry in KINDS.values()]
        references, shared = models_json_schema(models)
        return {"$schema": DIALECT, "oneOf": [references[one] for one in models], **shared}
    if kind in OTHER_FILES:
        return {"$schema": DIALECT, **OTHER_FILES[kind].model_json_schema()}
    if kind not in KINDS:
        allowed = nearest_text(kind, (*KINDS, *OTHER_FILES))
        raise InputError([Problem("no such kind of instance", path="kind", value=value_text(kind), allowed=allowed)])
    return {"$schema": DIALECT, **KINDS[kind].model.model_json_schema()}
