"""Operators to stages of a pipeline so that the busiest device is least loaded (stage-order formulation).

Decided: the stage of every block of operators. A partition whose devices can be ordered so that no tensor runs
backwards is one in which stages are numbered and `stage(u) <= stage(v)` on every order edge; numbering the stages
themselves takes the symmetry of equal devices out. A block is a co-location class, see `stage_graph`.
Communication is counted once for each tensor and device, on both sides, as in Tarnawski et al. (NeurIPS 2020), whose
integer program states convexity of each set instead (a relaxation: two convex sets may depend on each other).

Sets        BLOCKS b; STAGES j = 0..J-1; SLOTS s: devices, or the stages themselves; GROUPS q of like devices;
            ORDER (u, v); NETS t = (source, targets, phase); PHASES: forward, backward.
Parameters  p[b, q]: time of a block, ms (per phase where it matters);  w[t, q]: cost of sending or receiving a tensor
            once, at least, for a device of a group, ms;
            m[b], M[q]: memory, bytes;  count[q]: devices;  big[q], spare[q]: see `most_load`, `most_memory`.
Variables   y[b, j] in {0, 1}: block b is in stage j or before, y[b, J-1] = 1;  g[s, q] in {0, 1}: slot s is a device of
            group q;  0 <= h[t, s] <= 1: tensor t crosses the border of slot s;  load (or forward, backward): ms.
Short       X[b, s] = sum_{j in s} (y[b, j] - y[b, j-1]), over the stages of slot s: block b is in slot s.

    minimise    load (1F1B), forward + backward (GPipe)
    (1) ladder      y[b, j] - y[b, j+1] <= 0
    (2) order       y[v, j] - y[u, j] <= 0                                               (u, v) in ORDER
    (3) leave       X[source, s] - X[v, s] - h[t, s] <= 0                                v in targets
        enter       X[v, s] - X[source, s] - h[t, s] <= 0
    (4) load        sum_b p[b, q] X[b, s] + sum_t w[t, q] h[t, s] - load + big[q] g[s, q] <= big[q]
    (5) memory      sum_b m[b] X[b, s] + spare[q] g[s, q] <= M[q] + spare[q]
    (6) support     X[b, s] + g[s, q] <= 1                                               b cannot run in group q
    (7) one_group   sum_q g[s, q] = 1
        devices     sum_s g[s, q] = count[q]

Variants. Communication overlapped: (4) twice, without h and with h alone. GPipe: (4) for each phase. CPUs of the pool:
(4) without h. Interleaved stages: J = q k, slot s has the stages s, s + k, ...; the group of a slot is known, and then
g is not there and (4), (5) stand without it, (6) is X <= 0. Free sets: x[b, s] in {0, 1} in place of y, and in place of
(1), (2)

    (8) somewhere   sum_s x[b, s] = 1

where block number r may only use the first r + 1 slots of each group, for among like devices the
one with the i-th smallest least block can be called the i-th.

Size: B J + T S + S Q + 1 columns, (B + E) (J-1) + 2 S N rows, N the targets of all nets, and a
few for each of S Q pairs.
`whole` makes every column an integer, for solvers that know nothing else; times must then be whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from formulations.programs import LpArrays, Rows, Term
from formulations.stage_graph import Net, StageGraph, device_slots, stage_graph
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InputError, Problem
from topoopt.core.placement import PlacementProblem, Throughput

PHASES = ("forward", "backward")


@dataclass(frozen=True, eq=False)
class StageOrder:
    """Data of the problem.

    Attributes
    ----------
    time : float64[2, blocks, groups], by phase; inf where a block cannot run.
    memory : float64[blocks].
    order : int64[edges, 2].
    nets : tensors between blocks.
    net_ms : float64[nets, groups], what a device of a group pays at least for one copy; the optimum is a lower bound
        where links differ.
    slot_of_stage : slot of each stage; None: free sets.
    group_of_slot : where it is known; None: chosen.
    group_count, group_memory, group_host : of each group; memory inf where there is no limit.
    gpipe, overlapped : variants.
    lower, upper : known bounds of the objective.
    whole : integers only.
    """

    time: Floats
    memory: Floats
    order: Ints
    nets: tuple[Net, ...]
    net_ms: Floats
    slot_of_stage: tuple[int, ...] | None
    group_of_slot: tuple[int, ...] | None
    group_count: tuple[int, ...]
    group_memory: tuple[float, ...]
    group_host: tuple[bool, ...]
    gpipe: bool = False
    overlapped: bool = False
    lower: float = 0.0
    upper: float = np.inf
    whole: bool = False

    @property
    def blocks(self) -> int:
        return len(self.memory)

    @property
    def slots(self) -> int:
        return sum(self.group_count)

    @property
    def work(self) -> Floats:
        """float64[2, blocks, groups]: times, 0 where a block cannot run."""
        return np.where(np.isfinite(self.time), self.time, 0.0)


def rounded_down(data: StageOrder, unit_ms: float) -> StageOrder:
    """The same in whole units, all times rounded down: its optimum times the unit is a lower bound on the optimum."""
    return replace(
        data,
        time=np.floor(data.time / unit_ms),
        net_ms=np.floor(data.net_ms / unit_ms),
        lower=float(np.floor(data.lower / unit_ms)),
        upper=float(np.floor(data.upper / unit_ms)),
        whole=True,
    )


def most_load(data: StageOrder, group: int, phases: tuple[int, ...]) -> float:
    """big[q]: what row (4) of a group can sum to at most for a slot of another group, since load >= 0."""
    paid = [] if data.group_host[group] else [t for t, net in enumerate(data.nets) if net.phase in phases]
    return float(data.work[list(phases), :, group].sum() + data.net_ms[paid, group].sum())


def most_memory(data: StageOrder, group: int) -> float:
    """spare[q]: by how much a slot of another group can exceed the memory of this one."""
    limit = data.group_memory[group]
    return max(0.0, float(data.memory.sum()) - limit) if np.isfinite(limit) else 0.0


def members(data: StageOrder, block: int, slot: int) -> list[tuple[tuple[object, ...], float]]:
    """X[b, s] as keys of columns with coefficients."""
    if data.slot_of_stage is None:
        return [(("x", block, slot), 1.0)]
    terms: list[tuple[tuple[object, ...], float]] = []
    for stage, owner in enumerate(data.slot_of_stage):
        if owner == slot:
            terms.append((("y", block, stage), 1.0))
            if stage:
                terms.append((("y", block, stage - 1), -1.0))
    return terms


def load_rows(data: StageOrder) -> Iterator[tuple[str, tuple[int, ...], bool, bool]]:
    """Families of row (4): (variable, phases, with compute, with communication)."""
    parts = ((True, False), (False, True)) if data.overlapped else ((True, True),)
    for name, phases in (("forward", (0,)), ("backward", (1,))) if data.gpipe else (("load", (0, 1)),):
        for compute, communication in parts:
            yield name, phases, compute, communication


def first_slots(data: StageOrder) -> list[list[int]]:
    """Slots of each group, where groups are known."""
    slots: list[list[int]] = [[] for _ in data.group_count]
    for slot, group in enumerate(data.group_of_slot or ()):
        slots[group].append(slot)
    return slots


def data_of(graph: StageGraph, settings: Throughput, *, lower: float = 0.0, upper: float = np.inf) -> StageOrder:
    """Data of a problem; a block slower than the known upper bound on a class cannot be there."""
    k = graph.devices
    gpipe = settings.schedule == "gpipe"
    times = graph.time_ms.copy()
    if not gpipe:
        times[:, times.sum(axis=0) > upper] = np.inf
    fixed = settings.stages != "contiguous" or len(graph.groups) == 1
    slots: tuple[int, ...] | None = tuple(range(k))
    if settings.stages == "interleaved":
        slots = tuple(j % k for j in range(k * settings.stages_per_device))
    elif settings.stages == "free":
        slots = None
    return StageOrder(
        time=times,
        memory=graph.memory_bytes.astype(np.float64),
        order=graph.order,
        nets=graph.nets,
        net_ms=graph.costs.least(graph.nets),
        slot_of_stage=slots,
        group_of_slot=device_slots(graph) if fixed else None,
        group_count=tuple(len(group.devices) for group in graph.groups),
        group_memory=tuple(
            np.inf if group.memory_bytes is None else float(group.memory_bytes) for group in graph.groups
        ),
        group_host=tuple(group.host for group in graph.groups),
        gpipe=gpipe,
        overlapped=settings.communication == "overlapped",
        lower=lower,
        upper=upper,
    )


def build_arrays(data: StageOrder) -> LpArrays:
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
        for q in tuple(range(len(data.group_count))) if data.group_of_slot is None else (data.group_of_slot[s],):
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

    Parameters
    ----------
    data, program : as built.
    position : int64[blocks], stage of each block; its slot for free sets.
    group_of_slot : int64[slots].
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

    Raises
    ------
    InputError
        Objective latency, or transfers that cost differently between different devices.
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
