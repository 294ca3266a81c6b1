"""The solution of a placement problem: where every operator runs, and what that costs.

Every figure is recomputed from the problem and the placement, none is a solver's claim. Wall-clock times are kept out,
so that the same seed gives the same bytes. The file is complete in itself: reports and exports read nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from topoopt.core.arrays import Floats, Int32s
from topoopt.core.columns import Columns
from topoopt.core.placement import Device, Latency, Server, Sharing, Throughput
from topoopt.core.shown import Shown
from topoopt.core.solution import SolutionHead


@dataclass(frozen=True, repr=False)
class DeviceLoad(Shown):
    """What one device does per micro-batch (throughput) or in the step (latency).

    Attributes:
        forward_ms, backward_ms: compute of forward and backward operators.
        forward_communication_ms, backward_communication_ms: transfers of tensors that forward and backward operators
            made, in and out; latency: 0, since they do not occupy the device.
        memory_bytes: resident.
    """

    forward_ms: float
    backward_ms: float
    forward_communication_ms: float
    backward_communication_ms: float
    memory_bytes: int

    @property
    def compute_ms(self) -> float:
        """Both passes."""
        return self.forward_ms + self.backward_ms

    @property
    def communication_ms(self) -> float:
        """Both passes."""
        return self.forward_communication_ms + self.backward_communication_ms


@dataclass(frozen=True)
class TensorTransfer:
    """A tensor, by index, on its way to one device, from when to when (objective latency)."""

    tensor: int
    target: int
    start_ms: float
    end_ms: float


@dataclass(frozen=True)
class LinkShare:
    """Rate of one physical link of a server that goes to one destination server (indices)."""

    source: int
    target: int
    link: int
    gbps: float


@dataclass(frozen=True, eq=False, repr=False)
class PlacementSolution(SolutionHead):
    """Result of `topoopt solve` on an instance of kind `placement`.

    Attributes, besides those of `SolutionHead`:
        objective: `max_load` or `makespan`, ms.
        bound: lower bound on the objective of the original graph.
        settings: the objective of the instance.
        servers, devices: of the instance.
        operators: names, in instance order.
        device: int32[operators], index into `devices`.
        stage: int32[operators], position in the order of stages; None where the stages have no order, or latency.
        loads: one for each device.
        start_ms, end_ms: float64[operators], objective latency; else None.
        transfers: objective latency, ascending by start.
        link_shares: rates of pairs of servers, by physical link; empty where rates are not allocated.
    """

    settings: Throughput | Latency
    servers: tuple[Server, ...]
    devices: tuple[Device, ...]
    classes: tuple[str, ...]
    operators: tuple[str, ...]
    device: Int32s
    loads: tuple[DeviceLoad, ...]
    stage: Int32s | None = None
    start_ms: Floats | None = None
    end_ms: Floats | None = None
    transfers: tuple[TensorTransfer, ...] = ()
    link_shares: tuple[LinkShare, ...] = ()

    kind: str = field(default="placement", init=False)

    @property
    def rates_gbps(self) -> Floats | None:
        """float64[servers, servers]: what each server may send to each other; None where rates are not allocated."""
        if not isinstance(self.settings, Latency) or self.settings.sharing is not Sharing.STATIC:
            return None
        rates = np.zeros((len(self.servers), len(self.servers)))
        for share in self.link_shares:
            rates[share.source, share.target] += share.gbps
        return rates

    @property
    def operator_counts(self) -> list[int]:
        """Operators on each device."""
        return [int(count) for count in np.bincount(self.device, minlength=len(self.devices))]

    def columns(self) -> dict[str, Columns]:
        """As of all solutions; `operators` with their devices, and stages or times."""
        names = [self.devices[d].name for d in self.device.tolist()]
        known = {"stage": self.stage, "start_ms": self.start_ms, "end_ms": self.end_ms}
        more = {name: values for name, values in known.items() if values is not None}
        return {**super().columns(), "operators": {"operator": self.operators, "device": names, **more}}
