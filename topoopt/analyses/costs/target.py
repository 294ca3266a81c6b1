"""What `topoopt cost` counts: the cluster of an instance or a solution file, or one given by its size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoopt.core.errors import InputError, Problem
from topoopt.core.job import CoOptimisation
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.core.topology import Topology
from topoopt.costs import SAME_BILL
from topoopt.files.documents import parse_document
from topoopt.files.results import KIND_LIMITS, SUFFIX
from topoopt.kinds import kind_named
from topoopt.kinds.files import build_instance
from topoopt.kinds.job import SOLUTION_FILE as PLAN_FILE

COSTED = ("co-optimisation", "routing", "topology", "llm-training")
"""Kinds of instances whose network is one of servers with interfaces."""

BILL_OF = {"fat-tree": "full-fat-tree", **SAME_BILL}
"""Fabrics of language models in training that are counted as another."""


@dataclass(frozen=True, eq=False)
class Target:
    """A cluster.

    Attributes:
        name: of the instance; empty for a size.
        servers, degree, link_gbps: n, d, B.
        switches: int32[d, n], circuits of a solution, see `Topology`; None: not known.
        solved: whether it is a solution.
        optical_interfaces: of the d, those on the optical switch of a region.
        iterations_s: of a language model in training, seconds of an iteration on the fabrics of its solution, by
            their names in the table of counting rules.
        rail_ports: of a server on optical switches of rails; 0: not said.
    """

    name: str
    servers: int
    degree: int
    link_gbps: float
    switches: NDArray[np.int32] | None = None
    solved: bool = False
    iterations_s: Mapping[str, float] = field(default_factory=dict)
    optical_interfaces: int = 0
    rail_ports: int = 0


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
    found, own_gbps = _solved(file) or _stated(file)
    gbps = own_gbps if link_gbps is None else link_gbps
    if gbps is None:
        raise InputError([Problem("the file has no rate of links", file=str(file), allowed="--rate, Gbit/s")])
    return replace(found, link_gbps=gbps, iterations_s=found.iterations_s if gbps == own_gbps else {})


_Found = tuple[Target, float | None]
"""A cluster, and the rate that its file says; None: it says none."""


def _found(
    name: str,
    servers: int,
    degree: int,
    gbps: float | None,
    switches: NDArray[np.int32] | None = None,
    *,
    solved: bool = False,
) -> _Found:
    return Target(name, servers, degree, gbps or 0.0, switches, solved), gbps


def _solved(file: Path) -> _Found | None:
    """The cluster of a solution; None for any other file."""
    data = parse_document(file, KIND_LIMITS).data
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str) or not kind.endswith(SUFFIX):
        return None
    kind = kind.removesuffix(SUFFIX)
    if kind == "co-optimisation":
        plan = PLAN_FILE.read(file)
        cluster = plan.figures.cluster
        lit = _lit(plan.plan.topology)
        return _found(plan.name, cluster.servers, cluster.degree, cluster.link_gbps, lit, solved=True)
    if kind == "llm-training":
        return _trained(file)
    if kind in COSTED:
        network: Any = kind_named(kind).files.solutions.read(file)
        topology, gbps = network.figures.topology, network.figures.problem.link_gbps
        return _found(network.name, topology.servers, topology.degree, gbps, _lit(topology), solved=True)
    raise _no_bill(file, kind)


def _trained(file: Path) -> _Found:
    """The cluster of a language model in training, by the instance that stands in its solution.

    Raises:
        InputError: none stands there.
    """
    result = kind_named("llm-training").files.solutions.read(file)
    if result.problem is None:
        text, allowed = "no instance stands in the solution", "the instance file"
        raise InputError([Problem(text, file=str(file), path="instance", allowed=allowed)])
    times = {BILL_OF.get(row.fabric, row.fabric): row.iteration_time_s for row in result.figures.fabrics}
    found, gbps = _trained_on(result.problem)
    return replace(found, iterations_s=times), gbps


def _trained_on(problem: LlmTrainingProblem) -> _Found:
    cluster = problem.cluster
    found, gbps = _found(problem.name, cluster.servers, cluster.degree, cluster.link_gbps)
    ports = 0 if problem.switching is None else problem.switching.ports * cluster.gpus_per_server
    return replace(found, optical_interfaces=cluster.optical_interfaces, rail_ports=ports), gbps


def _lit(topology: Topology) -> NDArray[np.int32] | None:
    """Circuits, if the solution says which interface takes which."""
    return topology.switches if (topology.switches >= 0).any() or not len(topology.arcs) else None


def _stated(file: Path) -> _Found:
    instance = build_instance(parse_document(file))
    if isinstance(instance, CoOptimisation):
        cluster = instance.cluster
        return _found(instance.name, cluster.servers, cluster.degree, cluster.link_gbps)
    if isinstance(instance, LlmTrainingProblem):
        return _trained_on(instance)
    if isinstance(instance, TopologyProblem):
        return _found(instance.name, instance.servers, instance.degree, instance.link_gbps)
    if isinstance(instance, RoutingProblem):
        topology = instance.topology
        return _found(instance.name, topology.servers, topology.degree, instance.link_gbps)
    raise _no_bill(file, instance.kind)


def _no_bill(file: Path, kind: str) -> InputError:
    text = "networks of this kind are not counted"
    return InputError([Problem(text, file=str(file), path="kind", value=kind, allowed=", ".join(COSTED))])
