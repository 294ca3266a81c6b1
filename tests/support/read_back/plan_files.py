"""Readers of exports that nobody else reads: NCCL's files, patch lists, Megatron-LM's arguments, topologies of ns-3."""

from __future__ import annotations

import csv
import io
import os
import re
from collections import defaultdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError, Problem
from topoopt.files.issues import value_text
from topoopt.files.untrusted import parsing, read_csv_rows, read_text, read_xml_text
from topoopt.formats.astrasim import Line, Ns3Link, Ns3Topology, lines_of
from topoopt.formats.launch import ARGUMENTS_FILE, HOST_FILE, RANKS_FILE
from topoopt.formats.patch_list import Circuit

MAX_BYTES = 256 * MIB
_WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)
_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?"
_RATE = re.compile(rf"({_NUMBER})([KMG]?)bps", re.ASCII)


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
    names_of = []
    for channel in graph.findall("channel"):
        kinds = [child.tag for child in channel]
        first, last = (int(channel[at].attrib["dev"]) for at in (0, -1))
        inner = [int(child.attrib["dev"]) for child in channel.findall("gpu")]
        if kinds != ["net", *["gpu"] * len(gpus), "net"] or first != last or sorted(inner) != gpus:
            raise InputError([Problem("a channel that is no ring through the node", file=file.name)])
        if first not in devices:
            raise InputError([Problem("a channel by a device that is not there", file=file.name, value=str(first))])
        names_of.append(first)
    if int(graph.attrib["nchannels"]) != len(names_of):
        raise InputError([Problem("another number of channels than it says", file=file.name)])
    return tuple(names_of)


def _rings(file: Path) -> tuple[tuple[tuple[int, int, tuple[int, ...]], ...], dict[int, str]]:
    orders: dict[tuple[int, int], list[int]] = defaultdict(list)
    hosts: dict[int, str] = {}
    for row in read_csv_rows(file, MAX_BYTES):
        order = orders[int(row["group"]), int(row["channel"])]
        if int(row["position"]) != len(order) or hosts.setdefault(int(row["server"]), row["host"]) != row["host"]:
            raise InputError([Problem("rows out of order, or a server of two names", file=file.name)])
        order.append(int(row["server"]))
    return tuple((*key, tuple(order)) for key, order in orders.items()), hosts


LINE = re.compile(r"    in +(\d+) -> out +(\d+) {4}(\S+) (\S+) -> (\S+) (\S+)")


SWITCH = re.compile(r"  optical switch (\d+)")


TITLE = re.compile(r"(Circuits|Disconnect|Connect): (\d+)")


def read_patch_list(folder: Path) -> dict[str, frozenset[Circuit]]:
    """Circuits by file (`circuits`, and `disconnect` and `connect` where there are changes).

    Raises:
        InputError: a port used twice, a file and the text for people that differ, changes that do not lead to the
            circuits, or a row that is none.
    """
    by_name = {file.stem: _read_csv(file) for file in sorted(folder.glob("*.csv"))}
    people = _read_text(folder / "patch-list.txt")
    tables = {name: frozenset((row[0], row[1], row[2]) for row in rows) for name, rows in by_name.items()}
    for name, rows in by_name.items():
        if people.get(name, set()) != rows:
            raise InputError([Problem("the text says something else", file=f"{name}.csv")])
    circuits = tables.get("circuits", frozenset())
    for end in (1, 2):
        ports = [(circuit[0], circuit[end]) for circuit in circuits]
        if len(set(ports)) < len(ports):
            raise InputError([Problem("a port of a switch is used twice", file="circuits.csv")])
    if tables.get("disconnect", frozenset()) & circuits or not tables.get("connect", frozenset()) <= circuits:
        raise InputError([Problem("the changes do not lead to the circuits", file="connect.csv")])
    return tables


Row = tuple[int, int, int, str, str, str, str]


def _read_csv(file: Path) -> set[Row]:
    text = read_text(file, MAX_BYTES)
    with parsing(file.name, "a list of circuits"):
        rows = list(csv.reader(text.splitlines(keepends=True)))[1:]
        made = {_row(row[:3], row[3:]) for row in rows}
    if len(made) < len(rows):
        raise InputError([Problem("a circuit more than once", file=file.name)])
    return made


