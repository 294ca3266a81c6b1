"""What a plan does in time: Trace Event JSON for Perfetto, and the graph of a job as an instance of `dag-topology`."""

from __future__ import annotations

import heapq
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from topoopt.core.arrays import BYTES_PER_MS_PER_GBPS
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.parallelism import PassKind
from topoopt.core.result import Result
from topoopt.core.workload import TaskKind
from topoopt.formats.table import Export, Exporter, ExportOptions, plain_name, plan_on, refuse

CLOSE_US = 1e-3
"""Bars that overlap less than a nanosecond, by rounding, do not overlap."""

SENT = ("send", "reduce", "gather")
STEPS = "steps one after the other, a barrier between them: a message is drawn as long as its step"
SECOND = "the instance has no unit of time: one of its units is drawn as a second"
PARTS = "lane 'parts': of the iteration time, one behind the other; they are no time line"
FIRST = "the first ranks and micro-batches of the pipeline, without gradients and optimizer"


@dataclass(frozen=True)
class Bar:
    """Something that lasts from one time to another, in microseconds."""

    process: str
    lane: str
    name: str
    begin_us: float
    end_us: float
    args: Mapping[str, Any] = field(default_factory=dict)


def _job(solution: Result[Any, Any], _: ExportOptions) -> Iterator[Bar]:
    figures = solution.figures
    graph, operators = figures.graph, {row.name: row for row in figures.operators}
    volumes: dict[tuple[str, str], set[float]] = defaultdict(set)
    columns = (graph.kind, graph.operator, graph.source, graph.target, graph.bytes)
    for kind, operator, source, target, volume in zip(*(column.tolist() for column in columns), strict=True):
        if kind in (TaskKind.TRANSFER, TaskKind.ALLREDUCE) and 0 <= operator < len(graph.operator_names):
            pair = f" {source}→{target}" if kind == TaskKind.TRANSFER else ""
            volumes[TaskKind(kind).name.lower(), graph.operator_names[operator] + pair].add(volume)
    for span in figures.evaluation.timeline:
        own = volumes.get((span.kind, span.label), set())
        args: dict[str, Any] = {"kind": span.kind} | ({"bytes": max(own)} if len(own) == 1 else {})
        if span.kind in ("forward", "backward") and span.label in operators:
            args |= {"split": operators[span.label].split, "weight_bytes": operators[span.label].weight_bytes}
        lane = {"transfer": "transfers", "allreduce": "AllReduce"}.get(span.kind, "compute")
        process = f"server {span.lane}" if span.lane >= 0 else "AllReduce"
        yield Bar(process, lane, span.label, span.start_ms * 1e3, span.end_ms * 1e3, args)


def _dag(solution: Result[Any, Any], _: ExportOptions) -> Iterator[Bar]:
    volumes = {row.name: row.volume for row in solution.figures.problem.transfers}
    unit = solution.figures.problem.volume_unit or "volume"
    for step in solution.figures.steps:
        moved = step.source >= 0
        process, lane = (f"pod {step.source}", f"to pod {step.target}") if moved else ("tasks", "compute")
        yield Bar(
            process, lane, step.name, step.start * 1e6, step.end * 1e6, {unit: volumes[step.name]} if moved else {}
        )


def _training(solution: Result[Any, Any], options: ExportOptions) -> Iterator[Bar]:
    fabric = plan_on(solution, options.fabric).fabric
    figures = next(row for row in solution.figures.fabrics if row.fabric == fabric)
    if figures.rails is not None:
        for event in figures.rails.step.events:
            lane = "transfers" if event.what in SENT else "ports" if event.what == "switch" else "compute"
            numbers = {name: getattr(event, name) for name in ("micro_batch", "stage", "peer")}
            args = {name: number for name, number in numbers.items() if number >= 0}
            name = str(event.boundary) if event.boundary else event.what
            yield Bar(f"stage {event.rank}", lane, name, event.begin_s * 1e6, event.end_s * 1e6, args)
        return
    stages = replace(solution.figures.stages, strategy=figures.strategy, rates=figures.rates)
    joined = False
    for k, row in enumerate(stages.passes):
        behind, joined = joined, row.kind == PassKind.JOINED
        if behind:  # drawn with the forward pass before it, which ends at the same time
            continue
        name = "forward and backward" if joined else PassKind(row.kind).name.lower()
        args = {"micro_batch": row.micro_batch, "stage": row.stage}
        begin_s = max(0.0, stages.start_s(k))
        yield Bar(f"rank {row.rank}", "compute", name, begin_s * 1e6, row.end_s * 1e6, args)
    at = 0.0
    for name, part_s in asdict(figures.breakdown).items() if figures.pods is None else ():
        yield Bar("iteration", "parts", name, at, at + part_s * 1e6)
        at += part_s * 1e6


