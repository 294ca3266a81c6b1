"""Steps of placed graphs, their annealing, and circuits of task graphs, against plain definitions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from solvers.placement.makespan_search import first_placements, group_graph
from tests.native.calls_placement import CALLS, random_arrays
from tests.support.dag_jobs import drawn
from tests.support.placed_graphs import problem
from tests.support.placed_schedules import least_makespan_alone
from tests.support.placement_cases import random_problem
from tests.support.unequal_placements import unequal_problem
from topoopt.core.arrays import Floats, Ints
from topoopt.core.placement import Latency
from topoopt.native import StopFlag, Stopped, placement
from topoopt.simulate.dag import StepGraph
from topoopt.simulate.placement import ALONE, FAIR, STATIC, PlacementArrays, placement_arrays, uniform_rates
from topoopt.verify.dag_topology import Box, Boxes
from topoopt.verify.placement.check import fair_rates


@dataclass(eq=False)
class Sent:
    """A transfer: its servers, and the bytes it still has to carry at a fair rate."""

    tensor: int
    target: int
    ports: tuple[int, int]
    priority: float
    start: float
    end: float = -1.0
    rest: float = 0.0


class PlainStep:
    """One step, looking at everything at every event."""

    def __init__(self, a: PlacementArrays, device: Ints, rates: Floats, priority: Floats) -> None:
        self.a, self.device, self.rates, self.priority = a, device.tolist(), rates, priority
        self.now, n = 0.0, len(device)
        self.start, self.end, self.need = [-1.0] * n, [-1.0] * n, a.needs.tolist()
        self.running: dict[int, int] = {}
        self.ready: set[int] = set()
        self.done: list[int] = []
        self.sent: list[Sent] = []
        self.timed: list[tuple[float, Sent]] = []
        self.late: list[tuple[float, Sent]] = []
        self.flows: list[Sent] = []
        self.waiting: list[Sent] = []
        self.held: dict[int, set[tuple[str, int, int]]] = {}

    def users(self, tensor: int) -> list[int]:
        """Consumers of a tensor."""
        users: list[int] = self.a.user[self.a.user_ptr[tensor] : self.a.user_ptr[tensor + 1]].tolist()
        return users

    def run(self) -> float:
        """Until nothing happens any more; the makespan."""
        for i in range(len(self.need)):
            if not self.need[i]:
                self.begin(i)
        while True:
            while self.done:
                self.send_tensors(self.done.pop())
            self.start_operators()
            self.start_transfers()
            pairs = [flow.ports for flow in self.flows]
            speed = fair_rates(pairs, self.a.network.tolist()) if pairs else []
            ends = [self.now + flow.rest / rate for flow, rate in zip(self.flows, speed, strict=True)]
            timed = [at for at, _ in (*self.timed, *self.late)]
            computed = [self.start[i] + float(self.a.time[i, d]) for d, i in self.running.items()]
            now = min([*ends, *timed, *computed], default=None)
            if now is None:
                return self.now
            over = [flow for flow, end in zip(self.flows, ends, strict=True) if end <= now]
            for flow, rate in zip(self.flows, speed, strict=True):
                flow.rest -= rate * (now - self.now)
            self.now = now
            self.flows = [flow for flow in self.flows if flow not in over]
            self.flows += [each for at, each in self.late if at == now]
            over += [each for at, each in self.timed if at == now]
            self.timed, self.late = ([row for row in rows if row[0] > now] for rows in (self.timed, self.late))
            for d, i in list(self.running.items()):
                if self.start[i] + self.a.time[i, d] == now:
                    del self.running[d]
                    self.finish(i)
            for each in over:
                each.end = now
                self.held.pop(id(each), None)
                for j in self.users(each.tensor):
                    if self.device[j] == each.target:
                        self.arrive(j)

    def arrive(self, i: int) -> None:
        """One input more is there."""
        self.need[i] -= 1
        if not self.need[i]:
            self.begin(i)

    def begin(self, i: int) -> None:
        """All inputs are there."""
        if self.a.time[i, self.device[i]] == 0.0:
            self.start[i] = self.now
            self.finish(i)
        else:
            self.ready.add(i)

    def finish(self, i: int) -> None:
        """An operator ends."""
        self.end[i] = self.now
        self.done.append(i)

    def send_tensors(self, i: int) -> None:
        """To each other device with a consumer."""
        source = self.device[i]
        for tensor in range(self.a.tensor_ptr[i], self.a.tensor_ptr[i + 1]):
            by_target: dict[int, float] = {}
            for j in self.users(tensor):
                if self.device[j] == source:
                    self.arrive(j)
                else:
                    least = by_target.get(self.device[j], np.inf)
                    by_target[self.device[j]] = min(least, float(self.priority[j]))
            for target, priority in by_target.items():
                ports = (int(self.a.server[source]), int(self.a.server[target]))
                self.send(Sent(tensor, target, ports, priority, self.now, rest=float(self.a.tensor_size[tensor])))

    def send(self, each: Sent) -> None:
        """A transfer is sent, or waits for ports."""
        self.sent.append(each)
        (s, t), a = each.ports, self.a
        if s == t or each.rest == 0.0 or a.sharing == ALONE:
            rate = a.inside[s] if s == t else min(a.network[s], a.network[t])
            fixed = a.alpha_inside if s == t else a.alpha
            self.timed.append((self.now + (fixed + each.rest / rate), each))
        elif a.sharing == FAIR:
            if a.alpha:
                self.late.append((self.now + a.alpha, each))
            else:
                self.flows.append(each)
        else:
            self.waiting.append(each)

    def start_operators(self) -> None:
        """Of each idle device."""
        for d in sorted({self.device[i] for i in self.ready} - set(self.running)):
            i = min((i for i in self.ready if self.device[i] == d), key=lambda i: (self.priority[i], i))
            self.ready.remove(i)
            self.running[d] = i
            self.start[i] = self.now

    def start_transfers(self) -> None:
        """Of those that wait, by priority, as long as ports are free."""
        for each in sorted(self.waiting, key=lambda each: each.priority):
            s, t = each.ports
            ports = {("pair", s, t)} if self.a.sharing == STATIC else {("out", s, s), ("in", t, t)}
            if any(ports & other for other in self.held.values()):
                continue
            rate = self.rates[s, t] if self.a.sharing == STATIC else min(self.a.network[s], self.a.network[t])
            self.held[id(each)] = ports
            self.waiting.remove(each)
            each.start = self.now
            self.timed.append((self.now + (self.a.alpha + each.rest / rate), each))


def instances(sharing: str, count: int = 40) -> Iterator[tuple[PlacementArrays, Ints, Floats, Floats]]:
    """(a, device, rates, priority) of random problems."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        a = random_arrays(rng, sharing)
        place = rng.integers(len(a.room), size=len(a.group_ptr) - 1)
        yield a, place[a.group].astype(np.int64), uniform_rates(a) * rng.uniform(0.5, 1.0), rng.random(len(a.group))


