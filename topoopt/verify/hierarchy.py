"""The checker of hierarchical networks computes time and cost itself, and derives every lower bound again."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from topoopt.core.hierarchy import (
    COLLECTIVES,
    Collective,
    CollectiveCall,
    Design,
    Fleet,
    GroupShare,
    HierarchicalNetwork,
    HierarchicalPlan,
    HierarchicalProblem,
    HierarchicalWorkload,
    Layer,
    LayerPhase,
    PathWeight,
)
from topoopt.core.proofs import Argument, Tolerance
from topoopt.core.result import Certificate, Result
from topoopt.verify.checker import CheckDepth, Checker, CheckFindings, Derivation, error_of_sum, float_array, int_array

INFINITE = math.inf

RELATIVE = Tolerance.ROUNDING.relative
"""Rounding forgiven in figures and constraints."""


def moved_bytes(kind: Collective, size: float, ranks: Sequence[int]) -> list[float]:
    """Bytes an NPU sends in each dimension for one collective."""
    moved = [0.0] * len(ranks)
    if kind is Collective.ALL_REDUCE:
        # A reduce-scatter on the way up and the all-gather of what is left on the way down.
        scattered = moved_bytes(Collective.REDUCE_SCATTER, size, ranks)
        shard = size
        for p in ranks:
            shard /= p
        gathered = moved_bytes(Collective.ALL_GATHER, shard, ranks)
        return [up + down for up, down in zip(scattered, gathered, strict=True)]
    held = size
    for i in range(len(ranks)) if kind is not Collective.ALL_GATHER else range(len(ranks) - 1, -1, -1):
        p = ranks[i]
        if p <= 1:
            continue
        if kind is Collective.REDUCE_SCATTER:
            held /= p
            moved[i] = held * (p - 1)
        elif kind is Collective.ALL_GATHER:
            moved[i] = held * (p - 1)
            held *= p
        elif kind is Collective.ALL_TO_ALL:
            moved[i] = size - size / p
        else:
            moved[i] = size
    return moved


def collective_times(item: CollectiveCall, workload: HierarchicalWorkload, bandwidth: Sequence[float]) -> list[float]:
    """ns in each dimension; infinite where bytes meet no bandwidth."""
    moved = moved_bytes(item.collective, item.size_bytes, workload.communicators[item.communicator].ranks)
    return [0.0 if b == 0 else (b / w if w > 0 else INFINITE) for b, w in zip(moved, bandwidth, strict=True)]


def communication_ns(phase: LayerPhase, workload: HierarchicalWorkload, bandwidth: Sequence[float]) -> float:
    """Time of the collectives of a phase."""
    return sum(max(collective_times(item, workload, bandwidth)) for item in phase.communications)


def _layer_ns(layer: Layer, workload: HierarchicalWorkload, bandwidth: Sequence[float]) -> float:
    forward, inputs, weights = (
        communication_ns(phase, workload, bandwidth)
        for phase in (layer.forward, layer.input_gradient, layer.weight_gradient)
    )
    backward = layer.weight_gradient.compute_ns + weights
    tail = max(inputs, backward) if workload.loop == "dp-overlap" else inputs + backward
    return layer.repeat * (layer.forward.compute_ns + forward + layer.input_gradient.compute_ns + tail)


def job_time_ns(workload: HierarchicalWorkload, bandwidth: Sequence[float]) -> float:
    """Time of one iteration of a job, ns."""
    if workload.loop != "dag":
        return sum(_layer_ns(layer, workload, bandwidth) for layer in workload.layers)
    ends: list[float] = []
    for task in workload.tasks:
        begin = max((ends[before] for before in task.after), default=0.0)
        ends.append(begin + task.phase.compute_ns + communication_ns(task.phase, workload, bandwidth))
    return max(ends)


def fleet_time_ns(design: Design, fleet: Fleet, bandwidth: Sequence[float]) -> float:
    """What the objective means by time."""
    times = [workload.weight * job_time_ns(workload, bandwidth) for workload in design.workloads]
    return max(times) if fleet == "worst-case" else sum(times)


def network_cost_usd(network: HierarchicalNetwork, bandwidth: Sequence[float]) -> float | None:
    """Cost of a network in US dollars; None without prices."""
    total = network.fixed_cost_usd
    for dimension, rate in zip(network.dimensions, bandwidth, strict=True):
        if dimension.usd_per_gbytes_per_s is None:
            return None
        total += network.npus * rate * dimension.usd_per_gbytes_per_s
    return total


def broken_laws(network: HierarchicalNetwork, bandwidth: Sequence[float]) -> list[str]:
    """Bounds, speeds and linear constraints that bandwidths break."""
    broken = []
    for item, value in zip(network.dimensions, bandwidth, strict=True):
        slack = RELATIVE * max(1.0, abs(value))
        if not item.min_gbytes_per_s - slack <= value <= item.max_gbytes_per_s + slack or not math.isfinite(value):
            broken.append(f"{item.name} has {value!r} GB/s, not {item.min_gbytes_per_s!r} to {item.max_gbytes_per_s!r}")
        elif item.speeds_gbytes_per_s and value not in item.speeds_gbytes_per_s:
            broken.append(f"{item.name} has {value!r} GB/s, which is none of its speeds")
    for row in network.constraints:
        terms = [c * value for c, value in zip(row.coefficients, bandwidth, strict=True)]
        total, size = sum(terms), max(1.0, *map(abs, terms))
        if not row.at_least - RELATIVE * size <= total <= row.at_most + RELATIVE * size:
            broken.append(f"constraint {row.name}: {total!r} is not between {row.at_least!r} and {row.at_most!r}")
    return broken


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

        Raises:
            ValueError: it is for something else, of no design, or its arrays do not fit each other.
        """
        if certificate.argument is not Argument.BANDWIDTH_PRICES:
            raise ValueError(f"a certificate for {certificate.argument}")

        def integers(name: str) -> list[int]:
            array = int_array(certificate[name], 1)
            if array is None:
                raise ValueError(f"{name} are no whole numbers")
            return list(array.tolist())

        def numbers(name: str) -> list[float]:
            array = float_array(certificate[name], 1)
            if array is None or not np.isfinite(array).all():
                raise ValueError(f"{name} are no finite numbers")
            return list(array.tolist())

        design, point, too_slow, cutoff = (
            integers("design"), integers("point"), integers("too_slow"), numbers("cutoff")
        )  # fmt: skip
        if len(design) != 1 or not 0 <= design[0] < len(problem.designs):
            raise ValueError(f"of design {design}, which does not exist")
        if len(too_slow) != 1 or len(point) > 1 or len(cutoff) > 1:
            raise ValueError("point, too_slow and cutoff are one number at most")
        jobs, weights, lengths = integers("path_job"), numbers("path_weight"), integers("path_length")
        steps = integers("path_steps")
        if not len(jobs) == len(weights) == len(lengths) or min(lengths, default=0) < 0 or sum(lengths) != len(steps):
            raise ValueError("the arrays of paths do not fit")
        bounds = np.cumsum([0, *lengths]).tolist()
        paths = tuple(
            PathWeight(job, weight, tuple(steps[bounds[k] : bounds[k + 1]]))
            for k, (job, weight) in enumerate(zip(jobs, weights, strict=True))
        )
        sharers, groups, kinds = integers("share_job"), integers("share_communicator"), integers("share_collective")
        amounts, count = numbers("share_bytes"), len(problem.designs[design[0]].network.dimensions)
        if not len(sharers) == len(groups) == len(kinds) or len(amounts) != count * len(kinds):
            raise ValueError("the arrays of shares do not fit")
        if not all(0 <= kind < len(COLLECTIVES) for kind in kinds):
            raise ValueError("a share of no collective")
        shares = tuple(
            GroupShare(job, group, COLLECTIVES[kind], tuple(amounts[k * count : (k + 1) * count]))
            for k, (job, group, kind) in enumerate(zip(sharers, groups, kinds, strict=True))
        )
        rows, prices = integers("priced_row"), numbers("price")
        if len(rows) != len(prices) or len(set(rows)) < len(rows):
            raise ValueError("a row is priced twice, or has no price")
        return cls(
            design[0],
            paths,
            shares,
            tuple(zip(rows, prices, strict=True)),
            cutoff[0] if cutoff else None,
            bool(too_slow[0]),
            point[0] if point else None,
        )


