"""The checker of kind `regional-circuits`: ports, every step timed again, every box of the proofs priced again."""

from __future__ import annotations

from collections.abc import Iterator

from topoopt.core.proofs import Argument
from topoopt.core.regional_circuits import RegionalCircuitsProblem
from topoopt.core.regional_circuits_solution import RegionalCircuitsSolution
from topoopt.core.solution import Decides
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.bounds import check_claim, check_stated
from topoopt.verify.laws.findings import (
    CheckDepth,
    CheckFindings,
    ViolationLog,
    as_int,
    check_identity,
    check_status,
    differs,
)
from topoopt.verify.regional_circuits.boxes import check_proof, least_seconds
from topoopt.verify.regional_circuits.transfer_time import step_seconds, switch_seconds

RELATIVE = Tolerance.ROUNDING.relative


def check_regional_circuits(
    problem: RegionalCircuitsProblem, solution: RegionalCircuitsSolution, depth: CheckDepth
) -> CheckFindings:
    """All laws the circuits break, all figures that are wrong, and bounds that are beaten or not proven.

    Never raises, whatever stands in the solution; the instance is taken as valid.
    """
    findings = ViolationLog()
    findings.guard("identity", "the identity", lambda: _check_identity(findings, problem, solution))
    findings.guard("circuits", "the circuits", lambda: _check_circuits(findings, problem, solution))
    if findings.clean:
        findings.guard("steps", "the steps", lambda: _check_steps(findings, problem, solution))
        findings.guard("bound", "the bound", lambda: _check_bound(findings, problem, solution, depth))
    return findings.findings()


def _check_identity(
    findings: ViolationLog, problem: RegionalCircuitsProblem, solution: RegionalCircuitsSolution
) -> None:
    names = ("servers", "ports")
    check_identity(
        findings, problem, solution, *((name, getattr(solution, name), getattr(problem, name)) for name in names)
    )
    objective = solution.objective
    findings.hold(
        "identity", ("objective", objective.name, "communication_time"), ("unit", objective.unit, "s"),
        ("steps", len(solution.steps), len(problem.demands)),
    )  # fmt: skip


def _check_circuits(
    findings: ViolationLog, problem: RegionalCircuitsProblem, solution: RegionalCircuitsSolution
) -> None:
    """Pairs that send, once each and in order, within ports; every topology in use, no two alike."""
    pairs = set(problem.pairs)
    for place, topology in enumerate(solution.topologies):
        where = f"topology {place}"
        joined = [(each.one, each.other) for each in topology]
        if joined != sorted(set(joined)) or not set(joined) <= pairs:
            findings.add("circuits", f"{where}: not pairs that send, each once, in ascending order")
            continue
        if any(as_int(each.count) is None or each.count < 1 for each in topology):
            findings.add("circuits", f"{where}: not a whole number of at least 1 for each pair")
            continue
        used = [0] * problem.servers
        for each in topology:
            used[each.one] += each.count
            used[each.other] += each.count
        over = [
            f"{where}: {used[k]} at server {k}, of {most}" for k, most in enumerate(problem.ports) if used[k] > most
        ]
        findings.add_each("ports", range(len(over)), over.__getitem__)
    if len(set(solution.topologies)) < len(solution.topologies):
        findings.add("circuits", "a topology stands twice")
    first = list(dict.fromkeys(step.circuits for step in solution.steps))
    if first != list(range(len(solution.topologies))):
        findings.add("circuits", "topologies are not numbered by the steps that use them first")


def _check_steps(findings: ViolationLog, problem: RegionalCircuitsProblem, solution: RegionalCircuitsSolution) -> None:
    """Times of all steps, and their sum."""
    plans = []
    for topology in solution.topologies:
        count = {(each.one, each.other): each.count for each in topology}
        plans.append([count.get(pair, 0) for pair in problem.pairs])
    total, before = 0.0, None
    for place, (step, demand) in enumerate(zip(solution.steps, problem.demands, strict=True)):
        kept = before is None or before == step.circuits
        stall = 0.0 if kept else max(0.0, problem.delay_s - problem.windows_s[place])
        before = step.circuits
        rows = (
            ("stall_s", step.stall_s, stall),
            ("transfer_s", step.transfer_s, step_seconds(problem, demand, plans[step.circuits])),
            ("switch_s", step.switch_s, switch_seconds(problem, demand)),
        )
        for name, stated, due in rows:
            if differs(stated, due, RELATIVE):
                findings.add("steps", f"{name} of step {place} is {stated!r}, {due!r} is due")
        total += stall + rows[1][2]
    if differs(solution.objective.value, total, RELATIVE):
        findings.add("objective", f"the solution states {solution.objective.value!r}, all steps take {total!r}")


def _check_bound(
    findings: ViolationLog, problem: RegionalCircuitsProblem, solution: RegionalCircuitsSolution, depth: CheckDepth
) -> None:
    value, bound = solution.objective.value, solution.bound
    check_claim(findings, solution, ())
    check_status(findings, solution, Tolerance.LINEAR_PROGRAM)
    steps = len(problem.demands)
    if any(not 0 <= proof.first <= proof.last < steps for proof in solution.proofs):
        findings.add("bound", f"a proof is of steps that there are not; they are 0 to {steps - 1}")
        return
    padding = list(_padding(problem, solution))
    if padding:
        findings.add_each("bound", range(len(padding)), padding.__getitem__)
        return
    work = sum(len(proof.multipliers) for proof in solution.proofs) * len(problem.pairs)
    if work > depth.events:
        reason = f"{work} prices of pairs are more than this check looks at"
        findings.leave_out("bound", reason, Decides.BOUND)
        return

    def proven() -> float:
        for proof in solution.proofs:
            check_proof(problem, proof)
        return least_seconds(problem, solution.proofs)

    check_stated(findings, bound, {Argument.CIRCUIT_PRICES: proven}, value)


def _padding(problem: RegionalCircuitsProblem, solution: RegionalCircuitsSolution) -> Iterator[str]:
    """What no proof needs: it would only make the check longer, until it is left out."""
    seen: set[tuple[int, int]] = set()
    for proof in solution.proofs:
        where = f"the proof of steps {proof.first} to {proof.last}"
        if (proof.first, proof.last) in seen:
            yield f"{where} stands twice"
        seen.add((proof.first, proof.last))
        closed = sum(pair < 0 for pair, _ in proof.tree)
        if len(proof.multipliers) != closed or len(proof.tree) != max(2 * closed - 1, 0):
            yield f"{where} has {len(proof.multipliers)} sets of multipliers for {closed} of {len(proof.tree)} boxes"
        if any(len(own) != 3 * problem.servers for own in proof.multipliers):
            yield f"{where} has multipliers that are not {3 * problem.servers} numbers"
        if proof.bound_s <= 0.0 and proof.tree:
            yield f"{where} proves nothing, and has boxes"
