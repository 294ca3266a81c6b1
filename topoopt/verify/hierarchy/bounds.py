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

import numpy as np

from topoopt.core.hierarchy import (
    COLLECTIVES,
    Collective,
    Design,
    Fleet,
    GroupShare,
    HierarchicalNetwork,
    HierarchicalObjective,
    HierarchicalProblem,
    HierarchicalWorkload,
    LayerPhase,
    Loop,
    PathWeight,
)
from topoopt.core.proofs import Argument
from topoopt.core.result import Certificate
from topoopt.verify.hierarchy.times import moved_bytes
from topoopt.verify.laws.findings import float_array, int_array
from topoopt.verify.laws.rounding import error_of_sum

INFINITE = math.inf


class CertificateError(ValueError):
    """The certificate speaks of things that are not there."""


@dataclass(frozen=True)
class BandwidthProof:
    """The content of a certificate, its arrays of the right types and lengths; see `bandwidth_certificate`."""

    design: int
    paths: tuple[PathWeight, ...]
    shares: tuple[GroupShare, ...]
    prices: tuple[tuple[int, float], ...]
    cutoff: float | None = None
    too_slow: bool = False
    point: int | None = None

    @classmethod
    def of(cls, problem: HierarchicalProblem, certificate: Certificate) -> BandwidthProof:
        """Return the content of a certificate.

        Raises
        ------
        CertificateError
            It is for something else, of no design, or its arrays do not fit each other.
        """
        if certificate.argument is not Argument.BANDWIDTH_PRICES:
            raise CertificateError(f"a certificate for {certificate.argument}")

        def integers(name: str) -> list[int]:
            array = int_array(certificate[name], 1)
            if array is None:
                raise CertificateError(f"{name} are no whole numbers")
            return list(array.tolist())

        def numbers(name: str) -> list[float]:
            array = float_array(certificate[name], 1)
            if array is None or not np.isfinite(array).all():
                raise CertificateError(f"{name} are no finite numbers")
            return list(array.tolist())

        design, point, too_slow, cutoff = (
            integers("design"), integers("point"), integers("too_slow"), numbers("cutoff")
        )  # fmt: skip
        if len(design) != 1 or not 0 <= design[0] < len(problem.designs):
            raise CertificateError(f"of design {design}, which does not exist")
        if len(too_slow) != 1 or len(point) > 1 or len(cutoff) > 1:
            raise CertificateError("point, too_slow and cutoff are one number at most")
        jobs, weights, lengths = integers("path_job"), numbers("path_weight"), integers("path_length")
        steps = integers("path_steps")
        if not len(jobs) == len(weights) == len(lengths) or min(lengths, default=0) < 0 or sum(lengths) != len(steps):
            raise CertificateError("the arrays of paths do not fit")
        bounds = np.cumsum([0, *lengths]).tolist()
        paths = tuple(
            PathWeight(job, weight, tuple(steps[bounds[k] : bounds[k + 1]]))
            for k, (job, weight) in enumerate(zip(jobs, weights, strict=True))
        )
        sharers, groups, kinds = integers("share_job"), integers("share_communicator"), integers("share_collective")
        amounts, count = numbers("share_bytes"), len(problem.designs[design[0]].network.dimensions)
        if not len(sharers) == len(groups) == len(kinds) or len(amounts) != count * len(kinds):
            raise CertificateError("the arrays of shares do not fit")
        if not all(0 <= kind < len(COLLECTIVES) for kind in kinds):
            raise CertificateError("a share of no collective")
        shares = tuple(
            GroupShare(job, group, COLLECTIVES[kind], tuple(amounts[k * count : (k + 1) * count]))
            for k, (job, group, kind) in enumerate(zip(sharers, groups, kinds, strict=True))
        )
        rows, prices = integers("priced_row"), numbers("price")
        if len(rows) != len(prices) or len(set(rows)) < len(rows):
            raise CertificateError("a row is priced twice, or has no price")
        return cls(
            design[0],
            paths,
            shares,
            tuple(zip(rows, prices, strict=True)),
            cutoff[0] if cutoff else None,
            bool(too_slow[0]),
            point[0] if point else None,
        )


@dataclass(frozen=True)
class LinearRow:
    """low <= sum of coefficient x column <= high."""

    coefficients: tuple[float, ...]
    low: float
    high: float


@dataclass(frozen=True)
class CertifiedWork:
    """What a certificate puts together: F, W by dimension, and the sum of path weights of each job."""

    compute: float
    bytes_by_dimension: tuple[float, ...]
    path_weights: tuple[float, ...]


