"""Bounds on theta over all topologies follow from formulas that hold for any multipliers, and from relays."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.core.network import (
    MOST_RELAY_CASES,
    LayerPrices,
    LengthCertificate,
    LinkCounts,
    RelayCases,
    RelayPrices,
    TopologyProblem,
    TwoLayerMultipliers,
)
from topoopt.core.process import end_if_left
from topoopt.core.proofs import Argument, Bound, Tolerance
from topoopt.core.topology import Topology


def checked(n: int, d: int, demand: Floats, issues: Mapping[str, bool] | None = None) -> Floats:
    """Demand as float64[n, n] with zero diagonal.

    Raises:
        InputError: n below 2, d below 1, demand of the wrong shape, negative or not finite, or one of `faults` is true.
    """
    problems = [Problem(message, path="certificate") for message, wrong in (issues or {}).items() if wrong]
    if n < 2:
        problems.append(Problem("a bound needs two servers at least", path="servers", value=str(n), allowed=">= 2"))
    if d < 1:
        problems.append(Problem("degree is too small", path="degree", value=str(d), allowed=">= 1"))
    matrix = np.array(demand, dtype=np.float64)
    if matrix.shape != (n, n):
        problems.append(
            Problem("demand has the wrong shape", path="demand", value=str(matrix.shape), allowed=f"({n}, {n})")
        )
    elif not np.isfinite(matrix).all() or (matrix < 0).any():
        problems.append(Problem("demand must be finite and not negative", path="demand", allowed=">= 0"))
    if problems:
        raise InputError(problems)
    np.fill_diagonal(matrix, 0.0)
    return matrix


def evaluate_cut(n: int, d: int, demand: Floats, members: Collection[int]) -> float:
    """Bound on theta by a set S of servers: it counts the demand from S to the rest.

    Raises:
        InputError: bad demand, or a set that is empty, full, or has servers that do not exist.
    """
    senders = np.zeros(n, dtype=np.bool_)
    bad = [i for i in members if not 0 <= i < n]
    size = len(set(members))
    demand = checked(n, d, demand, {"cut names an unknown server": bool(bad), "cut is no cut": not 0 < size < n})
    senders[list(members)] = True
    return float(demand[np.ix_(senders, ~senders)].sum()) / (d * min(size, n - size))


def node_cut_bound(n: int, d: int, demand: Floats) -> tuple[float, tuple[int, ...]]:
    """The busiest server: all it sends or receives crosses its d links."""
    demand = checked(n, d, demand)
    out, into = demand.sum(axis=1), demand.sum(axis=0)
    if out.max() >= into.max():
        senders: tuple[int, ...] = (int(out.argmax()),)
    else:
        busiest = int(into.argmax())
        senders = tuple(i for i in range(n) if i != busiest)
    return evaluate_cut(n, d, demand, senders), senders


def dual_cut(topology: Topology, demand: Floats, certificate: LengthCertificate) -> Floats:
    """float64[n, n], the cut of a topology's link lengths: lambda(X) <= sum cut_ab X_ab, X the links of each pair.

    Raises:
        InputError: bad demand, lengths negative or not finite, servers no path joins, no demand at a distance.
    """
    n = topology.servers
    lengths = certificate.lengths
    issues = {
        "lengths do not fit the arcs": lengths.shape != (len(topology.arcs),),
        "lengths must be finite and not negative": not np.isfinite(lengths).all() or bool((lengths < 0).any()),
    }
    demand = checked(n, topology.degree, demand, issues)
    distance = np.full((n, n), np.inf)
    np.minimum.at(distance, (topology.arcs[:, 0], topology.arcs[:, 1]), lengths)
    np.fill_diagonal(distance, 0.0)
    for k in range(n):
        np.minimum(distance, distance[:, k, None] + distance[None, k, :], out=distance)
    if not np.isfinite(distance).all():
        raise InputError([Problem("the topology does not connect all servers, so it gives no cut", path="topology")])
    total = float((demand * distance).sum())
    if total <= 0:
        raise InputError([Problem("no demand has a positive distance, so the lengths prove nothing", path="lengths")])
    return np.asarray(distance / total)


def evaluate_cut_mixture(n: int, d: int, cuts: tuple[Floats, ...], weights: Floats) -> float:
    """Bound on theta over every topology: lambda <= max over degree-constrained link counts of a mixture of cuts.

    The largest value is at most d (sum alpha + sum beta) for prices with alpha_a + beta_b >= mixture_ab (parallel links
    are allowed, so no pair has a price of its own). The prices are repaired to satisfy that, so any mixture is valid.

    Raises:
        InputError: weights of the wrong number, negative, or all zero.
    """
    total = float(weights.sum()) if len(weights) else 0.0
    if len(weights) != len(cuts) or (weights < 0).any() or not total > 0:
        raise InputError([Problem("one weight per cut, not negative, some positive", path="weights")])
    mixture = sum((w / total * cut for w, cut in zip(weights, cuts, strict=True)), np.zeros((n, n)))
    # d y is a point of the polytope with pair limit d; prices of the unlimited one come from count 1 and pair limit 1
    alpha, beta = matching_prices(mixture, 1) if n > 2 else (np.zeros(n), np.zeros(n))
    short = mixture - alpha[:, None] - beta[None, :]
    np.fill_diagonal(short, -np.inf)
    alpha = alpha + np.maximum(short.max(axis=1), 0.0)
    return 1.0 / (d * float(alpha.sum() + beta.sum()))


def matching_dual(weight: Floats, count: int, alpha: Floats, beta: Floats) -> float:
    """Upper bound on the b-matching over pairs i != j; alpha, beta are float64[n], not negative."""
    end_if_left()
    rest = np.maximum(weight - alpha[:, None] - beta[None, :], 0.0)
    np.fill_diagonal(rest, 0.0)
    return float(count * (alpha.sum() + beta.sum()) + rest.sum())


def matching_prices(weight: Floats, count: int, *, sweeps: int = 600) -> tuple[Floats, Floats]:
    """Good alpha, beta: primal-dual hybrid gradient on the b-matching, polished by exact row and column steps.

    Args:
        weight: float64[n, n]; the diagonal does not count.
        count: c, at least 1.
        sweeps: gradient iterations; more tightens the value, any number is valid.
    """
    n = len(weight)
    if count >= n - 1:
        return np.zeros(n), np.zeros(n)
    if _turns(weight):  # the largest of every row are as many of every column, so rows alone settle it
        row = np.partition(weight[0, 1:], n - 1 - count)
        return np.full(n, max(0.0, float(row[n - 1 - count]))), np.zeros(n)
    free = ~np.eye(n, dtype=np.bool_)
    scale = float(np.abs(weight[free]).mean()) or 1.0
    gain = np.where(free, weight / scale, -1.0)
    best: tuple[float, Floats, Floats] = (np.inf, np.zeros(n), np.zeros(n))
    y = np.zeros((n, n))
    alpha, beta = _row_step(gain, count, np.zeros(n)), np.zeros(n)
    mean_alpha, mean_beta, weights = np.zeros(n), np.zeros(n), 0
    step = 1.0 / (n - 1)
    for sweep in range(1, sweeps + 1):
        end_if_left()
        new = np.clip(y + 0.5 * (gain - alpha[:, None] - beta[None, :]), 0.0, 1.0)
        new[~free] = 0.0
        ahead = 2.0 * new - y
        y = new
        alpha = np.maximum(0.0, alpha + step * (ahead.sum(axis=1) - count))
        beta = np.maximum(0.0, beta + step * (ahead.sum(axis=0) - count))
        mean_alpha, mean_beta, weights = mean_alpha + alpha, mean_beta + beta, weights + 1
        if sweep % 50 == 0 or sweep == sweeps:
            for tried in ((alpha, beta), (mean_alpha / weights, mean_beta / weights)):
                polished = _polish(gain, count, tried[1])
                if polished[0] < best[0]:
                    best = polished
            mean_alpha, mean_beta, weights = np.zeros(n), np.zeros(n), 0
    return best[1] * scale, best[2] * scale


def _turns(weight: Floats) -> bool:
    """Whether weights of pairs i != j depend, to the last bit, on (j - i) mod n alone."""
    n = len(weight)
    first = weight[0]
    return all(
        np.array_equal(weight[i, i + 1 :], first[1 : n - i]) and np.array_equal(weight[i, :i], first[n - i :])
        for i in range(1, n)
    )


def _row_step(gain: Floats, count: int, beta: Floats) -> Floats:
    """alpha that minimises the dual for fixed beta: the c-th largest of each row, if positive."""
    left = gain - beta[None, :]
    np.fill_diagonal(left, -np.inf)
    rank_index = len(gain) - count
    return np.maximum(np.partition(left, rank_index, axis=1)[:, rank_index], 0.0)


def _polish(gain: Floats, count: int, beta: Floats) -> tuple[float, Floats, Floats]:
    value = np.inf
    alpha = np.zeros(len(gain))
    for _ in range(5):
        alpha = _row_step(gain, count, beta)
        beta = _row_step(gain.T, count, alpha)
        now = matching_dual(gain, count, alpha, beta)
        if now > value * (1.0 - 1e-7):
            break
        value = now
    return min(now, value), alpha, beta


def layer_counts(n: int, d: int, links: LinkDirection = LinkDirection.UNIDIRECTIONAL) -> tuple[int, ...]:
    """c_1, c_2, ...: most servers within k hops, as long as that is not all n - 1 others."""
    counts = []
    within, layer = 0, d
    while layer > 0 and within + layer < n - 1:
        within += layer
        counts.append(within)
        layer *= d if links is LinkDirection.UNIDIRECTIONAL else d - 1
    return tuple(counts)


def most_arcs(n: int, d: int, links: LinkDirection) -> int:
    """Arcs that n servers of degree d have at most; fibre pairs have two each."""
    return n * d if links is LinkDirection.UNIDIRECTIONAL else n * d // 2 * 2


def _by_rows(demand: Floats, counts: tuple[int, ...]) -> float:
    """Least sum D dist where every row has its largest entries nearest."""
    ascending = np.sort(demand, axis=1)
    return float(demand.sum()) + sum(float(ascending[:, : -count or None].sum()) for count in counts)


def evaluate_layered(
    n: int,
    d: int,
    demand: Floats,
    certificate: LayerPrices,
    links: LinkDirection = LinkDirection.UNIDIRECTIONAL,
    left: float = 1.0,
) -> float:
    """Bound on theta from any prices, not negative.

    Args:
        left: part that counts of what the prices prove.

    Raises:
        InputError: bad demand, or prices of the wrong shape, negative or not finite.
    """
    counts = layer_counts(n, d, links)
    shape = (len(counts), n)
    prices = np.concatenate((certificate.alpha.ravel(), certificate.beta.ravel()))
    issues = {
        "prices have the wrong shape": certificate.alpha.shape != shape or certificate.beta.shape != shape,
        "prices must be finite and not negative": not np.isfinite(prices).all() or bool((prices < 0).any()),
    }
    demand = checked(n, d, demand, issues)
    total = float(demand.sum())
    hops = total + sum(
        max(0.0, total - matching_dual(demand, count, certificate.alpha[k], certificate.beta[k]))
        for k, count in enumerate(counts)
    )
    return max(left * hops, _by_rows(demand, counts), _by_rows(demand.T, counts)) / max(1, most_arcs(n, d, links))


def layered_bound(
    n: int,
    d: int,
    demand: Floats,
    links: LinkDirection = LinkDirection.UNIDIRECTIONAL,
    *,
    sweeps: int = 600,
    left: float = 1.0,
) -> tuple[float, LayerPrices]:
    """The layered bound, its b-matchings solved to about five digits; `left`: part of what they prove that counts."""
    demand = checked(n, d, demand)
    prices = [matching_prices(demand, count, sweeps=sweeps) for count in layer_counts(n, d, links)]
    certificate = LayerPrices(
        np.array([p[0] for p in prices]).reshape(-1, n), np.array([p[1] for p in prices]).reshape(-1, n)
    )
    return evaluate_layered(n, d, demand, certificate, links, left), certificate


@dataclass(frozen=True, eq=False)
class TwoLayerCertificate:
    """Multipliers of the formula.

    Attributes:
        weight: float64[n, n], w.
        first_link: float32[n, n, n], u[i, k, j], the part of w[i, j] charged to the first link of i -> k -> j.
        alpha, beta: float64[n].
        layers: prices of the layers 3, 4, ...
    """

    weight: Floats
    first_link: NDArray[np.float32]
    alpha: Floats
    beta: Floats
    layers: LayerPrices


def evaluate_two_layer(n: int, d: int, demand: Floats, certificate: TwoLayerCertificate) -> float:
    """Bound on theta from any multipliers; w and u are first clipped into the ranges the proof needs.

    Raises:
        InputError: bad demand, or multipliers of the wrong shape, negative prices, or not finite.
    """
    layers = certificate.layers
    counts = layer_counts(n, d)[2:]
    prices = (certificate.alpha, certificate.beta, layers.alpha, layers.beta)
    shape = (len(counts), n)
    issues = {
        "weight has the wrong shape": certificate.weight.shape != (n, n),
        "first_link has the wrong shape": certificate.first_link.shape != (n, n, n),
        "prices have the wrong shape": prices[0].shape != (n,)
        or prices[1].shape != (n,)
        or layers.alpha.shape != shape
        or layers.beta.shape != shape,
        "prices must be finite and not negative": any(not np.isfinite(p).all() or bool((p < 0).any()) for p in prices),
        "multipliers must be finite": not np.isfinite(certificate.weight).all()
        or not np.isfinite(certificate.first_link).all(),
    }
    demand = checked(n, d, demand, issues)
    total = float(demand.sum())
    weight = np.clip(certificate.weight, 0.0, demand)
    values = pair_values(d, demand, weight, certificate.first_link)
    within_two = float((demand - weight).sum()) + matching_dual(values, d, certificate.alpha, certificate.beta)
    hops = 3.0 * total - within_two
    for k, count in enumerate(counts):
        hops += max(0.0, total - matching_dual(demand, count, layers.alpha[k], layers.beta[k]))
    return hops / (n * d)


def pair_values(d: int, demand: Floats, weight: Floats, first_link: NDArray[np.float32]) -> Floats:
    """float64[n, n]: C of the formula, one server k at a time to save memory."""
    n = len(demand)
    values = demand + weight
    top = max(0, n - d)
    for k in range(n):
        first = np.clip(first_link[:, k, :].astype(np.float64), 0.0, weight)  # [i, j]
        second = weight - first
        for part in (first, second):  # i, k, j distinct
            np.fill_diagonal(part, 0.0)
            part[k, :] = 0.0
            part[:, k] = 0.0
        values[:, k] += np.partition(first, top, axis=1)[:, top:].sum(axis=1) if d < n else first.sum(axis=1)
        values[k, :] += np.partition(second, top, axis=0)[top:].sum(axis=0) if d < n else second.sum(axis=0)
    return values


def two_layer_from(
    n: int, d: int, demand: Floats, multipliers: TwoLayerMultipliers
) -> tuple[float, TwoLayerCertificate]:
    """Bound from multipliers w, u found elsewhere (a compiled search): prices are added, then the formula decides."""
    weight, first_link = np.clip(multipliers.weight, 0.0, demand), multipliers.first_link
    alpha, beta = matching_prices(pair_values(d, demand, weight, first_link), d)
    prices = [matching_prices(demand, count) for count in layer_counts(n, d)[2:]]
    layers = LayerPrices(
        np.array([p[0] for p in prices]).reshape(-1, n), np.array([p[1] for p in prices]).reshape(-1, n)
    )
    certificate = TwoLayerCertificate(weight, first_link, alpha, beta, layers)
    return evaluate_two_layer(n, d, demand, certificate), certificate


def topology_bounds(
    n: int,
    d: int,
    demand: Floats,
    multipliers: TwoLayerMultipliers | None = None,
    links: LinkDirection = LinkDirection.UNIDIRECTIONAL,
    left: float = 1.0,
) -> tuple[Bound, ...]:
    """Node cut, layered and (with multipliers for it) two-layer bounds on theta over every topology of degree d.

    Args:
        multipliers: of the two-layer bound.
        links: single fibres or fibre pairs.
        left: part that counts of what searched prices of layers prove.

    Raises:
        InputError: bad demand, n below 2, or d below 1.
    """
    bounds = [
        Bound(node_cut_bound(n, d, demand)[0], Argument.NODE_CUT),
        Bound(layered_bound(n, d, demand, links, left=left)[0], Argument.LAYERED_MOORE),
    ]
    if multipliers is not None:
        bounds.append(Bound(two_layer_from(n, d, demand, multipliers)[0], Argument.TWO_LAYER))
    return tuple(bounds)


def failed_link_bounds(n: int, d: int, links: LinkDirection, demand: Floats, left: float = 1.0) -> tuple[Bound, ...]:
    """These bounds; infinite when the only link of a server with demand may fail.

    Args:
        left: as of `topology_bounds`.

    Raises:
        InputError: bad demand, n below 2, or d below 1.
    """
    whole = topology_bounds(n, d, demand, links=links, left=left)
    busiest = float(max(demand.sum(axis=0).max(), demand.sum(axis=1).max()))
    node = busiest / (d - 1) if d > 1 else math.inf
    arcs = most_arcs(n, d, links)
    rest = arcs - (2 if links is LinkDirection.BIDIRECTIONAL else 1)
    hops = layered_bound(n, d, demand, links, left=left)[0] * arcs / rest if rest > 0 else math.inf
    return (*whole, Bound(node, Argument.FAILED_LINK_CUT), Bound(hops, Argument.FAILED_LINK_HOPS))


def failed_link_bound(n: int, d: int, links: LinkDirection, demand: Floats, left: float = 1.0) -> Bound:
    """The largest of the bounds on theta after the worst failed link."""
    return max(failed_link_bounds(n, d, links, demand, left), key=lambda bound: bound.value)


def peer_cut(problem: TopologyProblem) -> float:
    """The node cut where parallel links are forbidden: a server has no more links than peers it may be joined to."""
    n = problem.servers
    allowed = ~np.eye(n, dtype=np.bool_)
    for tail, head in problem.forbidden:
        allowed[tail, head] = False
        if problem.links is LinkDirection.BIDIRECTIONAL:
            allowed[head, tail] = False
    worst = 0.0
    for demand, peers in ((problem.demand, allowed), (problem.demand.T, allowed.T)):
        most = np.full(n, problem.degree)
        if not problem.parallel_links:
            most = np.minimum(most, peers.sum(axis=1))
        traffic = demand.sum(axis=1)
        worst = max(worst, float((traffic / np.maximum(most, 1)).max()))
    return worst


def formulas(problem: TopologyProblem, left: float = 1.0) -> tuple[Bound, ...]:
    """Cuts and layered Moore distances, which hold for every topology the problem allows; one demand.

    Args:
        left: part of what searched multipliers prove.
    """
    bounds = topology_bounds(problem.servers, problem.degree, problem.demand, links=problem.links, left=left)
    return bounds if problem.parallel_links else (*bounds, Bound(peer_cut(problem), Argument.PEER_CUT))


SEARCHED = frozenset({Argument.LAYERED_MOORE, Argument.TWO_LAYER, Argument.FAILED_LINK_HOPS})
"""Arguments whose multipliers are searched anew where they do not stand in the file."""

LEFT = 1 - Tolerance.FORMULA.relative / 2
"""What is left of what such multipliers prove when it is stated, so that any other search proves as much."""


def quick_bound(problem: TopologyProblem) -> Bound:
    """The largest of the formulas, as it may be stated without multipliers."""
    return max(formulas(problem, LEFT), key=lambda bound: bound.value)


def two_layer_bound(problem: TopologyProblem, multipliers: TwoLayerMultipliers, iterations: int) -> Bound:
    """A little less than multipliers prove, whoever found them; the iterations are noted for the next check."""
    value = two_layer_from(problem.servers, problem.degree, problem.demand, multipliers)[0]
    return Bound(value * LEFT, Argument.TWO_LAYER, iterations)


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
    if d <= 4:
        return _by_pairs(row, column, pair, d, limit)
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


def _by_pairs(row: Floats, column: Floats, pair: Floats, d: int, limit: float) -> bool:
    """The same for d <= 4: I is two pairs of rows, and worth no more than both are, each with half of every column.

    That holds however its rows are paired: sets are looked at once, by those two pairs that are worth least. One more
    row stands for none.
    """
    none = len(row)
    row, pair = np.append(row, 0.0), np.vstack((pair, np.zeros_like(column)))
    i, j = (np.append(side, none) for side in np.triu_indices(none + 1, 1))
    pair_worths = row[i] + row[j]
    for at in range(0, len(i), _CHUNK):
        part = slice(at, at + _CHUNK)
        pair_worths[part] += _sum_of_largest(column / 2.0 + pair[i[part]] + pair[j[part]], d)
    order = np.argsort(-pair_worths, kind="stable")
    i, j, pair_worths = i[order], j[order], pair_worths[order]
    joint = np.empty((none + 1, none + 1))
    joint[i, j] = joint[j, i] = pair_worths
    after = np.searchsorted(-pair_worths, pair_worths - limit)  # the first pair that is not enough beside each
    seen = 0
    for first in np.flatnonzero(after > np.arange(len(i))).tolist():
        end_if_left()
        a, b, others = i[first], j[first], slice(first, after[first])
        seen += after[first] - first
        if seen > NODES:
            return False
        k, l, total = i[others], j[others], pair_worths[first] + pair_worths[others]  # noqa: E741
        open_sets = np.minimum(joint[a, k] + joint[b, l], joint[a, l] + joint[b, k]) >= total
        for taken in (a, b):
            open_sets &= (taken == none) | ((taken != k) & (taken != l))
        open_sets &= np.sum(np.array([np.full_like(k, a), np.full_like(k, b), k, l]) < none, axis=0) <= d
        k, l = k[open_sets], l[open_sets]  # noqa: E741
        fixed, base = row[a] + row[b], column + pair[a] + pair[b]
        for at in range(0, len(k), _CHUNK):
            x, y = k[at : at + _CHUNK], l[at : at + _CHUNK]
            if (fixed + row[x] + row[y] + _sum_of_largest(base + pair[x] + pair[y], d) > limit).any():
                return False
    return True


def _packed(parts: list[tuple[Ints, Floats, Floats]]) -> list[tuple[Ints, Floats, Floats]]:
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
