import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.simulate.network import GraphArrays, NetworkArrays

_Outcome = tuple[float, Floats, Floats, Int32s, Floats, Floats, Floats, int]
"""The fields of `topoopt.simulate.time_models.evaluate.Outcome`."""

def max_min_rates(first: Ints, link: Int32s, link_rate: Floats, weight: Ints) -> Floats:
    """float64[R]: what each flow of every route gets where links are shared max-min fairly; -1: it crosses no link.

    All rates rise together; when a link is full, its flows keep their rate and the others go on (Bertsekas and
    Gallager, Data Networks, section 6.5).

    Args:
        first: int64[R+1]; the links of route r are link[first[r]..first[r+1]], repeats counted.
        link: int32[...].
        link_rate: float64[L].
        weight: int64[R], flows of each route, positive.
    """

def simulate_fluid(graph: GraphArrays, network: NetworkArrays, job_ptr: Ints, restart: bool) -> _Outcome:
    """Time model `fluid`: jobs until each has done one iteration; the rules stand in `simulate.time_models.fluid`.

    Args:
        graph: T tasks; a transfer without a path takes no time.
        network: without schedules.
        job_ptr: int64[J+1]; the tasks of job j are job_ptr[j]..job_ptr[j+1].
        restart: a job that is done begins again at once (unless it took no time), until the last one has finished its
            first iteration.
    """

def simulate_flexnet(
    graph: GraphArrays, network: NetworkArrays, directions: NDArray[np.int8], opposite: Int32s, job_ptr: Ints
) -> _Outcome:
    """Time model `flexnet`: jobs until each has done one iteration; the rules stand in `simulate.time_models.flexnet`.

    Args:
        graph: T tasks.
        network: with a path for every transfer, and without schedules.
        directions: int8[T], negative for an AllReduce that goes the other way round its rings.
        opposite: int32[L], for each link the one from its head to its tail; may be empty if no direction is negative.
        job_ptr: int64[J+1]; the tasks of job j are job_ptr[j]..job_ptr[j+1].
    """

class SharedCircuits:
    """Steps of which transfers in one direction of a pair share its circuits equally."""

    def __init__(
        self,
        first: Ints,
        successor: Ints,
        waits: Ints,
        duration: Floats,
        volume: Floats,
        channel: Ints,
        pairs: int,
    ) -> None:
        """Of a graph, whose arrays are copied.

        Args:
            first, successor: int64[n+1], int64[edges]: of each step, those that wait for it; transfers come first.
            waits: int64[n], how many steps each one waits for.
            duration: float64[n], of steps that are no transfers.
            volume, channel: float64[transfers], int64[transfers]: twice the pair, plus 1 in the other direction.
            pairs: number of them.
        """

    def follow(self, circuits: Ints, rate: float) -> tuple[Floats, Floats]:
        """(start, end), float64[n] each, of steps that all begin as early as they can.

        Args:
            circuits: int64[pairs].
            rate: volume that a circuit carries in a unit of time.
        """

    def makespan(self, circuits: Ints, rate: float) -> float:
        """When the last step ends."""

class TwoLayerSearch:
    """Multipliers of the two-layer bound, better with every iteration.

    The primal-dual hybrid gradient method (Chambolle and Pock, J. Math. Imaging Vis. 40, 2011), diagonally
    preconditioned, on this program over y (link), z (exactly two hops) and p_ikj (both links of i -> k -> j), i, k, j
    distinct:

        maximise sum D (2 y + z)
        (1) (2) row and column sums of y <= d      (3) y_ij + z_ij <= 1       (4) z_ij <= sum_k p_ikj
        (5) sum_j p_ikj <= d y_ik                  (6) sum_i p_ikj <= d y_kj  (7) p_ikj <= y_ik   (8) p_ikj <= y_kj
    """

    def __init__(self, degree: int, demand: NDArray[np.float32]) -> None:
        """Before the first iteration.

        Args:
            degree: d.
            demand: float32[n, n], zero diagonal, of about 1 on average.
        """

    def run(self, iterations: int) -> None:
        """Go on; each iteration is one pass over the n^3 arrays."""

    def multipliers(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """float32[n, n], w of (4); float32[n * n, n], u of (5) and (7), a row for each i and k; float32[2, n], of (1)
        and (2).
        """
