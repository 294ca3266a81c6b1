"""Chains of compute no strategy can avoid: least start and remaining times of the tasks of every operator.

Edge u -> v *binds* if, whatever splits the two use, every part of v reads some part of u and every part of u is read
by some part of v. Then, by induction along the graph, the times below hold for any part of an operator: it waits for
at least one part of each producer, and at least one part of each consumer waits for it; and since backward
dependencies mirror forward ones, a forward chain can be walked back through the very same parts, so their splits may
be chosen jointly.
"""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.workload import Workload
from topoopt.verify.job.choices import Choices


@dataclass(frozen=True)
class Chains:
    """Least times over all strategies, ms; one entry per operator, valid for each of its parts.

    Attributes:
        forward_start: before the forward task can start.
        turn: from its start to the end of the backward task of the same part.
        forward_tail: from its start to the end of the iteration.
        backward_tail: from the start of the backward task to the end of the iteration.
        critical: length of the longest chain through the operator.
    """

    forward_start: tuple[float, ...]
    turn: tuple[float, ...]
    forward_tail: tuple[float, ...]
    backward_tail: tuple[float, ...]
    critical: tuple[float, ...]

    @property
    def longest(self) -> float:
        """Longest chain of all."""
        return max(self.critical, default=0.0)


def binds(workload: Workload, choices: tuple[Choices, ...], producer: int, consumer: int) -> bool:
    """Whether every part of the consumer shares elements with a part of the producer and the other way round.

    Samples always do, since all sample slices are non-empty; channels do when neither cuts them in more slices than
    there are channels.
    """
    channels = workload.operators[producer].output_elements
    mixes = workload.operators[consumer].mixes_channels
    ways = [split.channel_ways for split in choices[producer].splits]
    ways += [split.reduce_ways if mixes else split.channel_ways for split in choices[consumer].splits]
    return max(ways, default=1) <= channels


def chains_of(workload: Workload, choices: tuple[Choices, ...], *, reductions: bool) -> Chains:
    """Chains with or without AllReduces at their ends; every operator has a usable split."""
    count = len(workload.operators)
    producers: list[list[int]] = [[] for _ in range(count)]
    consumers: list[list[int]] = [[] for _ in range(count)]
    for v, operator in enumerate(workload.operators):
        for edge in operator.inputs:
            if edge.fraction > 0 and binds(workload, choices, edge.producer, v):
                producers[v].append(edge.producer)
                consumers[edge.producer].append(v)

    after = [choice.reduction_ms if reductions else 0.0 * choice.reduction_ms for choice in choices]
    both = [float((choice.forward_ms + choice.backward_ms).min()) for choice in choices]
    turn = [0.0] * count  # same part, forward start to backward end: a consumer's turn lies between
    for v in reversed(range(count)):
        turn[v] = both[v] + max((turn[w] for w in consumers[v]), default=0.0)
    start = [0.0] * count
    end_tail = [0.0] * count  # after the backward task: the backward tasks of the producers
    backward_tail = [0.0] * count
    for v in range(count):
        start[v] = max((start[u] + float(choices[u].forward_ms.min()) for u in producers[v]), default=0.0)
        end_tail[v] = max((backward_tail[u] for u in producers[v]), default=0.0)
        backward_tail[v] = float((choices[v].backward_ms + after[v].clip(min=end_tail[v])).min())
    around = [0.0] * count  # before the forward task plus after the backward task, one chain walked both ways
    below = [0.0] * count  # the same with the operator's own tasks, or with its AllReduce as the end
    critical, forward_tail = [0.0] * count, [0.0] * count
    for v in range(count):
        own = choices[v].forward_ms + choices[v].backward_ms
        above = max((turn[w] for w in consumers[v]), default=0.0)
        around[v] = max((below[u] for u in producers[v]), default=0.0)
        below[v] = max(around[v] + both[v], start[v] + float((own + after[v]).min()))
        critical[v] = below[v] + above
        forward_tail[v] = float((own + after[v].clip(min=end_tail[v])).min()) + above
    return Chains(tuple(start), tuple(turn), tuple(forward_tail), tuple(backward_tail), tuple(critical))
