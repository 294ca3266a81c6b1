"""Array builder of `formulations.placement.placement_joint`."""

from __future__ import annotations

import numpy as np

from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Rows, Term
from formulations.placement.placement_joint import JointPlacement, Way


def build_arrays(data: JointPlacement) -> LpArrays:
    """The program, named as in the algebra."""
    builder = _Builder(data)
    builder.columns()
    builder.places()
    builder.precedence()
    builder.transfers()
    builder.rates()
    builder.operator_orders()
    builder.queue_orders()
    builder.bounds()
    return builder.rows.program({("span",): 1.0})


class _Builder:
    """Holds what the families of rows share."""

    def __init__(self, data: JointPlacement) -> None:
        self.data, self.rows = data, Rows()
        self.ways, self.queues, self.unordered = data.ways(), data.queues(), data.unordered()

    def columns(self) -> None:
        data, column = self.data, self.rows.column
        for g in range(len(data.memory)):
            for d in data.devices:
                column("at", g, d, upper=float(data.able(g, d)), integer=True)
        for i in range(len(data.group)):
            low, high = data.window(i)
            column("start", i, lower=low, upper=high)
        for t, e in self.ways:
            column("leave", t, e, upper=data.upper_ms)
        for t, s, e in self._sendings():
            column("sent", t, s, e, upper=1.0)
        for s, u in data.pairs:
            least = 1.0 / min(data.capacity[s], data.capacity[u])
            column("used", s, u, upper=1.0)
            column("slow", s, u, lower=least, upper=max(least, data.most))
            column("rate", s, u)
        for i, j in self.unordered:
            column("before", i, j, upper=1.0, integer=True)
        for one, other in self.queues:
            column("ahead", *one, *other, upper=1.0, integer=True)
        column("span", upper=data.upper_ms)

    def _sendings(self) -> list[tuple[int, int, int]]:
        data = self.data
        return [(t, s, e) for t, e in self.ways for s in data.servers if s != data.server[e]]

    def _at(self, i: int, d: int, factor: float) -> Term:
        return self.rows.at("at", self.data.group[i], d), factor

    def _on(self, i: int, s: int, factor: float) -> list[Term]:
        """Terms of z[g(i),s]."""
        return [self._at(i, d, factor) for d in self.data.on(s)]

    def _run(self, i: int, factor: float) -> list[Term]:
        return [self._at(i, d, factor * self.data.duration(i, d)) for d in self.data.devices]

    def _var(self, *key: object, factor: float = 1.0) -> Term:
        return self.rows.at(*key), factor

    def _at_least(self, name: str, side: float, terms: list[Term]) -> None:
        self.rows.row(name, side, np.inf, terms)

    def places(self) -> None:
        """Rows (1) and (2)."""
        data, groups = self.data, range(len(self.data.memory))
        for g in groups:
            self.rows.row(f"place_{g}", 1.0, 1.0, [self._var("at", g, d) for d in data.devices])
        for d in data.devices:
            if np.isfinite(data.room[d]):
                terms = [self._var("at", g, d, factor=data.memory[g]) for g in groups]
                self.rows.row(f"fit_{d}", -np.inf, data.room[d], terms)

    def precedence(self) -> None:
        """Rows (3) to (5)."""
        data = self.data
        for i in range(len(data.group)):
            self._at_least(
                f"end_{i}", 0.0, [self._var("span"), self._var("start", i, factor=-1.0), *self._run(i, -1.0)]
            )
        for t, tensor in enumerate(data.tensors):
            i = tensor.producer
            for j in tensor.consumers:
                apart = [self._var("start", j), self._var("start", i, factor=-1.0), *self._run(i, -1.0)]
                self._at_least(f"follow_{t}_{j}", 0.0, apart)
                if data.group[i] == data.group[j]:
                    continue
                for e in data.devices:
                    for d in data.on(data.server[e]):
                        time = tensor.inside_ms[data.server[e]]
                        if d != e and time > 0:
                            big = data.upper_ms + time
                            both = [self._at(i, d, -big), self._at(j, e, -big)]
                            self._at_least(f"inside_{t}_{j}_{d}_{e}", time - 2 * big, [*apart, *both])
                    for s in data.servers:
                        if s != data.server[e] and tensor.volume <= 0 < data.alpha_ms:
                            big = data.upper_ms + data.alpha_ms
                            both = [*self._on(i, s, -big), self._at(j, e, -big)]
                            self._at_least(f"signal_{t}_{j}_{s}_{e}", data.alpha_ms - 2 * big, [*apart, *both])

    def transfers(self) -> None:
        """Rows (6) to (9)."""
        data = self.data
        for t, e in self.ways:
            i, u = data.tensors[t].producer, data.server[e]
            leave = [self._var("leave", t, e), self._var("start", i, factor=-1.0), *self._run(i, -1.0)]
            self._at_least(f"ready_{t}_{e}", 0.0, leave)
            for s in data.servers:
                if s == u:
                    continue
                for j in data.users(t):
                    big = data.big(t)
                    took = [self._var("leave", t, e, factor=-1.0), self._slow(t, s, u, -1.0)]
                    both = [*self._on(i, s, -big), self._at(j, e, -big)]
                    side = data.alpha_ms - 2 * big
                    self._at_least(f"arrive_{t}_{j}_{s}_{e}", side, [self._var("start", j), *took, *both])
                    away = [self._var("sent", t, s, e), *self._on(i, s, -1.0), self._at(j, e, -1.0)]
                    self._at_least(f"carry_{t}_{j}_{s}_{e}", -1.0, away)
                use = [self._var("used", s, u), self._var("sent", t, s, e, factor=-1.0)]
                self._at_least(f"use_{t}_{s}_{e}", 0.0, use)

    def _slow(self, t: int, s: int, u: int, factor: float) -> Term:
        return self._var("slow", s, u, factor=factor * self.data.tensors[t].volume)

    def rates(self) -> None:
        """Rows (10) and (11)."""
        data = self.data
        for s, u in data.pairs:
            for n, r in enumerate(data.points.get((s, u), ())):
                terms = [
                    self._var("rate", s, u),
                    self._var("used", s, u, factor=-2.0 / r),
                    self._var("slow", s, u, factor=1.0 / r**2),
                ]
                self._at_least(f"tangent_{s}_{u}_{n}", 0.0, terms)
        for name, end in (("out", 0), ("into", 1)):
            for s in data.servers:
                terms = [self._var("rate", *pair) for pair in data.pairs if pair[end] == s]
                if terms:
                    self.rows.row(f"{name}_{s}", -np.inf, float(data.capacity[s]), terms)

    def operator_orders(self) -> None:
        """Rows (12)."""
        data, upper = self.data, self.data.upper_ms
        for i, j in self.unordered:
            order = self.rows.at("before", i, j)
            for d in data.devices:
                both = [self._at(i, d, -upper), self._at(j, d, -upper)]
                apart = [self._var("start", j), self._var("start", i, factor=-1.0)]
                back = [(column, -value) for column, value in apart]
                name = f"{i}_{j}_{d}"
                first = [*apart, *self._run(i, -1.0), *both, (order, -upper)]
                self._at_least(f"first_{name}", -3 * upper, first)
                second = [*back, *self._run(j, -1.0), *both, (order, upper)]
                self._at_least(f"second_{name}", -2 * upper, second)

    def queue_orders(self) -> None:
        """Rows (13)."""
        for one, other in self.queues:
            u = self.data.server[one[1]]
            order = self.rows.at("ahead", *one, *other)
            for s in self.data.servers:
                if s != u:
                    name = "_".join(map(str, (*one, *other, s)))
                    self._behind(f"queue_{name}", one, other, s, order, forward=True)
                    self._behind(f"behind_{name}", other, one, s, order, forward=False)

    def _behind(self, name: str, first: Way, second: Way, s: int, order: int, *, forward: bool) -> None:
        data, big = self.data, self.data.big(first[0])
        apart = [self._var("leave", *second), self._var("leave", *first, factor=-1.0)]
        both = [self._var("sent", t, s, e, factor=-big) for t, e in (first, second)]
        took = self._slow(first[0], s, data.server[first[1]], -1.0)
        side = data.alpha_ms - (3 if forward else 2) * big
        self._at_least(name, side, [*apart, took, *both, (order, -big if forward else big)])

    def bounds(self) -> None:
        """Rows (14) and (15)."""
        data = self.data
        for d in data.devices:
            work = [self._at(i, d, -data.duration(i, d)) for i in range(len(data.group))]
            self._at_least(f"work_{d}", 0.0, [self._var("span"), *work])
        for name, end in (("egress", 0), ("ingress", 1)):
            for s in data.servers:
                terms = [
                    self._var("sent", t, a, e, factor=-data.tensors[t].volume)
                    for t, a, e in self._sendings()
                    if (a, data.server[e])[end] == s
                ]
                if terms:
                    span = self._var("span", factor=float(data.capacity[s]))
                    self._at_least(f"{name}_{s}", 0.0, [span, *terms])
