"""The checker of placements: where every operator is, when it runs, and what that costs, without a solver.

Nothing here is shared with the simulator or a solver. Ends of operators and transfers follow from their starts; where
transfers share links fairly, their rates are computed by progressive filling from event to event. Nothing in a schedule
may wait without a cause: whatever could start earlier, all else as it is, does. So a schedule is not stretched.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache, partial
from itertools import pairwise

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.placement import (
    Latency,
    PlacementPlan,
    PlacementProblem,
    TensorTransfer,
    Throughput,
    WalkSize,
    queued_transfers,
    transfers_of,
)
from topoopt.core.proofs import Argument, Tolerance
from topoopt.core.result import Certificate, Result
from topoopt.verify.checker import CheckDepth, Checker, CheckFindings, Derivation, float_array, int_array
from topoopt.verify.placement.bounds import (
    block_cuts,
    latency_bounds,
    network_shares,
    order_edges,
    transfer_ms,
    work_bound,
)
from topoopt.verify.placement.exhaustive import searches
from topoopt.verify.placement.schedules import ScheduleWalk

RELATIVE = Tolerance.ROUNDING.relative
"""Rounding, as a part of the makespan or of a rate."""

FLUID = Tolerance.LONG_SUMS.relative
"""The same for ends of fairly shared transfers, which are sums of many steps."""

EVEN = Tolerance.LONG_SUMS.relative
"""By how much even parts may differ: shares are scaled until every physical link carries them."""

BYTES_PER_MS = 1e9 / 8 / 1e3
"""Of 1 Gbit/s."""


# Placements.


def operators_placed(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """Every operator is on a device of the instance."""
    device = int_array(plan.device, 1)
    if device is None or len(device) != len(problem.operators):
        yield "not one device for each operator"
        return
    for i in np.flatnonzero((device < 0) | (device >= len(problem.devices))).tolist():
        yield f"{problem.operators[i].name!r} is on no device: {device[i]}"


def operators_supported(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """Every operator is on a device that can run it."""
    for i, d in enumerate(plan.device.tolist()):
        if not np.isfinite(problem.time_ms(i, d)):
            yield f"{problem.operators[i].name!r} cannot run on {problem.devices[d].name}"


def groups_together(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """Operators with equal labels share a device."""
    home: dict[str, int] = {}
    for operator, d in zip(problem.operators, plan.device.tolist(), strict=True):
        if operator.colocation is not None and home.setdefault(operator.colocation, d) != d:
            yield f"{operator.name!r} is apart from the others of {operator.colocation!r}"


def within_memory(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """No device holds more than its memory."""
    for device, held in zip(problem.devices, resident_bytes(problem, plan.device), strict=True):
        if device.memory_bytes is not None and held > device.memory_bytes:
            yield f"{held} bytes on {device.name}, which has {device.memory_bytes}"


def resident_bytes(problem: PlacementProblem, device: Ints | Int32s) -> list[int]:
    """Return the bytes on each device, in exact integers."""
    held = [0] * len(problem.devices)
    for operator, d in zip(problem.operators, device.tolist(), strict=True):
        held[d] += operator.memory_bytes
    return held


# Pipelines.


def stages_ordered(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """Stages can be ordered so that every tensor runs forwards; free sets have no stages."""
    settings, device = problem.objective, plan.device.astype(np.int64)
    if not isinstance(settings, Throughput) or settings.stages == "free":
        return
    if settings.stages == "interleaved":
        stages = len(problem.devices) * settings.stages_per_device
        if earliest_stages(problem, device, stages) is None:
            yield f"no order of {stages} stages has every tensor run forwards"
    elif device_order(problem, device) is None:
        yield "no order of the devices has every tensor run forwards"


def without_schedule(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """A pipeline has no start times and no rates."""
    if len(plan.start_ms) or len(plan.send_ms) or plan.link_shares:
        yield "a schedule is stated, but the objective is throughput"


def loads_of(problem: PlacementProblem, device: Ints) -> tuple[Floats, Floats]:
    """Return what each device does per micro-batch; the devices exist and can run their operators.

    Returns:
        Compute and communication, float64[2, devices] each, forward then backward.
    """
    k = len(problem.devices)
    table = np.array([operator.times_ms for operator in problem.operators])
    phase = np.array([operator.backward for operator in problem.operators], dtype=np.int64)
    column = np.array([entry.class_index for entry in problem.devices])[device]
    compute = np.zeros((2, k))
    np.add.at(compute, (phase, device), table[np.arange(len(device)), column])
    shares = network_shares(problem)
    communication = np.zeros((2, k))
    for tensor in problem.tensors:
        home = int(device[tensor.producer])
        away = sorted(set(device[list(tensor.consumers)].tolist()) - {home})
        times = [transfer_ms(problem, shares, tensor.size_bytes, home, target) for target in away]
        if times:
            row = communication[int(phase[tensor.producer])]
            row[home] += max(times)
            row[away] += times
    communication[:, [entry.host for entry in problem.devices]] = 0.0
    return compute, communication


def objective_of(settings: Throughput, compute: Floats, communication: Floats) -> float:
    """Return the load of the busiest device, ms; under GPipe its sum over both phases."""
    together = np.add if settings.communication == "added" else np.maximum
    if settings.schedule == "gpipe":
        return float(together(compute, communication).max(axis=1).sum())
    return float(together(compute.sum(axis=0), communication.sum(axis=0)).max())


def device_order(problem: PlacementProblem, device: Ints) -> list[int] | None:
    """Devices in use, in the order of their stages; None if two of them wait for each other."""
    at = device.tolist()
    waits = {(at[a], at[b]) for a, b in order_edges(problem) if at[a] != at[b]}
    remaining, order = sorted(set(at)), []
    while remaining:
        free = next((d for d in remaining if not any((e, d) in waits for e in remaining)), None)
        if free is None:
            return None
        order.append(free)
        remaining.remove(free)
    return order


def earliest_stages(problem: PlacementProblem, device: Ints, stages: int) -> list[int] | None:
    """Earliest stage of every operator, of those its device has (d, d + k, ...); None if there are too few."""
    k = len(problem.devices)
    group_of = {i: g for g, members in enumerate(problem.colocated()) for i in members}
    stage = [int(device[members[0]]) for members in problem.colocated()]
    edges = {(group_of[a], group_of[b]) for a, b in order_edges(problem)}
    raised = True
    while raised:
        raised = False
        for a, b in edges:
            if stage[a] > stage[b]:
                stage[b] += -(-(stage[a] - stage[b]) // k) * k
                raised = True
                if stage[b] >= stages:
                    return None
    return [stage[group_of[i]] for i in range(len(device))]


# Schedules.


def schedule_complete(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """Every operator, and every transfer that queues, has a start."""
    for name, times, count in (
        ("operators", plan.start_ms, len(problem.operators)),
        ("transfers that queue", plan.send_ms, len(queued_transfers(problem, plan.device))),
    ):
        values = float_array(times, 1)
        if values is None or len(values) != count:
            yield f"not one start for each of {count} {name}"
        elif not (np.isfinite(values) & (values >= 0)).all():
            yield f"a start of {name} is negative or not finite"


def shares_within_links(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """Static rates are shares of physical links, each within its link at both ends; other sharing has none."""
    servers = problem.servers
    if _latency(problem).sharing != "static":
        if plan.link_shares:
            yield "shares of links are stated, but rates are not allocated"
        return
    sent: dict[tuple[int, int], float] = defaultdict(float)
    received: dict[tuple[int, int], float] = defaultdict(float)
    last = (-1, -1, -1)
    for share in plan.link_shares:
        key = (share.source, share.target, share.link)
        if not 0 < share.gbps < float("inf") or key <= last or share.source == share.target:
            yield f"a share of {share.gbps!r} Gbit/s, or one out of order: {key}"
            return
        last = key
        endpoints = [servers[s] for s in key[:2] if 0 <= s < len(servers)]
        if len(endpoints) < 2 or not 0 <= share.link < min(len(server.links) for server in endpoints):
            yield f"no two servers with such a link: {key}"
            return
        sent[share.source, share.link] += share.gbps
        received[share.target, share.link] += share.gbps
    for name, table in (("out of", sent), ("into", received)):
        for (s, link), gbps in table.items():
            if gbps > servers[s].links[link].gbps * (1 + RELATIVE):
                yield f"{gbps!r} Gbit/s {name} {servers[s].name} by {servers[s].links[link].name}"


def rates_as_chosen(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """Uniform rates are alike for all pairs; chosen ones belong to the pairs that send something, and to no other."""
    settings = _latency(problem)
    if settings.sharing != "static":
        return
    rates = _rates_gbps(problem, plan)
    if settings.rates == "uniform":
        # Every pair has the same part of what the smaller of its two servers could give each other server.
        capacity = [_links_gbps(problem, s) for s in range(len(problem.servers))]
        used = sorted({device.server for device in problem.devices})
        parts = [
            float(rates[s, t]) * (len(used) - 1) / min(capacity[s], capacity[t]) for s in used for t in used if s != t
        ]
        if parts and (max(parts) - min(parts) > EVEN or max(parts) > 1 + RELATIVE):
            yield f"uniform rates, but parts of the links from {min(parts)!r} to {max(parts)!r} of the even one"
    sends = {_servers(problem, plan, *key) for key in queued_transfers(problem, plan.device)}
    for s, t in sorted(sends):
        if not rates[s, t] > 0:
            yield f"{problem.servers[s].name} sends to {problem.servers[t].name}, which have no rate"
    if settings.rates == "optimised":
        for s, t in np.argwhere(rates > 0).tolist():
            if (s, t) not in sends:
                yield f"{problem.servers[s].name} sends nothing to {problem.servers[t].name}"


def one_operator_at_a_time(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """No two operators run on a device at once; those without time do not count."""
    times = _times(problem, plan)
    for d, members in _lanes(problem, plan).items():
        for before, after in pairwise(members):
            if times.start[after] < times.end[before] - times.rounding:
                names = problem.operators[before].name, problem.operators[after].name
                yield f"{names[0]!r} and {names[1]!r} run at once on {problem.devices[d].name}"


def inputs_first(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """A tensor is sent once it is made, and an operator starts once its inputs are on its device."""
    times, at = _times(problem, plan), plan.device.tolist()
    for index, tensor in enumerate(problem.tensors):
        made = times.end.item(tensor.producer)
        for target in sorted({at[user] for user in tensor.consumers} - {at[tensor.producer]}):
            if not times.transfers[index, target].start_ms >= made - times.rounding:
                yield f"tensor {index} is sent before it is made"
        for user in tensor.consumers:
            if not times.start[user] >= times.arrival(index, user) - times.slack:
                yield f"{problem.operators[user].name!r} starts before its inputs are there"


def queues_in_turn(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """Transfers of one queue do not overlap: ports of servers with `fifo`, pairs of servers with `static`."""
    times = _times(problem, plan)
    for (port, s, _), members in _queues(problem, plan, times).items():
        for before, after in pairwise(members):
            if after.start_ms < before.end_ms - times.rounding:
                name = problem.servers[s].name
                yield f"tensors {before.tensor} and {after.tensor} are sent at once ({port} {name})"


def nothing_waits_idly(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """Each start has a cause: the end of an input, or of what occupied the device or the ports before."""
    times = _times(problem, plan)
    cause = [0.0] * len(times.start)
    for members in _lanes(problem, plan).values():
        free = 0.0
        for i in members:
            cause[i] = free
            free = max(free, times.end.item(i))
    for index, tensor in enumerate(problem.tensors):
        for user in tensor.consumers:
            cause[user] = max(cause[user], times.arrival(index, user))
    for i, ready in enumerate(cause):
        if times.start[i] > ready + times.slack:
            name = problem.operators[i].name
            yield f"{name!r} starts at {times.start.item(i)!r} ms, nothing holds it after {ready!r}"
    causes = {
        (row.tensor, row.target): times.end.item(problem.tensors[row.tensor].producer)
        for row in times.transfers.values()
    }
    for queue in _queues(problem, plan, times).values():
        free = 0.0
        for row in queue:
            key = (row.tensor, row.target)
            causes[key] = max(causes[key], free)
            free = max(free, row.end_ms)
    for key, ready in causes.items():
        if times.transfers[key].start_ms > ready + times.slack:
            text = f"tensor {key[0]} is sent to device {key[1]} at {times.transfers[key].start_ms!r} ms"
            yield f"{text}, nothing holds it after {ready!r}"


@dataclass(frozen=True, eq=False)
class ScheduledStep:
    """When everything happens.

    Attributes:
        device: int64[n], of each operator.
        start, end: float64[n], ms.
        transfers: of each tensor to each device that gets it.
        producer: of each tensor.
        rounding, slack: ms that are rounding, of operators and queues, and of ends of transfers.
    """

    device: Ints
    start: Floats
    end: Floats
    transfers: Mapping[tuple[int, int], TensorTransfer]
    producer: Sequence[int]
    rounding: float
    slack: float

    def arrival(self, tensor: int, user: int) -> float:
        """Return when a tensor is on the device of a consumer."""
        transfer = self.transfers.get((tensor, self.device.item(user)))
        return self.end.item(self.producer[tensor]) if transfer is None else transfer.end_ms


@lru_cache(maxsize=1)
def _times(problem: PlacementProblem, plan: PlacementPlan) -> ScheduledStep:
    """Return the times that follow from the starts; the latest schedule is cached, as several constraints read it."""
    device, start = plan.device.astype(np.int64), np.asarray(plan.start_ms, dtype=np.float64)
    end = start + np.array([problem.time_ms(i, d) for i, d in enumerate(device.tolist())])
    queued = dict(zip(queued_transfers(problem, plan.device), plan.send_ms.tolist(), strict=True))
    rates, sharing = _rates_gbps(problem, plan), _latency(problem).sharing
    transfers: dict[tuple[int, int], TensorTransfer] = {}
    fluid: list[FluidTransfer] = []
    for index, target in transfers_of(problem, plan.device):
        tensor, key = problem.tensors[index], (index, target)
        s, t = _servers(problem, plan, index, target)
        begin, size = queued.get(key, end.item(tensor.producer)), tensor.size_bytes
        gbps, latency = min(_links_gbps(problem, s), _links_gbps(problem, t)), problem.transfer_latency_ms
        if s == t:
            inside = problem.servers[s].intra_gbps
            gbps, latency = gbps if inside is None else inside, problem.intra_latency_ms
        elif size and sharing == "fair":
            fluid.append((begin, key, (s, t), size))
            continue
        elif sharing == "static":
            gbps = rates.item(s, t)
        took = latency + (size / (gbps * BYTES_PER_MS) if size else 0.0)
        transfers[key] = TensorTransfer(index, target, begin, begin + took)
    capacity = [_links_gbps(problem, s) * BYTES_PER_MS for s in range(len(problem.servers))]
    transfers |= fluid_transfers(fluid, problem.transfer_latency_ms, capacity)
    value, producer = float(end.max()), [tensor.producer for tensor in problem.tensors]
    return ScheduledStep(device, start, end, transfers, producer, RELATIVE * value, FLUID * value)


FluidTransfer = tuple[float, tuple[int, int], tuple[int, int], int]
"""Start in ms, tensor and target device, source and target server, bytes: a transfer that shares links fairly."""


def fluid_transfers(
    flows: Sequence[FluidTransfer], latency: float, capacity: Sequence[float]
) -> dict[tuple[int, int], TensorTransfer]:
    """Return the transfers with their ends: max-min fair rates of what is under way, from event to event.

    Args:
        flows: in any order.
        latency: ms before a transfer loads the links.
        capacity: bytes/ms of each server, out and in.
    """
    flows = sorted(flows, key=lambda flow: flow[0])
    remaining: dict[int, float] = {}
    transfers = {}
    now, coming = 0.0, 0
    while remaining or coming < len(flows):
        rates = fair_rates([flows[f][2] for f in remaining], capacity)
        soonest = min(
            (now + remaining[f] / rate for f, rate in zip(remaining, rates, strict=True)), default=float("inf")
        )
        entering = flows[coming][0] + latency if coming < len(flows) else float("inf")
        step, now = min(soonest, entering) - now, min(soonest, entering)
        for f, rate in zip(list(remaining), rates, strict=True):
            remaining[f] -= step * rate
            if remaining[f] <= 1e-11 * max(now, 1e-300) * rate:
                del remaining[f]
                begin, key = flows[f][:2]
                transfers[key] = TensorTransfer(*key, begin, now)
        while coming < len(flows) and flows[coming][0] + latency <= now:
            remaining[coming] = float(flows[coming][3])
            coming += 1
    return transfers


def fair_rates(flows: Sequence[tuple[int, int]], capacity: Sequence[float]) -> list[float]:
    """Max-min fair rates of flows between servers: raise all alike, fix those at a full port, go on with the rest."""
    rates = [0.0] * len(flows)
    moving = set(range(len(flows)))
    while moving:
        users: dict[tuple[str, int], list[int]] = defaultdict(list)
        for f, (s, t) in enumerate(flows):
            users["out", s].append(f)
            users["in", t].append(f)
        slack = {
            port: (capacity[port[1]] - sum(rates[f] for f in members)) / sum(f in moving for f in members)
            for port, members in users.items()
            if any(f in moving for f in members)
        }
        rise = min(slack.values())
        for f in moving:
            rates[f] += rise
        for port, spare in slack.items():
            if spare <= rise * (1 + 1e-9) + 1e-12 * capacity[port[1]]:
                moving -= set(users[port])
    return rates


def _lanes(problem: PlacementProblem, plan: PlacementPlan) -> dict[int, list[int]]:
    times = _times(problem, plan)
    lanes: dict[int, list[int]] = defaultdict(list)
    for i, d in enumerate(times.device.tolist()):
        if problem.time_ms(i, d) > 0:
            lanes[d].append(i)
    for members in lanes.values():
        members.sort(key=lambda i: (times.start[i], times.end[i]))
    return lanes


def _queues(
    problem: PlacementProblem, plan: PlacementPlan, times: ScheduledStep
) -> dict[tuple[str, int, int], list[TensorTransfer]]:
    queues: dict[tuple[str, int, int], list[TensorTransfer]] = defaultdict(list)
    for key in queued_transfers(problem, plan.device):
        s, t = _servers(problem, plan, *key)
        pairs = _latency(problem).sharing == "static"
        for queue in [("pair", s, t)] if pairs else [("out", s, -1), ("in", t, -1)]:
            queues[queue].append(times.transfers[key])
    for members in queues.values():
        members.sort(key=lambda row: (row.start_ms, row.end_ms))
    return queues


def _latency(problem: PlacementProblem) -> Latency:
    assert isinstance(problem.objective, Latency)
    return problem.objective


def _links_gbps(problem: PlacementProblem, server: int) -> float:
    return sum(link.gbps for link in problem.servers[server].links)


def _servers(problem: PlacementProblem, plan: PlacementPlan, tensor: int, target: int) -> tuple[int, int]:
    source = int(plan.device[problem.tensors[tensor].producer])
    return problem.devices[source].server, problem.devices[target].server


def _rates_gbps(problem: PlacementProblem, plan: PlacementPlan) -> Floats:
    rates = np.zeros((len(problem.servers), len(problem.servers)))
    for share in plan.link_shares:
        rates[share.source, share.target] += share.gbps
    return rates


# Objectives and bounds.


def max_load(problem: PlacementProblem, plan: PlacementPlan) -> float:
    """Return the load of the busiest device, ms."""
    assert isinstance(problem.objective, Throughput)
    return objective_of(problem.objective, *loads_of(problem, plan.device.astype(np.int64)))


def makespan(problem: PlacementProblem, plan: PlacementPlan) -> float:
    """Return when the last operator ends, ms."""
    return float(_times(problem, plan).end.max())


def pipeline_arguments(problem: PlacementProblem) -> Mapping[Argument, Derivation]:
    """Return the arguments about the least load of all placements."""
    settings = problem.objective
    assert isinstance(settings, Throughput)
    return {
        Argument.DEVICE_WORK: lambda *_: work_bound(problem, settings),
        Argument.BLOCK_CUTS: cuts_of_blocks,
        **exhaustive_arguments(problem),
    }


def cuts_of_blocks(problem: PlacementProblem, certificates: Sequence[Certificate]) -> float:
    """Return the limit of a certificate, where its prices show that no placement has all loads within it."""
    limit, certificate = _limit_of(Argument.BLOCK_CUTS, certificates)
    prices = certificate.floats("load_price", -1)
    return block_cuts(problem, limit, prices, certificate.floats("end_price", len(prices), -1))


def schedule_arguments(problem: PlacementProblem) -> Mapping[Argument, Derivation]:
    """Return the arguments about the least makespan of all placements."""
    formulas: dict[Argument, Derivation] = {
        argument: lambda *_, value=value: value for argument, value in latency_bounds(problem).items()
    }
    walks: dict[Argument, Derivation] = {Argument.ALL_SCHEDULES: partial(walked, Argument.ALL_SCHEDULES)}
    if _latency(problem).sharing == "fifo":
        walks[Argument.QUEUED_SCHEDULES] = partial(walked, Argument.QUEUED_SCHEDULES)
    return {**formulas, **walks}


MAX_WALK = WalkSize(backwards=True, rows=1_000_000, doll_tasks=64, doll_rows=10_000)
"""The largest walk over schedules that a certificate may ask for."""


def walked(argument: Argument, problem: PlacementProblem, certificates: Sequence[Certificate]) -> float:
    """Return what the walk over schedules of a certificate derives."""
    limit, certificate = _limit_of(argument, certificates)
    walk, most = certificate.integers("walk", 4), astuple(MAX_WALK)
    if walk[1] < 1 or not ((walk >= 0) & (walk <= most)).all():
        raise ValueError(f"a walk of {walk.tolist()}, at most {list(most)}")
    backwards, *sizes = walk.tolist()
    if limit == 0:
        return limit
    size = WalkSize(bool(backwards), *sizes)
    queues = argument is Argument.QUEUED_SCHEDULES
    return ScheduleWalk(problem, limit, size, queues=queues).least(limit, size.rows)


def _limit_of(argument: Argument, certificates: Sequence[Certificate]) -> tuple[float, Certificate]:
    own = [certificate for certificate in certificates if certificate.argument is argument]
    if len(own) != 1:
        raise ValueError(f"{len(own)} certificates of it, where 1 is needed")
    limit = float_array(own[0]["limit_ms"], 1)
    if limit is None or len(limit) != 1 or not 0 <= limit[0] < np.inf:
        raise ValueError("limit_ms is not a number of milliseconds")
    return limit.item(0), own[0]


def exhaustive_arguments(problem: PlacementProblem) -> dict[Argument, Derivation]:
    """Return the searches through everything below the limit of a certificate."""

    def derivation(argument: Argument) -> Derivation:
        def derive(problem: PlacementProblem, certificates: Sequence[Certificate]) -> float:
            return searches(problem)[argument](_limit_of(argument, certificates)[0], 1.0)

        return derive

    return {argument: derivation(argument) for argument in searches(problem)}


PLACEMENT = (
    ("placement", operators_placed),
    ("support", operators_supported),
    ("colocation", groups_together),
    ("memory", within_memory),
)

PIPELINES = Checker(
    objective=lambda _: ("max_load", "ms"),
    constraints=(*PLACEMENT, ("order", stages_ordered), ("schedule", without_schedule)),
    value=max_load,
    arguments=pipeline_arguments,
    claims=frozenset({Argument.ASSIGNMENTS_LEFT, Argument.STAGE_CP_SAT, Argument.STAGE_HIGHS}),
    exhaustive=frozenset({Argument.BLOCK_CUTS, Argument.ALL_PIPELINES, Argument.ALL_ASSIGNMENTS}),
    optimal=Tolerance.TIMES_ROUNDED_DOWN,
    claim_tolerance=Tolerance.TIMES_ROUNDED_DOWN,
)

SCHEDULES = Checker(
    objective=lambda _: ("makespan", "ms"),
    constraints=(
        *PLACEMENT,
        ("schedule", schedule_complete),
        ("links", shares_within_links),
        ("rates", rates_as_chosen),
        ("overlap", one_operator_at_a_time),
        ("precedence", inputs_first),
        ("contention", queues_in_turn),
        ("waiting", nothing_waits_idly),
    ),
    value=makespan,
    arguments=schedule_arguments,
    claims=frozenset({Argument.SCHEDULE_CP_SAT, Argument.SCHEDULE_NO_CONTENTION, Argument.SCHEDULE_HIGHS}),
    exhaustive=frozenset({Argument.ALL_SCHEDULES, Argument.QUEUED_SCHEDULES}),
    optimal=Tolerance.TIMES_ROUNDED_DOWN,
    claim_tolerance=Tolerance.TIMES_ROUNDED_DOWN,
)


def checker_of(problem: PlacementProblem) -> Checker:
    """Return the checker for the objective of a problem."""
    return PIPELINES if isinstance(problem.objective, Throughput) else SCHEDULES


def check(
    problem: PlacementProblem, result: Result[PlacementProblem, PlacementPlan], depth: CheckDepth
) -> CheckFindings:
    """Check a result of any content; see `Checker`."""
    return checker_of(problem)(problem, result, depth)
