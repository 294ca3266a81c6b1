import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.simulate.network import GraphArrays, NetworkArrays, WorkloadArrays

_Layers = tuple[Ints, Ints, Ints, Ints]
"""`solvers.job.annealing.LikeLayers`."""

_Shape = tuple[Ints, Ints, Ints, Ints, Ints, _Layers]
"""`solvers.job.annealing.GraphShape`."""

def lower(
    workload: WorkloadArrays, split: Ints, offset: Ints
) -> tuple[NDArray[np.int8], Int32s, Int32s, Int32s, Floats, Ints, Int32s, Ints, Int32s]:
    """The task graph of a strategy: the fields of `GraphArrays`.

    Args:
        split: int64[operators], index of the split of each.
        offset: int64[operators], server of its first part.
    """

def task_count(workload: WorkloadArrays, split: Ints, offset: Ints) -> int:
    """Tasks of the graph of a strategy, without building it."""

def quick_bounds(workload: WorkloadArrays, split: Ints, offset: Ints, capacity: float) -> tuple[float, float]:
    """(lower bound on the iteration time in ms, memory overflow in bytes) of a strategy, without simulating it.

    The bound is the larger of the busiest server's compute time and the longest chain of forward and backward times:
    every part of an operator waits for at least one part of each of its producers.

    Args:
        capacity: memory of a server, bytes.
    """

def simulate(
    graph: GraphArrays,
    network: NetworkArrays,
    rounds: bool,
    threshold: float = ...,
    deadline: Floats | None = None,
    record: bool = False,
    job_ptr: Ints | None = None,
    restart: bool = False,
) -> tuple[float, Floats, Floats, Int32s, Floats, Floats, Floats, int]:
    """Time models `rounds` and `hop`: jobs until each has done one iteration; the fields of `Outcome`.

    Stops early, with infinite time, once it is sure to exceed `threshold`, or a task ends after its deadline.

    Args:
        rounds: an AllReduce goes round by round; else the bytes of all rounds at once.
        threshold: ms.
        deadline: float64[T] ms; None: the threshold of all tasks.
        record: whether link loads are added up, which a search does not need.
        job_ptr: int64[J+1]; the tasks of job j are job_ptr[j]..job_ptr[j+1]; None: all are one job.
        restart: a job that is done begins again at once (unless it took no time), until the last one has finished its
            first iteration.
    """

def load_bound(graph: GraphArrays, network: NetworkArrays, limit: float) -> tuple[bool, Floats]:
    """Whether an iteration is sure to take longer than `limit` ms; if not, float64[T] ms by which each task ends in one
    that does not: the longest chain of tasks after it takes what is left of the limit.

    No task begins before the longest chain of tasks to it is done (its *head*: compute, and transfers at the rate of a
    link that has nothing else to carry). What tasks with heads of at least h send over a link takes as long as its
    bytes take, and begins at h or later: for every link and every h, h + those times bounds the iteration (heads as in
    Jackson's bound on one machine; Carlier, The one-machine sequencing problem, 1982). It holds for all time models in
    which links carry bytes at their rate, by turns or not.
    """

def propose(workload: WorkloadArrays, shape: _Shape, split: Ints, offset: Ints, state: NDArray[np.uint64]) -> bool:
    """Change a strategy in place by one random move of the annealing; False if nothing changed.

    Args:
        state: uint64[1] of a SplitMix64 generator, changed.
    """

def move_layer(workload: WorkloadArrays, layers: _Layers, split: Ints, offset: Ints, state: NDArray[np.uint64]) -> bool:
    """Change a layer of like branches in place, or a run of operators of its branches; else as `propose`."""