def certified_bound(problem: HierarchicalProblem, design: Design, proof: BandwidthProof, best: float) -> float:
    """The lower bound that a certificate proves for a design, whatever its numbers.

    Args:
        problem: objective, fleet and limits.
        design: shape and jobs.
        proof: weights, shares and prices; too large ones are scaled down to what is valid.
        best: objective above which solutions need not be considered.

    Raises:
        CertificateError: unknown jobs, groups, steps or rows.
    """
    objective, network = problem.objective, design.network
    work = _work(problem, design, proof)
    prices = dict(proof.prices)
    prices_usd = [network.npus * (item.usd_per_gbytes_per_s or 0.0) for item in network.dimensions]
    weights, slopes, constant = list(work.bytes_by_dimension), [0.0] * len(network.dimensions), work.compute
    rows = _linear_rows(problem, network, prices_usd)
    low = [item.min_gbytes_per_s for item in network.dimensions]
    high = [item.max_gbytes_per_s for item in network.dimensions]
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
            cutoff.append(LinearRow(tuple(prices_usd), -INFINITE, best - network.fixed_cost_usd))
    total, size = constant, sizes
    priced = [0.0] * len(slopes)
    for index, row in enumerate(rows):
        price = prices.pop(index, 0.0)
        side = row.low if price > 0 else row.high
        if price == 0 or math.isinf(side):
            continue
        total += price * side
        size += abs(price * side)
        slopes = [slope - price * item for slope, item in zip(slopes, row.coefficients, strict=True)]
        priced = [own + abs(price * item) for own, item in zip(priced, row.coefficients, strict=True)]
    if prices:
        raise CertificateError(f"no such row: {', '.join(map(str, sorted(prices)))}")
    ceiling = _ceilings([*rows, *cutoff], low, high)
    # A column costs less the less its slope is: the least that it can be before rounding.
    slopes = [slope - error_of_sum(len(rows) + 2, own) for slope, own in zip(slopes, priced, strict=True)]
    columns = [_column(w, r, lo, hi) for w, r, lo, hi in zip(weights, slopes, low, ceiling, strict=True)]
    size += sum(map(abs, columns))
    terms = _terms(design, proof) + 2 * len(rows) + 8 * len(columns)
    return total + sum(columns) - error_of_sum(terms, size)


def terms_of(job: HierarchicalWorkload) -> int:
    """Terms of the sums of compute and bytes on a path through a job; each with its factors."""
    phases = [phase for item in job.layers for phase in (item.forward, item.input_gradient, item.weight_gradient)]
    phases += [task.phase for task in job.tasks]
    return sum(4 * (1 + len(phase.communications)) for phase in phases)


def _terms(design: Design, proof: BandwidthProof) -> int:
    """Terms of the sums that a certificate puts together."""
    paths = sum(terms_of(design.workloads[path.job]) + 4 for path in proof.paths)
    return paths + (8 + 2 * len(design.network.dimensions)) * len(proof.shares)


def marginal_ns(
    problem: HierarchicalProblem, design: Design, proof: BandwidthProof, bandwidth: Sequence[float]
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


def _work(problem: HierarchicalProblem, design: Design, proof: BandwidthProof) -> CertifiedWork:
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
    sent: dict[tuple[int, int, Collective], float] = {}
    for path in proof.paths:
        weight = path.weight * scale[path.job]
        compute += weight * follow(jobs[path.job], path, weight, sent)
    moved = [0.0] * len(design.network.dimensions)
    for share in proof.shares:
        for j, item in enumerate(_shared(jobs, share, sent)):
            moved[j] += item
    return CertifiedWork(compute, tuple(moved), tuple(own * factor for own, factor in zip(sums, scale, strict=True)))


def follow(
    job: HierarchicalWorkload, path: PathWeight, weight: float, sent: dict[tuple[int, int, Collective], float]
) -> float:
    """Compute on one path; its bytes are added to `sent` by group."""
    compute = 0.0

    def take(phase: LayerPhase, times: float, *, compute_too: bool = True) -> None:
        nonlocal compute
        compute += phase.compute_ns * times if compute_too else 0.0
        for item in phase.communications:
            key = (path.job, item.communicator, item.collective)
            sent[key] = sent.get(key, 0.0) + weight * times * item.size_bytes

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
        any(rank > 1 for rank in job.communicators[item.communicator].ranks) and item.size_bytes > 0
        for item in phase.communications
    )


def _shared(
    jobs: Sequence[HierarchicalWorkload], share: GroupShare, sent: dict[tuple[int, int, Collective], float]
) -> list[float]:
    """Bytes in each dimension of one group's share; more than is sent is scaled down. A group counts once."""
    key = (share.job, share.communicator, share.collective)
    if key not in sent:
        raise CertificateError("shares of a group that is on no path, or twice")
    amount = sent.pop(key)
    given = sum(share.bytes_by_dimension)
    if not all(0 <= item < INFINITE for item in share.bytes_by_dimension):
        raise CertificateError("a share that is no amount of bytes")
    scale = min(1.0, amount / given) if given > 0 else 0.0
    unit = moved_bytes(share.collective, 1.0, jobs[share.job].communicators[share.communicator].ranks)
    return [scale * item * per_byte for item, per_byte in zip(share.bytes_by_dimension, unit, strict=True)]


def _linear_rows(
    problem: HierarchicalProblem, network: HierarchicalNetwork, prices_usd: Sequence[float]
) -> list[LinearRow]:
    rows = [LinearRow(item.coefficients, item.at_least, item.at_most) for item in network.constraints]
    if problem.cost_cap_usd is not None:
        rows.append(LinearRow(tuple(prices_usd), -INFINITE, problem.cost_cap_usd - network.fixed_cost_usd))
    return rows


