"""Small placement problems with unequal devices and links, and their best load by trying every assignment.

Plain code from the definition of the objective; it shares nothing with the package but the data of the problem.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from tests.support.placement_cases import all_placements, orderable, stageable
from topoopt.core.placement import (
    Device,
    GraphOperator,
    Link,
    PlacementProblem,
    Server,
    Tensor,
    Throughput,
)

DEFAULT = Throughput()

VARIANTS = {
    "1f1b": Throughput(),
    "gpipe": Throughput(schedule="gpipe"),
    "overlapped": Throughput(communication="overlapped"),
    "interleaved": Throughput(stages="interleaved", stages_per_device=2),
    "free": Throughput(stages="free"),
    "free-gpipe": Throughput("gpipe", "overlapped", "free"),
}
"""What a pipeline may be asked to do, by name."""


def _graph(
    rng: np.random.Generator, operators: int, classes: int, backward: bool
) -> tuple[tuple[GraphOperator, ...], tuple[Tensor, ...]]:
    nodes = []
    for i in range(operators):
        base = float(rng.uniform(0.5, 6.0))
        times = [base * float(rng.uniform(0.5, 2.0)) for _ in range(classes)]
        if classes > 1 and rng.random() < 0.1:
            times[int(rng.integers(1, classes))] = float("inf")
        label = f"g{i % 3}" if rng.random() < 0.15 else None
        late = backward and i >= operators // 2
        nodes.append(GraphOperator(f"n{i}", tuple(times), int(rng.integers(0, 6)), label, late))
    tensors = []
    for i in range(operators - 1):
        later = [j for j in range(i + 1, operators) if rng.random() < 0.4]
        if later:
            tensors.append(Tensor(i, tuple(later), int(rng.integers(0, 4000))))
    return tuple(nodes), tuple(tensors)


def unequal_problem(
    seed: int,
    *,
    operators: int = 7,
    devices: int = 3,
    backward: bool = False,
    memory: bool = False,
    settings: Throughput = DEFAULT,
) -> PlacementProblem:
    """Devices of several classes, a random number of them in each server, links from 1 to 50 times as fast."""
    rng = np.random.default_rng(seed)
    classes = int(rng.integers(1, 4))
    nodes, tensors = _graph(rng, operators, classes, backward)
    count = int(rng.integers(1, devices + 1)) if devices > 1 else 1
    places = sorted([*range(count), *rng.integers(0, count, devices - count).tolist()])
    servers = tuple(
        Server(
            f"s{i}",
            tuple(Link(f"eth{j}", 0.002 * float(50.0 ** rng.random())) for j in range(int(rng.integers(1, 3)))),
            None if rng.random() < 0.3 else 0.02 * float(50.0 ** rng.random()),
        )
        for i in range(count)
    )
    total = sum(node.memory_bytes for node in nodes)
    placed = tuple(
        Device(
            f"d{i}",
            server,
            0 if i == 0 else int(rng.integers(classes)),
            None if not memory or rng.random() < 0.2 else int(total * rng.uniform(0.3, 0.8)) + 3,
            host=i > 0 and bool(rng.random() < 0.15),
        )
        for i, server in enumerate(places)
    )
    latencies = [float(rng.uniform(0, 0.5)) * (rng.random() < 0.5) for _ in range(2)]
    return PlacementProblem(
        "unequal",
        tuple(f"c{i}" for i in range(classes)),
        nodes,
        tensors,
        servers,
        placed,
        settings,
        transfer_latency_ms=latencies[0],
        intra_latency_ms=latencies[1] / 10,
        sha256=f"{seed:064x}",
    )


def pair_ms(problem: PlacementProblem, one: int, other: int, size_bytes: int) -> float:
    """Time of one transfer: inside a server at its inner rate, else at the smaller of two equal shares of the links."""
    a, b = problem.devices[one], problem.devices[other]
    bits = 8 * size_bytes
    if a.server == b.server:
        server = problem.servers[a.server]
        rate = server.intra_gbps or sum(link.gbps for link in server.links)
        return bits / (rate * 1e6) + problem.intra_latency_ms
    share = {}
    for end in (a, b):
        users = [d for d in problem.devices if d.server == end.server and not d.host]
        share[end.name] = sum(link.gbps for link in problem.servers[end.server].links) / max(len(users), 1)
    paying = [end.name for end in (a, b) if not end.host]
    rate = min(share[name] for name in (paying or [a.name, b.name]))
    return bits / (rate * 1e6) + problem.transfer_latency_ms


def unequal_load(problem: PlacementProblem, device: tuple[int, ...]) -> float:
    """The objective of an assignment, from its definition."""
    settings = problem.objective
    assert isinstance(settings, Throughput)
    compute: dict[tuple[int, bool], float] = defaultdict(float)
    sent: dict[tuple[int, bool], float] = defaultdict(float)
    for i, operator in enumerate(problem.operators):
        compute[device[i], operator.backward] += operator.times_ms[problem.devices[device[i]].class_index]
    for tensor in problem.tensors:
        home, late = device[tensor.producer], problem.operators[tensor.producer].backward
        copies = {d: pair_ms(problem, home, d, tensor.size_bytes) for d in {device[j] for j in tensor.consumers}}
        copies.pop(home, None)
        if copies:
            for d, time in {**copies, home: max(copies.values())}.items():
                sent[d, late] += 0.0 if problem.devices[d].host else time

    def load(d: int, phases: tuple[bool, ...]) -> float:
        own = [sum(table[d, phase] for phase in phases) for table in (compute, sent)]
        return sum(own) if settings.communication == "added" else max(own)

    everyone = range(len(problem.devices))
    if settings.schedule == "gpipe":
        return sum(max(load(d, (phase,)) for d in everyone) for phase in (False, True))
    return max(load(d, (False, True)) for d in everyone)


def allowed(problem: PlacementProblem, device: tuple[int, ...]) -> bool:
    """Whether the stages can be ordered as the settings ask."""
    settings = problem.objective
    assert isinstance(settings, Throughput)
    if settings.stages == "contiguous":
        return orderable(problem, device)
    if settings.stages == "interleaved":
        return stageable(problem, device, settings.stages_per_device)
    return True


def least_load(problem: PlacementProblem) -> float | None:
    """Best objective of all assignments, None if there is none: cheapest first, so that few orders are looked at."""
    ranked = sorted((unequal_load(problem, device), device) for device in all_placements(problem))
    return next((value for value, device in ranked if allowed(problem, device)), None)


def crossing_problem() -> PlacementProblem:
    """Branches too large for one server: tensors have to cross, several at a time."""
    sizes = (400, 400, 300, 500, 200, 600, 300)
    nodes = tuple(
        GraphOperator(f"n{i}", (time, time / 2), 4) for i, time in enumerate((1.0, 2.0, 3.0, 2.5, 1.5, 0.0, 2.0))
    )
    edges = ((0, (1, 2, 3)), (1, (4,)), (2, (4, 5)), (3, (5,)), (4, (6,)), (5, (6,)))
    tensors = tuple(Tensor(i, users, size) for (i, users), size in zip(edges, sizes, strict=False))
    links = ((0.01,), (0.006, 0.004), (0.02,))
    servers = tuple(
        Server(f"s{i}", tuple(Link(f"eth{j}", rate) for j, rate in enumerate(own))) for i, own in enumerate(links)
    )
    devices = tuple(Device(f"d{i}", i, i % 2, 12) for i in range(3))
    return PlacementProblem(
        "crossing",
        ("c0", "c1"),
        nodes,
        tensors,
        servers,
        devices,
        DEFAULT,
        transfer_latency_ms=0.05,
        sha256=f"{7:064x}",
    )
