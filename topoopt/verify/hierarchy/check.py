"""The checker of hierarchical solutions: constraints, every figure, every proof, without a solver."""

from __future__ import annotations

import math

from topoopt.core.hierarchy import Design, HierarchicalObjective, HierarchicalProblem
from topoopt.core.hierarchy_solution import HierarchicalSolution
from topoopt.core.hierarchy_workload import Collective
from topoopt.verify.hierarchy.laws import RELATIVE, broken_laws, differs_by
from topoopt.verify.hierarchy.proofs import check_bound, check_front, check_marginals
from topoopt.verify.hierarchy.times import collective_times, fleet_time_ns, job_time_ns, network_cost_usd
from topoopt.verify.laws.findings import CheckFindings, ViolationLog, check_identity

DIFFERENCE = 1e-3 * RELATIVE
"""Rounding forgiven in a gain, the difference of two sums of some thousand times, as a part of the sum."""

UNITS = {
    HierarchicalObjective.TIME: "ns",
    HierarchicalObjective.TIME_TIMES_COST: "ns*USD",
    HierarchicalObjective.COST: "USD",
}


def check_hierarchical(problem: HierarchicalProblem, solution: HierarchicalSolution) -> CheckFindings:
    """All constraints the bandwidths break, all figures that are wrong, and every proof that does not hold.

    Never raises, whatever stands in the solution; the instance is taken as valid. The bound of a catalogue of speeds is
    branch and bound's word where there are more than 100 000 combinations; else all of them are tried.
    """
    findings = ViolationLog()
    findings.guard("identity", "the identity", lambda: _identity(findings, problem, solution))
    if findings.clean:
        design = problem.designs[solution.design]
        findings.guard("bandwidth", "the bandwidths", lambda: _bandwidths(findings, problem, design, solution))
        findings.guard("figure", "the figures", lambda: _figures(findings, problem, design, solution))
        findings.guard("collective", "the collectives", lambda: _collectives(findings, design, solution))
        findings.guard("bound", "the bound", lambda: check_bound(findings, problem, solution))
        findings.guard("marginal", "the prices of bandwidth", lambda: check_marginals(findings, problem, solution))
        findings.guard("pareto", "the front", lambda: check_front(findings, problem, design, solution))
    return findings.findings()


def _identity(findings: ViolationLog, problem: HierarchicalProblem, solution: HierarchicalSolution) -> None:
    check_identity(
        findings,
        problem,
        solution,
        ("number of designs", solution.designs, len(problem.designs)),
        ("objective", solution.objective.name, problem.objective.value),
        ("unit", solution.objective.unit, UNITS[problem.objective]),
        ("fleet", solution.fleet, problem.fleet),
    )
    if not 0 <= solution.design < len(problem.designs):
        findings.add("identity", f"there is no design {solution.design}")
        return
    design = problem.designs[solution.design]
    dimensions = design.network.dimensions
    findings.hold(
        "identity",
        ("name of the design", solution.design_name, design.name),
        ("dimensions", solution.dimensions, tuple(one.name for one in dimensions)),
        ("blocks", solution.blocks, tuple(one.block.value for one in dimensions)),
        ("sizes", solution.sizes, tuple(one.size for one in dimensions)),
    )
    if len(solution.bandwidth_gbytes_per_s) != len(dimensions):
        findings.add("identity", f"{len(solution.bandwidth_gbytes_per_s)} bandwidths for {len(dimensions)} dimensions")


def _bandwidths(
    findings: ViolationLog, problem: HierarchicalProblem, design: Design, solution: HierarchicalSolution
) -> None:
    for text in broken_laws(design.network, solution.bandwidth_gbytes_per_s):
        findings.add("bandwidth", text)
    cost = network_cost_usd(design.network, solution.bandwidth_gbytes_per_s)
    cap = problem.cost_cap_usd
    if cap is not None and (cost is None or not cost <= cap * (1 + RELATIVE)):
        findings.add("cost-cap", f"the network costs {cost!r} USD, at most {cap!r} are allowed")
    time = fleet_time_ns(design, problem.fleet, solution.bandwidth_gbytes_per_s)
    limit = problem.time_limit_ns
    if limit is not None and not time <= limit * (1 + RELATIVE):
        findings.add("time-limit", f"the time is {time!r} ns, at most {limit!r} are allowed")


