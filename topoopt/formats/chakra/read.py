"""Execution traces of all ranks of a job to what they say about its network.

With the trace of one rank of several, all are taken to do the same.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path as FilePath

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.errors import InputError, Problem
from topoopt.files.fields import MAX_SERVERS
from topoopt.formats.chakra.content import CommType
from topoopt.formats.chakra.fields import FIELDS, LeftOver
from topoopt.formats.chakra.groups import Resolver, read_comm_groups, shifted
from topoopt.formats.chakra.rank import read_rank
from topoopt.formats.chakra.stream import trace_files
from topoopt.formats.chakra.trace_content import CollectiveUse, TraceContent

SHOWN_RANKS = 4


def _check_ranks(files: Mapping[int, FilePath], n: int, dims: tuple[int, ...], file: str) -> None:
    """Raise InputError when the traces, the number of ranks and the dimensions do not fit."""

    def wrong(message: str, path: str, value: object, allowed: str) -> InputError:
        return InputError([Problem(message, file, None, path, str(value), allowed)])

    if not 2 <= n <= MAX_SERVERS:
        allowed = f"2 to {MAX_SERVERS}" + ("; for the trace of one rank say how many there are" if n == 1 else "")
        raise wrong("wrong number of ranks", "--ranks", n, allowed)
    if len(files) not in (1, n):
        raise wrong("the traces are of another number of ranks", "--ranks", n, str(len(files)))
    if dims and math.prod(dims) != n:
        raise wrong("the dimensions hold another number of ranks", "dims", dims, f"sizes whose product is {n}")
    if max(files) >= n:
        raise wrong("the trace is of a rank there is not", "--ranks", n, f"more than {max(files)}")


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
    n = ranks if ranks is not None else math.prod(dims) if dims and len(files) == 1 else len(files)
    shown = os.fspath(path)
    _check_ranks(files, n, dims, shown)
    groups = read_comm_groups(comm_groups, n) if comm_groups is not None else {}
    resolver = Resolver(n, groups, dims)
    calls: dict[tuple[CommType, tuple[int, ...], int, tuple[bool, ...]], dict[int, int]] = defaultdict(dict)
    sent, received = (np.zeros((n, n), dtype=np.int64) for _ in range(2))
    compute, operations = np.zeros(n, dtype=np.int64), np.zeros(n)
    nodes = unsized = host = launches = 0
    left_over, missing = LeftOver(FilePath(shown), FIELDS), list[str | None]()
    for rank, file in files.items():
        trace = read_rank(file, rank, n)
        launches += trace.launches
        left_over.add(trace.left_over)
        missing.append(trace.left_over.missing())
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
    notes = [*resolver.notes(), *_first_few([one for one in missing if one]), *left_over.notes()]
    if any(kind is CommType.BROADCAST for kind, *_ in calls):
        notes.append("the root of a broadcast is taken to be the first rank of its group")
    if unsized:
        notes.append(f"{unsized} communication nodes state no size and are left out")
    if host and not compute.any() and not operations.any():
        notes.append(f"compute nodes are host operators only ({host / 1000:.6g} ms): their time is not counted")
    elif host:
        notes.append(f"host operators ({host / 1000:.6g} ms of the busiest rank): their time is not counted")
    if launches:
        notes.append(f"{launches} communication nodes of the host are left out: what they launch counts")
    uses = tuple(
        CollectiveUse(kind, members, size, tuple(by_rank.get(rank, 0) for rank in members), involved)
        for (kind, members, size, involved), by_rank in sorted(calls.items())
    )
    name = next(iter(files.values())).name.removesuffix(".et").rpartition(".")
    content = TraceContent(name[0] or name[2], n, nodes, uses, sent, compute, operations, tuple(notes))
    if len(files) == 1:
        return _replicated(content, next(iter(files)), shown)
    return replace(content, notes=(*notes, *_disagreements(content, received)))


def _first_few(notes: list[str]) -> list[str]:
    """Notes of ranks, which often say the same."""
    more = len(notes) - SHOWN_RANKS
    return [*notes[:SHOWN_RANKS], *([f"{more} more traces have such dependencies"] if more > 0 else [])]


def _disagreements(content: TraceContent, received: Ints) -> list[str]:
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
        groups = shifted(use.members, n)
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
