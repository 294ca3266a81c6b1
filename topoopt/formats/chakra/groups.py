"""Groups of ranks in execution traces: by name, by the dimensions a collective involves, by shifting one of them.

The group of a collective is that of its `pg_name`; without one, all ranks in the dimensions it involves (which needs
the sizes of the dimensions), otherwise all ranks.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence

import numpy as np

from topoopt.core.errors import Problem
from topoopt.files.documents import load_document
from topoopt.files.faults import Fault, value_text
from topoopt.files.reader_fields import FieldTable
from topoopt.formats.chakra.rank import RankTrace

FIELDS: FieldTable = {"*[]": ("used", "ranks of the process group of that name")}
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


def shifted(members: Sequence[int], ranks: int) -> list[tuple[int, ...]] | None:
    """All groups that look like `members` (an arithmetic progression) in an SPMD job, None if that is not clear."""
    p = len(members)
    steps = {b - a for a, b in itertools.pairwise(members)}
    stride = next(iter(steps), 1)
    if len(steps) > 1 or ranks % (stride * p):
        return None
    blocks = range(0, ranks, stride * p)
    return [tuple(start + j + stride * i for i in range(p)) for start in blocks for j in range(stride)]