def _collective(solution: Result[Any, Any], _: ExportOptions) -> Iterator[Bar]:
    figures, names = solution.figures, solution.figures.problem.network.names
    sizes = (figures.schedule.blocks.units * figures.bytes_per_unit).tolist()
    moved: dict[tuple[int, int, int], list[float]] = defaultdict(list)
    sends = figures.schedule.sends
    rows = zip(*(row.tolist() for row in (sends.step, sends.tail, sends.head, sends.block)), strict=True)
    for step, tail, head, block in rows:
        moved[step, tail, head].append(sizes[block])
    ends = [0.0, *figures.step_ends_us]
    for (step, tail, head), own in sorted(moved.items()):
        args = {"bytes": sum(own), "blocks": len(own)}
        yield Bar(f"node {names[tail]}", f"to {names[head]}", f"step {step}", ends[step], ends[step + 1], args)


def _placement(solution: Result[Any, Any], _: ExportOptions) -> Iterator[Bar]:
    """Operators by device, with the tensors that it receives from each other one."""
    figures, problem = solution.figures, solution.figures.problem
    if not figures.scheduled:
        text = "the plan is loads of a pipeline, which have no times: only latency has a schedule"
        raise refuse(text, path="objective", value="throughput", allowed="an instance with objective latency")
    device, names = figures.plan.device.tolist(), [row.name for row in problem.devices]
    times = zip(problem.operators, device, figures.plan.start_ms.tolist(), figures.end_ms.tolist(), strict=True)
    for operator, at, start_ms, end_ms in times:
        yield Bar(f"device {names[at]}", "compute", operator.name, start_ms * 1e3, end_ms * 1e3)
    for row in figures.transfers:
        tensor = problem.tensors[row.tensor]
        source, name = names[device[tensor.producer]], problem.operators[tensor.producer].name
        lane, args = f"from {source}", {"bytes": tensor.size_bytes}
        yield Bar(f"device {names[row.target]}", lane, name, row.start_ms * 1e3, row.end_ms * 1e3, args)


def _regional(solution: Result[Any, Any], _: ExportOptions) -> Iterator[Bar]:
    figures, at = solution.figures, 0.0
    for k, step in enumerate(figures.steps):
        lit, name, args = at + step.stall_s, f"step {k}", {"topology": step.circuits}
        yield Bar("region", "reconfiguration", name, at * 1e6, lit * 1e6, args)
        at = lit + step.transfer_s
        yield Bar(
            "region", "transfers", name, lit * 1e6, at * 1e6, args | {"busy until the end": figures.bottleneck(k)}
        )


BARS: Mapping[str, Callable[[Result[Any, Any], ExportOptions], Iterator[Bar]]] = {
    "co-optimisation": _job,
    "collective": _collective,
    "dag-topology": _dag,
    "llm-training": _training,
    "placement": _placement,
    "regional-circuits": _regional,
}


def events_of(bars: list[Bar]) -> list[dict[str, Any]]:
    """Names of processes and threads, then a complete event for every bar, by their begin."""
    numbered = sorted({bar.process for bar in bars}, key=lambda name: (name[-1:].isalpha(), len(name), name))
    pids = {name: pid for pid, name in enumerate(numbered)}  # server 2 before server 10, and both before AllReduce
    lanes: dict[tuple[str, str], list[tuple[float, int]]] = {}
    tids: dict[tuple[str, str, int], int] = {}
    counts: dict[str, int] = defaultdict(int)
    names = [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}} for name, pid in pids.items()]
    events = []
    for bar in sorted(bars, key=lambda bar: (bar.begin_us, bar.end_us)):
        rows, pid = lanes.setdefault((bar.process, bar.lane), []), pids[bar.process]
        row = heapq.heappop(rows)[1] if rows and rows[0][0] <= bar.begin_us + CLOSE_US else len(rows)
        heapq.heappush(rows, (bar.end_us, row))
        key = (bar.process, bar.lane, row)
        if key not in tids:
            tids[key] = counts[bar.process]
            counts[bar.process] += 1
            head = {"ph": "M", "pid": pid, "tid": tids[key]}
            names.append({**head, "name": "thread_name", "args": {"name": bar.lane + (f" {row + 1}" if row else "")}})
            names.append({**head, "name": "thread_sort_index", "args": {"sort_index": tids[key]}})
        head = {"ph": "X", "pid": pid, "tid": tids[key], "name": bar.name, "cat": bar.lane}
        events.append({**head, "ts": bar.begin_us, "dur": bar.end_us - bar.begin_us, "args": dict(bar.args)})
    return [*names, *events]


