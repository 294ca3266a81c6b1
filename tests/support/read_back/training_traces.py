"""Traces of ranks of one training iteration, read back: what each does, and whether they agree."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from topoopt.core.errors import InputError, Problem
from topoopt.core.hierarchy import Collective, RankTotals
from topoopt.files.untrusted import parsing, read_text
from topoopt.formats.chakra import NodeType, read_trace
from topoopt.formats.chakra.read import read_comm_groups, read_rank
from topoopt.formats.chakra.write import COMM_TYPES, GROUPS_FILE, LAYOUT_FILE

MOST_BYTES = 1 << 26


def read_training(folder: Path) -> object:
    """Layout, groups, and what each rank does.

    Raises:
        InputError: files that are none, a rank outside its group, a node that waits for a later one, two ranks that do
            not send what the other receives.
    """
    text = read_text(folder / LAYOUT_FILE, MOST_BYTES)
    with parsing(LAYOUT_FILE, "the layout of the ranks"):
        layout = json.loads(text)
        ranks = int(layout["ranks"])
    groups = read_comm_groups(folder / GROUPS_FILE, ranks)
    files = sorted((int(file.stem.rpartition(".")[2]), file) for file in folder.glob("*.et"))
    found = {rank: _content(file, rank, ranks, groups) for rank, file in files}
    for a, b in itertools.permutations(found, 2):
        if found[a].sent[b] != found[b].received[a]:
            text = f"rank {a} sends {found[a].sent[b]} bytes to rank {b}, which receives {found[b].received[a]}"
            raise InputError([Problem(text, str(folder))])
    return layout, groups, list(found.values())


def _content(file: Path, rank: int, ranks: int, groups: Mapping[str, tuple[int, ...]]) -> RankTotals:
    _check_order(file)
    trace = read_rank(file, rank, ranks)
    named = {kind: collective for collective, kind in COMM_TYPES.items()}
    calls: Counter[tuple[Collective, int, int]] = Counter()
    for (kind, name, _, size), count in trace.calls.items():
        if name is None or kind not in named or rank not in groups.get(name, ()):
            text = "a collective that there is not in training, or of a group that the rank is not in"
            raise InputError([Problem(text, str(file), value=str(name))])
        calls[named[kind], int(name), size] += count
    return RankTotals(rank, trace.nodes, calls, trace.sent, trace.received, trace.compute_us)


def _check_order(file: Path) -> None:
    """Nodes wait for earlier ones alone, and all but the last for which nothing waits are messages."""
    seen: set[int] = set()
    waited: set[int] = set()
    plain: list[int] = []
    nodes = read_trace(file)
    next(nodes, None)
    for one in nodes:
        if one.id in seen or not seen >= set(one.data_deps):
            raise InputError(
                [Problem("a node waits for one that does not come before it", str(file), path=str(one.id))]
            )
        seen.add(one.id)
        waited.update(one.data_deps)
        if one.type != NodeType.COMM_SEND:
            plain.append(one.id)
    if not set(plain[:-1]) <= waited:
        lost = min(set(plain[:-1]) - waited)
        raise InputError([Problem("nothing waits for a node that is no message sent", str(file), path=str(lost))])
