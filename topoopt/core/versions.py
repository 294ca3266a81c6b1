"""Versions of everything that can change a result, for its provenance."""

from __future__ import annotations

import sys
from importlib.metadata import version

PACKAGES = ("topoopt", "numpy", "scipy", "networkx", "highspy", "ortools")


def versions() -> tuple[tuple[str, str], ...]:
    """(name, version) of Python and the packages, in this order."""
    return (("python", sys.version.split()[0]), *((name, version(name)) for name in PACKAGES))


def versions_text() -> str:
    """The same in one line."""
    return ", ".join(f"{name} {version}" for name, version in versions())
