"""Small files of networks, tables and switches of other tools, written by hand after their descriptions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.network_reader_cases import Pair
from tests.support.reader_cases import Read, plain
from topoopt.formats.inventories import read_cables
from topoopt.formats.patch_list import read_config_db
from topoopt.formats.table import EXPORTERS, IMPORTERS, ExportOptions


def importing(form: str, **settings: Any) -> Callable[[Path], Read]:
    """What an importer makes of a file, its figures among it."""

    def read(path: Path) -> Read:
        made = IMPORTERS[form](path, **{"name": "x", **settings})
        return plain((made.document, made.figures)), made.notes

    return read


def changes(base: str, others: Mapping[str, tuple[str, str]]) -> dict[str, Pair]:
    """Pairs of the text and of the text with one thing different, which must be in it."""
    for old, _ in others.values():
        assert old in base, old
    return {name: (base, base.replace(old, new, 1)) for name, (old, new) in others.items()}


SIMAI = """6 2 1 1 7 H100
4 5
0 4 2400Gbps 0.000025ms 0
1 4 2400Gbps 0.000025ms 0
2 4 2400Gbps 0.000025ms 0
3 4 2400Gbps 0.000025ms 0
0 5 400Gbps 0.0005ms 0.5
2 5 400Gbps 0.0005ms 0
3 5 400Gbps 0.0005ms 0
"""
"""Two servers of two GPUs, an NVSwitch (4) and a switch (5)."""

PLAIN_NS3 = "3 1 2\n2\n0 2 100Gbps 1us 0\n1 2 100Gbps 1us 0\n"
"""Two hosts at a switch, as ASTRA-sim writes it."""

NS3_PAIRS = changes(
    SIMAI,
    {
        "nodes": ("6 2 1 1 7", "7 2 1 1 7"),
        "gpus_per_server": ("6 2 1", "6 4 1"),
        "nvswitches": ("2 1 1 7", "2 2 0 7"),
        "switches": ("1 1 7", "1 2 7"),
        "links": ("1 7 H", "1 6 H"),
        "switch ids": ("\n4 5\n", "\n5 4\n"),
        "source": ("0 5 400", "1 5 400"),
        "target": ("0 5 400", "0 4 400"),
        "rate": ("400Gbps", "200Gbps"),
        "delay": ("0.0005ms", "0.0005us"),
    },
)

GRAPH = """NODES 3
label x y
a 0 1.5
b 1 0
c 2 0

