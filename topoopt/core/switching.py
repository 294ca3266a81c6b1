"""Circuits that change inside an iteration: optical devices, ports of GPUs, phases of rails, and the delays they
cause.

Rail r joins GPU r of all servers through one optical circuit switch (Opus, arXiv:2602.12521). A circuit takes a port at
both ends and carries its rate in each direction. Replicas run in step, so one GPU of each stage stands for all: what
its ports serve is the state of the stage.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from annotated_types import Ge, Le

from topoopt.core.data import STRICT, Shown
from topoopt.core.errors import InputError, Problem
from topoopt.core.parallelism import PipelineSchedule

OPTICAL_DEVICES: Mapping[str, tuple[float, int]] = {
    "tunable-lasers": (3.8e-6, 128),
    "silicon-photonics": (900e-6, 256),
    "rotornet": (0.010, 64),
    "2d-mems": (0.0115, 300),
    "3d-mems": (10.0, 384),
    "patch-panel": (120_000.0, 1008),
}
"""Reconfiguration delay, ms, and ports of kinds of optical switches (table of the TopoOpt paper, NSDI'23, from memory).

A robotic patch panel takes "minutes", two are assumed.
"""

_UNITS_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3, "min": 60e3}
_DURATION = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*(ns|us|ms|s|min)", re.ASCII)


def parse_delay(text: str) -> float:
    """Milliseconds of `10us`, `1.5 ms`, `0s` or of a device's name.

    Raises:
        InputError: neither a duration with its unit nor a known device.
    """
    word = text.strip().lower().replace("µ", "u")
    if word in OPTICAL_DEVICES:
        return OPTICAL_DEVICES[word][0]
    match = _DURATION.fullmatch(word)
    if match is None or not math.isfinite(float(match[1])):
        allowed = "a number of ns, us, ms, s or min (10us), or " + ", ".join(OPTICAL_DEVICES)
        raise InputError([Problem("neither a duration nor a known device", value=repr(text), allowed=allowed)])
    return float(f"{float(match[1]) * _UNITS_MS[match[2]]:.12g}")  # 3.8 ns is 3.8e-6 ms, not a neighbour of it


def delay_text(delay_ms: float) -> str:
    """`10 us`, `2 min`: the largest unit that leaves a number of 1 or more, four digits; minutes if they are whole."""
    minutes = delay_ms / _UNITS_MS["min"]
    if minutes >= 1 and minutes == round(minutes):
        return f"{minutes:.4g} min"
    for unit in ("s", "ms", "us", "ns"):
        if delay_ms >= _UNITS_MS[unit] * (1 - 1e-12):
            return f"{delay_ms / _UNITS_MS[unit]:.4g} {unit}"
    return f"{delay_ms / _UNITS_MS['ns']:.4g} ns"


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
        """Number of ports that serve this use."""
        return int(getattr(self, use.value))

    @property
    def total(self) -> int:
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
        """Whether no circuit is switched during the step."""
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
        uses = []
        if self.ranks > 1:
            uses.append(PortUse.PIPELINE)
        if self.data_servers > 1 and (self.inside is PortUse.DATA or any(self.reduced_s)):
            uses.append(PortUse.DATA)
        if self.inside is PortUse.EXPERT:
            uses.append(PortUse.EXPERT)
        return tuple(uses)

    @property
    def reduces(self) -> bool:
        """Whether gradients are reduced over the rail behind the passes."""
        return self.data_servers > 1 and any(self.reduced_s)


SwitchMode = Literal["on-demand", "provisioned"]
"""When circuits are asked for."""


Boundary = Literal["data-to-pipeline", "inside-to-pipeline", "pipeline-to-inside", "pipeline-to-data"]
"""Where the ports of a stage may change what they serve.

`data-to-pipeline`: at the begin of a step: to what the passes need first; `inside-to-pipeline`: behind a pass;
`pipeline-to-inside`: before the next; `pipeline-to-data`: behind the last pass.
"""


@dataclass(frozen=True)
class RailEvent:
    """Something that a stage does for a time.

    Attributes:
        rank: the stage.
        what: `forward`, `backward`, `inputs`, `weights`, `send`, `gather`, `reduce`, `switch`, `optimizer`.
        begin_s, end_s: seconds from the begin of the step; those before it are of the step before.
        micro_batch, stage: of a pass, and of what is sent of it; -1 else.
        peer: the rank that it is sent to; -1 else.
        before, after, boundary: what the ports serve, of a switch, and where it stands.
    """

    rank: int
    what: str
    begin_s: float
    end_s: float
    micro_batch: int = -1
    stage: int = -1
    peer: int = -1
    before: PortSplit | None = None
    after: PortSplit | None = None
    boundary: Boundary | None = None


@dataclass(frozen=True, order=True)
class PortChange:
    """The ports of a stage begin to be set anew.

    Attributes:
        rank: the stage.
        begin_s: seconds from the begin of the step; what is before it is of the step before.
        boundary: where it stands.
        after: what the ports serve then.
    """

    rank: int
    begin_s: float
    boundary: Boundary
    after: PortSplit


def changes_of(events: Iterable[RailEvent]) -> tuple[PortChange, ...]:
    """Those among events of a step, by rank and time."""
    changes = [
        PortChange(event.rank, event.begin_s, event.boundary, event.after)
        for event in events
        if event.boundary is not None and event.after is not None
    ]
    return tuple(sorted(changes, key=lambda event: (event.rank, event.begin_s)))


def action(before: PortSplit, after: PortSplit) -> str:
    """What happens to the ports of a stage at a boundary between two splits."""
    if before == after:
        return "keep"
    if sum(after.of(use) > 0 for use in PortUse) > 1:
        return "split"
    stay = sum(min(before.of(use), after.of(use)) for use in PortUse)
    return "switch part" if stay else "switch all"


@dataclass(frozen=True, eq=False, repr=False)
class SwitchedStep(Shown):
    """One step on circuits.

    Attributes:
        mode, delay_s: when circuits are asked for, and how long they take.
        plan: ports of each stage.
        step_s: seconds of the step.
        electrical_s: on a network that gives each exchange the whole rate of a GPU, all at once.
        bound_s: no plan of ports takes less with this delay.
        switches: times that the ports of a stage are set anew, over all stages.
        exposed_s: what the step would gain if switching took no time.
        events: by rank and time.
    """

    mode: SwitchMode
    delay_s: float
    plan: tuple[StagePorts, ...]
    step_s: float
    electrical_s: float
    bound_s: float
    switches: int
    exposed_s: float
    events: tuple[RailEvent, ...] = ()


@dataclass(frozen=True)
class BoundaryFigures:
    """What setting ports at one boundary costs; at all others they are set in no time.

    Attributes:
        boundary: which.
        action: what most stages do there (`action`).
        switches: times that ports are set there in a step, over all stages.
        window_s: the longest delay that costs nothing; infinite: any.
        stall_s: what the delay of the instance costs.
        break_even_s: the longest delay with which the step is faster than on one static topology; 0: none, infinite:
            any.
    """

    boundary: Boundary
    action: str
    switches: int
    window_s: float
    stall_s: float
    break_even_s: float


EVERY_STAGE = -1
"""In place of a stage: a failure that strikes all servers, as that of the switches of rails."""


@dataclass(frozen=True)
class ImpairedStep:
    """A step one of whose stages is slow, or one after interfaces failed.

    Attributes:
        rank: the stage that is slow, or one server of which has fewer interfaces; `EVERY_STAGE`: all servers have.
        step_s: seconds of the step on the ports of the plan.
        electrical_s: the same on a network that gives every exchange the whole rate of what is left, all at once.
    """

    rank: int
    step_s: float
    electrical_s: float


@dataclass(frozen=True, eq=False, repr=False)
class RailStudy(Shown):
    """Switching inside the steps of one strategy.

    Attributes:
        ports, circuit_gbps: of a GPU, and of a circuit in each direction.
        electrical_s: the step on a network that gives every exchange the whole rate of a GPU, all at once.
        static_s: the step on the best topology that is never switched; infinite: there is none.
        static: what that is.
        steps: one for each mode and delay, without events.
        shown: at the delay and in the mode of the instance, with its events.
        boundaries: of that step.
        slowdown: passes of one stage take so many times as long in `stragglers`.
        stragglers: that step with each stage slow in turn; empty: not asked for.
        failed: interfaces of a server that are dead in `failures`.
        failures: that step with these in all servers, then in one of each stage in turn; empty: not asked for.
    """

    ports: int
    circuit_gbps: float
    electrical_s: float
    static_s: float
    static: str
    steps: tuple[SwitchedStep, ...]
    shown: SwitchedStep
    boundaries: tuple[BoundaryFigures, ...]
    slowdown: float = 1.0
    stragglers: tuple[ImpairedStep, ...] = ()
    failed: int = 0
    failures: tuple[ImpairedStep, ...] = ()


RailCircuit = tuple[int, int, int]
"""Rail, port and peer: two ports of the switch of a rail, joined for both directions.

A port is server times ports of a GPU, and the port of the GPU; from 0."""


@dataclass(frozen=True, order=True)
class CircuitGroup:
    """Circuits that are set and cut together.

    Attributes:
        use: what they carry.
        stages: one, or two that follow each other.
        circuits: on all rails, ascending.
    """

    use: PortUse
    stages: tuple[int, ...]
    circuits: tuple[RailCircuit, ...]


@dataclass(frozen=True)
class RailPhase:
    """A time in which nothing changes.

    Attributes:
        begin_ns, end_ns: from the begin of the step.
        lit: groups that carry light, by number; ascending.
        dark: groups that are being set: their ports are taken, and carry nothing yet.
    """

    begin_ns: int
    end_ns: int
    lit: tuple[int, ...]
    dark: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class RailTimetable(Shown):
    """One step, which follows itself: its phases stand in a circle.

    Attributes:
        rails, servers, ports: switches; servers, each with so many ports on each of them.
        step_ns, delay_ns: of the step, and from the command to light.
        groups: that are lit at some time.
        phases: in their order, without gaps.
    """

    rails: int
    servers: int
    ports: int
    step_ns: int
    delay_ns: int
    groups: tuple[CircuitGroup, ...]
    phases: tuple[RailPhase, ...]