LinearRow = tuple[tuple[float, ...], float, float]
"""(coefficients, low, high): low <= sum of coefficient x column <= high."""

CertifiedWork = tuple[float, list[float], list[float]]
"""What a certificate puts together: F, W by dimension, and the sum of path weights of each job."""


def certified_bound(problem: HierarchicalProblem, design: Design, proof: BandwidthProof, best: float) -> float:
    """The lower bound that a certificate proves for a design, whatever its numbers.

    Args:
        problem: objective, fleet and limits.
        design: shape and jobs.
        proof: weights, shares and prices; too large ones are scaled down to what is valid.
        best: objective above which solutions need not be considered.

    Raises:
        ValueError: unknown jobs, groups, steps or rows.
    """
    objective, network = problem.objective, design.network
    work = _work(problem, design, proof)
    compute, moved, _ = work
    prices = dict(proof.prices)
    prices_usd = [network.npus * (item.usd_per_gbytes_per_s or 0.0) for item in network.dimensions]
    weights, slopes, constant = list(moved), [0.0] * len(network.dimensions), compute
    rows = _linear_rows(problem, network, prices_usd)
    low = [item.min_gbytes_per_s for item in network.dimensions]
    high = [item.max_gbytes_per_s for item in network.dimensions]
    sizes = abs(constant)
    if objective == "time-times-cost":
        rows = _homogeneous(rows, network, prices_usd)
        low, high = [0.0] * (len(low) + 1), [INFINITE] * (len(high) + 1)
        weights, slopes, constant = [compute, *weights], [0.0, *slopes], 0.0
    cutoff: list[LinearRow] = []
    if objective == "cost":
        slopes = list(prices_usd)
        limited = _limit_weight(problem, design, work) * (problem.time_limit_ns or 0.0)
        constant += network.fixed_cost_usd - limited
        sizes += network.fixed_cost_usd + 2 * limited
        if math.isfinite(best):
            cutoff.append((tuple(prices_usd), -INFINITE, best - network.fixed_cost_usd))
    total, size = constant, sizes
    priced = [0.0] * len(slopes)
    for index, (coefficients, least, most) in enumerate(rows):
        price = prices.pop(index, 0.0)
        side = least if price > 0 else most
        if price == 0 or math.isinf(side):
            continue
        total += price * side
        size += abs(price * side)
        slopes = [slope - price * item for slope, item in zip(slopes, coefficients, strict=True)]
        priced = [own + abs(price * item) for own, item in zip(priced, coefficients, strict=True)]
    if prices:
        raise ValueError(f"no such row: {', '.join(map(str, sorted(prices)))}")
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
    paths = sum(terms_of(design.workloads[path.job]) + 4 for path in proof.paths)
    return paths + (8 + 2 * len(design.network.dimensions)) * len(proof.shares)


