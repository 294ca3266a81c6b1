"""Array builder of `formulations.job.joint_plan`: the same rows and columns, by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.job.joint_plan import JointChoice, JointPlan
from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Rows, Term
from topoopt.core.arrays import Floats, Ints


def build_arrays(data: JointPlan) -> LpArrays:
    """The program; columns by family in the order of the module text, rows by number."""
    rows = Rows()
    for o, options in enumerate(data.options):
        for a in range(len(options)):
            rows.column("y", o, a, upper=1.0, integer=True)
    for e, (u, v) in enumerate(data.pairs):
        for a in range(len(data.options[u])):
            for c in range(len(data.options[v])):
                rows.column("p", e, a, c, upper=1.0)
    for i, j in data.bundles:
        for m in range(data.degree + 1):
            rows.column("links", i, j, m, upper=1.0, integer=True)
            rows.column("part", i, j, m)
    for g, orders in enumerate(data.rings):
        for r in range(len(orders)):
            rows.column("ring", g, r)
    for s in range(data.servers):
        for i, j in data.arcs:
            if j != s:
                rows.column("flow", s, i, j)
    for o in range(len(data.options)):
        rows.column("first", o)
        rows.column("turned", o)
    rows.column("C")
    rows.column("theta", upper=data.theta_most)
    _strategy(rows, data)
    _compute(rows, data)
    _links(rows, data)
    _traffic(rows, data)
    _connected(rows, data, "reach", 1.0)
    if not data.bidirectional:
        _connected(rows, data, "back", -1.0)
    return rows.program({("C",): 1.0, ("theta",): 1.0})


def _strategy(rows: Rows, data: JointPlan) -> None:
    for o, options in enumerate(data.options):
        rows.row(f"choose_{o}", 1, 1, [(rows.at("y", o, a), 1.0) for a in range(len(options))])
    for e, (u, v) in enumerate(data.pairs):
        first, second = range(len(data.options[u])), range(len(data.options[v]))
        for a in first:
            both = [(rows.at("p", e, a, c), 1.0) for c in second]
            rows.row(f"producer_{e}_{a}", 0, 0, [*both, (rows.at("y", u, a), -1.0)])
        for c in second:
            both = [(rows.at("p", e, a, c), 1.0) for a in first]
            rows.row(f"consumer_{e}_{c}", 0, 0, [*both, (rows.at("y", v, c), -1.0)])


def _weighed(rows: Rows, data: JointPlan, o: int, values: list[float], sign: float = 1.0) -> list[Term]:
    return [(rows.at("y", o, a), sign * value) for a, value in enumerate(values)]


def _compute(rows: Rows, data: JointPlan) -> None:
    compute = rows.at("C")
    for i in range(data.servers):
        used: list[Term] = []
        busy: list[Term] = [(compute, -1.0)]
        for o, options in enumerate(data.options):
            used += _weighed(rows, data, o, [float(option.memory[i]) for option in options])
            busy += _weighed(rows, data, o, [float(option.load[i]) for option in options])
        if data.memory_limited:
            rows.row(f"memory_{i}", -np.inf, 1, used)
        rows.row(f"load_{i}", -np.inf, 0, busy)
    forward = [[option.forward_ms for option in options] for options in data.options]
    backward = [[option.backward_ms for option in options] for options in data.options]
    for u, v in data.pairs:
        ends = [(rows.at("first", v), 1.0), (rows.at("first", u), -1.0)]
        rows.row(f"forward_{u}_{v}", 0, np.inf, [*ends, *_weighed(rows, data, u, forward[u], -1.0)])
        ends = [(rows.at("turned", u), 1.0), (rows.at("turned", v), -1.0)]
        rows.row(f"backward_{v}_{u}", 0, np.inf, [*ends, *_weighed(rows, data, v, backward[v], -1.0)])
    for o in range(len(data.options)):
        ends = [(rows.at("turned", o), 1.0), (rows.at("first", o), -1.0)]
        rows.row(f"turn_{o}", 0, np.inf, [*ends, *_weighed(rows, data, o, forward[o], -1.0)])
        ends = [(compute, 1.0), (rows.at("turned", o), -1.0)]
        rows.row(f"chain_{o}", 0, np.inf, [*ends, *_weighed(rows, data, o, backward[o], -1.0)])


def _count(rows: Rows, data: JointPlan, i: int, j: int, family: str, weight: float) -> list[Term]:
    """weight * sum_m m * family[bundle of i -> j, m]."""
    return [(rows.at(family, *data.bundle(i, j), m), weight * m) for m in range(1, data.degree + 1)]


def _links(rows: Rows, data: JointPlan) -> None:
    every = range(data.servers)
    for i, j in data.bundles:
        rows.row(f"bundle_{i}_{j}", 1, 1, [(rows.at("links", i, j, m), 1.0) for m in range(data.degree + 1)])
    for i in every:
        out = [term for j in every if j != i for term in _count(rows, data, i, j, "links", 1.0)]
        rows.row(f"out_degree_{i}", 0, data.degree, out)
        if not data.bidirectional:
            into = [term for j in every if j != i for term in _count(rows, data, j, i, "links", 1.0)]
            rows.row(f"in_degree_{i}", 0, data.degree, into)
    theta = rows.at("theta")
    most: list[Term] = [(theta, -float(data.degree))]
    for i in every:
        out = [term for j in every if j != i for term in _count(rows, data, i, j, "part", 1.0)]
        rows.row(f"cut_out_{i}", -np.inf, 0, [*out, *most])
        if not data.bidirectional:
            into = [term for j in every if j != i for term in _count(rows, data, j, i, "part", 1.0)]
            rows.row(f"cut_in_{i}", -np.inf, 0, [*into, *most])
    for i, j in data.bundles:
        parts = [(rows.at("part", i, j, m), 1.0) for m in range(data.degree + 1)]
        rows.row(f"split_{i}_{j}", 0, 0, [*parts, (theta, -1.0)])
        for m in range(data.degree + 1):
            terms = [(rows.at("part", i, j, m), 1.0), (rows.at("links", i, j, m), -data.theta_most)]
            rows.row(f"only_{i}_{j}_{m}", -np.inf, 0, terms)


def _traffic(rows: Rows, data: JointPlan) -> None:
    for g, orders in enumerate(data.rings):
        terms: list[Term] = [(rows.at("ring", g, r), 1.0) for r in range(len(orders))]
        for o, options in enumerate(data.options):
            terms += _weighed(rows, data, o, [option.reduced.get(g, 0.0) for option in options], -1.0)
        rows.row(f"reduce_{g}", 0, 0, terms)
    for s, v in data.arcs:
        terms = [(rows.at("flow", s, i, v), 1.0) for i in range(data.servers) if i != v]
        terms += [(rows.at("flow", s, v, j), -1.0) for j in range(data.servers) if j not in (v, s)]
        for e, table in enumerate(data.demand):
            terms += [(rows.at("p", e, a, c), -float(table[a, c, s, v])) for a, c in np.argwhere(table[:, :, s, v])]
        terms += [(rows.at("ring", g, r), -1.0) for g, r in data.hops(s, v)]
        rows.row(f"deliver_{s}_{v}", 0, 0, terms)
    for i, j in data.arcs:
        flows = [(rows.at("flow", s, i, j), 1.0) for s in range(data.servers) if s != j]
        rows.row(f"fit_{i}_{j}", -np.inf, 0, [*flows, *_count(rows, data, i, j, "part", -1.0)])


def _connected(rows: Rows, data: JointPlan, family: str, sign: float) -> None:
    most = data.servers - 1
    for i, j in data.arcs:
        rows.column(family, i, j)
        links = _count(rows, data, i, j, "links", -float(most))
        rows.row(f"{family}_fit_{i}_{j}", -np.inf, 0, [(rows.at(family, i, j), 1.0), *links])
    for v in range(1, data.servers):
        terms = [(rows.at(family, i, v), sign) for i in range(data.servers) if i != v]
        terms += [(rows.at(family, v, j), -sign) for j in range(data.servers) if j != v]
        rows.row(f"{family}_{v}", 1, 1, terms)


def chosen(data: JointPlan, program: LpArrays, x: Floats) -> JointChoice:
    """What a solution vector says."""
    assert program.column_names is not None
    at = {name: index for index, name in enumerate(program.column_names)}
    counts = np.zeros((data.servers, data.servers), dtype=np.int64)
    for i, j in data.arcs:
        a, b = data.bundle(i, j)
        counts[i, j] = max(range(data.degree + 1), key=lambda m: x[at[f"links_{a}_{b}_{m}"]])
    return JointChoice(
        options=tuple(
            max(range(len(options)), key=lambda a: x[at[f"y_{o}_{a}"]]) for o, options in enumerate(data.options)
        ),
        counts=counts,
        ring_ms=tuple(
            tuple(max(0.0, float(x[at[f"ring_{g}_{r}"]])) for r in range(len(orders)))
            for g, orders in enumerate(data.rings)
        ),
    )


def fixed(data: JointPlan, program: LpArrays, options: tuple[int, ...] | None, counts: Ints) -> LpArrays:
    """The program with given links, and given options where there are any."""
    assert program.column_names is not None
    at = {name: index for index, name in enumerate(program.column_names)}
    lower, upper = program.lower.copy(), program.upper.copy()
    for i, j in data.bundles:
        for m in range(data.degree + 1):
            lower[at[f"links_{i}_{j}_{m}"]] = upper[at[f"links_{i}_{j}_{m}"]] = float(counts[i, j] == m)
    for o, option in enumerate(options or ()):
        for a in range(len(data.options[o])):
            lower[at[f"y_{o}_{a}"]] = upper[at[f"y_{o}_{a}"]] = float(a == option)
    return replace(program, lower=lower, upper=upper)