EDGES 4
label src dest weight bw delay
edge_0 0 1 1 1000 5
edge_1 1 0 1 1000 5
edge_2 1 2 1 2000 5
edge_3 2 1 1 2000 5
"""
DEMANDS = "DEMANDS 2\nlabel src dest bw\nd0 0 2 300\nd1 2 0 100\n"


def repetita(path: Path) -> Read:
    """The network and the demands of one file, parted at DEMANDS."""
    text = path.read_text()
    at = text.index("DEMANDS")
    graph, demands = path.with_name("x.graph"), path.with_name("x.demands")
    graph.write_text(text[:at])
    demands.write_text(text[at:])
    made = IMPORTERS["repetita"](graph, demands=demands, name="x")
    return made.document, made.notes


REPETITA_PAIRS = changes(
    GRAPH + DEMANDS,
    {
        "node label": ("a 0 1.5", "z 0 1.5"),
        "edge src": ("edge_0 0 1", "edge_0 2 1"),
        "edge dest": ("edge_0 0 1", "edge_0 0 2"),
        "edge bw": ("0 1 1 1000", "0 1 1 1001"),
        "demand src": ("d0 0 2", "d0 1 2"),
        "demand dest": ("d0 0 2", "d0 0 1"),
        "demand bw": ("300", "301"),
    },
)

SNDLIB = """?SNDlib native format; type: network; version: 1.0
META (
  granularity = day
  unit = MBITPERSEC
)
NODES (
  A ( 0.0 1.0 )
  B ( 2.0 3.0 )
  C
)
LINKS (
  L1 ( A B ) 100.00 0.00 0.00 0.00 ( 40.00 133.00 )
  L2 ( B C ) 200.00 0.00 0.00 0.00 ( )
  L3 ( A C ) 100.00 0.00 0.00 0.00 ( )
)
DEMANDS (
  D1 ( A B ) 1 30.00 UNLIMITED
  D2 ( B C ) 1 50.00 UNLIMITED
)
ADMISSIBLE_PATHS (
)
"""
SNDLIB_PAIRS = changes(
    SNDLIB,
    {
        "unit": ("MBITPERSEC", "GBITPERSEC"),
        "node id": ("  C\n", "  C9\n"),
        "source": ("L1 ( A B )", "L1 ( C B )"),
        "target": ("L1 ( A B )", "L1 ( A C )"),
        "pre-installed capacity": (") 100.00", ") 101.00"),
        "module capacity": ("40.00 133", "41.00 133"),
        "routing unit": (") 1 30.00", ") 2 30.00"),
        "demand value": ("30.00", "31.00"),
        "max path length": ("UNLIMITED", "2"),
        "admissible paths": ("PATHS (\n", "PATHS (\n  D1 ( L1 )\n"),
    },
)
SNDLIB_XML = """<?xml version="1.0"?>
<network xmlns="http://sndlib.zib.de/network" version="1.0">
 <meta><granularity>day</granularity><unit>MBITPERSEC</unit></meta>
 <networkStructure>
  <nodes coordinatesType="geographical">
   <node id="A"><coordinates><x>0</x><y>1</y></coordinates></node><node id="B"/><node id="C"/>
  </nodes>
  <links>
   <link id="L1"><source>A</source><target>B</target><preInstalledModule><capacity>100.0</capacity><cost>0</cost>
    </preInstalledModule><additionalModules><addModule><capacity>40.0</capacity><cost>133</cost></addModule>
    </additionalModules></link>
   <link id="L2"><source>B</source><target>C</target><preInstalledModule><capacity>200.0</capacity></preInstalledModule>
   </link>
   <link id="L3"><source>A</source><target>C</target><preInstalledModule><capacity>100.0</capacity></preInstalledModule>
   </link>
  </links>
 </networkStructure>
 <demands>
  <demand id="D1"><source>A</source><target>B</target><routingUnit>1</routingUnit><demandValue>30.0</demandValue>
  </demand>
  <demand id="D2"><source>B</source><target>C</target><demandValue>50.0</demandValue></demand>
 </demands>
</network>
"""
"""The same network."""

ZOO = """graph [
  directed 0
  Network "Small"
  node [
    id 0
    label "Here"
    hyperedge 0
  ]
  node [
    id 1
    label "There"
  ]
  node [
    id 2
    label "Far"
  ]
  edge [
    source 0
    target 1
    LinkSpeed "10"
    LinkSpeedUnits "G"
    LinkLabel "10 Gbps"
    LinkType "OC-192"
    LinkNote "new"
  ]
  edge [
    source 1
    target 2
    LinkSpeedRaw 2500000000.0
  ]
  edge [
    source 0
    target 2
    LinkSpeedRaw 1000000000.0
  ]
]
"""
"""No link has both forms of a speed here, so that each may differ."""
ONE_FORM = ZOO.replace("LinkSpeedRaw 2500000000.0", 'LinkSpeed "2.5"\n    LinkSpeedUnits "G"').replace(
    "LinkSpeedRaw 1000000000.0", 'LinkSpeed "1"\n    LinkSpeedUnits "G"'
)
RAW_FORM = ZOO.replace('LinkSpeed "10"\n    LinkSpeedUnits "G"', "LinkSpeedRaw 10000000000.0")
ZOO_PAIRS = {
    **changes(RAW_FORM, {"LinkSpeedRaw": ("2500000000.0", "2600000000.0")}),
    **changes(
        ONE_FORM,
        {
            "LinkSpeed": ('"2.5"', '"2.6"'),
            "LinkSpeedUnits": ('Units "G"\n    LinkLabel', 'Units "M"\n    LinkLabel'),
            "source": ("source 0\n    target 1", "source 2\n    target 1"),
            "target": ("source 0\n    target 1", "source 0\n    target 2"),
            "label": ('"Far"', '"Near"'),
            "directed": ("directed 0", "directed 1"),
        },
    ),
}

NCCL = """<system version="1">
 <cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143" host_hash="0x1">
  <pci busid="0000:01:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16" vendor="0x1" device="0x2"
   subsystem_vendor="0x3" subsystem_device="0x4">
   <pci busid="0000:02:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
    <gpu dev="0" sm="90" rank="0" gdr="1" arch="1">
     <nvlink target="0000:f0:00.0" count="18" tclass="0x068000"/>
     <c2c bw="1" count="1"/>
    </gpu>
   </pci>
   <pci busid="0000:03:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
    <nic>
     <net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x1" latency="0" maxconn="1" gdr="1" coll="0" rail="0"
      plane="0"/>
    </nic>
   </pci>
   <pcilink target="0000:03:00.0"/>
  </pci>
 </cpu>
 <cpu numaid="1" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
  <nic/>
  <pci busid="0000:12:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
   <gpu dev="1" sm="90" rank="1">
    <nvlink target="0000:f0:00.0" count="18" tclass="0x068000"/>
   </gpu>
  </pci>
 </cpu>
