"""Laws of the circuits of a region on the ports of its switch, step by step."""

from __future__ import annotations

from collections import Counter

from topoopt.core.regional_circuits_solution import RegionalCircuitsSolution
from topoopt.core.step_circuits import SwitchedSteps
from topoopt.verify.laws.findings import Violation, ViolationLog


def check_switched_steps(solution: RegionalCircuitsSolution, made: SwitchedSteps) -> tuple[Violation, ...]:
    """All laws broken: as many circuits of each pair as the solution has, ports once, no more changed than must be."""
    findings = ViolationLog()
    owner = [server for server, count in enumerate(solution.ports) for _ in range(count)]
    if len(made.steps) != len(solution.steps):
        findings.add("step-circuits", f"{len(made.steps)} steps, the solution has {len(solution.steps)}")
        return findings.violations()
    before: set[int] = set()
    had: Counter[tuple[int, int]] = Counter()
    for place, (one, step) in enumerate(zip(made.steps, solution.steps, strict=True)):
        ports = [port for number in one.lit for port in made.circuits[number]]
        if len(set(ports)) < len(ports) or not set(ports) <= set(range(len(owner))):
            findings.add("step-circuits", f"step {place}: a port twice, or one that the switch has not")
            break
        joined = Counter((owner[made.circuits[k][0]], owner[made.circuits[k][1]]) for k in one.lit)
        wanted = Counter({(each.one, each.other): each.count for each in solution.topologies[step.circuits]})
        if joined != wanted:
            findings.add("step-circuits", f"step {place}: other circuits than those of the solution")
        if set(one.connect) != set(one.lit) - before or set(one.disconnect) != before - set(one.lit):
            findings.add("step-circuits", f"step {place}: changes that do not lead to its circuits")
        if len(one.connect) != (wanted - had).total():
            findings.add("step-circuits", f"step {place}: more circuits are set than need be")
        before, had = set(one.lit), wanted
    return findings.violations()
