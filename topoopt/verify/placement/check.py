"""The checker of placements: where every operator is, what that costs, and every figure, without a solver."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.placement import PlacementProblem, Throughput
from topoopt.core.placement_solution import PlacementSolution
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.bounds import check_claim, check_stated
from topoopt.verify.laws.findings import CheckFindings, ViolationLog, check_identity, check_status, differs, int_array
from topoopt.verify.placement.arguments import claims_of, of_placement
from topoopt.verify.placement.latency import check_schedule
from topoopt.verify.placement.loads import Loads, loads_of, objective_of, resident_bytes, work_bound
from topoopt.verify.placement.stages import check_stages

RELATIVE = Tolerance.ROUNDING.relative
"""Rounding forgiven in recomputed figures."""


def check_placement(problem: PlacementProblem, solution: PlacementSolution) -> CheckFindings:
    """All laws the placement breaks, all figures that are wrong, and every bound the solution beats.

    Never raises, whatever stands in the solution; the instance is taken as valid. The verdict stored in the solution is
    not looked at. The bound is derived again by its argument (`topoopt.verify.placement.arguments`).
    """
    findings = ViolationLog()
    findings.guard("identity", "the identity", lambda: _check_identity(findings, problem, solution))
    device: list[Ints] = []
    findings.guard("placement", "the placement", lambda: device.extend(_placed(findings, problem, solution)))
    if device:
        findings.guard("memory", "the memory", lambda: _check_memory(findings, problem, device[0]))
        if isinstance(problem.objective, Throughput):
            settings = problem.objective
            findings.guard(
                "stages", "the stages", lambda: check_stages(findings, problem, settings, solution, device[0])
            )
            findings.guard("loads", "the loads", lambda: _check_loads(findings, problem, settings, solution, device[0]))
        else:
            found = loads_of(replace(problem, tensors=()), device[0])  # transfers do not occupy devices
            findings.guard("loads", "the loads", lambda: _check_rows(findings, problem, solution, found))
            findings.guard("schedule", "the schedule", lambda: check_schedule(findings, problem, solution, device[0]))
    findings.guard("schedule", "the schedule", lambda: _check_absent(findings, problem, solution))
    findings.guard("bound", "the bound", lambda: _check_bound(findings, problem, solution))
    return findings.findings()


def _check_identity(findings: ViolationLog, problem: PlacementProblem, solution: PlacementSolution) -> None:
    check_identity(findings, problem, solution)
    for name, value, expected in (
        ("settings", solution.settings, problem.objective),
        ("servers", solution.servers, problem.servers),
        ("devices", solution.devices, problem.devices),
        ("classes", solution.classes, problem.classes),
        ("operators", solution.operators, tuple(operator.name for operator in problem.operators)),
    ):
        if value != expected:
            findings.add("identity", f"the solution has other {name} than the instance")


def _placed(findings: ViolationLog, problem: PlacementProblem, solution: PlacementSolution) -> list[Ints]:
    """The device of every operator, if it can be evaluated at all; empty otherwise."""
    device = int_array(solution.device, 1)
    if device is None or len(device) != len(problem.operators):
        findings.add("placement", "not one device for each operator")
        return []
    outside = np.flatnonzero((device < 0) | (device >= len(problem.devices)))
    findings.add_each("placement", outside, lambda i: f"{problem.operators[i].name!r} is on no device: {device[i]}")
    if len(outside):
        return []
    wrong = [i for i, d in enumerate(device.tolist()) if not np.isfinite(problem.time_ms(i, d))]
    findings.add_each(
        "support", wrong, lambda i: f"{problem.operators[i].name!r} cannot run on {problem.devices[device[i]].name}"
    )
    home: dict[str, int] = {}
    for index, operator in enumerate(problem.operators):
        if (
            operator.colocation is not None
            and home.setdefault(operator.colocation, int(device[index])) != device[index]
        ):
            findings.add("colocation", f"{operator.name!r} is apart from the others of {operator.colocation!r}")
    return [] if wrong else [device]


def _check_absent(findings: ViolationLog, problem: PlacementProblem, solution: PlacementSolution) -> None:
    """Nothing is stated of the other objective."""
    if isinstance(problem.objective, Throughput):
        timed = solution.start_ms is not None or solution.end_ms is not None
        if timed or solution.transfers or solution.link_shares:
            findings.add("schedule", "a schedule is stated, but the objective is throughput")
    elif solution.stage is not None:
        findings.add("stages", "stages are stated, but the objective is latency")


def _check_memory(findings: ViolationLog, problem: PlacementProblem, device: Ints) -> None:
    for entry, held in zip(problem.devices, resident_bytes(problem, device), strict=True):
        if entry.memory_bytes is not None and held > entry.memory_bytes:
            findings.add("memory", f"{held} bytes on {entry.name}, which has {entry.memory_bytes}")


def _check_loads(
    findings: ViolationLog, problem: PlacementProblem, settings: Throughput, solution: PlacementSolution, device: Ints
) -> None:
    found = loads_of(problem, device)
    _check_rows(findings, problem, solution, found)
    value = objective_of(settings, found)
    if solution.objective.name != "max_load" or solution.objective.unit != "ms":
        findings.add("objective", f"the objective is {solution.objective.name!r}, max_load in ms expected")
    if differs(solution.objective.value, value, RELATIVE):
        findings.add("objective", f"the solution states {solution.objective.value!r} ms, the loads give {value!r}")
    floor = work_bound(problem, settings)
    if not solution.objective.value >= floor * (1 - RELATIVE):
        findings.add("bound", f"{solution.objective.value!r} ms is below the work bound, {floor!r}")


def _check_rows(findings: ViolationLog, problem: PlacementProblem, solution: PlacementSolution, found: Loads) -> None:
    if len(solution.loads) != len(problem.devices):
        findings.add("loads", "not one load for each device")
        return
    for d, load in enumerate(solution.loads):
        name = problem.devices[d].name
        stated = (load.forward_ms, load.backward_ms, load.forward_communication_ms, load.backward_communication_ms)
        expected = (*found.compute[:, d].tolist(), *found.communication[:, d].tolist())
        if any(differs(one, other, RELATIVE, 1e-12) for one, other in zip(stated, expected, strict=True)):
            findings.add("loads", f"the loads of {name} are {expected}, not {stated}")
        if load.memory_bytes != found.memory[d]:
            findings.add("loads", f"{name} holds {found.memory[d]} bytes, not {load.memory_bytes}")


def _check_bound(findings: ViolationLog, problem: PlacementProblem, solution: PlacementSolution) -> None:
    value, bound = solution.objective.value, solution.bound.value
    if not 0 <= bound <= value * (1 + RELATIVE):
        findings.add("bound", f"{value!r} ms is below its bound {bound!r}")
    check_status(findings, solution, Tolerance.TIMES_ROUNDED_DOWN)
    check_stated(findings, solution.bound, of_placement(problem, value), value)
    check_claim(findings, solution, claims_of(problem), rounding=Tolerance.TIMES_ROUNDED_DOWN)
