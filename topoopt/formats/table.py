"""Formats of other tools: what importers and exporters are, a line for each, and one for each table of fields."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from topoopt.core.cluster import Cluster, HostSetting, LinkSharing
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.errors import InputError, Problem
from topoopt.core.hierarchy import RankProgram
from topoopt.core.llm_training_plan import FabricPlan, PodCircuits
from topoopt.core.process import PlugIns
from topoopt.core.result import Result
from topoopt.core.switching import RailTimetable
from topoopt.core.topology import Topology
from topoopt.core.workload import TaskGraph, Workload
from topoopt.files.issues import nearest_text, value_text
from topoopt.files.job_document import workload_document
from topoopt.files.reader_fields import FieldTable

EXPORTERS: Mapping[str, Exporter] = PlugIns(
    {
        "astrasim": "topoopt.formats.astrasim:EXPORTER",
        "astrasim-collective": "topoopt.formats.chakra.write:COLLECTIVE_EXPORTER",
        "chakra": "topoopt.formats.chakra.write:EXPORTER",
        "dag": "topoopt.formats.trace:GRAPH_EXPORTER",
        "flexnet-taskgraph": "topoopt.formats.flexnet.write:EXPORTER",
        "graphml": "topoopt.formats.networks:GRAPHML_EXPORTER",
        "infragraph": "topoopt.formats.infragraph:INFRAGRAPH_EXPORTER",
        "kubernetes": "topoopt.formats.inventories:KUBERNETES",
        "linux-forwarding": "topoopt.formats.forwarding:LINUX",
        "megatron": "topoopt.formats.launch:EXPORTER",
        "msccl": "topoopt.formats.msccl.write:EXPORTER",
        "mscclpp": "topoopt.formats.mscclpp:EXPORTER",
        "nccl-topology": "topoopt.formats.nccl:EXPORTER",
        "nccl-tuner": "topoopt.formats.tuner:NCCL_EXPORTER",
        "netbox-cables": "topoopt.formats.inventories:EXPORTER",
        "ovs": "topoopt.formats.forwarding:OVS",
        "patch-list": "topoopt.formats.patch_list:EXPORTER",
        "rccl-tuner": "topoopt.formats.tuner:RCCL_EXPORTER",
        "repetita": "topoopt.formats.networks:REPETITA_EXPORTER",
        "slurm": "topoopt.formats.inventories:SLURM",
        "sndlib": "topoopt.formats.sndlib:SNDLIB_EXPORTER",
        "sonic-ocs": "topoopt.formats.patch_list:SONIC",
        "trace": "topoopt.formats.trace:EXPORTER",
    },
    "topoopt.exporters",
)
"""The targets of `topoopt export`."""


IMPORTERS: Mapping[str, Importer] = PlugIns(
    {
        "flexnet": "topoopt.formats.flexnet.importer:IMPORTER",
        "chakra": "topoopt.formats.chakra.importer:IMPORTER",
        "astrasim-network": "topoopt.formats.astrasim:IMPORTER",
        "libra": "topoopt.formats.libra:IMPORTER",
        "dnn-partitioning": "topoopt.formats.dnn_partitioning:IMPORTER",
        "msccl": "topoopt.formats.schedules:MSCCL",
        "mscclpp": "topoopt.formats.schedules:MSCCLPP",
        "astrasim-collective": "topoopt.formats.schedules:ASTRASIM",
        "infragraph": "topoopt.formats.infragraph:IMPORTER",
        "nccl-topology": "topoopt.formats.nccl_topology:IMPORTER",
        "repetita": "topoopt.formats.networks:REPETITA",
        "sccl": "topoopt.formats.sccl:IMPORTER",
        "sndlib": "topoopt.formats.sndlib:IMPORTER",
        "teccl": "topoopt.formats.teccl:IMPORTER",
        "topology-zoo": "topoopt.formats.networks:ZOO",
    },
    "topoopt.importers",
)
"""The formats of `topoopt import`."""


READERS: Mapping[str, FieldTable] = PlugIns(
    {
        "ASTRA-sim: analytical network": "topoopt.formats.astrasim:FIELDS",
        "ASTRA-sim: custom collective (Chakra)": "topoopt.formats.chakra:COLLECTIVE_FIELDS",
        "Calibration: measured runs": "topoopt.analyses.calibrate:FIELDS",
        "Cables: NetBox, SONiC, LLDP": "topoopt.formats.inventories:FIELDS",
        "Chakra: traces of a job": "topoopt.formats.chakra:FIELDS",
        "Chakra: process groups": "topoopt.formats.chakra.read:GROUP_FIELDS",
        "Demand: table of pairs": "topoopt.files.demand_files:FIELDS",
        "dnn-partitioning: graph": "topoopt.formats.dnn_partitioning:FIELDS",
        "dnn-partitioning: split of an expert": "topoopt.formats.dnn_partitioning:SPLIT_FIELDS",
        "FlexNet: measured profile": "topoopt.files.job_document:FIELDS",
        "FlexNet: task graph": "topoopt.formats.flexnet:FIELDS",
        "ForestColl: trees": "topoopt.formats.sccl:TREE_FIELDS",
        "Hugging Face: config.json": "topoopt.kinds.llm_training.huggingface:TABLE",
        "InfraGraph: infrastructure": "topoopt.formats.infragraph:FIELDS",
        "LIBRA: communicator": "topoopt.formats.libra:COMMUNICATOR_FIELDS",
        "LIBRA: cost model": "topoopt.formats.libra:COST_FIELDS",
        "LIBRA: network": "topoopt.formats.libra:NETWORK_FIELDS",
        "LIBRA: workload": "topoopt.formats.libra:WORKLOAD_FIELDS",
        "MSCCL: algorithm": "topoopt.formats.msccl:FIELDS",
        "MSCCL++: execution plan": "topoopt.formats.mscclpp:FIELDS",
        "NCCL: measured times": "topoopt.formats.tuner:FIELDS",
        "NCCL: topology": "topoopt.formats.nccl_topology:FIELDS",
        "Network: GraphML": "topoopt.files.graph_files:GRAPHML_TABLE",
        "Network: node-link JSON": "topoopt.files.graph_files:NODE_LINK_TABLE",
        "Network: table of links": "topoopt.files.graph_files:COLUMNS_TABLE",
        "Network: nodes and links that carry demand": "topoopt.files.graph_files:LINKS_TABLE",
        "Network: nodes and links of collectives": "topoopt.files.graph_files:RATES_TABLE",
        "ns-3: topology text": "topoopt.formats.astrasim:NS3_FIELDS",
        "REPETITA: network and demands": "topoopt.formats.networks:REPETITA_FIELDS",
        "SCCL: algorithm, imported": "topoopt.formats.sccl:ALGORITHM_FIELDS",
        "SCCL: algorithm, audited": "topoopt.formats.sccl:FIELDS",
        "SCCL: topology": "topoopt.formats.sccl:TOPOLOGY_FIELDS",
        "SNDlib: network": "topoopt.formats.sndlib:FIELDS",
        "SONiC: cross-connects": "topoopt.formats.patch_list:SONIC_FIELDS",
        "Shared cluster: trace of jobs": "topoopt.kinds.shared_cluster.trace:FIELDS",
        "TE-CCL: input": "topoopt.formats.teccl:INPUT_FIELDS",
        "Topology Zoo: network": "topoopt.formats.networks:ZOO_FIELDS",
        "TE-CCL: schedule": "topoopt.formats.teccl:FIELDS",
    }
)
"""What becomes of every field of the files of others: used, noted or refused."""


@dataclass(frozen=True)
class Imported:
    """An instance made of foreign files.

    Attributes:
        document: of the instance.
        line: its size, in words.
        figures: its size and what else was read, for programs.
        notes: what was assumed or left out.
    """

    document: dict[str, Any]
    line: str
    figures: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


Importer = Callable[..., Imported]
"""Raises InputError: everything that is wrong with the files or options."""

NameOption = Annotated[str | None, typer.Option(help="Name of the instance; default: of the file.")]
DegreeOption = Annotated[int, typer.Option(min=1, max=64, help="Optical interfaces per server.")]
LinkOption = Annotated[float, typer.Option(help="Gbit/s of one interface.")]
LinksOption = Annotated[str, typer.Option(help="bidirectional or unidirectional.")]
QueuesOption = Annotated[
    int, typer.Option(min=1, max=2, help="Queues per dimension of ASTRA-sim: a ring runs one way with 1, both with 2.")
]


def require_choice(option: str, value: str, allowed: tuple[str, ...]) -> None:
    """Refuse a value that is none of a few words.

    Raises:
        InputError: it is not.
    """
    if value not in allowed:
        raise InputError(
            [Problem("unknown value", None, None, option, value_text(value), nearest_text(value, allowed))]
        )


def require_positive(option: str, value: float | None) -> None:
    """Refuse an option that is no positive finite number; None is not given.

    Raises:
        InputError: it is not.
    """
    if value is not None and not 0 < value < float("inf"):
        raise InputError([Problem("must be a positive finite number", path=option, value=str(value))])


def name_of(file: Path) -> str:
    """Name of an instance after a file, without what names may not hold."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", file.stem).lstrip("._+-")[:100] or "imported"


