r"""Operators to stages of a pipeline so that the busiest device is least loaded (stage-order formulation).

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

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from formulations.placement.stage_graph import StageGraph, device_slots
from formulations.placement.transfer_costs import Net
from topoopt.core.arrays import Floats, Ints
from topoopt.core.placement import Communication, Schedule, StageShape, Throughput

PHASES = ("forward", "backward")


@dataclass(frozen=True, eq=False)
class StageOrder:
    """Data of the problem.

    Attributes:
        time: float64[2, blocks, groups], by phase; inf where a block cannot run.
        memory: float64[blocks].
        order: int64[edges, 2].
        nets: tensors between blocks.
        net_ms: float64[nets, groups], what a device of a group pays at least for one copy; the optimum is a lower bound
            where links differ.
        slot_of_stage: slot of each stage; None: free sets.
        group_of_slot: where it is known; None: chosen.
        group_count, group_memory, group_host: of each group; memory inf where there is no limit.
        gpipe, overlapped: variants.
        lower, upper: known bounds of the objective.
        whole: integers only.
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
        """Number of blocks."""
        return len(self.memory)

    @property
    def slots(self) -> int:
        """Number of slots."""
        return sum(self.group_count)

    @property
    def work(self) -> Floats:
        """float64[2, blocks, groups]: times, 0 where a block cannot run."""
        return np.where(np.isfinite(self.time), self.time, 0.0)

    def groups_at(self, slot: int) -> tuple[int, ...]:
        """Groups a slot may be of."""
        return tuple(range(len(self.group_count))) if self.group_of_slot is None else (self.group_of_slot[slot],)


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
    found: list[list[int]] = [[] for _ in data.group_count]
    for slot, group in enumerate(data.group_of_slot or ()):
        found[group].append(slot)
    return found


def data_of(graph: StageGraph, settings: Throughput, *, lower: float = 0.0, upper: float = np.inf) -> StageOrder:
    """Data of a problem; a block slower than the known upper bound on a class cannot be there."""
    k = graph.devices
    gpipe = settings.schedule is Schedule.GPIPE
    times = graph.time_ms.copy()
    if not gpipe:
        times[:, times.sum(axis=0) > upper] = np.inf
    known = settings.stages is not StageShape.CONTIGUOUS or len(graph.groups) == 1
    slots: tuple[int, ...] | None = tuple(range(k))
    if settings.stages is StageShape.INTERLEAVED:
        slots = tuple(j % k for j in range(k * settings.stages_per_device))
    elif settings.stages is StageShape.FREE:
        slots = None
    return StageOrder(
        time=times,
        memory=graph.memory_bytes.astype(np.float64),
        order=graph.order,
        nets=graph.nets,
        net_ms=graph.costs.least(graph.nets),
        slot_of_stage=slots,
        group_of_slot=device_slots(graph) if known else None,
        group_count=tuple(len(group.devices) for group in graph.groups),
        group_memory=tuple(
            np.inf if group.memory_bytes is None else float(group.memory_bytes) for group in graph.groups
        ),
        group_host=tuple(group.host for group in graph.groups),
        gpipe=gpipe,
        overlapped=settings.communication is Communication.OVERLAPPED,
        lower=lower,
        upper=upper,
    )