def plain_tails(a: PlacementArrays, device: Ints, rates: Floats) -> list[float]:
    """Longest paths by going down from each operator."""

    def alone(tensor: int, i: int, j: int) -> float:
        s, t, size = a.server[device[i]], a.server[device[j]], a.tensor_size[tensor]
        if device[i] == device[j]:
            return 0.0
        rate = a.inside[s] if s == t else rates[s, t] if a.sharing == STATIC else min(a.network[s], a.network[t])
        return float((a.alpha_inside if s == t else a.alpha) + (size / rate if size else 0.0))

    def tail(i: int) -> float:
        ways = [
            alone(tensor, i, j) + tail(j)
            for tensor in range(a.tensor_ptr[i], a.tensor_ptr[i + 1])
            for j in a.user[a.user_ptr[tensor] : a.user_ptr[tensor + 1]].tolist()
        ]
        return max(ways, default=0.0) + float(a.time[i, device[i]])

    return [tail(i) for i in range(len(device))]


@pytest.mark.parametrize("sharing", ["fair", "fifo", "static", "none"])
def test_steps(sharing: str) -> None:
    """Starts and ends of operators and transfers."""
    for a, device, rates, priority in instances(sharing):
        plain = PlainStep(a, device, rates, priority)
        expected = plain.run()
        makespan, start, end, *columns = placement.simulate(a, device, rates, priority)
        assert makespan == pytest.approx(expected)
        assert start.tolist() == pytest.approx(plain.start)
        assert end.tolist() == pytest.approx(plain.end)
        rows = sorted(zip(*(column.tolist() for column in columns), strict=True))
        others = sorted((each.tensor, each.target, each.start, each.end) for each in plain.sent)
        assert np.array(rows) == pytest.approx(np.array(others))