class Annealing:
    """Simulated annealing over strategies on one network, in batches so that limits and Ctrl-C are seen.

    A proposal is accepted if its time is at most current * (1 - temperature * ln u), u uniform in (0, 1]: Metropolis
    with a temperature relative to the current time. Memory overflow comes before time: it may never grow.
    """

    def __init__(
        self,
        workload: WorkloadArrays,
        network: NetworkArrays,
        shape: _Shape,
        split: Ints,
        offset: Ints,
        capacity: float,
        seed: int,
        rounds: bool = False,
        most_tasks: int = ...,
        start_ms: float = ...,
        threads: int = ...,
    ) -> None:
        """Begin at a strategy.

        Args:
            network: with rings for all cosets, in the order of `strided_groups(n)`.
            capacity: memory of a server, bytes.
            seed: of the random moves, 64 bits.
            rounds: score every proposal by `rounds`, not by `hop`.
            most_tasks: of the strategies that are looked at.
            start_ms: time of the start by `rounds`; NaN: unknown.
            threads: that score proposals ahead, as if all before were rejected; the run is the same for any number.
        """

    def run(self, proposals: int, temperature: float, cooling: float) -> None:
        """Make so many proposals, each at a temperature `cooling` times that before."""

    @property
    def counts(self) -> Ints:
        """int64[5]: proposals, simulated, accepted, pruned by memory or compute, overloaded (pruned by link loads)."""

    @property
    def best_ms(self) -> float:
        """Time by `rounds` of the best strategy."""

    @property
    def best(self) -> tuple[Ints, Ints]:
        """Split and offset of the best by `rounds` among the strategies scored by it."""

def exact_ring(distance: Floats) -> Ints:
    """int64[k]: a shortest ring, member 0 first, by dynamic programming over subsets (Held and Karp, 1962).

    Args:
        distance: float64[k, k], from member to member, k at most 16.
    """

def move_segments(distance: Floats, order: Ints) -> Ints:
    """int64[k]: a ring improved by moving segments of up to three members elsewhere while that shortens it.

    Args:
        distance: float64[k, k], from member to member.
        order: int64[k], the ring to begin with.
    """

def fair_rates(
    active: Ints, low: Ints, high: Ints, link: Ints, part: Floats, capacity: Floats, limit: Floats
) -> Floats:
    """float64[A]: max-min fair rates of jobs whose flows advance in step.

    All flows of a job have one rate r_j, that of the slowest; a link of capacity C carries sum_j a_jl r_j <= C, and r_j
    is at most its limit. The rates of all jobs rise together; a job stops at its limit or when one of its links is
    full, and the others go on (progressive filling: Bertsekas and Gallager, Data Networks, section 6.5).

    Args:
        active: int64[A], jobs.
        low, high: int64[J]; the loads of job j are (link, part)[low[j]:high[j]].
        link: int64[...]; part: float64[...], a_jl.
        capacity: float64[L]; limit: float64[J].
    """

def follow_passes(
    start: Ints,
    links: Ints,
    durations: Floats,
    exchanged: Ints,
    lead: Floats,
    floor: Floats,
    hops: Floats,
    idle: Floats,
    first: Floats,
    inside: Floats,
    delay: Floats,
    apart: Ints,
    demand: bool,
    blocking: bool,
) -> tuple[Floats, Floats, bool]:
    """Do all passes of a pipeline as early as circuits, orders and data allow.

    Ranks do their passes in order. What a pass sends begins when the pass is through and both ends have set their
    circuits between stages. A rank whose ports are *apart* serves either what passes exchange inside or its neighbours:
    behind a pass it sets its ports to the pipeline, sends what the pass made and takes what the next pass needs, then
    sets them back; no circuit is cut while anything moves on it. Other ranks have the circuits of the pipeline all the
    time from the first that is needed. Every time is a largest value of sums of earlier ones: no time falls when
    another one rises.

    Args:
        start: int64[p+1], where the passes of each rank begin, as in `PassOrders`.
        links: int64[2, n]: the pass that each one waits for (-1: none), and the rank that gets what it makes (-1: none,
            or its own).
        durations: float64[n] seconds of the passes.
        exchanged: int64[n]: 1: it exchanges something over the rail.
        lead: float64[2, n]: seconds before its first exchange, and behind its last.
        floor: float64[n]: earliest begin.
        hops: float64[p, p] seconds of what is sent.
        idle: float64[p]: since when the ports serve nothing of the step before.
        first: float64[p]: delay of the first circuits of the pipeline; negative: they are there.
        inside: float64[p]: the same of those inside passes.
        delay: float64[2, p]: of later ones, to the pipeline and back.
        apart: int64[p]: 1: ports serve the pipeline and passes in turn.
        demand: circuits are asked for when they are needed.
        blocking: a rank sends what it made before it goes on.

    Returns:
        float64[6, n]: rows `BEGIN` and those behind it in `topoopt.simulate.switching`; float64[5, p]: `IDLE` and
        those behind it; and whether all passes could be done.
    """
