"""The schedule of a placed graph, recomputed and held against every law, for objective latency.

Nothing here is shared with the simulator or a solver: the fair rates are found by filling, transfer by transfer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.placement import Latency, PlacementProblem, RateAllocation, Sharing
from topoopt.core.placement_solution import PlacementSolution, TensorTransfer
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.findings import ViolationLog, float_array
from topoopt.verify.placement.causes import Timed, check_causes
from topoopt.verify.placement.latency_bounds import latency_floor
from topoopt.verify.placement.rates import check_idle_rates, check_rates

RELATIVE = Tolerance.ROUNDING.relative
"""Rounding forgiven, as a part of the makespan (or of a rate)."""

FLUID = Tolerance.LONG_SUMS.relative
"""The same for ends of fairly shared transfers, sums of many steps."""


def check_schedule(
    findings: ViolationLog, problem: PlacementProblem, solution: PlacementSolution, device: Ints
) -> None:
    """Starts and ends of operators and transfers, rates, and the makespan."""
    settings = problem.objective
    if not isinstance(settings, Latency):
        return
    n = len(problem.operators)
    start = float_array(solution.start_ms, 1) if solution.start_ms is not None else None
    end = float_array(solution.end_ms, 1) if solution.end_ms is not None else None
    if start is None or end is None or len(start) != n or len(end) != n or not np.isfinite([start, end]).all():
        findings.add("schedule", "not one start and end for each operator")
        return
    value = makespan_ms(end)
    slack = RELATIVE * value
    _check_objective(findings, problem, solution, value)
    _check_operators(findings, problem, device, start, end, slack)
    transfers = _check_transfers(findings, problem, solution.transfers, device, start, end, slack)
    rates = check_rates(findings, problem, settings, solution)
    if findings.clean:
        _check_network(findings, problem, settings, rates, device, transfers, value)
        check_causes(findings, problem, Timed(device, start, end, transfers, FLUID * value))
        if settings.sharing is Sharing.STATIC and settings.rates is RateAllocation.OPTIMISED:
            check_idle_rates(findings, problem, device, transfers, rates)


def makespan_ms(end: Floats) -> float:
    """When the last operator ends."""
    return float(end.max())


def _check_objective(
    findings: ViolationLog, problem: PlacementProblem, solution: PlacementSolution, value: float
) -> None:
    stated = solution.objective
    if stated.name != "makespan" or stated.unit != "ms":
        findings.add("objective", f"the objective is {stated.name!r}, makespan in ms expected")
    if not abs(stated.value - value) <= RELATIVE * value:
        findings.add("objective", f"the solution states {stated.value!r} ms, the last operator ends at {value!r}")
    floor = latency_floor(problem)
    if not stated.value >= floor.value * (1 - RELATIVE):
        findings.add("bound", f"{stated.value!r} ms is below {floor.value!r} ({floor.proved_by})")


def _check_operators(
    findings: ViolationLog, problem: PlacementProblem, device: Ints, start: Floats, end: Floats, slack: float
) -> None:
    lanes: dict[int, list[int]] = defaultdict(list)
    for i, operator in enumerate(problem.operators):
        time = problem.time_ms(i, int(device[i]))
        if start[i] < -slack or abs(end[i] - start[i] - time) > slack:
            began, ended = start.item(i), end.item(i)
            findings.add("duration", f"{operator.name!r} runs from {began!r} to {ended!r}, its time is {time!r}")
        if time > 0:
            lanes[int(device[i])].append(i)
    for d, members in lanes.items():
        members.sort(key=lambda i: (start[i], end[i]))
        for before, after in pairwise(members):
            if start[after] < end[before] - slack:
                names = problem.operators[before].name, problem.operators[after].name
                findings.add("overlap", f"{names[0]!r} and {names[1]!r} run at once on {problem.devices[d].name}")


def _check_transfers(
    findings: ViolationLog,
    problem: PlacementProblem,
    transfers: Sequence[TensorTransfer],
    device: Ints,
    start: Floats,
    end: Floats,
    slack: float,
) -> dict[tuple[int, int], TensorTransfer]:
    """Each tensor once to each device that needs it, between the end of its producer and the starts of consumers."""
    found: dict[tuple[int, int], TensorTransfer] = {}
    for before, after in pairwise(transfers):
        if (before.start_ms, before.tensor, before.target) > (after.start_ms, after.tensor, after.target):
            findings.add("transfers", f"the transfer of tensor {after.tensor} stands after one that starts later")
    for transfer in transfers:
        key = (int(transfer.tensor), int(transfer.target))
        if key in found:
            findings.add("transfers", f"tensor {key[0]} is sent twice to device {key[1]}")
        found[key] = transfer
    due = set()
    for index, tensor in enumerate(problem.tensors):
        home = int(device[tensor.producer])
        for user in tensor.consumers:
            there = int(device[user])
            ready = float(end[tensor.producer])
            if there != home:
                due.add((index, there))
                sent = found.get((index, there))
                if sent is None:
                    findings.add("transfers", f"tensor {index} is not sent to {problem.devices[there].name}")
                    continue
                if not sent.start_ms >= ready - slack:
                    findings.add("precedence", f"tensor {index} is sent before it is made")
                ready = float(sent.end_ms)
            if not start[user] >= ready - slack:
                findings.add("precedence", f"{problem.operators[user].name!r} starts before its inputs are there")
    for key in found.keys() - due:
        findings.add("transfers", f"tensor {key[0]} is sent to device {key[1]}, where nothing needs it")
    return found


def _bytes_per_ms(gbps: float) -> float:
    return gbps * 1e9 / 8 / 1e3


def _check_network(
    findings: ViolationLog,
    problem: PlacementProblem,
    settings: Latency,
    rates: Floats,
    device: Ints,
    transfers: dict[tuple[int, int], TensorTransfer],
    value: float,
) -> None:
    """Durations of transfers, and that they share the network as the instance says."""
    room = [_bytes_per_ms(sum(link.gbps for link in server.links)) for server in problem.servers]
    lanes: dict[tuple[str, int, int], list[TensorTransfer]] = defaultdict(list)
    fluid: list[tuple[TensorTransfer, int, int, int]] = []
    for (index, target), transfer in transfers.items():
        tensor = problem.tensors[index]
        s, t = problem.devices[int(device[tensor.producer])].server, problem.devices[target].server
        size = tensor.size_bytes
        if s == t:
            server = problem.servers[s]
            inside = sum(link.gbps for link in server.links) if server.intra_gbps is None else server.intra_gbps
            expected = problem.intra_latency_ms + (size / _bytes_per_ms(inside) if size else 0.0)
        elif size == 0:
            expected = problem.transfer_latency_ms
        elif settings.sharing is Sharing.FAIR:
            fluid.append((transfer, s, t, size))
            continue
        elif settings.sharing is Sharing.STATIC:
            rate = float(rates[s, t])
            if not rate > 0:
                findings.add("rates", f"tensor {index} is sent from {s} to {t}, which have no rate")
                continue
            expected = problem.transfer_latency_ms + size / _bytes_per_ms(rate)
            lanes["pair", s, t].append(transfer)
        else:
            expected = problem.transfer_latency_ms + size / min(room[s], room[t])
            if settings.sharing is Sharing.FIFO:
                lanes["out", s, -1].append(transfer)
                lanes["in", t, -1].append(transfer)
        if not abs(transfer.end_ms - transfer.start_ms - expected) <= RELATIVE * max(value, expected):
            taken = transfer.end_ms - transfer.start_ms
            findings.add("duration", f"tensor {index} takes {taken!r} ms to device {target}, {expected!r} expected")
    for (way, s, _), members in lanes.items():
        members.sort(key=lambda transfer: (transfer.start_ms, transfer.end_ms))
        for before, after in pairwise(members):
            if after.start_ms < before.end_ms - RELATIVE * value:
                name = problem.servers[s].name
                text = f"tensors {before.tensor} and {after.tensor} are sent at once ({way} {name})"
                findings.add("contention", text)
    if fluid:
        _check_fluid(findings, problem.transfer_latency_ms, room, fluid, value)


def _check_fluid(
    findings: ViolationLog,
    latency: float,
    room: list[float],
    fluid: list[tuple[TensorTransfer, int, int, int]],
    value: float,
) -> None:
    """Ends of transfers that share fairly, replayed from their starts."""
    fluid.sort(key=lambda entry: entry[0].start_ms)
    left: dict[int, float] = {}
    now, coming = 0.0, 0
    while left or coming < len(fluid):
        rates = fair_rates([(fluid[f][1], fluid[f][2]) for f in left], room)
        soonest = min((now + left[f] / rate for f, rate in zip(left, rates, strict=True)), default=float("inf"))
        entering = fluid[coming][0].start_ms + latency if coming < len(fluid) else float("inf")
        step, now = min(soonest, entering) - now, min(soonest, entering)
        for f, rate in zip(list(left), rates, strict=True):
            left[f] -= step * rate
            if left[f] <= 1e-11 * max(now, 1e-300) * rate:
                del left[f]
                transfer = fluid[f][0]
                if not abs(transfer.end_ms - now) <= FLUID * value:
                    text = f"tensor {transfer.tensor} reaches device {transfer.target} at {now!r}"
                    findings.add("contention", f"{text}, not {transfer.end_ms!r}")
        while coming < len(fluid) and fluid[coming][0].start_ms + latency <= now:
            left[coming] = float(fluid[coming][3])
            coming += 1


def fair_rates(flows: Sequence[tuple[int, int]], room: Sequence[float]) -> list[float]:
    """Max-min fair rates of flows between servers: raise all alike, fix those at a full port, go on with the rest."""
    rates = [0.0] * len(flows)
    moving = set(range(len(flows)))
    while moving:
        users: dict[tuple[str, int], list[int]] = defaultdict(list)
        for f, (s, t) in enumerate(flows):
            users["out", s].append(f)
            users["in", t].append(f)
        slack = {
            port: (room[port[1]] - sum(rates[f] for f in members)) / sum(f in moving for f in members)
            for port, members in users.items()
            if any(f in moving for f in members)
        }
        rise = min(slack.values())
        for f in moving:
            rates[f] += rise
        for port, room_left in slack.items():
            if room_left <= rise * (1 + 1e-9) + 1e-12 * room[port[1]]:
                moving -= set(users[port])
    return rates