@pytest.mark.parametrize("sharing", ["fair", "fifo", "static", "none"])
def test_tails_and_limits(sharing: str) -> None:
    """Longest paths; a makespan is itself up to the limit, and infinite where an operator starts too late."""
    for a, device, rates, _ in instances(sharing):
        tail = placement.tails(a, device, rates)
        assert tail.tolist() == pytest.approx(plain_tails(a, device, rates))
        value = placement.makespan(a, device, rates, False, np.inf)
        assert value == placement.simulate(a, device, rates, -tail)[0] >= tail.max(initial=0.0) * (1 - 1e-12)
        assert placement.makespan(a, device, rates, False, value * (1 + 1e-9)) == value
        assert placement.makespan(a, device, rates, False, value * 0.999) in (np.inf, value)
        timed = tail[a.time[np.arange(len(device)), device] > 0.0].max(initial=0.0)
        assert timed == 0.0 or placement.makespan(a, device, rates, False, timed * 0.999) == np.inf


def test_in_order_nothing_waits_for_links() -> None:
    """Each operator begins when its inputs are there and those before it on its device have ended."""
    for a, device, rates, _ in instances("none"):
        order = a.topo.astype(np.int64)
        makespan, start, end, tensor, target, sent, arrived = placement.simulate_in_order(a, device, rates, order)
        begun: dict[int, float] = {}
        arrives = dict(zip(zip(tensor.tolist(), target.tolist(), strict=True), arrived.tolist(), strict=True))
        for i in order.tolist():
            d, inputs = int(device[i]), [0.0]
            for producer in range(len(device)):
                for each in range(a.tensor_ptr[producer], a.tensor_ptr[producer + 1]):
                    if i in a.user[a.user_ptr[each] : a.user_ptr[each + 1]]:
                        inputs.append(arrives.get((each, d), end[producer]))
            expected = max(inputs) if a.time[i, d] == 0.0 else max(*inputs, begun.get(d, 0.0))
            assert start[i] == expected
            assert end[i] == expected + a.time[i, d]
            begun[d] = end[i] if a.time[i, d] > 0.0 else begun.get(d, 0.0)
        producers = np.repeat(np.arange(len(device)), np.diff(a.tensor_ptr))
        assert (sent == end[producers[tensor]]).all()
        assert makespan == end.max()


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_rates_by_volume(power: float) -> None:
    """Proportional to a power of the bytes at the fuller port; then no pair that sends can have more."""
    for a, device, _, _ in instances("static"):
        volume = np.zeros((len(a.network), len(a.network)))
        for i in range(len(device)):
            for tensor in range(a.tensor_ptr[i], a.tensor_ptr[i + 1]):
                users = a.user[a.user_ptr[tensor] : a.user_ptr[tensor + 1]]
                for d in set(device[users].tolist()) - {int(device[i])}:
                    if a.server[d] != a.server[device[i]]:
                        volume[a.server[device[i]], a.server[d]] += a.tensor_size[tensor]
        weight = np.where(volume > 0.0, volume**power, 0.0)
        out, into = (np.maximum(weight.sum(axis=axis), 1e-300) for axis in (1, 0))
        first = np.minimum((a.network / out)[:, None] * weight, (a.network / into)[None, :] * weight)
        rates = placement.rates_by_volume(a, device, power)
        assert ((rates > 0) == (volume > 0)).all()
        assert (rates >= first * (1 - 1e-12)).all()
        full = [rates.sum(axis=axis) >= a.network * (1 - 1e-2) for axis in (1, 0)]
        assert (full[0][:, None] | full[1][None, :])[volume > 0].all()


