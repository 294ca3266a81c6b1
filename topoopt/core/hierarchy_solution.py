"""The solution of a hierarchical network: bandwidths, what they give, and the proof of how good they can be."""

from __future__ import annotations

from dataclasses import dataclass, field

from topoopt.core.hierarchy import Fleet
from topoopt.core.hierarchy_workload import Collective
from topoopt.core.proofs import Bound
from topoopt.core.shown import Shown
from topoopt.core.solution import SolutionHead
from topoopt.core.verdict import Tolerance


@dataclass(frozen=True)
class PathWeight:
    """A path through one iteration of a job, and its weight in the proof.

    Attributes:
        job: position of the workload.
        weight: not negative; of the objective per ns of this path.
        steps: loop `dag`: positions of the tasks on it, in order; `dp-overlap`: positions of the layers where it takes
            the weight gradient; `no-overlap`: empty.
    """

    job: int
    weight: float
    steps: tuple[int, ...] = ()


@dataclass(frozen=True)
class GroupShare:
    """Weighted bytes of a job's collectives of one kind on one communicator, split over the dimensions."""

    job: int
    communicator: int
    collective: Collective
    bytes_by_dimension: tuple[float, ...]


@dataclass(frozen=True, repr=False)
class BandwidthCertificate(Shown):
    """Proof of a lower bound by weak duality: any such numbers prove one, good ones a good one.

    The time of a job is at least that of each of its paths, a collective takes at least any weighted mean of its times
    in the dimensions; what remains is separable in the bandwidths but for the linear rows, which are priced.

    Attributes:
        paths: weights of paths.
        shares: of the bytes on these paths.
        prices: of the linear rows, by name: at least 0 pushes the row up. For time x cost the rows are homogeneous.
    """

    paths: tuple[PathWeight, ...]
    shares: tuple[GroupShare, ...]
    prices: tuple[tuple[str, float], ...]


@dataclass(frozen=True, repr=False)
class DesignProof(Shown):
    """A certificate of one design; `too_slow`: it proves that no bandwidths keep the time limit."""

    design: int
    certificate: BandwidthCertificate
    too_slow: bool = False


@dataclass(frozen=True)
class CollectiveTime:
    """All collectives of one kind of a job on one communicator.

    Attributes:
        job, communicator, collective: which.
        size_bytes: in one iteration, on all paths together.
        times_ns: how long they take in each dimension, were nothing overlapped.
    """

    job: str
    communicator: str
    collective: Collective
    size_bytes: float
    times_ns: tuple[float, ...]

    @property
    def time_ns(self) -> float:
        """In all dimensions together."""
        return max(self.times_ns)

    @property
    def slowest(self) -> tuple[int, ...]:
        """Positions of the dimensions that take longest; closer times are equal as far as we can tell."""
        most = self.time_ns - Tolerance.TIE.of(self.time_ns)
        return tuple(place for place, time in enumerate(self.times_ns) if time > 0 and time >= most)


@dataclass(frozen=True)
class ParetoPoint:
    """The cheapest network that keeps a time limit.

    Attributes:
        limit_ns: the limit.
        time_ns, cost_usd, bandwidth_gbytes_per_s: of the network.
        cost_bound: on the least cost, USD, derived again by the checker.
        certificate: behind it; None for sums of bytes.
        claimed_bound: a larger one that is not; None where there is none.
    """

    limit_ns: float
    time_ns: float
    cost_usd: float
    bandwidth_gbytes_per_s: tuple[float, ...]
    cost_bound: Bound
    certificate: BandwidthCertificate | None
    claimed_bound: Bound | None = None


@dataclass(frozen=True)
class JobTime:
    """Iteration time of one job, its compute alone, and its time under the equal split.

    Attributes:
        weight: of its times in that of the fleet.
    """

    name: str
    weight: float
    time_ns: float
    compute_ns: float
    equal_split_ns: float


@dataclass(frozen=True, repr=False)
class HierarchicalSolution(SolutionHead):
    """Result of `topoopt solve` on an instance of kind `hierarchical-bandwidth`.

    Attributes, besides those of `SolutionHead`:
        bound: proven lower bound, over all designs and bandwidths.
        design, design_name, designs: position and name of the design chosen, and how many there were.
        dimensions, blocks, sizes: of its network, innermost first.
        bandwidth_gbytes_per_s: per NPU and dimension.
        cost_usd: of the network; None without prices.
        equal_cost_usd: of the equal split of the same total.
        fleet: what time means for several jobs.
        jobs: each job.
        collectives: what takes how long, and which dimension bounds it.
        gain_ns: time saved by one more GB/s in each dimension alone; 0 where another one holds up the same collectives
            (and where it is rounding, below 1e-9 of the time).
        marginal_ns: ns per GB/s in each dimension at the margin, the others that hold up the same collectives growing
            with it (the dual price of its bandwidth); None for a catalogue.
        proofs: certificates of the design chosen, and of others whose bound is more than a formula.
        pareto: front of time and cost of the design chosen.
    """

    design: int
    design_name: str
    designs: int
    dimensions: tuple[str, ...]
    blocks: tuple[str, ...]
    sizes: tuple[int, ...]
    bandwidth_gbytes_per_s: tuple[float, ...]
    cost_usd: float | None
    equal_cost_usd: float | None
    fleet: Fleet
    jobs: tuple[JobTime, ...]
    collectives: tuple[CollectiveTime, ...]
    gain_ns: tuple[float, ...]
    marginal_ns: tuple[float, ...] | None
    proofs: tuple[DesignProof, ...]
    pareto: tuple[ParetoPoint, ...]

    kind: str = field(default="hierarchical-bandwidth", init=False)

    def bound_by(self, collective: CollectiveTime) -> tuple[str, ...]:
        """Names of the dimensions that it takes longest in."""
        return tuple(self.dimensions[place] for place in collective.slowest)

    @property
    def time_ns(self) -> float:
        """Time of the fleet, as the objective counts it."""
        return self.fleet.of([job.weight * job.time_ns for job in self.jobs])

    @property
    def equal_time_ns(self) -> float:
        """The same under the equal split of the same total."""
        return self.fleet.of([job.weight * job.equal_split_ns for job in self.jobs])

    @property
    def speedup_over_equal(self) -> float:
        """Time under the equal split over time."""
        return self.equal_time_ns / self.time_ns

    @property
    def perf_per_cost_gain(self) -> float | None:
        """Performance per cost over that of the equal split; None without prices, and where nothing costs anything."""
        if not self.cost_usd or self.equal_cost_usd is None:
            return None
        return self.equal_time_ns * self.equal_cost_usd / (self.time_ns * self.cost_usd)
