"""Execution traces to a workload of the kind `co-optimisation`: groups keep their servers, the network is open.

Every group of servers becomes an operator split over exactly these servers: all-reduces are its weights; other
collectives of its bytes count as the all-reduce that sends as much; an all-to-all is the hand-over from a split by
samples to a split by channels. Transfers are mirrored in the backward pass, so each direction carries half.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem
from topoopt.core.workload import GRADIENT_BYTES, Operator, OperatorInput, Split, Workload
from topoopt.formats.chakra.content import CommType
from topoopt.formats.chakra.instances import between_servers, servers_of
from topoopt.formats.chakra.trace_content import CollectiveUse, TraceContent

MAX_TENSORS = 200
"""All-reduces of one group kept apart; more are added up."""

Servers = tuple[int, ...]


@dataclass(frozen=True)
class TraceWorkload:
    """A workload, and what was assumed to make it."""

    workload: Workload
    servers: int
    notes: tuple[str, ...]


class _Traffic:
    """Bytes by group of servers."""

    def __init__(self) -> None:
        self.reduced: dict[Servers, list[float]] = defaultdict(list)
        self.exchanged: dict[Servers, float] = defaultdict(float)
        self.local = self.converted = False
        self.problems: list[Problem] = []

    def add(self, use: CollectiveUse, n: int, per_server: int) -> None:
        servers, ranks = np.unique(np.array(use.members) // per_server, return_counts=True)
        k, calls = len(servers), max(use.calls)
        if use.collective is CommType.BARRIER or not use.size_bytes or not calls:
            return
        if k == 1:
            self.local = self.local or len(use.members) > 1
            return
        shown = str(use.members[:12])[:-1] + (", ...)" if len(use.members) > 12 else ")")
        if ranks.min() != ranks.max():
            self.problems.append(
                Problem("a group with unequal parts in its servers", value=shown, allowed="equal parts")
            )
        elif n % k or servers.tolist() != list(range(int(servers[0]), n, n // k)):
            allowed = "groups of evenly spaced servers (--gpus-per-server puts ranks together), or --as topology"
            self.problems.append(Problem("a group this kind has no split for", value=shown, allowed=allowed))
        else:
            self._count(use, tuple(servers.tolist()), int(ranks[0]), calls)

    def _count(self, use: CollectiveUse, servers: Servers, ranks: int, calls: int) -> None:
        size = float(use.size_bytes)
        if use.collective is CommType.ALL_TO_ALL:
            self.exchanged[servers] += calls * size * ranks
            return
        self.converted = self.converted or use.collective is not CommType.ALL_REDUCE
        payload = {CommType.ALL_REDUCE: size, CommType.ALL_GATHER: size * len(use.members) / 2}
        self.reduced[servers] += [payload.get(use.collective, size / 2)] * calls


def _split(ways: int, ms: float, channels: int = 1) -> tuple[Split, ...]:
    return (Split(ways, ms, 0.0, 0, channel_ways=channels),)


def workload_of_trace(content: TraceContent, ranks_per_server: int, compute_ms: float) -> TraceWorkload:
    """Workload whose operators sit where the trace has them.

    Args:
        content: the traces.
        ranks_per_server: consecutive ranks that share a server.
        compute_ms: compute time of an iteration on one server.

    Raises:
        InputError: groups that are not evenly spaced servers, one-way messages between ranks.
    """
    n = servers_of(content, ranks_per_server)
    traffic = _Traffic()
    for use in content.uses:
        traffic.add(use, n, ranks_per_server)
    sent = between_servers(content.sent_bytes.astype(np.float64), n)
    if not np.array_equal(sent, sent.T):
        i, j = (int(end) for end in np.argwhere(sent != sent.T)[0])
        message = "messages one way only: this kind sends as much back in the backward pass"
        shown = f"{sent[i, j]:.0f} bytes from server {i} to {j}, {sent[j, i]:.0f} back"
        traffic.problems.append(Problem(message, value=shown, allowed="--as topology"))
    if traffic.problems:
        hidden = len(traffic.problems) - 20
        more = [Problem(f"{hidden} further groups")] if hidden > 0 else []
        raise InputError([*traffic.problems[:20], *more])
    operators, notes = _operators(traffic, sent, n, compute_ms)
    return TraceWorkload(Workload(content.name[:200] or "trace", _samples(traffic, n), operators), n, notes)


def _samples(traffic: _Traffic, n: int) -> int:
    return math.lcm(n, *(len(group) for group in (*traffic.reduced, *traffic.exchanged)))


def _shares(traffic: _Traffic) -> dict[tuple[str, int], float]:
    """Share of the compute time of every class of operators: as its share of the bytes."""
    volume: dict[tuple[str, int], float] = defaultdict(float)
    for group, payloads in traffic.reduced.items():
        volume["reduce", len(group)] += sum(payloads) * len(group)
    for group, size in traffic.exchanged.items():
        volume["exchange", len(group)] += size * len(group)
    whole = sum(volume.values())
    return {key: amount / whole for key, amount in volume.items()}


def _operators(
    traffic: _Traffic, sent: Floats, n: int, compute_ms: float
) -> tuple[tuple[Operator, ...], tuple[str, ...]]:
    samples, shares = _samples(traffic, n), _shares(traffic)
    notes = ["compute is placed before the communication of its group; the order of the trace is not kept"]
    made: list[Operator] = []
    if not shares:
        made.append(
            Operator("compute", "compute", 1, 1, (), (), _split(n, compute_ms), locally_reduced=False, pinned_offset=0)
        )
    elif len(shares) > 1:
        notes.append("compute is divided over the kinds of groups in proportion to their bytes")
    for group, apart in sorted(traffic.reduced.items()):
        if len(apart) > MAX_TENSORS:
            notes.append(f"{len(apart)} all-reduces of one group are added up to one")
        payloads = [sum(apart)] if len(apart) > MAX_TENSORS else apart
        weights = tuple(math.ceil(payload / GRADIENT_BYTES) for payload in payloads)
        time = _split(len(group), shares["reduce", len(group)] * compute_ms)
        name = f"all-reduce {len(group)} from {group[0]}"
        made.append(Operator(name, "reduce", 1, 1, weights, (), time, locally_reduced=False, pinned_offset=group[0]))
    for group, size in sorted(traffic.exchanged.items()):
        k = len(group)
        # Each of the k x k cells of samples x channels goes one way forward and is mirrored backward.
        channels = k * math.ceil(size / (2 * samples))
        time = _split(k, shares["exchange", k] * compute_ms)
        name = f"all-to-all {k} from {group[0]}"
        made.append(Operator(f"{name}: sent", "exchange", channels, 1, (), (), time, pinned_offset=group[0]))
        edge = (OperatorInput(len(made) - 1),)
        halves = _split(1, 0.0, k)
        made.append(
            Operator(
                f"{name}: received",
                "exchange",
                channels,
                1,
                (),
                edge,
                halves,
                mixes_channels=False,
                pinned_offset=group[0],
            )
        )
    for i, j in np.argwhere(np.triu(sent) > 0).tolist():
        size = math.ceil(sent[i, j] / samples)
        made.append(Operator(f"messages {i}-{j}: sent", "message", size, 1, (), (), _split(1, 0.0), pinned_offset=i))
        edge = (OperatorInput(len(made) - 1),)
        made.append(
            Operator(f"messages {i}-{j}: received", "message", size, 1, (), edge, _split(1, 0.0), pinned_offset=j)
        )
    if traffic.local:
        notes.append("collectives inside one server are left out")
    if traffic.converted:
        notes.append("all-gathers, reduce-scatters and broadcasts count as all-reduces that send as many bytes")
    return tuple(made), tuple(notes)
