"""Parts of the alternating loop that do not depend on each other: here one after another, or in processes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from solvers.job.loop import Candidate, LoopLog, LoopSettings
from solvers.job.search_steps import SearchSteps
from solvers.job.strategy.starts import Start
from solvers.processes.crew import Crew
from solvers.stop import Stop
from topoopt.core.cluster import Cluster
from topoopt.core.workload import Workload

Said = tuple[str, int, float]
"""Phase, proposals made, best time in ms."""


@dataclass(frozen=True)
class StartPart:
    """A start on the best of so many topologies; beyond `at_most_ms` its time does not matter."""

    start: Start
    topologies: int
    at_most_ms: float

    def run(self, steps: SearchSteps) -> Candidate:
        """Do it."""
        return steps.on_topologies(self.start, self.topologies, self.at_most_ms)


@dataclass(frozen=True)
class ExplorePart:
    """The first turns of a pair, each of so many proposals, with streams of random numbers of their own."""

    candidate: Candidate
    proposals: int
    stream: int
    heats: tuple[float, ...] = (0.02,)

    def run(self, steps: SearchSteps) -> Candidate:
        """Do it."""
        found = self.candidate
        for turn, heat in enumerate(self.heats):
            found = steps.explored(found, self.proposals, self.stream + turn, heat)
        return found


Part = StartPart | ExplorePart
DonePart = tuple[Candidate, tuple[Said, ...]]


def candidates_of(parts: Iterable[Part], steps: SearchSteps, team: Crew | None, log: LoopLog) -> Iterator[Candidate]:
    """What the parts find, in their order; the log is the same with a team as without.

    Without one, a part is asked for once what those before it found has been taken.
    """
    if team is None:
        for part in parts:
            yield part.run(steps)
        return
    for candidate, said in team.in_order([*parts], log.show):
        for each in said:
            log.note(*each)
        yield candidate


class PartWork:
    """Does parts in a process of its own, and keeps what each says."""

    def __init__(self, stop: Stop, cluster: Cluster, workload: Workload, settings: LoopSettings, seed: int) -> None:
        self._said: list[Said] = []
        self._tell: Callable[[str, int, float], None] | None = None
        self._steps = SearchSteps(
            cluster, workload, settings, seed=seed, stop=stop, step=self._step, offer=lambda candidate, phase: None
        )

    def __call__(self, part: Part, tell: Callable[[str, int, float], None]) -> DonePart:
        self._said, self._tell = [], tell
        return part.run(self._steps), tuple(self._said)

    def _step(self, phase: str, proposals: int, best_ms: float) -> None:
        self._said.append((phase, proposals, best_ms))
        if self._tell is not None:
            self._tell(phase, proposals, best_ms)
