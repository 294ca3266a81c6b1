"""The report of a placement: one HTML file that needs nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.placement import Communication, Schedule, StageShape, Throughput
from topoopt.core.placement_solution import PlacementSolution
from topoopt.core.verdict import Status
from topoopt.drawing.format import counted, milliseconds, number, percent, quotient, ratio, shortened
from topoopt.drawing.page import Card, closing_cards, render_page, run_rows, versions_row
from topoopt.drawing.sentences import bound_text, objective_text
from topoopt.kinds.placement.answer import answer
from topoopt.kinds.placement.bars import PARTS, device_load_ms, device_rows
from topoopt.kinds.placement.gantt import gantt, rate_rows

TEMPLATE = "kinds/placement/page.html.j2"
SHOWN_OPERATORS = 400
"""Operators of one device listed by name."""


@dataclass(frozen=True)
class DeviceOperators:
    """What runs on a device, by name."""

    device: str
    count: str
    names: tuple[str, ...]
    hidden: int


def settings_text(solution: PlacementSolution) -> str:
    """What is minimised, in words."""
    settings = solution.settings
    if not isinstance(settings, Throughput):
        return f"time of one step; transfers of a server: {settings.sharing.value}"
    schedule = (
        "largest forward plus largest backward load (GPipe)"
        if settings.schedule is Schedule.GPIPE
        else "largest load of a device (1F1B)"
    )
    joined = "added to" if settings.communication is Communication.ADDED else "overlapped with"
    shape = {
        StageShape.CONTIGUOUS: "contiguous stages",
        StageShape.INTERLEAVED: f"{settings.stages_per_device} interleaved stages a device",
        StageShape.FREE: "any sets of operators",
    }[settings.stages]
    return f"{schedule}; communication {joined} compute; {shape}"


def cards(solution: PlacementSolution) -> tuple[Card, ...]:
    """Objective, gap, verdict, balance."""
    objective, bound = solution.objective, solution.bound
    loads = [device_load_ms(solution, load) for load in solution.loads]
    busy = [load for load in loads if load > 0]
    mean = sum(busy) / len(busy) if busy else 0.0
    return (
        Card(objective_text(objective.name), milliseconds(objective.value), settings_text(solution), "main"),
        Card(
            "gap to the lower bound",
            percent(solution.gap),
            f"bound {milliseconds(bound.value)}, proved by: {bound.proved_by}; {solution.status.value}",
            "good" if solution.status is Status.OPTIMAL else "",
        ),
        *closing_cards(solution),
        Card(
            "balance",
            ratio(quotient(max(loads), mean)),
            f"largest load over the mean, {counted(len(busy), 'device')} in use",
        ),
        _communication(solution),
    )


def _communication(solution: PlacementSolution) -> Card:
    if solution.start_ms is not None:
        times = [way.end_ms - way.start_ms for way in solution.transfers]
        return Card("transfers", f"{len(times):,}", f"{number(sum(times))} ms in all, beside compute")
    sent = sum(load.communication_ms for load in solution.loads)
    return Card(
        "communication",
        percent(quotient(sent, sum(load.compute_ms for load in solution.loads))),
        f"of compute, {number(sent)} ms over all devices",
    )


def operators_of(solution: PlacementSolution) -> tuple[DeviceOperators, ...]:
    """Names by device, in instance order."""
    found: list[list[str]] = [[] for _ in solution.devices]
    for name, device in zip(solution.operators, solution.device.tolist(), strict=True):
        found[device].append(name)
    return tuple(
        DeviceOperators(
            shortened(device.name, 32),
            counted(len(names), "operator"),
            tuple(shortened(name, 60) for name in names[:SHOWN_OPERATORS]),
            max(0, len(names) - SHOWN_OPERATORS),
        )
        for device, names in zip(solution.devices, found, strict=True)
    )


def provenance(solution: PlacementSolution) -> tuple[tuple[str, str], ...]:
    """Where the figures come from."""
    rows = [
        *run_rows(solution),
        (
            "lower bound",
            bound_text(solution),
        ),
        ("check again, without a solver", "topoopt check INSTANCE solution.json"),
        versions_row(solution),
    ]
    return tuple(rows)


def render_placement(solution: PlacementSolution) -> str:
    """The whole report as one HTML page.

    Everything is inline; names from the instance are escaped. Same solution, same bytes.
    """
    used = [part for part in PARTS if any(getattr(load, part[2]) > 0 for load in solution.loads)]
    return render_page(
        TEMPLATE,
        answer(solution),
        solution.check,
        solution=solution,
        subtitle=f"{counted(len(solution.operators), 'operator')} on {counted(len(solution.devices), 'device')} in "
        f"{counted(len(solution.servers), 'server')}",
        verdict=cards(solution)[:3],
        comparisons=cards(solution)[3:],
        parts=used,
        devices=device_rows(solution),
        timeline=gantt(solution),
        rates=rate_rows(solution),
        operators=operators_of(solution),
        provenance=provenance(solution),
    )
