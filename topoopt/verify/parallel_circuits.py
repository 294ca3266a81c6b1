"""The checker of parallel circuits: demand served, loads of the switches added up, bounds derived without a solver.

In all bounds the first configuration of a switch waits for the delay. Where it does not, every plan is shorter by that
delay, and so is the bound. A line is the demand that one server sends, or receives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import permutations

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.proofs import Argument
from topoopt.core.regional_circuits import ParallelCircuitsPlan, ParallelCircuitsProblem
from topoopt.core.result import Certificate
from topoopt.verify.checker import Checker

SERVED = 1e-9
"""Part of the largest demand of a pair that may be missing: rounding."""

ROUNDED = 1e-9
"""Part of a piece by which a count of pieces is rounded down."""

BISECTIONS = 50

SHORTEST = 1e-12
"""Duration just above 0, as part of the largest demand of a pair."""

MAX_SERVERS_OF_TREE = 4
MAX_SERVERS_OF_PRICES = 10
"""All sets of targets of the first servers are gone through."""


# Plan.


def by_switch(problem: ParallelCircuitsProblem, plan: ParallelCircuitsPlan) -> Iterator[str]:
    """Every configuration is on a switch that there is, and is a permutation of the servers."""
    switches = [switch for switch, _, _ in plan.configurations]
    if switches != sorted(switches):
        yield "configurations are not listed by switch"
    for index, (switch, _, targets) in enumerate(plan.configurations):
        if not 0 <= switch < problem.switches:
            yield f"configuration {index}: on switch {switch}, of {problem.switches}"
        if sorted(targets) != list(range(problem.servers)):
            yield f"configuration {index}: not a permutation of {problem.servers} servers"


def demand_is_served(problem: ParallelCircuitsProblem, plan: ParallelCircuitsPlan) -> Iterator[str]:
    """Every pair of servers is joined for as long as it has to send."""
    served = np.zeros((problem.servers, problem.servers))
    for _, duration, targets in plan.configurations:
        served[np.arange(problem.servers), list(targets)] += duration
    missing = problem.demand_us - served
    for source, target in np.argwhere(missing > SERVED * problem.demand_us.max()).tolist():
        sent = f"{served[source, target]:.12g} us of {problem.demand_us[source, target]:.12g}"
        yield f"server {source} is joined to server {target} for {sent}"


def makespan(problem: ParallelCircuitsProblem, plan: ParallelCircuitsPlan) -> float:
    """Return the time of the busiest switch, microseconds."""
    loads = [0.0] * problem.switches
    for switch, duration, _ in plan.configurations:
        loads[switch] += problem.delay_us + duration
    return max(loads) - problem.saved_us


# Bounds by lines.


def lines_of(demand: Floats) -> list[Floats]:
    """Return the demands above 0 of every line, largest first, each different line once."""
    lines = {tuple(np.sort(line[line > 0])[::-1].tolist()) for line in (*demand, *demand.T)}
    return [np.array(line) for line in sorted(lines) if line]


def least_durations(lines: Sequence[Floats], count: int) -> Floats:
    """Return float64[count]: what the longest, the second longest, ... of `count` configurations last at least.

    A line of k entries has count - k pieces to spare. Of its m largest entries at least m - floor(spare / j) have at
    most j pieces, and so a piece of at least the j-th part of the m-th entry.
    """
    least = np.zeros(count)
    for line in lines:
        spare = count - len(line)
        for pieces in range(1, spare + 2):
            shift = spare // pieces
            if shift < len(line):
                size = len(line) - shift
                least[:size] = np.maximum(least[:size], line[shift:] / pieces)
            if shift == 0:
                break
    return np.asarray(np.maximum.accumulate(least[::-1])[::-1])


def total_and_crowding(lines: Sequence[Floats], count: int, delay: float, switches: int) -> tuple[float, float]:
    """Return the least sum of `count` durations, and what the switch with the most of the longest takes at least.

    The m largest entries of a line leave a configuration to each of the others: they fit into the m + spare longest.
    Of the m s + 1 longest configurations some switch has m + 1.
    """
    least = least_durations(lines, count)
    prefix = np.zeros(count + 1)
    for line in lines:
        spare = count - len(line)
        prefix[spare + 1 :] = np.maximum(prefix[spare + 1 :], np.cumsum(line))
    tail = np.append(np.cumsum(least[::-1])[::-1], 0.0)
    sums = np.append(0.0, np.cumsum(least))
    more = np.arange((count - 1) // switches + 1)
    last = more * switches + 1
    crowded = (more + 1) * delay + sums[last] - sums[last - more - 1]
    return float((prefix + tail).max()), float(crowded.max())


def line_work(problem: ParallelCircuitsProblem) -> float:
    """Return the least makespan T that durations and counts of configurations of the lines allow.

    No configuration lasts longer than T less the delay, so that T bounds their number from below.
    """
    lines, switches = lines_of(problem.demand_us), problem.switches
    heaviest = max(float(line.sum()) for line in lines)
    lines = [line / heaviest for line in lines]
    delay = problem.delay_us / heaviest
    most = max(len(line) for line in lines)
    cases = lru_cache(maxsize=None)(lambda count: total_and_crowding(lines, count, delay, switches))

    def least_of(first: int, limit: float) -> float:
        """Return the least makespan with `first` configurations or more; anything up to the limit where it is less."""
        best, count = math.inf, max(first, most)
        while (1.0 + delay * count) / switches < best:
            total, crowded = cases(count)
            work = (total + delay * count) / switches
            best = min(best, max(work, crowded))
            if best <= limit or (total <= 1.0 and crowded <= work):
                break
            count += 1
        return best

    low, high = (1.0 + delay * most) / switches, 1.0 + delay * (most + switches)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if middle <= delay:
            low = middle
            continue
        first = max(int(np.ceil(line / (middle - delay) - ROUNDED).sum()) for line in lines)
        if middle < (1.0 + delay * first) / switches or middle < least_of(first, middle):
            low = middle
        else:
            high = middle
    return low * heaviest


@lru_cache(maxsize=8)
def subsets(entries: int) -> tuple[Ints, Ints, Ints]:
    """Return all (set, subset of it) of few entries as bits, and where each set begins."""
    rows = [(whole, part) for whole in range(1 << entries) for part in range(whole + 1) if part & ~whole == 0]
    wholes, parts = np.array(rows, dtype=np.int64).T
    return wholes, parts, np.flatnonzero(np.diff(wholes, prepend=-1))


def single_line(problem: ParallelCircuitsProblem) -> float:
    """Return the largest exact makespan of one line alone; 0 for one switch, and where all lines are long.

    Pieces tie entries and switches together. Without cycles, which save nothing, they fall into groups: entries J on m
    switches take (sum of J + delay (|J| + m - 1)) / m. All groups are tried.
    """
    switches, delay = problem.switches, problem.delay_us
    best = 0.0
    for line in lines_of(problem.demand_us) if switches > 1 else []:
        together = (line.sum() + delay * (len(line) + switches - 1)) / switches
        if len(line) <= (16 if switches == 2 else 8) and together > best:
            best = max(best, _grouped(line, delay, switches))
    return best


def _grouped(line: Floats, delay: float, switches: int) -> float:
    load = np.zeros(1 << len(line))
    for j, entry in enumerate(line):
        load[1 << j : 2 << j] = load[: 1 << j] + entry + delay
    sums = [(load + (m - 1) * delay) / m for m in range(1, switches + 1)]
    if switches == 2:
        return float(min(sums[1][-1], np.maximum(sums[0], sums[0][::-1]).min()))
    wholes, parts, begins = subsets(len(line))
    for m in range(2, switches + 1):
        for some in range(1, m // 2 + 1):
            halves = np.maximum(sums[some - 1][parts], sums[m - some - 1][wholes ^ parts])
            sums[m - 1] = np.minimum(sums[m - 1], np.minimum.reduceat(halves, begins))
        sums[m - 1][0] = 0.0
    return float(sums[-1][-1])


# Bounds with certificates.


def of_argument(certificates: Sequence[Certificate], argument: Argument) -> list[Certificate]:
    """Return the certificates that serve an argument."""
    return [certificate for certificate in certificates if certificate.argument is argument]


def assignment_prices(problem: ParallelCircuitsProblem, certificates: Sequence[Certificate]) -> float:
    """Return what prices prove; 0 without any.

    A piece of duration a is worth l min(a, D) + u + v (1 + [a >= D]) / 2; pieces that serve a pair are worth l D + u +
    v together, one of length D or two at least. Between two demands the worth of a permutation is linear in a, so that
    its ratio to its time is greatest at 0+, at a demand, or at the longest duration.

    Raises:
        ValueError: there are too many servers, prices are negative or not finite, or arrays have another size.
    """
    demand, servers = problem.demand_us, problem.servers
    bounds = [0.0]
    for certificate in of_argument(certificates, Argument.ASSIGNMENT_PRICES):
        if servers > MAX_SERVERS_OF_PRICES:
            raise ValueError(f"prices for {servers} servers, at most {MAX_SERVERS_OF_PRICES} are looked at")
        prices = [certificate.floats(name, servers, servers) for name in ("length", "start", "whole")]
        longest = certificate.scalar("longest_us")
        if not (longest > 0 and all(np.isfinite(part).all() and (part >= 0).all() for part in prices)):
            raise ValueError("prices must be finite and not negative, the longest duration above 0")
        length, start, whole = (np.where(demand > 0, part, 0.0) for part in prices)
        shorter = np.unique(demand[(demand > 0) & (demand < longest)])
        durations = np.concatenate(([SHORTEST * demand.max()], shorter, [min(longest, demand.max())]))[:, None, None]
        worths = length * np.minimum(durations, demand) + start + whole * (1 + (demand <= durations)) / 2
        dearest = float((dearest_permutations(worths) / (problem.delay_us + durations.ravel())).max())
        total = math.fsum((length * demand + start + whole).ravel().tolist())
        if dearest > 0:
            bound = total / dearest / problem.switches
            bounds.append(bound if longest >= demand.max() else min(longest + problem.delay_us, bound))
    return max(bounds)


def dearest_permutations(worths: Floats) -> Floats:
    """Return float64[K], the largest sum over a permutation of each of K matrices, float64[K, n, n]."""
    servers = worths.shape[1]
    best = np.full((1 << servers, len(worths)), -np.inf)  # [targets of the first servers]
    best[0] = 0.0
    for targets in range((1 << servers) - 1):
        source = targets.bit_count()
        for target in range(servers):
            if not targets >> target & 1:
                more = targets | 1 << target
                np.maximum(best[more], best[targets] + worths[:, source, target], out=best[more])
    return np.asarray(best[-1])


def served_pairs(demand: Floats) -> Floats:
    """Return float64[P, m]: whether each permutation serves each of the m pairs; the first of those that serve the same."""  # noqa: E501
    servers = len(demand)
    cells = np.flatnonzero(demand.ravel() > 0)
    rows: dict[bytes, Bools] = {}
    for targets in permutations(range(servers)):
        row = np.isin(cells, np.arange(servers) * servers + np.array(targets))
        if row.any():
            rows.setdefault(row.tobytes(), row)
    return np.array(list(rows.values()), dtype=np.float64)


def configuration_tree(problem: ParallelCircuitsProblem, certificates: Sequence[Certificate]) -> float:
    """Return what a tree of cases proves; 0 without any.

    In a case some configurations are used and some are not. With multipliers of lengths y, of counts v and of switches
    c whose sum is 1, T is at least sum y D + sum v + sum of (c delay - v(P) + A min(0, c - y(P))) over the used
    configurations and those of the open ones where it is negative; A is the longest that a configuration may last.

    Raises:
        ValueError: there are too many servers, or the tree is none, or multipliers are negative or not finite.
    """
    bounds = [0.0]
    for certificate in of_argument(certificates, Argument.CONFIGURATION_TREE):
        if problem.servers > MAX_SERVERS_OF_TREE:
            raise ValueError(f"a tree for {problem.servers} servers, at most {MAX_SERVERS_OF_TREE} are enumerated")
        (switches,) = certificate.integers("switches", 1).tolist()
        if switches not in {1, problem.switches}:
            raise ValueError(f"a tree for {switches} switches, of {problem.switches}")
        bounds.append(_tree_value(problem, certificate, switches) * switches / problem.switches)
    return max(bounds)


def _tree_value(problem: ParallelCircuitsProblem, certificate: Certificate, switches: int) -> float:
    demand = problem.demand_us[problem.demand_us > 0]
    serves, target = served_pairs(problem.demand_us), certificate.scalar("target_us")
    tree, closed = certificate.integers("tree", -1).tolist(), 0
    multipliers = certificate.floats("multipliers", -1, 2 * len(demand) + switches)
    if not (math.isfinite(target) and np.isfinite(multipliers).all() and (multipliers >= 0).all()):
        raise ValueError("multipliers must be finite and not negative")
    longest = np.minimum((serves * demand).max(axis=1), max(target - problem.delay_us, 0.0))
    configurations = switches * len(serves)
    cases = [np.full(configurations, -1)]  # 1 used, 0 not used, -1 open
    bound = target
    for node in tree:
        if not cases:
            raise ValueError("more splits than cases")
        case = cases.pop()
        if node >= 0:
            if node >= configurations or case[node] >= 0:
                raise ValueError(f"a case cannot be split by configuration {node}")
            used, unused = case.copy(), case
            used[node], unused[node] = 1, 0
            cases += [used, unused]
            continue
        if closed == len(multipliers):
            raise ValueError("fewer multipliers than cases")
        row, closed = multipliers[closed], closed + 1
        length, count, share = np.split(row, [len(demand), 2 * len(demand)])
        if share.sum() <= 0:
            raise ValueError("multipliers of switches must not all be 0")
        length, count, share = (part / share.sum() for part in (length, count, share))
        term = share[:, None] * problem.delay_us - serves @ count
        term = (term + longest * np.minimum(0.0, share[:, None] - serves @ length)).ravel()
        chosen = np.where(case == 1, term, np.where(case == -1, np.minimum(0.0, term), 0.0))
        bound = min(bound, math.fsum([*(length * demand), *count, *chosen]))
    if cases or closed < len(multipliers):
        raise ValueError(f"{len(cases)} cases are not looked at")
    return float(bound)


def saved(
    bound: Callable[[ParallelCircuitsProblem, Sequence[Certificate]], float],
) -> Callable[[ParallelCircuitsProblem, Sequence[Certificate]], float]:
    """Return a bound less what every switch saves where first configurations are there before."""
    return lambda problem, certificates: max(bound(problem, certificates) - problem.saved_us, 0.0)


CHECKER = Checker(
    objective=lambda _: ("makespan", "us"),
    constraints=(("permutation", by_switch), ("demand", demand_is_served)),
    value=makespan,
    arguments=lambda _: {
        Argument.LINE_WORK: saved(lambda problem, _: line_work(problem)),
        Argument.SINGLE_LINE: saved(lambda problem, _: single_line(problem)),
        Argument.ASSIGNMENT_PRICES: saved(assignment_prices),
        Argument.CONFIGURATION_TREE: saved(configuration_tree),
    },
)
