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

stage_graph
-----------
A throughput problem as blocks of operators that stay together, the form all solvers of it work on.

A block is a co-location class, or several of them that no acyclic order of stages can separate. Order edges say which
block may not be in a later stage than which other one; nets are the tensors between blocks.

Time of a transfer between two devices is a slope times its bytes, and something fixed. Devices are alike if exchanging
them changes nothing: same class, memory and pool, and either one server, or servers of one device each with links as
fast; where all transfers that somebody pays for cost the same, links tell no devices apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.programs import LpArrays, Rows, Term
from topoopt.core.arrays import Floats, Ints, bytes_per_ms
from topoopt.core.errors import InputError, Problem
from topoopt.core.placement import PlacementProblem, Throughput

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class Net:
    """A tensor (or several with the same ends) between blocks: bytes, number of tensors, pass it belongs to."""

    source: int
    targets: tuple[int, ...]
    size_bytes: int
    phase: int
    tensors: int = 1


@dataclass(frozen=True)
class DeviceGroup:
    """Devices that are alike: class, memory, and whether they are CPUs of the pool."""

    devices: tuple[int, ...]
    class_index: int
    memory_bytes: int | None
    host: bool


@dataclass(frozen=True, eq=False)
class TransferCosts:
    """Costs between devices of two groups, or between two devices of one group.

    Attributes:
        ms_per_byte, fixed_ms: float64[groups, groups], symmetric; inf where there are no two such devices.
        uniform: whether all transfers that somebody pays for cost the same.
    """

    ms_per_byte: Floats
    fixed_ms: Floats
    uniform: bool

    def between(self, net: Net) -> Floats:
        """float64[groups, groups]: ms of sending a net once."""
        sent = np.where(np.isfinite(self.ms_per_byte), self.ms_per_byte, 0.0) * net.size_bytes
        return np.asarray(sent + self.fixed_ms * net.tensors)

    def least(self, nets: Iterable[Net]) -> Floats:
        """float64[nets, groups]: ms that a device of a group pays at least for sending or receiving each net."""
        rows = [np.where(np.isfinite(cost := self.between(net)), cost, np.inf).min(axis=1) for net in nets]
        table = np.array(rows).reshape(len(rows), len(self.ms_per_byte))
        return np.where(np.isfinite(table), table, 0.0)

    def mean(self, nets: Iterable[Net]) -> Floats:
        """float64[nets, groups]: the same on average over the groups at the other end."""
        rows = [self.between(net) for net in nets]
        table = np.array(rows).reshape(len(rows), *self.ms_per_byte.shape)
        used = np.isfinite(table)
        return np.asarray(np.where(used, table, 0.0).sum(axis=2) / np.maximum(used.sum(axis=2), 1))


Position = tuple[bool, int | None, float]
"""Whether a device is a CPU of the pool; its server, or None and the rate of a server that it has for itself."""


def _places(problem: PlacementProblem) -> list[Position]:
    crowd, paying = [0] * len(problem.servers), [0] * len(problem.servers)
    for entry in problem.devices:
        crowd[entry.server] += 1
        paying[entry.server] += not entry.host
    costs: list[Position] = []
    for entry in problem.devices:
        share = problem.servers[entry.server].network_gbps / max(1, paying[entry.server])
        costs.append((entry.host, entry.server if crowd[entry.server] > 1 else None, share))
    return costs