def _limit_weight(problem: HierarchicalProblem, design: Design, work: CertifiedWork) -> float:
    parts = [own / job.weight for own, job in zip(work[2], design.workloads, strict=True)]
    return sum(parts) if problem.fleet == "worst-case" else max(parts)


def _work(problem: HierarchicalProblem, design: Design, proof: BandwidthProof) -> CertifiedWork:
    jobs = design.workloads
    sums = [0.0] * len(jobs)
    for path in proof.paths:
        if not 0 <= path.job < len(jobs) or not 0 <= path.weight < INFINITE:
            raise ValueError("a path of no job, or of no weight")
        sums[path.job] += path.weight
    scale = [1.0] * len(jobs)
    if problem.objective != "cost":
        if problem.fleet == "worst-case":
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
    return compute, moved, [own * factor for own, factor in zip(sums, scale, strict=True)]


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

    if job.loop == "dag":
        previous = None
        for step in path.steps:
            if not 0 <= step < len(job.tasks) or (previous is not None and previous not in job.tasks[step].after):
                raise ValueError("a path that the tasks do not have")
            take(job.tasks[step].phase, 1.0)
            previous = step
        return compute
    chosen = set(path.steps)
    if not chosen <= set(range(len(job.layers))):
        raise ValueError("a path through layers that do not exist")
    for index, layer in enumerate(job.layers):
        take(layer.forward, layer.repeat)
        compute += layer.input_gradient.compute_ns * layer.repeat
        both = job.loop == "no-overlap" or not _moves(layer.input_gradient, job)
        if both or index not in chosen:
            take(layer.input_gradient, layer.repeat, compute_too=False)
        if both or index in chosen:
            take(layer.weight_gradient, layer.repeat)
    return compute


def _moves(phase: LayerPhase, job: HierarchicalWorkload) -> bool:
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
        raise ValueError("shares of a group that is on no path, or twice")
    amount = sent.pop(key)
    given = sum(share.bytes_by_dimension)
    if not all(0 <= item < INFINITE for item in share.bytes_by_dimension):
        raise ValueError("a share that is no amount of bytes")
    scale = min(1.0, amount / given) if given > 0 else 0.0
    unit = moved_bytes(share.collective, 1.0, jobs[share.job].communicators[share.communicator].ranks)
    return [scale * item * per_byte for item, per_byte in zip(share.bytes_by_dimension, unit, strict=True)]


