"""The bound on theta by the links around every server as a relay, and the same in cases by numbers of links."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InputError
from topoopt.core.network import MOST_RELAY_CASES, LinkCounts, RelayCases, RelayPrices
from topoopt.core.process import end_if_left
from topoopt.verify.network.bounds import checked, layer_counts, matching_dual, matching_prices

ROUNDING = 1e-9
"""Part of the sums compared that rounding may take."""

PREMIUM = 30.0
"""Added to the worth of a link that is there in any case, in units of theta, and taken off their sum again: whatever
it is this holds, and sets that leave such a link out are worth less."""

NODES = 5_000_000
"""Most sets looked at around one server; beyond, nothing is proven."""

_STEPS = 40
_CHUNK = 20_000


def hops_beyond(n: int, d: int, demand: Floats) -> float:
    """F: least sum of demand times hops beyond the third (layered Moore distances)."""
    total = float(demand.sum())
    return sum(
        max(0.0, total - matching_dual(demand, count, *matching_prices(demand, count)))
        for count in layer_counts(n, d)[2:]
    )


def evaluate_relay(n: int, d: int, demand: Floats, certificate: RelayPrices, counts: LinkCounts | None = None) -> float:
    """Theta of the certificate where it is proven of all topologies with these counts of links, else 0.

    Raises:
        InputError: bad demand, or prices of the wrong shape, negative, or not finite.
    """
    price, relief, shift, most = certificate.price, certificate.relief, certificate.shift, certificate.most
    tables = (price, relief, shift)
    issues = {
        "prices have the wrong shape": any(array.shape != (n, n) for array in tables) or most.shape != (n,),
        "prices must be finite": not all(np.isfinite(array).all() for array in (*tables, most)),
        "prices and reliefs must not be negative": bool((price < 0).any() or (relief < 0).any()),
        "theta must be finite and positive": not 0.0 < certificate.theta < np.inf,
    }
    demand = checked(n, d, demand, issues)
    off = ~np.eye(n, dtype=np.bool_)
    least = float(price[off].min())
    owed = float((demand * (3.0 * least - relief)).sum())
    if owed + least * hops_beyond(n, d, demand) < float(most.sum()) + ROUNDING * float(np.abs(most).sum()):
        return 0.0
    counts = counts or LinkCounts.any(n, d)
    far = 3.0 * least
    return certificate.theta if all(enough(k, d, demand, certificate, far, counts) for k in range(n)) else 0.0


def enough(k: int, d: int, demand: Floats, certificate: RelayPrices, far: float, counts: LinkCounts) -> bool:
    """Whether the links around k are worth no more than the certificate says, where there are so many as `counts`."""
    end_if_left()
    theta, price, relief, shift = certificate.theta, certificate.price, certificate.relief, certificate.shift
    others = np.flatnonzero(np.arange(len(demand)) != k)
    into, out = (others, np.full_like(others, k)), (np.full_like(others, k), others)
    between = np.ix_(others, others)
    saved = np.maximum(far - relief[between] - price[into][:, None] - price[out][None, :], 0.0)
    np.fill_diagonal(saved, 0.0)
    relayed = [saved * np.clip(demand[between] - beside * theta, 0.0, theta) for beside in range(d)]
    sides, places = [], []
    premiums = 0.0
    for pairs, sign, axis in ((into, 1.0, 1), (out, -1.0, 0)):
        gain = np.maximum(far - price[pairs] - relief[pairs], 0.0)
        idle = theta * float(price[pairs].max()) / 2.0
        worths, links = [], []
        for beside in range(d):
            own = np.clip(demand[pairs] - beside * theta, 0.0, theta)
            there = counts.least[pairs] > beside
            some = (own > 0.0) | (relayed[beside] > 0.0).any(axis=axis) | (beside == 0) | there
            some &= counts.most[pairs] > beside
            moved = np.where((own > 0.0) | (beside == 0), sign * shift[pairs], 0.0)
            premium = np.where(there, PREMIUM * theta, 0.0)
            premiums += float(premium[some].sum())
            worths.append(((theta * price[pairs] + gain * own) / 2.0 + moved - idle + premium)[some])
            links.append(np.flatnonzero(some))
        sides.append((np.concatenate(worths), d * idle))
        places.append(links)
    pair = block_diagonal([relayed[beside][np.ix_(places[0][beside], places[1][beside])] for beside in range(d)])
    (row, idle_in), (column, idle_out) = sides
    return at_most(row, column, pair, d, float(certificate.most[k]) - idle_in - idle_out + premiums)


def block_diagonal(blocks: list[Floats]) -> Floats:
    """The matrices along the diagonal of one that is 0 elsewhere."""
    whole = np.zeros(np.sum([block.shape for block in blocks], axis=0))
    at = np.zeros(2, dtype=np.int64)
    for block in blocks:
        whole[at[0] : at[0] + block.shape[0], at[1] : at[1] + block.shape[1]] = block
        at += block.shape
    return whole


def at_most(row: Floats, column: Floats, pair: Floats, d: int, limit: float) -> bool:
    """Whether it is shown that no I, J of d at most have sum_I row + sum_J column + sum_{I x J} pair > limit.

    Args:
        row, column: float64[q].
        pair: float64[q, q], not negative.
    """
    if limit < 0.0:
        return False
    by_row = _divided(row, column, pair, d, limit)
    rows = row + _sum_of_largest(by_row, d)
    columns = pair - by_row
    order = np.argsort(-rows, kind="stable")
    row, rows, pair, columns = row[order], rows[order], pair[order], columns[order]
    q = len(row)
    after = np.zeros((q + 1, d + 1))  # the r largest of the rows from place s on, as they are in order
    tail = np.zeros((q + 1, d + 1, len(column)))  # what r of these rows add to each column
    largest = np.zeros((d, len(column)))
    for s in range(q - 1, -1, -1):
        largest = -np.sort(-np.vstack((largest, columns[s])), axis=0)[:d]
        tail[s, 1:] = np.cumsum(largest, axis=0)
        part = np.maximum(rows[s : s + d], 0.0)
        after[s, 1 : len(part) + 1] = np.cumsum(part)
        after[s, len(part) + 1 :] = part.sum()
    seen = 0
    # sets as the place after their last row, what their rows are worth, and the worth of every column
    level = [(np.zeros(1, dtype=np.int64), np.zeros(1), column[None, :].copy())]
    for depth in range(d + 1):
        below: list[tuple[Ints, Floats, Floats]] = []
        while level:
            end_if_left()
            row_index, fixed, base = level.pop()
            if (fixed + _sum_of_largest(base, d) > limit).any():
                return False
            if depth == d:
                continue
            # a row at a time: the sets that may still take it, or one after it
            for s in range(q):
                may = np.flatnonzero(row_index <= s)
                open_sets = may[
                    fixed[may] + after[s, d - depth] + _sum_of_largest(base[may] + tail[s, d - depth], d) > limit
                ]
                seen += len(may)
                if seen > NODES:
                    return False
                if not len(open_sets):
                    if len(may) == len(row_index):
                        break
                    continue
                below.append((np.full(len(open_sets), s + 1), fixed[open_sets] + row[s], base[open_sets] + pair[s]))
        level = _packed(below)
    return True


def _packed(parts: list[tuple[Ints, Floats, Floats]]) -> list[tuple[Ints, Floats, Floats]]:
    """The same sets in few large arrays."""
    packed, waiting, size = [], [], 0
    for part in parts:
        waiting.append(part)
        size += len(part[0])
        if size >= _CHUNK:
            packed.append(waiting)
            waiting, size = [], 0
    if waiting:
        packed.append(waiting)
    return [tuple(np.concatenate(block) for block in zip(*some, strict=True)) for some in packed]  # type: ignore[misc]


def _sum_of_largest(values: Floats, d: int) -> Floats:
    """float64[sets]: sum of the d largest positive values of each row."""
    values = np.maximum(values, 0.0)
    if values.shape[1] > d:
        values = np.partition(values, values.shape[1] - d, axis=1)[:, -d:]
    return np.asarray(values.sum(axis=1))


def _divided(row: Floats, column: Floats, pair: Floats, d: int, limit: float) -> Floats:
    """float64[q, q]: the part of every pair that its row is charged; what is best by subgradient steps to the limit."""
    by_row = pair / 2.0
    best, best_bound = by_row, np.inf
    d = min(d, *pair.shape)
    for _ in range(_STEPS):
        by_column = pair - by_row
        row_best = np.argpartition(-by_row, d - 1, axis=1)[:, :d]
        column_best = np.argpartition(-by_column, d - 1, axis=0)[:d]
        rows = row + np.take_along_axis(by_row, row_best, 1).sum(axis=1)
        columns = column + np.take_along_axis(by_column, column_best, 0).sum(axis=0)
        bound = float(_sum_of_largest(rows[None, :], d)[0] + _sum_of_largest(columns[None, :], d)[0])
        if bound < best_bound:
            best, best_bound = by_row, bound
        if bound <= limit:
            break
        length = 0.7 * (bound - limit) / (2 * d * d)
        by_row = by_row.copy()
        for i in np.argsort(-rows, kind="stable")[:d]:
            by_row[i, row_best[i]] -= length
        for j in np.argsort(-columns, kind="stable")[:d]:
            by_row[column_best[:, j], j] += length
        by_row = np.clip(by_row, 0.0, pair)
    return best


def evaluate_cases(n: int, d: int, demand: Floats, certificate: RelayCases) -> float:
    """The least theta proven in any case; 0 where one is not.

    Raises:
        InputError: bad demand or prices, or cases that are no tree or more than MOST_CASES.
    """
    splits, prices = certificate.splits.tolist(), certificate.prices
    leaves = sum(i == j for i, j, _ in splits)
    if leaves != len(prices) or len(splits) != 2 * leaves - 1 or leaves > MOST_RELAY_CASES:
        raise InputError(f"cases: {len(splits)} nodes and {len(prices)} sets of prices, at most {MOST_RELAY_CASES}")
    if any(not (0 <= i < n and 0 <= j < n and 0 <= count <= d) for i, j, count in splits):
        raise InputError(f"cases: splits by links of {n} servers of degree {d}")
    left = [LinkCounts.any(n, d)]
    proven, given = float("inf"), iter(prices)
    for i, j, count in splits:
        if not left:
            raise InputError("cases: nodes that belong to no other")
        counts = left.pop()
        if i != j:
            left.extend(reversed(counts.split(i, j, count)))
        else:
            proven = min(proven, evaluate_relay(n, d, demand, next(given), counts))
    return proven
