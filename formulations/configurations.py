r"""Durations of configurations of parallel optical switches, and which of all configurations are used.

With permutations $P_k$ on switches $h_k$ given, the least makespan is a linear program:

$$
\min T \quad \text{s.t.} \quad \sum_k a_k P_k \ge D, \qquad
\sum_{k : h_k = h} (\delta + a_k) \le T \;\; \forall h, \qquad a \ge 0 .
$$

For few servers all permutations stand on all switches, and $z_k \in \{0, 1\}$ says which are used:
$a_k \le A_k z_k$, and a switch takes $\sum_k (\delta z_k + a_k)$. Each pair needs a configuration besides,
$\sum_k P_k z_k \ge [D > 0]$. Every pair has slacks of great cost, so that each case has multipliers.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np

from formulations.programs import Families, LpArrays
from topoopt.core.arrays import Floats, Ints

TIE = 1e-6
"""Cost of a unit of duration beside the makespan: durations are no longer than they need to be."""

SLACK = 1e3
"""Cost of a pair that is not served, in makespans over its demand."""


def duration_arrays(demand: Floats, delay: float, switches: int, switch: Ints, targets: Ints) -> LpArrays:
    """Return the program of durations, whose columns are these and the makespan.

    Parameters
    ----------
    demand : float64[n, n].
    delay : in the unit of the demand, as all durations are.
    switches : s.
    switch : int64[K], of each configuration.
    targets : int64[K, n], of each configuration the server that each server sends to.
    """
    program = Families()
    count, servers = targets.shape
    duration = program.columns(count, cost=TIE)
    makespan = program.columns(1, cost=1.0)
    sent = demand > 0
    rows = np.full(demand.shape, -1)
    rows[sent] = program.rows(int(sent.sum()), demand[sent], np.inf)
    served = rows[np.arange(servers), targets]
    program.terms(served, duration[:, None], 1.0, served >= 0)
    loads = program.rows(switches, -np.inf, -delay * np.bincount(switch, minlength=switches))
    program.terms(loads[switch], duration, 1.0)
    program.terms(loads, makespan[0], -1.0)
    return program.arrays()


def all_targets(demand: Floats) -> Ints:
    """Return int64[P, n], the permutations that serve a pair; the first of those that serve the same pairs."""
    rows: dict[tuple[bool, ...], tuple[int, ...]] = {}
    servers = np.arange(len(demand))
    for targets in permutations(range(len(demand))):
        serves = np.zeros(demand.shape, dtype=bool)
        serves[servers, targets] = demand[servers, targets] > 0
        if serves.any():
            rows.setdefault(tuple(serves.ravel().tolist()), targets)
    return np.array([*rows.values()], dtype=np.int64)


def configuration_arrays(demand: Floats, delay: float, switches: int, target: float, *, integral: bool) -> LpArrays:
    """Return the program of all configurations of few servers.

    Columns are the makespan, durations and uses of all permutations by switch, and slacks of lengths and counts. Rows
    are the lengths and the counts of all pairs, the loads of all switches, and the limits of durations.

    Parameters
    ----------
    demand, delay, switches : as above.
    target : a makespan that plans which matter do not exceed.
    integral : whether uses are whole.
    """
    program = Families()
    permutation = all_targets(demand)
    sent = demand > 0
    pairs, count = int(sent.sum()), len(permutation)
    amounts = demand[sent]
    makespan = program.columns(1, cost=1.0)
    duration = program.columns((switches, count))
    used = program.columns((switches, count), upper=1.0, integer=integral)
    slack = SLACK * target / float(amounts.min())
    short, absent = program.columns(pairs, cost=slack), program.columns(pairs, cost=slack, upper=1.0)
    index = np.full(demand.shape, -1)
    index[sent] = np.arange(pairs)
    served = index[np.arange(len(demand)), permutation]  # [permutation, server]
    length, counted = program.rows(pairs, amounts, np.inf), program.rows(pairs, 1.0, np.inf)
    for rows, columns, slacks in ((length, duration, short), (counted, used, absent)):
        program.terms(rows[served], columns[:, :, None], 1.0, served >= 0)
        program.terms(rows, slacks, 1.0)
    loads = program.rows(switches, 0.0, np.inf)
    program.terms(loads, makespan[0], 1.0)
    program.terms(loads[:, None], duration, -1.0)
    program.terms(loads[:, None], used, -delay)
    longest = np.where(served >= 0, demand[np.arange(len(demand)), permutation], 0.0).max(axis=1)
    limits = program.rows((switches, count), 0.0, np.inf)
    program.terms(limits, duration, -1.0)
    program.terms(limits, used, np.minimum(longest, max(target - delay, 0.0)))
    return program.arrays()
