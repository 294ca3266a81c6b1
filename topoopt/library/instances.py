"""Instances are made in code from mappings or keywords, in which arrays, frames, graphs and topologies may stand."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from importlib import import_module
from typing import Any

import numpy as np
from pydantic import BaseModel

from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError, Problem
from topoopt.core.topology import Topology
from topoopt.core.workload import Workload
from topoopt.files.documents import Document
from topoopt.files.job_document import cluster_document, workload_document
from topoopt.kinds.files import build_instance


def instance_from_dict(document: Mapping[str, Any]) -> Any:
    """The problem that an instance file with this content states; the inverse of writing it down.

        topoopt.instance_from_dict({"schema_version": 1, "kind": "topology", "name": "all-to-all", "servers": 8,
                                    "degree": 2, "demand": {"family": "uniform"}})

    Args:
        document: keys and values as in a file, or objects that stand for sections (`topoopt.library.instances`).

    Raises:
        InputError: everything that is wrong, with path, value and what is allowed.
    """
    plain = _Plain()
    data = plain.of(document)
    plain.refuse()
    problem = build_instance(Document("", data, lambda _: {}))
    if not plain.labels:
        return problem
    named = ", ".join(f"{number} = {label}" for number, label in enumerate(plain.labels))
    return replace(problem, notes=(*problem.notes, f"servers are numbered in the order of their labels: {named}"))


def problem_of(instance: Any) -> Any:
    """The problem that an instance states, made by keywords: `topoopt.AllocationInstance(link_gbps=100, ...)`.

    A problem is returned as it is. Everything that an instance file may say, and the same objects as in
    `instance_from_dict`, may stand in the fields; nothing is checked before this call.

    Raises:
        InputError: everything that is wrong, by field.
    """
    if not hasattr(instance, "schema_version"):
        return instance
    return instance_from_dict(
        {f.name: value for f in fields(instance) if (value := getattr(instance, f.name)) is not None}
    )


@dataclass
class _Plain:
    """Makes plain data, and keeps the labels of servers that were given on the way.

    Attributes:
        labels: of the servers in their order, from a data frame or a graph; empty where they are just numbers.
    """

    labels: tuple[str, ...] = ()
    problems: list[Problem] = field(default_factory=list)

    def of(self, value: Any, path: str = "") -> Any:
        """The plain data of a value; what it is may depend on the key that it stands at."""
        if isinstance(value, Enum):
            return value.value
        if isinstance(value, BaseModel):
            return value.model_dump(mode="json", exclude_defaults=True)
        if is_dataclass(value) and getattr(value, "__pydantic_config__", None):
            value = {f.name: entry for f in fields(value) if (entry := getattr(value, f.name)) is not None}
        if isinstance(value, Mapping):
            return {str(key): self.of(entry, f"{path}.{key}" if path else str(key)) for key, entry in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.of(entry, f"{path}[{index}]") for index, entry in enumerate(value)]
        if isinstance(value, Topology):
            return _links(value)
        if isinstance(value, Cluster):
            return cluster_document(value)
        if isinstance(value, Workload):
            return workload_document(value)
        if hasattr(value, "is_directed") and hasattr(value, "nodes"):
            return self._graph(value, path)
        if hasattr(value, "columns") and hasattr(value, "index") and hasattr(value, "to_numpy"):
            return self._frame(value, path)
        if isinstance(value, np.generic):
            return value.item()
        return _matrix(np.asarray(value), path) if hasattr(value, "__array__") else value

    def _graph(self, graph: Any, path: str) -> dict[str, Any]:
        nodes = list(graph.nodes)
        if set(nodes) != set(range(len(nodes))):
            self._label([str(node) for node in nodes], path)
        return _links(Topology.from_networkx(graph))

    def _frame(self, frame: Any, path: str) -> Any:
        """A square table whose rows and columns are the servers, columns in the order of the rows."""
        rows, columns = list(frame.index), list(frame.columns)
        if len(set(rows)) < len(rows) or sorted(map(str, rows)) != sorted(map(str, columns)):
            text, allowed = "rows and columns have different labels", "the same labels, each once, in any order"
            self.problems.append(Problem(text, path=path, value=f"{len(rows)} x {len(columns)}", allowed=allowed))
            return None
        if rows != list(range(len(rows))):
            self._label([str(row) for row in rows], path)
        positions = {str(name): at for at, name in enumerate(columns)}
        order = [positions[str(row)] for row in rows]
        return _matrix(np.asarray(frame.to_numpy())[:, order], path)

    def _label(self, labels: list[str], path: str) -> None:
        """Keep labels of servers; all that are given must be the same."""
        if self.labels and list(self.labels) != labels:
            text, allowed = "servers are labelled otherwise than before", ", ".join(self.labels[:8])
            self.problems.append(Problem(text, path=path, value=", ".join(labels[:8]), allowed=allowed))
        self.labels = tuple(labels)

    def refuse(self) -> None:
        if self.problems:
            raise InputError(self.problems)


def _links(topology: Topology) -> dict[str, Any]:
    units = np.repeat(topology.arcs, topology.multiplicity, axis=0)
    section = {"links": units.tolist(), "servers": topology.servers, "degree": topology.degree}
    if topology.rates is None:
        return section
    rates = np.repeat(topology.rates / topology.multiplicity, topology.multiplicity)
    return {**section, "capacities": rates.tolist()}


def _matrix(array: np.ndarray[Any, Any], path: str) -> Any:
    """A list of rows; where demands stand, a section for each matrix."""
    rows, key = array.tolist(), path.rpartition(".")[2].partition("[")[0]
    if key not in ("demand", "demands") or array.ndim < 2:
        return rows
    return {"matrix": rows} if array.ndim == 2 else [{"matrix": matrix} for matrix in rows]


ALIASES = {
    "job_problem": "CoOptimisationInstance",
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
        if name == "job_problem":
            fields, text = _of_named_model(**fields), f"{text}, with `model` and `operator_times` in `workload`"
        warnings.warn(text, FutureWarning, stacklevel=2)
        return problem_of(getattr(import_module("topoopt"), ALIASES[name])(**fields))

    problem.__name__ = name
    problem.__doc__ = f"The problem of a `topoopt.{ALIASES[name]}`; this name goes with the next release."
    return problem


def _of_named_model(*, workload: Any, device: str = "a100", **fields: Any) -> dict[str, Any]:
    """Keywords of a job whose workload may be the name of a model, with the device of its operator times."""
    if isinstance(workload, str):
        workload = {"model": workload, "operator_times": {"device": device}}
    return {"workload": workload, **fields}
