"""Schedules that an AllReduce may run on, whatever its size, and which of them is best for which size.

What a schedule takes alone on a network, all steps one after the other, is a line over the bytes of the vector for
every number of pieces: latencies of its steps, and bytes of the fullest link of each.
"""

from __future__ import annotations

from dataclasses import dataclass

from solvers.collective.pieces import lines
from solvers.collective.plans import PlannedSchedule, by_breadth, by_shortest, by_trees
from solvers.stop import Stop
from topoopt.core.collective import CollectiveObjective, CollectiveOp, CollectiveProblem, CollectiveSchedule
from topoopt.core.collective_solution import BestBySize
from topoopt.core.group_schedule import BREADTH_FIRST, FEWEST_STEPS, TREES
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.search_settings import AllReduceChoice

MOST_PIECES = 128
"""Pieces of a block that are tried: more steps take longer to simulate, and gain a hundredth at most."""

REFERENCE_BYTES = 1 << 30
"""Vector whose times the lines are made of."""


@dataclass(frozen=True, eq=False)
class AllReduceOption:
    """A schedule.

    Attributes:
        method: that made it.
        schedule: of whole blocks.
        lines: what it takes by bytes, one for each number of pieces.
    """

    method: str
    schedule: CollectiveSchedule
    lines: tuple[BestBySize, ...]

    def best(self, vector_bytes: int) -> BestBySize:
        """The number of pieces that is best for a vector of this size."""
        return min(self.lines, key=lambda line: (line.time_us(vector_bytes), line.pieces))


def allreduce_options(
    network: RatedNetwork, choice: AllReduceChoice, *, message_us: float, stop: Stop, with_trees: bool = True
) -> tuple[AllReduceOption, ...]:
    """Schedules for all ranks of a network; none for rings.

    Args:
        network: ranks, those that pass on as switches, latencies of links.
        choice: what is asked for. Breadth-first broadcasts need a network without switches; where there are some, whole
            shards go in the fewest steps instead.
        message_us: of each message, besides its bytes and the latencies of its links.
        stop: asked before trees are made, unless only they are asked for.
        with_trees: whether trees are tried for the best.
    """
    problem = CollectiveProblem(
        "AllReduce",
        network,
        CollectiveOp.ALLREDUCE,
        REFERENCE_BYTES,
        message_us=message_us,
        objective=CollectiveObjective.TIME,
    )
    found: list[AllReduceOption] = []
    if choice in (AllReduceChoice.BFB, AllReduceChoice.BEST):
        switched = bool(network.is_switch.any())
        plans = (by_shortest if switched else by_breadth)(problem, stop)
        found += (_option(problem, FEWEST_STEPS if switched else BREADTH_FIRST, planned) for planned in plans)
    best = choice is AllReduceChoice.BEST and with_trees and stop.reason() is None
    if choice is AllReduceChoice.TREES or best:
        found += (_option(problem, TREES, planned) for planned in by_trees(problem, stop))
    return tuple(found)


def _option(problem: CollectiveProblem, method: str, planned: PlannedSchedule) -> AllReduceOption:
    own = (line for line in lines(problem, planned, method, 1) if line.pieces <= MOST_PIECES)
    return AllReduceOption(method, planned.schedule, tuple(own))


def best_option(options: tuple[AllReduceOption, ...], vector_bytes: int) -> tuple[AllReduceOption, BestBySize]:
    """The option that is fastest alone on the network, and its line.

    Raises:
        ValueError: there are none.
    """
    both = ((option, option.best(vector_bytes)) for option in options)
    return min(both, key=lambda pair: (pair[1].time_us(vector_bytes), pair[1].steps))
