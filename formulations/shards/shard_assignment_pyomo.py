"""The program of `shard_assignment` as a Pyomo model, to be read and to be compared with; small instances only."""

from __future__ import annotations

from typing import Any

from formulations.shards.shard_assignment import ShardAssignment


def build_pyomo(data: ShardAssignment) -> Any:
    """Rows carry the numbers of the algebra in `formulations.shards.shard_assignment`."""
    import pyomo.environ as pyo

    jobs, layer = data.jobs, data.layer
    every, classes, planes = range(len(jobs)), range(layer.classes), range(len(layer.widths))
    size = {(k, q): int(n) for k in every for q, n in enumerate(jobs[k].parts.sizes)}
    lines = {(k, g): len(group.interfaces) for k in every for g, group in enumerate(jobs[k].parts.groups)}
    inside = {(k, g, e): atoms.tolist() for k in every for g, e, atoms in data.arcs_of(k)}
    room = {(p, s): int(free) for p in planes for s, free in enumerate(data.room(p))}

    model = pyo.ConcreteModel("shard assignment")
    model.place = pyo.Var(every, domain=pyo.Integers, bounds=(0, 1))
    model.ranks = pyo.Var(
        [(k, q, c) for k, q in size for c in classes],
        domain=pyo.Integers,
        bounds=lambda _, k, q, c: (0, min(size[k, q], int(data.free[c]))),
    )
    model.assign = pyo.Var(
        [(k, g, p) for k, g in lines for p in planes],
        domain=pyo.Integers,
        bounds=lambda _, k, g, p: (0, min(lines[k, g], layer.widths[p])),
    )
    model.open = pyo.Var([(k, g, p) for k, g in lines for p in planes], domain=pyo.Binary)
    model.at = pyo.Var(
        [(*component, *switch) for component in inside for switch in room],
        domain=pyo.Integers,
        bounds=lambda _, k, g, e, p, s: (0, int(room[p, s] >= sum(size[k, q] for q in inside[k, g, e]))),
    )

    @model.Constraint(list(size))  # type: ignore[untyped-decorator]
    def seat(block: Any, k: int, q: int) -> Any:  # (1)
        return sum(block.ranks[k, q, c] for c in classes) - size[k, q] * block.place[k] == 0

    @model.Constraint(classes)  # type: ignore[untyped-decorator]
    def fit(block: Any, c: int) -> Any:  # (2)
        return sum(block.ranks[k, q, c] for k, q in size) <= int(data.free[c])

    @model.Constraint(list(lines))  # type: ignore[untyped-decorator]
    def spread(block: Any, k: int, g: int) -> Any:  # (3)
        return sum(block.assign[k, g, p] for p in planes) - lines[k, g] * block.place[k] == 0

    @model.Constraint([(k, g, p) for k, g in lines for p in planes])  # type: ignore[untyped-decorator]
    def use(block: Any, k: int, g: int, p: int) -> Any:  # (4)
        return block.assign[k, g, p] - min(lines[k, g], layer.widths[p]) * block.open[k, g, p] <= 0

    @model.Constraint([(k, p) for k in every if jobs[k].parts.groups for p in planes])  # type: ignore[untyped-decorator]
    def planes_rows(block: Any, k: int, p: int) -> Any:  # (5)
        used = sum(block.assign[k, g, p] for g in range(len(jobs[k].parts.groups)))
        return used - layer.widths[p] * block.place[k] <= 0

    @model.Constraint([(*component, p) for component in inside for p in planes])  # type: ignore[untyped-decorator]
    def locate(block: Any, k: int, g: int, e: int, p: int) -> Any:  # (6)
        return sum(block.at[k, g, e, p, s] for s in range(layer.switches[p])) - block.open[k, g, p] == 0

    @model.Constraint([(*part, *switch, q) for part, atoms in inside.items() for switch in room for q in atoms])  # type: ignore[untyped-decorator]
    def gather(block: Any, k: int, g: int, e: int, p: int, s: int, q: int) -> Any:  # (7)
        under = sum(block.ranks[k, q, c] for c in classes if layer.switch[p, c] == s)
        return under - size[k, q] * block.at[k, g, e, p, s] >= 0

    @model.Constraint([k for k in every if jobs[k].twin is not None])  # type: ignore[untyped-decorator]
    def order(block: Any, k: int) -> Any:  # (8)
        return block.place[jobs[k].twin] - block.place[k] >= 0

    gain = sum(job.worth * model.place[k] for k, job in enumerate(jobs))
    model.most = pyo.Objective(expr=-gain, sense=pyo.minimize)
    return model