def _linear_rows(
    problem: HierarchicalProblem, network: HierarchicalNetwork, prices_usd: Sequence[float]
) -> list[LinearRow]:
    rows: list[LinearRow] = [(item.coefficients, item.at_least, item.at_most) for item in network.constraints]
    if problem.cost_cap_usd is not None:
        rows.append((tuple(prices_usd), -INFINITE, problem.cost_cap_usd - network.fixed_cost_usd))
    return rows


def _homogeneous(
    rows: Sequence[LinearRow], network: HierarchicalNetwork, prices_usd: Sequence[float]
) -> list[LinearRow]:
    """Rows over (tau, tau B): every one-sided row times tau, bounds as rows, and cost x tau = 1."""
    scaled: list[LinearRow] = []
    for coefficients, least, most in rows:
        if least == most:
            scaled.append(((-least, *coefficients), 0.0, 0.0))
            continue
        if least > -INFINITE:
            scaled.append(((-least, *coefficients), 0.0, INFINITE))
        if most < INFINITE:
            scaled.append(((-most, *coefficients), -INFINITE, 0.0))
    for j, item in enumerate(network.dimensions):
        unit = tuple(1.0 if k == j else 0.0 for k in range(len(network.dimensions)))
        if item.min_gbytes_per_s > 0:
            scaled.append(((-item.min_gbytes_per_s, *unit), 0.0, INFINITE))
        if item.max_gbytes_per_s < INFINITE:
            scaled.append(((-item.max_gbytes_per_s, *unit), -INFINITE, 0.0))
    scaled.append(((network.fixed_cost_usd, *prices_usd), 1.0, 1.0))
    return scaled


def _ceilings(rows: Sequence[LinearRow], low: Sequence[float], high: Sequence[float]) -> list[float]:
    one_sided = [(coefficients, most) for coefficients, _, most in rows if most < INFINITE]
    one_sided += [(tuple(-c for c in coefficients), -least) for coefficients, least, _ in rows if least > -INFINITE]
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
    if problem.fleet == "worst-case":
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
    if job.loop == "dag":
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
    problem: HierarchicalProblem, network: HierarchicalNetwork, compute: float, own: Sequence[float], rounding: float
) -> float:
    """The bound less its rounding, which is so large a part of each sum at most."""
    prices = [network.npus * (item.usd_per_gbytes_per_s or 0.0) for item in network.dimensions]
    spread = sum(math.sqrt(item) for item in own) ** 2
    priced = sum(math.sqrt(item * price) for item, price in zip(own, prices, strict=True)) ** 2
    totals = [item for item in network.constraints if set(item.coefficients) == {1.0}]
    most = min((item.at_most for item in totals), default=INFINITE)
    least = max((item.at_least for item in totals), default=0.0)
    if problem.objective == "time":
        bound = compute + spread / most
        if problem.cost_cap_usd is not None:
            left = problem.cost_cap_usd - network.fixed_cost_usd
            bound = max(bound, compute + priced / left if left > 0 else INFINITE)
        return bound * (1.0 - rounding)
    if problem.objective == "cost":
        left = (problem.time_limit_ns or 0.0) - compute * (1.0 - rounding)
        return (network.fixed_cost_usd + priced / left) * (1.0 - rounding) if left > 0 else INFINITE
    floor = network.fixed_cost_usd + max(least, 0.0) * min(prices)
    return (compute * floor + priced) * (1.0 - rounding)


MAX_ENUMERATED = 100_000
"""Combinations of speeds up to which all are tried."""

UNITS = {
    "time": "ns",
    "time-times-cost": "ns*USD",
    "cost": "USD",
}


def has_catalogue(design: Design) -> bool:
    """Return whether some dimension of a design has a list of speeds."""
    return any(dimension.speeds_gbytes_per_s for dimension in design.network.dimensions)


# Constraints of a plan.


def design_of_the_instance(problem: HierarchicalProblem, plan: HierarchicalPlan) -> Iterator[str]:
    """The design exists; every network has a bandwidth for each of its dimensions."""
    if not 0 <= plan.design < len(problem.designs):
        yield f"there is no design {plan.design}"
        return
    count = len(problem.designs[plan.design].network.dimensions)
    for bandwidth in (plan.bandwidth_gbytes_per_s, *(point.bandwidth_gbytes_per_s for point in plan.front)):
        if len(bandwidth) != count:
            yield f"{len(bandwidth)} bandwidths for {count} dimensions"


