"""InfraGraph: devices of components, instances of devices, and edges between both, expanded to one graph of links.

Rates of links stand in `physical.bandwidth`. Links that state none take a rate of the setting, or of what their
description names (PCI Express, NVLink), which a note says; else they are refused by name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from topoopt.core.errors import InputError, Problem
from topoopt.core.result import Result
from topoopt.files.documents import load_document
from topoopt.files.issues import Issue, value_text
from topoopt.files.link_attributes import unit_notes
from topoopt.files.reader_fields import FieldTable, noted, notes_of, used
from topoopt.formats.networks import (
    GBPS_PER_GBYTES,
    CollectiveOption,
    NetworkLink,
    VectorOption,
    chosen_collective,
    collective_instance,
    exact,
    parts_of,
)
from topoopt.formats.table import (
    Export,
    Exporter,
    ExportOptions,
    Imported,
    Importer,
    NameOption,
    json_bytes,
    name_of,
    plain_name,
    refuse,
)

WHAT = "an infrastructure of InfraGraph: devices, instances, edges"
MOST_NODES = 8192
KINDS = ("custom", "device", "cpu", "xpu", "nic", "memory", "port", "switch")
_LINK: FieldTable = {
    "name": used("what edges refer to"),
    "description": used("tells PCI Express and NVLink, where no bandwidth is stated"),
    "physical.bandwidth.choice": used("which of the units has the value"),
    "physical.bandwidth.gigabits_per_second": used("rate each way"),
    "physical.bandwidth.gigabytes_per_second": used("rate each way"),
    "physical.bandwidth.gigatransfers_per_second": used("refused: it needs a width"),
    "physical.latency.choice": used("ms, us or ns"),
    "physical.latency.ms": used("latency"),
    "physical.latency.us": used("latency"),
    "physical.latency.ns": used("latency"),
}
_EDGE: FieldTable = {
    "ep1.component": used("component with a slice, as port[0:4]; the end is not in it"),
    "ep2.component": used("the same of the other end"),
    "scheme": used("one2one, many2many or ring"),
    "link": used("name of the link"),
}
FIELDS: FieldTable = {
    "name": used("name of the instance"),
    "description": noted("for people"),
    "devices[].name": used("what instances refer to"),
    "devices[].description": noted("for people"),
    "devices[].components[].name": used("what edges refer to"),
    "devices[].components[].description": noted("for people"),
    "devices[].components[].count": used("how many"),
    "devices[].components[].choice": used("xpu computes; all others forward"),
    "devices[].components[].custom.type": noted("what a custom component is"),
    "devices[].components[].device": noted("a device inside, which is refused"),
    **{f"devices[].links[].{key}": row for key, row in _LINK.items()},
    **{f"devices[].edges[].{key}": row for key, row in _EDGE.items()},
    **{f"links[].{key}": row for key, row in _LINK.items()},
    "instances[].name": used("what edges refer to"),
    "instances[].device": used("which device"),
    "instances[].count": used("how many"),
    "instances[].description": noted("for people"),
    **{f"edges[].{key}": row for key, row in _EDGE.items()},
    "edges[].ep1.instance": used("instance with a slice"),
    "edges[].ep2.instance": used("the same of the other end"),
    "any other": noted("written by other versions"),
}
_NAME = re.compile(r"([^\[\]]+)(?:\[(-?\d*)(:?)(-?\d*)\])?")
PCI_LANE = {3: 1, 4: 2, 5: 4, 6: 8}
"""GB/s of a lane each way, by generation."""

NVLINK_GPU = {3: 300, 4: 450, 5: 900}
"""GB/s of a GPU over all its NVLinks each way, by generation."""


@dataclass(frozen=True)
class Edge:
    """A link between two nodes by number, of a link by name; `device` is where the link is described, or empty."""

    tail: int
    head: int
    link: str
    device: str


@dataclass(frozen=True)
class InfraNode:
    """A component of an instance: its name, kind, instance and device."""

    name: str
    kind: str
    instance: str
    device: str


class _Graph:
    """All nodes and edges of an infrastructure."""

    def __init__(self, data: Mapping[str, Any], issues: list[Issue]) -> None:
        self.nodes: list[InfraNode] = []
        self.edges: list[Edge] = []
        self._issues = issues
        self._devices = {str(device.get("name")): device for device in data.get("devices", ())}
        self._at: dict[tuple[str, int, str], list[int]] = {}
        self._counts: dict[str, int] = {}
        for row, instance in enumerate(data.get("instances", ())):
            self._expand(instance, ("instances", row))
        for row, edge in enumerate(data.get("edges", ())):
            self._join(edge, ("edges", row), None, "")

    def _expand(self, instance: Mapping[str, Any], path: tuple[str | int, ...]) -> None:
        device = self._devices.get(str(instance.get("device")))
        name, count = str(instance.get("name")), instance.get("count", 1)
        size = sum(component.get("count", 1) for component in (device or {}).get("components", ()))
        if device is None or len(self.nodes) + count * size > MOST_NODES:
            allowed = f"one of {', '.join(self._devices)}; at most {MOST_NODES} components in all"
            self._issues.append(Issue(path, "no such device, or too many", value_text(instance), allowed))
            return
        self._counts[name] = count
        for index in range(count):
            for component in device.get("components", ()):
                kind, own = str(component.get("choice")), str(component.get("name"))
                if kind not in KINDS or kind == "device":
                    allowed = ", ".join(k for k in KINDS if k != "device")
                    self._issues.append(Issue(path, f"component {own} is of a kind that is not read", kind, allowed))
                    return
                first = len(self.nodes)
                self.nodes += [
                    InfraNode(f"{name}.{index}.{own}.{at}", kind, f"{name}.{index}", str(device.get("name")))
                    for at in range(component.get("count", 1))
                ]
                self._at[name, index, own] = list(range(first, len(self.nodes)))
            for row, edge in enumerate(device.get("edges", ())):
                self._join(edge, (*path, "device edges", row), (name, index), str(device.get("name")))

    def _join(
        self, edge: Mapping[str, Any], path: tuple[str | int, ...], of: tuple[str, int] | None, device: str
    ) -> None:
        ends = [self._end(edge.get(key) or {}, (*path, key), of) for key in ("ep1", "ep2")]
        scheme, link = edge.get("scheme"), str(edge.get("link"))
        if not ends[0] or not ends[1]:
            return
        if scheme == "many2many":
            pairs = {tuple(sorted((a, b))) for a in ends[0] for b in ends[1] if a != b}
        elif scheme == "one2one" and len(ends[0]) == len(ends[1]):
            pairs = {(a, b) for a, b in zip(*ends, strict=True)}
        elif scheme == "ring" and ends[0] == ends[1] and len(ends[0]) > 1:
            pairs = {tuple(sorted((a, ends[0][at - 1]))) for at, a in enumerate(ends[0])}
        else:
            shown = f"{scheme} of {len(ends[0])} and {len(ends[1])}"
            allowed = "one2one of equal numbers, many2many, or ring of one component with itself"
            self._issues.append(Issue(path, "an edge that cannot be expanded", shown, allowed))
            return
        self.edges += [Edge(a, b, link, device) for a, b in sorted(pairs)]

    def _end(self, end: Mapping[str, Any], path: tuple[str | int, ...], of: tuple[str, int] | None) -> list[int]:
        """Nodes that an end names, in order."""
        if of is None:
            name, indices = self._sliced(end.get("instance"), path, self._counts)
            instances = [(name, index) for index in indices]
        else:
            instances = [of]
        nodes: list[int] = []
        for instance, index in instances:
            sizes = {own: len(at) for (n, i, own), at in self._at.items() if (n, i) == (instance, index)}
            component, chosen = self._sliced(end.get("component"), path, sizes)
            nodes += [self._at[instance, index, component][at] for at in chosen]
        return nodes

    def _sliced(self, text: object, path: tuple[str | int, ...], sizes: Mapping[str, int]) -> tuple[str, Sequence[int]]:
        """A name, and the numbers that its slice picks, as Python does."""
        match = _NAME.fullmatch(str(text))
        if match is None or match[1] not in sizes:
            self._issues.append(Issue(path, "no such name", value_text(text), ", ".join(sizes) or None))
            return "", ()
        size = range(sizes[match[1]])
        if not match[2] and not match[3]:
            return match[1], size
        start, stop = (int(part) if part else None for part in (match[2], match[4]))
        picked = size[start:stop] if match[3] else [number for number in size if number == start]
        if not picked:
            self._issues.append(Issue(path, "nothing is picked", value_text(text), f"0 to {len(size) - 1}"))
        return match[1], picked


def import_infragraph(
    file: Annotated[Path, typer.Argument(help="Infrastructure of InfraGraph (YAML or JSON).")],
    link_gbytes_per_s: Annotated[
        list[str] | None, typer.Option(help="GB/s of a link that states none: link_gbytes_per_s.NAME=RATE.")
    ] = None,
    collective: CollectiveOption = "allreduce",
    vector_bytes: VectorOption = 1 << 30,
    name: NameOption = None,
) -> Imported:
    """An infrastructure of InfraGraph as a collective on its accelerators (xpu), with all that joins them."""
    chosen = chosen_collective(collective)
    document = load_document(file)
    data = document.data if isinstance(document.data, dict) else {}
    if not {"devices", "instances", "edges"} <= data.keys():
        document.refuse([Issue((), f"not {WHAT}", value_text(document.data), "devices, instances and edges")])
    notes = list(notes_of(document, FIELDS, _shape_issues(data)))
    issues: list[Issue] = []
    graph = _Graph(data, issues)
    document.refuse(issues)
    rates = _Rates(data, graph, _declared_rates(link_gbytes_per_s), issues)
    links = rates.links()
    document.refuse(issues)
    nodes, made = _contracted(graph, links)
    instance = collective_instance(
        name or str(data.get("name") or name_of(file)), nodes, made, chosen, vector_bytes, str(file)
    )
    kinds = Counter(node.kind for node in graph.nodes)
    servers = {node.instance for node in graph.nodes if node.kind == "xpu"}
    ends = {pair for edge in graph.edges for pair in ((edge.tail, edge.head), (edge.head, edge.tail))}
    inside = {a for a, b in ends if graph.nodes[a].kind == "switch" and graph.nodes[b].kind == "xpu"}
    fabric = {node.instance for node in graph.nodes} - servers
    outside = [rate for edge, rate, _ in links if edge.device == "" and rate is not None]
    figures = {
        "collective": chosen.value,
        "servers": len(servers),
        "gpus": kinds["xpu"],
        "nics": kinds["nic"],
        "switches_of_gpus": len(inside),
        "switches": len(fabric),
        "nodes": len(graph.nodes),
        "edges": len(graph.edges),
        "network_gbps": sorted({float(rate * GBPS_PER_GBYTES) for rate in outside}),
    }
    notes += [f"workload: {chosen.value} of {vector_bytes} bytes over all xpu (the file has none)", *rates.notes]
    line = f"{len(servers)} servers, {kinds['xpu']} xpu, {kinds['nic']} NICs, {len(fabric)} switches between servers"
    return Imported(instance, line, figures, tuple(notes))


def _declared_rates(given: list[str] | None) -> dict[str, Fraction]:
    """Rates of the setting, by link.

    Raises:
        InputError: a rate that is none.
    """
    rates: dict[str, Fraction] = {}
    for text in given or ():
        link, _, value = text.partition("=")
        rate = exact(value)
        if rate is None or not rate:
            raise InputError([Problem("no rate", path=f"--link-gbytes-per-s.{link}", value=value, allowed="GB/s")])
        rates[link] = rate
    return rates


def _shape_issues(data: Mapping[str, Any]) -> list[Issue]:
    """Sections that are no lists of mappings, counts that are no whole numbers, ends and rates that are no mappings."""
    issues: list[Issue] = []

    def entries(owner: object, key: str, path: tuple[str | int, ...]) -> list[tuple[tuple[str | int, ...], Any]]:
        value = owner.get(key, []) if isinstance(owner, dict) else []
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            issues.append(Issue((*path, key), "not a list of mappings", value_text(value)))
            return []
        return [((*path, key, row), entry) for row, entry in enumerate(value)]

    owners: list[tuple[tuple[str | int, ...], Any]] = [((), data), *entries(data, "devices", ())]
    counted = entries(data, "instances", ())
    for path, owner in owners:
        counted += entries(owner, "components", path) if path else []
        mappings: list[tuple[tuple[str | int, ...], Any, tuple[str, ...]]]
        mappings = [(at, entry, ("ep1", "ep2")) for at, entry in entries(owner, "edges", path)]
        for at, link in entries(owner, "links", path):
            physical = link.get("physical")
            mappings.append((at, link, ("physical",)))
            if isinstance(physical, dict):
                mappings.append(((*at, "physical"), physical, ("bandwidth", "latency")))
        for at, entry, keys in mappings:
            wrong = [key for key in keys if entry.get(key) is not None and not isinstance(entry[key], dict)]
            issues += [Issue((*at, key), "not a mapping", value_text(entry[key])) for key in wrong]
    for at, entry in counted:
        count = entry.get("count", 1)
        if type(count) is not int or not 1 <= count <= MOST_NODES:
            issues.append(Issue((*at, "count"), "not a number of them", value_text(count), f"1 to {MOST_NODES}"))
    return issues


class _Rates:
    """GB/s and us of every edge."""

    def __init__(
        self, data: Mapping[str, Any], graph: _Graph, declared: Mapping[str, Fraction], issues: list[Issue]
    ) -> None:
        self.notes: list[str] = []
        self._graph, self._declared, self._issues = graph, declared, issues
        listed = [("", link) for link in data.get("links", ())]
        listed += [(str(d.get("name")), link) for d in data["devices"] for link in d.get("links", ())]
        self._links = {(device, str(link.get("name"))): link for device, link in listed}
        for link in set(declared) - {key[1] for key in self._links}:
            issues.append(
                Issue(("links",), "the setting names no link", link, ", ".join(key[1] for key in self._links))
            )

    def links(self) -> list[tuple[Edge, Fraction | None, float]]:
        """Every edge with its rate, None inside switches, and its latency."""
        edges = self._graph.edges
        computing = {node.device for node in self._graph.nodes if node.kind in ("xpu", "nic")}
        per_xpu = Counter((edge.device, edge.link, end) for edge in edges for end in (edge.tail, edge.head))
        made: list[tuple[Edge, Fraction | None, float]] = []
        settled: dict[tuple[str, str], tuple[Fraction | None, float]] = {}
        for edge in edges:
            key = edge.device, edge.link
            if key not in settled:
                settled[key] = self._settle(edge, key, edge.device in computing or not edge.device, per_xpu)
            made.append((edge, *settled[key]))
        for choice, unit, scale in (
            ("gigabits_per_second", "Gbit/s", GBPS_PER_GBYTES),
            ("gigabytes_per_second", "GB/s", 1),
        ):
            given = [
                (f"link {key[1]}", rate * scale)
                for key, (rate, _) in settled.items()
                if rate is not None and _bandwidth(self._links[key]).get("choice") == choice
            ]
            self.notes += unit_notes(given, unit)
        return made

    def _settle(
        self, edge: Edge, key: tuple[str, str], computes: bool, per_xpu: Mapping[tuple[str, str, int], int]
    ) -> tuple[Fraction | None, float]:
        link, name = self._links.get(key), edge.link
        path: tuple[str | int, ...] = ("links", name)
        if link is None:
            self._issues.append(Issue(path, "edges name a link that is not described", name, None))
            return None, 0.0
        physical = link.get("physical") or {}
        latency = _value(physical.get("latency"), {"ms": Fraction(1000), "us": Fraction(1), "ns": Fraction(1, 1000)})
        if physical.get("latency") is not None and latency is None:
            shown = value_text(physical["latency"])
            self._issues.append(
                Issue(path, "a latency that cannot be read", shown, "choice ms, us or ns, and its value")
            )
        bandwidth = physical.get("bandwidth")
        units = {"gigabits_per_second": Fraction(1, GBPS_PER_GBYTES), "gigabytes_per_second": Fraction(1)}
        rate = _value(bandwidth, units)
        if bandwidth is not None and not rate:
            allowed = f"{', '.join(units)}, above 0; a number of transfers needs a width"
            self._issues.append(Issue(path, "a bandwidth that cannot be read", value_text(bandwidth), allowed))
        elif rate and name in self._declared:
            self._issues.append(Issue(path, "the link states a rate of its own", f"{float(rate):g} GB/s", "no setting"))
        elif not rate and name in self._declared:
            rate = self._declared[name]
            self.notes.append(f"link {name} of {key[0] or 'the network'}: {float(rate):g} GB/s, as the setting says")
        elif not rate:
            rate = self._described(edge, str(link.get("description", "")), key, per_xpu)
            if rate is None and not computes:
                self.notes.append(
                    f"link {name} inside {key[0]} states no bandwidth: each {key[0]} is one switch at the full rate of "
                    "its ports"
                )
            elif rate is None:
                allowed = f"--set link_gbytes_per_s.{name}=RATE"
                self._issues.append(Issue(path, "no bandwidth", value_text(link.get("description")), allowed))
        return rate or None, float(latency or 0)

    def _described(
        self, edge: Edge, text: str, key: tuple[str, str], per_xpu: Mapping[tuple[str, str, int], int]
    ) -> Fraction | None:
        """The rate of a link that is described as PCI Express with its width, NVLink, or a link between AMD hosts."""
        pci = re.search(r"pci.*?gen[ _]?(\d).*?x(\d+)", text, re.IGNORECASE)
        nvlink = re.search(r"nvlink[ _]?(\d)", text, re.IGNORECASE)
        kinds = {self._graph.nodes[edge.tail].kind, self._graph.nodes[edge.head].kind}
        rate, why = None, ""
        if pci and int(pci[1]) in PCI_LANE:
            rate, why = Fraction(PCI_LANE[int(pci[1])] * int(pci[2])), f"PCI Express {pci[1]} x{pci[2]}"
        elif nvlink and int(nvlink[1]) in NVLINK_GPU and "xpu" in kinds:
            xpu = edge.tail if self._graph.nodes[edge.tail].kind == "xpu" else edge.head
            total, count = NVLINK_GPU[int(nvlink[1])], per_xpu[(*key, xpu)]
            rate, why = Fraction(total, count), f"NVLink {nvlink[1]}, {total} GB/s a GPU over {count} edges"
        elif kinds == {"cpu"} and re.search(r"infinity[ _]?fabric", text, re.IGNORECASE):
            rate, why = Fraction(16), "between AMD hosts, as NCCL counts"
        if rate is not None:
            self.notes.append(f"link {edge.link} of {key[0]} states no bandwidth: {float(rate):g} GB/s taken ({why})")
        return rate


def _bandwidth(link: Mapping[str, Any]) -> Mapping[str, Any]:
    return (link.get("physical") or {}).get("bandwidth") or {}


def _value(given: object, units: Mapping[str, Fraction]) -> Fraction | None:
    """The value under the chosen unit, times that unit."""
    choice = given.get("choice") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or choice not in units:
        return None
    value = exact(given.get(str(choice)))
    return None if value is None else value * units[str(choice)]


def _contracted(
    graph: _Graph, links: Sequence[tuple[Edge, Fraction | None, float]]
) -> tuple[list[tuple[str, bool]], list[NetworkLink]]:
    """Nodes and links; what links without a rate join is one switch."""
    inner = [NetworkLink(edge.tail, edge.head, Fraction(0)) for edge, rate, _ in links if rate is None]
    group = {node: part[0] for part in parts_of(len(graph.nodes), inner) for node in part}
    kept = sorted(set(group.values()))
    number = {node: at for at, node in enumerate(kept)}
    joined = Counter(group.values())
    nodes = [
        (graph.nodes[node].instance if joined[node] > 1 else graph.nodes[node].name, graph.nodes[node].kind != "xpu")
        for node in kept
    ]
    made = [
        NetworkLink(number[group[edge.tail]], number[group[edge.head]], rate, latency)
        for edge, rate, latency in links
        if rate is not None and group[edge.tail] != group[edge.head]
    ]
    return nodes, made


IMPORTER: Importer = import_infragraph


def build_infragraph(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """The network of a collective: an instance for each node, in the order of the nodes, and an edge for each link.

    Raises:
        InputError: a link that differs from the one back, more nodes than are read.
    """
    network = solution.figures.problem.network
    if network.nodes > MOST_NODES:
        raise refuse("too many nodes", value=network.nodes, allowed=f"at most {MOST_NODES}")
    names = [re.sub(r"[^A-Za-z0-9_-]+", "-", name) for name in network.names]
    if len(set(names)) < len(names):
        names = [f"node-{number}" for number in range(len(names))]
    arcs = zip(network.arcs.tolist(), network.units.tolist(), network.latency_us.tolist(), strict=True)
    rates = {(tail, head): (float(units * network.unit_gbytes_per_s), latency) for (tail, head), units, latency in arcs}
    unlike = next((arc for arc, rate in rates.items() if rates.get(arc[::-1]) != rate), None)
    if unlike is not None:
        shown = " -> ".join(network.names[end] for end in unlike)
        allowed = "the same rate and latency both ways"
        raise refuse("edges of InfraGraph have no direction, a link here has", value=shown, allowed=allowed)
    links = {rate: f"link-{at}" for at, rate in enumerate(dict.fromkeys(rates.values()))}
    kinds = ["switch" if is_switch else "xpu" for is_switch in network.is_switch.tolist()]
    document = {
        "name": solution.name,
        "devices": [
            {"name": kind, "components": [{"name": kind, "count": 1, "choice": kind}]} for kind in sorted(set(kinds))
        ],
        "links": [
            {
                "name": name,
                "physical": {
                    "bandwidth": {"choice": "gigabytes_per_second", "gigabytes_per_second": rate},
                    "latency": {"choice": "us", "us": latency},
                },
            }
            for (rate, latency), name in links.items()
        ],
        "instances": [{"name": name, "device": kind, "count": 1} for name, kind in zip(names, kinds, strict=True)],
        "edges": [
            {
                "ep1": {"instance": names[tail], "component": kinds[tail]},
                "ep2": {"instance": names[head], "component": kinds[head]},
                "scheme": "one2one",
                "link": links[rate],
            }
            for (tail, head), rate in rates.items()
            if tail < head
        ],
    }
    cables = tuple((*arc, *rate) for arc, rate in rates.items() if arc[0] < arc[1])
    content = (tuple(zip(names, kinds, strict=True)), cables)
    return Export(((f"{plain_name(solution.name)}.json", json_bytes(document)),), content, INFRAGRAPH_EXPORTER.limits)


INFRAGRAPH_EXPORTER = Exporter(
    kinds=("collective",),
    makes="one JSON file: an instance for each rank (xpu) and switch, links with their rates and latencies",
    limits=(
        "the network alone: no collective, bytes, groups, time of a message, schedule, and no links of one direction",
        "parallel links are one with the sum of their rates; NICs and ports are not told apart",
    ),
    folder=False,
    build=build_infragraph,
)