def job_of_workload(name: str, cluster: dict[str, Any], workload: Workload) -> dict[str, Any]:
    """Instance document of a job: a cluster, and a workload in full."""
    return {
        "schema_version": 1,
        "kind": "co-optimisation",
        "name": name,
        "cluster": cluster,
        "workload": workload_document(workload),
    }


def hierarchical_document(
    name: str, dimensions: list[dict[str, Any]], total_gbytes_per_s: float, workload: dict[str, Any]
) -> dict[str, Any]:
    """Instance of kind `hierarchical-bandwidth` for one workload."""
    return {
        "schema_version": 1,
        "kind": "hierarchical-bandwidth",
        "name": name,
        "network": {"dimensions": dimensions, "total_gbytes_per_s": total_gbytes_per_s},
        "workloads": [workload],
    }


def imported_job(name: str, cluster: dict[str, Any], workload: Workload) -> Imported:
    """A job with the figures of its workload."""
    figures = {
        "servers": cluster["servers"],
        "operators": len(workload.operators),
        "samples": workload.samples,
        "weight_bytes": workload.weight_bytes,
    }
    line = (
        f"{figures['operators']} operators, {figures['servers']} servers, batch {workload.samples}, "
        f"{workload.weight_bytes / 1e9:.4g} GB of weights"
    )
    return Imported(job_of_workload(name, cluster, workload), line, figures)


def imported_placement(document: dict[str, Any], notes: tuple[str, ...] = ()) -> Imported:
    """A graph to be placed, with its figures."""
    counts = {
        "operators": len(document["operators"]),
        "tensors": len(document["tensors"]),
        "devices": sum(len(server["devices"]) for server in document["servers"]),
        "servers": len(document["servers"]),
    }
    line = ", ".join(f"{count} {what}" for what, count in counts.items())
    return Imported(document, line, {"objective": document["objective"], **counts}, notes)


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

    Raises:
        InputError: the result has none for it.
    """
    plans: dict[str, FabricPlan] = {plan.fabric: plan for plan in result.plan.fabrics}
    if fabric is None:
        return next(iter(plans.values()))
    if fabric not in plans:
        raise refuse("the solution has no plan for it", path="--fabric", value=fabric, allowed=", ".join(plans))
    return plans[fabric]