def _costs(problem: PlacementProblem, places: list[Position], single: list[bool]) -> tuple[Floats, Floats]:
    """float64[places, places] ms per byte and fixed ms; inf for the two ends of a place of a single device."""
    host = np.array([cpu for cpu, _, _ in places])
    server = np.array([-1 if number is None else number for _, number, _ in places])
    share = np.array([gbps for _, _, gbps in places])
    limit = np.where(host, np.inf, share)  # CPUs of the pool set no limit, unless both ends are such
    across = np.minimum.outer(limit, limit)
    across = np.where(np.isfinite(across), across, np.minimum.outer(share, share))
    inside = np.array([0.0 if s < 0 else problem.servers[s].inside_gbps for s in server.tolist()])
    same = (server[:, None] == server[None, :]) & (server >= 0)
    with np.errstate(divide="ignore"):
        slope = 1.0 / (np.where(same, inside[:, None], across) * bytes_per_ms(1.0))
    fixed = np.where(same, problem.intra_latency_ms, problem.transfer_latency_ms)
    alone = np.flatnonzero(single)
    slope[alone, alone] = fixed[alone, alone] = np.inf
    return slope, fixed


def grouped_devices(problem: PlacementProblem) -> tuple[tuple[DeviceGroup, ...], TransferCosts]:
    """Devices that are alike, in order of their first member, and what transfers between the groups cost."""
    places = _places(problem)
    counts = Counter(places)
    kinds = list(counts)
    slope, fixed = _costs(problem, kinds, [count == 1 for count in counts.values()])
    host = np.array([cpu for cpu, _, _ in kinds])
    paid = np.isfinite(fixed) & ~(host[:, None] & host[None, :])
    pairs = {*zip(slope[paid].tolist(), fixed[paid].tolist(), strict=True)}
    uniform = len(pairs) <= 1
    groups_by_key: dict[tuple[object, ...], list[int]] = {}
    for index, entry in enumerate(problem.devices):
        key = (entry.class_index, entry.memory_bytes, entry.host, None if uniform else places[index])
        groups_by_key.setdefault(key, []).append(index)
    groups, own = [], []
    for members in groups_by_key.values():
        first = problem.devices[members[0]]
        groups.append(DeviceGroup(tuple(members), first.class_index, first.memory_bytes, first.host))
        own.append(kinds.index(places[members[0]]))
    if uniform:
        one_ms, one_fixed = pairs.pop() if pairs else (0.0, 0.0)
        size = (len(groups), len(groups))
        return tuple(groups), TransferCosts(np.full(size, one_ms), np.full(size, one_fixed), uniform)
    slope, fixed = slope[np.ix_(own, own)], fixed[np.ix_(own, own)]
    alone = [q for q, group in enumerate(groups) if len(group.devices) == 1]
    slope[alone, alone] = fixed[alone, alone] = np.inf
    return tuple(groups), TransferCosts(slope, fixed, uniform)


def merged_nets(nets: Iterable[Net], costs: TransferCosts) -> tuple[Net, ...]:
    """Nets without those within a block or without cost; where links are alike, equal ends and pass make one.

    Where they are not, a device pays for the slowest copy of each tensor, which may go different ways for two of them.
    """
    free = not (costs.fixed_ms[np.isfinite(costs.fixed_ms)] > 0).any()
    kept: list[Net] = []
    position: dict[tuple[int, tuple[int, ...], int], int] = {}
    for net in nets:
        targets = tuple(sorted({target for target in net.targets if target != net.source}))
        if not targets or (free and not net.size_bytes):
            continue
        key = (net.source, targets, net.phase)
        if costs.uniform and key in position:
            at = position[key]
            first = kept[at]
            kept[at] = Net(*key[:2], first.size_bytes + net.size_bytes, net.phase, first.tensors + net.tensors)
            continue
        position[key] = len(kept)
        kept.append(Net(net.source, targets, net.size_bytes, net.phase, net.tensors))
    return tuple(kept)


@dataclass(frozen=True, eq=False)
class StageGraph:
    """Blocks, their order and nets.

    Attributes:
        blocks: operators of each block.
        time_ms: float64[2, blocks, groups], forward and backward; inf where a block cannot run.
        memory_bytes: int64[blocks].
        order: int64[edges, 2], transitively reduced; empty where stages have no order.
        nets: between blocks.
        groups: of devices.
        costs: of transfers between devices of these groups.
    """

    blocks: tuple[tuple[int, ...], ...]
    time_ms: Floats
    memory_bytes: Ints
    order: Ints
    nets: tuple[Net, ...]
    groups: tuple[DeviceGroup, ...]
    costs: TransferCosts

    @property
    def size(self) -> int:
        return len(self.blocks)

    @property
    def devices(self) -> int:
        return sum(len(group.devices) for group in self.groups)


