r"""How long one iteration of a job takes on a hierarchical network, as a function of the times of its collectives.

Collectives of one kind on one communicator form a group g; the time of one byte of it is

    t_g = max_i u_gi / B_i,         u_gi: bytes moved in dimension i per byte of size,

since the chunks of a collective pipeline through the dimensions and the slowest one dominates (LIBRA). With m = 1 at
first, in order of the dimensions that the communicator extends over p_i > 1 ranks of:

    reduce-scatter  u_gi = m (p_i - 1)/p_i,    then m <- m/p_i;     all-reduce: twice that (up, and back down)
    all-gather      from the outermost inwards:  u_gi = m (p_i - 1),  then m <- m p_i    (size: the shard of a rank)
    all-to-all      u_gi = (p_i - 1)/p_i;      point-to-point: u_gi = 1

t_g is homogeneous, so equal groups merge by adding bytes, and an iteration is the longest of its paths:

    T = max over paths p of  C_p + sum_g a_pg t_g           [ns; C_p: compute of the path, a_pg: its bytes in group g].

`no-overlap` has one path, `dp-overlap` two branches a layer, `dag` the paths of the graph. Paths are asked for one by
one, the longest for given t first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.hierarchy import Collective, HierarchicalWorkload, LayerPhase, Loop


def unit_volumes(collective: Collective, ranks: Sequence[int]) -> Floats:
    """float64[D], u_g: bytes moved in each dimension per byte of size."""
    volumes = np.zeros(len(ranks))
    mass = 1.0
    places = range(len(ranks))
    for place in reversed(places) if collective is Collective.ALL_GATHER else places:
        p = ranks[place]
        if p == 1:
            continue
        if collective is Collective.ALL_TO_ALL:
            volumes[place] = (p - 1) / p
        elif collective is Collective.POINT_TO_POINT:
            volumes[place] = 1.0
        elif collective is Collective.ALL_GATHER:
            volumes[place] = mass * (p - 1)
            mass *= p
        else:
            twice = 2.0 if collective is Collective.ALL_REDUCE else 1.0
            volumes[place] = twice * mass * (p - 1) / p
            mass /= p
    return volumes


@dataclass(frozen=True, eq=False)
class Path:
    """One path: its compute in ns, float64[G] its bytes in each group, and what it is made of.

    `steps`: dag: positions of its tasks; dp-overlap: positions of the layers where it takes the weight gradient;
    no-overlap: nothing.
    """

    compute_ns: float
    sizes: Floats
    steps: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class JobTimeline:
    """A job, its collectives grouped.

    Attributes:
        groups: (communicator, collective) of each group that moves anything.
        volumes: float64[G, D], u.
        base: what every path holds (all of it without overlap, nothing of a dag).
        branches: of dp-overlap: layers that are alike, with their two branches.
        tasks: of a dag: compute, sizes and predecessors of every task.
    """

    groups: tuple[tuple[int, Collective], ...]
    volumes: Floats
    base: Path
    branches: tuple[tuple[tuple[int, ...], Path, Path], ...] = ()
    tasks: tuple[Floats, Floats, tuple[tuple[int, ...], ...]] | None = None

    @property
    def all_sizes(self) -> Floats:
        """float64[G]: bytes of each group on all paths together."""
        if self.tasks is not None:
            return np.asarray(self.tasks[1].sum(axis=0))
        return sum((one.sizes + two.sizes for _, one, two in self.branches), start=self.base.sizes)

    def group_times(self, bandwidth: Floats) -> Floats:
        """float64[G], t at float64[D] bandwidths; infinite where a dimension with traffic has none."""
        return largest_ratio(self.volumes, bandwidth)

    def longest(self, times: Floats) -> Path:
        """The longest path for float64[G] times per byte."""
        if self.tasks is not None:
            return self._longest_of_tasks(times)
        compute, sizes, steps = self.base.compute_ns, self.base.sizes, list(self.base.steps)
        for layers, input_branch, weight_branch in self.branches:
            weight = weight_branch.compute_ns + weight_branch.sizes @ times
            later = weight > input_branch.compute_ns + input_branch.sizes @ times
            chosen = weight_branch if later else input_branch
            compute, sizes = compute + chosen.compute_ns, sizes + chosen.sizes
            steps += layers if later else ()
        return Path(compute, sizes, tuple(sorted(steps)))

    def _longest_of_tasks(self, times: Floats) -> Path:
        compute, sizes, after = self.tasks or (np.zeros(0), np.zeros((0, 0)), ())
        lasts = (compute + sizes @ times).tolist()
        came_from = [-1] * len(lasts)
        for task, before in enumerate(after):
            if before:
                latest = max(before, key=lasts.__getitem__)
                lasts[task] += lasts[latest]
                came_from[task] = latest
        task = max(range(len(lasts)), key=lasts.__getitem__)
        steps = []
        while task >= 0:
            steps.append(task)
            task = came_from[task]
        steps.reverse()
        return Path(float(compute[steps].sum()), sizes[steps].sum(axis=0), tuple(steps))

    def time_ns(self, bandwidth: Floats) -> float:
        """T at float64[D] bandwidths."""
        times = self.group_times(bandwidth)
        if not np.isfinite(times).all():
            return float("inf")
        path = self.longest(times)
        return path.compute_ns + float(path.sizes @ times)


def largest_ratio(volumes: Floats, bandwidth: Floats) -> Floats:
    """float64[G], max over i of volumes[g, i] / bandwidth[i], dimensions without volume left out."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(volumes > 0, volumes / bandwidth, 0.0)
    largest: Floats = ratio.max(axis=1, initial=0.0)
    return largest