@pytest.mark.parametrize("sharing", ["fair", "static"])
def test_annealing_of_placements(sharing: str) -> None:
    """Ends at the least makespan of all placements that fit, with the same moves for the same seed."""
    for seed in range(6):
        a = random_arrays(np.random.default_rng(seed), sharing)
        g, rates, allocate = group_graph(a), uniform_rates(a), sharing == "static"
        k, groups = len(a.room), len(g.memory)
        if k**groups > 3000:
            continue
        values = {}
        for choice in itertools.product(range(k), repeat=groups):
            used = np.bincount(choice, weights=g.memory, minlength=k)
            if (used <= a.room).all():
                device = np.array(choice)[a.group]
                values[choice] = placement.makespan(a, device, rates, allocate, np.inf)
        runs = []
        for _ in range(2):
            annealing = placement.PlacementAnnealing(a, g, np.array(next(iter(values))), rates, allocate, seed)
            assert annealing.value() == values[next(iter(values))]
            for _ in range(3):
                annealing.run(1000, 0.5, 0.01)
                annealing.restart()
            runs.append((annealing.value(), tuple(annealing.placement().tolist())))
        assert runs[0] == runs[1]
        assert values[runs[0][1]] == runs[0][0] == min(values.values())


def test_full_devices_exchange_groups() -> None:
    """Two chains of two operators, each cut: no device has room for one more, so only an exchange joins them."""
    a = placement_arrays(problem([1.0] * 4, [(0, [2], 5.0), (1, [3], 5.0)], [1, 1], memory=[1] * 4, room=2))
    annealing = placement.PlacementAnnealing(a, group_graph(a), np.array([0, 0, 1, 1]), uniform_rates(a), False, 0)
    annealing.run(1000, 0.5, 0.01)
    assert annealing.value() == 2.0


def test_annealing_of_priorities() -> None:
    """Never worse than the start; the priorities give the value."""
    for a, device, rates, priority in instances("fifo", 12):
        annealing = placement.PriorityAnnealing(a, device, rates, priority, 7)
        before = annealing.value()
        assert before == placement.simulate(a, device, rates, priority)[0]
        annealing.run(200)
        after = placement.simulate(a, device, rates, annealing.priority())[0]
        assert annealing.value() == after <= before


@pytest.mark.parametrize("seed", range(10))
def test_annealing_of_orders(seed: int) -> None:
    """Ends at the least makespan of all placements and orders without contention; the order gives the value."""
    make = unequal_problem if seed % 2 else random_problem
    case = make(seed, operators=5, devices=3 if seed % 3 else 2, memory=seed % 4 == 0)
    for sharing in ("none", "fifo"):
        a = placement_arrays(replace(case, objective=Latency(sharing)))
        g, rates, first = group_graph(a), uniform_rates(a), a.topo.astype(np.int64)
        start = next(homes for _, homes in first_placements(a, g))
        runs = []
        for _ in range(2):
            annealing = placement.OrderAnnealing(a, g, start, rates, first, seed)
            annealing.run(20_000, 0.5, 0.01)
            runs.append((annealing.value(), annealing.placement().tolist(), annealing.order().tolist()))
        assert runs[0] == runs[1]
        value, homes, order = runs[0]
        device = np.array(homes)[a.group]
        assert (np.bincount(homes, weights=g.memory, minlength=len(a.room)) <= a.room).all()
        if sharing == "none":
            assert value == placement.simulate_in_order(a, device, rates, np.array(order))[0]
            assert value == pytest.approx(least_makespan_alone(case), rel=1e-9)
        else:
            assert value == placement.simulate(a, device, rates, np.argsort(order).astype(np.float64))[0]
            assert value >= least_makespan_alone(case) * (1 - 1e-9)


def test_an_order_has_every_operator_after_what_it_needs() -> None:
    a = placement_arrays(problem([1.0] * 3, [(0, [1], 5.0)], [1, 1]))
    for order in ([1, 0, 2], [0, 0, 1]):
        with pytest.raises(ValueError, match="order"):
            placement.OrderAnnealing(a, group_graph(a), np.zeros(3, np.int64), uniform_rates(a), np.array(order), 0)


