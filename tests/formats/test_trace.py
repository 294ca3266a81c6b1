"""Time lines as Trace Event JSON: events are compared with the figures, and with a line computed by hand."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.cli_cases import run
from tests.support.paths import INSTANCES
from tests.support.read_back.exports import check_export
from tests.support.smallest import solution_of
from topoopt.core.dag_topology import DagTask, DagTopologyPlan, DagTopologyProblem, DagTransfer
from topoopt.core.errors import InputError
from topoopt.formats.table import ExportOptions
from topoopt.formats.trace import CLOSE_US, EXPORTER, Bar, events_of
from topoopt.kinds.dag_topology.page import DagTopologyFigures
from topoopt.kinds.files import read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.kinds.regional_circuits.page import RegionalCircuitsFigures


@cache
def timed(kind: str) -> Any:
    """The smallest solution of a kind that has a time line."""
    if kind != "placement":
        return solution_of(kind)
    return solve(read_instance(INSTANCES / "placement/shared-fork-3.yaml"), SolveOptions(seed=1, objective_only=True))


def trace_of(kind: str) -> dict[str, Any]:
    """The document in the file of the smallest solution of a kind."""
    export = EXPORTER.build(timed(kind), ExportOptions())
    check_export("trace", export)
    document: dict[str, Any] = json.loads(export.files[0][1])
    return document


def lanes_of(document: dict[str, Any]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Complete events by names of process and lane, rows of a lane together."""
    process = {row["pid"]: row["args"]["name"] for row in document["traceEvents"] if row["name"] == "process_name"}
    lanes = defaultdict(list)
    for event in document["traceEvents"]:
        if event["ph"] == "X":
            lanes[process[event["pid"]], event["cat"]].append(event)
    return lanes


def spent_us(events: list[dict[str, Any]]) -> float:
    return float(sum(event["dur"] for event in events))


def last_us(document: dict[str, Any]) -> float:
    return float(max(event["ts"] + event["dur"] for event in document["traceEvents"] if event["ph"] == "X"))


@pytest.mark.parametrize("kind", EXPORTER.kinds)
def test_threads_hold_no_overlap(kind: str) -> None:
    """Every thread has a name and a place in the order; no two of its events overlap."""
    document = trace_of(kind)
    assert document["displayTimeUnit"] == "ms"
    threads: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    titled = {(row["pid"], row["tid"]) for row in document["traceEvents"] if row["name"] == "thread_name"}
    sorted_ = {(row["pid"], row["tid"]) for row in document["traceEvents"] if row["name"] == "thread_sort_index"}
    for event in document["traceEvents"]:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert set(threads) == titled == sorted_
    for times in threads.values():
        assert all(end <= begin + CLOSE_US for (_, end), (begin, _) in itertools.pairwise(times))


def test_a_job_ends_with_its_iteration() -> None:
    """Lanes hold what the operators and the simulated transfers take; compute has one row."""
    figures, document = solution_of("co-optimisation").figures, trace_of("co-optimisation")
    assert last_us(document) == pytest.approx(figures.evaluation.iteration_time_ms * 1e3)
    lanes = lanes_of(document)
    for server in range(figures.cluster.servers):
        own = [row for row in figures.operators if server in row.servers]
        computed = sum(row.forward_ms + row.backward_ms for row in own)
        assert spent_us(lanes[f"server {server}", "compute"]) == pytest.approx(computed * 1e3)
        assert len({event["tid"] for event in lanes[f"server {server}", "compute"]}) == 1
    reduced = [span for span in figures.evaluation.timeline if span.kind == "allreduce"]
    assert sum(map(spent_us, (lanes[key] for key in list(lanes) if key[1] == "AllReduce"))) == pytest.approx(
        sum(span.end_ms - span.start_ms for span in reduced) * 1e3
    )


def test_circuits_of_a_graph() -> None:
    """Channels are as long in use as their transfers take, and the last step ends with the makespan."""
    figures, document = solution_of("dag-topology").figures, trace_of("dag-topology")
    assert last_us(document) == pytest.approx(figures.makespan * 1e6)
    lanes = lanes_of(document)
    for (source, target), steps in figures.by_channel.items():
        spent = sum(step.end - step.start for step in steps) * 1e6
        assert spent_us(lanes[f"pod {source}", f"to pod {target}"]) == pytest.approx(spent)


def test_steps_of_a_collective() -> None:
    """The last step ends when the schedule does, and every byte that is sent is drawn."""
    figures, document = solution_of("collective").figures, trace_of("collective")
    assert last_us(document) == pytest.approx(figures.time_us)
    drawn = sum(event["args"]["bytes"] for events in lanes_of(document).values() for event in events)
    assert drawn == pytest.approx(figures.columns()["sends"]["bytes"].sum())


def test_parts_of_training() -> None:
    """Parts sum to the iteration; passes of a rank take what its stage takes of each micro-batch."""
    figures, lanes = solution_of("llm-training").figures, lanes_of(trace_of("llm-training"))
    assert spent_us(lanes["iteration", "parts"]) == pytest.approx(figures.objective.value * 1e6)
    stages, strategy = figures.stages, figures.plan.strategy
    own = range(0, strategy.pipeline * strategy.chunks, strategy.pipeline)
    spent = sum(stages.forward_s[k] + stages.inputs_s[k] + stages.weights_s[k] for k in own) * stages.drawn_batches
    assert spent_us(lanes["rank 0", "compute"]) == pytest.approx(spent * 1e6)


