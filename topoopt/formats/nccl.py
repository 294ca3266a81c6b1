"""NCCL can be told of a plan: the interfaces of a server, the channel of each ring, and the order of the ranks."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import quoteattr

from topoopt.core.cluster import LinkSharing
from topoopt.core.result import Result
from topoopt.core.topology import Topology
from topoopt.core.workload import GroupRings, Ring
from topoopt.formats.hosts import named_servers
from topoopt.formats.table import NOTES_FILE, Export, Exporter, ExportOptions, class_notes, notes_bytes, refuse

RING_PATTERN = 4
"""NCCL_TOPO_PATTERN_RING."""

LAST_CLASS = 8 << 2
"""Traffic class byte of differentiated services code point CS1, which is for traffic that yields (RFC 3662)."""

LAST_WORDS = (
    "nccl.conf (NCCL_CONF_FILE) puts what NCCL sends into traffic class CS1, which the interfaces must serve last, by "
    "strict priority"
)

GPU_SM = 80
LINK_WIDTH, LINK_SPEED = 16, "16.0 GT/s PCIe"


def interface_of(ring: Ring, topology: Topology) -> int | None:
    """The interface by which all servers of a ring send to the next one; None if they differ."""
    shared: set[int] | None = None
    for path in ring.paths:
        ports = {port for port in range(topology.degree) if int(topology.switches[port, path[0]]) == path[1]}
        shared = ports if shared is None else shared & ports
    return min(shared) if shared else None


def _topology_xml(names: list[str], gbps: float, gpus: int) -> str:
    lines = ['<system version="1">', '  <cpu numaid="0" affinity="ffffffff,ffffffff" arch="x86_64" vendor="" '
             'familyid="0" modelid="0">']  # fmt: skip
    speed = f'link_speed="{LINK_SPEED}" link_width="{LINK_WIDTH}"'
    for gpu in range(gpus):
        lines += [
            f'    <pci busid="0000:{16 + gpu:02x}:00.0" class="0x030200" {speed}>',
            f'      <gpu dev="{gpu}" sm="{GPU_SM}" gdr="1"/>',
            "    </pci>",
        ]
    for number, name in enumerate(names):
        lines += [
            f'    <pci busid="0000:{128 + number:02x}:00.0" class="0x020000" {speed}>',
            "      <nic>",
            f'        <net name={quoteattr(name)} dev="{number}" speed="{round(gbps * 1000)}" port="1" '
            f'guid="0x{number + 1:x}" maxconn="131072" gdr="1"/>',
            "      </nic>",
            "    </pci>",
        ]
    return "\n".join([*lines, "  </cpu>", "</system>"]) + "\n"


def _graph_xml(channels: list[int], gbps: float, gpus: int) -> str:
    """A ring channel for each ring: in by its interface, over all GPUs, out by the same interface."""
    lines = [
        '<graphs version="1">',
        f'  <graph id="0" pattern="{RING_PATTERN}" crossnic="0" nchannels="{len(channels)}" speedintra="{gbps / 8:g}" '
        f'speedinter="{gbps / 8:g}" latencyinter="0" typeintra="SYS" typeinter="SYS" samechannels="0">',
    ]
    for port in channels:
        lines += ["    <channel>", f'      <net dev="{port}"/>']
        lines += [f'      <gpu dev="{gpu}"/>' for gpu in range(gpus)]
        lines += [f'      <net dev="{port}"/>', "    </channel>"]
    return "\n".join([*lines, "  </graph>", "</graphs>"]) + "\n"


def whole_group(solution: Result[Any, Any]) -> GroupRings | None:
    n = solution.plan.topology.servers
    return next((group for group in solution.plan.rings if len(group.members) == n), None)


def build(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """Files of one node, and the order of every ring.

    Raises:
        InputError: no rings, schedules instead of them, interfaces of servers that are called differently.
    """
    solution.plan.require_rings("NCCL files")
    topology, cluster = solution.plan.topology, solution.figures.cluster
    groups = [group for group in solution.plan.rings if len(group.members) > 1]
    if not groups:
        raise refuse("the plan has no AllReduce", allowed="a plan with rings")
    hosts = named_servers(topology, options.hosts, cluster.link_gbps)
    names = [link.interface for link in hosts[0].links]
    other = next((host for host in hosts if [link.interface for link in host.links] != names), None)
    if other is not None:
        message = f"one file serves all nodes, and {other.name} calls its interfaces otherwise than {hosts[0].name}"
        raise refuse(message, path="--set hosts", allowed="the same names of interfaces on every host")
    last = LAST_CLASS if cluster.link_sharing is LinkSharing.TRANSFERS_FIRST else None
    notes = [*EXPORTER.limits, *class_notes(cluster, LAST_WORDS)]
    rows = ["group,channel,share,interface,position,server,host"]
    rings: list[tuple[int, int, tuple[int, ...]]] = []
    for number, group in enumerate(groups):
        for channel, ring in enumerate(group.rings):
            port = interface_of(ring, topology)
            word = "" if port is None else names[port]
            rings.append((number, channel, ring.order))
            rows += [
                f"{number},{channel},{ring.share!r},{word},{index},{server},{hosts[server].name}"
                for index, server in enumerate(ring.order)
            ]
    files = [("topology.xml", _topology_xml(names, cluster.link_gbps, cluster.gpus_per_server).encode())]
    channels: list[int] = []
    whole = whole_group(solution)
    if whole is None:
        notes.append("no AllReduce of all servers: no graph file and no rank order")
    else:
        ports = [interface_of(ring, topology) for ring in whole.rings]
        channels = [port for port in ports if port is not None]
        if len(channels) < len(ports):
            channels = []
            notes.append(
                "some ring leaves servers by different interfaces: a graph file cannot say so, none is written"
            )
        else:
            files.append(("graph.xml", _graph_xml(channels, cluster.link_gbps, cluster.gpus_per_server).encode()))
        order = [hosts[server].name for server in whole.rings[0].order]
        files.append(("rank-order.txt", ("\n".join(order) + "\n").encode()))
    files.append(("rings.csv", ("\n".join(rows) + "\n").encode()))
    if last is not None:
        files.append(("nccl.conf", f"NCCL_IB_TC={last}\n".encode()))
    files.append((NOTES_FILE, notes_bytes("NCCL files of one node, and the rings of the plan", tuple(notes))))
    content = {
        "nets": tuple((name, round(cluster.link_gbps * 1000)) for name in names),
        "gpus": cluster.gpus_per_server,
        "channels": tuple(channels),
        "rings": tuple(rings),
        "traffic_class": last,
    }
    return Export(tuple(files), content, tuple(notes))


EXPORTER = Exporter(
    kinds=("co-optimisation",),
    makes="topology.xml and graph.xml of one node, rings.csv, rank-order.txt for the launcher, nccl.conf where "
    "transfers go first",
    limits=(
        "NCCL takes no ring order between nodes: all its channels visit the nodes by rank. rank-order.txt gives the "
        "order of the first ring; the other rings of rings.csv need MSCCL (--to msccl) or a collective library of "
        "your own",
        "PCI addresses and links inside a node are placeholders: dump yours (NCCL_TOPO_DUMP_FILE), copy the net lines",
        "no route and no forwarding is known to NCCL: --to linux-forwarding sets them in the system",
    ),
    folder=True,
    build=build,
)
