"""The topology of a solution, and what its links are like."""

from __future__ import annotations

from topoopt.core.job_solution import JobSolution
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.core.network_solution import NetworkSolution
from topoopt.core.topology import Topology
from topoopt.formats.exporter import ExportOptions, refuse

HOP_LATENCY_US = 1.0
"""Where a solution states none."""


def topology_of(solution: JobSolution | NetworkSolution) -> Topology:
    """The links that were found or given."""
    return solution.plan.topology if isinstance(solution, JobSolution) else solution.topology


def written_topology(solution: JobSolution | NetworkSolution | LlmTrainingSolution, options: ExportOptions) -> Topology:
    """The links that are written; those of a language model are given beside its solution.

    Raises:
        InputError: they are not.
    """
    if not isinstance(solution, LlmTrainingSolution):
        return topology_of(solution)
    if options.topology is None:
        raise refuse("no links between servers are given", path="--fabric", allowed="direct-connect, torus-3d")
    return options.topology


def link_of(solution: JobSolution | NetworkSolution, options: ExportOptions) -> tuple[float, float]:
    """Rate of one link, Gbit/s, and latency of a hop, us.

    Raises:
        InputError: the rate is nowhere stated, or stated twice.
    """
    latency, given = options.hop_latency_us, options.link_gbps
    stated = solution.cluster.link_gbps if isinstance(solution, JobSolution) else solution.link_gbps
    if stated is not None and given is not None and given != stated:
        allowed = f"{stated:g}, as the solution says"
        raise refuse("the solution has another rate", path="--link-gbps", value=given, allowed=allowed)
    rate = given if stated is None else stated
    if rate is None:
        raise refuse("the solution does not say the rate of a link", path="--link-gbps", allowed="Gbit/s")
    if latency is None:
        latency = solution.cluster.hop_latency_us if isinstance(solution, JobSolution) else HOP_LATENCY_US
    return rate, latency
