"""Small placement problems, and their best objective by trying everything: plain code that shares nothing with ours."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from topoopt.core.placement import (
    Device,
    GraphOperator,
    Link,
    PlacementProblem,
    Server,
    Tensor,
    Throughput,
)

GBPS = 0.008
"""One byte takes a microsecond: 1000 bytes, 1 ms."""


DEFAULT = Throughput()


def random_problem(
    seed: int,
    *,
    operators: int = 5,
    devices: int = 2,
    cpus: int = 0,
    backward: bool = False,
    memory: bool = False,
    settings: Throughput = DEFAULT,
) -> PlacementProblem:
    """A random graph on servers of one device each, all links equal; whole milliseconds and bytes."""
    rng = np.random.default_rng(seed)
    classes = ("gpu", "cpu") if cpus else ("gpu",)
    nodes = []
    forward = operators if not backward else (operators + 1) // 2
    for index in range(operators):
        times = [float(rng.integers(0, 8))]
        if cpus:
            times.append(times[0] * 2 + 1 if rng.random() < 0.8 else float("inf"))
        is_backward = index >= forward
        label = None
        if is_backward and rng.random() < 0.8:
            label = f"c{index - forward}"
        elif backward or rng.random() < 0.3:
            label = f"c{index}"
        nodes.append(GraphOperator(f"n{index}", tuple(times), int(rng.integers(0, 5)), label, is_backward))
    tensors = []
    for index in range(operators - 1):
        later = [j for j in range(index + 1, operators) if rng.random() < 0.5]
        if later:
            tensors.append(Tensor(index, tuple(later), int(rng.integers(0, 4)) * 1000))
    total = sum(node.memory_bytes for node in nodes)
    limit = total // devices + 3 if memory else None
    servers = tuple(Server(f"s{i}", (Link("eth0", GBPS),)) for i in range(devices + (cpus > 0)))
    placed = [Device(f"g{i}", i, 0, limit) for i in range(devices)]
    placed += [Device(f"c{i}", devices, 1, None, host=True) for i in range(cpus)]
    return PlacementProblem(
        "random", classes, tuple(nodes), tuple(tensors), servers, tuple(placed), settings, sha256=str(seed)
    )


def all_placements(problem: PlacementProblem) -> Iterator[tuple[int, ...]]:
    """Every device vector that runs, fits and keeps co-located operators together."""
    n, k = len(problem.operators), len(problem.devices)
    for device in itertools.product(range(k), repeat=n):
        home: dict[str, int] = {}
        held = [0] * k
        good = True
        for operator, at in zip(problem.operators, device, strict=True):
            held[at] += operator.memory_bytes
            good &= np.isfinite(operator.times_ms[problem.devices[at].class_index])
            if operator.colocation is not None:
                good &= home.setdefault(operator.colocation, at) == at
        limits = [entry.memory_bytes for entry in problem.devices]
        if good and all(limit is None or used <= limit for used, limit in zip(held, limits, strict=True)):
            yield device


def pipeline_edges(problem: PlacementProblem) -> list[tuple[int, int]]:
    """What may not run backwards along the pipeline ."""
    label = [operator.colocation or f"#{i}" for i, operator in enumerate(problem.operators)]
    with_forward = {label[i] for i, operator in enumerate(problem.operators) if not operator.backward}
    edges = []
    for tensor in problem.tensors:
        for user in tensor.consumers:
            u, v = tensor.producer, user
            if not problem.operators[v].backward:
                edges.append((u, v))
            elif problem.operators[u].backward and not {label[u], label[v]} <= with_forward:
                edges.append((v, u))
    return edges


def orderable(problem: PlacementProblem, device: tuple[int, ...]) -> bool:
    """Whether some order of the devices has every pipeline edge run forwards."""
    edges = {(device[u], device[v]) for u, v in pipeline_edges(problem) if device[u] != device[v]}
    used = sorted(set(device))
    for order in itertools.permutations(used):
        place = {d: i for i, d in enumerate(order)}
        if all(place[a] <= place[b] for a, b in edges):
            return True
    return False


def stageable(problem: PlacementProblem, device: tuple[int, ...], per_device: int) -> bool:
    """Whether stages d, d + k, ... for the operators of device d exist with every pipeline edge forwards."""
    k = len(problem.devices)
    label = [operator.colocation or f"#{i}" for i, operator in enumerate(problem.operators)]
    groups = list(dict.fromkeys(label))
    at = {name: device[label.index(name)] for name in groups}
    edges = [(groups.index(label[u]), groups.index(label[v])) for u, v in pipeline_edges(problem)]
    for rounds in itertools.product(range(per_device), repeat=len(groups)):
        stage = [at[name] + k * r for name, r in zip(groups, rounds, strict=True)]
        if all(stage[a] <= stage[b] for a, b in edges):
            return True
    return False


def load_of(problem: PlacementProblem, device: tuple[int, ...]) -> float:
    """The objective, from its definition: tensors of whole thousands of bytes, 1 ms each."""
    settings = problem.objective
    assert isinstance(settings, Throughput)
    k = len(problem.devices)
    compute = {(d, phase): 0.0 for d in range(k) for phase in (False, True)}
    sent = dict(compute)
    for operator, d in zip(problem.operators, device, strict=True):
        compute[d, operator.backward] += operator.times_ms[problem.devices[d].class_index]
    for tensor in problem.tensors:
        source, phase = device[tensor.producer], problem.operators[tensor.producer].backward
        others = {device[user] for user in tensor.consumers if device[user] != source}
        for d in others | ({source} if others else set()):
            if not problem.devices[d].host:
                sent[d, phase] += tensor.size_bytes / 1000.0

    def joined(c: float, s: float) -> float:
        return c + s if settings.communication == "added" else max(c, s)

    if settings.schedule == "gpipe":
        return sum(max(joined(compute[d, phase], sent[d, phase]) for d in range(k)) for phase in (False, True))
    return max(joined(compute[d, False] + compute[d, True], sent[d, False] + sent[d, True]) for d in range(k))


def brute_force(problem: PlacementProblem) -> float | None:
    """Best objective of all placements, None if there is none."""
    settings = problem.objective
    assert isinstance(settings, Throughput)
    best = None
    for device in all_placements(problem):
        if settings.stages == "contiguous" and not orderable(problem, device):
            continue
        if settings.stages == "interleaved" and not stageable(problem, device, settings.stages_per_device):
            continue
        value = load_of(problem, device)
        best = value if best is None else min(best, value)
    return best
