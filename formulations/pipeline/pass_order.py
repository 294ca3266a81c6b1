"""Order of the passes of a tiny pipeline under a limit of memory, as a mixed-integer program: the best there is.

One stage a rank; the backward pass is two, for the gradients of the inputs (B), for which the stage before waits, and
of the weights (W). As micro-batches are alike, each rank may take them in turn in each kind of pass: whatever is done
k-th can be called micro-batch k without changing a time.

Sets: RANKS s; micro-batches i, j; kinds F, B, W.
Parameters: time[k,s]; transfer; hold[k,s], for which a rank is blocked by what it sends; adds[k,s] memory taken (given
    back where negative: B and W); room[s]; upper, a makespan that is known to be possible, which serves as big M.
Variables: end[k,s,i] in [0, upper]; span; early[q,j,k,i,s] in {0,1} for j < i and (k,q) = (F,B), (F,W), (B,W): whether
    pass q of j comes before pass k of i on rank s. For j >= i it never does.
minimise span
1. first[k,s]:       end[k,s,0] >= time[k,s]
   turn[k,s,i]:      end[k,s,i] >= end[k,s,i-1] + hold[k,s] + time[k,s]
2. ahead[s,i]:       end[F,s,i] >= end[F,s-1,i] + transfer + time[F,s]
3. back[s,i]:        end[B,s,i] >= end[B,s+1,i] + transfer + time[B,s]
4. own[q,s,i]:       end[q,s,i] >= end[k,s,i] + hold[k,s] + time[q,s]                      (k,q) = (F,B), (B,W)
5. before[q,j,k,i,s]: end[k,s,i] >= end[q,s,j] + hold[q,s] + time[k,s] - M (1 - early[q,j,k,i,s])
   after[q,j,k,i,s]:  end[q,s,j] >= end[k,s,i] + hold[k,s] + time[q,s] - M early[q,j,k,i,s]
   where M = upper + hold[k,s] + time[k,s], of that row
6. fit[s,i]:         (i+1) adds[F,s] + sum_{j<i} (adds[B,s] early[B,j,F,i,s] + adds[W,s] early[W,j,F,i,s]) <= room[s]
7. all[s]:           span >= end[W,s,m-1]; with `longest_rank`: span >= end[W,s,m-1] - end[F,s,0] + time[F,s]

Size: 3 p m ends, 3 p m (m-1) / 2 binaries. Reference: Qi et al., arXiv:2401.10241, appendix G.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Rows
from topoopt.core.arrays import Floats

F, B, W = range(3)
PAIRS = ((F, B), (F, W), (B, W))
"""Kinds (k, q) whose order on a rank is open: q of an earlier micro-batch may come before k."""


@dataclass(frozen=True, eq=False)
class PassOrder:
    """Data of the program; times in whole units.

    Attributes:
        time: float64[3, p].
        hold: float64[3, p].
        adds: float64[3, p].
        room: float64[p]; inf: no limit.
        transfer: from rank to rank.
        micro_batches: m.
        upper: makespan of a known order.
        longest_rank: minimise the longest time between first begin and last end of a rank, not the makespan.
    """

    time: Floats
    hold: Floats
    adds: Floats
    room: Floats
    transfer: float
    micro_batches: int
    upper: float
    longest_rank: bool = False

    @property
    def ranks(self) -> int:
        """p."""
        return int(self.time.shape[1])


def build_arrays(data: PassOrder) -> LpArrays:
    """The program, its columns and rows named as in the text."""
    rows = Rows()
    ranks, batches = range(data.ranks), range(data.micro_batches)
    for k in (F, B, W):
        for s in ranks:
            for i in batches:
                rows.column("end", k, s, i, upper=data.upper)
    rows.column("span", upper=data.upper)
    for k, q in PAIRS:
        for s in ranks:
            for i in batches:
                for j in range(i):
                    rows.column("early", q, j, k, i, s, upper=1.0, integer=True)
    for s in ranks:
        _rank(rows, data, s)
    return rows.program({("span",): 1.0})


def _rank(rows: Rows, data: PassOrder, s: int) -> None:
    time, hold, last = data.time, data.hold, data.micro_batches - 1

    def later(name: str, k: int, i: int, than: tuple[int, int, int], wait: float) -> None:
        """A pass ends at least its time and a wait later than another one."""
        terms = [(rows.at("end", k, s, i), 1.0), (rows.at("end", *than), -1.0)]
        rows.row(name, wait + time[k, s], np.inf, terms)

    for i in range(data.micro_batches):
        for k in (F, B, W):
            if i == 0:
                rows.row(f"first_{k}_{s}", time[k, s], np.inf, [(rows.at("end", k, s, 0), 1.0)])
            else:
                later(f"turn_{k}_{s}_{i}", k, i, (k, s, i - 1), hold[k, s])
        if s > 0:
            later(f"ahead_{s}_{i}", F, i, (F, s - 1, i), data.transfer)
        if s + 1 < data.ranks:
            later(f"back_{s}_{i}", B, i, (B, s + 1, i), data.transfer)
        for k, q in ((F, B), (B, W)):
            later(f"own_{q}_{s}_{i}", q, i, (k, s, i), hold[k, s])
        for k, q in PAIRS:
            for j in range(i):
                _either(rows, data, s, (k, i), (q, j))
        if np.isfinite(data.room[s]):
            given = [(rows.at("early", q, j, F, i, s), float(data.adds[q, s])) for q in (B, W) for j in range(i)]
            if given:
                rows.row(f"fit_{s}_{i}", -np.inf, data.room[s] - (i + 1) * data.adds[F, s], given)
    terms = [(rows.at("span"), 1.0), (rows.at("end", W, s, last), -1.0)]
    if data.longest_rank:
        rows.row(f"all_{s}", time[F, s], np.inf, [*terms, (rows.at("end", F, s, 0), 1.0)])
    else:
        rows.row(f"all_{s}", 0.0, np.inf, terms)


def _either(rows: Rows, data: PassOrder, s: int, one: tuple[int, int], other: tuple[int, int]) -> None:
    """Pass `other`, of an earlier micro-batch, comes before `one`, or behind it."""
    (k, i), (q, j) = one, other
    early = rows.at("early", q, j, k, i, s)
    apart = [(rows.at("end", k, s, i), 1.0), (rows.at("end", q, s, j), -1.0)]
    wait = data.hold[q, s] + data.time[k, s]
    big = data.upper + wait
    rows.row(f"before_{q}_{j}_{k}_{i}_{s}", wait - big, np.inf, [*apart, (early, -big)])
    wait = data.hold[k, s] + data.time[q, s]
    big = data.upper + wait
    rows.row(f"after_{q}_{j}_{k}_{i}_{s}", wait, np.inf, [*((c, -v) for c, v in apart), (early, big)])
