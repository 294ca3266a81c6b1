"""The readable twin of `dag_topology`, whose module has the algebra."""

from __future__ import annotations

from typing import Any

from formulations.dag_topology.dag_topology import DagTopologyProgram


def build_pyomo(data: DagTopologyProgram) -> Any:
    """The same as a Pyomo ConcreteModel, to be read."""
    import pyomo.environ as pyo

    model = pyo.ConcreteModel("dag_topology")
    transfers, intervals = range(len(data.volume)), range(1, data.intervals + 1)
    bits = [(*pair, bit) for pair in data.pairs for bit in data.bits(pair)]
    horizon = data.horizon
    model.time = pyo.Var(intervals, bounds=(0.0, None))
    model.moved = pyo.Var(transfers, intervals, bounds=(0.0, None))
    model.carries = pyo.Var(transfers, intervals, domain=pyo.Binary)
    model.ready = pyo.Var(transfers, bounds=lambda _, m: (data.release[m], None))
    model.finish = pyo.Var(transfers, bounds=(0.0, None))
    model.bit = pyo.Var(bits, domain=pyo.Binary)
    model.open = pyo.Var(bits, intervals, bounds=(0.0, None))
    model.makespan = pyo.Var(bounds=(data.compute, None))
    model.objective = pyo.Objective(expr=model.makespan)

    def time(k: int) -> Any:
        return model.time[k] if k > 0 else 0.0

    @model.Constraint(transfers)  # type: ignore[untyped-decorator]
    def whole(m: Any, t: int) -> Any:
        return sum(m.moved[t, k] for k in intervals) == data.volume[t]

    @model.Constraint(transfers, intervals)  # type: ignore[untyped-decorator]
    def only(m: Any, t: int, k: int) -> Any:
        return m.moved[t, k] <= data.volume[t] * m.carries[t, k]

    @model.Constraint(transfers, intervals)  # type: ignore[untyped-decorator]
    def begin(m: Any, t: int, k: int) -> Any:
        return m.ready[t] <= time(k - 1) + horizon * (1 - m.carries[t, k])

    @model.Constraint(transfers, intervals)  # type: ignore[untyped-decorator]
    def done(m: Any, t: int, k: int) -> Any:
        return m.time[k] <= m.finish[t] + horizon * (1 - m.carries[t, k])

    @model.Constraint(list(data.delay))  # type: ignore[untyped-decorator]
    def wait(m: Any, s: int, t: int) -> Any:
        return m.ready[t] >= m.finish[s] + data.delay[s, t]

    @model.Constraint(transfers)  # type: ignore[untyped-decorator]
    def last(m: Any, t: int) -> Any:
        return m.makespan >= m.finish[t] + data.tail[t]

    @model.Constraint(sorted(set(data.channels)), intervals)  # type: ignore[untyped-decorator]
    def carry(m: Any, a: int, b: int, k: int) -> Any:
        pair = (min(a, b), max(a, b))
        own = [t for t in transfers if data.channels[t] == (a, b)]
        lengths = sum(2.0**bit * m.open[(*pair, bit), k] for bit in data.bits(pair))
        return sum(m.moved[t, k] for t in own) <= data.rate * lengths

    @model.Constraint(bits, intervals)  # type: ignore[untyped-decorator]
    def within(m: Any, a: int, b: int, bit: int, k: int) -> Any:
        return m.open[a, b, bit, k] <= m.time[k] - time(k - 1)

    @model.Constraint(bits, intervals)  # type: ignore[untyped-decorator]
    def gate(m: Any, a: int, b: int, bit: int, k: int) -> Any:
        return m.open[a, b, bit, k] <= horizon * m.bit[a, b, bit]

    @model.Constraint([i for i in range(len(data.ports)) if any(i in p for p in data.pairs)])  # type: ignore[untyped-decorator]
    def ports(m: Any, i: int) -> Any:
        return sum(2.0 ** each[2] * m.bit[each] for each in bits if i in each[:2]) <= data.ports[i]

    @model.Constraint(intervals)  # type: ignore[untyped-decorator]
    def order(m: Any, k: int) -> Any:
        return m.time[k] - time(k - 1) >= 0.0

    return model
