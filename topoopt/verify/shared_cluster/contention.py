"""Jobs that share links, followed once more from their recorded starts and ends: does every job do its work?

Written apart from the simulator: between two starts or ends the fair rates are found anew by raising all rates in
steps. A long run is followed in windows; the jobs that begin and end in one are checked.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoopt.core.shared_cluster import (
    FAT_TREE,
    Contention,
    Fabric,
    SharedCluster,
)
from topoopt.core.shared_cluster_jobs import JobTable
from topoopt.core.shared_cluster_solution import FabricRun
from topoopt.core.units import BYTES_PER_MS_PER_GBPS
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.findings import Findings
from topoopt.verify.shared_cluster.bounds import alone_ms

MOMENTS = 1500
"""Starts and ends that are followed one by one; of more, windows of this many in all."""

WINDOWS = 3
WORK_RELATIVE = Tolerance.EVENTS.relative
LEAST_PART = 1e-9
MASK = (1 << 64) - 1


@dataclass(frozen=True, eq=False)
class _Tree:
    half: int
    server_gbps: float
    rack_ratio: float
    pod_ratio: float
    hashed: bool
    seed: int


def _tree(servers: int, fabric: Fabric, seed: int) -> _Tree | None:
    if fabric.kind != FAT_TREE or fabric.server_gbps is None:
        return None
    half = 1
    while half * half * half * 2 < servers:  # k^3 / 4 servers, k = 2 half
        half += 1
    hashed = fabric.paths == "hashed"
    return _Tree(half, fabric.server_gbps, fabric.rack_ratio, fabric.pod_ratio, hashed, seed)


def _hash(seed: int, source: int, target: int) -> int:
    z = (seed + (source * 65536 + target + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def _link_parts(tree: _Tree, servers: list[int], ring: float, pairs: float) -> dict[tuple[str, int, int, int], float]:
    """Traffic over what a server sends on links (layer, rack or pod, uplink, core)."""
    k = len(servers)
    flows = [(servers[i], servers[(i + 1) % k], ring) for i in range(k)] if ring else []
    if pairs:
        flows += [(a, b, pairs / (k - 1)) for a in servers for b in servers if a != b]
    parts: dict[tuple[str, int, int, int], float] = {}
    h, square = tree.half, tree.half**2

    def add(link: tuple[str, int, int, int], part: float) -> None:
        parts[link] = parts.get(link, 0.0) + part

    for a, b, part in flows:
        if a // h == b // h:
            continue
        draw = _hash(tree.seed, a, b) if tree.hashed else 0
        up, core = (draw % h, draw // h % h) if tree.hashed else (-1, -1)
        add(("rack up", a // h, up, -1), part)
        add(("rack down", b // h, up, -1), part)
        if a // square != b // square:
            add(("pod up", a // square, up, core), part)
            add(("pod down", b // square, up, core), part)
    return parts


def _even_parts(
    tree: _Tree, servers: NDArray[np.int64], ring: float, pairs: float
) -> dict[tuple[str, int, int, int], float]:
    """The same for even paths, counted per rack and pod."""
    parts: dict[tuple[str, int, int, int], float] = {}
    k = len(servers)
    ordered = np.sort(servers)
    for layer, size in (("rack", tree.half), ("pod", tree.half**2)):
        place = ordered // size
        leaves = place != np.roll(place, -1)
        for one in np.unique(place).tolist():
            inside = int((place == one).sum())
            out = ring * int(leaves[place == one].sum()) + pairs * inside * (k - inside) / max(1, k - 1)
            if out > 0:
                parts[f"{layer} up", one, -1, -1] = out
    return parts


def _capacity(tree: _Tree, link: tuple[str, int, int, int]) -> float:
    bundle = tree.half if link[0].startswith("rack") else tree.half**2
    ratio = tree.rack_ratio if link[0].startswith("rack") else tree.pod_ratio
    return tree.server_gbps / ratio * (1 if tree.hashed else bundle)


@dataclass(frozen=True, eq=False)
class _Loads:
    """Entries of a sparse table: job of row `row` sends `part` of its rate over link `link`."""

    row: NDArray[np.int64]
    link: NDArray[np.int64]
    part: NDArray[np.float64]

    def among(self, kept: NDArray[np.bool_]) -> _Loads:
        """Some of the entries."""
        return _Loads(self.row[kept], self.link[kept], self.part[kept])

    def on_links(self, rate: NDArray[np.float64], links: int) -> NDArray[np.float64]:
        """Load of every link when the rows have these rates."""
        return np.bincount(self.link, self.part * rate[self.row], minlength=links).astype(np.float64)


def _raised(loads: _Loads, capacity: NDArray[np.float64], limit: NDArray[np.float64]) -> NDArray[np.float64]:
    """Max-min rates of the jobs with a limit above 0; the others have no entries that count."""
    links = len(capacity)
    tight = loads.on_links(limit, links) > capacity
    if not tight.any():
        return limit
    loads = loads.among(tight[loads.link] & (limit[loads.row] > 0))
    rate, free = np.zeros(len(limit)), capacity.copy()
    rising = limit > 0
    while rising.any():
        growth = loads.on_links(rising.astype(np.float64), links)
        room = np.where(growth > LEAST_PART, free / np.maximum(growth, LEAST_PART), np.inf)
        step = max(0.0, min(float(room.min()), float((limit - rate)[rising].min())))
        rate[rising] += step
        free -= growth * step
        full = (growth > LEAST_PART) & (free <= LEAST_PART * capacity)
        rising[loads.row[full[loads.link]]] = False
        rising &= rate < limit * (1 - LEAST_PART)
    return rate


class _Follower:
    """Iteration times of sets of running jobs of one run."""

    def __init__(self, problem: SharedCluster, jobs: JobTable, run: FabricRun, seed: int) -> None:
        self.tree = _tree(problem.servers, run.fabric, seed)
        self.classes = [problem.classes[c] for c in jobs.class_index]
        self.alone = alone_ms(problem, run.fabric, jobs)
        self.run = run
        gbps = run.fabric.server_gbps or np.nan
        self.interleaved = problem.contention is Contention.INTERLEAVED
        self.wire = np.array([one.sent_bytes / BYTES_PER_MS_PER_GBPS for one in self.classes])
        self.compute = np.array([one.compute_ms for one in self.classes])
        measured = [dict(one.fabric_ms).get(run.fabric.name) for one in self.classes]
        direct = [problem.direct_gbps(one) for one in self.classes]
        there = np.array([own if each is None else gbps for each, own in zip(measured, direct, strict=True)])
        known = np.array(
            [each if each is not None else own for each, own in zip(measured, jobs.iteration_ms, strict=True)]
        )
        self.hidden = self.compute + self.wire / there - known
        self.limit = np.minimum(gbps, self.wire / self.alone) if self.interleaved else np.full(len(jobs), gbps)

    def parts(self, stay: int) -> dict[tuple[str, int, int, int], float]:
        """Loads of the job of a stay."""
        one = self.classes[self.run.stays.job[stay]]
        servers = self.run.stays.servers_of(stay)
        if self.tree is None or one.sent_bytes <= 0 or len(servers) < 2:
            return {}
        ring, pairs = one.allreduce_bytes / one.sent_bytes, one.all_to_all_bytes / one.sent_bytes
        if self.tree.hashed:
            return _link_parts(self.tree, servers.tolist(), ring, pairs)
        return _even_parts(self.tree, servers, ring, pairs)

    def iteration_ms(
        self, jobs: NDArray[np.int64], there: NDArray[np.bool_], loads: _Loads, capacity: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Time of each of the jobs, if those that are there run together; of the others it means nothing."""
        limit = np.where(there, self.limit[jobs], 0.0)
        rate = _raised(loads.among(there[loads.row]), capacity, limit)
        wire = np.divide(self.wire[jobs], rate, out=np.zeros(len(jobs)), where=rate > 0)
        if self.interleaved:
            longest: NDArray[np.float64] = np.maximum(self.alone[jobs], wire)
            return longest
        times: NDArray[np.float64] = self.compute[jobs] + np.maximum(0.0, wire - self.hidden[jobs])
        return times


