"""Solution files of collectives."""

from __future__ import annotations

import itertools

import numpy as np

from topoopt.core.collective_solution import CollectiveSolution
from topoopt.files.faults import Fault
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
    if any(max(row[1], row[2]) >= n for row in schedule.blocks):
        faults.append(Fault(("schedule", "blocks"), "no such node", allowed=allowed))
    if sum(row[0] for row in schedule.blocks) > 1 << 60:
        faults.append(Fault(("schedule", "blocks"), "more units than can be counted", allowed="at most 2^60"))
    if any(max(path) >= n for path in schedule.routes):
        faults.append(Fault(("schedule", "routes"), "no such node", allowed=allowed))
    elif {hop for path in schedule.routes for hop in itertools.pairwise(path)} - set(ends):
        faults.append(Fault(("schedule", "routes"), "over a link that does not exist", allowed="the links above"))
    step, block, route, _ = schedule.sends.T
    for column, name, most in ((block, "block", len(schedule.blocks)), (route, "route", len(schedule.routes))):
        if len(column) and column.max() >= most:
            faults.append(Fault(("schedule", "sends"), f"no such {name}", str(column.max()), f"0 to {most - 1}"))
    if len(step) and (np.diff(step) < 0).any():
        faults.append(Fault(("schedule", "sends"), "not in the order of their steps"))
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
