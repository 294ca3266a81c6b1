"""What `topoopt cost` counts: the cluster of an instance or a solution file, or one given by its size."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from topoopt.core.errors import InputError, Problem
from topoopt.core.job import CoOptimisation
from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.core.topology import Topology
from topoopt.files.documents import parse_document
from topoopt.files.solution_kind import LIMITS, SUFFIX
from topoopt.kinds.instance_file import build_instance
from topoopt.kinds.job.solution_file import SOLUTION_FILE as PLAN_FILE
from topoopt.kinds.network.solution_file import SOLUTION_FILE as NETWORK_FILE

COSTED = ("co-optimisation", "routing", "topology")
"""Kinds of instances whose network is one of servers with interfaces."""


@dataclass(frozen=True, eq=False)
class Target:
    """A cluster.

    Attributes:
        name: of the instance; empty for a size.
        servers, degree, link_gbps: n, d, B.
        switches: int32[d, n], circuits of a solution, see `Topology`; None: not known.
        solved: whether it is a solution.
    """

    name: str
    servers: int
    degree: int
    link_gbps: float
    switches: NDArray[np.int32] | None = None
    solved: bool = False


def target_of(file: Path | None, servers: int | None, degree: int | None, link_gbps: float | None) -> Target:
    """The cluster of a file, at another rate if one is given; or one of the given size.

    Raises:
        InputError: everything wrong with the file, a kind without a bill, no rate, a size beside a file or half of one.
    """
    sizes = (("--servers", servers), ("--degree", degree))
    if file is None:
        if servers is None or degree is None or link_gbps is None:
            missing = [name for name, value in (*sizes, ("--rate", link_gbps)) if value is None]
            allowed = "a value, or an instance or solution file"
            raise InputError([Problem("missing", path=name, allowed=allowed) for name in missing])
        return Target("", servers, degree, link_gbps)
    beside = [Problem("not beside a file", path=name, value=str(value)) for name, value in sizes if value is not None]
    if beside:
        raise InputError(beside)
    found = _solved(file) or _stated(file)
    name, n, d, own_gbps, switches, solved = found
    gbps = own_gbps if link_gbps is None else link_gbps
    if gbps is None:
        raise InputError([Problem("the file has no rate of links", file=str(file), allowed="--rate, Gbit/s")])
    return Target(name, n, d, gbps, switches, solved)


_Found = tuple[str, int, int, float | None, NDArray[np.int32] | None, bool]


def _solved(file: Path) -> _Found | None:
    """The cluster of a solution; None for any other file."""
    data = parse_document(file, LIMITS).data
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str) or not kind.endswith(SUFFIX):
        return None
    kind = kind.removesuffix(SUFFIX)
    if kind == "co-optimisation":
        plan = PLAN_FILE.read(file)
        cluster = plan.cluster
        return (plan.name, cluster.servers, cluster.degree, cluster.link_gbps, _lit(plan.plan.topology), True)
    if kind in COSTED:
        network = NETWORK_FILE.read(file)
        topology = network.topology
        return (network.name, topology.servers, topology.degree, network.link_gbps, _lit(topology), True)
    raise _no_bill(file, kind)


def _lit(topology: Topology) -> NDArray[np.int32] | None:
    """Circuits, if the solution says which interface takes which."""
    return topology.switches if (topology.switches >= 0).any() or not len(topology.arcs) else None


def _stated(file: Path) -> _Found:
    instance = build_instance(parse_document(file))
    if isinstance(instance, CoOptimisation):
        cluster = instance.cluster
        return (instance.name, cluster.servers, cluster.degree, cluster.link_gbps, None, False)
    if isinstance(instance, TopologyProblem):
        return (instance.name, instance.servers, instance.degree, instance.link_gbps, None, False)
    if isinstance(instance, RoutingProblem):
        topology = instance.topology
        return (instance.name, topology.servers, topology.degree, instance.link_gbps, None, False)
    raise _no_bill(file, instance.kind)


def _no_bill(file: Path, kind: str) -> InputError:
    text = "networks of this kind are not counted"
    return InputError([Problem(text, file=str(file), path="kind", value=kind, allowed=", ".join(COSTED))])
