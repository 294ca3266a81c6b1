"""Execution traces become instances of three kinds: traffic of a topology, a hierarchical workload, or a job."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem
from topoopt.core.workload import GRADIENT_BYTES, Operator, OperatorInput, Split, Workload
from topoopt.formats.astrasim import BLOCKS, dimension_documents, npu_bandwidths, read_network
from topoopt.formats.chakra import CollectiveUse, CommType, TraceContent
from topoopt.formats.chakra.read import read_chakra
from topoopt.formats.chakra.tasks import layers_workload, tasks_workload
from topoopt.formats.importer import (
    DegreeOption,
    Imported,
    Importer,
    LinkOption,
    LinksOption,
    NameOption,
    QueuesOption,
    hierarchical_document,
    job_of_workload,
    name_of,
    require_choice,
    require_positive,
)

BITS_PER_MS_OF_GBPS = 1e6


def compute_ns(content: TraceContent, peak_tflops: float | None) -> tuple[Floats, tuple[str, ...]]:
    """float64[n], compute time of every rank in nanoseconds, and what was assumed.

    Args:
        content: the traces.
        peak_tflops: rate at which compute nodes run that state operations instead of a time, 10^12 a second.
    """
    recorded_ns = content.compute_us.astype(np.float64) * 1000.0
    if not content.operations.any():
        return recorded_ns, ()
    total = f"{content.operations.max():.6g} operations on the busiest rank"
    if peak_tflops is None:
        return recorded_ns, (f"compute nodes without a time ({total}) are not counted: --peak-tflops tells their rate",)
    added: Floats = recorded_ns + content.operations / peak_tflops / 1000.0
    return added, (f"{total} at {peak_tflops:g} TFLOP/s",)


def servers_of(content: TraceContent, ranks_per_server: int) -> int:
    """Number of servers when consecutive ranks share one.

    Raises:
        InputError: the ranks do not fill whole servers, or fit in one.
    """
    n, rest = divmod(content.ranks, ranks_per_server)
    if rest or n < 2:
        allowed = f"a divisor of {content.ranks} less than it"
        raise InputError(
            [
                Problem(
                    "wrong number of ranks in a server",
                    path="--gpus-per-server",
                    value=str(ranks_per_server),
                    allowed=allowed,
                )
            ]
        )
    return n


def between_servers(matrix: Floats, servers: int) -> Floats:
    """float64[servers, servers]: bytes between ranks added up by server, without what stays inside."""
    size = len(matrix) // servers
    folded: Floats = matrix.reshape(servers, size, servers, size).sum(axis=(1, 3))
    np.fill_diagonal(folded, 0.0)
    return folded


def topology_document(name: str, traffic_bytes: Floats, *, degree: int, links: str, link_gbps: float) -> dict[str, Any]:
    """Instance of kind `topology`.

    Demand is in Gbit/s if the iteration took a millisecond (bytes x 8 / 10^6), so theta is the time in milliseconds
    that the busiest link needs for the traffic of one iteration.
    """
    return {
        "schema_version": 1,
        "kind": "topology",
        "name": name,
        "servers": len(traffic_bytes),
        "degree": degree,
        "links": links,
        "link_gbps": link_gbps,
        "demand": {"unit": "gbps", "matrix": (traffic_bytes * 8 / BITS_PER_MS_OF_GBPS).tolist()},
    }


ORDER_NOTE = "the order of the trace is not kept: the demand is that of a whole iteration"
THETA_NOTE = "theta is the time in ms the busiest link needs for one iteration (demand: Gbit/s if it took 1 ms)"


class Algorithm(StrEnum):
    """How a collective is run."""

    RING = "ring"
    DIRECT = "direct"
    HALVING_DOUBLING = "halving-doubling"


SUPPORTED = (
    CommType.ALL_REDUCE,
    CommType.ALL_GATHER,
    CommType.REDUCE_SCATTER,
    CommType.REDUCE_SCATTER_BLOCK,
    CommType.ALL_TO_ALL,
    CommType.BROADCAST,
    CommType.BARRIER,
)


def refuse_unsupported(uses: Iterable[CollectiveUse], file: str) -> None:
    """Raise InputError for collectives whose bytes are not defined here."""
    other = sorted({use.collective for use in uses} - set(SUPPORTED))
    if other:
        named = ", ".join(kind.name for kind in other)
        allowed = ", ".join(kind.name for kind in SUPPORTED)
        raise InputError([Problem("these collectives are not supported", file, None, None, named, allowed)])


def _ring(kind: CommType, s: float, p: int) -> float:
    if kind is CommType.ALL_TO_ALL:
        return (p - 1) / 2 * s
    return {CommType.ALL_REDUCE: 2 * (p - 1) * s / p, CommType.ALL_GATHER: (p - 1) * s}.get(kind, (p - 1) * s / p)


def block(kind: CommType, size_bytes: float, p: int, algorithm: Algorithm) -> Floats:
    """float64[p, p]: bytes from member to member of one call.

    Raises:
        InputError: halving-doubling among a number of ranks that is no power of two.
    """
    out, here = np.zeros((p, p)), np.arange(p)
    if p == 1 or kind is CommType.BARRIER:
        return out
    if kind is CommType.BROADCAST:  # the root is the first member
        if algorithm is Algorithm.DIRECT:
            out[0, 1:] = size_bytes
        else:
            out[here[:-1], here[1:]] = size_bytes
        return out
    if algorithm is Algorithm.RING:
        out[here, (here + 1) % p] = _ring(kind, size_bytes, p)
    elif algorithm is Algorithm.DIRECT or kind is CommType.ALL_TO_ALL:
        out[:] = {CommType.ALL_REDUCE: 2 * size_bytes / p, CommType.ALL_GATHER: size_bytes}.get(kind, size_bytes / p)
    else:
        if p & (p - 1):
            message = "halving-doubling needs groups of a power of two"
            raise InputError([Problem(message, path="--algorithm", value=f"a group of {p}", allowed="ring, direct")])
        whole = {CommType.ALL_REDUCE: 2 * size_bytes, CommType.ALL_GATHER: size_bytes * p}.get(kind, size_bytes)
        for k in range(p.bit_length() - 1):
            out[here, here ^ (1 << k)] = whole / 2 ** (k + 1)
    np.fill_diagonal(out, 0.0)
    return out


def traffic_matrix(
    content: TraceContent, algorithm: Algorithm = Algorithm.RING, all_to_all: Algorithm = Algorithm.DIRECT
) -> Floats:
    """float64[n, n]: bytes of one iteration from rank to rank; every rank's own calls count what it sends.

    Raises:
        InputError: as `block`.
    """
    demand = content.sent_bytes.astype(np.float64)
    for use in content.uses:
        chosen = all_to_all if use.collective is CommType.ALL_TO_ALL else algorithm
        members = np.array(use.members)
        sent = block(use.collective, float(use.size_bytes), len(members), chosen)
        demand[np.ix_(members, members)] += sent * np.array(use.calls)[:, None]
    return demand


MAX_TENSORS = 200
"""All-reduces of one group kept apart; more are added up."""

Servers = tuple[int, ...]


class _Traffic:
    def __init__(self) -> None:
        self.reduced: dict[Servers, list[float]] = defaultdict(list)
        self.exchanged: dict[Servers, float] = defaultdict(float)
        self.local = self.converted = False
        self.problems: list[Problem] = []

    def add(self, use: CollectiveUse, n: int, per_server: int) -> None:
        servers, ranks = np.unique(np.array(use.members) // per_server, return_counts=True)
        k, calls = len(servers), max(use.calls)
        if use.collective is CommType.BARRIER or not use.size_bytes or not calls:
            return
        if k == 1:
            self.local = self.local or len(use.members) > 1
            return
        shown = str(use.members[:12])[:-1] + (", ...)" if len(use.members) > 12 else ")")
        if ranks.min() != ranks.max():
            self.problems.append(
                Problem("a group with unequal parts in its servers", value=shown, allowed="equal parts")
            )
        elif n % k or servers.tolist() != list(range(int(servers[0]), n, n // k)):
            allowed = "groups of evenly spaced servers (--gpus-per-server puts ranks together), or --as topology"
            self.problems.append(Problem("a group this kind has no split for", value=shown, allowed=allowed))
        else:
            self._count(use, tuple(servers.tolist()), int(ranks[0]), calls)

    def _count(self, use: CollectiveUse, servers: Servers, ranks: int, calls: int) -> None:
        size = float(use.size_bytes)
        if use.collective is CommType.ALL_TO_ALL:
            self.exchanged[servers] += calls * size * ranks
            return
        self.converted = self.converted or use.collective is not CommType.ALL_REDUCE
        payload = {CommType.ALL_REDUCE: size, CommType.ALL_GATHER: size * len(use.members) / 2}
        self.reduced[servers] += [payload.get(use.collective, size / 2)] * calls


def _split(degree: int, ms: float, channels: int = 1) -> tuple[Split, ...]:
    return (Split(degree, ms, 0.0, 0, channel_ways=channels),)


def workload_of_trace(
    content: TraceContent, ranks_per_server: int, compute_ms: float
) -> tuple[Workload, tuple[str, ...]]:
    """Workload whose operators sit where the trace has them, and what was assumed to make it.

    Args:
        content: the traces.
        ranks_per_server: consecutive ranks that share a server.
        compute_ms: compute time of an iteration on one server.

    Raises:
        InputError: groups that are not evenly spaced servers, one-way messages between ranks.
    """
    n = servers_of(content, ranks_per_server)
    traffic = _Traffic()
    for use in content.uses:
        traffic.add(use, n, ranks_per_server)
    sent = between_servers(content.sent_bytes.astype(np.float64), n)
    if not np.array_equal(sent, sent.T):
        i, j = (int(end) for end in np.argwhere(sent != sent.T)[0])
        message = "messages one way only: this kind sends as much back in the backward pass"
        shown = f"{sent[i, j]:.0f} bytes from server {i} to {j}, {sent[j, i]:.0f} back"
        traffic.problems.append(Problem(message, value=shown, allowed="--as topology"))
    if traffic.problems:
        hidden = len(traffic.problems) - 20
        more = [Problem(f"{hidden} further groups")] if hidden > 0 else []
        raise InputError([*traffic.problems[:20], *more])
    operators, notes = _operators(traffic, sent, n, compute_ms)
    return Workload(content.name[:200] or "trace", _samples(traffic, n), operators), notes


def _samples(traffic: _Traffic, n: int) -> int:
    return math.lcm(n, *(len(group) for group in (*traffic.reduced, *traffic.exchanged)))


def _shares(traffic: _Traffic) -> dict[tuple[str, int], float]:
    """Share of the compute time of every class of operators: as its share of the bytes."""
    volume: dict[tuple[str, int], float] = defaultdict(float)
    for group, payloads in traffic.reduced.items():
        volume["reduce", len(group)] += sum(payloads) * len(group)
    for group, size in traffic.exchanged.items():
        volume["exchange", len(group)] += size * len(group)
    whole = sum(volume.values())
    return {key: amount / whole for key, amount in volume.items()}


def _operators(
    traffic: _Traffic, sent: Floats, n: int, compute_ms: float
) -> tuple[tuple[Operator, ...], tuple[str, ...]]:
    samples, shares = _samples(traffic, n), _shares(traffic)
    notes = ["compute is placed before the communication of its group; the order of the trace is not kept"]
    made: list[Operator] = []
    if not shares:
        made.append(
            Operator("compute", "compute", 1, 1, (), (), _split(n, compute_ms), locally_reduced=False, pinned_offset=0)
        )
    elif len(shares) > 1:
        notes.append("compute is divided over the kinds of groups in proportion to their bytes")
    for group, apart in sorted(traffic.reduced.items()):
        if len(apart) > MAX_TENSORS:
            notes.append(f"{len(apart)} all-reduces of one group are added up to one")
        payloads = [sum(apart)] if len(apart) > MAX_TENSORS else apart
        weights = tuple(math.ceil(payload / GRADIENT_BYTES) for payload in payloads)
        time = _split(len(group), shares["reduce", len(group)] * compute_ms)
        name = f"all-reduce {len(group)} from {group[0]}"
        made.append(Operator(name, "reduce", 1, 1, weights, (), time, locally_reduced=False, pinned_offset=group[0]))
    for group, size in sorted(traffic.exchanged.items()):
        k = len(group)
        # Each of the k x k cells of samples x channels goes one way forward and is mirrored backward.
        channels = k * math.ceil(size / (2 * samples))
        time = _split(k, shares["exchange", k] * compute_ms)
        name = f"all-to-all {k} from {group[0]}"
        made.append(Operator(f"{name}: sent", "exchange", channels, 1, (), (), time, pinned_offset=group[0]))
        edge = (OperatorInput(len(made) - 1),)
        halves = _split(1, 0.0, k)
        made.append(
            Operator(
                f"{name}: received",
                "exchange",
                channels,
                1,
                (),
                edge,
                halves,
                mixes_channels=False,
                pinned_offset=group[0],
            )
        )
    for i, j in np.argwhere(np.triu(sent) > 0).tolist():
        size = math.ceil(sent[i, j] / samples)
        made.append(Operator(f"messages {i}-{j}: sent", "message", size, 1, (), (), _split(1, 0.0), pinned_offset=i))
        edge = (OperatorInput(len(made) - 1),)
        made.append(
            Operator(f"messages {i}-{j}: received", "message", size, 1, (), edge, _split(1, 0.0), pinned_offset=j)
        )
    if traffic.local:
        notes.append("collectives inside one server are left out")
    if traffic.converted:
        notes.append("all-gathers, reduce-scatters and broadcasts count as all-reduces that send as many bytes")
    return tuple(made), tuple(notes)


SHOWN_COLLECTIVES = 1000
GROUPS_FILE = "comm_groups.json"


def parse_dims(text: str) -> list[dict[str, Any]]:
    """Dimensions of `ring:16,fully-connected:8,switch:32` as they stand in an instance.

    Raises:
        InputError: another shape of text.
    """
    dimensions, problems = [], []
    for number, part in enumerate(text.split(","), 1):
        block, _, size = part.strip().partition(":")
        if block in BLOCKS.values() and re.fullmatch(r"[0-9]{1,8}", size):
            dimensions.append({"name": f"dim{number}", "block": block, "size": int(size)})
        else:
            allowed = f"BLOCK:SIZE parted by commas, BLOCK one of {', '.join(BLOCKS.values())}"
            problems.append(Problem("not a dimension", None, None, "--dims", ascii(part[:40]), allowed))
    if problems:
        raise InputError(problems)
    return dimensions


def _shape(
    dims: str | None, network: Path | None, total: float | None, queues: int
) -> tuple[list[dict[str, Any]], float, list[str]]:
    """Dimensions and total bandwidth of a hierarchical instance, and what of the network is not used."""
    if (dims is None) == (network is None):
        raise InputError(
            [Problem("this kind needs the dimensions", path="--dims", allowed="--dims or --network, one of them")]
        )
    if network is not None:
        content = read_network(network)
        left_out = [f"{network}: latencies are left out: this kind has none"] if any(content.latency_ns) else []
        return dimension_documents(content), total or sum(npu_bandwidths(content, queues)), left_out
    if total is None:
        raise InputError([Problem("missing", path="--total-gbytes-per-s", allowed="GB/s per NPU over all dimensions")])
    return parse_dims(dims or ""), total, []


Made = tuple[dict[str, Any], Sequence[str], dict[str, Any]]
"""An instance, what was assumed to make it, and figures of its own."""


def _layers(name: str, content: TraceContent, ns: float, dimensions: list[dict[str, Any]], total: float) -> Made:
    sizes = tuple(dimension["size"] for dimension in dimensions)
    workload, notes = layers_workload(content, sizes, ns)
    return hierarchical_document(name, dimensions, total, workload), notes, {}


def _topology(
    name: str,
    content: TraceContent,
    ns: float,
    ranks_per_server: int,
    interfaces: dict[str, Any],
    algorithms: tuple[Algorithm, Algorithm],
) -> Made:
    servers = servers_of(content, ranks_per_server)
    demand = between_servers(traffic_matrix(content, *algorithms), servers)
    left_out = f"this kind has no compute: {ns / 1e6:.6g} ms of the busiest rank are left out"
    notes = [*([left_out] if ns else []), ORDER_NOTE, THETA_NOTE]
    return topology_document(name, demand, **interfaces), notes, {"traffic_bytes": float(demand.sum())}


def _workload(name: str, content: TraceContent, ns: float, ranks_per_server: int, interfaces: dict[str, Any]) -> Made:
    workload, notes = workload_of_trace(content, ranks_per_server, ns / 1e6)
    servers = servers_of(content, ranks_per_server)
    cluster = {"servers": servers, "gpus_per_server": ranks_per_server, **interfaces, "gpu_memory_gib": None}
    return job_of_workload(name, cluster, workload), notes, {}


def _groups_beside(path: Path, given: Path | None) -> tuple[Path | None, list[str]]:
    """The file of process groups: as given, else that of the folder of the traces, if it is there."""
    beside = (path if path.is_dir() else path.parent) / GROUPS_FILE
    if given is not None or not beside.is_file():
        return given, []
    return beside, [f"process groups from {beside}"]


def _summary(content: TraceContent, ns: float) -> dict[str, Any]:
    shown = [
        {
            "collective": use.collective.name.lower().replace("_", "-"),
            "members": list(use.members),
            "bytes": use.size_bytes,
            "calls": max(use.calls),
        }
        for use in content.uses[:SHOWN_COLLECTIVES]
    ]
    return {
        "ranks": content.ranks,
        "nodes": content.nodes,
        "compute_ns": ns,
        "collectives": shown,
        "collectives_total": len(content.uses),
        "point_to_point_bytes": int(content.sent_bytes.sum()),
    }


def import_traces(
    path: Annotated[Path, typer.Argument(help="Folder or prefix of PREFIX.RANK.et files, or one .et file.")],
    kind: Annotated[str, typer.Option("--as", help="co-optimisation, topology or hierarchical-bandwidth.")],
    ranks: Annotated[int | None, typer.Option(help="Number of ranks, for the trace of a single one.")] = None,
    comm_groups: Annotated[
        Path | None, typer.Option(help="JSON file of process groups; default: comm_groups.json beside the traces.")
    ] = None,
    peak_tflops: Annotated[float | None, typer.Option(help="Rate of compute nodes that state operations only.")] = None,
    algorithm: Annotated[str, typer.Option(help="topology: ring, direct or halving-doubling.")] = "ring",
    all_to_all: Annotated[str, typer.Option(help="topology: direct, or ring (relayed).")] = "direct",
    gpus_per_server: Annotated[int, typer.Option(min=1, max=4096, help="Consecutive ranks that share a server.")] = 1,
    degree: DegreeOption = 4,
    link_gbps: LinkOption = 100.0,
    links: LinksOption = "bidirectional",
    dims: Annotated[str | None, typer.Option(help="hierarchical: BLOCK:SIZE,... innermost first.")] = None,
    network: Annotated[Path | None, typer.Option(help="hierarchical: ASTRA-sim network yml in place of dims.")] = None,
    total_gbytes_per_s: Annotated[float | None, typer.Option(help="hierarchical: GB/s per NPU in all.")] = None,
    loop: Annotated[str, typer.Option(help="hierarchical: no-overlap or dag.")] = "no-overlap",
    dependencies: Annotated[str, typer.Option(help="dag: all, or data (control dependencies left out).")] = "all",
    ring_queues: QueuesOption = 1,
    name: NameOption = None,
) -> Imported:
    """Chakra execution traces, one file a rank: traffic, collectives and compute of a job."""
    require_choice("--as", kind, ("co-optimisation", "topology", "hierarchical-bandwidth"))
    require_choice("--algorithm", algorithm, tuple(Algorithm))
    require_choice("--all-to-all", all_to_all, ("direct", "ring"))
    require_choice("--loop", loop, ("no-overlap", "dag"))
    require_choice("--dependencies", dependencies, ("all", "data"))
    for option, value in (
        ("--peak-tflops", peak_tflops),
        ("--link-gbps", link_gbps),
        ("--total-gbytes-per-s", total_gbytes_per_s),
    ):
        require_positive(option, value)
    hierarchical = kind == "hierarchical-bandwidth"
    shape = _shape(dims, network, total_gbytes_per_s, ring_queues) if hierarchical else ([], 0.0, list[str]())
    dimensions, total, left_out = shape
    sizes = tuple(dimension["size"] for dimension in dimensions)
    groups, beside = _groups_beside(path, comm_groups)
    content = read_chakra(path, ranks=ranks, comm_groups=groups, dims=sizes)
    refuse_unsupported(content.uses, str(path))
    per_rank, notes_of_times = compute_ns(content, peak_tflops)
    job = (name or name_of(path), content, float(per_rank.max()))
    interfaces = {"degree": degree, "link_gbps": link_gbps, "links": links}
    if hierarchical and loop == "dag":
        workload, notes_of_kind = tasks_workload(
            path,
            content.name,
            sizes,
            content.ranks,
            comm_groups=groups,
            peak_tflops=peak_tflops,
            control=dependencies == "all",
        )
        figures = {"tasks": len(workload["tasks"])}
        made: Made = hierarchical_document(job[0], dimensions, total, workload), notes_of_kind, figures
    elif hierarchical:
        made = _layers(*job, dimensions, total)
    elif kind == "topology":
        made = _topology(*job, gpus_per_server, interfaces, (Algorithm(algorithm), Algorithm(all_to_all)))
    else:
        made = _workload(*job, gpus_per_server, interfaces)
    line = f"{content.ranks} ranks, {content.nodes} nodes"
    document, notes, figures = made
    notes = (*beside, *left_out, *content.notes, *notes_of_times, *notes)
    return Imported(document, line, {**_summary(content, job[2]), **figures}, notes)


IMPORTER: Importer = import_traces
