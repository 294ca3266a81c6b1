"""Array builder of `formulations.placement.stage_order`, and solution vectors to and from placements."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Rows, Term
from formulations.placement.stage_graph import stage_graph
from formulations.placement.stage_order import (
    PHASES,
    StageOrder,
    data_of,
    first_slots,
    load_rows,
    members,
    most_load,
    most_memory,
)
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InputError, Problem
from topoopt.core.placement import PlacementProblem, Throughput


def build_arrays(data: StageOrder) -> LpArrays:
    """The named program."""
    rows = Rows()
    _columns(rows, data)
    if data.slot_of_stage is None:
        for b in range(data.blocks):
            rows.row(f"somewhere_{b}", 1.0, 1.0, [(rows.at("x", b, s), 1.0) for s in range(data.slots)])
    else:
        last = len(data.slot_of_stage) - 1
        for b in range(data.blocks):
            for j in range(last):
                terms = [(rows.at("y", b, j), 1.0), (rows.at("y", b, j + 1), -1.0)]
                rows.row(f"ladder_{b}_{j}", -np.inf, 0.0, terms)
        for u, v in data.order.tolist():
            for j in range(last):
                terms = [(rows.at("y", v, j), 1.0), (rows.at("y", u, j), -1.0)]
                rows.row(f"order_{u}_{v}_{j}", -np.inf, 0.0, terms)
    _crossings(rows, data)
    for s in range(data.slots):
        for q in data.groups_at(s):
            _loads(rows, data, s, q)
            _limits(rows, data, s, q)
    if data.group_of_slot is None:
        groups = range(len(data.group_count))
        for s in range(data.slots):
            rows.row(f"one_group_{s}", 1.0, 1.0, [(rows.at("g", s, q), 1.0) for q in groups])
        for q in groups:
            count = float(data.group_count[q])
            rows.row(f"devices_{q}", count, count, [(rows.at("g", s, q), 1.0) for s in range(data.slots)])
    return rows.program({(name,): 1.0 for name in (PHASES if data.gpipe else ("load",))})


def _columns(rows: Rows, data: StageOrder) -> None:
    if data.gpipe:
        for name in PHASES:
            rows.column(name, upper=data.upper, integer=data.whole)
    else:
        rows.column("load", lower=data.lower, upper=data.upper, integer=data.whole)
    if data.slot_of_stage is None:
        rank = {slot: i for slots in first_slots(data) for i, slot in enumerate(slots)}
        for b in range(data.blocks):
            for s in range(data.slots):
                rows.column("x", b, s, upper=float(rank[s] <= b), integer=True)
    else:
        stages = len(data.slot_of_stage)
        for b in range(data.blocks):
            for j in range(stages):
                rows.column("y", b, j, lower=float(j == stages - 1), upper=1.0, integer=True)
    for t in range(len(data.nets)):
        for s in range(data.slots):
            rows.column("h", t, s, upper=1.0, integer=data.whole)
    if data.group_of_slot is None:
        for s in range(data.slots):
            for q in range(len(data.group_count)):
                rows.column("g", s, q, upper=1.0, integer=True)


def _member(rows: Rows, data: StageOrder, block: int, slot: int, factor: float) -> list[Term]:
    return [(rows.at(*key), factor * value) for key, value in members(data, block, slot)]


def _crossings(rows: Rows, data: StageOrder) -> None:
    for t, net in enumerate(data.nets):
        for s in range(data.slots):
            source = _member(rows, data, net.source, s, 1.0)
            back = [(column, -value) for column, value in source]
            for v in net.targets:
                away = (rows.at("h", t, s), -1.0)
                rows.row(f"leave_{t}_{v}_{s}", -np.inf, 0.0, [*source, *_member(rows, data, v, s, -1.0), away])
                rows.row(f"enter_{t}_{v}_{s}", -np.inf, 0.0, [*_member(rows, data, v, s, 1.0), *back, away])


def _loads(rows: Rows, data: StageOrder, slot: int, group: int) -> None:
    for name, phases, compute, communication in load_rows(data):
        if communication and not compute and data.group_host[group]:
            continue
        big = most_load(data, group, phases)
        terms: list[Term] = [(rows.at(name), -1.0)]
        if compute:
            work = data.work[list(phases), :, group].sum(axis=0)
            for b in range(data.blocks):
                terms += _member(rows, data, b, slot, float(work[b]))
        if communication and not data.group_host[group]:
            own = [t for t, net in enumerate(data.nets) if net.phase in phases]
            terms += [(rows.at("h", t, slot), float(data.net_ms[t, group])) for t in own]
        kind = "" if not data.overlapped else "_compute" if compute else "_communication"
        if data.group_of_slot is None:
            terms.append((rows.at("g", slot, group), big))
            rows.row(f"{name}{kind}_{slot}_{group}", -np.inf, big, terms)
        else:
            rows.row(f"{name}{kind}_{slot}", -np.inf, 0.0, terms)


def _limits(rows: Rows, data: StageOrder, slot: int, group: int) -> None:
    chosen = data.group_of_slot is None
    where = f"{slot}_{group}" if chosen else f"{slot}"
    spare = most_memory(data, group)
    if spare > 0:
        terms = [term for b in range(data.blocks) for term in _member(rows, data, b, slot, float(data.memory[b]))]
        limit = data.group_memory[group]
        if chosen:
            terms.append((rows.at("g", slot, group), spare))
            limit += spare
        rows.row(f"memory_{where}", -np.inf, limit, terms)
    for b in np.flatnonzero(~np.isfinite(data.time[:, :, group]).all(axis=0)).tolist():
        terms = _member(rows, data, b, slot, 1.0)
        if chosen:
            terms.append((rows.at("g", slot, group), 1.0))
        rows.row(f"support_{b}_{where}", -np.inf, 1.0 if chosen else 0.0, terms)


def start_values(data: StageOrder, program: LpArrays, position: Ints, group_of_slot: Ints) -> Floats:
    """float64[columns]: the point of a known placement, for a warm start.

    Args:
        data, program: as built.
        position: int64[blocks], stage of each block; its slot for free sets.
        group_of_slot: int64[slots].
    """
    slot = position if data.slot_of_stage is None else np.array(data.slot_of_stage)[position]
    values = np.zeros(program.columns)
    crossed: dict[tuple[int, int], float] = {}
    for t, net in enumerate(data.nets):
        away = {int(slot[v]) for v in net.targets} - {int(slot[net.source])}
        for s in away | ({int(slot[net.source])} if away else set()):
            crossed[t, s] = 1.0
    for column, name in enumerate(program.column_names or ()):
        kind, *index = name.split("_")
        i, j = (int(part) for part in index) if len(index) == 2 else (0, 0)
        if kind == "y":
            values[column] = float(position[i] <= j)
        elif kind == "x":
            values[column] = float(position[i] == j)
        elif kind == "h":
            values[column] = crossed.get((i, j), 0.0)
        elif kind == "g":
            values[column] = float(group_of_slot[i] == j)
    matrix = program.matrix().tocsr()
    activity = matrix @ values
    for name in PHASES if data.gpipe else ("load",):
        column = (program.column_names or ()).index(name)
        rows = [i for i, row in enumerate(program.row_names or ()) if row.split("_")[0] == name]
        values[column] = max(float(activity[i] - program.row_upper[i]) for i in rows)
    return values


def positions_of(data: StageOrder, program: LpArrays, x: Floats) -> tuple[Ints, Ints]:
    """(int64[blocks], int64[slots]): stage (slot for free sets) of each block and group of each slot, of a solution."""
    width = data.slots if data.slot_of_stage is None else len(data.slot_of_stage)
    first = 2 if data.gpipe else 1
    table = x[first : first + data.blocks * width].reshape(data.blocks, width)
    position = np.argmax(table > 0.5, axis=1).astype(np.int64)
    if data.group_of_slot is not None:
        return position, np.array(data.group_of_slot, dtype=np.int64)
    chosen = x[program.columns - data.slots * len(data.group_count) :].reshape(data.slots, -1)
    return position, np.argmax(chosen, axis=1).astype(np.int64)


def from_placement(problem: PlacementProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of an instance with objective throughput; blocks are numbered as in `stage_graph`.

    Raises:
        InputError: objective latency, or transfers that cost differently between different devices.
    """
    del options
    if not isinstance(problem.objective, Throughput):
        text = "this formulation is of objective throughput"
        raise InputError([Problem(text, path="objective", value=problem.objective.name)])
    graph = stage_graph(problem)
    if not graph.costs.uniform:
        text = "this formulation has one cost for all transfers of a tensor"
        raise InputError([Problem(text, path="servers", allowed="servers of one device each and of equal links")])
    return build_arrays(data_of(graph, problem.objective))
