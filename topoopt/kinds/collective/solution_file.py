"""Solution files of collectives."""

from __future__ import annotations

import itertools

from topoopt.core.collective_solution import CollectiveSolution
from topoopt.files.faults import Fault
from topoopt.files.schedule_part import schedule_faults
from topoopt.files.solution_format import SolutionFormat
from topoopt.kinds.collective.solution_schema import CollectiveSolutionFile, exact


def _faults(file: CollectiveSolutionFile) -> list[Fault]:
    """What the schema cannot state: indices in range, tables of fitting length."""
    network, schedule, proof = file.network, file.schedule, file.proof
    n, faults = len(network.names), []
    allowed = f"0 to {n - 1}"
    if exact(network.unit_gbytes_per_s) <= 0:
        faults.append(Fault(("network", "unit_gbytes_per_s"), "not above 0", network.unit_gbytes_per_s))
    if len(network.switches) > n - 2 or max(network.switches, default=0) >= n:
        faults.append(Fault(("network", "switches"), "switches that do not exist, or fewer than two other nodes"))
    ends = [row[:2] for row in network.links]
    if any(max(pair) >= n or pair[0] == pair[1] for pair in ends) or sorted(set(ends)) != ends:
        faults.append(
            Fault(("network", "links"), "not distinct links between different nodes, in order", allowed=allowed)
        )
    faults += schedule_faults(schedule, n, ("schedule",))
    hops = {hop for path in schedule.routes if max(path) < n for hop in itertools.pairwise(path)}
    if hops - set(ends):
        faults.append(Fault(("schedule", "routes"), "over a link that does not exist", allowed="the links above"))
    if max(proof.cut, default=0) >= n:
        faults.append(Fault(("proof", "cut"), "no such node", allowed=allowed))
    if proof.lengths is not None and len(proof.lengths) != len(network.links):
        faults.append(Fault(("proof", "lengths"), "wrong number", str(len(proof.lengths)), f"{len(network.links)}"))
    return faults + _twice(file)


def _twice(file: CollectiveSolutionFile) -> list[Fault]:
    """A time stands in the file once: among the times, or as the objective."""
    said = {"time": "step_us", "algbw": "busy_us"}.get(file.objective.name)
    faults = [
        Fault(("times", name), "stands in the objective" if name == said else "is missing")
        for name in ("step_us", "busy_us")
        if (getattr(file.times, name) is None) != (name == said)
    ]
    if said is not None and not file.objective.value > 0:
        faults.append(Fault(("objective", "value"), "not above 0", str(file.objective.value)))
    return faults


SOLUTION_FILE: SolutionFormat[CollectiveSolution] = SolutionFormat(
    CollectiveSolutionFile, _faults, nested=("network", "schedule", "proof")
)