@pytest.mark.parametrize("seed", range(60))
def test_circuits_before_a_deadline(seed: int) -> None:
    """The same ranges as the checker's, which counts them by itself."""
    rng = np.random.default_rng(seed)
    job = drawn(rng)
    graph = StepGraph.of(job)
    ends, ports = np.array(job.pairs, dtype=np.int64), np.array(job.ports, dtype=np.int64)
    steps = (graph.first, graph.successor, graph.order, graph.duration, graph.volume, graph.channel)
    bounds = placement.CircuitBounds(*steps, ends, ports, job.rate)
    for target in rng.uniform(1.0, 40.0, size=20):
        boxes = Boxes(job, float(target))
        low = rng.integers(1, 3, size=len(ends))
        box = Box(tuple(low.tolist()), tuple((low + rng.integers(0, 6, size=len(ends))).tolist()))
        expected = boxes.narrowed(box)
        result = bounds.propagated(np.array(box.least), np.array(box.most), boxes.late)
        assert (result is None) == (expected is None)
        if result is not None and expected is not None:
            assert (tuple(result[0].tolist()), tuple(result[1].tolist())) == (expected.least, expected.most)


def test_longest_paths() -> None:
    """As long as the longest one that ends anywhere, and a path."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        graph = StepGraph.of(drawn(rng))
        length = rng.random(len(graph.order))
        end = np.zeros(len(length))
        for node in graph.order:
            end[node] += length[node]
            after = graph.successor[graph.first[node] : graph.first[node + 1]]
            end[after] = np.maximum(end[after], end[node])
        value, path = placement.Steps(graph.first, graph.successor, graph.order).longest_path(length)
        assert value == end.max() == pytest.approx(length[path].sum())
        for node, later in itertools.pairwise(path.tolist()):
            assert later in graph.successor[graph.first[node] : graph.first[node + 1]]


def test_of_equally_long_paths_the_first_is_told() -> None:
    """Two steps side by side."""
    steps = placement.Steps(np.zeros(3, dtype=np.int64), np.zeros(0, dtype=np.int64), np.array([1, 0]))
    assert [part if isinstance(part, float) else list(part) for part in steps.longest_path(np.ones(2))] == [1.0, [1]]


def test_wrong_input_is_refused() -> None:
    """Of another length, out of range, below zero, in circles."""
    a, device, rates, priority = next(instances("fifo"))
    for arguments in (
        (a, device[:-1], rates, priority),
        (a, device + 100, rates, priority),
        (a, device, rates[:, :1].copy(), priority),
        (a, device, -rates - 1.0, priority),
        (a, device, rates, priority[1:]),
        (a._replace(user=a.user + np.int32(50)), device, rates, priority),
        (a._replace(group_ptr=a.group_ptr[:0]), device, rates, priority),
        (a._replace(network=a.network * np.nan), device, rates, priority),
        (a._replace(sharing=9), device, rates, priority),
    ):
        with pytest.raises(ValueError, match=r"."):
            placement.simulate(*arguments)
    with pytest.raises(TypeError):
        placement.simulate(a[:-1], device, rates, priority)  # type: ignore[arg-type]
    two = np.array([0, 1, 2])
    with pytest.raises(ValueError, match="order"):
        placement.Steps(two, np.array([1, 0]), np.array([0, 1]))


@pytest.mark.parametrize("name", ["PlacementAnnealing", "OrderAnnealing", "PriorityAnnealing"])
def test_a_set_flag_ends_annealing(name: str) -> None:
    """However many moves there are to go."""
    annealing = getattr(placement, name)(*CALLS[name](np.random.default_rng(1)))
    flag = StopFlag()
    flag.set()
    flag.watch()
    try:
        with pytest.raises(Stopped):
            annealing.run(*((2**60,) if name == "PriorityAnnealing" else (2**60, 0.1, 0.01)))
    finally:
        flag.unwatch()
