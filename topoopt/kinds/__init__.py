"""The kinds of problems: one folder each, whose record is loaded on first use."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from topoopt.core.errors import InputError, Problem

if TYPE_CHECKING:
    from topoopt.kinds.kind import Kind

KINDS: Mapping[str, str] = {
    "co-optimisation": "topoopt.kinds.job.record",
    "topology": "topoopt.kinds.network.record",
    "routing": "topoopt.kinds.network.record",
    "allocation": "topoopt.kinds.allocation.record",
    "hierarchical-bandwidth": "topoopt.kinds.hierarchy.record",
    "placement": "topoopt.kinds.placement.record",
    "shared-cluster": "topoopt.kinds.shared_cluster.record",
    "collective": "topoopt.kinds.collective.record",
    "llm-training": "topoopt.kinds.llm_training.record",
    "dag-topology": "topoopt.kinds.dag_topology.record",
    "regional-circuits": "topoopt.kinds.regional_circuits.record",
}
"""Module of each kind, in the order in which all lists name them; its constant `RECORDS` holds the record."""


def kind_named(name: str) -> Kind:
    """The record of a kind.

    Raises:
        InputError: no such kind.
    """
    if name not in KINDS:
        raise InputError([Problem("no such kind", path="kind", value=repr(name), allowed=", ".join(KINDS))])
    records: tuple[Kind, ...] = importlib.import_module(KINDS[name]).RECORDS
    return next(record for record in records if record.name == name)


def kind_of(thing: object) -> Kind:
    """The record of the kind that a problem or a solution is of.

    Raises:
        InputError: neither a problem nor a solution.
    """
    name = getattr(thing, "kind", None)
    if not isinstance(name, str):
        raise InputError([Problem("neither an instance nor a solution", value=type(thing).__name__)])
    return kind_named(name)
