from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.placement import PlacementArrays

def tails(a: PlacementArrays, device: Ints, rates: Floats) -> Floats:
    """float64[n]: longest path from the start of each operator to the end, in ms, with transfers as if each were alone.

    Args:
        a: a problem.
        device: int64[n], of each operator.
        rates: float64[S, S] bytes/ms of pairs of servers; used with sharing STATIC only.
    """

def simulate(
    a: PlacementArrays, device: Ints, rates: Floats, priority: Floats
) -> tuple[float, Floats, Floats, Ints, Ints, Floats, Floats]:
    """One step of a placed operator graph, by events.

    A device runs one operator at a time; of those whose inputs are there it takes the one of least priority number.
    Operators of zero time take no turn. A tensor is sent once to every other device with a consumer, when its producer
    ends. Devices of one server have a link of their own for each pair. Empty tensors load no link.

    Between servers, FAIR: after the latency all transfers run at once, at max-min fair rates below what each server's
    links together carry, out and in. FIFO: a transfer holds the port out of one server and into the other for its
    latency and its bytes; of the waiting ones that could start the one of least priority number does. STATIC: as FIFO,
    but for each pair of servers alone, at its own rate. ALONE: every transfer has the full rate of its two servers.
    A transfer has the priority of its first consumer. Events at the same time are all seen before anything new starts.

    Args:
        a, device, rates: as of `tails`.
        priority: float64[n].

    Returns:
        (makespan, start[n], end[n], tensor[], target device[], start[], end[] of transfers), times in ms; the makespan
        is infinite if a transfer without a rate never ends.
    """

def simulate_in_order(
    a: PlacementArrays, device: Ints, rates: Floats, order: Ints
) -> tuple[float, Floats, Floats, Ints, Ints, Floats, Floats]:
    """The same for operators run in a given order, int64[n], producers first, where nothing contends."""

def makespan(a: PlacementArrays, device: Ints, rates: Floats, allocate: bool, limit: float) -> float:
    """Makespan in ms with longest tails first; infinity as soon as an operator starts too late to meet `limit`.

    Args:
        a, device, rates: as of `tails`.
        allocate: at the better of two static splits (`rates_by_volume` of powers 1/2 and 1) instead of `rates`.
        limit: ms.
    """

def rates_by_volume(a: PlacementArrays, device: Ints, power: float) -> Floats:
    """float64[S, S], bytes/ms: rates in proportion to volume**power, out and in within the links, then filled up.

    The volume is what each server sends to each other. Power 1 ends simultaneous transfers together; 1/2 is the best
    split for transfers one after another.
    """

class PlacementAnnealing:
    """Simulated annealing over the devices of groups, from a placement that fits; copies what it is given."""

    def __init__(
        self,
        a: PlacementArrays,
        g: tuple[Ints, Ints, Ints, Floats],
        start: Ints,
        rates: Floats,
        allocate: bool,
        seed: int,
    ) -> None:
        """Before the first move.

        Args:
            a: a problem.
            g: its groups, a `GroupGraph`.
            start: int64[G], device of each group.
            rates, allocate: as of `makespan`.
            seed: from 0 to 2**64 - 1.
        """

    def run(self, moves: int, hot: float, cold: float) -> None:
        """Make so many moves of up to 32 groups each; the temperature cools from `hot` to `cold`.

        A temperature is the worsening, relative to the current makespan, that is accepted with chance 1/e.
        """

    def restart(self) -> None:
        """Go on from the best placement."""

    def value(self) -> float:
        """Least makespan so far, in ms."""

    def placement(self) -> Ints:
        """int64[G]: the placement of that makespan."""

class OrderAnnealing:
    """Simulated annealing over devices and the order of operators at once, of small graphs; copies what it is given.

    Without contention a device waits for the next operator of the order; else the first ones have priority.
    """

    def __init__(
        self,
        a: PlacementArrays,
        g: tuple[Ints, Ints, Ints, Floats],
        start: Ints,
        rates: Floats,
        order: Ints,
        seed: int,
    ) -> None:
        """Before the first move.

        Args:
            a, g, start, rates, seed: as of `PlacementAnnealing`.
            order: int64[n], all operators, producers first.
        """

    def run(self, moves: int, hot: float, cold: float) -> None:
        """Make so many moves: an operator elsewhere in the order, a group on another device, or two exchanged.

        Temperatures are those of `PlacementAnnealing`.
        """

    def value(self) -> float:
        """Least makespan so far, in ms."""

    def placement(self) -> Ints:
        """int64[G]: the placement of that makespan."""

    def order(self) -> Ints:
        """int64[n]: its operators in order."""

class PriorityAnnealing:
    """Simulated annealing over the priorities of operators on given devices; copies what it is given."""

    def __init__(self, a: PlacementArrays, device: Ints, rates: Floats, priority: Floats, seed: int) -> None:
        """Before the first move.

        Args:
            a, device, rates: as of `tails`.
            priority: float64[n], to start from.
            seed: from 0 to 2**64 - 1.
        """

    def run(self, moves: int) -> None:
        """Shift so many times the priority of one operator by up to a tenth of the least makespan."""

    def value(self) -> float:
        """Least makespan so far, in ms."""

    def priority(self) -> Floats:
        """float64[n]: the priorities of that makespan."""

class CircuitBounds:
    """Circuits of pairs of pods with which a graph of transfers and tasks can be done before a deadline.

    No step begins before its head, and what follows it takes its tail. Transfers of one direction of a pair, and all
    that leave (enter) a pod, share one machine; Jackson's preemptive schedule says when it can be done.
    """

    def __init__(
        self,
        first: Ints,
        successor: Ints,
        order: Ints,
        duration: Floats,
        volume: Floats,
        channel: Ints,
        ends: Ints,
        ports: Ints,
        rate: float,
    ) -> None:
        """Of a job, whose first steps are its transfers.

        Args:
            first: int64[n + 1]; successors of step i are successor[first[i]:first[i + 1]].
            successor: int64[edges].
            order: int64[n], the steps, each after all it waits for.
            duration: float64[n], of tasks.
            volume: float64[transfers].
            channel: int64[transfers], twice the index of its pair, plus 1 from the second pod to the first.
            ends: int64[pairs, 2], the pods of each pair.
            ports: int64[pods], circuits that may end at each.
            rate: volume that a circuit carries in a unit of time.
        """

    def propagated(self, least: Ints, most: Ints, deadline: float) -> tuple[Ints, Ints] | None:
        """(least, most), int64[pairs] circuits: what of these ranges can meet the deadline; None: nothing."""

class Steps:
    """A graph of steps without cycles; copies what it is given."""

    def __init__(self, first: Ints, successor: Ints, order: Ints) -> None:
        """Of a graph: `first`, `successor` and `order` as of `CircuitBounds`."""

    def longest_path(self, length: Floats) -> tuple[float, Ints]:
        """(length, steps) of the longest path, where step i has length[i], float64[n]."""
