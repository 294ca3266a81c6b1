r"""Lower bounds for hierarchical networks, re-derived from a certificate or from sums alone; no solver.

A job takes at least what any of its paths takes, a collective at least any weighted mean of its times in the
dimensions. With path weights lambda and bytes shared over dimensions as the certificate says,

    sum of weighted times >= F + sum_j W_j / B_j,       F: weighted compute on the paths, W_j: weighted bytes,

for every B > 0. The rest is separable: with prices y of linear rows, min over one column of W/x + r x is 2 sqrt(W r).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from topoopt.core.hierarchy import Design, Fleet, HierarchicalNetwork, HierarchicalObjective, HierarchicalProblem
from topoopt.core.hierarchy_solution import BandwidthCertificate, GroupShare, PathWeight
from topoopt.core.hierarchy_workload import Collective, HierarchicalWorkload, LayerPhase, Loop
from topoopt.verify.hierarchy.times import moved_bytes
from topoopt.verify.laws.rounding import error_of_sum

INFINITE = math.inf
TAU = "1/cost"


class CertificateError(ValueError):
    """The certificate speaks of things that are not there."""


@dataclass(frozen=True)
class LinearRow:
    """low <= sum of coefficient x column <= high."""

    name: str
    coefficients: tuple[float, ...]
    low: float
    high: float


@dataclass(frozen=True)
class CertifiedWork:
    """What a certificate puts together: F, W by dimension, and the sum of path weights of each job."""

    compute: float
    bytes_by_dimension: tuple[float, ...]
    path_weights: tuple[float, ...]


def certified_bound(problem: HierarchicalProblem, design: Design, proof: BandwidthCertificate, best: float) -> float:
    """The lower bound that a certificate proves for a design, whatever its numbers.

    Args:
        problem: objective, fleet and limits.
        design: shape and jobs.
        proof: weights, shares and prices; too large ones are scaled down to what is valid.
        best: objective of a known solution; solutions above it need not be considered.

    Raises:
        CertificateError: unknown jobs, groups, steps or rows.
    """
    objective, network = problem.objective, design.network
    work = _work(problem, design, proof)
    prices = dict(proof.prices)
    if len(prices) < len(proof.prices):
        raise CertificateError("a row is priced twice")
    prices_usd = [network.npus * (one.usd_per_gbytes_per_s or 0.0) for one in network.dimensions]
    weights, slopes, constant = list(work.bytes_by_dimension), [0.0] * len(network.dimensions), work.compute
    rows = _linear_rows(problem, network, prices_usd)
    low = [one.min_gbytes_per_s for one in network.dimensions]
    high = [one.max_gbytes_per_s for one in network.dimensions]
    sizes = abs(constant)
    if objective is HierarchicalObjective.TIME_TIMES_COST:
        rows = _homogeneous(rows, network, prices_usd)
        low, high = [0.0] * (len(low) + 1), [INFINITE] * (len(high) + 1)
        weights, slopes, constant = [work.compute, *weights], [0.0, *slopes], 0.0
    cutoff: list[LinearRow] = []
    if objective is HierarchicalObjective.COST:
        slopes = list(prices_usd)
        limited = _limit_weight(problem, design, work) * (problem.time_limit_ns or 0.0)
        constant += network.fixed_cost_usd - limited
        sizes += network.fixed_cost_usd + 2 * limited
        if math.isfinite(best):
            cutoff.append(LinearRow("known", tuple(prices_usd), -INFINITE, best - network.fixed_cost_usd))
    total, size = constant, sizes
    priced = [0.0] * len(slopes)
    for row in rows:
        price = prices.pop(row.name, 0.0)
        side = row.low if price > 0 else row.high
        if price == 0 or math.isinf(side):
            continue
        total += price * side
        size += abs(price * side)
        slopes = [slope - price * one for slope, one in zip(slopes, row.coefficients, strict=True)]
        priced = [own + abs(price * one) for own, one in zip(priced, row.coefficients, strict=True)]
    if prices:
        raise CertificateError(f"no such row: {', '.join(sorted(prices))}")
    ceiling = _ceilings([*rows, *cutoff], low, high)
    # A column costs less the less its slope is: the least that it can be before rounding.
    slopes = [slope - error_of_sum(len(rows) + 2, own) for slope, own in zip(slopes, priced, strict=True)]
    columns = [_column(w, r, lo, hi) for w, r, lo, hi in zip(weights, slopes, low, ceiling, strict=True)]
    size += sum(map(abs, columns))
    terms = _terms(design, proof) + 2 * len(rows) + 8 * len(columns)
    return total + sum(columns) - error_of_sum(terms, size)


def terms_of(job: HierarchicalWorkload) -> int:
    """Terms of the sums of compute and bytes on a path through a job; each with its factors."""
    phases = [phase for one in job.layers for phase in (one.forward, one.input_gradient, one.weight_gradient)]
    phases += [task.phase for task in job.tasks]
    return sum(4 * (1 + len(phase.communications)) for phase in phases)


def _terms(design: Design, proof: BandwidthCertificate) -> int:
    """Terms of the sums that a certificate puts together."""
    paths = sum(terms_of(design.workloads[path.job]) + 4 for path in proof.paths)
    return paths + (8 + 2 * len(design.network.dimensions)) * len(proof.shares)


def marginal_ns(
    problem: HierarchicalProblem, design: Design, proof: BandwidthCertificate, bandwidth: Sequence[float]
) -> list[float]:
    """ns per GB/s in each dimension: bytes a certificate holds against it, over bandwidth squared, per unit of time."""
    work = _work(problem, design, proof)
    unit = _limit_weight(problem, design, work)
    return [
        held / unit / rate**2 if unit > 0 and rate > 0 else 0.0
        for held, rate in zip(work.bytes_by_dimension, bandwidth, strict=True)
    ]


def _limit_weight(problem: HierarchicalProblem, design: Design, work: CertifiedWork) -> float:
    """eta: how often the certificate uses that the time limit holds."""
    parts = [own / job.weight for own, job in zip(work.path_weights, design.workloads, strict=True)]
    return sum(parts) if problem.fleet is Fleet.WORST_CASE else max(parts)


def _work(problem: HierarchicalProblem, design: Design, proof: BandwidthCertificate) -> CertifiedWork:
    jobs = design.workloads
    sums = [0.0] * len(jobs)
    for path in proof.paths:
        if not 0 <= path.job < len(jobs) or not 0 <= path.weight < INFINITE:
            raise CertificateError("a path of no job, or of no weight")
        sums[path.job] += path.weight
    scale = [1.0] * len(jobs)
    if problem.objective is not HierarchicalObjective.COST:
        if problem.fleet is Fleet.WORST_CASE:
            used = sum(own / job.weight for own, job in zip(sums, jobs, strict=True))
            scale = [1.0 / max(1.0, used)] * len(jobs)
        else:
            scale = [job.weight / max(job.weight, own) for own, job in zip(sums, jobs, strict=True)]
    compute = 0.0
    due: dict[tuple[int, int, Collective], float] = {}
    for path in proof.paths:
        weight = path.weight * scale[path.job]
        compute += weight * follow(jobs[path.job], path, weight, due)
    moved = [0.0] * len(design.network.dimensions)
    for share in proof.shares:
        for place, one in enumerate(_shared(jobs, share, due)):
            moved[place] += one
    return CertifiedWork(compute, tuple(moved), tuple(own * factor for own, factor in zip(sums, scale, strict=True)))


def follow(
    job: HierarchicalWorkload, path: PathWeight, weight: float, due: dict[tuple[int, int, Collective], float]
) -> float:
    """Compute on one path; its bytes are added to `due` by group."""
    compute = 0.0

    def take(phase: LayerPhase, times: float, *, compute_too: bool = True) -> None:
        nonlocal compute
        compute += phase.compute_ns * times if compute_too else 0.0
        for one in phase.communications:
            key = (path.job, one.communicator, one.collective)
            due[key] = due.get(key, 0.0) + weight * times * one.size_bytes

    if job.loop is Loop.DAG:
        previous = None
        for step in path.steps:
            if not 0 <= step < len(job.tasks) or (previous is not None and previous not in job.tasks[step].after):
                raise CertificateError("a path that the tasks do not have")
            take(job.tasks[step].phase, 1.0)
            previous = step
        return compute
    chosen = set(path.steps)
    if not chosen <= set(range(len(job.layers))):
        raise CertificateError("a path through layers that do not exist")
    for index, layer in enumerate(job.layers):
        take(layer.forward, layer.repeat)
        compute += layer.input_gradient.compute_ns * layer.repeat
        both = job.loop is Loop.NO_OVERLAP or not _moves(layer.input_gradient, job)
        if both or index not in chosen:
            take(layer.input_gradient, layer.repeat, compute_too=False)
        if both or index in chosen:
            take(layer.weight_gradient, layer.repeat)
    return compute


def _moves(phase: LayerPhase, job: HierarchicalWorkload) -> bool:
    """Whether the collectives of a phase move anything."""
    return any(
        any(rank > 1 for rank in job.communicators[one.communicator].ranks) and one.size_bytes > 0
        for one in phase.communications
    )


def _shared(
    jobs: Sequence[HierarchicalWorkload], share: GroupShare, due: dict[tuple[int, int, Collective], float]
) -> list[float]:
    """Bytes in each dimension of one group's share; more than is due is scaled down. A group counts once."""
    key = (share.job, share.communicator, share.collective)
    if key not in due:
        raise CertificateError("shares of a group that is on no path, or twice")
    amount = due.pop(key)
    given = sum(share.bytes_by_dimension)
    if not all(0 <= one < INFINITE for one in share.bytes_by_dimension):
        raise CertificateError("a share that is no amount of bytes")
    scale = min(1.0, amount / given) if given > 0 else 0.0
    unit = moved_bytes(share.collective, 1.0, jobs[share.job].communicators[share.communicator].ranks)
    return [scale * one * per_byte for one, per_byte in zip(share.bytes_by_dimension, unit, strict=True)]


