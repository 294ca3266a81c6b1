"""Reader of the files for NCCL: network devices and channels of a node, and the table of rings."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError, Problem
from topoopt.files.untrusted import parsing, read_csv_rows, read_text, read_xml_text

MAX_BYTES = 256 * MIB


def read_nccl(folder: Path) -> dict[str, object]:
    """Names and Mbit/s of the network devices by number, GPUs, device of each channel, rings, traffic class.

    Raises:
        InputError: files that contradict each other or themselves.
    """
    with parsing(str(folder.name), "files for NCCL"):
        system = _xml(folder / "topology.xml")
        devices = {int(net.attrib["dev"]): net for net in system.iter("net")}
        gpus = sorted(int(gpu.attrib["dev"]) for gpu in system.iter("gpu"))
        buses = [pci.attrib["busid"] for pci in system.iter("pci")]
        if sorted(devices) != list(range(len(devices))) or len(set(buses)) < len(buses):
            raise InputError([Problem("devices that are not told apart", file="topology.xml")])
        channels = _channels(folder / "graph.xml", gpus, devices) if (folder / "graph.xml").exists() else ()
        rings, hosts = _rings(folder / "rings.csv")
        if (folder / "rank-order.txt").exists():
            ranks = read_text(folder / "rank-order.txt", MAX_BYTES).split()
            if not any([hosts[server] for server in order] == ranks for _, _, order in rings):
                raise InputError([Problem("the ranks follow no ring", file="rank-order.txt")])
        traffic_class = _traffic_class(folder / "nccl.conf") if (folder / "nccl.conf").exists() else None
    return {
        "nets": tuple((devices[k].attrib["name"], int(devices[k].attrib["speed"])) for k in range(len(devices))),
        "gpus": len(gpus),
        "channels": channels,
        "rings": rings,
        "traffic_class": traffic_class,
    }


def _traffic_class(file: Path) -> int:
    """The traffic class byte of what NCCL sends."""
    name, _, value = read_text(file, MAX_BYTES).strip().partition("=")
    if name != "NCCL_IB_TC" or not value.isdecimal() or int(value) > 255:
        raise InputError([Problem("no traffic class", file=file.name, value=name, allowed="NCCL_IB_TC=0 to 255")])
    return int(value)


def _xml(file: Path) -> ElementTree.Element:
    return ElementTree.fromstring(read_xml_text(file, MAX_BYTES))


def _channels(file: Path, gpus: list[int], devices: dict[int, ElementTree.Element]) -> tuple[int, ...]:
    graph = _xml(file).find("graph")
    if graph is None:
        raise ValueError("no graph")
    found = []
    for channel in graph.findall("channel"):
        kinds = [one.tag for one in channel]
        first, last = (int(channel[at].attrib["dev"]) for at in (0, -1))
        inner = [int(one.attrib["dev"]) for one in channel.findall("gpu")]
        if kinds != ["net", *["gpu"] * len(gpus), "net"] or first != last or sorted(inner) != gpus:
            raise InputError([Problem("a channel that is no ring through the node", file=file.name)])
        if first not in devices:
            raise InputError([Problem("a channel by a device that is not there", file=file.name, value=str(first))])
        found.append(first)
    if int(graph.attrib["nchannels"]) != len(found):
        raise InputError([Problem("another number of channels than it says", file=file.name)])
    return tuple(found)


def _rings(file: Path) -> tuple[tuple[tuple[int, int, tuple[int, ...]], ...], dict[int, str]]:
    orders: dict[tuple[int, int], list[int]] = defaultdict(list)
    hosts: dict[int, str] = {}
    for row in read_csv_rows(file, MAX_BYTES):
        order = orders[int(row["group"]), int(row["channel"])]
        if int(row["position"]) != len(order) or hosts.setdefault(int(row["server"]), row["host"]) != row["host"]:
            raise InputError([Problem("rows out of order, or a server of two names", file=file.name)])
        order.append(int(row["server"]))
    return tuple((*key, tuple(order)) for key, order in orders.items()), hosts
