"""Any place of a valid solution file is corrupted, alone or with all that depends on it: reader or checker objects.

What may be changed all the same is listed here, with the reason: free text, and changes that leave a solution as right
as before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from tests.support import at_once_cases
from tests.support.corruption import PROVENANCE, Document, Harmless, accepted, accepted_together, case_of
from tests.support.mutations import scaled
from tests.support.network_cases import HOT_EXPERTS
from tests.support.paths import INSTANCES
from tests.support.unequal_placements import crossing_problem, unequal_problem
from topoopt.core.placement import Latency, Sharing, StageShape, Throughput
from topoopt.files.documents import Document as File
from topoopt.files.yaml_document import parse_yaml
from topoopt.kinds import KINDS
from topoopt.kinds.instance_file import build_instance, read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve

ANNEALED = SolveOptions(method="anneal", budget=500, seed=1)
LESS = (Harmless("status", "claims less than is proven", "now 'feasible'"),)
CLAIMS = (Harmless("*claimed_bound*", "nobody vouches for it, and the file says so"),)
LINKS = (
    Harmless("topology.origin", "for people"),
    Harmless("topology.offsets", "a circulant need not be called one", "emptied"),
    Harmless("topology.switches", "which switch has which permutation says nothing", "two swapped"),
)
WITNESSES = (
    Harmless("enumeration.*", "whatever lengths prove the bound are right"),
    Harmless("tree.*", "whatever lengths prove the bound are right"),
    Harmless("*certificate*", "whatever numbers prove what is stated are right"),
    Harmless("layer_prices*", "whatever prices prove the bound are right"),
    Harmless("routing.prices*", "whatever prices prove the bound are right"),
    Harmless("routing.lengths*", "whatever lengths prove the bound are right"),
    Harmless("routing.hop_flows*", "a last hop that nobody uses may be left out", "entry dropped"),
)
NETWORK = (*PROVENANCE, *LESS, *CLAIMS, *LINKS, *WITNESSES)
SURVIVING = (
    *NETWORK,
    Harmless("robustness", "where the instance asks for none, nothing need be said of failures"),
    Harmless("robustness.failures", "the check says that it does not know theta then", "emptied"),
    Harmless("robustness.failures", "the same", "key dropped"),
    Harmless("robustness.lengths*", "the check says that the last digits are not proven"),
    Harmless("robustness.nominal*", "the check says that it does not know the other topology"),
    Harmless("robustness.worst_link*", "of links that are alike any one is the worst"),
)
GIVEN = (*PROVENANCE, *LESS, *CLAIMS, *WITNESSES)
HIERARCHY = (
    *PROVENANCE,
    *LESS,
    *CLAIMS,
    *WITNESSES,
    Harmless("collectives", "the order of the rows says nothing", "two swapped"),
    Harmless("pareto", "a front of fewer points is coarser", "entry dropped"),
    Harmless("pareto.*.bandwidth_gbytes_per_s", "of dimensions that are alike, within the accuracy", "two swapped"),
    Harmless("bound.proved_by", "sums of bytes and prices prove the same", "now *"),
)
SHARED = (
    *PROVENANCE[:2],
    *PROVENANCE[3:],
    *LESS,
    *CLAIMS,
    Harmless("fabrics.*.1", "what a fabric is, for people"),
    Harmless("plans.*.topology", "how it was made, for people"),
)
FLOWS = (
    *SHARED,
    Harmless("plans.*.alone_ms", "named as not recomputed: flows of jobs are not simulated again"),
    Harmless("draws.*.times_ms.*", "the same"),
)
PLACED = (
    *PROVENANCE,
    *LESS,
    *CLAIMS,
    Harmless("bound.proved_by", "assignments and pipelines prove the same", "now 'all-*'"),
)
TRACED = (*SHARED, Harmless("seed", "of draws; a trace on the lowest servers draws nothing"))

JOB = (
    *PROVENANCE,
    *LESS,
    *WITNESSES,
    Harmless("initial_ms", "history of the search, which a check names as not recomputed"),
    Harmless("convergence*", "history of the search, which a check names as not recomputed; its end is checked"),
    Harmless("prices", "a solution without prices is one, and a check says so", "null"),
    Harmless("prices", "a solution without prices is one, and a check says so", "key dropped"),
    Harmless("prices.book_sha256", "prices of a book that is not at hand are named as not recomputed", "no text"),
    Harmless("baselines.*.description", "for people"),
    Harmless("baselines.*.graph.links", "the order of the rows says nothing", "two swapped"),
    Harmless("baselines.*.graph.rings*", "other rings that take the same time are as good", "two swapped"),
    Harmless("baselines.*.graph.rings", "a ring twice shares the bytes with itself", "entry doubled"),
    Harmless("plan.topology.origin", "for people"),
    Harmless("plan.topology.offsets", "a circulant need not be called one", "emptied"),
    Harmless("plan.topology.switches", "which switch has which permutation says nothing", "two swapped"),
    Harmless("plan.rings.*.members", "a group is a set", "two swapped"),
    Harmless("plan.rings.*.rings", "rings of equal shares may change places", "two swapped"),
    Harmless("demand.allreduce.*.1", "a group is a set", "two swapped"),
)


def times(factor: float, *paths: str) -> Callable[[Document], Document]:
    """All numbers at or below the paths, `*` for every entry, times a factor; those the file has not are left out."""
    return lambda document: scaled(document, factor, *paths)


THETA = ("objective.value",)
TOGETHER_NETWORK = {
    "theta everywhere": times(0.9, *THETA),
    "theta and bounds everywhere": times(0.9, *THETA, "bound.value", "routing_bound"),
    "less flow": times(0.9, *THETA, "bound.value", "routing_bound", "routing.flows", "routing.split"),
    "more links": times(2, "topology.arcs.*.2", "topology.degree"),
}
TOGETHER_ROBUST = {
    **TOGETHER_NETWORK,
    "theta after failures": times(0.8, "robustness.worst_theta", "robustness.bound.value"),
    "less flow after failures": times(0.8, "robustness.worst_theta", "robustness.failures.*.2", "robustness.lengths"),
}
RATES = ("transfers.*.route_gbps", "servers.*.2.*.1")
TOGETHER_ALLOCATION = {
    "all rates": times(1.05, *RATES, "objective.value", "bound.value"),
    "all rates and capacities": times(1.05, *RATES, "objective.value", "bound.value", "capacity_gbps"),
    "lower rates": times(0.95, *RATES, "objective.value", "bound.value"),
    "value and bound": times(1.05, "objective.value", "bound.value"),
}
TIMES = ("jobs.*.time_ns", "collectives.*.times_ns", "objective.value")
TOGETHER_HIERARCHY = {
    "all times": times(0.9, *TIMES),
    "all times and bounds": times(0.9, *TIMES, "bound.value", "pareto.*.time_ns", "pareto.*.limit_ns"),
    "faster for nothing": times(1.1, "bandwidth_gbytes_per_s"),
    "cheaper": times(0.9, "cost_usd", "equal_cost_usd", "pareto.*.cost_usd", "pareto.*.cost_bound.value"),
    "a worse equal split": times(1.5, "jobs.*.equal_split_ns"),
}
CIRCUITS = (
    *PROVENANCE,
    *LESS,
    *WITNESSES,
    Harmless("proof.*_tree*", "a witness: another tree may prove the same"),
    Harmless("proof.paths*", "a witness: what no mean has proves nothing"),
    Harmless("proof.means*", "a witness: other weights and prices may prove the same"),
    Harmless("proof.circuits_bound", "fewer is the weaker statement, and its page says so", "x0*"),
    Harmless("proof.circuits_bound", "the same", "-1"),
    Harmless("proof.circuits_bound", "the same", "zero"),
    Harmless("fastest*", "another plan that takes as long is as good"),
)
TOGETHER_CIRCUITS = {
    "faster": times(0.9, "objective.value", "bound.value", "steps.*.3", "steps.*.4"),
    "faster, as claimed": times(0.9, "objective.value", "steps.*.3", "steps.*.4"),
    "more ports": times(2, "ports", "proof.circuits_bound"),
}
REGION = (
    *PROVENANCE,
    *LESS,
    *WITNESSES,
    Harmless("proofs*", "a witness: another one may prove the same"),
    Harmless("topologies.*.*.[012]", "other circuits that no step is slower with, within ports"),
    Harmless("topologies.*", "the same without circuits that no step needs", "entry dropped"),
)
TOGETHER_REGION = {
    "faster": times(0.9, "objective.value", "bound.value", "steps.*.2"),
    "faster, as claimed": times(0.9, "objective.value", "steps.*.2"),
    "more ports": times(2, "ports", "topologies.*.*.2"),
    "a better bound": times(1.1, "proofs.*.bound_s", "bound.value"),
}
SECONDS = ("stays.*.2", "stays.*.3", "stays.*.4", "stays.*.5", "jobs.*.1")
TOTALS = ("objective.value", "bound.value")
TOGETHER_SHARED = {
    "all times": times(0.9, *SECONDS, *TOTALS),
    "iteration times": times(0.9, *TOTALS, "jobs.*.4"),
    "work": times(0.9, "stays.*.3", "stays.*.4"),
    "faster fabrics": times(2, "runs.*.fabric.server_gbps"),
    "shorter jobs": times(0.5, "jobs.*.3"),
}
TOGETHER_AT_ONCE = {
    "all times": times(0.9, "draws.*.times_ms", *TOTALS),
    "times alone": times(0.9, "plans.*.alone_ms", "plans.*.bound.value", "bound.value"),
    "given times": times(0.9, "classes.*.iteration_ms", "draws", "plans", "objective.value"),
    "rates": times(2, "rates_gbps"),
}
LOADS = tuple(f"devices.*.{phase}_{what}ms" for phase in ("forward", "backward") for what in ("", "communication_"))
TOGETHER_PIPELINE = {
    "all loads": times(0.9, *LOADS, "objective.value"),
    "all loads and bounds": times(0.9, *LOADS, "objective.value", "bound.value"),
    "communication": times(0.5, *LOADS[1::2], "objective.value", "bound.value"),
    "memory": times(2, "devices.*.used_memory_bytes", "devices.*.memory_bytes"),
    "value and bound": times(1.1, "objective.value", "bound.value"),
    "a higher bound": times(1.5, "bound.value"),
}
SCHEDULE = ("start_ms", "end_ms", "transfers.*.2", "transfers.*.3", "objective.value")
TOGETHER_SCHEDULE = {
    "all times": times(0.9, *SCHEDULE),
    "all times and bounds": times(0.9, *SCHEDULE, "bound.value", *LOADS),
    "a slower schedule": times(1.1, *SCHEDULE),
    "rates and times": times(0.5, "link_shares.*.3", "transfers.*.2", "transfers.*.3"),
    "value and bound": times(1.1, "objective.value", "bound.value"),
}

SHARES = ("ranked.*.breakdown", "objective.value", "fabrics.*.breakdown", "stages")
TOGETHER_TRAINING = {
    "all times": times(0.9, *SHARES),
    "all times and bounds": times(0.9, *SHARES, "bound.value", "shapes.*.bound_s", "other_bounds_s"),
    "memory": times(0.9, "ranked.*.memory", "fabrics.*.memory", "shapes.*.least_bytes"),
    "operations": times(1.1, "model_flops", "peak_flops"),
    "a smaller space": times(0, "shapes.*.records", "shapes.*.fitting"),
    "lower bounds": times(0.5, "bound.value", "shapes.*.bound_s", "other_bounds_s"),
}

SPANS = tuple(f"evaluation.{name}.*.{column}" for name in ("timeline", "critical_path") for column in (3, 4))
TOTAL = ("objective.value", "convergence.*.2", "initial_ms")
TOGETHER_JOB = {
    "a shorter iteration": times(0.931, *TOTAL, *SPANS, "bound.value"),
    "a longer iteration": times(1.069, *TOTAL, *SPANS),
    "a shorter iteration, links busier": times(0.5, *TOTAL, *SPANS, "bound.value", "evaluation.link_bytes"),
    "slower baselines": times(10.0, "baselines.*.iteration_time_ms"),
    "lower prices": times(0.1, "prices.usd.*.1"),
    "less traffic": times(0.9, "evaluation.link_bytes", "demand.model_parallel_bytes.*.2", "demand.allreduce.*.0"),
    "shorter operators": times(0.5, "operators.*.forward_ms", "operators.*.backward_ms"),
    "slower links": times(0.5, "cluster.link_gbps", "evaluation.link_bytes"),
}


COLLECTIVE = (
    *PROVENANCE,
    *LESS,
    *CLAIMS,
    Harmless("proof*", "whatever sets and lengths prove the bound are right"),
    Harmless("front.*.method", "a check names it as not recomputed"),
    Harmless("front.*.pieces", "a check names it as not recomputed"),
)
COLLECTIVE_TIMES = ("objective.value", "times", "front.*.latency_us", "front.*.us_per_mbyte")
TOGETHER_COLLECTIVE = {
    "all times": times(0.9, *COLLECTIVE_TIMES),
    "all times and bounds": times(0.9, *COLLECTIVE_TIMES, "bound.value"),
    "less data": times(0.5, *COLLECTIVE_TIMES, "bound.value", "vector_bytes"),
    "faster links": times(0.5, *COLLECTIVE_TIMES, "bound.value", "message_us", "network.links.*.3"),
    "a higher bound": times(1.01, "bound.value"),
}


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


def placed(sharing: Sharing | None = None, stages: StageShape = StageShape.CONTIGUOUS) -> Callable[[], Any]:
    """Eight operators on three devices that differ, over links that do: objective throughput, or latency."""
    settings = Throughput(stages=stages, stages_per_device=2 if stages is StageShape.INTERLEAVED else 1)
    if sharing is None:
        return lambda: unequal_problem(2, operators=8, memory=True, settings=settings)
    return lambda: replace(crossing_problem(), objective=Latency(sharing))


FABRICS_OF_TRAINING = """{schema_version: 1, kind: llm-training, name: case,
  model: {layers: 8, hidden: 2048, ffn_hidden: 4096, heads: 16, kv_heads: 8, vocabulary: 32000,
          experts: {count: 32, per_token: 4, hidden: 1024}},
  batch: {sequences: 64, length: 4096},
  cluster: {servers: 8, gpus_per_server: 2, device: h100, gpu_memory_gib: 20, intra_server_gbps: 400, degree: 6,
            interfaces: per-gpu, link_gbps: 50},
  strategy: {tensor: [1], context: [1], pipeline: [4], expert: [4], zero: [1], schedule: [zb-h1], micro_batch: [1],
             recompute: [none]},
  fabrics: [direct-connect, torus-3d, fat-tree], search: {top: 2}}"""
TRAINING = (
    *PROVENANCE,
    *LESS,
    Harmless("fabrics.*.tried", "how many strategies the search made a network for; the page of the checker names it"),
    Harmless("fabrics.*.places", "servers in their order need not be listed", "emptied"),
    Harmless("fabrics.*.places", "the same", "key dropped"),
    Harmless("fabrics.*.rings.*.orders*", "a ring twice shares the bytes with itself", "entry doubled"),
    Harmless("fabrics.*.rings*", "the order of groups says nothing, nor does where a ring begins", "two swapped"),
    Harmless("fabrics.*.links", "the order of the rows says nothing", "two swapped"),
    Harmless("fabrics.*.loads", "the order of the rows says nothing", "two swapped"),
    Harmless("fabrics.*.routes", "a link is the way between its ends, also where two halves of it are listed"),
    Harmless("fabrics.*.routes.*.path.*", "another way over links that are no fuller"),
    Harmless("fabrics.*.next*", "times on networks that are not kept, which a check names as not recomputed"),
)

CASES = {
    "routing": Valid(shipped("networks/k4-4"), GIVEN, TOGETHER_NETWORK),
    "routing, completion time": Valid(partial(written, COMPLETION), GIVEN, TOGETHER_NETWORK),
    "topology, bounds": Valid(shipped("networks/uniform-5-2"), NETWORK, TOGETHER_NETWORK),
    "topology, milp": Valid(partial(written, SKEWED), NETWORK, TOGETHER_NETWORK, SolveOptions(method="milp")),
    "topology, totient": Valid(
        shipped("networks/uniform-8-2"), NETWORK, TOGETHER_NETWORK, SolveOptions(method="totient")
    ),
    "topology, robust": Valid(partial(written, ROBUST), SURVIVING, TOGETHER_ROBUST, SolveOptions(method="robust"), 40),
    "topology, several demands": Valid(partial(written, HOT_EXPERTS), NETWORK, TOGETHER_NETWORK, most=50),
    "allocation, water-filling": Valid(shipped("networks/parking-lot-5"), GIVEN, TOGETHER_ALLOCATION),
    "allocation, programs": Valid(shipped("networks/guarantees-6"), GIVEN, TOGETHER_ALLOCATION),
    "allocation, completion time": Valid(shipped("networks/shuffle-torus-4x4"), GIVEN, TOGETHER_ALLOCATION, most=20),
    "collective, sum": Valid(shipped("collectives/ring-5"), COLLECTIVE, TOGETHER_COLLECTIVE),
    "collective, all sizes": Valid(partial(written, SIZES), COLLECTIVE, TOGETHER_COLLECTIVE, most=60),
    "shared cluster, trace": Valid(shipped("shared/trace-16"), TRACED, TOGETHER_SHARED),
    "shared cluster, best of all": Valid(
        partial(written, ARRIVALS), SHARED, TOGETHER_SHARED, SolveOptions(method="best")
    ),
    "shared cluster, backfilling": Valid(
        partial(written, ARRIVALS), SHARED, TOGETHER_SHARED, SolveOptions(method="backfill")
    ),
    "jobs at once, formula": Valid(partial(written, AT_ONCE), SHARED, TOGETHER_AT_ONCE),
    "jobs at once, flows": Valid(
        lambda: at_once_cases.read(at_once_cases.instance()), FLOWS, TOGETHER_AT_ONCE, most=60
    ),
    "job": Valid(shipped("tiny-4"), JOB, TOGETHER_JOB, SolveOptions(budget=20, seed=1), most=100),
    "placement, pipeline": Valid(shipped("placement/branches-3"), PLACED, TOGETHER_PIPELINE),
    "placement, unequal links": Valid(placed(), PLACED, TOGETHER_PIPELINE, most=60),
    "placement, interleaved": Valid(placed(stages=StageShape.INTERLEAVED), PLACED, TOGETHER_PIPELINE, most=60),
    "placement, free sets": Valid(placed(stages=StageShape.FREE), PLACED, TOGETHER_PIPELINE, most=60),
    "placement, step, fair": Valid(placed(Sharing.FAIR), PLACED, TOGETHER_SCHEDULE, ANNEALED, most=60),
    "placement, step, queues": Valid(placed(Sharing.FIFO), PLACED, TOGETHER_SCHEDULE, ANNEALED, most=60),
    "placement, step, rates": Valid(placed(Sharing.STATIC), PLACED, TOGETHER_SCHEDULE, ANNEALED, most=60),
    "placement, step, alone": Valid(placed(Sharing.NONE), PLACED, TOGETHER_SCHEDULE, ANNEALED, most=60),
    "llm-training": Valid(shipped("llm-training/small-16"), PROVENANCE, TOGETHER_TRAINING, most=100),
    "llm-training, fabrics": Valid(partial(written, FABRICS_OF_TRAINING), TRAINING, TOGETHER_TRAINING, most=60),
    "dag-topology": Valid(shipped("dag-topology/two-stages"), CIRCUITS, TOGETHER_CIRCUITS),
    "regional-circuits": Valid(shipped("regional-circuits/hot-experts-8"), REGION, TOGETHER_REGION),
    "hierarchy": Valid(shipped("hierarchical/resnet50-3d"), HIERARCHY, TOGETHER_HIERARCHY),
    "hierarchy, speeds": Valid(shipped("hierarchical/fleet-4d"), HIERARCHY, TOGETHER_HIERARCHY, most=50),
}


@cache
def solved(case: str) -> tuple[Any, Any]:
    """A problem with its solution."""
    problem = CASES[case].problem()
    return problem, solve(problem, CASES[case].options)


def test_every_kind_is_corrupted() -> None:
    """A kind without a case here is an error."""
    assert {CASES[case].problem().kind for case in CASES} == set(KINDS)


@pytest.mark.parametrize("case", CASES)
def test_any_place_corrupted_is_rejected(case: str, tmp_path: Path) -> None:
    """Numbers, names, flags, rows, keys: each by itself."""
    known = CASES[case]
    assert accepted(case_of(*solved(case), tmp_path), known.harmless, seed=3, most=known.most) == []


@pytest.mark.heavy
@pytest.mark.parametrize("case", CASES)
def test_every_place_corrupted_is_rejected(case: str, tmp_path: Path) -> None:
    """All changes, but of long lists."""
    assert accepted(case_of(*solved(case), tmp_path), CASES[case].harmless, seed=4) == []


@pytest.mark.parametrize("case", CASES)
def test_figures_corrupted_together_are_rejected(case: str, tmp_path: Path) -> None:
    """A figure with those that depend on it: what they rest on gives them away."""
    assert accepted_together(case_of(*solved(case), tmp_path), CASES[case].together) == []
