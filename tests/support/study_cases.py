"""Instances and studies for the tests of studies."""

from __future__ import annotations

from typing import Any

LIMITS = {"wall_s": 60, "memory_mib": 1500}


def routing(name: str = "ring", **changes: Any) -> dict[str, Any]:
    """A small instance: uniform demand on a ring of four."""
    return {
        "schema_version": 1,
        "kind": "routing",
        "name": name,
        "topology": {"family": "ring", "servers": 4},
        "demand": {"family": "uniform"},
        **changes,
    }


def study(*groups: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A study of these groups."""
    return {
        "schema_version": 1,
        "kind": "study",
        "name": "tested",
        "instances": list(groups),
        "limits": LIMITS,
        **changes,
    }
