"""The jobs worth most that can be placed now, by branch and bound over classes of servers.

Jobs one after the other give a first answer; a bound by counting may prove it. Else the program of
`shard_assignment` goes to HiGHS. What comes back is laid out on servers and looked at again before it
counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from formulations.programs import LpArrays
from formulations.shard_assignment import (
    Choice,
    LayerClasses,
    ShardAssignment,
    build_arrays,
    choices_of,
    classes_of,
    parts_of,
    shard_of,
    waiting_jobs,
)
from solvers.backends.backend import LpResult, SolverLimits
from solvers.backends.table import solve_guarded, solver_named
from solvers.shards import knapsack, knapsack_bound, place_jobs, search_shard, separate_regions
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import OpticalLayer, Shard, ShardShape, realisable
from topoopt.core.errors import CheckError
from topoopt.core.proofs import Argument, Status, StopReason

OPTIONS = {"mip_rel_gap": 1e-9, "mip_abs_gap": 1e-6}
OPTIMALITY = 1e-6
"""Relative gap between the value and the bound below which a result is called optimal."""

GUARDED = 3000
"""Columns from which on a program may take longer than seconds."""


@dataclass(frozen=True)
class ShardLimits:
    """How long a method may work.

    Attributes:
        seed: of the searches and of the solver.
        most_columns: variables of a program up to which it is solved; larger ones are left to the heuristic (BUDGET).
        stop: a deadline and an interrupt shared with others.
        most_nodes: of the branch and bound; None: no limit. It makes no result depend on the speed of the machine.
    """

    seed: int = 0
    most_columns: int = 50_000
    stop: Stop = field(default_factory=Stop)
    most_nodes: int | None = None


@dataclass(frozen=True)
class AssignmentResult:
    """Which jobs are placed where, and what is proven.

    Attributes:
        shards: of each job, None for one that waits.
        value: worth of those placed.
        bound: no choice of shards places more.
        argument: behind `bound`; a solver's own counting and branching are claims.
        status: OPTIMAL when value meets the bound.
        stopped_by: why the method ended.
    """

    shards: tuple[Shard | None, ...]
    value: float
    bound: float
    argument: Argument
    status: Status
    stopped_by: StopReason


def assign_shards(
    layer: OpticalLayer,
    free: Bools,
    shapes: Sequence[ShardShape],
    gains: Sequence[float] | None = None,
    limits: ShardLimits | None = None,
) -> AssignmentResult:
    """Place the jobs worth most together.

    Args:
        layer: the switches.
        free: bool[n], servers without a job.
        shapes: of the waiting jobs.
        gains: of placing each, not negative and finite; None: its servers.
        limits: see `ShardLimits`.

    Raises:
        ValueError: `free` does not fit the layer, or `gains` the jobs.
        CheckError: a bug of ours.
    """
    limits = limits or ShardLimits()
    values = [float(shape.servers) for shape in shapes] if gains is None else [float(value) for value in gains]
    if len(values) != len(shapes) or not all(0 <= gain < np.inf for gain in values):
        raise ValueError("every job has a worth, finite and not negative")
    impossible = [search_shard(layer, free, shape, limits.seed)[2] for shape in shapes]
    able = [k for k, proven in enumerate(impossible) if not proven]
    kept, kept_gains = [shapes[k] for k in able], [values[k] for k in able]
    placed = place_jobs(layer, free, kept, kept_gains, limits.seed)
    best, value, stopped_by = placed, _total(kept_gains, placed), StopReason.CONVERGED
    bound, argument = counting_bound(layer, free, kept, kept_gains)
    if value < bound and limits.stop.reason() is None:
        best, value, stopped_by, proven = _branch(layer, free, kept, kept_gains, best, limits)
        if proven < bound:
            bound, argument = proven, Argument.SHARD_BRANCHING
    elif value < bound:
        stopped_by = limits.stop.reason() or StopReason.TIME
    shards: list[Shard | None] = [None] * len(shapes)
    for k, shard in zip(able, best, strict=True):
        shards[k] = shard
    slack = OPTIMALITY * max(1.0, abs(bound))
    if value > bound + slack:
        raise CheckError(f"jobs worth {value} are placed, and at most {bound} is said to be possible ({argument})")
    status = Status.OPTIMAL if value >= bound - slack else Status.FEASIBLE
    return AssignmentResult(tuple(shards), value, bound, argument, status, stopped_by)


def counting_bound(
    layer: OpticalLayer, free: Bools, shapes: Sequence[ShardShape], gains: Sequence[float]
) -> tuple[float, Argument]:
    """No placing is worth more, and why: free servers as one knapsack, or one for each region where none overlap."""
    classes, sizes = classes_of(layer), np.array([shape.servers for shape in shapes], dtype=np.int64)
    region = separate_regions(classes, [parts_of(shape) for shape in shapes])
    if region is None:
        return knapsack(sizes, np.array(gains), int(free.sum()))[0], Argument.SERVERS_LEFT
    return knapsack_bound(region, classes.count(free), sizes, np.array(gains)), Argument.REGIONS_LEFT


def solve_program(program: LpArrays, limits: ShardLimits, start: Floats | None = None) -> LpResult:
    """HiGHS, in a process that can be stopped when the program is large."""
    allowed = SolverLimits(time_s=limits.stop.remaining_s(), seed=limits.seed % 2**31)
    options = OPTIONS if limits.most_nodes is None else OPTIONS | {"mip_max_nodes": limits.most_nodes}
    if program.columns < GUARDED:
        return solver_named("highs")(program, allowed, options, start)
    return solve_guarded("highs", program, allowed, options, start, stop=limits.stop)


def start_of(
    program: LpArrays, layer: LayerClasses, shapes: Sequence[ShardShape], shards: Sequence[Shard | None]
) -> Floats:
    """float64[columns]: a start from shards of waiting jobs; NaN where it follows from the rest."""
    values: dict[str, float] = {}
    plane_group = {plane: p for p, planes in enumerate(layer.plane_groups) for plane in planes}
    for k, (shape, shard) in enumerate(zip(shapes, shards, strict=True)):
        values[f"place_{k}"] = float(shard is not None)
        if shard is None:
            continue
        parts, at = parts_of(shape), layer.class_of[list(shard.servers)]
        for q, atom in enumerate(parts.atoms):
            count = np.bincount(at[atom], minlength=layer.classes)
            values |= {f"ranks_{k}_{q}_{c}": float(n) for c, n in enumerate(count.tolist())}
        for g, group in enumerate(parts.groups):
            used = [plane_group[shard.planes[interface]] for interface in group.interfaces]
            values |= {f"assign_{k}_{g}_{p}": float(used.count(p)) for p in range(len(layer.widths))}
    return np.array([values.get(program.column_name(j), np.nan) for j in range(program.columns)])


def _branch(
    layer: OpticalLayer,
    free: Bools,
    shapes: Sequence[ShardShape],
    gains: Sequence[float],
    incumbent: tuple[Shard | None, ...],
    limits: ShardLimits,
) -> tuple[tuple[Shard | None, ...], float, StopReason, float]:
    """The better of the incumbent and what HiGHS finds, its value, why it ended, and an upper bound."""
    least, every = _total(gains, incumbent), float(sum(gains))
    classes = classes_of(layer)
    data = ShardAssignment(classes, classes.count(free), waiting_jobs(shapes, gains))
    if data.columns > limits.most_columns:
        return incumbent, least, StopReason.BUDGET, every
    program = build_arrays(data)
    # twins are interchangeable, and the program places the earlier ones
    result = solve_program(program, limits, start_of(program, classes, shapes, _earlier_first(data, incumbent)))
    bound = every if result.bound is None else _whole(-result.bound, gains)
    if result.status is Status.INFEASIBLE or bound < least - OPTIMALITY * max(1.0, least):
        # the incumbent contradicts the solver, whose word then counts for nothing
        return incumbent, least, StopReason.ERROR, every
    if result.x is None:
        return incumbent, least, result.stopped_by, bound
    shards = lay_out(data, choices_of(data, program, result.x), classes, free)
    sound = all(s is None or realisable(layer, shape, s) for shape, s in zip(shapes, shards, strict=True))
    value = _total(gains, shards)
    if not sound or value < least:
        return incumbent, least, result.stopped_by if sound else StopReason.ERROR, bound
    return shards, value, result.stopped_by, bound


def lay_out(
    data: ShardAssignment, choices: Sequence[Choice], classes: LayerClasses, free: Bools
) -> tuple[Shard | None, ...]:
    """Servers for jobs placed anew, class by class, the lowest first."""
    left: list[Ints] = [members[free[members]] for members in classes.members]
    shards: list[Shard | None] = []
    for job, (placed, counts, taken) in zip(data.jobs, choices, strict=True):
        if not placed:
            shards.append(None)
            continue
        shards.append(shard_of(classes, job.parts, counts, taken, tuple(left)))
        left = [pool[count:] for pool, count in zip(left, counts.sum(axis=0).tolist(), strict=True)]
    return tuple(shards)


def _earlier_first(data: ShardAssignment, shards: Sequence[Shard | None]) -> list[Shard | None]:
    """The same shards, given to the earlier of jobs that are alike."""
    first: dict[int, int] = {}
    chains: dict[int, list[int]] = {}
    for k, job in enumerate(data.jobs):
        first[k] = k if job.twin is None else first[job.twin]
        chains.setdefault(first[k], []).append(k)
    given = list(shards)
    for chain in chains.values():
        placed = [shards[k] for k in chain if shards[k] is not None]
        for k, shard in zip(chain, placed + [None] * (len(chain) - len(placed)), strict=True):
            given[k] = shard
    return given


def _total(gains: Sequence[float], shards: Sequence[Shard | None]) -> float:
    return float(sum(gain for gain, shard in zip(gains, shards, strict=True) if shard is not None))


def _whole(bound: float, gains: Sequence[float]) -> float:
    return float(np.floor(bound + 1e-6)) if all(gain == int(gain) for gain in gains) else bound