def _linear_rows(
    problem: HierarchicalProblem, network: HierarchicalNetwork, prices_usd: Sequence[float]
) -> list[LinearRow]:
    rows = [LinearRow(one.name, one.coefficients, one.at_least, one.at_most) for one in network.constraints]
    if problem.cost_cap_usd is not None:
        rows.append(LinearRow("cost cap", tuple(prices_usd), -INFINITE, problem.cost_cap_usd - network.fixed_cost_usd))
    return rows


def _homogeneous(
    rows: Sequence[LinearRow], network: HierarchicalNetwork, prices_usd: Sequence[float]
) -> list[LinearRow]:
    """Rows over (tau, tau B): every one-sided row times tau, bounds as rows, and cost x tau = 1."""
    made = []
    for row in rows:
        if row.low == row.high:
            made.append(LinearRow(row.name, (-row.low, *row.coefficients), 0.0, 0.0))
            continue
        if row.low > -INFINITE:
            made.append(LinearRow(f"{row.name} at least", (-row.low, *row.coefficients), 0.0, INFINITE))
        if row.high < INFINITE:
            made.append(LinearRow(f"{row.name} at most", (-row.high, *row.coefficients), -INFINITE, 0.0))
    for place, one in enumerate(network.dimensions):
        unit = tuple(1.0 if k == place else 0.0 for k in range(len(network.dimensions)))
        if one.min_gbytes_per_s > 0:
            made.append(LinearRow(f"least {one.name}", (-one.min_gbytes_per_s, *unit), 0.0, INFINITE))
        if one.max_gbytes_per_s < INFINITE:
            made.append(LinearRow(f"most {one.name}", (-one.max_gbytes_per_s, *unit), -INFINITE, 0.0))
    made.append(LinearRow("normalisation", (network.fixed_cost_usd, *prices_usd), 1.0, 1.0))
    return made


