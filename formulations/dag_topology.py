"""Circuits between pods, fixed for a job, and when its transfers are carried: intervals of variable length.

The graph is contracted to its transfers: tasks between two of them become a delay, those before the first a release,
those after the last a tail. Within an interval rates are constant. Circuits are integers, written in binary, so that
the product of circuits and the length of an interval is linear. With as many intervals as transfers have different
begins and ends, nothing is lost: rates between two such events may be averaged.

Sets: TRANSFERS m, n; EDGES (m, n); INTERVALS k = 1..K; PAIRS p of pods; CHANNELS c, a pair in one direction; BITS b;
    PODS i.
Parameters: volume[m]; release[m]; tail[m]; delay[m,n]; rate of a circuit in each direction; ports[i]; horizon, a
    makespan that is known to be possible, which serves as big M; compute, the longest path of tasks alone.
Variables: time[k] >= 0, when interval k ends (time[0] = 0); moved[m,k] >= 0; carries[m,k] in {0,1}; ready[m] >=
    release[m]; finish[m] >= 0; bit[p,b] in {0,1}; open[p,b,k] >= 0, length of interval k if bit b of p is set;
    span >= compute.
minimise span
1. whole[m]:       sum_k moved[m,k] = volume[m]
2. only[m,k]:      moved[m,k] <= volume[m] carries[m,k]
3. begin[m,k]:     ready[m] <= time[k-1] + horizon (1 - carries[m,k])
4. done[m,k]:      time[k] <= finish[m] + horizon (1 - carries[m,k])
5. wait[m,n]:      ready[n] >= finish[m] + delay[m,n]
6. last[m]:        span >= finish[m] + tail[m]
7. carry[c,k]:     sum_{m on c} moved[m,k] <= rate sum_b 2^b open[p,b,k]
8. within[p,b,k]:  open[p,b,k] <= time[k] - time[k-1]
9. gate[p,b,k]:    open[p,b,k] <= horizon bit[p,b]
10. ports[i]:      sum_{p at i} sum_b 2^b bit[p,b] <= ports[i]
11. order[k]:      time[k] >= time[k-1]

Size: |TRANSFERS| K + |PAIRS| |BITS| binaries. It is the reference for tiny jobs; the method of this kind branches on
circuits. It shares a channel as it likes where the method shares it equally, so its optimum is never above.
Reference: intervals of variable length, arXiv:2603.28096.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from formulations.programs import LpArrays, Rows
from topoopt.core.dag_topology import DagTopologyProblem, Pair

INF = math.inf


@dataclass(frozen=True, eq=False)
class DagTopologyProgram:
    """See the module.

    Attributes:
        channels: (source, target) of each transfer.
        volume, release, tail: of each transfer.
        delay: by (m, n).
        rate: volume that a circuit carries in a unit of time.
        ports: of each pod.
        horizon: a possible makespan.
        compute: longest path of tasks alone.
        intervals: K.
    """

    channels: tuple[tuple[int, int], ...]
    volume: tuple[float, ...]
    release: tuple[float, ...]
    tail: tuple[float, ...]
    delay: Mapping[tuple[int, int], float]
    rate: float
    ports: tuple[int, ...]
    horizon: float
    compute: float
    intervals: int

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Of pods, ascending."""
        return tuple(sorted({(min(ends), max(ends)) for ends in self.channels}))

    def bits(self, pair: Pair) -> range:
        """So many that all ports can be written."""
        return range(min(self.ports[pair[0]], self.ports[pair[1]]).bit_length())


def build_arrays(data: DagTopologyProgram) -> LpArrays:
    """The program, its columns and rows named as in the text."""
    rows = Rows()
    transfers, intervals = range(len(data.volume)), range(1, data.intervals + 1)
    for k in intervals:
        rows.column("time", k)
    for m in transfers:
        for k in intervals:
            rows.column("moved", m, k)
            rows.column("carries", m, k, upper=1.0, integer=True)
        rows.column("ready", m, lower=data.release[m])
        rows.column("finish", m)
    for a, b in data.pairs:
        for bit in data.bits((a, b)):
            rows.column("bit", a, b, bit, upper=1.0, integer=True)
            for k in intervals:
                rows.column("open", a, b, bit, k)
    rows.column("span", lower=data.compute)
    for m in transfers:
        _transfer(rows, data, m)
    for (m, n), delay in data.delay.items():
        rows.row(f"wait_{m}_{n}", delay, INF, [(rows.at("ready", n), 1.0), (rows.at("finish", m), -1.0)])
    for channel in sorted(set(data.channels)):
        _channel(rows, data, channel)
    for pair in data.pairs:
        _pair(rows, data, pair)
    for pod, ports in enumerate(data.ports):
        at = [(a, b, bit) for a, b in data.pairs if pod in (a, b) for bit in data.bits((a, b))]
        if at:
            rows.row(f"ports_{pod}", -INF, ports, [(rows.at("bit", *entry), 2.0 ** entry[2]) for entry in at])
    for k in intervals:
        rows.row(f"order_{k}", 0.0, INF, _length(rows, k, 1.0))
    return rows.program({("span",): 1.0})