def test_a_schedule_of_operators() -> None:
    """Devices compute and receive as long as the figures say; the last operator ends with the step."""
    figures, document = timed("placement").figures, trace_of("placement")
    assert last_us(document) == pytest.approx(figures.objective.value * 1e3)
    lanes, names = lanes_of(document), [device.name for device in figures.problem.devices]
    for name, load in zip(names, figures.loads, strict=True):
        assert spent_us(lanes[f"device {name}", "compute"]) == pytest.approx(load.compute_ms * 1e3)
    moved = [event for (_, lane), events in lanes.items() if lane.startswith("from ") for event in events]
    assert moved
    assert spent_us(moved) == pytest.approx(sum(row.end_ms - row.start_ms for row in figures.transfers) * 1e3)
    sizes = [figures.problem.tensors[row.tensor].size_bytes for row in figures.transfers]
    assert sorted(event["args"]["bytes"] for event in moved) == sorted(sizes)


def test_loads_of_a_pipeline_are_refused() -> None:
    """A placement for throughput has loads, and no times that could be drawn."""
    with pytest.raises(InputError, match="loads of a pipeline, which have no times"):
        EXPORTER.build(solution_of("placement"), ExportOptions())


def test_steps_of_a_region() -> None:
    """Stalls of 1 ms and transfers are drawn one behind the other, and end with the objective."""
    solved = solution_of("regional-circuits")
    steps = len(solved.plan.steps)
    figures = RegionalCircuitsFigures(replace(solved.problem, delay_s=1e-3, windows_s=(0.0,) * steps), solved.plan)
    solution: Any = SimpleNamespace(
        name="region", kind="regional-circuits", figures=figures, objective=figures.objective
    )
    document = json.loads(EXPORTER.build(solution, ExportOptions()).files[0][1])
    assert last_us(document) == pytest.approx(figures.objective.value * 1e6)
    lanes = lanes_of(document)
    assert spent_us(lanes["region", "transfers"]) == pytest.approx(figures.transfer_s * 1e6)
    assert spent_us(lanes["region", "reconfiguration"]) == pytest.approx(1e3 * (steps - 1))
    first = lanes["region", "transfers"][0]["args"]
    assert first == {"topology": figures.plan.steps[0], "busy until the end": figures.bottleneck(0)}


def test_rows_by_hand() -> None:
    """Three bars of a lane, the second inside the first: it goes into a second row, the third into the first free."""
    bars = [Bar("s", "t", "a", 0.0, 4.0), Bar("s", "t", "b", 1.0, 2.0, {"bytes": 8}), Bar("s", "t", "c", 4.0, 5.0)]
    events = events_of(bars)
    rows = [(row["name"], row["tid"], row["ts"], row["dur"]) for row in events if row["ph"] == "X"]
    assert rows == [("a", 0, 0.0, 4.0), ("b", 1, 1.0, 1.0), ("c", 1, 4.0, 1.0)]
    assert [row["args"]["name"] for row in events if row["name"] == "thread_name"] == ["t", "t 2"]
    assert [row["args"] for row in events if row["ph"] == "X"] == [{}, {"bytes": 8}, {}]


def test_a_graph_by_hand() -> None:
    """2 s of work, 6 bytes over two circuits of 1 byte a second, then 1 s of work."""
    transfers = (DagTransfer("send", 0, 1, 6.0, (1,)),)
    tasks = (DagTask("before", 2.0), DagTask("behind", 1.0, (0,)))
    problem = DagTopologyProblem("hand", 2, (2, 2), 1.0, transfers, tasks, volume_unit="bytes", time_unit="s")
    figures = DagTopologyFigures(problem, DagTopologyPlan(np.array([2], dtype=np.int64)))
    solution: Any = SimpleNamespace(name="hand", kind="dag-topology", figures=figures, objective=figures.objective)
    document = json.loads(EXPORTER.build(solution, ExportOptions()).files[0][1])
    drawn = {
        name: [(e["name"], e["ts"], e["dur"], e["args"]) for e in lane] for name, lane in lanes_of(document).items()
    }
    assert drawn == {
        ("pod 0", "to pod 1"): [("send", 2e6, 3e6, {"bytes": 6.0})],
        ("tasks", "compute"): [("before", 0.0, 2e6, {}), ("behind", 5e6, 1e6, {})],
    }
    assert document["otherData"]["objective"] == {"makespan": 6.0, "unit": "s"}


def test_a_kind_without_times_is_refused(tmp_path: Path) -> None:
    """The message names the kind and the targets that take it."""
    assert run("solve", INSTANCES / "networks/k4-4.yaml", "--output", tmp_path / "out").code == 0
    made = run("export", tmp_path / "out/solution.json", "--to", "trace")
    assert made.code == 2
    assert "trace does not take solutions of kind routing" in made.stderr
    assert "graphml" in made.stderr


def test_rails_and_their_ports() -> None:
    """Stages on rails have a lane of what their ports are set to; the passes end with the step."""
    solution = solve(read_instance(INSTANCES / "llm-training/rails-32.yaml"), SolveOptions(seed=1, objective_only=True))
    export = EXPORTER.build(solution, ExportOptions())
    check_export("trace", export)
    document = json.loads(export.files[0][1])
    rails = next(row.rails for row in solution.figures.fabrics if row.fabric == solution.plan.fabrics[0].fabric)
    assert last_us(document) == pytest.approx(rails.step_s * 1e6)
    dark = [event for (_, lane), events in lanes_of(document).items() if lane == "ports" for event in events]
    assert len(dark) == len(rails.changes)
    assert all(event["dur"] == pytest.approx(rails.delay_s * 1e6) for event in dark)
