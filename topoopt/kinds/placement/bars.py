"""Bars of what every device does, and of the memory it holds."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from topoopt.core.placement import Communication, Schedule, Throughput
from topoopt.core.placement_solution import DeviceLoad, PlacementSolution
from topoopt.drawing.format import byte_size, milliseconds, percent, shortened
from topoopt.drawing.svg import element, percentage, picture

PARTS = (
    ("forward", "fwd", "forward_ms"),
    ("backward", "bwd", "backward_ms"),
    ("communication of forward tensors", "mp", "forward_communication_ms"),
    ("communication of backward tensors", "ar", "backward_communication_ms"),
)
"""Name, colour class and field of each part of a load."""

HEIGHT = 22


@dataclass(frozen=True)
class DeviceRow:
    """A line of the table of devices."""

    name: str
    server: str
    kind: str
    stage: str
    operators: int
    load: str
    bar: Markup
    memory: str
    memory_bar: Markup
    busiest: bool


def device_load_ms(solution: PlacementSolution, load: DeviceLoad) -> float:
    """Load of a device as the objective counts it; under GPipe the sum of its two phases."""
    settings = solution.settings
    if not isinstance(settings, Throughput):
        return load.compute_ms
    if settings.communication is Communication.ADDED:
        return load.compute_ms + load.communication_ms
    if settings.schedule is Schedule.GPIPE:
        forward = max(load.forward_ms, load.forward_communication_ms)
        return forward + max(load.backward_ms, load.backward_communication_ms)
    return max(load.compute_ms, load.communication_ms)


def load_bar(load: DeviceLoad, scale_ms: float, bound_ms: float) -> Markup:
    """Stacked parts of a load over a common scale, with a mark at the lower bound of the objective."""
    shapes = []
    start = 0.0
    for name, css, field in PARTS:
        value = float(getattr(load, field))
        if value <= 0 or scale_ms <= 0:
            continue
        tip = element("title", f"{name}: {milliseconds(value)}")
        shapes.append(
            element(
                "rect",
                tip,
                class_=f"c-{css}",
                x=percentage(start / scale_ms),
                width=percentage(value / scale_ms),
                height=HEIGHT,
            )
        )
        start += value
    if 0 < bound_ms <= scale_ms:
        at = percentage(bound_ms / scale_ms)
        shapes.append(element("line", class_="boundline", x1=at, x2=at, y1=0, y2=HEIGHT))
    return picture(*shapes, label="Load", class_="wide", height=HEIGHT)


def memory_bar(used: int, limit: int | None, scale: int) -> Markup:
    """Resident bytes over the memory of the device, or over the largest one where there is no limit."""
    whole = limit or scale or 1
    tip = element("title", f"{byte_size(used)} of {'any' if limit is None else byte_size(limit)}")
    bar = element("rect", tip, class_="c-idle", width=percentage(min(1.0, used / whole)), height=HEIGHT)
    return picture(bar, label="Memory", class_="wide", height=HEIGHT)


def device_rows(solution: PlacementSolution) -> tuple[DeviceRow, ...]:
    """All devices, in the order of their stages where they have one."""
    loads = solution.loads
    values = [device_load_ms(solution, load) for load in loads]
    widths = [load.compute_ms + load.communication_ms for load in loads]
    scale = max([*widths, solution.bound.value])
    largest = max(load.memory_bytes for load in loads)
    counts = solution.operator_counts
    stages: dict[int, list[int]] = {}
    if solution.stage is not None:
        for device, stage in sorted({*zip(solution.device.tolist(), solution.stage.tolist(), strict=True)}):
            stages.setdefault(device, []).append(stage)
    order = sorted(range(len(loads)), key=lambda d: (stages.get(d, [1 << 30]), d))
    top = max(values)
    rows = []
    for d in order:
        device, load = solution.devices[d], loads[d]
        limit = device.memory_bytes
        held = byte_size(load.memory_bytes)
        rows.append(
            DeviceRow(
                name=shortened(device.name, 32),
                server=shortened(solution.servers[device.server].name, 32),
                kind=solution.classes[device.class_index] + (", CPU pool" if device.host else ""),
                stage=", ".join(str(stage + 1) for stage in stages.get(d, [])) or "–",
                operators=counts[d],
                load=milliseconds(values[d]),
                bar=load_bar(load, scale, solution.bound.value),
                memory=held if limit is None else f"{held}, {percent(load.memory_bytes / limit) if limit else '–'}",
                memory_bar=memory_bar(load.memory_bytes, limit, largest),
                busiest=values[d] >= top * (1 - 1e-9),
            )
        )
    return tuple(rows)
