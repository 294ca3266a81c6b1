"""Iterations on circuits that a scheduler changes again and again while bytes wait."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError, Problem
from topoopt.core.workload import TaskGraph
from topoopt.native import circuits
from topoopt.simulate.circuits.policy import CircuitPolicy, CircuitTiming
from topoopt.simulate.circuits.work import make_work, pair_chunks
from topoopt.simulate.time_models.time_model import require_all_done

US_PER_MS = 1000.0


@dataclass(frozen=True, eq=False)
class CircuitRun:
    """What happened.

    Attributes:
        iteration_time_ms: mean over the iterations.
        times_ms: of each iteration, one after another.
        reconfigurations: how often circuits were changed.
        dark_ms: time in which no circuit carried anything although bytes waited (draining included).
        sent_bytes: float64[n, n], bytes that left each server for each other one, all iterations together.
        carried_bytes: bytes times hops.
        start_ms, end_ms: float64[T] of the last iteration, from its beginning.
    """

    iteration_time_ms: float
    times_ms: tuple[float, ...]
    reconfigurations: int
    dark_ms: float
    sent_bytes: Floats
    carried_bytes: float
    start_ms: Floats
    end_ms: Floats

    @property
    def bandwidth_tax(self) -> float:
        """Bytes carried over circuits per byte sent; 1 if nothing was."""
        sent = float(self.sent_bytes.sum())
        return self.carried_bytes / sent if sent > 0 else 1.0


def simulate_circuits(
    graph: TaskGraph,
    cluster: Cluster,
    policy: CircuitPolicy,
    timing: CircuitTiming,
    *,
    seed: int = 0,
    iterations: int = 1,
) -> CircuitRun:
    """Simulate iterations one after another, from random circuits on.

    When circuits have stood for a period and bytes wait, everything stops, circuits are assigned to what waits
    and carry again after the delay; when nothing waits, they stand for another period.

    Raises:
        InputError: forwarding between three servers or more over one interface each (they cannot be connected), no
            iteration, or tasks that wait for each other in a circle.
    """
    if policy.forwarding and cluster.degree < 2 and cluster.servers > 2:
        text, allowed = "one interface per server cannot connect all servers", "at least 2"
        raise InputError([Problem(text, path="degree", value=str(cluster.degree), allowed=allowed)])
    if iterations < 1:
        raise InputError([Problem("no iteration", path="iterations", value=str(iterations), allowed="at least 1")])
    chunks, pairs = pair_chunks(graph, both_ways=not policy.directed)
    hop_ms, round_ms = cluster.hop_latency_us / US_PER_MS, cluster.ring_round_latency_us / US_PER_MS
    period_delays, least_period_ms = timing.period
    times, changes, dark, carried, served, start_ms, end_ms, left = circuits.follow_demand(
        make_work(graph, chunks, hop_latency_ms=hop_ms, round_latency_ms=round_ms),
        pairs,
        degree=cluster.degree,
        link_rate=cluster.link_bytes_per_ms,
        hop_latency_us=cluster.hop_latency_us,
        directed=policy.directed,
        forwarding=policy.forwarding,
        draining=policy.draining,
        delay_ms=timing.delay_ms,
        period_delays=period_delays,
        least_period_ms=least_period_ms,
        iterations=iterations,
        seed=seed,
    )
    require_all_done(left, graph.tasks)
    sent = np.zeros(cluster.servers**2)
    sent[pairs] = served
    return CircuitRun(
        iteration_time_ms=sum(times.tolist()) / iterations,
        times_ms=tuple(times.tolist()),
        reconfigurations=changes,
        dark_ms=dark,
        sent_bytes=sent.reshape(cluster.servers, cluster.servers),
        carried_bytes=carried,
        start_ms=start_ms,
        end_ms=end_ms,
    )