def timeline_of(workload: HierarchicalWorkload, dimensions: int) -> JobTimeline:
    """Group the collectives of a job; those that move nothing are dropped."""
    units: dict[tuple[int, Collective], Floats] = {}
    phases = [task.phase for task in workload.tasks]
    for layer in workload.layers:
        phases += (layer.forward, layer.input_gradient, layer.weight_gradient)
    for phase in phases:
        for one in phase.communications:
            key = (one.communicator, one.collective)
            if key not in units:
                units[key] = unit_volumes(one.collective, workload.communicators[one.communicator].ranks)
    moving = {key: place for place, key in enumerate(key for key, unit in units.items() if unit.any())}
    volumes = np.array([units[key] for key in moving]).reshape(len(moving), dimensions)

    def sizes_of(phase: LayerPhase) -> Floats:
        sizes = np.zeros(len(moving))
        for one in phase.communications:
            place = moving.get((one.communicator, one.collective))
            if place is not None:
                sizes[place] += one.size_bytes
        return sizes

    groups, nothing = tuple(moving), Path(0.0, np.zeros(len(moving)), ())
    if workload.loop is Loop.DAG:
        compute = np.array([task.phase.compute_ns for task in workload.tasks])
        sizes = np.array([sizes_of(task.phase) for task in workload.tasks]).reshape(len(compute), len(moving))
        return JobTimeline(
            groups, volumes, nothing, tasks=(compute, sizes, tuple(task.after for task in workload.tasks))
        )
    compute_ns, total = 0.0, np.zeros(len(moving))
    alike: dict[tuple[float, bytes, bytes], tuple[list[int], Path, Path]] = {}
    for index, layer in enumerate(workload.layers):
        forward, inputs, weights = (
            (phase.compute_ns * layer.repeat, sizes_of(phase) * layer.repeat)
            for phase in (layer.forward, layer.input_gradient, layer.weight_gradient)
        )
        compute_ns += forward[0] + inputs[0]
        total += forward[1]
        if workload.loop is Loop.NO_OVERLAP or not inputs[1].any():
            compute_ns += weights[0]
            total += inputs[1] + weights[1]
            continue
        key3 = (weights[0], inputs[1].tobytes(), weights[1].tobytes())
        alike.setdefault(key3, ([], Path(0.0, inputs[1], ()), Path(*weights, ())))[0].append(index)
    branches = tuple(
        (tuple(layers), _times(one, len(layers)), _times(two, len(layers))) for layers, one, two in alike.values()
    )
    return JobTimeline(groups, volumes, Path(compute_ns, total, ()), branches)


def _times(path: Path, count: int) -> Path:
    return Path(path.compute_ns * count, path.sizes * count, path.steps)
