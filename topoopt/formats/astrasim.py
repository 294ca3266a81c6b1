"""Topology text of ns-3: ASTRA-sim's first line has three fields, SimAI's six; every link is full duplex. ASTRA-sim 2
takes a product of blocks as analytical network yml, and any other graph as ns-3 text.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from topoopt.core.arrays import MIB
from topoopt.core.errors import Problem, raise_any
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.result import Result
from topoopt.core.topology import Topology
from topoopt.files.documents import load_document
from topoopt.files.issues import Issue, nearest_text, value_text
from topoopt.files.link_attributes import unit_notes
from topoopt.files.reader_fields import FieldTable, noted, used
from topoopt.files.untrusted import read_text, refusal
from topoopt.formats.networks import (
    GBPS_PER_GBYTES,
    CollectiveOption,
    NetworkLink,
    chosen_collective,
    collective_instance,
)
from topoopt.formats.table import (
    NOTES_FILE,
    Export,
    Exporter,
    ExportOptions,
    Imported,
    Importer,
    NameOption,
    QueuesOption,
    decimal_text,
    hierarchical_document,
    json_bytes,
    link_of,
    name_of,
    notes_bytes,
    refuse,
    topology_of,
)

Ns3Link = tuple[int, int, float, float, float]
"""A full-duplex link: source, target, rate in Gbit/s each way, delay in ms, error rate."""


@dataclass(frozen=True)
class Ns3Topology:
    """Nodes 0..nodes-1, of which some are switches; the others are hosts and do not forward."""

    nodes: int
    switches: tuple[int, ...]
    links: tuple[Ns3Link, ...]


def ns3_text(topology: Ns3Topology) -> str:
    """`nodes switches links`, the switches, then `source target rate delay error` of every link."""
    lines = [f"{topology.nodes} {len(topology.switches)} {len(topology.links)}"]
    lines.append(" ".join(str(switch) for switch in topology.switches))
    for source, target, gbps, delay_ms, error_rate in topology.links:
        rate, delay = decimal_text(gbps), decimal_text(delay_ms)
        lines.append(f"{source} {target} {rate}Gbps {delay}ms {decimal_text(error_rate)}")
    return "\n".join(lines) + "\n"


def ns3_of_network(network: RatedNetwork) -> Ns3Topology:
    """Ranks first, then switches; parallel links are one line with the sum of their rates.

    Raises:
        InputError: links of one direction, or of another rate or latency back.
    """
    order = [*network.ranks.tolist(), *np.flatnonzero(network.is_switch).tolist()]
    number = {node: at for at, node in enumerate(order)}
    rows = zip(network.arcs.tolist(), network.gbytes_per_s.tolist(), network.latency_us.tolist(), strict=True)
    given = {(tail, head): (rate, latency) for (tail, head), rate, latency in rows}
    links = []
    for (tail, head), (rate, latency) in given.items():
        if given.get((head, tail)) != (rate, latency):
            shown = f"{network.names[tail]} -> {network.names[head]}"
            raise refuse("a link that is not alike both ways", value=shown, allowed="full-duplex links")
        if number[tail] < number[head]:
            links.append((number[tail], number[head], round(rate * GBPS_PER_GBYTES, 9), latency / 1000, 0.0))
    ranks = len(network.ranks)
    return Ns3Topology(len(order), tuple(range(ranks, len(order))), tuple(sorted(links)))


MAX_TEXT = 256 * MIB
MOST_NODES = 8192
_WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)
_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?"
_RATE = re.compile(rf"({_NUMBER})([KMGT]?)bps", re.ASCII)
_DELAY = re.compile(rf"({_NUMBER})(ns|us|ms|s)", re.ASCII)
GBPS = {"": Fraction(1, 10**9), "K": Fraction(1, 10**6), "M": Fraction(1, 1000), "G": Fraction(1), "T": Fraction(1000)}
US = {"ns": Fraction(1, 1000), "us": Fraction(1), "ms": Fraction(1000), "s": Fraction(10**6)}

NS3_FIELDS: FieldTable = {
    "nodes": used("nodes, from 0; those that are no switches are ranks"),
    "gpus_per_server": used("of SimAI: nodes before the switches are GPUs, so many a server"),
    "nvswitches": used("of SimAI: the first of the switches"),
    "switches": used("how many: other than NVSwitches in SimAI, all in ASTRA-sim"),
    "links": used("how many; must be as many as there are lines of links"),
    "gpu": noted("type of the GPU"),
    "switch ids": used("all switches, in the second line"),
    "source": used("end of a link"),
    "target": used("the other end"),
    "rate": used("with its unit (Gbps), each way"),
    "delay": used("with its unit (ms, us, ns)"),
    "error": noted("rate of errors: links lose nothing here"),
}

Line = tuple[int, list[str]]
"""Number and cells of a line of text."""


@dataclass(frozen=True)
class Ns3Network:
    """A topology text as it was read.

    Attributes:
        nodes: name of each, and whether it is a switch.
        links: full duplex.
        gpus_per_server: of SimAI; 0 in a file of ASTRA-sim.
        nvswitches: how many of the switches are inside servers.
        notes: what was not used.
    """

    nodes: tuple[tuple[str, bool], ...]
    links: tuple[NetworkLink, ...]
    gpus_per_server: int
    nvswitches: int
    notes: tuple[str, ...]


def header_fields(lines: Sequence[Line]) -> int:
    """3 for text of ASTRA-sim, 6 for text of SimAI, 0 for any other file."""
    head = lines[0][1] if len(lines) > 1 else []
    whole = {3: 3, 6: 5}.get(len(head), 0)
    return len(head) if whole and all(_WHOLE.fullmatch(cell) for cell in head[:whole]) else 0


def lines_of(path: str | os.PathLike[str]) -> list[Line]:
    """Lines that are not empty."""
    lines = [(number, raw.split()) for number, raw in enumerate(read_text(path, MAX_TEXT).splitlines(), 1)]
    return [(number, cells) for number, cells in lines if cells]


def read_ns3(path: str | os.PathLike[str], lines: Sequence[Line]) -> Ns3Network:
    """A topology text, of which `header_fields` knows the first line.

    Raises:
        InputError: everything that is wrong with it, counts of the first line among it.
    """
    file, (first, head) = os.fspath(path), lines[0]
    simai = len(head) == 6
    total, *middle, declared_links = map(int, head[:5] if simai else head)
    per_server, nvswitches, others = middle if simai else (0, 0, *middle)
    tool = "SimAI" if simai else "ASTRA-sim"
    problems: list[Problem] = []

    def refuse(message: str, line: int, value: object, allowed: str | None = None) -> None:
        problems.append(Problem(message, file, line, None, value_text(value), allowed))

    second, listed = (lines[1][0], lines[1][1]) if nvswitches + others else (first, [])
    body = lines[2:] if nvswitches + others else lines[1:]
    switches = [int(cell) for cell in listed if _WHOLE.fullmatch(cell)]
    if len(switches) != len(listed) or len(set(switches)) != nvswitches + others:
        text = f"the first line says {nvswitches + others} switches, {len(listed)} are listed"
        refuse(f"topology text of ns-3 ({tool}): {text}", second, " ".join(listed), "an id of each switch, once")
    if not 2 <= total <= MOST_NODES or any(switch >= total for switch in switches):
        refuse("nodes", first, total, f"2 to {MOST_NODES}, more than the id of any switch")
    if len(body) != declared_links:
        text = f"the first line says {declared_links} links, {len(body)} stand in the file"
        line = body[declared_links][0] if len(body) > declared_links else first
        refuse(f"topology text of ns-3 ({tool}): {text}", line, " ".join(head), str(len(body)))
    links: list[NetworkLink] = []
    rates: list[tuple[str, Fraction]] = []
    errors = 0
    for line, cells in body:
        link = _link(cells, total)
        if isinstance(link, str):
            refuse("not a link", line, " ".join(cells), link)
            continue
        links.append(link)
        rates.append((f"line {line}", link.gbytes_per_s * GBPS_PER_GBYTES))
        errors += float(cells[4]) > 0
    joined = {end for link in links for end in (link.tail, link.head)}
    dark = [node for node in range(min(total, MOST_NODES)) if node not in joined]
    if dark and not problems:
        refuse("nodes without a link", first, ", ".join(map(str, dark[:8])), f"links of all {total} nodes")
    ranks = total - len(switches)
    if simai and not problems and (per_server < 1 or ranks % per_server):
        refuse("GPUs do not fill servers", first, f"{ranks} GPUs, {per_server} a server", "a whole number of servers")
    raise_any(problems[:50])
    inside, switch_ids = set(switches[:nvswitches]), set(switches)
    word = "gpu" if simai else "host"
    nodes = tuple(
        (f"{'nvswitch' if node in inside else 'switch' if node in switch_ids else word}{node}", node in switch_ids)
        for node in range(total)
    )
    notes = [f"not used: gpu (the type {value_text(head[5])})"] if simai else []
    if errors:
        notes.append(f"not used: error of {errors} links: links lose nothing here")
    return Ns3Network(nodes, tuple(links), per_server, nvswitches, (*notes, *unit_notes(rates, "Gbit/s")))


def _link(cells: Sequence[str], nodes: int) -> NetworkLink | str:
    """A link, or what is allowed."""
    allowed = "source target 400Gbps 0.0005ms error"
    if len(cells) != 5 or not all(_WHOLE.fullmatch(cell) for cell in cells[:2]):
        return allowed
    rate, delay = _RATE.fullmatch(cells[2]), _DELAY.fullmatch(cells[3])
    if rate is None or delay is None or not re.fullmatch(_NUMBER, cells[4]):
        return allowed
    source, target = int(cells[0]), int(cells[1])
    if source == target or max(source, target) >= nodes:
        return f"two of the nodes 0 to {nodes - 1}"
    gbps, latency = Fraction(rate[1]) * GBPS[rate[2]], Fraction(delay[1]) * US[delay[2]]
    if not Fraction(1, 10**5) <= gbps <= 10**6 or latency > 10**6:
        return "1e-5 to 1e6 Gbit/s, at most 1 s"
    return NetworkLink(source, target, gbps / GBPS_PER_GBYTES, float(latency))


GIB_PER_GB = 1e9 / 2**30
BLOCKS = {"Ring": "ring", "FullyConnected": "fully-connected", "Switch": "switch"}
"""Name of each block there, and in instances of the kind `hierarchical-bandwidth`."""


@dataclass(frozen=True)
class AnalyticalNetwork:
    """A network yml, one entry a dimension, innermost first.

    Attributes:
        topology: building blocks, keys of `BLOCKS`.
        npus_count: sizes, at least 2.
        bandwidth_gib_per_s: of one link and direction.
        latency_ns: of one link.
    """

    topology: tuple[str, ...]
    npus_count: tuple[int, ...]
    bandwidth_gib_per_s: tuple[float, ...]
    latency_ns: tuple[float, ...]


def links_per_npu(block: str, size: int, ring_queues: int = 1) -> int:
    """Links that share the bandwidth of one NPU in a dimension (of a ring: queues in use, 1 or 2)."""
    return {"Ring": ring_queues, "FullyConnected": size - 1}.get(block, 1)


def link_gib_per_s(block: str, size: int, npu_gbytes_per_s: float, ring_queues: int = 1) -> float:
    """Bandwidth of a link as ASTRA-sim counts it, from that of an NPU in 10^9 bytes/s."""
    return npu_gbytes_per_s * GIB_PER_GB / links_per_npu(block, size, ring_queues)


def npu_gbytes_per_s(block: str, size: int, link_gib: float, ring_queues: int = 1) -> float:
    """Inverse of `link_gib_per_s`."""
    return link_gib * links_per_npu(block, size, ring_queues) / GIB_PER_GB


FIELDS: FieldTable = {
    "topology[]": ("used", "blocks, innermost first: Ring, FullyConnected, Switch"),
    "npus_count[]": ("used", "NPUs of each dimension"),
    "bandwidth[]": ("used", "GiB/s of a link; instances divide the sum over the dimensions anew"),
    "latency[]": ("noted", "nanoseconds of a link; instances of this kind have none"),
}
KEYS = tuple(key.removesuffix("[]") for key in FIELDS)
MAX_DIMENSIONS = 12
MAX_NPUS = 2**24


IMPORTED = "analytical network (.yml: topology, npus_count, bandwidth, latency), or topology text of ns-3"
_HTSIM = re.compile(r"\s*(Nodes [0-9]+\s|Tiers [0-9]+\s|Podsize [0-9]+\s)", re.ASCII)


def other_format(path: str | os.PathLike[str]) -> str | None:
    """What another input of ASTRA-sim is called; None for all else."""
    text = read_text(path, MAX_TEXT)
    if fields := header_fields(lines_of(path)):
        return f"topology text of ns-3 ({'SimAI' if fields == 6 else 'ASTRA-sim'}), which has no dimensions,"
    if _HTSIM.match(text):
        return "topology of htsim (.topo: nodes, tiers, podsize)"
    if not text.lstrip().startswith("{"):
        return None
    if '"logical-dims"' in text:
        return "file of logical dimensions for ns-3 (.json), which is no network,"
    keys = ('"scheduling-policy"', '"all-reduce-implementation"', '"active-chunks-per-dimension"')
    return "system configuration of ASTRA-sim (.json)" if any(key in text for key in keys) else None


def read_network(path: str | os.PathLike[str]) -> AnalyticalNetwork:
    """Read a network yml.

    Raises:
        InputError: everything wrong with the file.
    """
    foreign = other_format(path)
    if foreign is not None:
        raise refusal(f"{foreign} is not read here", os.fspath(path), allowed=IMPORTED)
    document = load_document(path)
    data = document.data
    if not isinstance(data, dict) or not set(KEYS) & set(data):
        allowed = f"an analytical network of ASTRA-sim: {', '.join(KEYS)}"
        document.refuse([Issue((), "not such a network", value_text(data), allowed)])
        raise AssertionError("refuse returned with a fault")
    document.refuse(_issues(data))
    return AnalyticalNetwork(
        tuple(data["topology"]),
        tuple(data["npus_count"]),
        tuple(float(value) for value in data["bandwidth"]),
        tuple(float(value) for value in data["latency"]),
    )


def _issues(data: dict[str, Any]) -> list[Issue]:
    issues = [Issue((key,), "unknown key", None, nearest_text(key, KEYS)) for key in data if key not in KEYS]
    issues += [Issue((key,), "missing", None, "a list, one entry a dimension") for key in KEYS if key not in data]
    lengths = {}
    for key in (key for key in KEYS if key in data):
        listed = data[key]
        if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_DIMENSIONS:
            issues.append(
                Issue((key,), "not a list of dimensions", value_text(listed), f"1 to {MAX_DIMENSIONS} entries")
            )
            continue
        lengths[key] = len(listed)
        issues += [_entry_issue(key, index, value) for index, value in enumerate(listed) if not _good(key, value)]
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{key} {length}" for key, length in lengths.items())
        issues.append(Issue((), "lists of different length", shown, "one entry a dimension in each"))
    sizes = data.get("npus_count")
    if not issues and isinstance(sizes, list) and math.prod(sizes) > MAX_NPUS:
        issues.append(Issue(("npus_count",), "too many NPUs", str(math.prod(sizes)), f"at most {MAX_NPUS}"))
    return issues


def _good(key: str, value: object) -> bool:
    if key == "topology":
        return isinstance(value, str) and value in BLOCKS
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if key == "npus_count":
        return isinstance(value, int) and 2 <= value <= MAX_NPUS
    return 0 < value <= 1e9 if key == "bandwidth" else 0 <= value <= 1e12


def _entry_issue(key: str, index: int, value: object) -> Issue:
    allowed = {
        "topology": nearest_text(value, BLOCKS),
        "npus_count": f"a whole number 2 to {MAX_NPUS}",
        "bandwidth": "a positive number of GiB/s",
        "latency": "a number of nanoseconds, not negative",
    }[key]
    return Issue((key, index), "not usable", value_text(value), allowed)


def dimension_documents(network: AnalyticalNetwork) -> list[dict[str, Any]]:
    """Dimensions as they stand in an instance of kind `hierarchical-bandwidth`."""
    return [
        {"name": f"dim{number}", "block": BLOCKS[block], "size": size}
        for number, (block, size) in enumerate(zip(network.topology, network.npus_count, strict=True), 1)
    ]


def npu_bandwidths(network: AnalyticalNetwork, ring_queues: int = 1) -> tuple[float, ...]:
    """GB/s (10^9 bytes/s) per NPU in every dimension."""
    rows = zip(network.topology, network.npus_count, network.bandwidth_gib_per_s, strict=True)
    return tuple(npu_gbytes_per_s(block, size, link, ring_queues) for block, size, link in rows)


def import_network(
    file: Annotated[
        Path, typer.Argument(help="Analytical network yml of ASTRA-sim, or topology text of ns-3 (ASTRA-sim, SimAI).")
    ],
    vector_bytes: Annotated[
        int, typer.Option("--bytes", help="The workload: one all-reduce of this size over all NPUs.")
    ] = 1 << 30,
    compute_ns: Annotated[float, typer.Option(min=0, help="Compute time beside it, nanoseconds; of yml.")] = 0.0,
    ring_queues: QueuesOption = 1,
    collective: CollectiveOption = "allreduce",
    name: NameOption = None,
) -> Imported:
    """A network of ASTRA-sim: yml as an instance that divides its bandwidth anew, ns-3 text as a collective on it."""
    lines = lines_of(file)
    if header_fields(lines):
        return _imported_text(file, lines, name or name_of(file), collective, vector_bytes)
    content = read_network(file)
    bandwidth = npu_bandwidths(content, ring_queues)
    phase = {"compute_ns": compute_ns, "collectives": [{"collective": "all-reduce", "bytes": vector_bytes}]}
    workload = {"name": "all-reduce", "layers": [{"name": "iteration", "forward": phase}]}
    document = hierarchical_document(name or name_of(file), dimension_documents(content), sum(bandwidth), workload)
    notes = [
        "bandwidths of the file are GiB/s of a link; here they are GB/s (10^9 bytes/s) of an NPU",
        f"workload: an all-reduce of {vector_bytes:.10g} bytes over all NPUs (the file has none)",
    ]
    if any(content.latency_ns):
        notes.append("latencies are left out: this kind has none")
    outer = enumerate(content.bandwidth_gib_per_s[1:], 2)
    notes += unit_notes(((f"dimension {at}", Fraction(str(rate))) for at, rate in outer), "GB/s")
    summary = {
        "dimensions": document["network"]["dimensions"],
        "bandwidth_gbytes_per_s": list(bandwidth),
        "latency_ns": list(content.latency_ns),
    }
    line = ", ".join(f"{dimension['block']} {dimension['size']}" for dimension in document["network"]["dimensions"])
    return Imported(document, line, summary, tuple(notes))


def _imported_text(file: Path, lines: list[Line], name: str, collective: str, vector_bytes: int) -> Imported:
    network, chosen = read_ns3(file, lines), chosen_collective(collective)
    document = collective_instance(name, network.nodes, network.links, chosen, vector_bytes, str(file))
    ranks = sum(not is_switch for _, is_switch in network.nodes)
    figures = {
        "collective": chosen.value,
        "ranks": ranks,
        "servers": ranks // network.gpus_per_server if network.gpus_per_server else ranks,
        "nvswitches": network.nvswitches,
        "switches": len(network.nodes) - ranks - network.nvswitches,
        "links": len(network.links),
    }
    notes = (f"workload: {chosen.value} of {vector_bytes} bytes over all ranks (the file has none)", *network.notes)
    line = f"{ranks} ranks, {len(network.nodes) - ranks} switches, {len(network.links)} links"
    return Imported(document, line, figures, notes)


IMPORTER: Importer = import_network


ALGORITHMS = {
    "ring": ("ring", "ring"),
    "fully-connected": ("direct", "direct"),
    "switch": ("halvingDoubling", "direct"),
}
"""Algorithm of all-reduce, all-gather and reduce-scatter, and that of all-to-all, on each block."""

RING_ONLY = ("ring", "ring")


def algorithms(block: str, size: int) -> tuple[str, str]:
    """Algorithms on a dimension; halving-doubling needs a power of two, a ring serves any size."""
    reduce, exchange = ALGORITHMS[block]
    return ("ring", exchange) if reduce == "halvingDoubling" and size & (size - 1) else (reduce, exchange)


def system_document(chosen: list[tuple[str, str]]) -> dict[str, Any]:
    """System json for the algorithms of every dimension.

    Many chunks and `localBWAware` come closest to the model of the kind `hierarchical-bandwidth`, in which all
    dimensions work at once and every byte crosses each dimension once each way.
    """
    reduces, exchanges = [chosen_pair for chosen_pair, _ in chosen], [other for _, other in chosen]
    return {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 10,
        "active-chunks-per-dimension": 2,
        "preferred-dataset-splits": 64,
        "all-reduce-implementation": reduces,
        "all-gather-implementation": reduces,
        "reduce-scatter-implementation": reduces,
        "all-to-all-implementation": exchanges,
        "collective-optimization": "localBWAware",
        "local-mem-bw": 1600,
        "boost-mode": 0,
        "roofline-enabled": 0,
        "peak-perf": 900,
    }


HOST_DELAY_MS = 1e-6
"""Between a server and its own switch: 1 ns."""

GRAPH_NOTES = (
    "ns-3 text: links are full duplex, so one-way links cannot be expressed",
    "ns-3 text: routes are shortest paths (ECMP), not those of the plan; rings run in order of rank, not as planned",
    "ns-3 text: server i is host i and a switch n + i that forwards for others, joined at the rate of all its links",
)


def ns3_topology(topology: Topology, link_gbps: float, hop_latency_us: float) -> Ns3Topology:
    """Hosts, their switches and the links between these.

    Raises:
        InputError: links that go one way only, or have rates of their own.
    """
    n = topology.servers
    if topology.rates is not None:
        raise refuse("links with rates of their own cannot be written", allowed="links of one rate, or --to graphml")
    count = np.zeros((n, n), dtype=np.int64)
    count[topology.arcs[:, 0], topology.arcs[:, 1]] = topology.multiplicity
    if not np.array_equal(count, count.T):
        tail, head = (int(end) for end in np.argwhere(count != count.T)[0])
        shown = f"links from server {tail} to {head}: {count[tail, head]}, back: {count[head, tail]}"
        raise refuse(
            "one-way links cannot be expressed", value=shown, allowed="bidirectional topologies, or --to graphml"
        )
    out = count.sum(axis=1).tolist()
    own = [(i, n + i, out[i] * link_gbps, HOST_DELAY_MS, 0.0) for i in range(n)]
    between = [
        (n + i, n + j, link_gbps, hop_latency_us / 1000.0, 0.0)
        for i, j in np.argwhere(np.triu(count) > 0).tolist()
        for _ in range(count[i, j])
    ]
    return Ns3Topology(2 * n, tuple(range(n, 2 * n)), (*own, *between))


def graph_export(solution: Result[Any, Any], options: ExportOptions) -> Export:
    gbps, latency_us = link_of(solution, options)
    topology = topology_of(solution)
    graph = ns3_topology(topology, gbps, latency_us)
    notes = (
        f"links of {gbps:g} Gbit/s, {latency_us:g} us a hop",
        "topology.txt goes into the ns-3 configuration as TOPOLOGY_FILE, the json files on the command line",
        *GRAPH_NOTES,
    )
    files = (
        ("topology.txt", ns3_text(graph).encode()),
        ("logical_topology.json", json_bytes({"logical-dims": [str(topology.servers)]})),
        ("system.json", json_bytes(system_document([RING_ONLY]))),
        (NOTES_FILE, notes_bytes(f"{topology.servers} servers for the ns-3 backend of ASTRA-sim", notes)),
    )
    return Export(files, graph, notes)


def network_export(solution: Result[Any, Any]) -> Export:
    """The network of a collective, with its own rates and latencies."""
    graph = ns3_of_network(solution.figures.problem.network)
    ranks = graph.nodes - len(graph.switches)
    notes = (
        "topology.txt goes into the ns-3 configuration as TOPOLOGY_FILE, the json files on the command line",
        f"ranks are nodes 0 to {ranks - 1}, switches follow; names of nodes are not written",
        "ns-3 text: routes are shortest paths (ECMP), and ASTRA-sim runs its own schedules, not that of the plan",
    )
    files = (
        ("topology.txt", ns3_text(graph).encode()),
        ("logical_topology.json", json_bytes({"logical-dims": [str(ranks)]})),
        ("system.json", json_bytes(system_document([RING_ONLY]))),
        (NOTES_FILE, notes_bytes(f"{ranks} ranks for the ns-3 backend of ASTRA-sim", notes)),
    )
    return Export(files, graph, notes)


LATENCY_NS = 500.0
"""Where no latency is given: the kind has none."""

HIERARCHY_NOTES = (
    "network.yml: bandwidth is GiB/s of one link (1 GB/s of an NPU = 0.9313 GiB/s, over its links in the dimension)",
    "network.yml: prices, constraints and the catalogue of speeds cannot be expressed",
    "network.yml: a group smaller than the cluster runs as one ring unless the trace names involved_dim",
)
_NAMES = {ours: theirs for theirs, ours in BLOCKS.items()}


def analytical_network(
    blocks: Sequence[str],
    sizes: Sequence[int],
    bandwidth_gbytes_per_s: Sequence[float],
    latency_ns: float,
    ring_queues: int = 1,
) -> AnalyticalNetwork:
    """Network yml of a design, innermost dimension first; blocks as in instances."""
    named = tuple(_NAMES[block] for block in blocks)
    rows = zip(named, sizes, bandwidth_gbytes_per_s, strict=True)
    links = tuple(link_gib_per_s(block, size, value, ring_queues) for block, size, value in rows)
    return AnalyticalNetwork(named, tuple(sizes), links, (latency_ns,) * len(named))


def network_text(network: AnalyticalNetwork) -> str:
    """The yml; numbers read back as they are."""

    def row(key: str, values: Sequence[object]) -> str:
        texts = [decimal_text(value) if isinstance(value, float) else str(value) for value in values]
        return f"{key}: [ {', '.join(texts)} ]\n"

    return (
        row("topology", network.topology)
        + row("npus_count", network.npus_count)
        + row("bandwidth", network.bandwidth_gib_per_s)
        + row("latency", network.latency_ns)
    )


def hierarchy_export(result: Result[Any, Any], options: ExportOptions) -> Export:
    latency_ns = LATENCY_NS if options.hop_latency_us is None else options.hop_latency_us * 1000.0
    queues = options.ring_queues
    dimensions = result.figures.dimensions
    blocks, sizes = [row.block.value for row in dimensions], [row.size for row in dimensions]
    network = analytical_network(blocks, sizes, result.plan.bandwidth_gbytes_per_s, latency_ns, queues)
    share = "half " if queues == 2 else ""
    notes = (
        f"latency {latency_ns:g} ns in every dimension, {'assumed' if options.hop_latency_us is None else 'as given'}",
        f"a ring link has {share}the bandwidth of its NPU: run with num-queues-per-dim {queues}",
        *HIERARCHY_NOTES,
    )
    chosen = [algorithms(block, size) for block, size in zip(blocks, sizes, strict=True)]
    files = (
        ("network.yml", network_text(network).encode()),
        ("system.json", json_bytes(system_document(chosen))),
        (NOTES_FILE, notes_bytes(f"{result.name} for the analytical backend of ASTRA-sim", notes)),
    )
    return Export(files, network, notes)


def build(solution: Any, options: ExportOptions) -> Export:
    if solution.kind == "hierarchical-bandwidth":
        return hierarchy_export(solution, options)
    if solution.kind == "collective":
        return network_export(solution)
    return graph_export(solution, options)


EXPORTER = Exporter(
    kinds=("co-optimisation", "collective", "routing", "topology", "hierarchical-bandwidth"),
    makes="hierarchical: network.yml, system.json; others: topology.txt (ns-3), logical_topology.json, system.json",
    limits=(*HIERARCHY_NOTES, *GRAPH_NOTES),
    folder=True,
    build=build,
)
