"""Small files that stand beside an instance or a solution, made here or shipped, and how each is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.paths import INSTANCES
from tests.support.read_back.plan_files import read_ns3_topology
from topoopt.analyses.calibrate import read_runs
from topoopt.files.graph_files import read_graph
from topoopt.formats.chakra.read import read_comm_groups
from topoopt.formats.dnn_partitioning import read_expert_split
from topoopt.formats.hosts import read_hosts
from topoopt.kinds.files import read_instance
from topoopt.kinds.llm_training.huggingface import read_huggingface
from topoopt.kinds.shared_cluster.trace import read_trace

LINES = 20
"""Of a long table, the first ones."""

RATED = (
    '<?xml version="1.0" encoding="utf-8"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    '<key id="r" for="edge" attr.name="rate" attr.type="double"/><key id="o" for="node" attr.name="role" '
    'attr.type="string"/><graph edgedefault="directed"><node id="a"/><node id="b"/><node id="s"><data key="o">switch'
    '</data></node><edge source="a" target="s"><data key="r">25</data></edge><edge source="s" target="b"><data key="r">'
    '12.5</data></edge><edge source="b" target="a"><data key="r">1e2</data></edge></graph></graphml>'
)

HOSTS = """schema_version: 1
kind: hosts
hosts:
  - {server: s0, name: gpu-01, address: 10.0.0.1, links: [{interface: eth1, bridge: br1, address: 10.1.0.1/24}]}
  - {server: s1, links: [{interface: ens3f0}]}
"""

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "tie_word_embeddings": False,
}

NS3 = "4 1 3\n3\n0 3 400Gbps 0.0005ms 0\n1 3 400Gbps 0.0005ms 0\n2 3 100Gbps 1us 0\n"


def originals() -> dict[str, bytes]:
    """One of every sort."""
    return {
        "runs.csv": _first("llm-training/runs.csv"),
        "jobs.csv": _first("shared/trace-16.csv"),
        "links.csv": b"tail,head,rate\n0,1,25\n1,0,25\n1,s,12.5\ns,0,0.5\n",
        "rated.graphml": RATED.encode(),
        "hosts.yaml": HOSTS.encode(),
        "config.json": json.dumps(CONFIG).encode(),
        "groups.json": b'{"0": [0, 1, 2, 3], "1": [0, 1], "pp": [2, 3]}',
        "topology.txt": NS3.encode(),
        "split.json": b'{"cpus": [{"nodes": [2, 3]}], "fpgas": [{"nodes": [0]}, {"nodes": [1]}]}',
    }


def _first(name: str) -> bytes:
    return b"".join((INSTANCES / name).read_bytes().splitlines(keepends=True)[:LINES])


@cache
def _problem(name: str) -> Any:
    return read_instance(INSTANCES / name)


READERS: dict[str, Callable[[Path], object]] = {
    "runs.csv": read_runs,
    "jobs.csv": lambda path: read_trace(path, _problem("shared/trace-16.yaml").classes),
    "links.csv": lambda path: read_graph(path, "rates"),
    "rated.graphml": lambda path: read_graph(path, "rates"),
    "hosts.yaml": read_hosts,
    "config.json": read_huggingface,
    "groups.json": lambda path: read_comm_groups(path, 4),
    "topology.txt": read_ns3_topology,
    "split.json": read_expert_split,
}


def read_any(path: Path) -> None:
    """Read a file by its name."""
    READERS[path.name](path)
