"""The topology of a solution, and what its links are like."""

from __future__ import annotations

from typing import Any

from topoopt.core.result import Result
from topoopt.core.topology import Topology
from topoopt.formats.exporter import ExportOptions, refuse

HOP_LATENCY_US = 1.0
"""Where a solution states none."""


def topology_of(solution: Result[Any, Any]) -> Topology:
    """The links that were chosen or given.

    Raises:
        InputError: they are those of an instance that is neither in the solution nor beside it.
    """
    owner = solution.plan if solution.kind == "co-optimisation" else solution.figures
    topology: Topology = owner.topology
    return topology


def written_topology(solution: Result[Any, Any], options: ExportOptions) -> Topology:
    """The links that are written; those of a language model are given beside its solution.

    Raises:
        InputError: they are not.
    """
    if solution.kind != "llm-training":
        return topology_of(solution)
    if options.topology is None:
        raise refuse("no links between servers are given", path="--fabric", allowed="direct-connect, torus-3d")
    return options.topology


def link_of(solution: Result[Any, Any], options: ExportOptions) -> tuple[float, float]:
    """Rate of one link, Gbit/s, and latency of a hop, us.

    Raises:
        InputError: the rate is nowhere stated, or stated twice.
    """
    latency, given = options.hop_latency_us, options.link_gbps
    figures = solution.figures
    stated = (figures.cluster if solution.kind == "co-optimisation" else figures.problem).link_gbps
    if stated is not None and given is not None and given != stated:
        allowed = f"{stated:g}, as the solution says"
        raise refuse("the solution has another rate", path="--link-gbps", value=given, allowed=allowed)
    rate = given if stated is None else stated
    if rate is None:
        raise refuse("the solution does not say the rate of a link", path="--link-gbps", allowed="Gbit/s")
    if latency is None:
        latency = figures.cluster.hop_latency_us if solution.kind == "co-optimisation" else HOP_LATENCY_US
    return rate, latency
