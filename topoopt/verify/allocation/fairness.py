"""Whether rates are max-min fair: no transfer can have more but at the cost of one that has no more than it.

Rates are known to a part of `ROUNDED`, and so is what fills a link: what is judged is whether they are fair for
capacities that are smaller by that part. It matters where a transfer sends a tiny part of its traffic over a full link,
as with routes split at every server: the rounding of the load of the link, over that part, may be any rate.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.allocation import AllocationProblem
from topoopt.core.allocation_solution import AllocationSolution, PriceCertificate
from topoopt.core.verdict import Tolerance
from topoopt.verify.allocation.bounds import base_and_gain, parts_of, priced_bound
from topoopt.verify.laws.findings import ViolationLog

RELATIVE = Tolerance.LINEAR_PROGRAM.relative
"""What a transfer may still gain, as a part of its rate; also the difference of levels that counts as none."""

ROUNDED = Tolerance.ROUNDING.relative
"""The part of a load that rounding may leave free; `check_allocation` forgives as much on the other side."""

ABSOLUTE = Tolerance.ROUNDING.relative
"""The same as a part of the largest capacity."""


def _levels(problem: AllocationProblem, solution: AllocationSolution) -> np.ndarray:
    base, gain = base_and_gain(problem)
    return np.asarray((solution.rates_gbps - base) / gain)


def _slack(problem: AllocationProblem, rate: float) -> float:
    return RELATIVE * rate + ABSOLUTE * float(problem.capacity_gbps.max())


def check_bottlenecks(findings: ViolationLog, problem: AllocationProblem, solution: AllocationSolution) -> None:
    """Transfers of one route each: every one is at its limit, or uses something full where no other has a higher level.

    This is necessary and sufficient (Bertsekas and Gallager, Data Networks, section 6.5.2), also for routes split in
    given parts, and needs no certificate.
    """
    shared, rates, level = problem.shared_gbps(), solution.rates_gbps, _levels(problem, solution)
    uses = [parts_of(problem, transfer, transfer.routes[0]) for transfer in problem.transfers]
    load, highest = np.zeros(len(shared)), np.full(len(shared), -np.inf)
    for t, (numbers, parts) in enumerate(uses):
        load[numbers] += parts * rates[t]
        np.maximum.at(highest, numbers, level[t])
    room = shared - load
    _, gain = base_and_gain(problem)
    for t, (transfer, (numbers, parts)) in enumerate(zip(problem.transfers, uses, strict=True)):
        slack = _slack(problem, float(rates[t]))
        if transfer.max_gbps - rates[t] <= slack:
            continue
        full = room[numbers] <= np.maximum(slack * parts, ROUNDED * load[numbers])
        first = (highest[numbers] - level[t]) * gain[t] <= slack
        if not (full & first).any():
            findings.add("max-min", f"{transfer.name} has {rates[t]:.9g} Gbit/s and could have more: no bottleneck")


def check_certificates(findings: ViolationLog, problem: AllocationProblem, solution: AllocationSolution) -> None:
    """Transfers with a choice of routes: the prices prove of every transfer that it cannot gain.

    With prices as in `PriceCertificate`, a transfer t of the certificate gains at most (gap + what transfers of a
    higher level have, times their y) / y_t while no transfer of a level as low as its own loses.
    """
    rates, level = solution.rates_gbps, _levels(problem, solution)
    _, gain = base_and_gain(problem)
    proven = np.zeros(len(rates), dtype=bool)
    for number, certificate in enumerate(solution.certificates):
        findings.guard(
            "certificate",
            f"certificate {number}",
            lambda certificate=certificate: _apply(problem, certificate, rates, level, gain, proven),  # type: ignore[misc]
        )
    for t in np.flatnonzero(~proven):
        transfer = problem.transfers[t]
        if transfer.max_gbps - rates[t] > _slack(problem, float(rates[t])):
            findings.add("max-min", f"no certificate proves the {rates[t]:.9g} Gbit/s of {transfer.name}")


def _apply(
    problem: AllocationProblem,
    certificate: PriceCertificate,
    rates: np.ndarray,
    level: np.ndarray,
    gain: np.ndarray,
    proven: np.ndarray,
) -> None:
    """Mark the transfers a certificate proves."""
    found = priced_bound(problem, certificate)
    who = np.array(sorted(found.value), dtype=np.int64)
    worth = np.array([float(found.value[int(t)]) for t in who])
    have = worth * rates[who]
    gap = max(0.0, float(found.most) * (1 - ROUNDED) - float(have.sum()))
    for t in certificate.transfers.tolist():
        if t not in found.value:
            continue
        slack = _slack(problem, float(rates[t]))
        higher = (level[who] - level[t]) * gain[t] > slack
        if (gap + float(have[higher].sum())) / float(found.value[t]) <= slack:
            proven[t] = True