def build(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """One JSON file, an event a line.

    Raises:
        InputError: the solution has no time line.
    """
    bars = [bar for bar in BARS[solution.kind](solution, options) if bar.end_us > bar.begin_us]
    if not bars:
        raise refuse("the solution has no time line: nothing in it takes time", path="plan")
    notes: tuple[str, ...] = {"collective": (STEPS,), "llm-training": (PARTS, FIRST)}.get(solution.kind, ())
    if solution.kind == "dag-topology" and not solution.figures.problem.time_unit:
        notes = (SECOND,)
    goal = solution.objective
    other = {"name": solution.name, "kind": solution.kind, "objective": {goal.name: goal.value, "unit": goal.unit}}
    events = events_of(bars)
    document = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}
    lines = ",\n".join(json.dumps(event, allow_nan=False) for event in events)
    text = f'{{"traceEvents": [\n{lines}\n],\n"displayTimeUnit": "ms",\n"otherData": {json.dumps(other)}}}\n'
    return Export(((f"{plain_name(solution.name)}-trace.json", text.encode()),), document, (*notes, *EXPORTER.limits))


EXPORTER = Exporter(
    kinds=tuple(BARS),
    makes="the time line as Trace Event JSON, for Perfetto and chrome://tracing",
    limits=("what waits for what is not drawn",),
    folder=False,
    build=build,
)


def dag_document(problem: DagTopologyProblem) -> dict[str, Any]:
    """The instance file of a graph in bytes and seconds."""
    names = problem.names
    return {
        "schema_version": 1,
        "kind": problem.kind,
        "name": problem.name,
        "pods": problem.pods,
        "ports": list(problem.ports),
        "circuit_gbps": problem.rate / (BYTES_PER_MS_PER_GBPS * 1e3),
        "transfers": [
            {"name": m.name, "source": m.source, "target": m.target, "volume": m.volume}
            | ({"after": [names[step] for step in m.after]} if m.after else {})
            for m in problem.transfers
        ],
        "tasks": [
            {"name": c.name, "duration": c.duration} | ({"after": [names[step] for step in c.after]} if c.after else {})
            for c in problem.tasks
        ],
    }


def build_graph(solution: Any, options: ExportOptions) -> Export:
    """One JSON file, a step a line.

    Raises:
        InputError: no instance was given, which has what is computed.
    """
    if options.job_graph is None:
        raise refuse("needed for what is computed", path="instance", allowed="the instance that was solved")
    document = dag_document(options.job_graph)
    steps = {key: ",\n".join(json.dumps(entry) for entry in document[key]) for key in ("transfers", "tasks")}
    head = json.dumps({key: value for key, value in document.items() if key not in steps})[:-1]
    lists = ",\n".join(f'"{key}": [\n{text}\n]' for key, text in steps.items())
    name = f"{plain_name(solution.name)}-circuits.json"
    return Export(
        ((name, f"{head},\n{lists}}}\n".encode()),), document, (*options.job_graph.notes, *GRAPH_EXPORTER.limits)
    )


GRAPH_EXPORTER = Exporter(
    kinds=("co-optimisation", "llm-training"),
    makes="one iteration as an instance of kind dag-topology: which circuits let it end first",
    limits=(
        "latencies of hops and rounds are left out",
        "collectives between pods go round rings, half each way",
        "training: gradients are exchanged behind the last backward pass of a stage, weights ahead of its first one, "
        "tokens behind the computing of their pass",
    ),
    folder=False,
    build=build_graph,
    for_instances=("co-optimisation", "llm-training"),
)
