"""The schedule of a placed graph as a Gantt chart: a lane a device, operators above what the device receives."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from topoopt.core.job_solution import Span
from topoopt.core.placement_solution import PlacementSolution
from topoopt.drawing.format import number, shortened
from topoopt.drawing.lanes import COMPUTE, FEW_LANES, HEAD, LANE, LanesDrawing, axis, bar, merged, sending
from topoopt.drawing.svg import element, picture

MOST_BARS = 4000
"""Of more operators only the longest are drawn."""

MOST_RATES = 200
"""Pairs of servers listed."""


@dataclass(frozen=True)
class RateRow:
    """Rate of a pair of servers, and the links that carry it."""

    source: str
    target: str
    gbps: str
    links: str


def drawn_devices(solution: PlacementSolution) -> list[int]:
    """Devices with operators; of very many those that compute longest, ascending."""
    used = [d for d, count in enumerate(solution.operator_counts) if count]
    if len(used) > FEW_LANES:
        used = sorted(used, key=lambda d: (-solution.loads[d].compute_ms, d))[:FEW_LANES]
    return sorted(used)


def gantt(solution: PlacementSolution) -> LanesDrawing:
    """Draw one step; empty without a schedule (objective throughput)."""
    total = solution.objective.value
    if solution.start_ms is None or solution.end_ms is None or total <= 0:
        return LanesDrawing(True, Markup(""), Markup(""), ())
    devices = drawn_devices(solution)
    top = {device: HEAD + LANE * place for place, device in enumerate(devices)}
    height = HEAD + LANE * len(devices)
    shapes, names = [], []
    for device, y in top.items():
        shapes.append(element("rect", x=0, width="100%", y=y, height=LANE - 4, class_="lane"))
        names.append(element("text", shortened(solution.devices[device].name, 13), x=0, y=y + 14))
    rows = zip(
        solution.operators, solution.device.tolist(), solution.start_ms.tolist(), solution.end_ms.tolist(), strict=True
    )
    spans = [Span(d, "operator", name, start, end) for name, d, start, end in rows if d in top and end > start]
    longest = sorted(spans, key=lambda span: (span.start_ms - span.end_ms, span.start_ms))[:MOST_BARS]
    shapes += [bar(span, total, top[span.lane], "fwd", "operator") for span in sorted(longest, key=_by_lane)]
    received: dict[int, list[Span]] = {}
    for way in solution.transfers:
        if way.end_ms > way.start_ms:
            span = Span(way.target, "transfer", f"tensor {way.tensor}", way.start_ms, way.end_ms)
            received.setdefault(way.target, []).append(span)
    for device, mine in received.items():
        if device in top:
            shapes += [sending(run, total, top[device] + COMPUTE + 1, "receives") for run in merged(mine)]
    notes = []
    idle = sum(count > 0 for count in solution.operator_counts) - len(devices)
    if idle:
        notes.append(f"The {len(devices)} devices that compute longest are drawn, {idle} others are not.")
    if len(spans) > len(longest):
        notes.append(f"The {len(longest)} longest of {len(spans)} operators are drawn.")
    return LanesDrawing(
        empty=False,
        names=picture(*names, label="Devices", class_="lanes", width=84, height=int(height) + 2),
        bars=picture(axis(total, height), *shapes, label="Schedule of one step", class_="bars", height=int(height) + 2),
        notes=tuple(notes),
    )


def _by_lane(span: Span) -> tuple[int, float, str]:
    return (span.lane, span.start_ms, span.label)


def rate_rows(solution: PlacementSolution) -> tuple[RateRow, ...]:
    """Static rates, largest first."""
    rates = solution.rates_gbps
    if rates is None:
        return ()
    shares: dict[tuple[int, int], list[str]] = {}
    for share in solution.link_shares:
        link = shortened(solution.servers[share.source].links[share.link].name, 24)
        shares.setdefault((share.source, share.target), []).append(f"{link} {number(share.gbps)}")
    pairs = sorted(shares, key=lambda pair: (-float(rates[pair]), pair))
    return tuple(
        RateRow(
            shortened(solution.servers[s].name, 32),
            shortened(solution.servers[t].name, 32),
            number(float(rates[s, t])),
            ", ".join(shares[s, t]),
        )
        for s, t in pairs[:MOST_RATES]
    )