def _homogeneous(
    rows: Sequence[LinearRow], network: HierarchicalNetwork, prices_usd: Sequence[float]
) -> list[LinearRow]:
    """Rows over (tau, tau B): every one-sided row times tau, bounds as rows, and cost x tau = 1."""
    made = []
    for row in rows:
        if row.low == row.high:
            made.append(LinearRow((-row.low, *row.coefficients), 0.0, 0.0))
            continue
        if row.low > -INFINITE:
            made.append(LinearRow((-row.low, *row.coefficients), 0.0, INFINITE))
        if row.high < INFINITE:
            made.append(LinearRow((-row.high, *row.coefficients), -INFINITE, 0.0))
    for j, item in enumerate(network.dimensions):
        unit = tuple(1.0 if k == j else 0.0 for k in range(len(network.dimensions)))
        if item.min_gbytes_per_s > 0:
            made.append(LinearRow((-item.min_gbytes_per_s, *unit), 0.0, INFINITE))
        if item.max_gbytes_per_s < INFINITE:
            made.append(LinearRow((-item.max_gbytes_per_s, *unit), -INFINITE, 0.0))
    made.append(LinearRow((network.fixed_cost_usd, *prices_usd), 1.0, 1.0))
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
                    others = [side, *(-value for j, value in enumerate(least) if j != k)]
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


# Bounds from sums of bytes alone (Cauchy-Schwarz).


def formula_bound(problem: HierarchicalProblem, design: Design) -> float:
    """A lower bound from sums of bytes alone, of the form F + (sum_j sqrt W_j)^2 / total and its relatives.

    The bytes of a group are shared in proportion to what it moves in each dimension. Of a job with a dependency graph
    only compute counts.
    """
    parts = [_sums(job, len(design.network.dimensions)) for job in design.workloads]
    weights = [job.weight for job in design.workloads]
    if problem.fleet is Fleet.WORST_CASE:
        cases = [(w * f, [w * item for item in own]) for w, (f, own) in zip(weights, parts, strict=True)]
    else:
        together = [
            sum(w * own[j] for w, (_, own) in zip(weights, parts, strict=True)) for j in range(len(parts[0][1]))
        ]
        cases = [(sum(w * f for w, (f, _) in zip(weights, parts, strict=True)), together)]
    terms = sum(map(terms_of, design.workloads)) + 8 * len(design.network.dimensions) + 16
    rounding = error_of_sum(terms, 1.0)
    return max(_formula(problem, design.network, compute, own, rounding) for compute, own in cases)


def _sums(job: HierarchicalWorkload, dimensions: int) -> tuple[float, list[float]]:
    """F and W of the path that is longest when nothing is communicated."""
    if job.loop is Loop.DAG:
        ends: list[float] = []
        for task in job.tasks:
            ends.append(task.phase.compute_ns + max((ends[k] for k in task.after), default=0.0))
        return max(ends), [0.0] * dimensions
    steps = tuple(index for index, layer in enumerate(job.layers) if layer.weight_gradient.compute_ns > 0)
    sent: dict[tuple[int, int, Collective], float] = {}
    compute = follow(job, PathWeight(0, 1.0, steps), 1.0, sent)
    total = [0.0] * dimensions
    for (_, communicator, kind), amount in sent.items():
        unit = moved_bytes(kind, 1.0, job.communicators[communicator].ranks)
        whole = sum(unit)
        for j, item in enumerate(unit):
            total[j] += amount * item * item / whole if whole else 0.0
    return compute, total


def _formula(
    problem: HierarchicalProblem,
    network: HierarchicalNetwork,
    compute: float,
    own: Sequence[float],
    rounding: float,
) -> float:
    """The bound less its rounding, which is so large a part of each sum at most."""
    prices = [network.npus * (item.usd_per_gbytes_per_s or 0.0) for item in network.dimensions]
    spread = sum(math.sqrt(item) for item in own) ** 2
    priced = sum(math.sqrt(item * price) for item, price in zip(own, prices, strict=True)) ** 2
    totals = [item for item in network.constraints if set(item.coefficients) == {1.0}]
    most = min((item.at_most for item in totals), default=INFINITE)
    least = max((item.at_least for item in totals), default=0.0)
    if problem.objective is HierarchicalObjective.TIME:
        bound = compute + spread / most
        if problem.cost_cap_usd is not None:
            left = problem.cost_cap_usd - network.fixed_cost_usd
            bound = max(bound, compute + priced / left if left > 0 else INFINITE)
        return bound * (1.0 - rounding)
    if problem.objective is HierarchicalObjective.COST:
        left = (problem.time_limit_ns or 0.0) - compute * (1.0 - rounding)
        return (network.fixed_cost_usd + priced / left) * (1.0 - rounding) if left > 0 else INFINITE
    floor = network.fixed_cost_usd + max(least, 0.0) * min(prices)
    return (compute * floor + priced) * (1.0 - rounding)
