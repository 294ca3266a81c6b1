"""Small files of other tools, made here, and how each is read."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import topoopt.costs
from tests.support import chakra_files, foreign_network_cases
from topoopt.core.errors import TopooptError
from topoopt.files.demand_files import read_demand, read_trace
from topoopt.files.graph_files import read_graph
from topoopt.files.price_book_file import read_price_book
from topoopt.formats.table import IMPORTERS, Imported
from topoopt.kinds.files import read_instance, write_instance

MATRIX = np.array([[0.0, 1.5, 0.25], [2.0, 0.0, 0.5], [1.0, 3.0, 0.0]])


def attempt(run: Callable[[], object]) -> None:
    """Run; an error of the project is as good as success."""
    with contextlib.suppress(TopooptError):
        run()


def _bytes(save: Callable[[io.BytesIO], object]) -> bytes:
    stream = io.BytesIO()
    save(stream)
    return stream.getvalue()


def matrices() -> dict[str, bytes]:
    """One matrix in every format."""
    table = pa.table({str(k): MATRIX[:, k] for k in range(3)})
    return {
        "m.csv": "\n".join(",".join(map(str, row)) for row in MATRIX).encode(),
        "m.npy": _bytes(lambda stream: np.save(stream, MATRIX)),
        "whole.npy": _bytes(lambda stream: np.save(stream, MATRIX.astype(np.int32))),
        "m.parquet": _bytes(lambda stream: pq.write_table(table, stream)),
    }


def read_matrix(path: Path) -> object:
    return read_demand(path)


def traces() -> dict[str, bytes]:
    """Some matrices in every format."""
    two = np.stack((MATRIX, 2 * MATRIX))
    return {
        "t.npy": _bytes(lambda stream: np.save(stream, two)),
        "t.npz": _bytes(lambda stream: np.savez(stream, a=MATRIX, b=MATRIX)),
        "packed.npz": _bytes(lambda stream: np.savez_compressed(stream, a=two, b=MATRIX)),
    }


def read_demand_trace(path: Path) -> object:
    return read_trace(path)


def graphs() -> dict[str, bytes]:
    """A ring of three in every format."""
    edges = "".join(f'<edge source="{k}" target="{(k + 1) % 3}"><data key="d0">2</data></edge>' for k in range(3))
    nodes = "".join(f'<node id="{k}"/>' for k in range(3))
    head = '<?xml version="1.0" encoding="utf-8"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    key = '<key id="d0" for="edge" attr.name="multiplicity" attr.type="int"/>'
    links = [{"source": k, "target": (k + 1) % 3} for k in range(3)]
    return {
        "g.graphml": f'{head}{key}<graph edgedefault="directed">{nodes}{edges}</graph></graphml>'.encode(),
        "g.json": json.dumps({"directed": True, "nodes": [{"id": k} for k in range(3)], "links": links}).encode(),
        "g.csv": b"tail,head,links\n0,1,2\n1,2,1\n2,0,1\n",
        "g.edges": b"0 1\n1 2\n2 0\n",
    }


def read_any_graph(path: Path) -> object:
    return read_graph(path)


def price_books() -> dict[str, bytes]:
    """The one that is shipped."""
    path = Path(topoopt.costs.__file__).parent / "prices-2023.yaml"
    return {"prices.yaml": path.read_bytes()}


def read_any_price_book(path: Path) -> object:
    return read_price_book(path)


def _graph_to_place() -> bytes:
    nodes = [
        {"id": k, "name": f"op{k}", "supportedOnFpga": 1, "cpuLatency": 5.0 + k, "fpgaLatency": 1.0 + k, "size": 10.0,
         "isBackwardNode": int(k > 2), "colorClass": k % 3}
        for k in range(6)
    ]  # fmt: skip
    edges = [{"sourceId": k, "destId": k + 1, "cost": 0.5, "size": 1.0} for k in range(5)]
    top = {"maxSizePerFPGA": 100.0, "maxFPGAs": 2, "maxCPUs": 1, "nodes": nodes, "edges": edges}
    return json.dumps(top).encode()


@cache
def _taskgraph() -> bytes:
    """The task graph of the smallest job, as it is exported."""
    from tests.support.smallest import problem_of, solution_of
    from topoopt.formats.table import EXPORTERS, ExportOptions
    from topoopt.simulate.network import build_task_graph

    problem, solution = problem_of("co-optimisation"), solution_of("co-optimisation")
    graph = build_task_graph(problem.cluster, problem.workload, solution.plan.strategy)
    files = EXPORTERS["flexnet-taskgraph"].build(solution, ExportOptions(task_graph=graph)).files
    return next(content for name, content in files if name.endswith(".fbuf"))


def _profile() -> bytes:
    measured = [
        {"name": name, "pc_str": f"2-1-{parts}", "fw_time": 1.5, "bw_time": 2.5, "mem_req": 1000}
        for name in ("Dense_8_8", "Flat", "Embed_100_8")
        for parts in (1, 2, 4)
    ]
    return json.dumps({"batch_size": 64, "ngpus": 4, "measurements": measured}).encode()


def _trace(folder: Path | None = None) -> bytes:
    return chakra_files.stream(
        chakra_files.node(1, 4, us=10, inputs="[]", num_ops=1000, tensor_size=4096),
        chakra_files.node(2, 7, after=[1], us=5, comm_type=0, comm_size=1 << 20, pg_name="0", involved_dim=[1]),
        chakra_files.node(3, 4, after=[2], us=3),
    )


LIBRA = {
    "network.yml": b"Topology: [ Ring, Switch ]\nNpusCount: [ 4, 2 ]\nCostDimension: [ InterNode, InterPod ]\n",
    "cost.yml": b"InterNode:\n  Link: 4.0\n  Switch: 13.0\nInterPod:\n  Link: 7.8\n  Switch: 18.0\n  Nic: 31.6\n",
    "ranks.yml": b"Forward: [ -1, -1 ]\nInputGrad: [ -1, -1 ]\nWeightGrad: [ 4, 2 ]\n",
    "work.txt": b"conv1 -1 13003 NONE 0 12864 NONE 0 32291 ALLREDUCE 51005824 3229\n"
    b"conv2 -1 3456 ALLTOALL 1000 3648 NONE 0 7488 ALLREDUCE 4096 0\n",
}


NETWORKS = {
    "simai.ns3": foreign_network_cases.SIMAI,
    "machine.xml": foreign_network_cases.NCCL,
    "hive.xml": foreign_network_cases.HIVE,
    "two.infragraph.json": json.dumps(foreign_network_cases.INFRA),
    "n.graph": foreign_network_cases.GRAPH + foreign_network_cases.DEMANDS,
    "native.sndlib": foreign_network_cases.SNDLIB,
    "xml.sndlib": foreign_network_cases.SNDLIB_XML,
    "zoo.gml": foreign_network_cases.ONE_FORM,
}


def imports() -> dict[str, bytes]:
    """A file of every format that is imported; of formats of several files, each."""
    return {
        "graph.json": _graph_to_place(),
        "profile.json": _profile(),
        "job.0.et": _trace(),
        "ring.yml": b"topology: [ Ring, Switch ]\nnpus_count: [ 8, 2 ]\n"
        b"bandwidth: [ 50.0, 25.0 ]\nlatency: [ 500.0, 1 ]\n",
        "graph.fbuf": _taskgraph(),
        "input.teccl": b'{"TopologyParams": {"name": "AMD", "chassis": 2, "chunk_size": 0.0625, "alpha": [1e-6, 0]},'
        b' "InstanceParams": {"collective": 2, "num_chunks": 1}}',
        "ring.sccl": b'{"msccl_type": "topology", "name": "r", "links": [[0, 1], [1, 0]], "switches": []}',
        **LIBRA,
        **{name: text.encode() for name, text in NETWORKS.items()},
    }


def import_any(path: Path) -> None:
    """Import a file by its name, write the instance as YAML and JSON, and read it again."""
    for run in IMPORTS[path.name](path):
        attempt(lambda run=run: _taken(run(), path.parent))


def _taken(imported: Imported, folder: Path) -> None:
    for name in ("again.yaml", "again.json"):
        write_instance(imported.document, folder / name)
        read_instance(folder / name)


def _libra(path: Path) -> list[Callable[[], Imported]]:
    for name, content in LIBRA.items():
        if name != path.name:
            (path.parent / name).write_bytes(content)
    files: dict[str, Any] = {
        key: path.parent / name
        for key, name in (("network", "network.yml"), ("cost_model", "cost.yml"), ("workload", "work.txt"))
    }
    common = {**files, "total_gbytes_per_s": 100.0, "communicator": path.parent / "ranks.yml"}
    return [partial(IMPORTERS["libra"], **common, loop=loop) for loop in ("no-overlap", "dp-overlap")]


IMPORTS: dict[str, Callable[[Path], list[Callable[[], Imported]]]] = {
    "graph.json": lambda path: [
        lambda objective=objective: IMPORTERS["dnn-partitioning"](path, objective=objective)
        for objective in ("throughput", "latency")
    ],
    "profile.json": lambda path: [
        lambda model=model: IMPORTERS["flexnet"](path, model=model) for model in ("dlrm", "vgg")
    ],
    "job.0.et": lambda path: [
        lambda kind=kind: IMPORTERS["chakra"](
            path, kind=kind, ranks=4, dims="ring:2,switch:2", total_gbytes_per_s=100.0, peak_tflops=100.0
        )
        for kind in ("co-optimisation", "topology", "hierarchical-bandwidth")
    ],
    "ring.yml": lambda path: [lambda: IMPORTERS["astrasim-network"](path)],
    "graph.fbuf": lambda path: [lambda: IMPORTERS["flexnet"](path)],
    "input.teccl": lambda path: [lambda: IMPORTERS["teccl"](path)],
    "ring.sccl": lambda path: [lambda: IMPORTERS["sccl"](path)],
    **dict.fromkeys(LIBRA, _libra),
    "simai.ns3": lambda path: [lambda: IMPORTERS["astrasim-network"](path)],
    "machine.xml": lambda path: [
        lambda links=links: IMPORTERS["nccl-topology"](path, links=links) for links in ("scale-up", "all")
    ],
    "hive.xml": lambda path: [lambda: IMPORTERS["nccl-topology"](path)],
    "two.infragraph.json": lambda path: [lambda: IMPORTERS["infragraph"](path)],
    "n.graph": lambda path: [lambda: IMPORTERS["repetita"](path, demands=path)],
    "native.sndlib": lambda path: [
        lambda: IMPORTERS["sndlib"](path, links="bidirected", demands="symmetric", modules=1)
    ],
    "xml.sndlib": lambda path: [lambda: IMPORTERS["sndlib"](path, links="directed", demands="directed")],
    "zoo.gml": lambda path: [lambda: IMPORTERS["topology-zoo"](path, missing_gbps=1.0)],
}
