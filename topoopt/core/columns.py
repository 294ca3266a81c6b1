"""Results as columns of equal length: what a solution holds in lists of dataclasses, for tables and data frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from topoopt.core.topology import Topology

Columns = Mapping[str, Sequence[Any] | np.ndarray[Any, Any]]


def figures_of(value: object) -> dict[str, list[Any]]:
    """Single numbers, words and flags of a dataclass, and of dataclasses in it, as columns of one row."""
    return {name: [entry] for name, entry in _entries(value) if not isinstance(entry, list)}


def listed(items: Sequence[object]) -> dict[str, list[Any]]:
    """A list of dataclasses of one class as columns; empty for any other list."""
    if not items or not is_dataclass(items[0]) or any(type(item) is not type(items[0]) for item in items):
        return {}
    rows = [dict(_entries(item)) for item in items]
    return {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}


def lists_of(value: object) -> dict[str, dict[str, list[Any]]]:
    """Every list of dataclasses that a dataclass has as a field, by the name of the field."""
    found = {
        field.name: listed(entry)
        for field in fields(value)  # type: ignore[arg-type]
        if isinstance(entry := getattr(value, field.name), tuple)
    }
    return {name: columns for name, columns in found.items() if columns}


def links_of(topology: Topology) -> dict[str, np.ndarray[Any, Any]]:
    """The arcs of a topology: tail, head, how many parallel links, and their capacity where it is not that number."""
    columns = {"tail": topology.arcs[:, 0], "head": topology.arcs[:, 1], "links": topology.multiplicity}
    return columns if topology.rates is None else {**columns, "capacity": topology.rates}


def _entries(value: object, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Fields that fit into a cell: numbers, words, flags, lists of them; those of dataclasses inside with a prefix."""
    for field in fields(value):  # type: ignore[arg-type]
        name, entry = f"{prefix}{field.name}", getattr(value, field.name)
        if is_dataclass(entry) and not isinstance(entry, type):
            yield from _entries(entry, f"{name}_")
        elif isinstance(entry, Enum):
            yield name, entry.value
        elif isinstance(entry, np.generic):
            yield name, entry.item()
        elif entry is None or isinstance(entry, bool | int | float | str):
            yield name, entry
        elif isinstance(entry, tuple) and all(isinstance(part, int | float | str) for part in entry):
            yield name, list(entry)
