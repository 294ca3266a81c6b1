"""Execution traces of all ranks of a job to what they say about its network.

The group of a collective is that of its `pg_name`; without one, all ranks in the dimensions it involves (which needs
the sizes of the dimensions), otherwise all ranks. With the trace of one rank of several, all are taken to do the same.
"""

from __future__ import annotations

import itertools
import math
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from topoopt.core.errors import InputError, Problem
from topoopt.formats.chakra import CommType
from topoopt.formats.trace_content import CollectiveUse, TraceContent
from topoopt.io.chakra_rank import RankTrace, read_rank
from topoopt.io.chakra_stream import trace_files
from topoopt.io.documents import load_document
from topoopt.io.faults import Fault, value_text
from topoopt.io.fields import MAX_SERVERS

Groups = Mapping[str, tuple[int, ...]]
ALL_RANKS = ("", "0")
"""Names of the group of all ranks when they are not defined otherwise."""


def read_comm_groups(path: str | os.PathLike[str], ranks: int) -> dict[str, tuple[int, ...]]:
    """Groups of ranks by name, from a JSON file {"1": [0, 1], "2": [2, 3]}.

    Raises:
        InputError: not of that shape, ranks out of range or repeated.
    """
    document = load_document(path)
    data = document.data
    if not isinstance(data, dict):
        document.refuse([Fault((), "not groups of ranks", value_text(data), 'a mapping such as {"1": [0, 1]}')])
        raise AssertionError("refuse returned with a fault")
    faults = []
    groups: dict[str, tuple[int, ...]] = {}
    for name, listed in data.items():
        good = isinstance(listed, list) and all(isinstance(r, int) and not isinstance(r, bool) for r in listed)
        if not good or len(set(listed)) < len(listed) or any(not 0 <= r < ranks for r in listed):
            allowed = f"a list of ranks 0 to {ranks - 1}, each once"
            faults.append(Fault((name,), "not a group of ranks", value_text(listed), allowed))
        else:
            groups[name] = tuple(sorted(listed))
    document.refuse(faults)
    return groups


