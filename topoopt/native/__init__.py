"""The hot loops, in C++20 (`src`): one submodule a unit, bound with nanobind.

Every array is taken as it is or refused: numpy arrays in C order, of the type that the stub names. Long calls release
the interpreter's lock, and end with `Stopped` once the flag that their thread watches is set.
"""

from __future__ import annotations

from topoopt.native._native import (
    StopFlag,
    Stopped,
    circuits,
    exact,
    flows,
    graph,
    jobs,
    pipeline,
    placement,
    routing,
    search,
)

__all__ = [
    "StopFlag",
    "Stopped",
    "circuits",
    "exact",
    "flows",
    "graph",
    "jobs",
    "pipeline",
    "placement",
    "routing",
    "search",
]
