"""Topology XML of NCCL and RCCL: GPUs, NICs, PCI and scale-up links of one machine, with the rates NCCL plans by.

Files of clouds have `<cpu>` and `<pci>` alone, as NCCL looks for GPUs and NVLinks itself; a dump has all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any
from xml.etree import ElementTree

import typer

from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError, Problem
from topoopt.files.link_attributes import unit_notes
from topoopt.files.reader_fields import FieldLog, Fields, listed, noted, used
from topoopt.files.untrusted import parsing, read_xml_text, refusal
from topoopt.formats.networks import (
    CollectiveOption,
    NetworkLink,
    VectorOption,
    chosen_collective,
    collective_instance,
    exact,
)
from topoopt.formats.table import Imported, Importer, NameOption, name_of, require_choice, require_positive

MAX_TEXT = 16 * MIB
_FORMAL = noted("of the device: links do not depend on it")
_NET = noted("what a port can do besides its rate")

NCCL_FIELDS: Fields = {
    "element in <system>": {"cpu": used("a NUMA node with its PCI devices")},
    "element in <cpu>": {"pci": used("a device, or a switch, at this host"), "nic": noted("a NIC without PCI address")},
    "element in <pci>": {
        "pci": used("below a PCI switch"),
        "gpu": used("a GPU"),
        "nic": used("a network card"),
        "pcilink": noted("links of PCI devices beside the tree, which NCCL takes for NICs of one card"),
    },
    "element in <gpu>": {
        "nvlink": used("links to a GPU or NVSwitch"),
        "xgmi": used("links to a GPU"),
        "c2c": noted("a link to the host's memory"),
    },
    "element in <nic>": {"net": used("a port")},
    "field of <system>": {"version": used("1 (NCCL) or 2 (RCCL)")},
    "field of <cpu>": {
        "numaid": used("its name"),
        "arch": used("with vendor, familyid and modelid: the rate between hosts"),
        "vendor": used("see arch"),
        "familyid": noted("see arch; models of Intel alone differ"),
        "modelid": used("see arch"),
        "affinity": _FORMAL,
        "host_hash": _FORMAL,
    },
    "field of <pci>": {
        "busid": used("its name"),
        "class": used("what it is: 0x0604, 0x0801 switch; 0x03, 0x12 GPU; 0x02 NIC"),
        "link_speed": used("of a lane, GT/s; unknown: 8"),
        "link_width": used("lanes; 0: 16"),
        **dict.fromkeys(("vendor", "device", "subsystem_vendor", "subsystem_device"), _FORMAL),
    },
    "field of <gpu>": {
        "sm": used("compute capability: the rate of an NVLink"),
        "gcn": used("architecture of AMD: the rate of an xGMI link"),
        "rank": used("NCCL drops a GPU without one where others have one"),
        **dict.fromkeys(("dev", "arch", "gdr"), _FORMAL),
    },
    **{
        f"field of <{name}>": {
            "target": used("bus id of the other end; fffffff:ffff:ff is a hidden NVSwitch"),
            "count": used("how many links"),
            "tclass": used("class of the other end: 0x068000 is an NVSwitch"),
        }
        for name in ("nvlink", "xgmi")
    },
    "field of <net>": {
        "speed": used("Mbit/s; 0 or less counts 10 000"),
        "dev": used("NCCL drops a port without one"),
        "name": used("its name"),
        **dict.fromkeys(("port", "guid", "latency", "maxconn", "gdr", "coll", "rail", "plane"), _NET),
    },
}
FIELDS = listed(NCCL_FIELDS)

LANE_80 = {"2.5": 15, "5": 30, "8": 60, "16": 120, "32": 240, "64": 480}
"""Eightieths of a GB/s of a lane, by GT/s."""

NVLINK = ((100, "40.1"), (90, "20.6"), (87, "20"), (86, "12"), (70, "20"), (60, "18"))
"""GB/s of an NVLink each way, from this compute capability on."""

XGMI = (("gfx94", "48"), ("94", "48"), ("gfx90a", "36"), ("90a", "36"), ("910", "36"), ("906", "24"), ("908", "24"))
"""GB/s of an xGMI link each way, by what the architecture begins with."""

INTEL = ((0xCF, 40), (0x8F, 22), (0x55, 10), (0, 6))
"""GB/s between two sockets, from this model on."""

HOSTS = {"AuthenticAMD": 16, "CentaurHauls": 6, "  Shanghai  ": 6}
ARCHITECTURES = {"arm64": 6, "ppc64": 32}
HIDDEN_SWITCH = "fffffff:ffff:ff"
NVSWITCH = "nvswitch"


@dataclass
class Device:
    """A node of the machine.

    Attributes:
        kind: cpu, switch, gpu, nic or other.
        parent: where it hangs; None of a host.
        gbytes_per_s: of its PCI link upwards.
        gpu: element of a GPU, where the file has it.
        ports: Gbit/s of each port of a NIC, by name.
    """

    name: str
    kind: str
    parent: Device | None
    gbytes_per_s: Fraction
    given: Mapping[str, str]
    gpu: ElementTree.Element | None = None
    ports: dict[str, Fraction] = field(default_factory=dict)

    def above(self) -> list[Device]:
        """What is between it and its host, the host last."""
        return [] if self.parent is None else [self.parent, *self.parent.above()]


def import_nccl(
    file: Annotated[Path, typer.Argument(help="Topology XML of NCCL or RCCL: a dump, or the file of a cloud.")],
    links: Annotated[
        str | None, typer.Option(help="scale-up (NVLink, xGMI), pci or all; default: scale-up where the file has them.")
    ] = None,
    link_gbytes_per_s: Annotated[
        float | None, typer.Option(help="GB/s of one NVLink or xGMI link each way; default: by NCCL's table.")
    ] = None,
    nvswitch_gbytes_per_s: Annotated[
        float | None, typer.Option(help="GB/s of each GPU to an NVSwitch that the file does not state.")
    ] = None,
    collective: CollectiveOption = "allreduce",
    vector_bytes: VectorOption = 1 << 30,
    name: NameOption = None,
) -> Imported:
    """One machine as NCCL sees it, as a collective on its GPUs; figures name the NICs that each GPU is nearest to."""
    require_positive("--link-gbytes-per-s", link_gbytes_per_s)
    require_positive("--nvswitch-gbytes-per-s", nvswitch_gbytes_per_s)
    chosen = chosen_collective(collective)
    log = FieldLog(NCCL_FIELDS, str(file))
    devices = read_devices(file, log)
    gpus = _ranked(devices)
    scale_up = _scale_up(gpus, link_gbytes_per_s, log)
    if nvswitch_gbytes_per_s is not None:
        if scale_up:
            log.refuse("the file has scale-up links of its own", value=f"{len(scale_up)}", allowed="no nvswitch rate")
        scale_up = [(gpu.name, NVSWITCH, Fraction(str(nvswitch_gbytes_per_s))) for gpu in gpus]
    mode = links or ("scale-up" if scale_up else "pci")
    require_choice("--links", mode, ("scale-up", "pci", "all"))
    pci = _pci_links(devices, log) if mode != "scale-up" else []
    unread = log.settle()
    rows = [*(scale_up if mode != "pci" else []), *pci]
    names = [gpu.name for gpu in gpus] + sorted({end for row in rows for end in row[:2]} - {gpu.name for gpu in gpus})
    number = {label: at for at, label in enumerate(names)}
    nodes = [(label, at >= len(gpus)) for at, label in enumerate(names)]
    made = [NetworkLink(number[tail], number[head], rate) for tail, head, rate in rows]
    try:
        document = collective_instance(name or name_of(file), nodes, made, chosen, vector_bytes, str(file))
    except InputError as error:
        if mode == "scale-up":
            more = Problem("these are the scale-up links alone", path="--links", value=mode, allowed="all, pci")
            raise InputError([*error.problems, more]) from None
        raise
    figures = {"collective": chosen.value, "links": mode, **_figures(devices, scale_up)}
    line = f"{len(gpus)} GPUs, {figures['nics']} NICs, {len(made)} {mode} links"
    notes = (*_notes(devices, scale_up, mode, chosen.value, vector_bytes), *unread)
    return Imported(document, line, figures, notes)


def _ranked(devices: list[Device]) -> list[Device]:
    """GPUs in the order of their ranks, or of the file where it states none, under the names gpu0, gpu1, ..."""
    gpus = [device for device in devices if device.kind == "gpu"]
    gpus.sort(key=lambda gpu: 0 if gpu.gpu is None else int(exact(gpu.gpu.get("rank", "0")) or 0))
    for rank, gpu in enumerate(gpus):
        gpu.name = f"gpu{rank}"
    return gpus


def read_devices(file: Path, log: FieldLog) -> list[Device]:
    """Hosts, switches, GPUs and NICs, each after what it hangs on.

    Raises:
        InputError: not such a file; a graph of chosen rings, another version.
    """
    text = read_xml_text(file, MAX_TEXT)
    with parsing(str(file), "a topology of NCCL (XML: system, cpu, pci)"):
        root = ElementTree.fromstring(text)
        if root.tag == "graphs":
            allowed = "a topology: <system> with <cpu> and <pci>"
            text = "a graph of NCCL: rings and trees that it has chosen (<graphs>), no topology"
            raise refusal(text, str(file), value=f"<{root.tag}>", allowed=allowed)
        if root.tag != "system":
            raise refusal("not a topology of NCCL", str(file), value=f"<{root.tag}>", allowed="<system>")
        if root.get("version") not in ("1", "2"):
            allowed = "1 (NCCL), 2 (RCCL)"
            raise refusal("another version of the format", str(file), value=root.get("version"), allowed=allowed)
        for element in root.iter():
            for attribute in element.attrib:
                log.meet(f"field of <{element.tag}>", attribute)
            for child in element:
                log.meet(f"element in <{element.tag}>", child.tag)
        devices: list[Device] = []
        for cpu in root.findall("cpu"):
            host = Device(f"cpu{cpu.get('numaid', len(devices))}", "cpu", None, Fraction(0), cpu.attrib)
            devices += [host, *(below for pci in cpu.findall("pci") for below in _devices(pci, host, log))]
    repeated = [label for label, count in Counter(device.name for device in devices).items() if count > 1]
    if repeated:
        log.refuse("a bus id more than once", value=repeated[0])
    ranked = [device for device in devices if device.gpu is not None and device.gpu.get("rank") is not None]
    if ranked:
        dropped = [device.name for device in devices if device.kind == "gpu" and device not in ranked]
        if dropped:
            log.note(f"GPUs without a rank are left out, as NCCL does: {', '.join(dropped)}")
        devices = [device for device in devices if device.name not in dropped]
    return devices


def _devices(pci: ElementTree.Element, parent: Device, log: FieldLog) -> Iterator[Device]:
    code = pci.get("class", "").lower().removeprefix("0x")
    gpu, nic = pci.find("gpu"), pci.find("nic")
    kind = "other"
    if gpu is not None or (nic is None and code.startswith(("03", "12"))):
        kind = "gpu"
    elif nic is not None or code.startswith("02"):
        kind = "nic"
    elif code.startswith(("0604", "0801")) or pci.find("pci") is not None:
        kind = "switch"
    device = Device(pci.get("busid", "?"), kind, parent, _pci_rate(pci, log), pci.attrib, gpu)
    for net in () if nic is None else nic.findall("net"):
        speed = exact(net.get("speed", "0").removeprefix("-")) or Fraction(0)
        if net.get("dev") is None:
            log.note(f"a port without dev is left out, as NCCL does: {net.get('name', '?')}")
            continue
        mbps = Fraction(10_000) if speed == 0 or net.get("speed", "").startswith("-") else speed
        device.ports[net.get("name", f"net{net.get('dev')}")] = mbps / 1000
    yield device
    for child in pci.findall("pci"):
        yield from _devices(child, device, log)


def _pci_rate(pci: ElementTree.Element, log: FieldLog) -> Fraction:
    """GB/s of the link upwards."""
    speed = re.match(r"\s*([0-9.]+)", pci.get("link_speed", ""))
    lanes = exact(pci.get("link_width", "16"))
    if lanes is None or lanes > 64:
        log.refuse("lanes of a PCI device", value=pci.get("link_width"), allowed="0 to 64")
    per_lane = LANE_80.get("" if speed is None else speed[1].removesuffix(".0"))
    if per_lane is None:
        log.note(f"{pci.get('busid')}: an unknown speed of PCI counts as 8 GT/s: {pci.get('link_speed', '')!r}")
    return (lanes or Fraction(16)) * Fraction(per_lane or LANE_80["8"], 80)


Row = tuple[str, str, Fraction]


def _scale_up(gpus: list[Device], declared: float | None, log: FieldLog) -> list[Row]:
    """NVLinks and xGMI links between GPUs and to the NVSwitches, which are one node, each once."""
    names = {gpu.given.get("busid", "").lower(): gpu.name for gpu in gpus}
    listed_rates: dict[tuple[str, str], Fraction] = {}
    for gpu in gpus:
        for link in () if gpu.gpu is None else (*gpu.gpu.findall("nvlink"), *gpu.gpu.findall("xgmi")):
            target, count = link.get("target", "").lower(), exact(link.get("count", "1"))
            is_switch = target.startswith(HIDDEN_SWITCH) or link.get("tclass", "").lower().startswith("0x068000")
            if link.get("tclass", "").lower().startswith("0x068001"):
                log.note(f"NVLinks of {gpu.name} to the host are left out: they join no GPUs")
                continue
            head = NVSWITCH if is_switch else names.get(target)
            rate = Fraction(str(declared)) if declared is not None else _link_rate(gpu, link.tag)
            if head is None:
                log.refuse(f"a link of {gpu.name} to a GPU that is not in the file", value=target)
            elif count is None or not 1 <= count <= 1000:
                log.refuse(f"links of {gpu.name}", value=link.get("count"), allowed="count 1 to 1000")
            elif rate is None:
                of = {} if gpu.gpu is None else gpu.gpu.attrib
                kind = f"sm {of.get('sm')}, gcn {of.get('gcn')}"
                log.refuse(f"no rate of a link of {gpu.name}", value=kind, allowed="--set link_gbytes_per_s=RATE")
            else:
                listed_rates[gpu.name, head] = listed_rates.get((gpu.name, head), Fraction(0)) + count * rate
    rows: list[Row] = []
    for (tail, head), rate in listed_rates.items():
        back = listed_rates.get((head, tail))
        if head != NVSWITCH and back != rate:
            shown = f"{float(rate):g} and {float(back or 0):g} GB/s"
            log.refuse(
                f"links between {tail} and {head} differ by direction", value=shown, allowed="the same both ways"
            )
        elif head == NVSWITCH or int(tail.removeprefix("gpu")) < int(head.removeprefix("gpu")):
            rows.append((tail, head, rate))
    return rows


def _link_rate(gpu: Device, tag: str) -> Fraction | None:
    """GB/s of one NVLink or xGMI link each way."""
    given = {} if gpu.gpu is None else gpu.gpu.attrib
    if tag == "xgmi":
        return next((Fraction(rate) for start, rate in XGMI if given.get("gcn", "").startswith(start)), None)
    sm = exact(given.get("sm", "")) or Fraction(0)
    return next((Fraction(rate) for least, rate in NVLINK if sm >= least), None)


def _pci_links(devices: list[Device], log: FieldLog) -> list[Row]:
    """The tree of PCI as far as GPUs hang on it, and all pairs of hosts."""
    useful = {
        name for device in devices if device.kind == "gpu" for name in (device.name, *(d.name for d in device.above()))
    }
    rows = [
        (device.name, device.parent.name, device.gbytes_per_s)
        for device in devices
        if device.parent is not None and device.name in useful
    ]
    hosts = [device for device in devices if device.kind == "cpu" and device.name in useful]
    for at, host in enumerate(hosts):
        rate = _host_rate(host.given)
        if rate is None and len(hosts) > 1:
            allowed = ", ".join(("GenuineIntel", *HOSTS, *ARCHITECTURES)).replace("  ", "")
            log.refuse(
                "no rate between hosts", value=f"{host.given.get('arch')} {host.given.get('vendor')}", allowed=allowed
            )
        rows += [(host.name, other.name, Fraction(rate or 1)) for other in hosts[at + 1 :]]
    return rows


def _host_rate(given: Mapping[str, str]) -> int | None:
    """GB/s between two hosts."""
    if given.get("arch") in ARCHITECTURES:
        return ARCHITECTURES[given["arch"]]
    if given.get("vendor") == "GenuineIntel":
        model = exact(given.get("modelid", "0")) or 0
        return next(rate for least, rate in INTEL if model >= least)
    return HOSTS.get(given.get("vendor", ""))


def path_type(gpu: Device, nic: Device) -> str:
    """PIX (one PCI switch between), PXB (several), PHB (through the host) or SYS (between hosts)."""
    mine, theirs = gpu.above(), nic.above()
    meeting = next((device for device in mine if device in theirs), None)
    if meeting is None:
        return "SYS"
    if meeting.kind == "cpu":
        return "PHB"
    between = mine.index(meeting) + theirs.index(meeting) + 1
    return "PIX" if between == 1 else "PXB"


BEST_FIRST = ("PIX", "PXB", "PHB", "SYS")


def _figures(devices: list[Device], scale_up: list[Row]) -> dict[str, Any]:
    """GPUs with their nearest NICs, NICs with the GPUs that share them, PCI switches with what hangs on each."""
    gpus = sorted((device for device in devices if device.kind == "gpu"), key=lambda gpu: int(gpu.name[3:]))
    nics = [device for device in devices if device.kind == "nic"]
    rows, sharing = [], Counter[str]()
    for gpu in gpus:
        types = {nic.name: path_type(gpu, nic) for nic in nics}
        best = min(types.values(), key=BEST_FIRST.index, default=None)
        nearest = [nic for nic, kind in types.items() if kind == best]
        sharing.update(nearest)
        up = sum((rate for tail, head, rate in scale_up if gpu.name in (tail, head)), Fraction(0))
        rows.append(
            {
                "gpu": gpu.name,
                "busid": gpu.given.get("busid"),
                "nics": nearest,
                "path": best,
                "pci_gbytes_per_s": float(min(link.gbytes_per_s for link in (gpu, *gpu.above()[:-1]))),
                "scale_up_gbytes_per_s": float(up),
            }
        )
    switches = []
    for switch in (device for device in devices if device.kind == "switch"):
        below = Counter(device.kind for device in devices if device.parent is switch)
        row = {"busid": switch.name, "gpus": below["gpu"], "nics": below["nic"]}
        switches.append({**row, "gbytes_per_s": float(switch.gbytes_per_s)})
    return {
        "gpus": len(gpus),
        "nics": len(nics),
        "hosts": sum(device.kind == "cpu" for device in devices),
        "scale_up": "none in the file" if not scale_up else "switch" if scale_up[0][1] == NVSWITCH else "direct",
        "gpu_rows": rows,
        "nic_rows": [
            {
                "nic": nic.name,
                "gpus_nearest": sharing[nic.name],
                "ports": list(nic.ports),
                "gbps": float(sum(nic.ports.values(), Fraction(0))) or None,
                "pci_gbytes_per_s": float(nic.gbytes_per_s),
            }
            for nic in nics
        ],
        "pci_switches": switches,
    }


def _notes(devices: list[Device], scale_up: list[Row], mode: str, collective: str, vector_bytes: int) -> Iterator[str]:
    yield f"workload: {collective} of {vector_bytes} bytes over the GPUs (the file has none)"
    if not scale_up:
        yield (
            "the file has no NVLinks (NCCL looks for them itself): the network is PCI alone; "
            "--set nvswitch_gbytes_per_s=450 states what each GPU has to an NVSwitch"
        )
    elif mode == "scale-up":
        yield "PCI is left out, as NCCL sends over scale-up links where there are some; --set links=all adds it"
    yield "rates are those NCCL plans by, not measured ones; NICs carry nothing inside the machine: figures list them"
    if mode != "scale-up" and any(device.given.get("vendor") == "GenuineIntel" for device in devices):
        yield "NCCL counts PCI between GPUs on Intel hosts 1.2 times slower; the links here have their full rate"
    ports = [(f"port {name}", gbps) for device in devices for name, gbps in device.ports.items()]
    yield from unit_notes(ports, "Gbit/s")


IMPORTER: Importer = import_nccl
