"""Problems of all kinds whose solution files are corrupted, with what may be changed in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tests.support import at_once_cases
from tests.support import dependent_figures as together
from tests.support import harmless_places as harmless
from tests.support.corruption import PROVENANCE, Document, Harmless
from tests.support.network_cases import HOT_EXPERTS
from tests.support.paths import INSTANCES
from tests.support.unequal_placements import crossing_problem, unequal_problem
from topoopt.core.placement import Latency, Sharing, StageShape, Throughput
from topoopt.files.documents import Document as File
from topoopt.files.documents import parse_yaml
from topoopt.kinds.files import build_instance, read_instance
from topoopt.kinds.kind import SolveOptions

ANNEALED = SolveOptions(method="anneal", budget=500, seed=1)


@dataclass(frozen=True)
class Valid:
    """A problem whose solution is corrupted.

    Attributes:
        problem: makes it.
        harmless: changes nobody needs to object to.
        together: changes of figures that depend on each other.
        options: of the search.
        most: changes of single places that are tried.
    """

    problem: Callable[[], Any]
    harmless: tuple[Harmless, ...]
    together: Mapping[str, Callable[[Document], Document]]
    options: SolveOptions = field(default_factory=lambda: SolveOptions(seed=1))
    most: int = 120


def shipped(name: str) -> Callable[[], Any]:
    """An instance of ours."""
    return lambda: read_instance(INSTANCES / f"{name}.yaml")


def written(text: str) -> Any:
    """The problem of an instance as it is written here."""
    return build_instance(File("case.yaml", parse_yaml(text, 10_000).data, lambda _: {}))


HEAD = "{schema_version: 1, name: case, kind: "
RING = "topology: {family: circulant, servers: 6, offsets: [1, 2]}"
COMPLETION = (
    f"{HEAD}routing, {RING}, demand: {{family: uniform}}, objective: completion-time, hop_price: 0.05, max_hops: 3}}"
)
SKEWED = (
    HEAD + "topology, servers: 4, degree: 2, links: unidirectional, "
    "demand: {matrix: [[0, 3, 1, 1], [1, 0, 2, 1], [1, 1, 0, 4], [2, 1, 1, 0]]}}"
)
ROBUST = HEAD + "topology, servers: 5, degree: 2, links: unidirectional, demand: {family: uniform}}"
SIZES = (
    HEAD + "collective, topology: {family: ring, servers: 4, link_gbytes_per_s: 10}, collective: allgather, "
    "bytes: 1MB, latency_us: {link: 1, message: 2}, objective: pareto}"
)
CLUSTER = "cluster: {servers: 16, degree: 4, link_gbps: 100}"
CLASSES = """classes: [
  {name: two, servers: 2, iteration_ms: [100, 120], compute_ms: 60, allreduce_gbytes: 2, iterations: 40},
  {name: six, servers: 6, iteration_ms: [150], compute_ms: 100, allreduce_gbytes: 1, duration_s: 3}]"""
TIMED = CLASSES.replace(", iterations: 40", "").replace(", duration_s: 3", "")
FABRICS = """fabrics: [
  {kind: partitioned}, {name: thin, kind: fat-tree, server_gbps: 400, oversubscription: 4, paths: hashed}]"""
ARRIVALS = f"""{HEAD}shared-cluster, {CLUSTER}, optical: {{switch_ports: 8}}, {CLASSES}, {FABRICS},
  jobs: {{count: 12, rate_per_s: 0.3, spread: exponential}}, contention: coinciding}}"""
AT_ONCE = f"""{HEAD}shared-cluster, {CLUSTER}, {TIMED}, {FABRICS},
  jobs: {{at_once: [1, 2], repetitions: 3}}, contention: interleaved}}"""


def placed(sharing: Sharing | None = None, stages: StageShape = "contiguous") -> Callable[[], Any]:
    """Eight operators on three devices that differ, over links that do: objective throughput, or latency."""
    settings = Throughput(stages=stages, stages_per_device=2 if stages == "interleaved" else 1)
    if sharing is None:
        return lambda: unequal_problem(2, operators=8, memory=True, settings=settings)
    return lambda: replace(crossing_problem(), objective=Latency(sharing))


FEW_STRATEGIES = (
    (INSTANCES / "llm-training/small-16.yaml")
    .read_text()
    .replace("context: [1, 2]", "context: 1")
    .replace("short_ends: [0, 1, 2], micro_batch: [1, 2]", "short_ends: [0, 1], micro_batch: 2")
)
"""A checker goes through all of them every time."""

FABRICS_OF_TRAINING = """{schema_version: 1, kind: llm-training, name: case,
  model: {layers: 8, hidden: 2048, ffn_hidden: 4096, heads: 16, kv_heads: 8, vocabulary: 32000,
          experts: {count: 32, per_token: 4, hidden: 1024}},
  batch: {sequences: 64, length: 4096},
  cluster: {servers: 8, gpus_per_server: 2, device: h100, gpu_memory_gib: 20, intra_server_gbps: 400, degree: 6,
            interfaces: per-gpu, link_gbps: 50},
  strategy: {tensor: [1], context: [1], pipeline: [4], expert: [4], zero: [1], schedule: [zb-h1], micro_batch: [1],
             recompute: [none]},
  fabrics: [direct-connect, torus-3d, fat-tree], search: {top: 2}}"""
FORWARDED = FABRICS_OF_TRAINING.replace("link_gbps: 50}", "link_gbps: 50, optical_interfaces: 4}").replace(
    "[direct-connect, torus-3d, fat-tree], search: {top: 2}", "[regional-circuits], search: {top: 1}"
)
SCHEDULED = FABRICS_OF_TRAINING.replace(
    "[direct-connect, torus-3d, fat-tree], search: {top: 2}", "[torus-2d], search: {top: 1, allreduce: bfb}"
)
RAILS = (
    HEAD
    + "llm-training, model: {layers: 4, hidden: 2048, ffn_hidden: 8192, heads: 16, kv_heads: 4, vocabulary: 32000}, "
    "batch: {sequences: 16, length: 2048}, cluster: {servers: 4, gpus_per_server: 2, device: a100, "
    "gpu_memory_gib: null, intra_server_gbps: 2400, degree: 4, interfaces: per-gpu, link_gbps: 100}, "
    "strategy: {tensor: 2, context: 1, "
    "pipeline: [1, 2], recompute: none, micro_batch: [1, 2], zero: 1, chunks: 1}, switching: {delay: 3ms}, "
    "search: {top: 2}}"
)
PODS = (
    HEAD
    + "llm-training, model: {layers: 4, hidden: 2048, ffn_hidden: 8192, heads: 16, kv_heads: 4, vocabulary: 32000}, "
    "batch: {sequences: 16, length: 2048}, cluster: {servers: 4, gpus_per_server: 2, device: a100, "
    "gpu_memory_gib: null, intra_server_gbps: 2400, degree: 4, interfaces: per-gpu, link_gbps: 200}, "
    "strategy: {tensor: [1, 2], context: 1, recompute: none, micro_batch: 2, zero: [0, 1], chunks: 1, schedule: 1f1b}, "
    "pods: {gpus: 2, ports: 3, circuit_gbps: 12.5}, search: {topology: dag, top: 2}}"
)
SLACK = (
    HEAD + "dag-topology, pods: 3, ports: [4, 5, 4], circuit_rate: 1, slack_percent: 30, transfers: ["
    "{name: a, source: 0, target: 1, volume: 4}, {name: b, source: 1, target: 2, volume: 2, after: [a]}], "
    "tasks: [{name: c, duration: 0.5, after: [b]}]}"
)
SPLIT = (
    HEAD + "regional-circuits, servers: 4, ports: 2, circuit_gbps: 100, electrical_gbps: 50, split: true, "
    "demands: [{family: hot-experts, steps: 2, seed: 1, law: dirichlet, skew: 0.4, scale: 1.0e+8}]}"
)
TREE = (
    HEAD + "parallel-circuits, servers: 4, switches: 1, delay_us: 0.5, "
    "demand: {matrix: [[0, 9, 8, 5], [9, 0, 9, 0], [4, 6, 0, 3], [6, 8, 5, 0]]}}"
)

CASES = {
    "routing": Valid(shipped("networks/k4-4"), harmless.GIVEN, together.NETWORK),
    "routing, completion time": Valid(partial(written, COMPLETION), harmless.GIVEN, together.NETWORK),
    "topology, bounds": Valid(shipped("networks/uniform-5-2"), harmless.NETWORK, together.NETWORK),
    "topology, milp": Valid(partial(written, SKEWED), harmless.NETWORK, together.NETWORK, SolveOptions(method="milp")),
    "topology, totient": Valid(
        shipped("networks/uniform-8-2"), harmless.NETWORK, together.NETWORK, SolveOptions(method="totient")
    ),
    "topology, robust": Valid(
        partial(written, ROBUST), harmless.SURVIVING, together.ROBUST, SolveOptions(method="robust"), 40
    ),
    "topology, several demands": Valid(partial(written, HOT_EXPERTS), harmless.NETWORK, together.NETWORK, most=50),
    "allocation, water-filling": Valid(shipped("networks/parking-lot-5"), harmless.GIVEN, together.ALLOCATION),
    "allocation, programs": Valid(shipped("networks/guarantees-6"), harmless.GIVEN, together.ALLOCATION),
    "allocation, completion time": Valid(
        shipped("networks/shuffle-torus-4x4"), harmless.GIVEN, together.ALLOCATION, most=20
    ),
    "collective, sum": Valid(shipped("collectives/ring-5"), harmless.COLLECTIVE, together.COLLECTIVE),
    "collective, all sizes": Valid(partial(written, SIZES), harmless.COLLECTIVE, together.COLLECTIVE, most=60),
    "shared cluster, trace": Valid(shipped("shared/trace-16"), harmless.TRACED, together.SHARED),
    "shared cluster, best of all": Valid(
        partial(written, ARRIVALS), harmless.SHARED, together.SHARED, SolveOptions(method="best")
    ),
    "shared cluster, backfilling": Valid(
        partial(written, ARRIVALS), harmless.SHARED, together.SHARED, SolveOptions(method="backfill")
    ),
    "jobs at once, formula": Valid(partial(written, AT_ONCE), harmless.SHARED, together.AT_ONCE),
    "jobs at once, flows": Valid(
        lambda: at_once_cases.read(at_once_cases.instance()), harmless.FLOWS, together.AT_ONCE, most=60
    ),
    "job": Valid(shipped("tiny-4"), harmless.JOB, together.JOB, SolveOptions(budget=20, seed=1), most=100),
    "placement, pipeline": Valid(shipped("placement/branches-3"), harmless.PLACED, together.PIPELINE),
    "placement, unequal links": Valid(placed(), harmless.PLACED, together.PIPELINE, most=60),
    "placement, interleaved": Valid(placed(stages="interleaved"), harmless.PLACED, together.PIPELINE, most=60),
    "placement, free sets": Valid(placed(stages="free"), harmless.PLACED, together.PIPELINE, most=60),
    "placement, step, fair": Valid(placed("fair"), harmless.PLACED, together.SCHEDULE, ANNEALED, most=60),
    "placement, step, queues": Valid(placed("fifo"), harmless.PLACED, together.SCHEDULE, ANNEALED, most=60),
    "placement, step, rates": Valid(placed("static"), harmless.PLACED, together.SCHEDULE, ANNEALED, most=60),
    "placement, step, alone": Valid(placed("none"), harmless.PLACED, together.SCHEDULE, ANNEALED, most=60),
    "llm-training": Valid(partial(written, FEW_STRATEGIES), PROVENANCE, together.TRAINING, most=100),
    "llm-training, fabrics": Valid(partial(written, FABRICS_OF_TRAINING), harmless.ROUTED, together.TRAINING, most=60),
    "llm-training, regions": Valid(partial(written, FORWARDED), harmless.ROUTED, together.TRAINING, most=40),
    "llm-training, schedules": Valid(partial(written, SCHEDULED), harmless.SCHEDULES, together.TRAINING, most=40),
    "llm-training, pods": Valid(partial(written, PODS), harmless.PODS, together.PODS, most=60),
    "llm-training, rails": Valid(partial(written, RAILS), harmless.TRAINING, together.TRAINING, most=50),
    "dag-topology, slack": Valid(partial(written, SLACK), harmless.CIRCUITS, together.CIRCUITS),
    "regional-circuits, split": Valid(partial(written, SPLIT), harmless.REGION, together.REGION),
    "dag-topology": Valid(shipped("dag-topology/two-stages"), harmless.CIRCUITS, together.CIRCUITS),
    "regional-circuits": Valid(shipped("regional-circuits/hot-experts-8"), harmless.REGION, together.REGION),
    "parallel-circuits, tree": Valid(partial(written, TREE), harmless.PARALLEL, together.PARALLEL),
    "parallel-circuits, prices": Valid(
        shipped("parallel-circuits/drawn-5"), harmless.PARALLEL, together.PARALLEL, most=100
    ),
    "hierarchy": Valid(shipped("hierarchical/resnet50-3d"), harmless.HIERARCHY, together.HIERARCHY),
    "hierarchy, speeds": Valid(shipped("hierarchical/fleet-4d"), harmless.HIERARCHY, together.HIERARCHY, most=50),
}
