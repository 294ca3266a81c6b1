"""A small solution made by hand, and a valid instance document, for the file tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from topoopt.core.cluster import LinkDirection
from topoopt.core.job import ComparedStrategy, CoOptimisation, JobPlan, OtherFabrics, strategy_certificate
from topoopt.core.proofs import Argument, Bound, Status, StopReason
from topoopt.core.result import CheckResult, Objective, Result
from topoopt.core.topology import Topology
from topoopt.core.workload import (
    GroupRings,
    PathTable,
    Placement,
    Ring,
    Strategy,
    StrategyCase,
    StrategyCertificate,
    StrategyCut,
)
from topoopt.files.job_document import cluster_document, workload_document

GRAPH_INSTANCE: dict[str, Any] = {
    "schema_version": 1,
    "kind": "co-optimisation",
    "name": "tiny",
    "cluster": {"servers": 4, "gpus_per_server": 2, "degree": 2, "link_gbps": 100, "gpu_memory_gib": 1.5},
    "workload": {
        "name": "two-layers",
        "samples": 8,
        "operators": [
            {
                "name": "first",
                "kind": "dense",
                "output_elements": 64,
                "element_bytes": 4,
                "weight_elements": [4096, 64],
                "splits": [
                    {"sample_ways": 4, "forward_ms": 0.5, "backward_ms": 1.0, "server_memory_bytes": 1000},
                    {"sample_ways": 1, "forward_ms": 2, "backward_ms": 4.0, "server_memory_bytes": 4000},
                ],
            },
            {
                "name": "second",
                "kind": "dense",
                "output_elements": 32,
                "element_bytes": 4,
                "weight_elements": [2048],
                "inputs": [{"operator": "first", "fraction": 0.5}],
                "mixes_channels": False,
                "locally_reduced": False,
                "splits": [
                    {
                        "sample_ways": 2,
                        "channel_ways": 2,
                        "reduce_ways": 1,
                        "forward_ms": 0.25,
                        "backward_ms": 0.5,
                        "server_memory_bytes": 500,
                    }
                ],
            },
        ],
    },
    "search": {"budget": 100, "seed": 3, "time_limit_s": 1.5, "method": "auto"},
    "baselines": {"fat_tree_gbps": 50.0, "fat_tree_oversubscription": 2.0},
}

MODEL_INSTANCE_YAML = """\
schema_version: 1
kind: co-optimisation
name: dlrm-16
cluster:
  servers: 16
  gpus_per_server: 4
  degree: 4
  link_gbps: 100
workload:
  model: dlrm
  sizes:
    tables: 16
    samples_per_gpu: 256
  operator_times: {device: a100}
search:
  budget: 20000
"""


def ring_of_four() -> Result[CoOptimisation, JobPlan]:
    """Two operators on four servers in a bidirectional ring: one data parallel, one on servers 0 and 2."""
    arcs = np.array([[0, 1], [0, 3], [1, 0], [1, 2], [2, 1], [2, 3], [3, 0], [3, 2]], dtype=np.int32)
    topology = Topology(
        servers=4,
        degree=2,
        links=LinkDirection.BIDIRECTIONAL,
        arcs=arcs,
        multiplicity=np.ones(8, dtype=np.int32),
        switches=np.array([[1, 0, 3, 2], [3, 2, 1, 0]], dtype=np.int32),
        offsets=(1, 3),
        origin="one ring, by hand",
    )
    # Servers 0 and 2 are opposite each other, so their traffic is shared by the two ways round.
    routes = PathTable(
        nodes_total=4,
        source=np.array([0, 2], dtype=np.int32),
        target=np.array([2, 0], dtype=np.int32),
        pair_ptr=np.array([0, 2, 3], dtype=np.int64),
        share=np.array([0.1, 0.9, 1.0]),
        path_ptr=np.array([0, 3, 6, 9], dtype=np.int64),
        node=np.array([0, 1, 2, 0, 3, 2, 2, 1, 0], dtype=np.int32),
    )
    ring = Ring((0, 1, 2, 3), 1.0, ((0, 1), (1, 2), (2, 3), (3, 0)))
    strategy = Strategy((Placement(0, 0), Placement(1, 0)))
    proof = StrategyCertificate(
        (
            StrategyCut(1, (0, 2), 1, 2),
            StrategyCase((("all work", 1 / 3), ("reduce 0", 1e-9)), 0.0, (((0.1, -0.2), (1 / 7,)),)),
            StrategyCase((), 2.5, (((0.0, 0.0), (-1e-17,)),)),
        )
    )
    return Result(
        name="by-hand",
        kind="co-optimisation",
        status=Status.FEASIBLE,
        stopped_by=StopReason.CONVERGED,
        objective=Objective("iteration time", 1 / 3, "ms"),
        bound=Bound(0.1, Argument.COMPUTE_CHAIN),
        check=CheckResult(True, ()),
        seed=7,
        method="alternating",
        plan=JobPlan(
            strategy,
            topology,
            routes,
            (GroupRings((0, 1, 2, 3), (ring,)),),
            comparison=OtherFabrics(7, "ef" * 32, (ComparedStrategy("ideal-switch", strategy),)),
        ),
        instance_sha256="0" * 64,
        versions=(("topoopt", "0.1.0"), ("python", "3.11")),
        notes=("made by hand",),
        certificates=(strategy_certificate(proof, ("all work", "reduce 0")),),
    )


def instance_document(instance: CoOptimisation) -> dict[str, Any]:
    """An instance with its workload in full; reading it back gives an equal one but for source, hash and notes."""
    search, baselines = instance.search, instance.baselines
    return {
        "schema_version": 1,
        "kind": instance.kind,
        "name": instance.name,
        "cluster": cluster_document(instance.cluster),
        "workload": workload_document(instance.workload),
        "search": {
            "method": search.method,
            "budget": search.budget,
            "time_limit_s": search.time_limit_s,
            "seed": search.seed,
            **({} if search.robust is None else {"robust": vars(search.robust)}),
        },
        "baselines": {
            "fat_tree_gbps": baselines.fat_tree_gbps,
            "fat_tree_oversubscription": baselines.fat_tree_oversubscription,
        },
    }