def device_slots(graph: StageGraph) -> tuple[int, ...]:
    """Group of each device, in file order."""
    group_of = {device: q for q, group in enumerate(graph.groups) for device in group.devices}
    return tuple(group_of[device] for device in range(graph.devices))


def order_pairs(problem: PlacementProblem, block_of: Ints) -> set[tuple[int, int]]:
    """Order edges between blocks: forward tensors, and backward ones reversed at blocks without forward operators."""
    backward = np.array([operator.backward for operator in problem.operators])
    has_forward = np.zeros(int(block_of.max()) + 1, dtype=bool)
    has_forward[block_of[~backward]] = True
    pairs = set()
    for tensor in problem.tensors:
        index = int(block_of[tensor.producer])
        for user in tensor.consumers:
            other = int(block_of[user])
            if index == other:
                continue
            if not backward[user]:
                pairs.add((index, other))
            elif backward[tensor.producer] and not (has_forward[index] and has_forward[other]):
                pairs.add((other, index))
    return pairs


def _numbering(groups: Iterable[tuple[int, ...]], n: int) -> Ints:
    block_of = np.empty(n, dtype=np.int64)
    for index, members in enumerate(groups):
        block_of[list(members)] = index
    return block_of


def stage_graph(problem: PlacementProblem) -> StageGraph:
    """Blocks of a problem: co-location classes (B2), and strongly connected sets of their order (B3)."""
    import networkx as nx

    settings = problem.objective
    assert isinstance(settings, Throughput)
    groups = problem.colocated()
    n = len(problem.operators)
    block_of = _numbering(groups, n)
    ordered = settings.stages != "free"
    if ordered:
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(range(len(groups)))
        # the orphans are those of the classes, before any are merged
        pairs = order_pairs(problem, block_of)
        graph.add_edges_from(sorted(pairs))
        parts = sorted(sorted(part) for part in nx.strongly_connected_components(graph))
        groups = tuple(tuple(sorted(i for c in part for i in groups[c])) for part in parts)
        part_of = _numbering([tuple(part) for part in parts], graph.number_of_nodes())
        block_of = part_of[block_of]
        edges = {(int(part_of[a]), int(part_of[b])) for a, b in pairs} - {(b, b) for b in range(len(groups))}
        order = reduced_order(edges, len(groups))
    else:
        order = np.empty((0, 2), dtype=np.int64)
    kinds, costs = grouped_devices(problem)
    times = np.zeros((2, len(groups), len(kinds)))
    memory = np.zeros(len(groups), dtype=np.int64)
    for index, operator in enumerate(problem.operators):
        for q, kind in enumerate(kinds):
            times[int(operator.backward), block_of[index], q] += operator.times_ms[kind.class_index]
        memory[block_of[index]] += operator.memory_bytes
    nets = [
        Net(
            int(block_of[tensor.producer]),
            tuple(block_of[list(tensor.consumers)].tolist()),
            tensor.size_bytes,
            int(problem.operators[tensor.producer].backward),
        )
        for tensor in problem.tensors
    ]
    return StageGraph(groups, times, memory, order, merged_nets(nets, costs), kinds, costs)


def reduced_order(edges: set[tuple[int, int]], n: int) -> Ints:
    """Transitive reduction of an acyclic relation, sorted; the relation itself if it is large."""
    import networkx as nx

    if n <= 2000:  # blocks; the transitive reduction of more takes longer than it saves
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(range(n))
        graph.add_edges_from(sorted(edges))
        edges = set(nx.transitive_reduction(graph).edges)
    return np.array(sorted(edges), dtype=np.int64).reshape(-1, 2)


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
