from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.simulate.circuits import Work

def follow_demand(
    work: Work,
    pairs: Ints,
    degree: int,
    link_rate: float,
    hop_latency_us: float,
    directed: bool,
    forwarding: bool,
    draining: bool,
    delay_ms: float,
    period_delays: float,
    least_period_ms: float,
    iterations: int,
    seed: int,
) -> tuple[Floats, int, float, float, Floats, Floats, Floats, int]:
    """Iterations one after another on circuits that a scheduler changes again and again while bytes wait.

    Args:
        work: a task graph whose chunks wait in Q queues.
        pairs: int64[Q], source * n + target of each queue.
        degree: interfaces of a server, 1 to 1048576; `forwarding` needs 2 where there are more than 2 servers.
        link_rate: bytes per ms of a circuit.
        hop_latency_us: with `forwarding` the least time between two settings of rates, with `draining` that of a hop
            of what is on its route when circuits change.
        directed: transmit and receive sides of an interface are switched apart; else a circuit is a fibre pair.
        forwarding: servers forward over shortest routes, and all stay connected (not with `directed`).
        draining: what is on its route arrives before circuits change.
        delay_ms: in which no circuit carries anything when they change.
        period_delays, least_period_ms: circuits stand for so many times the dark time before, and so many ms at least.
        iterations: how many.
        seed: of the first circuits and of ties.

    Returns:
        ms of each iteration; changes of circuits; ms of dark time; bytes times hops; float64[Q] bytes sent by each
        queue; float64[T] start and end of each task of the last iteration, from its beginning; tasks of the last one
        that can never run: if there are any, no iteration follows and these figures are of those before.

    Raises:
        ValueError: an array of a wrong length, an index or a number out of range, or a period too short for floating
            point to tell the times of the run apart.
    """

def run_stages(
    work: Work, link_rate: Floats, low: Ints, high: Ints, store: Int32s, interval: float
) -> tuple[float, float, float, int]:
    """One iteration of a schedule in stages, over links that several queues share max-min fairly.

    Args:
        work: a task graph whose chunks wait in Q queues.
        link_rate: float64[L], bytes per ms.
        low, high, store: int64[Q], int64[Q], int32[..]; the links of queue q are store[low[q]:high[q]].
        interval: least time between two settings of rates, ms.

    Returns:
        The latest end and the dark time, ms; bytes times hops; tasks that can never run.
    """

def scheduled_circuits(demand: Floats, degree: int, directed: bool, connected: bool, seed: int) -> Int32s:
    """int32[n, n]: parallel circuits for a demand (float64[n, n], n at most 4096).

    The pair with most demand gets a circuit, its demand is halved, and so on; ties are broken at random. A server has
    `degree` interfaces; directed circuits take a transmit side of one and a receive side of another, the others an
    interface at both ends, and go by the larger demand of both directions. `connected` (not with `directed`; degree 2
    at least where n > 2): free interfaces are used at random, and components are joined by giving up links of least
    demand that are no bridges.
    """

def random_circuits(n: int, degree: int, seed: int) -> Int32s:
    """int32[n, n]: directed circuits before any demand is known, `degree` shifts of a random order of the servers."""
