"""The readable twin of `circuit_matching`, whose module has the algebra."""

from __future__ import annotations

from typing import Any

from formulations.regional_circuits.circuit_matching import CircuitMatching


def build_pyomo(data: CircuitMatching) -> Any:
    """The same as a Pyomo ConcreteModel, to be read."""
    import pyomo.environ as pyo

    model = pyo.ConcreteModel("circuit_matching")
    choices = [(*pair, k) for pair in data.pairs for k in (0, *data.counts(pair))]
    over = [(*one, k) for one in data.demand for k in data.counts((min(one), max(one)))]
    model.time = pyo.Var(bounds=(0.0, None))
    model.count = pyo.Var(choices, domain=pyo.Binary)
    model.carried = pyo.Var(over, bounds=(0.0, None))
    model.objective = pyo.Objective(expr=model.time)

    @model.Constraint(data.pairs)  # type: ignore[untyped-decorator]
    def one(m: Any, i: int, j: int) -> Any:
        return sum(m.count[i, j, k] for k in (0, *data.counts((i, j)))) == 1.0

    @model.Constraint([i for i in range(len(data.ports)) if any(i in choice[:2] and choice[2] for choice in choices)])  # type: ignore[untyped-decorator]
    def ports(m: Any, i: int) -> Any:
        return sum(choice[2] * m.count[choice] for choice in choices if i in choice[:2]) <= data.ports[i]

    @model.Constraint(over)  # type: ignore[untyped-decorator]
    def chosen(m: Any, i: int, j: int, k: int) -> Any:
        most = data.demand[i, j] * m.count[min(i, j), max(i, j), k]
        return m.carried[i, j, k] <= most if data.split else m.carried[i, j, k] == most

    @model.Constraint(over)  # type: ignore[untyped-decorator]
    def served(m: Any, i: int, j: int, k: int) -> Any:
        return m.carried[i, j, k] <= data.circuit * k * m.time

    def left(m: Any, side: int, server: int) -> Any:
        own = [one for one in data.demand if one[side] == server]
        total = sum(data.demand[one] for one in own)
        return total - sum(m.carried[each] for each in over if each[side] == server) <= data.electrical * m.time

    @model.Constraint(sorted({one[0] for one in data.demand}))  # type: ignore[untyped-decorator]
    def leaving(m: Any, i: int) -> Any:
        return left(m, 0, i)

    @model.Constraint(sorted({one[1] for one in data.demand}))  # type: ignore[untyped-decorator]
    def reaching(m: Any, i: int) -> Any:
        return left(m, 1, i)

    return model
