"""Small placement problems of objective latency for tests: hand-made and random."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from topoopt.core.placement import (
    Device,
    GraphOperator,
    Latency,
    Link,
    PlacementProblem,
    Server,
    Tensor,
)

MS = 125_000
"""Bytes that 1 Gbit/s carries in a millisecond."""


def problem(
    times: list[float],
    tensors: list[tuple[int, list[int], float]],
    servers: list[int],
    *,
    sharing: str = "fair",
    rates: str = "optimised",
    gbps: float = 1.0,
    links: int = 1,
    alpha: float = 0.0,
    memory: list[int] | None = None,
    room: int | None = None,
    labels: list[str | None] | None = None,
) -> PlacementProblem:
    """Operators of given times, tensors of so many ms at `gbps`, and a number of devices for each server."""
    n = len(times)
    return PlacementProblem(
        name="small",
        classes=("any",),
        operators=tuple(
            GraphOperator(f"op{i}", (times[i],), (memory or [0] * n)[i], (labels or [None] * n)[i]) for i in range(n)
        ),
        tensors=tuple(Tensor(i, tuple(users), round(ms * MS * gbps)) for i, users, ms in sorted(tensors)),
        servers=tuple(
            Server(f"s{s}", tuple(Link(f"eth{k}", gbps / links) for k in range(links)), 10 * gbps)
            for s in range(len(servers))
        ),
        devices=tuple(Device(f"d{s}_{k}", s, 0, room) for s, count in enumerate(servers) for k in range(count)),
        objective=Latency(sharing, rates),
        transfer_latency_ms=alpha,
    )


@st.composite
def random_problems(draw: st.DrawFn, most: int = 12, sharing: tuple[str, ...] = ("fair", "fifo", "static", "none")):
    """A random graph with zero times and sizes, shared labels and latency, on two to four devices."""
    n = draw(st.integers(1, most))
    times = [draw(st.sampled_from([0.0, 1.0, 2.5, 4.0])) for _ in range(n)]
    tensors = []
    for i in range(n - 1):
        users = sorted(draw(st.sets(st.integers(i + 1, n - 1), max_size=3)))
        if users:
            tensors.append((i, users, draw(st.sampled_from([0.0, 0.5, 1.0, 3.0]))))
    return problem(
        times,
        tensors,
        draw(st.sampled_from([[1, 1], [2], [2, 1], [1, 1, 1], [2, 2]])),
        sharing=draw(st.sampled_from(sharing)),
        rates=draw(st.sampled_from(["uniform", "optimised"])),
        links=draw(st.sampled_from([1, 2])),
        alpha=draw(st.sampled_from([0.0, 0.25])),
        labels=[draw(st.sampled_from([None, None, None, "x", "y"])) for _ in range(n)],
    )


def random_place(groups: int, devices: int, seed: int) -> np.ndarray:
    """A device for each group."""
    return np.random.default_rng(seed).integers(devices, size=groups)
