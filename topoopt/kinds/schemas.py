"""The table of kinds of instance files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from topoopt.core.allocation import AllocationProblem
from topoopt.core.errors import InputError, Problem
from topoopt.core.hierarchy import HierarchicalProblem
from topoopt.core.job import CoOptimisation
from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.core.placement import PlacementProblem
from topoopt.core.robust_network import RobustProblem
from topoopt.core.shared_cluster import SharedCluster
from topoopt.files.documents import Document
from topoopt.files.faults import nearest_text, value_text
from topoopt.files.price_book_schema import PriceBookFile
from topoopt.kinds.allocation.read import read_allocation
from topoopt.kinds.allocation.schema import AllocationFile
from topoopt.kinds.hierarchy.read import read_hierarchical
from topoopt.kinds.hierarchy.schema import HierarchicalFile
from topoopt.kinds.job.read import read_co_optimisation
from topoopt.kinds.job.schema import CoOptimisationFile
from topoopt.kinds.network.read import read_routing, read_topology
from topoopt.kinds.network.schema import RoutingFile, TopologyFile
from topoopt.kinds.network.several_demands.read import read_robust_network
from topoopt.kinds.network.several_demands.schema import RobustFile
from topoopt.kinds.placement.read import read_placement
from topoopt.kinds.placement.schema import PlacementFile
from topoopt.kinds.shared_cluster.read import read_shared_cluster
from topoopt.kinds.shared_cluster.schema import SharedClusterFile

Instance = (
    CoOptimisation
    | HierarchicalProblem
    | RoutingProblem
    | TopologyProblem
    | AllocationProblem
    | PlacementProblem
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
