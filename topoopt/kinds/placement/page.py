"""The page of a placement: loads of the devices, the schedule, rates between servers, operators by device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup

from topoopt.core.job import Span
from topoopt.core.placement import PlacementPlan, PlacementProblem, Throughput
from topoopt.core.result import Result
from topoopt.kinds.placement.figures import PlacementFigures
from topoopt.page.charts import element, percentage, picture, stack
from topoopt.page.render import Column, Fact, Page, Plot, Section, Swatch, Table
from topoopt.page.text import (
    byte_size,
    counted,
    milliseconds,
    number,
    objective_text,
    percent,
    possible_improvement,
    quotient,
    ratio,
    rejection,
    shortened,
)
from topoopt.page.timelines import COMPUTE, FEW_LANES, HEAD, LANE, lane_bar, merged_spans, sending, time_axis
from topoopt.simulate.placement import DeviceLoad

PARTS = (
    ("forward", "fwd", "forward_ms"),
    ("backward", "bwd", "backward_ms"),
    ("communication of forward tensors", "mp", "forward_communication_ms"),
    ("communication of backward tensors", "ar", "backward_communication_ms"),
)
"""Name, colour class and field of each part of a load."""

HEIGHT = 22
LISTED_OPERATORS = 400
DRAWN_OPERATORS = 4000
"""Of more operators only the longest are drawn."""
LISTED_PAIRS = 200


def page(result: Result[PlacementProblem, PlacementPlan]) -> Page:
    """Return the page of a result that has its problem."""
    figures: PlacementFigures = result.figures
    problem = figures.problem
    legend = [
        Swatch(f"c-{css}", name, "box")
        for name, css, field in PARTS
        if any(getattr(load, field) > 0 for load in figures.loads)
    ]
    schedule = [Plot(lambda: schedule_plot(figures), schedule_note(figures))] if figures.objective.value > 0 else []
    rates = rates_table(figures)
    return Page(
        subtitle=f"{counted(len(problem.operators), 'operator')} on {counted(len(problem.devices), 'device')} in "
        f"{counted(len(problem.servers), 'server')}",
        answer=answer(result, figures),
        cause=cause(figures),
        facts=facts(result, figures),
        sections=(
            Section(
                "Load of the devices",
                [devices_table(figures, result.bound.value)],
                "The dashed line is the lower bound of the objective.",
                legend,
            ),
            Section(
                "Schedule",
                schedule if figures.scheduled else [],
                legend=[Swatch("c-fwd", "operator", "box"), Swatch("c-mp", "device receives transfers", "box")],
            ),
            Section("Rates between servers", [rates] if rates.rows else []),
            Section("Operators", [operators_table(figures)]),
        ),
        provenance=(("goal", goal_text(problem)),),
        next_commands=next_commands(figures),
    )


def answer(result: Result[PlacementProblem, PlacementPlan], figures: PlacementFigures) -> str:
    """Return the time between two micro-batches, or of one step, and on how many devices."""
    used = len(set(figures.plan.device.tolist()))
    devices = f"on {used} of {counted(len(figures.problem.devices), 'device')}"
    value = milliseconds(result.objective.value)
    what = f"One step takes {value}" if figures.scheduled else f"The pipeline finishes a micro-batch every {value}"
    best = possible_improvement(result, "placement on these devices", "faster")
    return rejection(result.check) or f"{what} {devices}; {best}."


def cause(figures: PlacementFigures) -> str:
    """Return what the objective mostly consists of."""
    if not figures.objective.value > 0:
        return ""
    return schedule_cause(figures) if figures.scheduled else load_cause(figures)


def load_cause(figures: PlacementFigures) -> str:
    problem, loads = figures.problem, figures.loads
    d = int(np.argmax([device_load_ms(problem, load) for load in loads]))
    load, name = loads[d], shortened(problem.devices[d].name, 32)
    share = quotient(load.compute_ms, load.compute_ms + load.communication_ms)
    text = f"Device {name} is the busiest: {percent(share)} of its work is compute"
    times = {i: problem.time_ms(i, d) for i in np.flatnonzero(figures.plan.device == d).tolist()}
    longest = max(times, key=lambda i: times[i], default=None)
    if longest is None or not times[longest] > 0:
        return f"{text}."
    operator = shortened(problem.operators[longest].name, 40)
    return f"{text}, of which {operator} takes {percent(quotient(times[longest], load.compute_ms))}."


def schedule_cause(figures: PlacementFigures) -> str:
    problem, total = figures.problem, figures.objective.value
    operators = [step for step in figures.critical_path if step.what == "operator"]
    transfers = [step for step in figures.critical_path if step.what == "transfer"]
    compute = sum(step.end_ms - step.start_ms for step in operators)
    longest = max(operators, key=lambda step: step.end_ms - step.start_ms)
    operator = shortened(problem.operators[longest.index].name, 40)
    text = f"{percent(compute / total)} of it is compute on the critical path, with {operator} as its longest operator"
    if not transfers:
        return f"{text}; no transfer is on the path."
    sent, queued = (
        sum(step.end_ms - step.start_ms for step in transfers),
        sum(step.queued_ms for step in transfers),
    )
    waits = f", and {percent(queued / total)} is waiting for links" if queued > 1e-9 * total else ""
    return f"{text}; {percent(sent / total)} is {counted(len(transfers), 'transfer')}{waits}."


def facts(result: Result[PlacementProblem, PlacementPlan], figures: PlacementFigures) -> tuple[Fact, ...]:
    """Return the figures by key; those without a name are for programs alone."""
    problem, objective = figures.problem, result.objective
    loads = [device_load_ms(problem, load) for load in figures.loads]
    busy = [load for load in loads if load > 0]
    mean = sum(busy) / len(busy) if busy else 0.0
    names = [device.name for device in problem.devices]
    placement = {
        operator.name: names[d] for operator, d in zip(problem.operators, figures.plan.device.tolist(), strict=True)
    }
    return (
        Fact(f"{objective.name}_ms", objective_text(objective.name), objective.value, milliseconds, goal_text(problem)),
        Fact(
            "",
            "balance",
            quotient(max(loads), mean),
            ratio,
            f"largest load over the mean, {counted(len(busy), 'device')} in use",
        ),
        _communication(figures),
        Fact("placement", "", placement),
    )


def _communication(figures: PlacementFigures) -> Fact:
    if figures.scheduled:
        times = [transfer.end_ms - transfer.start_ms for transfer in figures.transfers]
        detail = f"{number(sum(times))} ms in all, beside compute"
        return Fact("", "transfers", len(times), lambda count: f"{count:,}", detail)
    sent = sum(load.communication_ms for load in figures.loads)
    share = quotient(sent, sum(load.compute_ms for load in figures.loads))
    return Fact("", "communication", share, percent, f"of compute, {number(sent)} ms over all devices")


def goal_text(problem: PlacementProblem) -> str:
    settings = problem.objective
    if not isinstance(settings, Throughput):
        return f"time of one step; transfers of a server: {settings.sharing}"
    schedule = (
        "largest forward plus largest backward load (GPipe)"
        if settings.schedule == "gpipe"
        else "largest load of a device (1F1B)"
    )
    joined = "added to" if settings.communication == "added" else "overlapped with"
    shape = {
        "contiguous": "contiguous stages",
        "interleaved": f"{settings.stages_per_device} interleaved stages a device",
        "free": "any sets of operators",
    }[settings.stages]
    return f"{schedule}; communication {joined} compute; {shape}"


def next_commands(figures: PlacementFigures) -> tuple[tuple[str, str], ...]:
    """Return the commands that go on from here."""
    check = ("topoopt check", "checks the placement again, without a solver")
    rates = figures.rates_gbps
    if rates is None or not (rates > 0).any():
        return (check,)
    return (check, ("topoopt export --to ovs", "scripts that set these rates on the hosts"))


# Devices.


def device_load_ms(problem: PlacementProblem, load: DeviceLoad) -> float:
    """Return the load of a device as the objective counts it; under GPipe the sum of its two phases."""
    settings = problem.objective
    if not isinstance(settings, Throughput):
        return load.compute_ms
    if settings.communication == "added":
        return load.compute_ms + load.communication_ms
    if settings.schedule == "gpipe":
        forward = max(load.forward_ms, load.forward_communication_ms)
        return forward + max(load.backward_ms, load.backward_communication_ms)
    return max(load.compute_ms, load.communication_ms)


def devices_table(figures: PlacementFigures, bound_ms: float) -> Table:
    """Return all devices, in the order of their stages where they have one."""
    problem, loads = figures.problem, figures.loads
    scale = max([*(load.compute_ms + load.communication_ms for load in loads), bound_ms])
    largest = max(load.memory_bytes for load in loads)
    stages: dict[int, list[int]] = {}
    if figures.stage is not None:
        for device, stage in sorted({*zip(figures.plan.device.tolist(), figures.stage.tolist(), strict=True)}):
            stages.setdefault(device, []).append(stage)
    columns = [
        Column("device", "device", lambda name: shortened(name, 32)),
        Column("server", "server", lambda name: shortened(name, 32)),
        Column("class", "class"),
        Column("stages", "stage", lambda numbers: ", ".join(str(stage + 1) for stage in numbers) or "–", number=True),
        Column("operators", "operators", lambda count: f"{count:,}", number=True),
        Column("load_ms", "load", milliseconds, number=True),
        Column("load", "", html=lambda parts: load_bar(parts, scale, bound_ms)),
        Column("memory", "memory", _memory_text, number=True),
        Column("memory_bar", "", html=lambda memory: memory_bar(memory, largest)),
    ]
    rows = []
    for d in sorted(range(len(loads)), key=lambda d: (stages.get(d, [1 << 30]), d)):
        device, load = problem.devices[d], loads[d]
        memory = (load.memory_bytes, device.memory_bytes)
        kind = problem.classes[device.class_index] + (", CPU pool" if device.host else "")
        rows.append(
            [device.name, problem.servers[device.server].name, kind, stages.get(d, []), figures.operator_counts[d],
             device_load_ms(problem, load), {field: getattr(load, field) for *_, field in PARTS}, memory, memory]
        )  # fmt: skip
    if not stages:
        columns, rows = [*columns[:3], *columns[4:]], [[*row[:3], *row[4:]] for row in rows]
    return Table("devices", columns, rows, max_rows=len(rows))


def _memory_text(memory: tuple[int, int | None]) -> str:
    used, limit = memory
    text = byte_size(used)
    return text if limit is None else f"{text}, {percent(used / limit) if limit else '–'}"


def load_bar(parts: Mapping[str, float], scale_ms: float, bound_ms: float) -> Markup:
    """Draw the parts of a load over a common scale, with a mark at the lower bound of the objective."""
    sizes = [(css, name, parts[field]) for name, css, field in PARTS if scale_ms > 0]
    shapes = stack([(f"c-{css}", f"{name}: {milliseconds(ms)}", ms / scale_ms) for css, name, ms in sizes], HEIGHT)
    if 0 < bound_ms <= scale_ms:
        at = percentage(bound_ms / scale_ms)
        shapes.append(element("line", class_="boundline", x1=at, x2=at, y1=0, y2=HEIGHT))
    return picture(*shapes, label="Load", class_="wide", height=HEIGHT, style="min-width: 160px")


def memory_bar(memory: tuple[int, int | None], scale: int) -> Markup:
    """Draw resident bytes over the memory of the device, or over the largest one where there is no limit."""
    used, limit = memory
    full = limit or scale or 1
    tip = element("title", f"{byte_size(used)} of {'any' if limit is None else byte_size(limit)}")
    part = element("rect", tip, class_="c-idle", width=percentage(min(1.0, used / full)), height=HEIGHT)
    return picture(part, label="Memory", class_="wide", height=HEIGHT, style="min-width: 60px")


# The schedule and the rates.


def drawn_devices(figures: PlacementFigures) -> list[int]:
    """Return the devices with operators; of very many those that compute longest, ascending."""
    used = [d for d, count in enumerate(figures.operator_counts) if count]
    if len(used) > FEW_LANES:
        used = sorted(used, key=lambda d: (-figures.loads[d].compute_ms, d))[:FEW_LANES]
    return sorted(used)


def _drawn_spans(figures: PlacementFigures, devices: Sequence[int]) -> list[Span]:
    end = figures.end_ms
    assert end is not None
    names = [operator.name for operator in figures.problem.operators]
    rows = zip(names, figures.plan.device.tolist(), figures.plan.start_ms.tolist(), end.tolist(), strict=True)
    lanes = set(devices)
    return [Span(d, "operator", name, start, stop) for name, d, start, stop in rows if d in lanes and stop > start]


def schedule_note(figures: PlacementFigures) -> str:
    if not figures.scheduled:
        return ""
    devices = drawn_devices(figures)
    spans = len(_drawn_spans(figures, devices))
    idle = sum(count > 0 for count in figures.operator_counts) - len(devices)
    notes = []
    if idle:
        notes.append(f"The {len(devices)} devices that compute longest are drawn, {idle} others are not.")
    if spans > DRAWN_OPERATORS:
        notes.append(f"The {DRAWN_OPERATORS} longest of {spans} operators are drawn.")
    return " ".join(notes)


def schedule_plot(figures: PlacementFigures) -> Markup:
    """Draw one step: a lane for each device, operators above what the device receives."""
    total, devices = figures.objective.value, drawn_devices(figures)
    top = {device: HEAD + LANE * index for index, device in enumerate(devices)}
    height = HEAD + LANE * len(devices)
    shapes, names = [], []
    for device, y in top.items():
        shapes.append(element("rect", x=0, width="100%", y=y, height=LANE - 4, class_="lane"))
        names.append(element("text", shortened(figures.problem.devices[device].name, 13), x=0, y=y + 14))
    spans = _drawn_spans(figures, devices)
    longest = sorted(spans, key=lambda span: (span.start_ms - span.end_ms, span.start_ms))[:DRAWN_OPERATORS]
    in_order = sorted(longest, key=lambda span: (span.lane, span.start_ms, span.label))
    shapes += [lane_bar(span, total, top[span.lane], "fwd", "operator") for span in in_order]
    received: dict[int, list[Span]] = {}
    for transfer in figures.transfers:
        if transfer.end_ms > transfer.start_ms and transfer.target in top:
            label = f"tensor {transfer.tensor}"
            span = Span(transfer.target, "transfer", label, transfer.start_ms, transfer.end_ms)
            received.setdefault(transfer.target, []).append(span)
    for device, arriving in received.items():
        shapes += [sending(run, total, top[device] + COMPUTE + 1, "receives") for run in merged_spans(arriving)]
    lanes = picture(*names, label="Devices", class_="lanes", width=84, height=int(height) + 2)
    bars = picture(
        time_axis(total, height), *shapes, label="Schedule of one step", class_="bars", height=int(height) + 2
    )
    drawn = element("div", bars, class_="scroll", data_label="timeline")
    return element("div", element("div", lanes), drawn, class_="gantt")


def rates_table(figures: PlacementFigures) -> Table:
    """Return the static rates of pairs of servers, largest first."""
    servers, rates = figures.problem.servers, figures.rates_gbps
    shares: dict[tuple[int, int], list[tuple[str, float]]] = {}
    for share in figures.plan.link_shares if rates is not None else ():
        link = servers[share.source].links[share.link].name
        shares.setdefault((share.source, share.target), []).append((link, share.gbps))
    columns = (
        Column("source", "from", lambda name: shortened(name, 32)),
        Column("target", "to", lambda name: shortened(name, 32)),
        Column("gbps", "Gbit/s", number, number=True),
        Column(
            "links",
            "over links (Gbit/s)",
            lambda links: ", ".join(f"{shortened(name, 24)} {number(gbps)}" for name, gbps in links),
        ),
    )
    total = {pair: 0.0 if rates is None else float(rates[pair]) for pair in shares}
    rows = [
        (servers[s].name, servers[t].name, total[s, t], shares[s, t])
        for s, t in sorted(shares, key=lambda pair: (-total[pair], pair))
    ]
    return Table("pair_rates", columns, rows, max_rows=LISTED_PAIRS)


def operators_table(figures: PlacementFigures) -> Table:
    names: list[list[str]] = [[] for _ in figures.problem.devices]
    for operator, d in zip(figures.problem.operators, figures.plan.device.tolist(), strict=True):
        names[d].append(operator.name)

    def listed(operators: Sequence[str]) -> str:
        hidden = len(operators) - LISTED_OPERATORS
        text = ", ".join(shortened(name, 60) for name in operators[:LISTED_OPERATORS])
        return text if hidden <= 0 else f"{text} and {hidden:,} more"

    columns = (Column("device", "device", lambda name: shortened(name, 32)), Column("operators", "operators", listed))
    rows = [(device.name, names[d]) for d, device in enumerate(figures.problem.devices) if names[d]]
    return Table("device_operators", columns, rows, max_rows=len(rows), terminal_rows=0)