def check_contention(findings: Findings, problem: SharedCluster, jobs: JobTable, run: FabricRun, seed: int) -> None:
    """Follow the run; `problem.classes` have their figures. Each job has one stay."""
    stays = run.stays
    follower = _Follower(problem, jobs, run, seed)
    times = np.unique(np.concatenate((stays.work_from_s, stays.work_to_s)))
    if len(times) <= MOMENTS + 1:
        windows = [(0, len(times) - 1)]
    else:
        each = MOMENTS // WINDOWS
        begins = np.linspace(0, len(times) - 1 - each, WINDOWS).astype(int)
        windows = [(int(begin), int(begin) + each) for begin in begins]
    for begin, end in windows:
        _follow(findings, follower, jobs, times[begin : end + 1])


def _follow(findings: Findings, follower: _Follower, jobs: JobTable, times: NDArray[np.float64]) -> None:
    """One window: iterations done between its moments against those of the jobs that lie within."""
    run, stays = follower.run, follower.run.stays
    touching = np.flatnonzero((stays.work_to_s > times[0]) & (stays.work_from_s < times[-1]))
    tables = [follower.parts(int(stay)) for stay in touching]
    number = {link: place for place, link in enumerate(dict.fromkeys(link for table in tables for link in table))}
    entries = [(row, number[link], part) for row, table in enumerate(tables) for link, part in table.items()]
    rows, links, parts = zip(*entries, strict=True) if entries else ((), (), ())
    loads = _Loads(np.array(rows, dtype=np.int64), np.array(links, dtype=np.int64), np.array(parts, dtype=np.float64))
    tree = follower.tree
    capacity = np.array([_capacity(tree, link) for link in number]) if tree is not None else np.zeros(0)
    done = np.zeros(len(touching))
    begin, end, owner = stays.work_from_s[touching], stays.work_to_s[touching], stays.job[touching]
    for moment, following in itertools.pairwise(times):
        there = (begin <= moment) & (end >= following)
        if there.any():
            time_ms = follower.iteration_ms(owner, there, loads, capacity)
            done[there] += (following - moment) * 1e3 / time_ms[there]
    expected = jobs.iterations[owner]
    within = (begin >= times[0]) & (end <= times[-1])
    wrong = within & run.finished[owner] & ~(np.abs(done - expected) <= WORK_RELATIVE * expected)
    wrong |= within & ~run.finished[owner] & (done > expected * (1 + WORK_RELATIVE))
    findings.add_each(
        "work",
        np.flatnonzero(wrong),
        lambda row: (
            f"{run.fabric.name}: {jobs.names[owner[row]]} does {done[row]:.9g} iterations in its time there, "
            f"not {expected[row]}"
        ),
    )
