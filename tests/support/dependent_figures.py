"""Figures of solution files that depend on each other, kind by kind, and how all of them are changed at once."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.corruption import Document
from tests.support.mutations import scaled


def times(factor: float, *paths: str) -> Callable[[Document], Document]:
    """All numbers at or below the paths, `*` for every entry, times a factor; those the file has not are left out."""
    return lambda document: scaled(document, factor, *paths)


THETA = ("objective.value",)
NETWORK = {
    "theta everywhere": times(0.9, *THETA),
    "theta and bounds everywhere": times(0.9, *THETA, "bound.value", "routing_bound"),
    "less flow": times(0.9, *THETA, "bound.value", "routing_bound", "routing.flows", "routing.split"),
    "more links": times(2, "topology.arcs.*.2", "topology.degree"),
}
ROBUST = {
    **NETWORK,
    "theta after failures": times(0.8, "robustness.worst_theta", "robustness.bound.value"),
    "less flow after failures": times(0.8, "robustness.worst_theta", "robustness.failures.*.2", "robustness.lengths"),
}
RATES = ("transfers.*.route_gbps", "servers.*.2.*.1")
ALLOCATION = {
    "all rates": times(1.05, *RATES, "objective.value", "bound.value"),
    "all rates and capacities": times(1.05, *RATES, "objective.value", "bound.value", "capacity_gbps"),
    "lower rates": times(0.95, *RATES, "objective.value", "bound.value"),
    "value and bound": times(1.05, "objective.value", "bound.value"),
}
TIMES = ("jobs.*.time_ns", "collectives.*.times_ns", "objective.value")
HIERARCHY = {
    "all times": times(0.9, *TIMES),
    "all times and bounds": times(0.9, *TIMES, "bound.value", "pareto.*.time_ns", "pareto.*.limit_ns"),
    "faster for nothing": times(1.1, "bandwidth_gbytes_per_s"),
    "cheaper": times(0.9, "cost_usd", "equal_cost_usd", "pareto.*.cost_usd", "pareto.*.cost_bound.value"),
    "a worse equal split": times(1.5, "jobs.*.equal_split_ns"),
}
CIRCUITS = {
    "faster": times(0.9, "objective.value", "bound.value", "steps.*.3", "steps.*.4"),
    "faster, as claimed": times(0.9, "objective.value", "steps.*.3", "steps.*.4"),
    "more ports": times(2, "ports", "proof.circuits_bound"),
}
REGION = {
    "faster": times(0.9, "objective.value", "bound.value", "steps.*.2"),
    "faster, as claimed": times(0.9, "objective.value", "steps.*.2"),
    "more ports": times(2, "ports", "topologies.*.*.2"),
    "a better bound": times(1.1, "proofs.*.bound_s", "bound.value"),
}
SECONDS = ("stays.*.2", "stays.*.3", "stays.*.4", "stays.*.5", "jobs.*.1")
TOTALS = ("objective.value", "bound.value")
SHARED = {
    "all times": times(0.9, *SECONDS, *TOTALS),
    "iteration times": times(0.9, *TOTALS, "jobs.*.4"),
    "work": times(0.9, "stays.*.3", "stays.*.4"),
    "faster fabrics": times(2, "runs.*.fabric.server_gbps"),
    "shorter jobs": times(0.5, "jobs.*.3"),
}
AT_ONCE = {
    "all times": times(0.9, "draws.*.times_ms", *TOTALS),
    "times alone": times(0.9, "plans.*.alone_ms", "plans.*.bound.value", "bound.value"),
    "given times": times(0.9, "classes.*.iteration_ms", "draws", "plans", "objective.value"),
    "rates": times(2, "rates_gbps"),
}
LOADS = tuple(f"devices.*.{phase}_{what}ms" for phase in ("forward", "backward") for what in ("", "communication_"))
PIPELINE = {
    "all loads": times(0.9, *LOADS, "objective.value"),
    "all loads and bounds": times(0.9, *LOADS, "objective.value", "bound.value"),
    "communication": times(0.5, *LOADS[1::2], "objective.value", "bound.value"),
    "memory": times(2, "devices.*.used_memory_bytes", "devices.*.memory_bytes"),
    "value and bound": times(1.1, "objective.value", "bound.value"),
    "a higher bound": times(1.5, "bound.value"),
}
STARTS_AND_ENDS = ("start_ms", "end_ms", "transfers.*.2", "transfers.*.3", "objective.value")
SCHEDULE = {
    "all times": times(0.9, *STARTS_AND_ENDS),
    "all times and bounds": times(0.9, *STARTS_AND_ENDS, "bound.value", *LOADS),
    "a slower schedule": times(1.1, *STARTS_AND_ENDS),
    "rates and times": times(0.5, "link_shares.*.3", "transfers.*.2", "transfers.*.3"),
    "value and bound": times(1.1, "objective.value", "bound.value"),
}
SHARES = ("ranked.*.breakdown", "objective.value", "fabrics.*.breakdown", "stages")
TRAINING = {
    "all times": times(0.9, *SHARES),
    "all times and bounds": times(0.9, *SHARES, "bound.value", "shapes.*.bound_s", "other_bounds_s"),
    "memory": times(0.9, "ranked.*.memory", "fabrics.*.memory", "shapes.*.least_bytes"),
    "operations": times(1.1, "model_flops", "peak_flops"),
    "a smaller space": times(0, "shapes.*.records", "shapes.*.fitting"),
    "lower bounds": times(0.5, "bound.value", "shapes.*.bound_s", "other_bounds_s"),
}
PODS = {
    **TRAINING,
    "shorter iterations": times(
        0.9, "objective.value", "fabrics.*.pods.makespan_s", "fabrics.*.pods.tried.*.makespan_s"
    ),
    "shorter iterations and bounds": times(
        0.9,
        "objective.value",
        "bound.value",
        "fabrics.*.pods.makespan_s",
        "fabrics.*.pods.tried.*.makespan_s",
        "fabrics.*.pods.tried.*.bound_s",
        "fabrics.*.pods.others_s",
    ),
    "higher bounds": times(1.1, "bound.value", "fabrics.*.pods.tried.*.bound_s", "fabrics.*.pods.others_s"),
    "fewer bytes": times(0.5, "fabrics.*.pods.links.*.3", "fabrics.*.pods.links.*.4"),
}
SPANS = tuple(f"evaluation.{name}.*.{column}" for name in ("timeline", "critical_path") for column in (3, 4))
TOTAL = ("objective.value", "convergence.*.2", "initial_ms")
JOB = {
    "a shorter iteration": times(0.931, *TOTAL, *SPANS, "bound.value"),
    "a longer iteration": times(1.069, *TOTAL, *SPANS),
    "a shorter iteration, links busier": times(0.5, *TOTAL, *SPANS, "bound.value", "evaluation.link_bytes"),
    "slower baselines": times(10.0, "baselines.*.iteration_time_ms"),
    "lower prices": times(0.1, "prices.usd.*.1"),
    "less traffic": times(0.9, "evaluation.link_bytes", "demand.model_parallel_bytes.*.2", "demand.allreduce.*.0"),
    "shorter operators": times(0.5, "operators.*.forward_ms", "operators.*.backward_ms"),
    "slower links": times(0.5, "cluster.link_gbps", "evaluation.link_bytes"),
}
COLLECTIVE_TIMES = ("objective.value", "times", "front.*.latency_us", "front.*.us_per_mbyte")
COLLECTIVE = {
    "all times": times(0.9, *COLLECTIVE_TIMES),
    "all times and bounds": times(0.9, *COLLECTIVE_TIMES, "bound.value"),
    "less data": times(0.5, *COLLECTIVE_TIMES, "bound.value", "vector_bytes"),
    "faster links": times(0.5, *COLLECTIVE_TIMES, "bound.value", "message_us", "network.links.*.3"),
    "a higher bound": times(1.01, "bound.value"),
}