class Resolver:
    """Members of groups; collects what had to be assumed (`notes`) and what is wrong (`problems`)."""

    def __init__(self, ranks: int, groups: Groups, dims: tuple[int, ...]) -> None:
        self.ranks, self.groups, self.dims = ranks, groups, dims
        self.everyone = tuple(range(ranks))
        self.unknown: set[str] = set()
        self.unplaced = False
        self.problems: list[Problem] = []

    def members(self, trace: RankTrace, group: str | None, involved: tuple[bool, ...], file: str) -> tuple[int, ...]:
        """Ranks of a collective of one rank."""
        if group is not None:
            known = trace.groups.get(group, self.groups.get(group))
            if known is None and group not in ALL_RANKS:
                self.unknown.add(group)
            if known:
                if trace.rank not in known or known[0] < 0 or known[-1] >= self.ranks:
                    allowed = f"a group of ranks 0 to {self.ranks - 1} with rank {trace.rank} in it"
                    message = "a collective in a group that its rank is not in, or of unknown ranks"
                    shown = f"{value_text(group)}: {value_text(list(known[:8]))} of {len(known)} ranks"
                    self.problems.append(Problem(message, file, None, None, shown, allowed))
                return known
            if known is not None or group not in self.unknown:
                return self.everyone
        if not involved or all(involved):
            return self.everyone
        if len(involved) != len(self.dims):
            self.unplaced = True
            return self.everyone
        stride, offsets, base = 1, np.zeros(1, dtype=np.int64), trace.rank
        for size, used in zip(self.dims, involved, strict=True):
            if used:
                base -= (trace.rank // stride % size) * stride
                offsets = (offsets[:, None] + stride * np.arange(size)).reshape(-1)
            stride *= size
        return tuple(sorted(int(base + offset) for offset in offsets))

    def notes(self) -> list[str]:
        """For people."""
        notes = []
        if self.unknown:
            shown = ", ".join(value_text(name) for name in sorted(self.unknown)[:8])
            notes.append(f"process groups without a list of ranks are taken as all ranks: {shown}")
        if self.unplaced:
            notes.append("collectives that involve some dimensions are taken over all ranks: the sizes are not given")
        return notes


def _shifted(members: Sequence[int], ranks: int) -> list[tuple[int, ...]] | None:
    """All groups that look like `members` (an arithmetic progression) in an SPMD job, None if that is not clear."""
    p = len(members)
    steps = {b - a for a, b in itertools.pairwise(members)}
    stride = next(iter(steps), 1)
    if len(steps) > 1 or ranks % (stride * p):
        return None
    blocks = range(0, ranks, stride * p)
    return [tuple(start + j + stride * i for i in range(p)) for start in blocks for j in range(stride)]


def read_chakra(
    path: str | os.PathLike[str],
    *,
    ranks: int | None = None,
    comm_groups: str | os.PathLike[str] | None = None,
    dims: tuple[int, ...] = (),
) -> TraceContent:
    """Read a job.

    Args:
        path: folder, prefix, or one file (see `trace_files`).
        ranks: n; needed when there is the trace of one rank only.
        comm_groups: JSON file of the groups.
        dims: sizes of the dimensions of the network, innermost first.

    Raises:
        InputError: everything wrong with the files.
    """
    files = trace_files(path)
    given = len(files)
    n = ranks if ranks is not None else math.prod(dims) if dims and given == 1 else given
    shown = os.fspath(path)
    if not 2 <= n <= MAX_SERVERS:
        allowed = f"2 to {MAX_SERVERS}" + ("; for the trace of one rank say how many there are" if n == 1 else "")
        raise InputError([Problem("wrong number of ranks", shown, None, "--ranks", str(n), allowed)])
    if given not in (1, n):
        raise InputError(
            [Problem("the traces are of another number of ranks", shown, None, "--ranks", str(n), str(given))]
        )
    if dims and math.prod(dims) != n:
        allowed = f"sizes whose product is {n}"
        raise InputError(
            [Problem("the dimensions hold another number of ranks", shown, None, "dims", str(dims), allowed)]
        )
    groups = read_comm_groups(comm_groups, n) if comm_groups is not None else {}
    resolver = Resolver(n, groups, dims)
    calls: dict[tuple[CommType, tuple[int, ...], int, tuple[bool, ...]], dict[int, int]] = defaultdict(dict)
    sent, received = (np.zeros((n, n), dtype=np.int64) for _ in range(2))
    compute, operations = np.zeros(n, dtype=np.int64), np.zeros(n)
    nodes = unsized = host = 0
    if max(files) >= n:
        raise InputError(
            [
                Problem(
                    "the trace is of a rank there is not",
                    shown,
                    None,
                    "--ranks",
                    str(max(files)),
                    f"more than {max(files)}",
                )
            ]
        )
    for rank, file in files.items():
        trace = read_rank(file, rank, n)
        nodes, unsized, host = nodes + trace.nodes, unsized + trace.unsized, max(host, trace.host_us)
        compute[rank], operations[rank] = trace.compute_us, trace.operations
        for peer, amount in trace.sent.items():
            sent[rank, peer] = amount
        for peer, amount in trace.received.items():
            received[peer, rank] = amount
        for (kind, group, involved, size), count in trace.calls.items():
            members = resolver.members(trace, group, involved, str(file))
            by_rank = calls[kind, members, size, involved]
            by_rank[rank] = by_rank.get(rank, 0) + count
    if resolver.problems:
        raise InputError(resolver.problems[:50])
    if nodes == 0:
        raise InputError([Problem("no nodes in these traces", file=shown)])
    notes = resolver.notes()
    if unsized:
        notes.append(f"{unsized} communication nodes state no size and are left out")
    if host and not compute.any() and not operations.any():
        notes.append(f"compute nodes are host operators only ({host / 1000:.6g} ms): their time is not counted")
    uses = tuple(
        CollectiveUse(kind, members, size, tuple(by_rank.get(rank, 0) for rank in members), involved)
        for (kind, members, size, involved), by_rank in sorted(calls.items())
    )
    name = next(iter(files.values())).name.removesuffix(".et").rpartition(".")
    content = TraceContent(name[0] or name[2], n, nodes, uses, sent, compute, operations, tuple(notes))
    if given == 1:
        return _replicated(content, next(iter(files)), shown)
    return replace(content, notes=(*notes, *_disagreements(content, received)))


def _disagreements(content: TraceContent, received: NDArray[np.int64]) -> list[str]:
    """What the ranks do not agree about."""
    notes = []
    odd = [use for use in content.uses if len(set(use.calls)) > 1]
    if odd:
        use = odd[0]
        example = f"{use.collective.name} of {use.size_bytes} bytes: {min(use.calls)} to {max(use.calls)} calls"
        notes.append(f"members of a group do not take part equally often in {len(odd)} collectives ({example})")
    if received.any() and not np.array_equal(received, content.sent_bytes):
        source, target = (int(end) for end in np.argwhere(received != content.sent_bytes)[0])
        notes.append(
            f"sends and receives disagree: rank {target} receives {received[source, target]} bytes from rank {source}, "
            f"which sends {content.sent_bytes[source, target]}; sends count"
        )
    return notes


def _replicated(content: TraceContent, rank: int, file: str) -> TraceContent:
    """The same for every rank, from the trace of one."""
    n = content.ranks
    uses: list[CollectiveUse] = []
    for use in content.uses:
        count = use.calls[use.members.index(rank)]
        groups = _shifted(use.members, n)
        if groups is None:
            allowed = "a group that can be shifted over all ranks, or the traces of all ranks"
            raise InputError(
                [
                    Problem(
                        "the groups of the other ranks are not clear", file, None, None, str(use.members[:20]), allowed
                    )
                ]
            )
        uses += [replace(use, members=members, calls=(count,) * len(members)) for members in groups]
    shift = (np.arange(n)[None, :] - np.arange(n)[:, None]) % n
    note = f"one trace: all {n} ranks are taken to do the same (groups and peers shifted)"
    return replace(
        content,
        uses=tuple(sorted(uses, key=lambda use: (use.collective, use.members, use.size_bytes, use.involved_dims))),
        sent_bytes=np.roll(content.sent_bytes[rank], -rank)[shift],
        compute_us=np.full(n, content.compute_us[rank]),
        operations=np.full(n, content.operations[rank]),
        notes=(*content.notes, note),
    )
