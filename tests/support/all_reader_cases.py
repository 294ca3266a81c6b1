"""The cases of all readers, by the name of their table of fields."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.fuzz.foreign import LIBRA
from tests.support import written_schedules as written
from tests.support.foreign_network_cases import INFRA
from tests.support.foreign_network_cases import importing as importing_all
from tests.support.reader_cases import MSCCLPP, Read, ReaderCase, auditing, importing, libra, plain
from topoopt.files.job_document import read_profile
from topoopt.formats.chakra.read import read_comm_groups
from topoopt.formats.dnn_partitioning import read_expert_split


def _written(write: Callable[..., Path], *arguments: Any, **options: Any) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return write(Path(folder) / "file", *arguments, **options).read_text()


def _silent(read: Callable[[Path], object]) -> Callable[[Path], Read]:
    """A reader without notes: what it does not use is refused."""
    return lambda path: (plain(read(path)), ())


def _split(path: Path) -> Read:
    return read_expert_split(path)


NODE = {"id": 1, "supportedOnFpga": 1, "cpuLatency": 10, "fpgaLatency": 1.5, "isBackwardNode": 0, "colorClass": 1}
GRAPH = {
    "maxSizePerFPGA": 8e9, "maxFPGAs": 2, "maxCPUs": 1,
    "nodes": [{**NODE, "size": 1e6, "name": "a", "layerId": 1}, {**NODE, "id": 2, "size": 1e6}],
    "edges": [{"sourceId": 1, "destId": 2, "cost": 1.953125, "size": 4194304.0}],
}  # fmt: skip
LINKS = [[0, 0, 2], [2, 0, 0], [0, 2, 0]]
TOPOLOGY = {"msccl_type": "topology", "name": "ring", "links": LINKS, "switches": []}
ALGORITHM = {
    "msccl_type": "algorithm", "name": "a", "input_map": {"0": [0]}, "output_map": {"0": [0]},
    "instance": {"msccl_type": "instance", "steps": 1},
    "collective": {
        "msccl_type": "collective", "name": "Broadcast(n=3,root=0)", "nodes": 3, "triggers": {},
        "runtime_name": "broadcast",
        "chunks": [{"msccl_type": "chunk", "pre": [0], "post": [0, 1, 2], "addr": 0}],
    },
    "steps": [{"msccl_type": "step", "rounds": 1, "sends": [[0, 0, 1]]},
              {"msccl_type": "step", "rounds": 1, "sends": [[0, 1, 2]]}],
    "topology": TOPOLOGY,
}  # fmt: skip
INPUT = {
    "TopologyParams": {"name": "NDv2", "chassis": 4, "chunk_size": 0.0625, "alpha": [1e-6, 2e-6], "side_length": 4},
    "GurobiParams": {"time_limit": 2},
    "InstanceParams": {"collective": 1, "num_chunks": 1, "switch_copy": True, "epoch_type": 2},
}
MESH = {**INPUT, "TopologyParams": {"name": "Mesh", "chunk_size": 0.0625, "side_length": 3}}
STEP = ["gpu", 0, "tb", 0, "step"]
_RING = _written(written.msccl, "allgather", 3, written.ring_allgather(3), attributes={"proto": "LL", "nthreads": "64"})
_TREES = _written(written.forestcoll, 1, [("0", 1, [("0", "s", "1")]), ("1", 1, [("1", "s", "0")])])
_FLOWS = _written(written.teccl, ["0 of 0: 0>1 @0", "0 of 1: 1>0 @0"], [(1, 0, 0), (0, 0, 1)])
_WAITS = '"1" depid="-1" deps="-1"'
_COPIES = _RING.replace('s_chunks="0">', 's_chunks="0"><copy i_off="0" o_off="0"/>', 1)
_FIRST, _SECOND, _REST = _COPIES.split(_WAITS, 2)
_SECOND = _SECOND.replace('hasdep="0"', 'hasdep="1"', 1)
"""Step 1 of GPU 0 waits for step 0."""


def _profile() -> dict[str, Any]:
    rows = [{"name": "a", "pc_str": f"2-1-{k}", "fw_time": 1.5, "bw_time": 2.5, "mem_req": 100} for k in (1, 2)]
    return {"batch_size": 64, "ngpus": 4, "measurements": rows}


def _teccl() -> dict[str, Any]:
    return {**json.loads(_FLOWS), "2-Expected_Epoch_Duration": 1e-6, "Solver_Time": 1.0}


CASES: Mapping[str, ReaderCase] = {
    "ASTRA-sim: analytical network": ReaderCase(
        {"topology": ["Ring"], "npus_count": [4], "bandwidth": [50.0], "latency": [500.0]},
        importing("astrasim-network"),
        {
            "topology[]": (["topology"], ["Switch"]),
            "npus_count[]": (["npus_count"], [8]),
            "bandwidth[]": (["bandwidth"], [25.0]),
        },
    ),
    "Chakra: process groups": ReaderCase(
        {"1": [0, 1], "2": [2, 3]},
        _silent(lambda path: read_comm_groups(path, 4)),
        {"*[]": (["1"], [0, 2])},
    ),
    "dnn-partitioning: graph": ReaderCase(
        GRAPH,
        importing("dnn-partitioning", objective="throughput"),
        {
            "maxSizePerFPGA": (["maxSizePerFPGA"], 9e9),
            "maxFPGAs": (["maxFPGAs"], 3),
            "maxCPUs": (["maxCPUs"], 2),
            "nodes[].id": (["nodes"], [{**GRAPH["nodes"][0], "id": 2}, {**GRAPH["nodes"][1], "id": 1}]),  # type: ignore[index]
            "nodes[].cpuLatency": (["nodes", 0, "cpuLatency"], 11),
            "nodes[].fpgaLatency": (["nodes", 0, "fpgaLatency"], 2),
            "nodes[].supportedOnFpga": (["nodes", 0, "supportedOnFpga"], 0),
            "nodes[].isBackwardNode": (["nodes", 0, "isBackwardNode"], 1),
            "nodes[].colorClass": (["nodes", 0, "colorClass"], 2),
            "nodes[].size": (["nodes", 0, "size"], 2e6),
            "edges[].sourceId": (["edges", 0, "sourceId"], 2),
            "edges[].destId": (["edges", 0, "destId"], 1),
            "edges[].cost": (["edges", 0, "cost"], 2),
            "edges[].size": (["edges", 0, "size"], 4194304.0e3),
        },
    ),
    "dnn-partitioning: split of an expert": ReaderCase(
        {"cpus": [{"load": 0.0, "nodes": [1]}], "fpgas": [{"load": 1.0, "nodes": [2]}], "maxLoad": 1},
        _split,
        {"cpus[].nodes[]": (["cpus", 0, "nodes"], [3]), "fpgas[].nodes[]": (["fpgas", 0, "nodes"], [3])},
    ),
    "FlexNet: measured profile": ReaderCase(
        _profile(),
        _silent(read_profile),
        {
            "batch_size": (["batch_size"], 32),
            "ngpus": (["ngpus"], 2),
            "measurements[].name": (["measurements", 0, "name"], "b"),
            "measurements[].pc_str": (["measurements", 0, "pc_str"], "2-1-4"),
            "measurements[].fw_time": (["measurements", 0, "fw_time"], 2),
            "measurements[].bw_time": (["measurements", 0, "bw_time"], 3),
            "measurements[].mem_req": (["measurements", 0, "mem_req"], 101),
        },
    ),
    "ForestColl: trees": ReaderCase(
        ElementTree.fromstring(_TREES),
        auditing("forestcoll"),
        {
            "@nchunkspernode": (["@nchunkspernode"], 2),
            "tree[].@root": (["tree", 0, "@root"], "1"),
            "tree[].@nchunks": (["tree", 0, "@nchunks"], 2),
            "tree[].send[].@src": (["tree", 0, "send", 0, "@src"], "2"),
            "tree[].send[].@dst": (["tree", 0, "send", 0, "@dst"], "2"),
            "tree[].send[].@path": (["tree", 0, "send", 0, "@path"], "0,t,1"),
        },
        frozenset({"tree[].send[].@src", "tree[].send[].@dst"}),
        "trees.xml",
    ),
    "InfraGraph: infrastructure": ReaderCase(
        INFRA,
        importing_all("infragraph", name=None),
        {
            "name": (["name"], "three"),
            "devices[].name": (["devices", 0, "name"], "other"),
            "devices[].components[].name": (["devices", 0, "components", 2, "name"], "socket"),
            "devices[].components[].count": (["devices", 1, "components", 1, "count"], 6),
            "devices[].components[].choice": (["devices", 0, "components", 1, "choice"], "switch"),
            **{
                f"{levels}{name}": ([*path, *inner], value)
                for levels, path in (("devices[].links[].", ["devices", 0, "links", 1]), ("links[].", ["links", 0]))
                for name, inner, value in (
                    ("name", ["name"], "other"),
                    ("physical.bandwidth.choice", ["physical", "bandwidth", "choice"], "gigatransfers_per_second"),
                    (
                        "physical.bandwidth.gigabits_per_second",
                        ["physical", "bandwidth"],
                        {"choice": "gigabits_per_second", "gigabits_per_second": 80},
                    ),
                    (
                        "physical.bandwidth.gigabytes_per_second",
                        ["physical", "bandwidth"],
                        {"choice": "gigabytes_per_second", "gigabytes_per_second": 80},
                    ),
                    (
                        "physical.bandwidth.gigatransfers_per_second",
                        ["physical", "bandwidth"],
                        {"choice": "gigatransfers_per_second", "gigatransfers_per_second": 32},
                    ),
                    ("physical.latency.choice", ["physical", "latency"], {"choice": "ms", "ms": 1}),
                    ("physical.latency.ms", ["physical", "latency"], {"choice": "ms", "ms": 2}),
                    ("physical.latency.us", ["physical", "latency"], {"choice": "us", "us": 2}),
                    ("physical.latency.ns", ["physical", "latency"], {"choice": "ns", "ns": 2}),
                )
            },
            "devices[].links[].description": (["devices", 0, "links", 0, "description"], "NVLINK_5"),
            "links[].description": (["links", 0], {"name": "wire", "description": "PCIE_GEN5 x8"}),
            "devices[].edges[].ep1.component": (["devices", 0, "edges", 2, "ep1", "component"], "nic"),
            "devices[].edges[].ep2.component": (["devices", 0, "edges", 2, "ep2", "component"], "nic"),
            "devices[].edges[].scheme": (["devices", 0, "edges", 0, "scheme"], "many2many"),
            "devices[].edges[].link": (["devices", 0, "edges", 2, "link"], "up"),
            "edges[].ep1.component": (["edges", 0, "ep1", "component"], "xpu"),
            "edges[].ep2.component": (["edges", 0, "ep2", "component"], "asic"),
            "edges[].ep1.instance": (["edges", 0, "ep1", "instance"], "box[1]"),
            "edges[].ep2.instance": (["edges", 0, "ep2", "instance"], "tor[1]"),
            "edges[].scheme": (["edges", 0, "scheme"], "many2many"),
            "edges[].link": (["edges", 0, "link"], "other"),
            "instances[].name": (["instances", 0, "name"], "case"),
            "instances[].device": (["instances", 0, "device"], "switch"),
            "instances[].count": (["instances", 0, "count"], 3),
        },
        frozenset(
            {
                *("devices[].name", "devices[].components[].name", "devices[].links[].name", "links[].name"),
                *("instances[].name", "instances[].device", "instances[].count", "edges[].link"),
                *("edges[].ep1.instance", "edges[].ep2.instance", "edges[].ep2.component"),
                *(
                    f"{levels}physical.bandwidth.{name}"
                    for levels in ("devices[].links[].", "links[].")
                    for name in ("choice", "gigatransfers_per_second")
                ),
            }
        ),
        file="file.yaml",
    ),
    "LIBRA: communicator": ReaderCase(
        {"Forward": [-1, -1], "InputGrad": [-1, -1], "WeightGrad": [4, 2]},
        libra("communicator"),
        {
            "Forward[]": (["Forward"], [4, -1]),
            "InputGrad[]": (["InputGrad"], [4, -1]),
            "WeightGrad[]": (["WeightGrad"], [2, 2]),
        },
        beside=LIBRA,
    ),
    "LIBRA: cost model": ReaderCase(
        {"InterNode": {"Link": 4.0}, "InterPod": {"link": 7.8, "SWITCH": 18.0, "nic": 31.6, "Npu": 1.0}},
        libra("cost_model"),
        {
            "*.Link": (["InterPod", "link"], 8),
            "*.Switch": (["InterPod", "SWITCH"], 19.0),
            "*.Nic": (["InterPod", "nic"], 32.0),
        },
        beside=LIBRA,
    ),
    "LIBRA: network": ReaderCase(
        {"Topology": ["Ring", "Switch"], "NpusCount": [4, 2], "CostDimension": ["InterNode", "InterPod"]},
        libra("network"),
        {
            "Topology[]": (["Topology"], ["Switch", "Switch"]),
            "NpusCount[]": (["NpusCount"], [8, 2]),
            "CostDimension[]": (["CostDimension"], ["InterPod", "InterPod"]),
        },
        beside=LIBRA,
    ),
    "MSCCL: algorithm": ReaderCase(
        ElementTree.fromstring(_WAITS.join((_FIRST, _SECOND)) + '"1" depid="0" deps="0"' + _REST),
        auditing("msccl"),
        {
            "@name": (["@name"], "u"),
            "@coll": (["@coll"], "reduce_scatter"),
            "@ngpus": (["@ngpus"], 4),
            "@nchunksperloop": (["@nchunksperloop"], 6),
            "@nchannels": (["@nchannels"], 3),
            "@inplace": (["@inplace"], 0),
            "@proto": (["@proto"], "Simple"),
            "@maxBytes": (["@maxBytes"], 4096),
            "gpu[].@id": (["gpu", 0, "@id"], 1),
            "gpu[].@i_chunks": (["gpu", 0, "@i_chunks"], 4),
            "gpu[].@o_chunks": (["gpu", 0, "@o_chunks"], 4),
            "gpu[].@s_chunks": (["gpu", 0, "@s_chunks"], 4),
            "gpu[].copy[].@i_off": (["gpu", 0, "copy", 0, "@i_off"], 5),
            "gpu[].copy[].@o_off": (["gpu", 0, "copy", 0, "@o_off"], 2),
            "gpu[].tb[].@id": (["gpu", 0, "tb", 0, "@id"], 1),
            "gpu[].tb[].@send": (["gpu", 0, "tb", 0, "@send"], 2),
            "gpu[].tb[].@recv": (["gpu", 0, "tb", 0, "@recv"], 1),
            "gpu[].tb[].@chan": (["gpu", 0, "tb", 0, "@chan"], 1),
            "gpu[].tb[].step[].@s": ([*STEP, 0, "@s"], 5),
            "gpu[].tb[].step[].@type": ([*STEP, 0, "@type"], "nop"),
            "gpu[].tb[].step[].@srcbuf": ([*STEP, 0, "@srcbuf"], "s"),
            "gpu[].tb[].step[].@srcoff": ([*STEP, 0, "@srcoff"], 1),
            "gpu[].tb[].step[].@dstbuf": ([*STEP, 1, "@dstbuf"], "i"),
            "gpu[].tb[].step[].@dstoff": ([*STEP, 1, "@dstoff"], 1),
            "gpu[].tb[].step[].@cnt": ([*STEP, 0, "@cnt"], 2),
            "gpu[].tb[].step[].@depid": ([*STEP, 1, "@depid"], 1),
            "gpu[].tb[].step[].@deps": ([*STEP, 1, "@deps"], 5),
            "gpu[].tb[].step[].@hasdep": ([*STEP, 0, "@hasdep"], 0),
        },
        frozenset({"@ngpus", "gpu[].@id"}),
        "ring.xml",
    ),
    "MSCCL++: execution plan": MSCCLPP,
    "SCCL: algorithm, imported": ReaderCase(
        ALGORITHM,
        importing("sccl"),
        {
            "msccl_type": (["msccl_type"], "collective"),
            "collective.msccl_type": (["collective", "msccl_type"], "topology"),
            "collective.name": (["collective", "name"], "Broadcast(n=3,root=1)"),
            "collective.runtime_name": (["collective", "runtime_name"], "reduce"),
            "collective.nodes": (["collective", "nodes"], 4),
            "topology.msccl_type": (["topology", "msccl_type"], "chunk"),
            "topology.links[][]": (["topology", "links"], [[0, 0, 1], [2, 0, 0], [0, 2, 0]]),
        },
        frozenset(
            {
                "msccl_type",
                "collective.msccl_type",
                "topology.msccl_type",
                "collective.nodes",
                "collective.runtime_name",
            }
        ),
    ),
    "SCCL: algorithm, audited": ReaderCase(
        ALGORITHM,
        auditing("sccl"),
        {
            "msccl_type": (["msccl_type"], "collective"),
            "name": (["name"], "b"),
            "collective.msccl_type": (["collective", "msccl_type"], "topology"),
            "collective.name": (["collective"], {**ALGORITHM["collective"], "name": "allgather", "runtime_name": None}),  # type: ignore[dict-item]
            "collective.runtime_name": (["collective", "runtime_name"], "reduce"),
            "collective.nodes": (["collective", "nodes"], 4),
            "collective.chunks[].msccl_type": (["collective", "chunks", 0, "msccl_type"], "step"),
            "collective.chunks[].pre[]": (["collective", "chunks", 0, "pre"], [1]),
            "collective.chunks[].post[]": (["collective", "chunks", 0, "post"], [1]),
            "collective.chunks[].addr": (["collective", "chunks", 0, "addr"], 1),
            "steps[].msccl_type": (["steps", 0, "msccl_type"], "chunk"),
            "steps[].rounds": (["steps", 0, "rounds"], 0),
            "steps[].sends[][]": (["steps", 0, "sends"], [[0, 0, 2]]),
            "input_map.*[]": (["input_map"], {"0": [1]}),
            "output_map.*[]": (["output_map"], {"0": [1]}),
            "topology.msccl_type": (["topology", "msccl_type"], "chunk"),
            "topology.name": (["topology", "name"], "other"),
            "topology.links[][]": (["topology", "links"], [[0, 0, 1], [2, 0, 0], [0, 2, 0]]),
            "topology.switches[][]": (["topology", "switches"], [[[0], [1], 1, "x"]]),
            "topology.switches[][][]": (["topology", "switches"], [[[0], [1], 1, "x"]]),
        },
        frozenset(
            {
                "msccl_type",
                "collective.msccl_type",
                "collective.chunks[].msccl_type",
                "steps[].msccl_type",
                "topology.msccl_type",
                "collective.chunks[].addr",
                "steps[].rounds",
            }
        ),
    ),
    "SCCL: topology": ReaderCase(
        TOPOLOGY,
        importing("sccl"),
        {"msccl_type": (["msccl_type"], "chunk"), "links[][]": (["links"], [[0, 0, 1], [2, 0, 0], [0, 2, 0]])},
        frozenset({"msccl_type"}),
    ),
    "TE-CCL: input": ReaderCase(
        INPUT,
        importing("teccl"),
        {
            "TopologyParams.name": (["TopologyParams"], {"name": "AMD", "chassis": 4, "chunk_size": 0.0625}),
            "TopologyParams.chassis": (["TopologyParams", "chassis"], 3),
            "TopologyParams.chunk_size": (["TopologyParams", "chunk_size"], 0.125),
            "TopologyParams.alpha[]": (["TopologyParams", "alpha"], [5e-7]),
            "TopologyParams.side_length": (["TopologyParams"], {**MESH["TopologyParams"], "side_length": 5}),
            "InstanceParams.collective": (["InstanceParams", "collective"], 2),
            "InstanceParams.num_chunks": (["InstanceParams", "num_chunks"], 2),
            "InstanceParams.switch_copy": (["InstanceParams", "switch_copy"], False),
        },
    ),
    "TE-CCL: schedule": ReaderCase(
        _teccl(),
        auditing("teccl"),
        {
            "1-Epoch_Duration": (["1-Epoch_Duration"], 2e-6),
            "4-Collective_Finish_Time": (["4-Collective_Finish_Time"], 2e-6),
            "5-Algo_Bandwidth": (["5-Algo_Bandwidth"], 2.0),
            "6-Demand_Met": (["6-Demand_Met"], {"GPU 1": {"GPU 0": {"Chunk 0": 1e-6}}}),
            "7-Flows": (["7-Flows"], ["Chunk 0 from 0 traveled over 0->1 in epoch 1"]),
            "6-Flows": (["6-Flows"], ["Chunk 0 from 0 traveled over 0->1 in epoch 1"]),
            "8-Chunk paths": (["8-Chunk paths"], {"Demand at 1 for chunk 0 from 0 met by epoch 0": []}),
            "7-chunk paths": (["7-chunk paths"], {"Demand at 1 for chunk 0 from 0 met by epoch 0": []}),
        },
        frozenset({"6-Flows", "7-chunk paths"}),
    ),
}
"""Of files that are JSON, YAML or XML; of networks, tables and models see `pair_cases`, others have their own tests."""
