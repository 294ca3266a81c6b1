"""Figures that follow from a placement; each is computed when it is first read, and none is stored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from formulations.stage_order import order_pairs
from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.placement import (
    Latency,
    PlacementPlan,
    PlacementProblem,
    TensorTransfer,
    Throughput,
)
from topoopt.core.result import Columns, Objective, listed
from topoopt.simulate.placement import (
    DeviceLoad,
    compute_loads,
    device_loads,
    max_load_ms,
    pair_rates,
    plan_transfers,
)

if TYPE_CHECKING:
    import networkx as nx

CLOSE = 1e-9
"""Part of the makespan by which an end and the start that waits for it may differ."""


@dataclass(frozen=True)
class PathStep:
    """A part of the critical path: an operator, or a transfer (index of its tensor) with the time that it queued."""

    what: Literal["operator", "transfer"]
    index: int
    device: int
    start_ms: float
    end_ms: float
    queued_ms: float = 0.0


@dataclass(frozen=True, eq=False)
class PlacementFigures:
    """The figures of a plan; arrays are by operator unless they say otherwise."""

    problem: PlacementProblem
    plan: PlacementPlan

    @property
    def scheduled(self) -> bool:
        """Whether the plan has a schedule, so that the objective is latency."""
        return isinstance(self.problem.objective, Latency)

    @cached_property
    def objective(self) -> Objective:
        """The largest load of a pipeline, or the end of the last operator."""
        settings = self.problem.objective
        if isinstance(settings, Throughput):
            return Objective("max_load", max_load_ms(settings, self.loads), "ms")
        return Objective("makespan", makespan_ms(self), "ms")

    @cached_property
    def loads(self) -> tuple[DeviceLoad, ...]:
        """What each device does; transfers occupy no device with objective latency."""
        return (compute_loads if self.scheduled else device_loads)(self.problem, self.plan.device)

    @cached_property
    def stage(self) -> Int32s | None:
        """int32[n], stage of each operator; None where stages have no order."""
        settings = self.problem.objective
        return stage_numbers(self.problem, settings, self.plan.device) if isinstance(settings, Throughput) else None

    @cached_property
    def end_ms(self) -> Floats | None:
        """float64[n], end of each operator; None without a schedule."""
        if not self.scheduled:
            return None
        times = [self.problem.time_ms(i, d) for i, d in enumerate(self.plan.device.tolist())]
        return np.asarray(self.plan.start_ms + np.array(times), dtype=np.float64)

    @cached_property
    def transfers(self) -> tuple[TensorTransfer, ...]:
        """Every transfer, ascending by start; empty without a schedule."""
        return () if self.end_ms is None else plan_transfers(self.problem, self.plan, self.end_ms)

    @cached_property
    def rates_gbps(self) -> Floats | None:
        """float64[servers, servers], what each may send to each other; None where rates are not allocated."""
        settings = self.problem.objective
        if not isinstance(settings, Latency) or settings.sharing != "static":
            return None
        return pair_rates(self.problem, self.plan.link_shares)

    @cached_property
    def operator_counts(self) -> list[int]:
        """How many operators are on each device."""
        return [int(count) for count in np.bincount(self.plan.device, minlength=len(self.problem.devices))]

    @cached_property
    def critical_path(self) -> tuple[PathStep, ...]:
        """Operators and transfers that end the step when it ends, each starting when the one before ends."""
        return critical_path(self)

    def columns(self) -> dict[str, Columns]:
        """Tables of operators, devices, transfers and shares of links, as columns."""
        devices = self.problem.devices
        at = [devices[d] for d in self.plan.device.tolist()]
        start = self.plan.start_ms if self.scheduled else None
        optional = {"stage": self.stage, "start_ms": start, "end_ms": self.end_ms}
        tables: dict[str, Columns] = {
            "operators": {
                "operator": [operator.name for operator in self.problem.operators],
                "device": [device.name for device in at],
                **{name: values for name, values in optional.items() if values is not None},
            },
            "servers": listed(self.problem.servers),
            "devices": listed(devices),
            "loads": listed(self.loads),
            "transfers": listed(self.transfers),
            "link_shares": listed(self.plan.link_shares),
        }
        return {name: columns for name, columns in tables.items() if columns}


def makespan_ms(figures: PlacementFigures) -> float:
    return 0.0 if figures.end_ms is None else float(figures.end_ms.max())


def stage_numbers(problem: PlacementProblem, settings: Throughput, device: Int32s) -> Int32s | None:
    """Return the stage of every operator in the first of all orders of stages, so that a placement has one.

    Contiguous stages are numbered by devices in use: the next is the first of the file that waits for no other.
    Interleaved stages are the earliest ones.

    Returns:
        int32[n]; None for free sets, and where no order has every tensor run forwards.
    """
    import networkx as nx

    if settings.stages == "free":
        return None
    block_of = np.empty(len(problem.operators), dtype=np.int64)
    for block, members in enumerate(problem.colocated()):
        block_of[list(members)] = block
    pairs = order_pairs(problem, block_of)
    home = np.zeros(int(block_of.max()) + 1, dtype=np.int64)
    home[block_of] = device
    if settings.stages == "interleaved":
        stage = _interleaved_stages(home, pairs, len(problem.devices), settings.stages_per_device)
        return None if stage is None else stage[block_of].astype(np.int32)
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(sorted(set(home.tolist())))
    edges = ((int(home[a]), int(home[b])) for a, b in pairs)
    graph.add_edges_from(sorted((a, b) for a, b in edges if a != b))
    if not nx.is_directed_acyclic_graph(graph):
        return None
    position = {at: i for i, at in enumerate(nx.lexicographical_topological_sort(graph))}
    return np.array([position[at] for at in device.tolist()], dtype=np.int32)


def _interleaved_stages(home: Ints, pairs: set[tuple[int, int]], k: int, rounds: int) -> Ints | None:
    """Return int64[blocks]: blocks that need each other share a stage, others come as early as their device allows."""
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(home)))
    graph.add_edges_from(sorted(pairs))
    components = nx.condensation(graph)
    stage = np.zeros(len(home), dtype=np.int64)
    for component in nx.topological_sort(components):
        members = sorted(components.nodes[component]["members"])
        if len(set(home[members].tolist())) > 1:
            return None
        low = max((int(stage[a]) for b in members for a in graph.predecessors(b)), default=0)
        stage[members] = low + (int(home[members[0]]) - low) % k
    return stage if int(stage.max()) < k * rounds else None


def critical_path(figures: PlacementFigures) -> tuple[PathStep, ...]:
    """Return the chain that ends last: each step waits for the end of the step before, or for its device."""
    problem, start, end = figures.problem, figures.plan.start_ms.tolist(), figures.end_ms
    if end is None:
        return ()
    at, ends = figures.plan.device.tolist(), end.tolist()
    sent = {(transfer.tensor, transfer.target): transfer for transfer in figures.transfers}
    inputs: list[list[int]] = [[] for _ in at]
    for index, tensor in enumerate(problem.tensors):
        for user in tensor.consumers:
            inputs[user].append(index)
    on: dict[int, list[int]] = {}
    for i, d in enumerate(at):
        if ends[i] > start[i]:
            on.setdefault(d, []).append(i)
    slack = CLOSE * max(ends, default=0.0)
    steps: list[PathStep] = []
    i, seen = max(range(len(ends)), key=lambda i: (ends[i], -i)), set[int]()
    while i not in seen:
        seen.add(i)
        steps.append(PathStep("operator", i, at[i], start[i], ends[i]))
        arrivals = [(_arrival(problem, sent, ends, at, index, i), index) for index in inputs[i]]
        latest = max(arrivals, default=(0.0, -1))
        before = [j for j in on.get(at[i], ()) if j not in seen and abs(ends[j] - start[i]) <= slack]
        if latest[1] >= 0 and latest[0] >= start[i] - slack:
            tensor = problem.tensors[latest[1]]
            transfer = sent.get((latest[1], at[i]))
            if transfer is not None:
                queued = transfer.start_ms - ends[tensor.producer]
                steps.append(
                    PathStep("transfer", latest[1], at[i], transfer.start_ms, transfer.end_ms, max(0.0, queued))
                )
            i = tensor.producer
        elif before and start[i] > slack:
            i = before[0]
        else:
            break
    return tuple(reversed(steps))


def _arrival(
    problem: PlacementProblem,
    sent: dict[tuple[int, int], TensorTransfer],
    ends: list[float],
    at: list[int],
    tensor: int,
    user: int,
) -> float:
    transfer = sent.get((tensor, at[user]))
    return ends[problem.tensors[tensor].producer] if transfer is None else transfer.end_ms
