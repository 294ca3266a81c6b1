"""An exporter makes whole files of a solution; here is what every exporter takes, gives and shares."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from topoopt.core.cluster import Cluster, HostSetting, LinkSharing
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.errors import InputError, Problem
from topoopt.core.hierarchy import RankProgram
from topoopt.core.llm_training_plan import FabricPlan, PodCircuits
from topoopt.core.result import Result
from topoopt.core.switching import RailTimetable
from topoopt.core.topology import Topology
from topoopt.core.workload import TaskGraph

NOTES_FILE = "NOTES.txt"


@dataclass(frozen=True)
class ExportOptions:
    """What a solution may not say itself.

    Attributes:
        link_gbps: rate of a link, for solutions of network problems.
        hop_latency_us: latency of a link; None: that of the cluster, else 1.
        ring_queues: queues per dimension of ASTRA-sim, 1 or 2.
        hosts: names and addresses of real hosts, for those that are not the default.
        strict: shares of bandwidth are also limits.
        previous: topology that is patched now; None: nothing is.
        fused: steps of MSCCL that receive and send on at once (rcs, rrs, rrcs).
        task_graph: of the instance and the strategy of the solution; None: no instance was given.
        topology: links of a language model's plan, on switches; None: those of the solution.
        program: what ranks of a language model do; None: no instance was given.
        job_graph: one iteration of the solution's plan; None: no instance was given.
        fabric: of a language model whose plan is written; None: that of the solution's own plan.
        timetable: of the circuits of rails; None: the plan has none.
        pods: circuits between pods of a language model; None: the plan has none.
        ranks: of a language model that traces are written of: `stages`, `all`, or numbers.
        against: cables or cross-connects as they are built, which the plan is compared with; None: nothing is.
        gpus_per_server: ranks of a collective that are one host; None: not stated.
        channels: of every line of a tuner's table; None: not stated.
    """

    link_gbps: float | None = None
    hop_latency_us: float | None = None
    ring_queues: int = 1
    hosts: tuple[HostSetting, ...] = ()
    strict: bool = False
    previous: Topology | None = None
    fused: bool = False
    task_graph: TaskGraph | None = None
    topology: Topology | None = None
    program: RankProgram | None = None
    job_graph: DagTopologyProblem | None = None
    fabric: str | None = None
    timetable: RailTimetable | None = None
    pods: PodCircuits | None = None
    ranks: str = "stages"
    against: Path | None = None
    gpus_per_server: int | None = None
    channels: int | None = None


@dataclass(frozen=True)
class Export:
    """Files made of a solution.

    Attributes:
        files: name and content; one file if the exporter makes a single one.
        content: the same as values: what a reader of the files must find, compared with `==`.
        notes: what the target cannot express, and what was assumed.
        figures: what else is worth telling programs, such as differences to what is built.
    """

    files: tuple[tuple[str, bytes], ...]
    content: object
    notes: tuple[str, ...]
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Exporter:
    """One target.

    Attributes:
        kinds: of instances whose solutions it takes.
        makes: what it writes, in words.
        limits: what it cannot express, in words.
        folder: whether it writes a folder, or a single file.
        build: (solution, options) -> files. Raises InputError when this solution cannot be expressed.
        for_instances: kinds whose solved instance it is told of, as it writes more than their solutions state.
        of_table: (file, options) -> files, from a table of measurements (.csv) in place of a solution; None: not so.
        compares: whether it takes `against`.
    """

    kinds: tuple[str, ...]
    makes: str
    limits: tuple[str, ...]
    folder: bool
    build: Callable[[Any, ExportOptions], Export]
    for_instances: tuple[str, ...] = ()
    of_table: Callable[[Path, ExportOptions], Export] | None = None
    compares: bool = False


def refuse(message: str, *, path: str | None = None, value: object = None, allowed: str | None = None) -> InputError:
    """An error about a solution that cannot be exported."""
    return InputError([Problem(message, path=path, value=None if value is None else str(value), allowed=allowed)])


def plain_name(name: str) -> str:
    """A name of a file after one from a solution: no folders, no dots to begin with, not empty."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", name).lstrip("._+-")[:100] or "exported"


def decimal_text(number: float) -> str:
    """Shortest text that reads back as the same number, without an exponent."""
    text = format(Decimal(repr(float(number))), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def json_bytes(document: object) -> bytes:
    return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()


def notes_bytes(title: str, notes: tuple[str, ...]) -> bytes:
    """The file that says what an export leaves out."""
    return "\n".join((title, "", *(f"- {note}" for note in notes), "")).encode()


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
    declared = (figures.cluster if solution.kind == "co-optimisation" else figures.problem).link_gbps
    if declared is not None and given is not None and given != declared:
        allowed = f"{declared:g}, as the solution says"
        raise refuse("the solution has another rate", path="--link-gbps", value=given, allowed=allowed)
    rate = given if declared is None else declared
    if rate is None:
        raise refuse("the solution does not say the rate of a link", path="--link-gbps", allowed="Gbit/s")
    if latency is None:
        latency = figures.cluster.hop_latency_us if solution.kind == "co-optimisation" else HOP_LATENCY_US
    return rate, latency


IN_NCCL = "nothing here sets that; --to nccl-topology writes the traffic class of NCCL (nccl.conf)"


def class_notes(cluster: Cluster, how: str = IN_NCCL) -> tuple[str, ...]:
    """A note that the time of the plan counts on it, and how it is had; none where transfers do not go first."""
    if cluster.link_sharing is not LinkSharing.TRANSFERS_FIRST:
        return ()
    return (f"the time of the plan counts on transfers that go before AllReduces: {how}",)


def plan_on(result: Result[Any, Any], fabric: str | None) -> FabricPlan:
    """Return the plan for a fabric; None: the first one, which is planned for.

    Raises
    ------
    InputError
        The result has none for it.
    """
    plans: dict[str, FabricPlan] = {plan.fabric: plan for plan in result.plan.fabrics}
    if fabric is None:
        return next(iter(plans.values()))
    if fabric not in plans:
        raise refuse("the solution has no plan for it", path="--fabric", value=fabric, allowed=", ".join(plans))
    return plans[fabric]