def allowed_bandwidths(problem: HierarchicalProblem, plan: HierarchicalPlan) -> Iterator[str]:
    """Bandwidths are within their bounds, of the speeds there are, and keep every linear constraint."""
    yield from broken_laws(problem.designs[plan.design].network, plan.bandwidth_gbytes_per_s)


def within_cost_cap(problem: HierarchicalProblem, plan: HierarchicalPlan) -> Iterator[str]:
    """The network costs no more than is allowed."""
    cost, cap = (
        network_cost_usd(problem.designs[plan.design].network, plan.bandwidth_gbytes_per_s),
        problem.cost_cap_usd,
    )
    if cap is not None and (cost is None or not cost <= cap * (1 + RELATIVE)):
        yield f"the network costs {cost!r} USD, at most {cap!r} are allowed"


def within_time_limit(problem: HierarchicalProblem, plan: HierarchicalPlan) -> Iterator[str]:
    """An iteration takes no longer than is allowed."""
    time = fleet_time_ns(problem.designs[plan.design], problem.fleet, plan.bandwidth_gbytes_per_s)
    limit = problem.time_limit_ns
    if limit is not None and not time <= limit * (1 + RELATIVE):
        yield f"the time is {time!r} ns, at most {limit!r} are allowed"


def front_of_networks(problem: HierarchicalProblem, plan: HierarchicalPlan) -> Iterator[str]:
    """The points of the front are allowed networks that keep their limits, each cheaper than the faster one."""
    design, costs = problem.designs[plan.design], []
    if len(plan.front) > problem.pareto_points:
        yield f"{len(plan.front)} points, at most {problem.pareto_points} are sought"
    for point in plan.front:
        label, bandwidth = f"the point at {point.limit_ns!r} ns", point.bandwidth_gbytes_per_s
        yield from (f"{label}: {text}" for text in broken_laws(design.network, bandwidth))
        time, cost = fleet_time_ns(design, problem.fleet, bandwidth), network_cost_usd(design.network, bandwidth)
        if cost is None:
            yield f"{label} has no price"
        if not time <= point.limit_ns * (1 + RELATIVE):
            yield f"{label} takes longer, {time!r} ns"
        costs.append(math.nan if cost is None else cost)
    for k, (earlier, later) in enumerate(itertools.pairwise(plan.front)):
        if not (earlier.limit_ns < later.limit_ns and costs[k] > costs[k + 1]):
            yield f"the points at {earlier.limit_ns!r} and {later.limit_ns!r} ns are not in order"


# Objective.


def objective_value(problem: HierarchicalProblem, plan: HierarchicalPlan) -> float:
    """Return time, time x cost, or cost."""
    design, bandwidth = problem.designs[plan.design], plan.bandwidth_gbytes_per_s
    time, cost = fleet_time_ns(design, problem.fleet, bandwidth), network_cost_usd(design.network, bandwidth)
    priced = math.nan if cost is None else cost
    return {
        "time": time,
        "time-times-cost": time * (priced or math.nan),
        "cost": priced,
    }[problem.objective]


# Bounds.


def _byte_sums(problem: HierarchicalProblem) -> list[float]:
    return [formula_bound(problem, design) for design in problem.designs]


def _prices(problem: HierarchicalProblem, certificates: Sequence[Certificate]) -> list[float]:
    bounds = _byte_sums(problem)
    proofs = [BandwidthProof.of(problem, certificate) for certificate in certificates]
    proofs = [proof for proof in proofs if proof.point is None]
    if len({(proof.design, proof.too_slow) for proof in proofs}) < len(proofs):
        raise ValueError("two certificates of one design")
    for proof in proofs:
        bounds[proof.design] = max(bounds[proof.design], _certified(problem, proof))
    return bounds


def _certified(problem: HierarchicalProblem, proof: BandwidthProof) -> float:
    design = problem.designs[proof.design]
    if not proof.too_slow:
        best = math.inf if proof.cutoff is None else proof.cutoff
        return min(best, certified_bound(problem, design, proof, best))
    limit = problem.time_limit_ns
    if problem.objective != "cost" or limit is None:
        raise ValueError("there is no time limit")
    as_time = replace(problem, objective="time", time_limit_ns=None)
    return math.inf if certified_bound(as_time, design, proof, math.inf) > limit else -math.inf


