"""What the ranks of a training strategy do in one iteration, pass by pass in the order of the schedule."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from topoopt.core.errors import InputError, Problem
from topoopt.core.hierarchy_workload import Collective
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.pipeline import PassKind, PipelineSchedule
from topoopt.core.rank_program import CollectiveStep, ComputeStep, MessageStep, RankStep, RankTotals
from topoopt.simulate.llm_training.network.groups import rank_coordinates
from topoopt.simulate.llm_training.rank_passes import CONTEXT, DATA, EXPERT, REPLICAS, TENSOR, GroupCall, TrainingPasses
from topoopt.simulate.llm_training.step import strategy_orders
from topoopt.simulate.pipeline.orders import PassOrders

ENDS = (PassKind.BACKWARD, PassKind.WEIGHTS)
"""Passes behind which the gradients of weights of a micro-batch are there."""


class RankGroups:
    """Groups of ranks by family, numbered as they are met."""

    def __init__(self, strategy: ParallelStrategy) -> None:
        at, s = rank_coordinates(strategy), strategy
        t, c, d, p = (at[one] for one in (D.TENSOR, D.CONTEXT, D.DATA, D.PIPELINE))
        place, whole = t + s.tensor * (c + s.context * d), s.expert * s.expert_tensor
        self._keys = {
            TENSOR: c + s.context * (d + s.data * p),
            CONTEXT: t + s.tensor * (d + s.data * p),
            DATA: t + s.tensor * p,
            EXPERT: place // whole + s.gpus // s.pipeline // whole * p,
            REPLICAS: place % whole + whole * p,
        }
        self._numbers: dict[tuple[str, int], int] = {}
        self.members: dict[int, tuple[int, ...]] = {}

    def number(self, family: str, rank: int) -> int:
        """Of the group that a rank is in."""
        keys = self._keys[family]
        key = family, int(keys[rank])
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers) + 1
            self.members[self._numbers[key]] = tuple(np.flatnonzero(keys == keys[rank]).tolist())
        return self._numbers[key]


class _RankWriter:
    """Steps of one rank: one pass after the other, messages beside them."""

    def __init__(self, rank: int, groups: RankGroups, *, blocking: bool) -> None:
        self._rank, self._groups, self._blocking = rank, groups, blocking
        self.made: list[RankStep] = []
        self._last: tuple[int, ...] = ()

    def compute(self, name: str, time_us: int, after: Iterable[int] = ()) -> None:
        """After what came before, and more."""
        self._add(ComputeStep(name, time_us, (*self._last, *after)))

    def collectives(self, calls: Iterable[GroupCall]) -> None:
        """One after the other."""
        for call in calls:
            number = self._groups.number(call.family, self._rank)
            name = f"{call.family} {call.collective}"
            self._add(CollectiveStep(name, call.collective, number, call.size_bytes, self._last))

    def receive(self, peer: int, tag: int, size: int) -> list[int]:
        """A message that a pass waits for."""
        self.made.append(MessageStep(False, peer, tag, size, ()))
        return [len(self.made) - 1]

    def send(self, peer: int, tag: int, size: int) -> None:
        """A message that nothing here waits for, unless the rank does nothing else meanwhile."""
        self.made.append(MessageStep(True, peer, tag, size, self._last))
        if self._blocking:
            self._last = (len(self.made) - 1,)

    def _add(self, one: RankStep) -> None:
        self._last = (len(self.made),)
        self.made.append(one)


class TrainingProgram:
    """All that ranks do in one iteration (`topoopt.core.rank_program.RankProgram`)."""

    def __init__(self, problem: LlmTrainingProblem, strategy: ParallelStrategy) -> None:
        self.strategy, self.costs = strategy, TrainingPasses(problem, strategy)
        self._numbered = RankGroups(strategy)
        self._blocking = not problem.overlap.pipeline
        at = rank_coordinates(strategy)
        self.stage_of = at[D.PIPELINE]
        self._row = at[D.TENSOR] + strategy.tensor * (at[D.CONTEXT] + strategy.context * at[D.DATA])
        self.orders: PassOrders = strategy_orders(problem, strategy)

    @property
    def groups(self) -> dict[int, tuple[int, ...]]:
        """Ranks of the groups that the steps and totals made so far name, by number."""
        return self._numbered.members

    def passes_of(self, rank: int) -> list[tuple[PassKind, int, int]]:
        """Kind, micro-batch, stage."""
        own, start = int(self.stage_of[rank]), self.orders.start
        rows = self.orders.passes[int(start[own]) : int(start[own + 1])]
        return [(PassKind(kind), i, stage) for kind, i, stage in rows.tolist()]

    def neighbour(self, rank: int, stage: int) -> int | None:
        """The rank that holds a stage before or behind in the same replica; None: there is none, or itself."""
        if stage < 0:
            return None
        holder = self.orders.rank_of_stage[stage]
        peer = int(np.flatnonzero((self._row == self._row[rank]) & (self.stage_of == holder))[0])
        return None if peer == rank else peer

    def steps(self, rank: int) -> list[RankStep]:
        """Of a rank, in an order in which it can take them."""
        writer = _RankWriter(rank, self._numbered, blocking=self._blocking)
        passes, costs = self.passes_of(rank), self.costs
        in_all = self.strategy.zero >= 3
        final = {stage: at for at, (kind, _, stage) in enumerate(passes) if kind in ENDS}
        begun: set[int] = set()
        for at, (kind, i, stage) in enumerate(passes):
            ahead = kind in (PassKind.FORWARD, PassKind.JOINED)
            if kind is not PassKind.WEIGHTS and (in_all or stage not in begun):
                writer.collectives(costs.gathering(stage))
            begun.add(stage)
            source, target = self._ends(rank, kind, stage)
            place = (2 * i + ahead) * len(self.orders.rank_of_stage)
            came = [] if source is None else writer.receive(source[0], place + source[1], costs.hop_bytes)
            name = f"{'forward' if ahead else kind.name.lower()} of micro-batch {i}, stage {stage}"
            writer.compute(name, costs.compute_us(kind, stage), came)
            writer.collectives(costs.exchanges(kind, stage))
            if target is not None:
                writer.send(target[0], place + stage, costs.hop_bytes)
            if final[stage] == at or (in_all and kind in ENDS):
                writer.collectives(costs.reducing(stage))
        writer.compute("optimizer", costs.optimizer_us())
        return writer.made

    def _ends(self, rank: int, kind: PassKind, stage: int) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        """Where activations or gradients come from and go to: rank, stage."""
        if kind is PassKind.WEIGHTS:
            return None, None
        before, after = int(self.orders.before[stage]), int(self.orders.after[stage])
        ends = (before, after) if kind in (PassKind.FORWARD, PassKind.JOINED) else (after, before)
        peers = [self.neighbour(rank, end) for end in ends]
        source, target = (None if peer is None else (peer, end) for peer, end in zip(peers, ends, strict=True))
        return source, target

    def totals(self, rank: int) -> RankTotals:
        """Of a rank, added up from the counts of its passes."""
        calls: Counter[tuple[Collective, int, int]] = Counter()
        sent: Counter[int] = Counter()
        received: Counter[int] = Counter()
        compute_us = self.costs.optimizer_us()
        stages: dict[int, Counter[PassKind]] = defaultdict(Counter)
        for kind, _, stage in self.passes_of(rank):
            stages[stage][kind] += 1
        count = 1 + sum(counts.total() for counts in stages.values())
        for stage, counts in stages.items():
            for call, times in self._called(stage, counts):
                calls[call.collective, self._numbered.number(call.family, rank), call.size_bytes] += times
            for kind, times in counts.items():
                compute_us += times * self.costs.compute_us(kind, stage)
                for end, total in zip(self._ends(rank, kind, stage), (received, sent), strict=True):
                    if end is not None:
                        total[end[0]] += times * self.costs.hop_bytes
                        count += times
        return RankTotals(rank, count + calls.total(), calls, sent, received, compute_us)

    def _called(self, stage: int, counts: Counter[PassKind]) -> Iterator[tuple[GroupCall, int]]:
        """Collectives of all passes of a stage, with how often."""
        for kind, count in counts.items():
            yield from ((call, count) for call in self.costs.exchanges(kind, stage))
        in_all, weights = self.strategy.zero >= 3, counts[PassKind.WEIGHTS]
        gathered, reduced = counts.total() - weights, counts[PassKind.BACKWARD] + weights
        yield from ((call, gathered if in_all else 1) for call in self.costs.gathering(stage))
        yield from ((call, reduced if in_all else 1) for call in self.costs.reducing(stage))


def program_of(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> TrainingProgram:
    """What ranks do in one iteration of a strategy.

    Raises:
        InputError: its ranks are not told one by one.
    """
    problems = []
    if strategy.schedule is PipelineSchedule.DUALPIPE:
        text, value = "a stage on two ranks is not written", strategy.schedule.value
        problems.append(Problem(text, path="plan.strategy.schedule", value=value))
    if strategy.expert_tensor > 1:
        text, value = "experts that GPUs share are not written", str(strategy.expert_tensor)
        problems.append(Problem(text, path="plan.strategy.expert_tensor", value=value, allowed="1"))
    if problems:
        raise InputError(problems)
    return TrainingProgram(problem, strategy)