def _ceilings(rows: Sequence[LinearRow], low: Sequence[float], high: Sequence[float]) -> list[float]:
    """Upper bounds of the columns that the rows imply."""
    one_sided = [(row.coefficients, row.high) for row in rows if row.high < INFINITE]
    one_sided += [(tuple(-c for c in row.coefficients), -row.low) for row in rows if row.low > -INFINITE]
    ceiling = list(high)
    for _ in range(len(ceiling) + 1):
        for coefficients, side in one_sided:
            least = [c * low[k] if c > 0 else (c * ceiling[k] if c < 0 else 0.0) for k, c in enumerate(coefficients)]
            for k, c in enumerate(coefficients):
                if c > 0:
                    others = [side, *(-value for place, value in enumerate(least) if place != k)]
                    rest = sum(others) + error_of_sum(len(others) + 2, sum(map(abs, others)))
                    ceiling[k] = min(ceiling[k], max(rest / c, low[k]))
    return ceiling


def _column(weight: float, slope: float, low: float, high: float) -> float:
    """Least value of weight / x + slope x for low <= x <= high."""
    if weight > 0 and slope > 0:
        x = min(max(math.sqrt(weight / slope), low), high)
        return weight / x + slope * x
    if slope >= 0:
        return slope * low + (weight / high if high > 0 else 0.0)
    return slope * high + (weight / high if high > 0 else 0.0)