</system>
"""
"""Two GPUs of sm 90 at an NVSwitch, on two hosts; a NIC shares a PCI switch with the first."""

HIVE = """<system version="2">
 <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD">
  <pci busid="a" class="0x120000" link_speed="16 GT/s" link_width="16"><gpu dev="0" gcn="910" rank="0">
   <xgmi target="b" count="2" tclass="0x120000"/></gpu></pci>
  <pci busid="b" class="0x120000" link_speed="16 GT/s" link_width="16"><gpu dev="1" gcn="910" rank="1">
   <xgmi target="a" count="2" tclass="0x120000"/></gpu></pci>
 </cpu>
</system>
"""
_BOTH_A = ('count="2"', 'count="3"')


def _twice(text: str, old: str, new: str) -> Pair:
    assert text.count(old) == 2, old
    return text, text.replace(old, new)


NCCL_PAIRS = {
    **{f"{name} (element in <{parent}>)": pair for (name, parent), pair in {
        ("cpu", "system"): (NCCL, NCCL.replace('numaid="0"', 'numaid="5"')),
        ("pci", "cpu"): (NCCL, NCCL.replace("0000:01:00.0", "0000:0a:00.0")),
        ("pci", "pci"): (NCCL, NCCL.replace("0000:03:00.0", "0000:0b:00.0")),
        ("gpu", "pci"): (NCCL, NCCL.replace("<gpu", "<nic").replace("</gpu", "</nic")),
        ("nic", "pci"): (NCCL, NCCL.replace("<net ", "<net x='1' ").replace('speed="400000"', 'speed="200000"')),
        ("nvlink", "gpu"): (NCCL, NCCL.replace('<nvlink target="0000:f0:00.0" count="18" tclass="0x068000"/>', "")),
        ("xgmi", "gpu"): (HIVE, HIVE.replace('<xgmi target="a" count="2" tclass="0x120000"/>', "")),
        ("net", "nic"): (NCCL, NCCL.replace('dev="0" speed', "speed")),
    }.items()},
    "version (field of <system>)": (NCCL, NCCL.replace('version="1"', 'version="3"')),
    "numaid (field of <cpu>)": (NCCL, NCCL.replace('numaid="0"', 'numaid="5"')),
    "arch (field of <cpu>)": _twice(NCCL, 'arch="x86_64"', 'arch="arm64"'),
    "vendor (field of <cpu>)": _twice(NCCL, 'vendor="GenuineIntel"', 'vendor="AuthenticAMD"'),
    "modelid (field of <cpu>)": _twice(NCCL, 'modelid="143"', 'modelid="85"'),
    "busid (field of <pci>)": (NCCL, NCCL.replace("0000:03:00.0", "0000:0b:00.0")),
    "class (field of <pci>)": (NCCL, NCCL.replace('class="0x020700"', 'class="0x060400"').replace("<nic>", "<x>")
                               .replace("</nic>", "</x>")),
    "link_speed (field of <pci>)": (NCCL, NCCL.replace('"32.0 GT/s PCIe"', '"16.0 GT/s PCIe"')),
    "link_width (field of <pci>)": (NCCL, NCCL.replace('link_width="16"', 'link_width="8"')),
    "sm (field of <gpu>)": _twice(NCCL, 'sm="90"', 'sm="80"'),
    "gcn (field of <gpu>)": _twice(HIVE, 'gcn="910"', 'gcn="gfx942"'),
    "rank (field of <gpu>)": (NCCL, NCCL.replace('sm="90" rank="1"', 'sm="90"')),
    "target (field of <nvlink>)": (NCCL, NCCL.replace('target="0000:f0:00.0" count="18" tclass="0x068000"',
                                                      'target="0000:12:00.0" count="18" tclass=""', 1)),
    "count (field of <nvlink>)": _twice(NCCL, 'count="18"', 'count="12"'),
    "tclass (field of <nvlink>)": (NCCL, NCCL.replace('tclass="0x068000"', 'tclass="0x030200"')),
    "target (field of <xgmi>)": (HIVE, HIVE.replace('target="b"', 'target="z"')),
    "count (field of <xgmi>)": _twice(HIVE, *_BOTH_A),
    "tclass (field of <xgmi>)": (HIVE, HIVE.replace('tclass="0x120000"', 'tclass="0x068000"')),
    "speed (field of <net>)": (NCCL, NCCL.replace('speed="400000"', 'speed="0"')),
    "dev (field of <net>)": (NCCL, NCCL.replace('dev="0" speed', "speed")),
    "name (field of <net>)": (NCCL, NCCL.replace('name="mlx5_0"', 'name="mlx5_7"')),
}  # fmt: skip
NCCL_CHECKED = frozenset({
    "gpu (element in <pci>)", "xgmi (element in <gpu>)", "version (field of <system>)", "rank (field of <gpu>)",
    "target (field of <nvlink>)", "tclass (field of <nvlink>)", "target (field of <xgmi>)",
})  # fmt: skip
NCCL_STRANGE = [
    NCCL.replace(f"<{tag} ", f'<{tag} never_heard_of="7" ', 1)
    for tag in ("system", "cpu", "pci", "gpu", "nvlink", "net")
]
NCCL_STRANGE += [
    NCCL.replace(f"</{tag}>", f"<never_heard_of/></{tag}>", 1) for tag in ("system", "cpu", "pci", "gpu", "nic")
]


def nccl(path: Path) -> Read:
    """All links of a machine."""
    return importing("nccl-topology", links="all")(path)


INFRA: dict[str, Any] = {
    "name": "two",
    "description": "two servers at a switch",
    "devices": [
        {
            "name": "box",
            "description": "a server",
            "components": [
                {"name": "xpu", "choice": "xpu", "count": 2, "description": "accelerator"},
                {"name": "nic", "choice": "nic", "count": 2},
                {"name": "slot", "choice": "custom", "count": 1, "custom": {"type": "slot"}},
            ],
            "links": [
                {"name": "up", "description": "NVLINK_4"},
                {
                    "name": "bus",
                    "physical": {
                        "bandwidth": {"choice": "gigabytes_per_second", "gigabytes_per_second": 64},
                        "latency": {"choice": "us", "us": 1},
                    },
                },
            ],
            "edges": [
                {"ep1": {"component": "xpu"}, "ep2": {"component": "nic[0:2]"}, "scheme": "one2one", "link": "bus"},
                {"ep1": {"component": "xpu"}, "ep2": {"component": "xpu"}, "scheme": "many2many", "link": "up"},
                {"ep1": {"component": "xpu"}, "ep2": {"component": "slot"}, "scheme": "many2many", "link": "bus"},
            ],
        },
        {
            "name": "switch",
            "components": [
                {"name": "asic", "choice": "cpu", "count": 1},
                {"name": "port", "choice": "port", "count": 5},
            ],
            "links": [{"name": "ic", "description": "inside"}],
            "edges": [
                {"ep1": {"component": "asic"}, "ep2": {"component": "port"}, "scheme": "many2many", "link": "ic"}
            ],
        },
    ],
    "links": [
        {
            "name": "wire",
            "physical": {
                "bandwidth": {"choice": "gigabits_per_second", "gigabits_per_second": 400},
                "latency": {"choice": "ns", "ns": 500},
            },
        }
    ],
    "instances": [
        {"name": "box", "device": "box", "count": 2, "description": "servers"},
        {"name": "tor", "device": "switch", "count": 1},
    ],
    "edges": [
        {
            "ep1": {"instance": f"box[{box}]", "component": "nic"},
            "ep2": {"instance": "tor[0]", "component": f"port[{2 * box}:{2 * box + 2}]"},
            "scheme": "one2one",
            "link": "wire",
        }
        for box in range(2)
    ],
}
"""Two servers of two accelerators and two NICs, four cables of 400 Gbit/s to a switch of five ports."""

CABLES = "local_device,local_port,remote_device,remote_port,speed\na,eth1,b,eth2,400\nb,eth2,a,eth1,400\n"


def cables(path: Path) -> Read:
    """Cables, those of one end, and columns that are not compared."""
    made, one_sided, unused = read_cables(path)
    return (made, one_sided), tuple(unused)


def _cable_pairs() -> dict[str, Pair]:
    pairs = {}
    for names in (
        ("side_a_device", "side_a_name", "side_b_device", "side_b_name"),
        ("StartDevice", "StartPort", "EndDevice", "EndPort"),
        ("local_device", "local_port", "remote_device", "remote_port"),
        ("local_device", "local_port", "remote_chassis_id", "remote_port_id"),
    ):
        for at, name in enumerate(names):
            cells = ["a", "1", "b", "2"]
            other = [*cells[:at], "z", *cells[at + 1 :]]
            pairs[name] = (f"{','.join(names)}\n{','.join(row)}\n" for row in (cells, other))
    return {name: tuple(pair) for name, pair in pairs.items()}  # type: ignore[misc]


CABLE_PAIRS = _cable_pairs()
CONFIG_DB = {"OCS_PORT": {"1A": {"label": "x"}}, "OCS_CROSS_CONNECT": {"1A-2B": {"a_side": "1A", "b_side": "2B"}}}


def config_db(path: Path) -> Read:
    """Cross-connects of a switch."""
    pairs, notes = read_config_db(path)
    return sorted(pairs), notes


def _config(a: str, b: str, **more: Any) -> str:
    return json.dumps({**CONFIG_DB, **more, "OCS_CROSS_CONNECT": {"x": {"a_side": a, "b_side": b}}})


CONFIG_PAIRS = {
    "OCS_CROSS_CONNECT.*.a_side": (_config("1A", "2B"), _config("3A", "2B")),
    "OCS_CROSS_CONNECT.*.b_side": (_config("1A", "2B"), _config("1A", "3B")),
}
MEASURED = {
    "collective": "allreduce", "size_bytes": 1024, "algorithm": "ring", "protocol": "simple", "channels": 4, "nodes": 1,
    "ranks": 8, "pipeOps": -1, "regBuff": -1,
}  # fmt: skip


def _measured(**other: Any) -> str:
    """Two rows, the second dearer, and one of ten times the size."""
    row = {**MEASURED, "cost_metric": 1.0, **other}
    dearer = {**row, "channels": 2, **{key: 2.0 for key in ("cost_metric", "time_us", "latency_us") if key in row}}
    large = {**row, "size_bytes": 10 * int(row["size_bytes"]), "channels": 8}
    return "\n".join([",".join(row), *(",".join(map(str, r.values())) for r in (row, dearer, large)), ""])


def measured(path: Path) -> Read:
    """Lines for NCCL."""
    of_table = EXPORTERS["nccl-tuner"].of_table
    assert of_table is not None
    made = of_table(path, ExportOptions())
    return (made.content, made.figures), made.notes


def _costs(name: str) -> Pair:
    row = {**MEASURED, "algorithm": "ring"}
    rows = [{**row, "channels": channels} for channels in (2, 4)]
    texts = []
    for costs in ((1.0, 2.0), (2.0, 1.0)):
        lines = [",".join([*row, name])]
        lines += [",".join(map(str, (*line.values(), cost))) for line, cost in zip(rows, costs, strict=True)]
        texts.append("\n".join([*lines, ""]))
    return texts[0], texts[1]


MEASURED_PAIRS = {
    **{
        name: (_measured(), _measured(**{name: value}))
        for name, value in {
            "collective": "broadcast", "size_bytes": 2048, "algorithm": "tree", "protocol": "ll", "channels": 16,
            "nodes": 2, "ranks": 16, "pipeOps": 1, "regBuff": 1,
        }.items()
    },
    **{name: _costs(name) for name in ("cost_metric", "time_us", "latency_us")},
}  # fmt: skip
MEASURED_STRANGE = _measured(never_heard_of=7)
