"""The unit `circuits` against plain Python: assignment by its rule, and iterations event by event."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest

from tests.native import calls_circuits as calls
from topoopt.native import circuits
from topoopt.simulate.circuits import Work

Rates = Callable[[list[int]], dict[int, float]]
"""Bytes per ms of queues in which bytes wait."""


class Iteration:
    """Tasks, chunks in queues and stages of one iteration; rates are set anew at every event."""

    def __init__(self, work: Work, hops: list[int], now: float = 0.0) -> None:
        self.w, self.hops, self.now, self.stage, self.serial = work, hops, now, 0, 0
        tasks = range(len(work.kind))
        self.chunks = [range(work.chunk_ptr[t], work.chunk_ptr[t + 1]) for t in tasks]
        self.following = [work.successor[work.successor_ptr[t] : work.successor_ptr[t + 1]].tolist() for t in tasks]
        self.waiting = np.bincount(work.successor, minlength=len(tasks))
        self.ready, self.end, self.sent_at = [now] * len(tasks), [-1.0] * len(tasks), [0.0] * len(tasks)
        self.free = [now] * work.servers
        self.left = work.chunk_bytes.tolist()
        self.unsent = list(map(len, self.chunks))
        self.queues: dict[int, list[int]] = {}
        self.served: dict[int, float] = {}
        self.carried, self.dark, self.opens = 0.0, work.stage_delay[0], now + work.stage_delay[0]
        self.held: list[int] = []
        self.in_stage = [sum(work.stage[t] == s for t in tasks if self.chunks[t]) for s in range(len(work.stage_delay))]
        self.events: list[tuple[float, int, Callable[[int, float], None], int]] = []
        for t in tasks:
            if self.waiting[t] == 0:
                self.add(now, self.begin, t)
        self.next_stage()

    def add(self, at: float, what: Callable[[int, float], None], t: int) -> None:
        """An event; alike ones in order of insertion."""
        self.serial += 1
        heapq.heappush(self.events, (at, self.serial, what, t))

    def begin(self, t: int, at: float) -> None:
        """A task is ready."""
        if self.w.kind[t] < 2:
            at = self.free[self.w.source[t]] = max(at, self.free[self.w.source[t]])
            self.free[self.w.source[t]] += self.w.duration[t]
        self.add(at + self.w.duration[t], self.send if self.chunks[t] else self.done, t)

    def send(self, t: int, at: float) -> None:
        """Its chunks queue up, unless its stage is to come."""
        if self.w.stage[t] > self.stage:
            self.held.append(t)
        elif at < self.opens:
            self.add(self.opens, self.send, t)
        else:
            for chunk in self.chunks[t]:
                self.queues.setdefault(int(self.w.chunk_queue[chunk]), []).append(chunk)

    def done(self, t: int, at: float) -> None:
        """Its successors may begin."""
        self.end[t] = at
        for then in self.following[t]:
            self.ready[then] = max(self.ready[then], at)
            self.waiting[then] -= 1
            if self.waiting[then] == 0:
                self.add(self.ready[then], self.begin, then)
        if self.chunks[t]:
            self.in_stage[self.w.stage[t]] -= 1
            self.next_stage()

    def next_stage(self) -> None:
        """The first stage with traffic left."""
        before = self.stage
        while self.in_stage[self.stage] == 0 and self.stage + 1 < len(self.in_stage):
            self.stage += 1
            self.opens = max(self.opens, self.now) + self.w.stage_delay[self.stage]
            self.dark += self.w.stage_delay[self.stage]
        if self.stage > before:
            held, self.held = self.held, []
            for t in held:
                self.add(max(self.now, self.opens), self.send, t)

    def transmit(self, until: float, rate: dict[int, float], slack: float) -> None:
        """Chunks at the head of their queues go on."""
        span, self.now = until - self.now, until
        for q, speed in rate.items():
            chunk = self.queues[q][0]
            amount = min(speed * span, self.left[chunk])
            if self.left[chunk] - amount <= speed * slack:
                amount = self.left[chunk]
                t = int(np.searchsorted(self.w.chunk_ptr, chunk, side="right")) - 1
                self.sent_at[t] = max(self.sent_at[t], until + self.w.hop_ms[t] * self.hops[q])
                self.unsent[t] -= 1
                if self.unsent[t] == 0:
                    self.add(self.sent_at[t], self.done, t)
                self.queues[q].pop(0)
            self.left[chunk] -= amount
            self.served[q] = self.served.get(q, 0.0) + amount
            self.carried += amount * self.hops[q]
        self.queues = {q: waiting for q, waiting in self.queues.items() if waiting}

    def backlog(self, q: int) -> float:
        """Bytes that wait."""
        return sum(self.left[chunk] for chunk in self.queues.get(q, ()))

    def advance(self, until: float, rates: Rates, to_busy: bool = False) -> None:
        """Event by event."""
        while not (to_busy and self.queues):
            rate = {q: speed for q, speed in rates(sorted(self.queues)).items() if speed > 0}
            ends = [self.now + self.left[self.queues[q][0]] / speed for q, speed in rate.items()]
            at = min([*ends, *(event[0] for event in self.events[:1])], default=math.inf)
            if at > until or at == math.inf:
                if until < math.inf:
                    self.transmit(until, rate, 0.0)
                return
            at = max(at, self.now)
            self.transmit(at, rate, 1e-11 * at)
            while self.events and self.events[0][0] <= at * (1 + 1e-11):
                when, _, what, t = heapq.heappop(self.events)
                what(t, when)


def max_min(routes: dict[int, list[int]], capacity: list[float]) -> dict[int, float]:
    """Rates that rise together until a link is full."""
    rate: dict[int, float] = {}
    free = list(capacity)
    while len(rate) < len(routes):
        crossing = [sum(route.count(link) for q, route in routes.items() if q not in rate) for link in range(len(free))]
        level, full = min((free[link] / count, link) for link, count in enumerate(crossing) if count)
        for q, route in routes.items():
            if q not in rate and full in route:
                rate[q] = level
                for link in route:
                    free[link] -= level
    return rate


@pytest.mark.parametrize("seed", range(80))
def test_stages_are_those_of_plain_python(seed: int) -> None:
    """Times, dark times and bytes on random graphs and routes, rates set at once."""
    work, link_rate, low, high, store, _ = calls.run_stages(np.random.default_rng(seed))
    routes = [store[first:last].tolist() for first, last in zip(low, high, strict=True)]
    plain = Iteration(work, list(map(len, routes)))
    plain.advance(math.inf, lambda busy: max_min({q: routes[q] for q in busy}, link_rate.tolist()))
    time_ms, dark_ms, carried, left = circuits.run_stages(work, link_rate, low, high, store, 0.0)
    assert (dark_ms, carried) == pytest.approx((plain.dark, plain.carried), rel=1e-7)
    assert left == plain.end.count(-1.0), "stages may wait for each other"
    if left == 0:
        assert time_ms == pytest.approx(max(plain.end), rel=1e-7)


def greedy(demand: np.ndarray, degree: int, directed: bool) -> np.ndarray:
    """Largest remaining demand first, halved after each circuit; demands differ."""
    n = len(demand)
    remaining = demand.copy() if directed else np.triu(np.maximum(demand, demand.T))
    np.fill_diagonal(remaining, 0.0)
    links = np.zeros((n, n), dtype=int)
    while remaining.any():
        i, j = np.unravel_index(np.argmax(remaining), remaining.shape)
        if links[i].sum() >= degree or (links[:, j] if directed else links[j]).sum() >= degree:
            remaining[i, j] = 0.0
            continue
        links[i, j] += 1
        links[j, i] += not directed
        remaining[i, j] /= 2
    return links


@pytest.mark.parametrize("seed", range(80))
def test_circuits_follow_demand_as_in_plain_python(seed: int) -> None:
    """Directed circuits: from random ones on, to what waits at every look, dark in between."""
    draw = np.random.default_rng(seed)
    work, pairs, degree, rate, *_, delay, periods, least, iterations, _ = calls.follow_demand(draw)
    work = work._replace(chunk_bytes=work.chunk_bytes + draw.random(len(work.chunk_bytes)))
    n, hops, iterations = work.servers, [1] * len(pairs), iterations + 1
    links = circuits.random_circuits(n, degree, seed)
    period, now, tick, times, changes, dark = max(periods * delay, least), 0.0, 0.0, [], 0, 0.0
    tick = period

    def rates(busy: list[int]) -> dict[int, float]:
        return {q: rate * links.ravel()[pairs[q]] for q in busy}

    for _ in range(iterations):
        plain = Iteration(work, hops, now)
        while tick <= now:
            tick += period
        while True:
            plain.advance(tick, rates)
            if not plain.queues:
                if not plain.events:
                    break
                plain.advance(math.inf, rates, to_busy=True)
                tick += max(1, math.ceil((plain.now - tick) / period)) * period
                continue
            demand = np.zeros(n * n)
            demand[pairs] = [plain.backlog(q) for q in range(len(pairs))]
            links = greedy(demand.reshape(n, n), degree, True)
            plain.advance(tick + delay, lambda busy: {})
            period = max(periods * delay, least)
            tick, changes, dark = tick + delay + period, changes + 1, dark + delay
        times.append(max([*plain.end, now]) - now)
        now += times[-1]
    got = circuits.follow_demand(
        work, pairs, degree, rate, 0.0, True, False, False, delay, periods, least, iterations, seed
    )
    assert got[0] == pytest.approx(times, rel=1e-7)
    assert got[1] == changes
    assert got[2] == pytest.approx(dark)
    assert got[3] == pytest.approx(sum(plain.served.values()) * iterations, rel=1e-9)
    assert got[6] == pytest.approx(np.array(plain.end) - (now - times[-1]), rel=1e-6, abs=1e-9)
    assert got[7] == 0


@pytest.mark.parametrize("seed", range(80))
def test_circuits_follow_the_greedy_rule(seed: int) -> None:
    """Against the rule in plain Python, all demands different."""
    draw = np.random.default_rng(seed)
    n, degree, directed = int(draw.integers(2, 10)), int(draw.integers(1, 6)), bool(draw.integers(2))
    demand = draw.random((n, n)) * (draw.random((n, n)) < 0.6)
    links = circuits.scheduled_circuits(demand, degree, directed, False, seed)
    assert (links == greedy(demand, degree, directed)).all()


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(30))
def test_forwarding_circuits_join_all_servers(seed: int, share: float) -> None:
    """Fibre pairs within the degree, connected whatever the demand; at most one server keeps free interfaces."""
    draw = np.random.default_rng(seed)
    n, degree = int(draw.integers(2, 15)), int(draw.integers(2, 6))
    demand = draw.random((n, n)) * (draw.random((n, n)) < share)
    links = circuits.scheduled_circuits(demand, degree, False, True, seed)
    assert (links == links.T).all()
    assert not links.diagonal().any()
    assert links.sum(axis=1).max() <= degree
    assert nx.is_connected(nx.from_numpy_array(links))


def test_pairs_of_islands_are_joined() -> None:
    """Demand of pairs only, which takes every interface: links are given up until all servers are joined (degree 2)."""
    demand = np.zeros((8, 8))
    for i in range(0, 8, 2):
        demand[i, i + 1] = 1.0 + i
    links = circuits.scheduled_circuits(demand, 2, False, True, 3)
    assert nx.is_connected(nx.from_numpy_array(links))
    assert (links.sum(axis=1) <= 2).all()


@pytest.mark.parametrize("seed", range(30))
def test_first_circuits_are_regular(seed: int) -> None:
    """Every server sends and receives over all its interfaces, none to itself, parallel ones only above n - 1."""
    draw = np.random.default_rng(seed)
    n, degree = int(draw.integers(2, 10)), int(draw.integers(1, 13))
    links = circuits.random_circuits(n, degree, seed)
    assert (links.sum(axis=0) == degree).all()
    assert (links.sum(axis=1) == degree).all()
    assert not links.diagonal().any()
    assert links.max() <= -(-degree // (n - 1))


def test_refusals() -> None:
    """Numbers that are none, servers that cannot be joined, indices out of range, periods that do not count."""
    with pytest.raises(ValueError, match="demand"):
        circuits.scheduled_circuits(np.full((2, 2), np.nan), 1, True, False, 0)
    with pytest.raises(ValueError, match="connected"):
        circuits.scheduled_circuits(np.zeros((3, 3)), 1, False, True, 0)
    with pytest.raises(ValueError, match="servers"):
        circuits.random_circuits(4097, 1, 0)
    made = (calls.run_stages(np.random.default_rng(seed)) for seed in range(99))
    work, *routes, interval = next(call for call in made if len(call[0].successor) and len(call[0].chunk_bytes))
    for wrong in (work._replace(successor=work.successor - 99), work._replace(chunk_bytes=work.chunk_bytes * np.inf)):
        with pytest.raises(ValueError, match=r"successor|chunk_bytes"):
            circuits.run_stages(wrong, *routes, interval)
    with pytest.raises(TypeError):
        circuits.run_stages(work._replace(duration=work.duration.astype(np.float32)), *routes, interval)
    work, pairs, *rest = calls.follow_demand(np.random.default_rng(2))
    for position, number in ((6, np.nan), (7, np.inf), (8, 0.0), (1, 0.0), (0, 0)):
        with pytest.raises(ValueError, match=r"delay|period|rate|degree"):
            circuits.follow_demand(work, pairs, *rest[:position], number, *rest[position + 1 :])
