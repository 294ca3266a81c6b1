"""A plan of pods of GPUs joined by circuits that stay for a whole iteration, and what proves it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from topoopt.core.dag_topology_solution import CircuitProof, PathMean, Split, StepPath
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.pod_settings import PodSettings
from topoopt.core.shown import Shown


class PodVerdict(StrEnum):
    """What is known of a strategy in pods."""

    SEARCHED = "searched"  # its circuits were, to the end or as far as limits allowed
    SLOWER = "slower"  # no circuits make it faster than the plan
    CROWDED = "crowded"  # a pod exchanges with more others than it has ports
    LEFT = "left"  # nothing but the bound that all strategies have


@dataclass(frozen=True, repr=False)
class TriedStrategy(Shown):
    """A strategy that was looked at in pods.

    Pairs of pods are those that something is sent between, ascending; steps are numbered transfers first, both by
    their names.

    Attributes:
        strategy: with the layers of its chunks.
        verdict: what is known of it.
        bound_s: no circuits make an iteration faster; of a slower one the time over the fastest circuits of the plan,
            of one left the bound that all strategies have, of a crowded one, which has no circuits, 0.
        counts: circuits of each pair that were the fastest found; empty: none were searched.
        makespan_s: of an iteration over these; None: none were searched.
        tree, paths, means: of the proof, as `CircuitProof` has them; empty: nothing but the bound of all strategies.
    """

    strategy: ParallelStrategy
    verdict: PodVerdict
    bound_s: float
    counts: tuple[int, ...] = ()
    makespan_s: float | None = None
    tree: tuple[Split, ...] = ()
    paths: tuple[StepPath, ...] = ()
    means: tuple[PathMean, ...] = ()


@dataclass(frozen=True)
class PodLink:
    """Circuits between two pods, and what they carry in an iteration.

    Attributes:
        one, other: pods, the smaller number first.
        count: circuits, at least 1.
        there_bytes, back_bytes: from the one to the other, and back.
    """

    one: int
    other: int
    count: int
    there_bytes: float
    back_bytes: float


@dataclass(frozen=True, repr=False)
class PodPlan(Shown):
    """A strategy and the circuits between its pods, and what proves them.

    Attributes:
        settings: of the instance.
        pods: n; pod = stage x pods of a stage + place.
        makespan_s: of an iteration.
        compute_s: of one whose transfers take no time.
        links: circuits by pair, ascending.
        proof: of the circuits of the plan: that none do an iteration before the bound of its strategy, and that no
            fewer do it within the slack.
        best: place of the strategy of the plan among those tried; its `counts` are the circuits that are fastest.
        tried: strategies by the bound that all have, the least first.
        first: place of the one that is fastest on an ideal switch.
        volume_s: of an iteration of the strategy of the plan over circuits by volume alone.
        volume_counts: these circuits, by pair.
        others_s: no strategy that was not tried is faster; None: there is none.
    """

    settings: PodSettings
    pods: int
    makespan_s: float
    compute_s: float
    links: tuple[PodLink, ...]
    proof: CircuitProof
    best: int
    tried: tuple[TriedStrategy, ...]
    first: int
    volume_s: float
    volume_counts: tuple[int, ...]
    others_s: float | None

    @property
    def bound_s(self) -> float:
        """No strategy of the space is faster, over whatever circuits."""
        return self.tried_bound_s if self.others_s is None else min(self.tried_bound_s, self.others_s)

    @property
    def tried_bound_s(self) -> float:
        """None of the strategies tried is faster, over whatever circuits."""
        return min([self.makespan_s, *(one.bound_s for one in self.tried if one.verdict is not PodVerdict.CROWDED)])

    @property
    def circuits_total(self) -> int:
        """Of all pairs."""
        return sum(one.count for one in self.links)

    @property
    def ports_used(self) -> tuple[int, ...]:
        """Of each pod."""
        used = [0] * self.pods
        for one in self.links:
            used[one.one] += one.count
            used[one.other] += one.count
        return tuple(used)

    @property
    def ports_saved(self) -> tuple[int, ...]:
        """Of each pod, those that no circuit ends at."""
        return tuple(self.settings.ports - used for used in self.ports_used)

    @property
    def first_s(self) -> float | None:
        """Of an iteration of the strategy that is fastest on an ideal switch, over the best circuits known for it;
        None: its circuits were not searched."""
        return self.tried[self.first].makespan_s

    @property
    def communication_s(self) -> float:
        """What an iteration takes longer than if transfers took no time."""
        return max(0.0, self.makespan_s - self.compute_s)
