"""How the interfaces of a server are shared out among the families of a strategy: greedily, then by exchanges."""

from __future__ import annotations

from dataclasses import dataclass

from solvers.llm_training.network.direct_connect import Split, direct_network, least_interfaces, ring_leaders
from solvers.llm_training.network.evaluation import EvaluatedNetwork, evaluated, family_bytes
from topoopt.core.errors import InfeasibleError
from topoopt.core.llm_training import InterfaceSplit, LlmTrainingProblem
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy
from topoopt.simulate.llm_training.network.groups import FamilyGroups


@dataclass(frozen=True, eq=False)
class SplitNetwork:
    """A direct-connect network with the split that it is made of."""

    split: dict[F, int]
    evaluated: EvaluatedNetwork


class _Search:
    def __init__(self, problem: LlmTrainingProblem, strategy: ParallelStrategy, groups: FamilyGroups) -> None:
        self._problem, self._strategy, self._groups = problem, strategy, groups
        self._volume = family_bytes(problem, strategy)
        self.least = least_interfaces(groups, problem.cluster.links)
        # One interface more gives an exchange shorter ways; rings and stages take as many as they begin with.
        self.step = {**self.least, **({F.EXPERT: 1} if F.EXPERT in self.least else {})}
        leaders = ring_leaders(groups)
        for family, leader in leaders.items():
            if family is not leader:
                self._volume[leader] += self._volume[family]
        self._known: dict[tuple[tuple[F, int], ...], SplitNetwork | None] = {}

    def ordered(self) -> list[F]:
        """Families between servers, those that send most first."""
        return sorted(self.least, key=lambda family: (-self._volume[family], family))

    def at(self, split: Split) -> SplitNetwork | None:
        """The network of a split; None: it does not carry all."""
        key = tuple(sorted(split.items()))
        if key not in self._known:
            cluster, groups, seed = self._problem.cluster, self._groups, self._problem.search.seed
            try:
                network = direct_network(cluster, groups, split, self._volume, seed=seed)
                one = evaluated(self._problem, self._strategy, network, groups)
                self._known[key] = SplitNetwork(dict(split), one)
            except InfeasibleError:
                self._known[key] = None
        return self._known[key]


def best_split(problem: LlmTrainingProblem, strategy: ParallelStrategy, groups: FamilyGroups) -> SplitNetwork | None:
    """The fastest split found, or the even one if that is asked for; None: no split carries all traffic.

    First every family gets what links of its own take at least, those that send most first; then what is left goes,
    step by step, where the iteration gains most; then steps go from one family to another while that gains.
    """
    search, degree = _Search(problem, strategy, groups), problem.cluster.degree
    if not search.least:
        return search.at({})
    if problem.degree_split is InterfaceSplit.EVEN:
        return search.at(_even(search, degree))
    split = dict.fromkeys(search.least, 0)
    for family in search.ordered():
        if sum(split.values()) + search.least[family] <= degree:
            split[family] = search.least[family]
    best = _filled(search, split, degree)
    while best is not None:
        moved = [
            _filled(search, _exchanged(search, best.split, giver, taker), degree)
            for giver in best.split
            for taker in best.split
            if giver != taker and best.split[giver] > 0
        ]
        better = min((one for one in moved if one is not None), key=_time, default=None)
        if better is None or _time(better) >= _time(best) * (1.0 - 1e-9):
            return best
        best = better
    return None


def _even(search: _Search, degree: int) -> dict[F, int]:
    """Step by step to the family that has fewest, of those the one that sends most; what fits nobody stays dark."""
    order = search.ordered()
    split = dict.fromkeys(order, 0)
    while True:
        left = degree - sum(split.values())
        more = {family: search.step[family] if split[family] else search.least[family] for family in order}
        fitting = [family for family in order if more[family] <= left]
        if not fitting:
            return split
        taker = min(fitting, key=lambda family: split[family])
        split[taker] += more[taker]


def _time(one: SplitNetwork) -> float:
    return one.evaluated.iteration_time_s


def _exchanged(search: _Search, split: dict[F, int], giver: F, taker: F) -> dict[F, int]:
    """A step of one family goes to another; what is less than it takes at least is of no use to a family."""
    left = split[giver] - search.step[giver]
    more = search.step[taker] if split[taker] else search.least[taker]
    return {**split, giver: left if left >= search.least[giver] else 0, taker: split[taker] + more}


def _filled(search: _Search, split: dict[F, int], degree: int) -> SplitNetwork | None:
    """The split with what is left given away."""
    if sum(split.values()) > degree:
        return None
    best = search.at(split)
    while True:
        left = degree - sum(split.values())
        steps = {family: search.step[family] if split[family] else search.least[family] for family in split}
        tried = [search.at({**split, family: split[family] + more}) for family, more in steps.items() if more <= left]
        found = [one for one in tried if one is not None]
        if not found:
            return best
        better = min(found, key=_time)
        if best is not None and _time(better) > _time(best):
            return best
        best, split = better, better.split