def _speeds(problem: HierarchicalProblem, certificates: Sequence[Certificate]) -> list[float]:
    least = (least_by_speeds(problem, design) if has_catalogue(design) else -math.inf for design in problem.designs)
    return [max(pair) for pair in zip(_prices(problem, certificates), least, strict=True)]


def arguments(problem: HierarchicalProblem) -> Mapping[Argument, Derivation]:
    """Return the arguments that count: sums of bytes, certificates, and trying all speeds where these are few."""
    derivations: dict[Argument, Derivation] = {
        Argument.BYTE_SUMS: lambda problem, _: min(_byte_sums(problem)),
        Argument.BANDWIDTH_PRICES: lambda problem, certificates: min(_prices(problem, certificates)),
    }
    listed = [design for design in problem.designs if has_catalogue(design)]
    if listed and all(map(_few_speeds, listed)):
        derivations[Argument.ALL_SPEEDS] = lambda problem, certificates: min(_speeds(problem, certificates))
    return derivations


def point_bound(
    problem: HierarchicalProblem, plan: HierarchicalPlan, k: int, certificates: Sequence[Certificate]
) -> float:
    """Return the largest bound on the cost of networks that keep the limit of a point of the front.

    Certificates that prove nothing are passed over.
    """
    point, design = plan.front[k], problem.designs[plan.design]
    cheapest = replace(problem, objective="cost", time_limit_ns=point.limit_ns)
    bounds = [formula_bound(cheapest, design)]
    for certificate in certificates:
        try:
            proof = BandwidthProof.of(cheapest, certificate)
            if proof.point == k and proof.design == plan.design:
                bounds.append(_certified(cheapest, replace(proof, too_slow=False)))
        except ValueError:
            continue
    if has_catalogue(design) and _few_speeds(design):
        bounds.append(least_by_speeds(cheapest, design))
    return max(bounds)


def _few_speeds(design: Design) -> bool:
    options = [len(dimension.speeds_gbytes_per_s) for dimension in design.network.dimensions]
    return all(options) and math.prod(options) <= MAX_ENUMERATED


def least_by_speeds(problem: HierarchicalProblem, design: Design) -> float:
    """Return the least objective over all combinations of speeds; infinite if none is allowed."""
    least = math.inf
    for bandwidth in itertools.product(*(dimension.speeds_gbytes_per_s for dimension in design.network.dimensions)):
        cost = network_cost_usd(design.network, bandwidth)
        if problem.cost_cap_usd is not None and (cost is None or cost > problem.cost_cap_usd * (1 + RELATIVE)):
            continue
        if broken_laws(design.network, bandwidth):
            continue
        if problem.objective == "cost" and (cost is None or cost >= least):
            continue
        time = fleet_time_ns(design, problem.fleet, bandwidth)
        if problem.objective == "cost":
            if time <= (problem.time_limit_ns or math.inf) * (1 + RELATIVE):
                least = cost or 0.0
        else:
            least = min(least, time if problem.objective == "time" else time * (cost or 0.0))
    return least


CHECKER = Checker(
    objective=lambda problem: (problem.objective, UNITS[problem.objective]),
    constraints=(
        ("design", design_of_the_instance),
        ("bandwidth", allowed_bandwidths),
        ("cost-cap", within_cost_cap),
        ("time-limit", within_time_limit),
        ("pareto", front_of_networks),
    ),
    value=objective_value,
    arguments=arguments,
    optimal=Tolerance.TANGENTS,
)

SPEEDS_CHECKER = replace(CHECKER, claims=(Argument.SPEED_BRANCHING,), optimal=Tolerance.LINEAR_PROGRAM)
"""Of plans whose design has a list of speeds: linear programs in integers are right to 1e-6."""


def checker_of(problem: HierarchicalProblem, plan: HierarchicalPlan) -> Checker:
    listed = [has_catalogue(design) for design in problem.designs]
    chosen = listed[plan.design] if plan.design in range(len(listed)) else False
    return SPEEDS_CHECKER if chosen else replace(CHECKER, claims=SPEEDS_CHECKER.claims if any(listed) else ())


def check(
    problem: HierarchicalProblem, result: Result[HierarchicalProblem, HierarchicalPlan], depth: CheckDepth
) -> CheckFindings:
    return checker_of(problem, result.plan)(problem, result, depth)
