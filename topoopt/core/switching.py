"""Circuits that are set anew inside an iteration: ports of the GPUs of a rail, what they serve when, and what it takes.

Rail r joins GPU r of all servers through one optical circuit switch (Opus, arXiv:2602.12521). A circuit takes a port at
both ends and carries its rate in each direction. Replicas run in step, so one GPU of each stage stands for all: what
its ports serve is the state of the stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from annotated_types import Ge, Le

from topoopt.core.data import STRICT
from topoopt.core.pipeline import PipelineSchedule
from topoopt.core.shown import Shown

PORTS = 2
"""Ports of a GPU on its rail where an instance names no number: a ring needs two."""


Ports = Annotated[int, Ge(0), Le(1 << 10)]


class PortUse(StrEnum):
    """What circuits of a rail carry."""

    PIPELINE = "pipeline"  # to the stages before and behind
    DATA = "data"  # a ring through the servers of the stage: gradients and weights
    EXPERT = "expert"  # a ring through the servers that share out the experts of a layer


@dataclass(frozen=True)
class SwitchSettings:
    """How circuits are set anew.

    Attributes:
        delay_s: from the command to new circuits; those that are cut are dark meanwhile.
        provisioned: circuits are asked for as soon as those they cut are idle; else when they are needed.
        ports: of a GPU on its rail.
        port_gbps: rate of a circuit in each direction; None: all that a GPU has.
    """

    delay_s: float
    provisioned: bool = True
    ports: int = PORTS
    port_gbps: float | None = None


@dataclass(frozen=True, order=True)
class PortSplit:
    """Ports of a GPU by what they serve at a time."""

    __pydantic_config__ = STRICT

    pipeline: Ports = 0
    data: Ports = 0
    expert: Ports = 0

    def of(self, use: PortUse) -> int:
        """Ports that serve this."""
        return int(getattr(self, use.value))

    @property
    def total(self) -> int:
        """Ports that serve anything."""
        return self.pipeline + self.data + self.expert


@dataclass(frozen=True, order=True)
class StagePorts:
    """What the ports of a stage serve while it exchanges one thing or another.

    Attributes:
        pipeline: between passes.
        inside: in passes, for the exchange of tokens or weights there; as `pipeline` where there is none.
        data: while gradients are reduced behind the passes, and weights gathered ahead of them.
    """

    __pydantic_config__ = STRICT

    pipeline: PortSplit
    inside: PortSplit
    data: PortSplit

    @property
    def kept(self) -> bool:
        """Whether nothing is ever switched."""
        return self.pipeline == self.inside == self.data


@dataclass(frozen=True)
class RailExchange:
    """What passes of a stage exchange over the rail, seconds of a micro-batch at the full rate of a GPU.

    Attributes:
        crossing_s: forward, and backward: over the rail.
        within_s: meanwhile inside servers: it takes the longer of both.
        fixed_s: latencies beside.
        head_s: computing of a forward pass before its first exchange.
        tail_s: computing of a backward pass behind its last.
        hidden: computing goes on meanwhile, as with weights that are gathered layer by layer.
    """

    crossing_s: tuple[float, float]
    within_s: float
    fixed_s: float
    head_s: float
    tail_s: float
    hidden: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class RailJob(Shown):
    """One iteration of a strategy, as its rails see it: all that its time on any circuits follows from.

    A server holds ranks of one stage, tensor groups lie inside servers. Times are of the whole rate of a GPU, one value
    a stage of the model (p v of them) where not said otherwise.

    Attributes:
        schedule, ranks, chunks, micro_batches: of the pipeline; p, v, m.
        forward_s, inputs_s, weights_s: of a micro-batch, without what crosses the rail.
        exchange: of each stage; None: passes exchange nothing over the rail.
        inside: what they exchange; None with `exchange`.
        hop_s: of a micro-batch to the next stage: latency, and bytes.
        layers: of each stage.
        reduced_s, gathered_s: of the gradients and the weights of one layer.
        optimizer_s: of the step, which waits for all gradients.
        blocking: a rank waits until what it sends has arrived.
        overlapped: gradients are reduced layer by layer, as they come; weights are gathered as they are needed.
        data_servers, expert_servers: that a group lies on; 1: nothing crosses the rail.
        ports: of a GPU.
        circuit_share: rate of a circuit over the rate of a GPU.
    """

    schedule: PipelineSchedule
    ranks: int
    chunks: int
    micro_batches: int
    forward_s: tuple[float, ...]
    inputs_s: tuple[float, ...]
    weights_s: tuple[float, ...]
    exchange: tuple[RailExchange, ...] | None
    inside: PortUse | None
    hop_s: tuple[float, float]
    layers: tuple[int, ...]
    reduced_s: tuple[float, ...]
    gathered_s: tuple[float, ...]
    optimizer_s: float
    blocking: bool
    overlapped: bool
    data_servers: int
    expert_servers: int
    ports: int
    circuit_share: float

    def neighbours(self, rank: int) -> int:
        """Stages that a rank passes activations on to or gets them from."""
        if self.ranks < 3:
            return self.ranks - 1
        ends = self.chunks == 1 and rank in (0, self.ranks - 1)
        return 1 if ends else 2

    def needs(self, rank: int, use: PortUse) -> int:
        """The fewest ports that carry it: one a neighbour, a ring of more than two servers two."""
        if use is PortUse.PIPELINE:
            return self.neighbours(rank)
        servers = self.data_servers if use is PortUse.DATA else self.expert_servers
        return 0 if servers < 2 else 1 if servers == 2 else 2

    @property
    def uses(self) -> tuple[PortUse, ...]:
        """What crosses the rail at all."""
        found = []
        if self.ranks > 1:
            found.append(PortUse.PIPELINE)
        if self.data_servers > 1 and (self.inside is PortUse.DATA or any(self.reduced_s)):
            found.append(PortUse.DATA)
        if self.inside is PortUse.EXPERT:
            found.append(PortUse.EXPERT)
        return tuple(found)

    @property
    def reduces(self) -> bool:
        """Whether gradients are reduced over the rail behind the passes."""
        return self.data_servers > 1 and any(self.reduced_s)
