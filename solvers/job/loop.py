"""What goes into the alternating loop, what it keeps, and what comes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from solvers.job.realise import Realisation
from topoopt.core.job import ConvergencePoint, JointBound
from topoopt.core.plan import Plan
from topoopt.core.proofs import StopReason
from topoopt.core.search_settings import AllReduceChoice
from topoopt.core.workload import Strategy

Progress = Callable[[str, int, float], None]
"""Called with (phase, proposals made since the last call, best iteration time so far in ms)."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A strategy simulated on a realised topology by `rounds`."""

    origin: str
    strategy: Strategy
    realisation: Realisation
    iteration_time_ms: float


@dataclass(frozen=True)
class LoopSettings:
    """Shares of the work.

    Attributes:
        budget: strategy proposals in all.
        topologies: candidate topologies looked at per strategy.
        beam: (start, topology) pairs that are annealed.
        search_strategy, search_topology: switch one half of the loop off.
        programs: names of PROGRAMS (`solvers.job.program_topologies`) that add topologies and ring mixes, after
            the loop, which is the same with them as without, so that they can only gain.
        finalists: candidates they are asked about, the best of the loop first.
        allreduce: what AllReduces run on; strategies are searched on rings whatever it is, and what is kept of them is
            simulated on this.
    """

    budget: int
    topologies: int
    beam: int = 3
    search_strategy: bool = True
    search_topology: bool = True
    programs: tuple[str, ...] = ()
    finalists: int = 1
    allreduce: AllReduceChoice = AllReduceChoice.RINGS


@dataclass(frozen=True, eq=False)
class LoopResult:
    """What a search ends with.

    Attributes:
        plan: the best one found, of this iteration time.
        initial_ms: of the first one, data parallel on TotientPerms; None: it does not fit the memory.
        convergence: how it went.
        joint: what method `joint` proves.
    """

    plan: Plan
    iteration_time_ms: float
    initial_ms: float | None
    convergence: tuple[ConvergencePoint, ...]
    stopped_by: StopReason
    proposals: int
    notes: tuple[str, ...]
    joint: JointBound | None = None


Keep = Callable[[Callable[[], LoopResult]], None]
"""Called whenever there is a better plan, with what would be returned if the search had to be left now."""


@dataclass
class LoopLog:
    """Counts proposals and keeps the improvements."""

    progress: Progress | None
    proposals: int = 0
    turns: int = 0
    best_ms: float = float("inf")
    shown_ms: float = float("inf")
    points: list[ConvergencePoint] = field(default_factory=list)

    def step(self, phase: str, proposals: int, best_ms: float) -> None:
        """Note proposals made in a phase and a time reached, and show them."""
        self.note(phase, proposals, best_ms)
        self.show(phase, proposals, best_ms)

    def note(self, phase: str, proposals: int, best_ms: float) -> None:
        """Keep what was made in a phase, whenever it is the turn of that."""
        self.proposals += proposals
        if best_ms < self.best_ms:
            self.best_ms = best_ms
            self.points.append(ConvergencePoint(self.proposals, phase, best_ms))

    def show(self, phase: str, proposals: int, best_ms: float) -> None:
        """Show it as it is made, maybe by several at once."""
        self.shown_ms = min(self.shown_ms, best_ms)
        if self.progress is not None:
            self.progress(phase, proposals, self.shown_ms)