def _row(numbers: list[str], names: list[str]) -> Row:
    switch, into, out = map(int, numbers)
    from_host, from_interface, to_host, to_interface = names
    return switch, into, out, from_host, from_interface, to_host, to_interface


def _read_text(file: Path) -> dict[str, set[Row]]:
    ends_by_port: dict[str, set[Row]] = {}
    counts: dict[str, int] = {}
    title, switch = "", ""
    for line in read_text(file, MAX_BYTES).splitlines():
        if match := TITLE.fullmatch(line):
            title = match[1].lower()
            ends_by_port[title], counts[title] = set(), int(match[2])
        elif match := SWITCH.fullmatch(line):
            switch = match[1]
        elif match := LINE.fullmatch(line):
            ends_by_port[title].add(_row([switch, match[1], match[2]], list(match.groups()[2:])))
        elif line:
            raise InputError([Problem("a line that is none", file=file.name, value=line[:80])])
    if counts != {name: len(rows) for name, rows in ends_by_port.items()}:
        raise InputError([Problem("another number of circuits than it says", file=file.name)])
    return ends_by_port


def read_megatron(folder: Path) -> dict[str, Any]:
    """Arguments by name, hosts with slots, rows of ranks."""
    lines = read_text(folder / ARGUMENTS_FILE, MAX_BYTES).splitlines()
    pairs = [line.partition(" ") for line in lines]
    hosts = [line.split(" slots=") for line in read_text(folder / HOST_FILE, MAX_BYTES).splitlines()]
    rows = list(csv.reader(io.StringIO(read_text(folder / RANKS_FILE, MAX_BYTES))))
    return {
        "arguments": {name: value for name, _, value in pairs},
        "hosts": [(name, int(slots)) for name, slots in hosts],
        "ranks": [tuple(row) for row in rows[1:]],
    }


_DELAY = re.compile(rf"({_NUMBER})(ns|us|ms|s)", re.ASCII)


GBPS = {"": 1e-9, "K": 1e-6, "M": 1e-3, "G": 1.0}


MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}


def read_ns3_topology(path: str | os.PathLike[str]) -> Ns3Topology:
    """Read a topology.

    Raises:
        InputError: every line that is wrong.
    """
    file = os.fspath(path)
    lines = lines_of(file)
    problems: list[Problem] = []

    def wrong(line: Line, message: str, allowed: str) -> None:
        problems.append(Problem(message, file, line[0], None, value_text(" ".join(line[1])), allowed))

    if not lines or len(lines[0][1]) != 3 or not all(_WHOLE.fullmatch(cell) for cell in lines[0][1]):
        allowed = "a first line with the numbers of nodes, switches and links"
        raise InputError([Problem("not a topology of the ns-3 backend", file, allowed=allowed)])
    nodes, switches, links = (int(cell) for cell in lines[0][1])
    body = lines[1:]
    listed = body.pop(0) if switches and body else (1, [])
    marked = tuple(int(cell) for cell in listed[1] if _WHOLE.fullmatch(cell))
    if len(marked) != len(listed[1]) or len(set(marked)) != switches or any(switch >= nodes for switch in marked):
        wrong(listed, "not the list of switches", f"{switches} different numbers less than {nodes}")
    if len(body) != links:
        problems.append(Problem("wrong number of links", file, None, None, str(len(body)), str(links)))
    listed_links = []
    for line in body:
        link = _link(line[1], nodes)
        if link is None:
            wrong(line, "not a link", f"two nodes less than {nodes}, rate (400Gbps), delay (0.0005ms), error rate")
        else:
            listed_links.append(link)
    if problems:
        raise InputError(problems[:50])
    return Ns3Topology(nodes, marked, tuple(listed_links))


def _link(cells: list[str], nodes: int) -> Ns3Link | None:
    if len(cells) != 5 or not all(_WHOLE.fullmatch(cell) for cell in cells[:2]):
        return None
    source, target = int(cells[0]), int(cells[1])
    rate, delay, error = _RATE.fullmatch(cells[2]), _DELAY.fullmatch(cells[3]), re.fullmatch(_NUMBER, cells[4])
    if max(source, target) >= nodes or source == target or rate is None or delay is None or error is None:
        return None
    return source, target, float(rate[1]) * GBPS[rate[2]], float(delay[1]) * MS[delay[2]], float(cells[4])
