"""Readable reference of `stage_order` in Pyomo; the array builder is held equal to it by tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo

from formulations.placement.stage_order import PHASES, StageOrder, first_slots, load_rows, most_load, most_memory


def build_pyomo(data: StageOrder) -> Any:
    """The program as a Pyomo ConcreteModel; names are those of the module text."""
    blocks, slots, groups = range(data.blocks), range(data.slots), range(len(data.group_count))
    stages = range(len(data.slot_of_stage or ()))
    chosen = data.group_of_slot is None
    model = pyo.ConcreteModel("stage_order")
    top = None if np.isinf(data.upper) else data.upper
    number = pyo.NonNegativeIntegers if data.whole else pyo.NonNegativeReals
    if data.gpipe:
        for name in PHASES:
            model.add_component(name, pyo.Var(domain=number, bounds=(0.0, top)))
        model.objective = pyo.Objective(expr=model.forward + model.backward)
    else:
        model.busiest = pyo.Var(domain=number, bounds=(data.lower, top))  # Pyomo has taken the name load
        model.objective = pyo.Objective(expr=model.busiest)
    model.h = pyo.Var(range(len(data.nets)), slots, domain=number, bounds=(0.0, 1.0))
    if chosen:
        model.g = pyo.Var(slots, groups, domain=pyo.Binary)
    _add_positions(model, data)

    def inside(b: int, s: int) -> Any:
        """X[b, s]."""
        if data.slot_of_stage is None:
            return model.x[b, s]
        own = [j for j in stages if data.slot_of_stage is not None and data.slot_of_stage[j] == s]
        return sum(model.y[b, j] - (model.y[b, j - 1] if j else 0.0) for j in own)

    crossings = [(t, v, s) for t, net in enumerate(data.nets) for v in net.targets for s in slots]

    @model.Constraint(crossings)  # type: ignore[untyped-decorator]
    def leave(m: Any, t: int, v: int, s: int) -> Any:
        return inside(data.nets[t].source, s) - inside(v, s) - m.h[t, s] <= 0.0

    @model.Constraint(crossings)  # type: ignore[untyped-decorator]
    def enter(m: Any, t: int, v: int, s: int) -> Any:
        return inside(v, s) - inside(data.nets[t].source, s) - m.h[t, s] <= 0.0

    places = [(s, q) for s in slots for q in groups if data.group_of_slot is None or data.group_of_slot[s] == q]

    def key(*index: int) -> Any:
        """Rows of slots whose group is known are numbered by slot alone."""
        kept = index if chosen else index[:-1]
        return kept if len(kept) > 1 else kept[0]

    for name, phases, compute, communication in load_rows(data):
        kind = "" if not data.overlapped else "_compute" if compute else "_communication"
        rows = pyo.Constraint(pyo.Any)
        model.add_component(f"{name}{kind}_rows", rows)
        for s, q in places:
            pays = communication and not data.group_host[q]
            if not compute and not pays:
                continue
            work = sum(float(data.work[phase, b, q]) * inside(b, s) for b in blocks for phase in phases if compute)
            paid = [t for t, net in enumerate(data.nets) if net.phase in phases and pays]
            sent = sum(float(data.net_ms[t, q]) * model.h[t, s] for t in paid)
            slack = most_load(data, q, phases) * (1.0 - model.g[s, q]) if chosen else 0.0
            rows[key(s, q)] = work + sent - getattr(model, "busiest" if name == "load" else name) - slack <= 0.0
    model.memory = pyo.Constraint(pyo.Any)
    model.support = pyo.Constraint(pyo.Any)
    for s, q in places:
        if (spare := most_memory(data, q)) > 0:
            held = sum(float(data.memory[b]) * inside(b, s) for b in blocks)
            room = data.group_memory[q] + (spare * (1.0 - model.g[s, q]) if chosen else 0.0)
            model.memory[key(s, q)] = held - room <= 0.0
        for b in np.flatnonzero(np.isinf(data.time[:, :, q]).any(axis=0)).tolist():
            model.support[key(b, s, q)] = inside(b, s) + (model.g[s, q] if chosen else 0.0) <= (1.0 if chosen else 0.0)
    if chosen:

        @model.Constraint(slots)  # type: ignore[untyped-decorator]
        def one_group(m: Any, s: int) -> Any:
            return sum(m.g[s, q] for q in groups) == 1.0

        @model.Constraint(groups)  # type: ignore[untyped-decorator]
        def devices(m: Any, q: int) -> Any:
            return sum(m.g[s, q] for s in slots) == float(data.group_count[q])

    return model


def _add_positions(model: Any, data: StageOrder) -> None:
    blocks, slots = range(data.blocks), range(data.slots)
    if data.slot_of_stage is None:
        rank = {slot: i for members in first_slots(data) for i, slot in enumerate(members)}
        model.x = pyo.Var(
            blocks, slots, domain=pyo.Integers, bounds=lambda _, b, s: (0.0, 1.0 if rank[s] <= b else 0.0)
        )

        @model.Constraint(blocks)  # type: ignore[untyped-decorator]
        def somewhere(m: Any, b: int) -> Any:
            return sum(m.x[b, s] for s in slots) == 1.0

        return
    last = len(data.slot_of_stage) - 1
    model.y = pyo.Var(
        blocks, range(last + 1), domain=pyo.Integers, bounds=lambda _, b, j: (1.0 if j == last else 0.0, 1.0)
    )

    @model.Constraint(blocks, range(last))  # type: ignore[untyped-decorator]
    def ladder(m: Any, b: int, j: int) -> Any:
        return m.y[b, j] - m.y[b, j + 1] <= 0.0

    @model.Constraint([(u, v, j) for u, v in data.order.tolist() for j in range(last)])  # type: ignore[untyped-decorator]
    def order(m: Any, u: int, v: int, j: int) -> Any:
        return m.y[v, j] - m.y[u, j] <= 0.0
