"""Nothing in a schedule waits without a cause: whatever could start earlier, all else as it is, does.

So starts and ends follow from the order in which devices and links do their work, and a schedule is not stretched.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from topoopt.core.arrays import Floats, Ints
from topoopt.core.placement import Latency, PlacementProblem, Sharing
from topoopt.core.placement_solution import TensorTransfer
from topoopt.verify.laws.findings import ViolationLog


@dataclass(frozen=True, eq=False)
class Timed:
    """When everything happens.

    Attributes:
        device: int64[N], of each operator.
        start, end: float64[N], ms.
        transfers: of each tensor to each device that gets it.
        slack: ms that are rounding.
    """

    device: Ints
    start: Floats
    end: Floats
    transfers: Mapping[tuple[int, int], TensorTransfer]
    slack: float


def _check_operators(findings: ViolationLog, problem: PlacementProblem, timed: Timed) -> None:
    """Each starts when its device is free and its inputs are there, whichever comes later."""
    at, start, end = timed.device.tolist(), timed.start, timed.end
    cause = [0.0] * len(at)
    busy: dict[int, float] = {}
    for i in sorted(range(len(at)), key=lambda i: (start[i], end[i])):
        if problem.time_ms(i, at[i]) > 0:  # others do not occupy the device
            cause[i] = busy.get(at[i], 0.0)
            busy[at[i]] = max(cause[i], float(end[i]))
    for index, tensor in enumerate(problem.tensors):
        for user in tensor.consumers:
            sent = at[user] != at[tensor.producer]
            there = timed.transfers[index, at[user]].end_ms if sent else float(end[tensor.producer])
            cause[user] = max(cause[user], there)
    for i, due in enumerate(cause):
        if start[i] > due + timed.slack:
            name = problem.operators[i].name
            findings.add("waiting", f"{name!r} starts at {float(start[i])!r} ms, nothing holds it after {due!r}")


def check_causes(findings: ViolationLog, problem: PlacementProblem, timed: Timed) -> None:
    """A transfer starts when its tensor is made and, where links do one after the other, these are free.

    The schedule is known to break no other law.
    """
    _check_operators(findings, problem, timed)
    settings = problem.objective
    sharing = settings.sharing if isinstance(settings, Latency) else Sharing.NONE
    free: dict[tuple[str, int, int], float] = defaultdict(float)
    in_order = sorted(timed.transfers.items(), key=lambda row: (row[1].start_ms, row[1].end_ms))
    for (index, target), transfer in in_order:
        tensor = problem.tensors[index]
        s, t = problem.devices[int(timed.device[tensor.producer])].server, problem.devices[target].server
        lanes: list[tuple[str, int, int]] = []
        if s != t and tensor.size_bytes:
            lanes = {Sharing.FIFO: [("out", s, -1), ("in", t, -1)], Sharing.STATIC: [("pair", s, t)]}.get(sharing, [])
        due = max([float(timed.end[tensor.producer]), *(free[lane] for lane in lanes)])
        for lane in lanes:
            free[lane] = max(free[lane], transfer.end_ms)
        if transfer.start_ms > due + timed.slack:
            text = f"tensor {index} is sent to device {target} at {transfer.start_ms!r} ms"
            findings.add("waiting", f"{text}, nothing holds it after {due!r}")
