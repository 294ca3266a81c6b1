"""Servers of a shared cluster: who holds which when, their shards under optical switches, and the fabrics that join
them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, pairwise
from math import ceil
from typing import get_args

import numpy as np

from topoopt.core.arrays import Bools, Draws, Int32s, Ints
from topoopt.core.cluster import Cluster, OpticalLayer, Shard, ShardShape
from topoopt.core.price_book import PriceBook
from topoopt.core.proofs import Tolerance
from topoopt.core.shared_cluster import (
    ACROSS_GROUPS,
    PARTITIONED,
    Fabric,
    FabricRun,
    FabricSchedule,
    JobTable,
    QueueOrder,
    SharedCluster,
    Stays,
)
from topoopt.verify.checker import Violation, ViolationLog, as_float, as_int, float_array, int_array
from topoopt.verify.job.plan import BYTES_PER_MS_OF_ONE_GBPS
from topoopt.verify.job.simulation import US_PER_MS, GroupRing, SimulatedNetwork
from topoopt.verify.job.simulation import Path as SharedPath
from topoopt.verify.laws.networks import HASHED, RACK, SPREAD, RequestedFabric, equal_cost_gbps, hop_counts

SECONDS = Tolerance.EVENTS.relative
"""Difference of two times that is rounding, relative to the time simulated beyond a second."""

WORK_RELATIVE = Tolerance.ROUNDING.relative

AS_DECLARED = "auto"
"""Method that keeps the queue of the instance; all others are named after their queue."""

MOVING = "-defragment"
QUEUES: tuple[QueueOrder, ...] = get_args(QueueOrder)


def scheduled_by(problem: SharedCluster, method: str) -> SharedCluster:
    """Return the problem with queue and moves as the method of a result says.

    Raises:
        ValueError: there is no such way of scheduling.
    """
    if method == AS_DECLARED:
        return problem
    queue = next((order for order in QUEUES if order == method.removesuffix(MOVING)), None)
    if queue is None:
        raise ValueError(f"{method!r} is no way of scheduling")
    return replace(problem, scheduling=replace(problem.scheduling, queue=queue, defragment=method.endswith(MOVING)))


def server_group_numbers(problem: SharedCluster) -> Ints:
    """Return int64[n]: servers with the same switches in all planes have one number, in the order of these switches."""
    columns = [tuple(column) for column in problem.layer.switch_of.T.tolist()]
    number = {column: index for index, column in enumerate(sorted(set(columns)))}
    return np.array([number[column] for column in columns], dtype=np.int64)


# Tables.


def table_errors(problem: SharedCluster, count: int, schedule: FabricSchedule) -> Iterator[str]:
    """Tables of fitting length with indices in range, in order; `count` is the number of jobs."""
    job, start, end = int_array(schedule.job, 1), float_array(schedule.start_s, 1), float_array(schedule.end_s, 1)
    unfinished = int_array(schedule.unfinished, 1)
    if job is None or start is None or end is None or unfinished is None:
        yield "tables that are no numbers"
        return
    if {len(job), len(start), len(end)} != {len(schedule.servers)}:
        yield "tables of different length"
        return
    low, servers = schedule.lists
    if (job < 0).any() or (job >= count).any() or (servers >= problem.servers).any():
        yield "a job or a server that does not exist"
        return
    if not (np.isfinite(start).all() and np.isfinite(end).all()):
        yield "times that are not finite"
    if (np.lexsort((job, start)) != np.arange(len(job))).any():
        yield "stays that are not sorted by start and job"
    inside = np.ones(max(len(servers) - 1, 0), dtype=bool)
    inside[low[1:-1] - 1] = False
    if (np.diff(servers)[inside] <= 0).any():
        yield "servers of a stay that do not ascend"
    if len(set(unfinished.tolist())) < len(unfinished) or not set(unfinished.tolist()) <= set(job.tolist()):
        yield "unfinished jobs that have not started, or stand there twice"
    elif (np.diff(unfinished) <= 0).any():
        yield "unfinished jobs that do not ascend"
    if (schedule.cut_s is None) != (len(unfinished) == 0):
        yield "the moment at which the simulation was cut short goes with jobs that were at work then"
    elif schedule.cut_s is not None and not max(start.max(initial=0.0), end.max(initial=0.0)) <= schedule.cut_s:
        yield f"times after {schedule.cut_s!r} s, when the simulation was cut short"


def arrived(jobs: JobTable, schedule: FabricSchedule) -> JobTable:
    """Return the jobs, arrivals that differ from starts by rounding taken as these: they are sums, drawn again."""
    first = np.full(len(jobs), np.inf)
    np.minimum.at(first, schedule.job, schedule.start_s)
    at_once = np.abs(first - jobs.arrival_s) <= Tolerance.ROUNDING.relative * jobs.arrival_s
    return replace(jobs, arrival_s=np.where(at_once, first, jobs.arrival_s))


def complete_stays(problem: SharedCluster, fabric: Fabric, jobs: JobTable, schedule: FabricSchedule) -> Stays:
    """Return all times of a sound table: work begins when the circuits are set, and servers are kept for a move."""
    switching = problem.layer.switching_time_s if fabric.kind == PARTITIONED else 0.0
    checkpoint = problem.scheduling.checkpoint_s
    low, servers = schedule.lists
    held_to, work_from = schedule.end_s.copy(), schedule.start_s.copy()
    taken = np.full(problem.servers, -np.inf)
    latest: dict[int, int] = {}
    for stay, (job, begin) in enumerate(zip(schedule.job.tolist(), schedule.start_s.tolist(), strict=True)):
        ready = float(jobs.arrival_s[job])
        if job in latest:
            ready = float(schedule.end_s[latest[job]])
            held_to[latest[job]] = ready + checkpoint
        latest[job] = stay
        own, dark = servers[low[stay] : low[stay + 1]], switching
        if problem.look_ahead and switching:
            dark = max(0.0, switching - max(0.0, begin - max(ready, float(taken[own].max()))))
        taken[own] = begin
        work_from[stay] = begin + dark
    if schedule.cut_s is not None:
        for job in schedule.unfinished.tolist():
            held_to[latest[job]] = schedule.cut_s
        held_to, work_from = np.minimum(held_to, schedule.cut_s), np.minimum(work_from, schedule.cut_s)
    return Stays(schedule.job, schedule.start_s, work_from, schedule.end_s, held_to, low, servers)


# Constraints of a run.


@dataclass(frozen=True, eq=False)
class CheckedRun:
    """The jobs on one fabric, as the checker completes them.

    Attributes:
        problem: queue and moves are those of the method, the fabrics have rates, the classes times.
        jobs: that arrive.
        run: with all times.
        cut_s: when the simulation was cut short; None: it was not.
        index: of the fabric.
        log: for what is left out.
        seed: of the run.
    """

    problem: SharedCluster
    jobs: JobTable
    run: FabricRun
    cut_s: float | None
    index: int
    log: ViolationLog
    seed: int

    @property
    def partitioned(self) -> bool:
        """Whether every job has a shard of its own."""
        return self.run.fabric.kind == PARTITIONED

    @property
    def moves(self) -> bool:
        allowed = self.partitioned and self.run.fabric.placement not in ACROSS_GROUPS
        return self.problem.scheduling.defragment and allowed

    @property
    def slack_s(self) -> float:
        """By how much two times may differ by rounding, s."""
        return SECONDS * max(1.0, self.run.until_s)

    @property
    def group(self) -> Ints:
        """int64[n], groups of servers as far as shards are concerned."""
        if self.partitioned:
            return server_group_numbers(self.problem)
        return np.zeros(self.problem.servers, dtype=np.int64)

    def name(self, stay: int) -> str:
        """Fabric and job of a stay."""
        return f"{self.run.fabric.name}: {self.jobs.names[self.run.stays.job[stay]]}"


def sizes(checked: CheckedRun) -> Iterator[str]:
    """As many servers as the job asks for."""
    stays = checked.run.stays
    count = np.diff(stays.low)
    needed = np.array([row.servers for row in checked.problem.classes])[checked.jobs.class_index][stays.job]
    for stay in np.flatnonzero(count != needed).tolist():
        yield f"{checked.name(stay)} has {count[stay]} servers, not {needed[stay]}"


def times_in_order(checked: CheckedRun) -> Iterator[str]:
    """A job arrives, gets its servers, works on them and gives them up."""
    stays = checked.run.stays
    ordered = (checked.jobs.arrival_s[stays.job] <= stays.held_from_s) & (stays.held_from_s <= stays.work_from_s)
    ordered &= (stays.work_from_s <= stays.work_to_s) & (stays.work_to_s <= stays.held_to_s)
    for stay in np.flatnonzero(~ordered).tolist():
        yield f"{checked.name(stay)} has times out of order"


def first_come(checked: CheckedRun) -> Iterator[str]:
    """Where only the first may start, nobody starts before an earlier job."""
    run, jobs, scheduling = checked.run, checked.jobs, checked.problem.scheduling
    if scheduling.queue != "fifo":
        return
    first = np.full(len(jobs), np.inf)
    np.minimum.at(first, run.stays.job, run.stays.held_from_s)
    # A job for which others are moved gets its servers that much after its turn.
    slack = scheduling.checkpoint_s if checked.moves else 0.0
    slack += checked.slack_s if slack else 0.0
    late = np.flatnonzero(first[1:] < np.maximum.accumulate(first)[:-1] - slack) + 1
    for job in late[np.isfinite(first[late])].tolist():
        yield f"{run.fabric.name}: {jobs.names[job]} starts before an earlier job"


def no_server_twice(checked: CheckedRun) -> Iterator[str]:
    """No server is in two stays at once."""
    run, stays = checked.run, checked.run.stays
    owner = np.repeat(np.arange(len(stays)), np.diff(stays.low))
    order = np.lexsort((stays.held_to_s[owner], stays.held_from_s[owner], stays.servers))
    server, stay = stays.servers[order], owner[order]
    until = stays.held_to_s[stay]
    clash = (server[1:] == server[:-1]) & (stays.held_from_s[stay[1:]] < until[:-1])
    clash &= stays.held_to_s[stay[1:]] > stays.held_from_s[stay[1:]]
    for at in np.flatnonzero(clash).tolist():
        yield (
            f"{checked.name(int(stay[at + 1]))} and {checked.jobs.names[stays.job[stay[at]]]} both hold server "
            f"{server[at]} at {run.stays.held_from_s[stay[at + 1]]:.6g} s"
        )


def whole_shards(checked: CheckedRun) -> Iterator[str]:
    """Servers of a stay share a switch in as many planes as the job has interfaces, so that any shape can be set."""
    if not checked.partitioned:
        return
    problem, stays = checked.problem, checked.run.stays
    owner = np.repeat(np.arange(len(stays)), np.diff(stays.low))
    planes = np.zeros(len(stays), dtype=np.int64)
    for switch in problem.layer.switch_of:
        separate = switch[stays.servers] != switch[stays.servers[stays.low[:-1]]][owner]
        planes += np.bincount(owner, separate, minlength=len(stays)) == 0
    used = [problem.cluster.degree if row.interfaces is None else row.interfaces for row in problem.classes]
    needed = np.array(used)[checked.jobs.class_index[stays.job]]
    for stay in np.flatnonzero(planes < needed).tolist():
        text = f"uses {needed[stay]} interfaces, its servers share a switch in {planes[stay]} planes"
        yield f"{checked.name(stay)} {text}"


def ends(checked: CheckedRun) -> Iterator[str]:
    """Jobs that have not ended hold servers until the simulation does."""
    run, stays, cut_s = checked.run, checked.run.stays, checked.cut_s
    if cut_s is None:
        return
    last = {int(job): stay for stay, job in enumerate(stays.job)}  # by start: the last one of each job
    checkpoint = checked.problem.scheduling.checkpoint_s
    for job in np.flatnonzero(~run.finished).tolist():
        stay = last.get(job)
        if stay is None or stays.work_to_s[stay] == cut_s:
            continue
        if not (checked.moves and stays.work_to_s[stay] + checkpoint > cut_s):  # on the move
            yield f"{checked.name(stay)} stops work before it ends, at {stays.work_to_s[stay]!r} s"


def moves_take_their_time(checked: CheckedRun) -> Iterator[str]:
    """A job that is moved saves its state on its old servers, and has the new ones at once then."""
    stays, checkpoint = checked.run.stays, checked.problem.scheduling.checkpoint_s
    latest: dict[int, int] = {}
    for stay, job in enumerate(stays.job.tolist()):
        if job in latest:
            if not checked.moves:
                yield f"{checked.name(stay)} was moved, which was not allowed"
            begin, past = float(stays.held_from_s[stay]), float(stays.work_to_s[latest[job]])
            if abs(begin - past - checkpoint) > checked.slack_s:
                yield f"{checked.name(stay)} is moved in other than {checkpoint:g} s"
        latest[job] = stay


def work_on_shards(checked: CheckedRun) -> Iterator[str]:
    """On a shard of its own every job does the work of its iterations."""
    if not checked.partitioned:
        return
    jobs, run, stays = checked.jobs, checked.run, checked.run.stays
    worked = np.bincount(stays.job, stays.work_to_s - stays.work_from_s, minlength=len(jobs))
    needed = jobs.iterations * jobs.iteration_ms * 1e-3
    slack = checked.slack_s
    wrong = run.finished & (np.abs(worked - needed) > slack + WORK_RELATIVE * needed)
    wrong |= ~run.finished & (worked > needed + slack)
    for job in np.flatnonzero(wrong).tolist():
        text = f"works {worked[job]:.9g} s, its iterations take {needed[job]:.9g} s"
        yield f"{run.fabric.name}: {jobs.names[job]} {text}"


def decisions(checked: CheckedRun) -> Iterator[str]:
    """Starts and servers are those that queue and placement say, as far as these leave nothing open."""
    run, scheduling, log = checked.run, checked.problem.scheduling, checked.log
    name, fabric = run.fabric.name, run.fabric
    if checked.moves or fabric.placement in ACROSS_GROUPS:
        why = "running jobs are moved" if checked.moves else f"placement {fabric.placement} searches for shards"
        log.leave_out(f"which job starts when on {name}", f"{why}; that stays are legal is checked")
        return
    if scheduling.queue == "reserve":
        why = "they rest on expected ends; that the first one never waits in vain is checked"
        log.leave_out(f"which jobs are let past the first on {name}", why)
    if fabric.placement == "random":
        log.leave_out(f"which servers jobs get on {name}", "they are drawn as jobs start; any free ones are right")
    looked_at = scheduling.depth + 1 if scheduling.queue == "backfill" else 1
    fixed = scheduling.queue != "reserve" and fabric.placement != "random"
    yield from _sweep(checked, looked_at, fixed)


def _sweep(checked: CheckedRun, looked_at: int, fixed: bool) -> Iterator[str]:
    """Every moment at which jobs arrive or end: starts, in order of arrival, then whom nobody may leave waiting."""
    jobs, run, stays, group = checked.jobs, checked.run, checked.run.stays, checked.group
    size = np.array([row.servers for row in checked.problem.classes], dtype=np.int64)[jobs.class_index]
    starting, ending = defaultdict(list), defaultdict(list)
    for stay in range(len(stays)):
        starting[float(stays.held_from_s[stay])].append(stay)
        ending[float(stays.held_to_s[stay])].append(stay)
    arrivals = jobs.arrival_s[jobs.arrival_s <= run.until_s]
    free = np.ones(checked.problem.servers, dtype=bool)
    waiting: list[int] = []
    arrived = 0
    cut = set() if run.whole else {run.until_s}
    for moment in sorted({*starting, *(end for end in ending if end not in cut), *arrivals.tolist()}):
        for stay in ending.get(moment, []):
            if moment not in cut:
                free[stays.servers_of(stay)] = True
        while arrived < len(arrivals) and arrivals[arrived] <= moment:
            waiting.append(arrived)
            arrived += 1
        for stay in sorted(starting.get(moment, []), key=lambda stay: int(stays.job[stay])):
            job, own = int(stays.job[stay]), stays.servers_of(stay)
            expected = _servers(run.fabric, free, group, int(size[job])) if fixed else own
            if expected is None or not np.array_equal(own, expected):
                yield f"{run.fabric.name}: {jobs.names[job]} gets other servers than its turn says"
            free[own] = False
            if job in waiting:
                waiting.remove(job)
        largest = _largest(run.fabric, free, group)
        for job in waiting[:looked_at]:
            if size[job] <= largest and moment not in cut:
                yield f"{run.fabric.name}: {jobs.names[job]} waits at {moment:.9g} s though it fits"


def _largest(fabric: Fabric, free: Bools, group: Ints) -> int:
    if fabric.kind != PARTITIONED:
        return int(free.sum())
    return int(np.bincount(group[free], minlength=1).max())


def _servers(fabric: Fabric, free: Bools, group: Ints, count: int) -> Ints | None:
    if fabric.kind != PARTITIONED:
        return np.flatnonzero(free)[:count]
    remaining = np.bincount(group[free], minlength=int(group.max()) + 1)
    fitting = [
        (remaining[k] if fabric.placement == "best-fit" else 0, k) for k in np.flatnonzero(remaining >= count).tolist()
    ]
    return np.flatnonzero(free & (group == min(fitting)[1]))[:count] if fitting else None


Fibre = tuple[int, int]
"""Plane and server of an interface."""


PlacedJob = tuple[str, ShardShape, Shard]
"""Name of a job, the shape it asked for, and the shard it was given."""

Circuits = dict[Fibre, tuple[str, int]]
"""Job that uses a transmit (or receive) fibre, and the server at the other end."""


def layer_violations(layer: OpticalLayer) -> tuple[Violation, ...]:
    """Switches with more interfaces than ports, and tables that are none."""
    findings = ViolationLog()
    table = int_array(layer.switch_of, 2)
    ports = as_int(layer.switch_ports)
    if table is None or not table.size:
        findings.add("layer", "the table of switches has no rows of whole numbers")
    elif table.min() < 0:
        findings.add("layer", "a switch has a number below 0")
    else:
        patched = Counter((plane, switch) for plane, row in enumerate(table.tolist()) for switch in row)
        for (plane, switch), count in sorted(patched.items()):
            if ports is None or count > ports:
                findings.add(
                    "ports", f"switch {switch} of plane {plane}: {count} interfaces, {layer.switch_ports} ports"
                )
    if not 0.0 <= as_float(layer.switching_time_s) < float("inf"):
        findings.add("layer", f"switching time of {layer.switching_time_s} s")
    return findings.violations()


def shard_violations(layer: OpticalLayer, jobs: Iterable[PlacedJob]) -> tuple[Violation, ...]:
    """All laws that shards standing at one time break; empty when the switches can set all circuits at once.

    The laws: a server belongs to one job; every rank has a server; interfaces of a job have distinct planes; a circuit
    stays within one switch; an interface sends to one and receives from one at most; on switches that join ports in
    pairs, both directions are the same circuit; no switch has more interfaces than ports.
    """
    findings = ViolationLog()
    for violation in layer_violations(layer):
        findings.add(violation.code, violation.message)
    if not findings.clean:
        return findings.violations()
    table, owner = layer.switch_of.tolist(), dict[int, str]()
    circuits: tuple[Circuits, Circuits] = ({}, {})
    for job in jobs:
        findings.guard("job", f"job {job[0]}", partial(_lay, findings, table, owner, circuits, job))
    if layer.paired:
        for (plane, server), (name, there) in sorted(circuits[0].items()):
            back = circuits[0].get((plane, there))
            if back is None or back[1] != server:
                findings.add("pair", f"job {name}: plane {plane}, circuit {server} to {there} has no way back")
    return findings.violations()


def _lay(
    findings: ViolationLog,
    table: list[list[int]],
    owner: dict[int, str],
    circuits: tuple[Circuits, Circuits],
    job: PlacedJob,
) -> None:
    """Check a job by itself and set its circuits beside those of earlier jobs."""
    name, shape, shard = job
    arcs = int_array(shape.arcs, 2)
    if arcs is None or not arcs.shape[1]:
        findings.add("shape", f"job {name}: the arcs are no table of whole numbers with a rank at least")
        return
    planes, n = len(table), len(table[0])
    servers, chosen = [as_int(s) for s in shard.servers], [as_int(p) for p in shard.planes]
    if len(servers) != arcs.shape[1]:
        findings.add("ranks", f"job {name}: {len(servers)} servers for {arcs.shape[1]} ranks")
    if len(chosen) != arcs.shape[0]:
        findings.add("planes", f"job {name}: {len(chosen)} planes for {arcs.shape[0]} interfaces")
    wrong_servers = [s for s in servers if s is None or not 0 <= s < n]
    wrong_planes = [p for p in chosen if p is None or not 0 <= p < planes]
    for server in wrong_servers:
        findings.add("servers", f"job {name}: there is no server {server}")
    for plane in wrong_planes:
        findings.add("planes", f"job {name}: there is no plane {plane}")
    for plane, count in Counter(chosen).items():
        if count > 1:
            findings.add("planes", f"job {name}: plane {plane} is given to {count} interfaces")
    for server in servers:
        if server is None:
            continue
        if server in owner:
            findings.add("servers", f"server {server} belongs to job {owner[server]} and to job {name}")
        owner.setdefault(server, name)
    if len(servers) != arcs.shape[1] or len(chosen) != arcs.shape[0] or wrong_servers or wrong_planes:
        return
    at = [s for s in servers if s is not None]
    for plane, row in zip((p for p in chosen if p is not None), arcs.tolist(), strict=True):
        for rank, target in enumerate(row):
            if target == -1:
                continue
            if not 0 <= target < len(at):
                findings.add("shape", f"job {name}: rank {rank} sends to rank {target}, which is none")
                continue
            _set_circuit(findings, table, circuits, name, plane, at[rank], at[target])


def _set_circuit(
    findings: ViolationLog,
    table: list[list[int]],
    circuits: tuple[Circuits, Circuits],
    name: str,
    plane: int,
    tail: int,
    head: int,
) -> None:
    if tail == head:
        findings.add("circuit", f"job {name}: plane {plane}, server {tail} sends to itself")
    here, there = table[plane][tail], table[plane][head]
    if here != there:
        findings.add(
            "switch", f"job {name}: plane {plane}, server {tail} is at switch {here} and server {head} at {there}"
        )
    for fibres, end, other, word in (
        (circuits[0], tail, head, "sends to"),
        (circuits[1], head, tail, "receives from"),
    ):
        before = fibres.get((plane, end))
        if before is not None:
            findings.add(
                "interface",
                f"plane {plane}, server {end} {word} {before[1]} (job {before[0]}) and {other} (job {name})",
            )
        fibres.setdefault((plane, end), (name, other))


MOST_SETS = 5000
"""Sets of planes compared; with more of them the servers count as one piece."""


def placing_bound(layer: OpticalLayer, free: Bools, shapes: Sequence[ShardShape], weights: Sequence[float]) -> float:
    """No shards side by side on free servers are worth more.

    Args:
        layer: the switches.
        free: bool[n].
        shapes: of the jobs.
        weights: of placing each.
    """
    whole = min((_joining_all(shape.arcs) for shape in shapes), default=0)
    pieces = _pieces(layer.switch_of, whole)
    rooms = np.bincount(pieces[free], minlength=1).tolist()
    jobs = [(shape.servers, gain) for shape, gain in zip(shapes, weights, strict=True)]
    values = {capacity: _most(jobs, capacity) for capacity in set(rooms)}
    return float(sum(values[capacity] for capacity in rooms))


def _joining_all(arcs: Int32s) -> int:
    count, n = 0, arcs.shape[1]
    for row in arcs:
        linked = np.zeros((n, n), dtype=np.bool_)
        ranks = np.flatnonzero(row >= 0)
        linked[ranks, row[ranks]] = linked[row[ranks], ranks] = True
        count += n > 1 and bool((hop_counts(linked)[0] >= 0).all())
    return count


def _pieces(switch_of: Int32s, whole: int) -> Ints:
    """int64[n]: pieces that any `whole` planes cut the servers into; all 0 if they cut them differently."""
    single = np.zeros(switch_of.shape[1], dtype=np.int64)
    first: Ints | None = None
    for number, planes in enumerate(combinations(range(len(switch_of)), whole) if whole else ()):
        names: dict[tuple[int, ...], int] = {}
        columns = map(tuple, switch_of[list(planes)].T.tolist())
        piece = np.array([names.setdefault(column, len(names)) for column in columns], dtype=np.int64)
        if number >= MOST_SETS or (first is not None and (piece != first).any()):
            return single
        first = piece
    return single if first is None else first


def _most(jobs: Sequence[tuple[int, float]], capacity: int) -> float:
    best = {0: 0.0}
    for servers, gain in jobs:
        for taken, value in list(best.items()):
            more = taken + servers
            if more <= capacity and best.get(more, -1.0) < value + gain:
                best[more] = value + gain
    return max(best.values())


Pair = tuple[int, int]
Group = tuple[int, ...]

IDEAL_ROUND_HOPS, TREE_ROUND_HOPS = 4.9, 16.0


def nic_gbps(requested: RequestedFabric, cluster: Cluster, book: PriceBook | None) -> float | None:
    """Rate of the NIC of a server; None: it takes prices that are not at hand."""
    if requested.kind == "fat-tree" and requested.nic_gbps is None:
        return None if book is None else equal_cost_gbps(cluster, requested.ratio, book)
    fixed = requested.kind in ("full-fat-tree", "oversubscribed-fat-tree") or requested.nic_gbps is None
    return cluster.degree * cluster.link_gbps if fixed else requested.nic_gbps


def ideal_switch(cluster: Cluster, gbps: float, pairs: Iterable[Pair], groups: Iterable[Group]) -> SimulatedNetwork:
    """Link i goes up from server i, link n + i down to it."""
    n = cluster.servers

    def route(source: int, target: int) -> list[tuple[int, ...]]:
        return [(source, n + target)]

    rate = [gbps * BYTES_PER_MS_OF_ONE_GBPS] * (2 * n)
    return _network(cluster, rate, IDEAL_ROUND_HOPS, route, pairs, groups)


def fat_tree(
    requested: RequestedFabric, cluster: Cluster, gbps: float, seed: int, pairs: Iterable[Pair], groups: Iterable[Group]
) -> SimulatedNetwork:
    """Servers fill the racks in order; rack switches have k/2 servers, pods k/2 racks.

    An oversubscribed layer has ceil(k / (2 r)) links up from each switch, slowed down to the ratio r; the plain one
    has all k/2, their rate divided by r.
    """
    n = cluster.servers
    k = requested.radix or 2
    while k**3 < 4 * n:
        k += 2
    half = k // 2
    up = {RACK: (half, 1.0), "aggregation": (half, 1.0)}
    if requested.kind == "fat-tree":
        up[RACK] = (half, 1.0 / requested.ratio)
    elif requested.kind == "oversubscribed-fat-tree":
        count = ceil(half / requested.ratio * (1 - 1e-12))
        up[requested.layer] = (count, half / (requested.ratio * count))
    (rack_links, rack_part), (core_links, core_part) = up[RACK], up["aggregation"]
    draws = Draws(seed)
    over, above = (draws.below(links, n * (n - 1)) for links in (rack_links, core_links))
    number: dict[tuple[object, object], int] = {}
    rate: list[float] = []

    def link(tail: tuple[object, ...], head: tuple[object, ...], part: float) -> int:
        if (tail, head) not in number:
            number[tail, head] = len(rate)
            rate.append(gbps * BYTES_PER_MS_OF_ONE_GBPS * part)
        return number[tail, head]

    def route(source: int, target: int) -> list[tuple[int, ...]]:
        racks = [server // half for server in (source, target)]
        pods = [rack // half for rack in racks]
        if requested.ecmp == HASHED:
            pair = source * (n - 1) + target - (target > source)
            return [over_switches(source, target, racks, pods, int(over[pair]), int(above[pair]))]
        if requested.ecmp == SPREAD:
            up_first, up_second = target % half % rack_links, racks[1] % half % core_links
            return [over_switches(source, target, racks, pods, up_first, up_second)]
        paths = [over_switches(source, target, racks, pods, j, i) for j in range(rack_links) for i in range(core_links)]
        return list(dict.fromkeys(paths))

    def over_switches(source: int, target: int, racks: list[int], pods: list[int], j: int, i: int) -> tuple[int, ...]:
        nodes: list[tuple[object, ...]] = [("server", source), ("rack", racks[0])]
        parts = [1.0]
        if racks[0] != racks[1]:
            nodes.append(("aggregation", pods[0], j))
            parts.append(rack_part)
            if pods[0] != pods[1]:
                nodes += [("core", j, i), ("aggregation", pods[1], j)]
                parts += [core_part, core_part]
            nodes.append(("rack", racks[1]))
            parts.append(rack_part)
        nodes.append(("server", target))
        parts.append(1.0)
        return tuple(link(a, b, part) for (a, b), part in zip(pairwise(nodes), parts, strict=True))

    return _network(cluster, rate, TREE_ROUND_HOPS, route, pairs, groups)


def _network(
    cluster: Cluster,
    rate: list[float],
    round_hops: float,
    route: Callable[[int, int], list[tuple[int, ...]]],
    pairs: Iterable[Pair],
    groups: Iterable[Group],
) -> SimulatedNetwork:
    def of_pair(pair: Pair) -> tuple[SharedPath, ...]:
        paths = route(*pair)
        return tuple((1.0 / len(paths), links) for links in paths)

    def of_group(group: Group) -> tuple[GroupRing, ...]:
        hops = [route(a, b) for a, b in pairwise((*group, group[0]))]
        most = max(map(len, hops))
        return tuple((1.0 / most, tuple(paths[r * len(paths) // most] for paths in hops)) for r in range(most))

    paths = {pair: of_pair(pair) for pair in pairs}
    rings = {group: of_group(group) for group in groups}
    round_ms = round_hops * cluster.hop_latency_us / US_PER_MS
    hop_ms = cluster.hop_latency_us / US_PER_MS
    return SimulatedNetwork(rate, hop_ms, round_ms, paths, rings, sharing=cluster.link_sharing)
