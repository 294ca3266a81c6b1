"""Iterations on circuits that a scheduler changes again and again while bytes wait."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError, Problem
from topoopt.core.taskgraph import TaskGraph
from topoopt.simulate.circuits.assign import random_circuits, scheduled_circuits
from topoopt.simulate.circuits.engine import advance, darken, light
from topoopt.simulate.circuits.policy import CircuitPolicy, CircuitTiming
from topoopt.simulate.circuits.state import ACTIVE, BACKLOG, CARRIED, NOW, State, begin
from topoopt.simulate.circuits.wires import Wires, lay_wires
from topoopt.simulate.circuits.work import Work, make_work, pair_chunks
from topoopt.simulate.engine.queue import COUNT
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


@dataclass(frozen=True, eq=False)
class _Setting:
    cluster: Cluster
    policy: CircuitPolicy
    timing: CircuitTiming
    work: Work
    pairs: Ints
    interval: float
    dice: NDArray[np.uint64]

    def wires(self, links: Int32s) -> Wires:
        source, target = np.divmod(self.pairs, self.cluster.servers)
        ends = source.astype(np.int32), target.astype(np.int32)
        return lay_wires(links, self.cluster.link_bytes_per_ms, self.policy.forwarding, *ends)

    def waiting(self, s: State) -> Floats:
        """float64[n, n]: bytes not sent yet."""
        n = self.cluster.servers
        matrix = np.zeros(n * n)
        matrix[self.pairs] = s.backlog
        return matrix.reshape(n, n)

    def drain_ms(self, s: State, x: Wires) -> float:
        """Time until what is on the way has arrived."""
        active = s.active[: s.number[ACTIVE]]
        if not self.policy.draining or not len(active):
            return 0.0
        return float((x.high[active] - x.low[active]).max()) * self.cluster.hop_latency_us / US_PER_MS

    def scheduled(self, demand: Floats) -> Wires:
        policy = self.policy
        return self.wires(
            scheduled_circuits(demand, self.cluster.degree, policy.directed, policy.forwarding, self.dice)
        )


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
    (`scheduled_circuits`) and carry again after the delay; when nothing waits, they stand for another period.

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
    work = make_work(graph, chunks, hop_latency_ms=hop_ms, round_latency_ms=round_ms)
    dice = np.array([seed], dtype=np.uint64)
    setting = _Setting(cluster, policy, timing, work, pairs, hop_ms if policy.forwarding else 0.0, dice)
    wires = setting.wires(_first_links(cluster, policy, dice))
    live, now = timing.live_ms(timing.delay_ms), 0.0
    tick = live
    times: list[float] = []
    dark, changes, carried = 0.0, 0, 0.0
    served = np.zeros(len(pairs))
    while len(times) < iterations:
        s: State = begin(work, len(pairs), now)
        while tick <= now:
            tick += live
        light(s, wires)
        while True:
            advance(work, s, wires, tick, setting.interval, False)
            if s.number[BACKLOG] == 0:
                if s.events.number[COUNT] == 0:
                    break
                # Nothing waits: circuits stay. Looks until something does would change nothing.
                advance(work, s, wires, math.inf, setting.interval, True)
                tick += max(1.0, math.ceil((s.clock[NOW] - tick) / live)) * live
                continue
            drain = setting.drain_ms(s, wires)
            demand = setting.waiting(s)
            darken(s)
            wires = setting.scheduled(demand)
            opens = tick + drain + timing.delay_ms
            live = timing.live_ms(drain + timing.delay_ms)
            advance(work, s, wires, opens, setting.interval, False)
            light(s, wires)
            dark += drain + timing.delay_ms
            changes += 1
            tick = opens + live
        require_all_done(int(s.tasks.job_left[0]), graph.tasks)
        ended = max(float(s.tasks.end.max(initial=0.0)), now)
        times.append(ended - now)
        served += s.served
        carried += float(s.clock[CARRIED])
        start_ms, end_ms = s.tasks.start - now, s.tasks.end - now
        now = ended
    sent = np.zeros(cluster.servers**2)
    sent[pairs] = served
    return CircuitRun(
        iteration_time_ms=sum(times) / len(times),
        times_ms=tuple(times),
        reconfigurations=changes,
        dark_ms=dark,
        sent_bytes=sent.reshape(cluster.servers, cluster.servers),
        carried_bytes=carried,
        start_ms=start_ms,
        end_ms=end_ms,
    )


def _first_links(cluster: Cluster, policy: CircuitPolicy, dice: NDArray[np.uint64]) -> Int32s:
    """Circuits before any demand is known."""
    n = cluster.servers
    if policy.directed:
        return np.asarray(random_circuits(n, cluster.degree, dice))
    return np.asarray(scheduled_circuits(np.zeros((n, n)), cluster.degree, False, policy.forwarding, dice))
