"""The hot loops, in C++20 (`src`): one submodule a unit, bound with nanobind.

Every array is taken as it is or refused: numpy arrays in C order, of the type that the stub names. Long calls release
the interpreter's lock, and end with `Stopped` once the flag that their thread watches is set.
"""

from __future__ import annotations

from . import _native

StopFlag, Stopped = _native.StopFlag, _native.Stopped
circuits = _native.circuits
exact = _native.exact
flows = _native.flows
graph = _native.graph
jobs = _native.jobs
pipeline = _native.pipeline
placement = _native.placement
routing = _native.routing
search = _native.search

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