def _length(rows: Rows, k: int, factor: float) -> list[tuple[int, float]]:
    before = [(rows.at("time", k - 1), -factor)] if k > 1 else []
    return [(rows.at("time", k), factor), *before]


def _transfer(rows: Rows, data: DagTopologyProgram, m: int) -> None:
    intervals, horizon = range(1, data.intervals + 1), data.horizon
    volume = data.volume[m]
    rows.row(f"whole_{m}", volume, volume, [(rows.at("moved", m, k), 1.0) for k in intervals])
    ready, finish = rows.at("ready", m), rows.at("finish", m)
    for k in intervals:
        carries = rows.at("carries", m, k)
        rows.row(f"only_{m}_{k}", -INF, 0.0, [(rows.at("moved", m, k), 1.0), (carries, -volume)])
        before = [(rows.at("time", k - 1), -1.0)] if k > 1 else []
        rows.row(f"begin_{m}_{k}", -INF, horizon, [(ready, 1.0), *before, (carries, horizon)])
        rows.row(f"done_{m}_{k}", -INF, horizon, [(rows.at("time", k), 1.0), (finish, -1.0), (carries, horizon)])
    rows.row(f"last_{m}", data.tail[m], INF, [(rows.at("span"), 1.0), (finish, -1.0)])


def _channel(rows: Rows, data: DagTopologyProgram, channel: tuple[int, int]) -> None:
    pair = (min(channel), max(channel))
    own = [m for m, ends in enumerate(data.channels) if ends == channel]
    for k in range(1, data.intervals + 1):
        terms = [(rows.at("moved", m, k), 1.0) for m in own]
        terms += [(rows.at("open", *pair, bit, k), -data.rate * 2.0**bit) for bit in data.bits(pair)]
        rows.row(f"carry_{channel[0]}_{channel[1]}_{k}", -INF, 0.0, terms)


def _pair(rows: Rows, data: DagTopologyProgram, pair: Pair) -> None:
    for bit in data.bits(pair):
        for k in range(1, data.intervals + 1):
            name = f"{pair[0]}_{pair[1]}_{bit}_{k}"
            length = rows.at("open", *pair, bit, k)
            rows.row(f"within_{name}", -INF, 0.0, [(length, 1.0), *_length(rows, k, -1.0)])
            rows.row(f"gate_{name}", -INF, 0.0, [(length, 1.0), (rows.at("bit", *pair, bit), -data.horizon)])


def contracted(problem: DagTopologyProblem, intervals: int) -> DagTopologyProgram:
    """The data of an instance: tasks become releases, delays and tails; the horizon is all steps in turn."""
    after, count = problem.after, len(problem.transfers)
    duration = [0.0] * count + [task.duration for task in problem.tasks]
    release = [0.0] * len(after)
    from_transfer: list[dict[int, float]] = [{} for _ in after]
    delay: dict[tuple[int, int], float] = {}
    tail, compute = [0.0] * len(after), 0.0
    for step in problem.order:
        for before in after[step]:
            if before < count:
                from_transfer[step][before] = max(0.0, from_transfer[step].get(before, 0.0))
                continue
            release[step] = max(release[step], release[before] + duration[before])
            for m, gap in from_transfer[before].items():
                from_transfer[step][m] = max(gap + duration[before], from_transfer[step].get(m, 0.0))
        if step < count:
            delay.update({(m, step): gap for m, gap in from_transfer[step].items()})
        compute = max(compute, release[step] + duration[step])
    for step in reversed(problem.order):
        for before in after[step]:
            if step >= count:
                tail[before] = max(tail[before], tail[step] + duration[step])
    volume = tuple(m.volume for m in problem.transfers)
    return DagTopologyProgram(
        channels=tuple((m.source, m.target) for m in problem.transfers),
        volume=volume,
        release=tuple(release[:count]),
        tail=tuple(tail[:count]),
        delay=dict(sorted(delay.items())),
        rate=problem.rate,
        ports=problem.ports,
        horizon=sum(duration) + sum(volume) / problem.rate,
        compute=compute,
        intervals=intervals,
    )


def from_dag_topology(problem: DagTopologyProblem, options: Mapping[str, float]) -> LpArrays:
    return build_arrays(contracted(problem, int(options["intervals"])))