def _figures(
    findings: ViolationLog, problem: HierarchicalProblem, design: Design, solution: HierarchicalSolution
) -> None:
    bandwidth = solution.bandwidth_gbytes_per_s
    network = design.network
    total = sum(bandwidth) if network.total_gbytes_per_s is None else network.total_gbytes_per_s
    equal = [total / len(bandwidth)] * len(bandwidth)
    time = fleet_time_ns(design, problem.fleet, bandwidth)
    cost = network_cost_usd(network, bandwidth)
    expected = {
        HierarchicalObjective.TIME: time,
        HierarchicalObjective.TIME_TIMES_COST: time * (cost or math.nan),
        HierarchicalObjective.COST: math.nan if cost is None else cost,
    }[problem.objective]
    pairs: list[tuple[str, float | None, float | None]] = [
        ("cost_usd", solution.cost_usd, cost),
        ("objective", solution.objective.value, expected),
        ("equal_cost_usd", solution.equal_cost_usd, network_cost_usd(network, equal)),
    ]
    if [(job.name, job.weight) for job in solution.jobs] != [(job.name, job.weight) for job in design.workloads]:
        findings.add("figure", "the jobs are not those of the instance")
        return
    endless = [math.inf] * len(bandwidth)
    for stated, job in zip(solution.jobs, design.workloads, strict=True):
        pairs += [
            (f"time_ns of {job.name}", stated.time_ns, job_time_ns(job, bandwidth)),
            (f"compute_ns of {job.name}", stated.compute_ns, job_time_ns(job, endless)),
            (f"equal_split_ns of {job.name}", stated.equal_split_ns, job_time_ns(job, equal)),
        ]
    for name, value, due in pairs:
        if (value is None) != (due is None) or (value is not None and due is not None and differs_by(value, due)):
            findings.add("figure", f"the solution states {name} {value!r}, it is {due!r}")
    if len(solution.gain_ns) != len(bandwidth):
        findings.add("figure", "not one gain for each dimension")
        return
    for place, stated_gain in enumerate(solution.gain_ns):
        faster = [value + (1.0 if k == place else 0.0) for k, value in enumerate(bandwidth)]
        gain = time - fleet_time_ns(design, problem.fleet, faster)
        rounding = stated_gain == 0.0 and gain <= 2 * RELATIVE * time
        if not rounding and not abs(stated_gain - gain) <= RELATIVE * gain + DIFFERENCE * time:
            findings.add("figure", f"one more GB/s in dimension {place} gains {gain!r} ns, not {stated_gain!r}")


def _collectives(findings: ViolationLog, design: Design, solution: HierarchicalSolution) -> None:
    expected: dict[tuple[str, str, Collective], tuple[float, list[float]]] = {}
    for job in design.workloads:
        phases = [(1, task.phase) for task in job.tasks]
        for layer in job.layers:
            own = (layer.forward, layer.input_gradient, layer.weight_gradient)
            phases += [(layer.repeat, phase) for phase in own]
        for repeat, phase in phases:
            for one in phase.communications:
                spent = collective_times(one, job, solution.bandwidth_gbytes_per_s)
                if not any(spent):
                    continue
                key = (job.name, job.communicators[one.communicator].name, one.collective)
                total, known = expected.get(key, (0.0, [0.0] * len(spent)))
                expected[key] = (
                    total + repeat * one.size_bytes,
                    [a + repeat * b for a, b in zip(known, spent, strict=True)],
                )
    stated = {(one.job, one.communicator, one.collective): one for one in solution.collectives}
    if set(stated) != set(expected) or len(stated) < len(solution.collectives):
        findings.add("collective", "the collectives are not those of the instance")
        return
    for key, (size, times) in expected.items():
        row, name = stated[key], ", ".join(key)
        if len(row.times_ns) != len(times):
            findings.add("collective", f"{name}: not one time for each dimension")
            continue
        wrong = differs_by(row.size_bytes, size)
        if wrong or any(differs_by(a, b) for a, b in zip(row.times_ns, times, strict=True)):
            text = f"{row.size_bytes!r} bytes and {list(row.times_ns)} ns stated, {size!r} and {times} are due"
            findings.add("collective", f"{name}: {text}")
