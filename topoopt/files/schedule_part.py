"""Schedules of collectives in solution files: blocks, routes, and messages as rows."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field, Strict

from topoopt.core.arrays import Int32s, Ints
from topoopt.core.collective import CollectiveSchedule, Sends, VectorBlocks
from topoopt.core.rated_network import MOST_UNITS
from topoopt.files.faults import Fault, Path
from topoopt.files.file_part import ArrayOf, FilePart, Listed

MAX_NODES = 8192
MAX_BLOCKS = 2_000_000
MAX_SENDS = 4_000_000

Node = Annotated[int, Field(ge=0, lt=MAX_NODES)]
BlockRow = Annotated[
    tuple[Annotated[int, Field(ge=1, le=MOST_UNITS)], Node, Annotated[int, Field(ge=-1, lt=MAX_NODES)]], Strict(False)
]  # units, owner, target or -1
SendRow = Annotated[
    tuple[
        Annotated[int, Field(ge=0, lt=MAX_SENDS)],
        Annotated[int, Field(ge=0, lt=MAX_BLOCKS)],
        Annotated[int, Field(ge=0, lt=MAX_SENDS)],
        Annotated[int, Field(ge=0, le=1)],
    ],
    Strict(False),
]  # step, block, route, 1 where the receiver adds
Rows = Annotated[Ints, ArrayOf(SendRow, np.int64, (-1, 4), MAX_SENDS)]
NodePath = Annotated[Listed[Node], Field(min_length=2, max_length=1024)]


class SchedulePart(FilePart):
    """Blocks of the vector, and the messages that carry them."""

    core = CollectiveSchedule

    blocks: Annotated[Listed[BlockRow], Field(min_length=1, max_length=MAX_BLOCKS)]
    routes: Annotated[Listed[NodePath], Field(max_length=MAX_SENDS)] = Field(
        description="nodes of the ways of messages"
    )
    sends: Rows

    @classmethod
    def attributes(cls, value: CollectiveSchedule) -> dict[str, Any]:
        """The ends of a message are those of its route."""
        blocks, sends = value.blocks, value.sends
        columns = (blocks.units, blocks.owner, blocks.target)
        return {
            "blocks": list(zip(*(column.tolist() for column in columns), strict=True)),
            "routes": value.routes,
            "sends": np.column_stack((sends.step, sends.block, sends.route, sends.reduce)).astype(np.int64),
        }

    def arguments(self) -> dict[str, Any]:
        """Arrays of blocks and messages."""
        table = np.array(self.blocks, dtype=np.int64).reshape(-1, 3)
        step, block, route, adds = self.sends.T
        ends: Int32s = np.array([(path[0], path[-1]) for path in self.routes], dtype=np.int32).reshape(-1, 2)
        narrow = (block.astype(np.int32), ends[route, 0], ends[route, 1], step.astype(np.int32))
        return {
            "blocks": VectorBlocks(table[:, 0], table[:, 1].astype(np.int32), table[:, 2].astype(np.int32)),
            "sends": Sends(*narrow, adds > 0, route.astype(np.int32)),
            "routes": self.routes,
        }


def schedule_faults(schedule: SchedulePart, n: int, where: Path) -> list[Fault]:
    """What the schema of a schedule on n nodes cannot state: indices in range, rows in order."""
    faults: list[Fault] = []
    allowed = f"0 to {n - 1}"
    if any(max(row[1], row[2]) >= n for row in schedule.blocks):
        faults.append(Fault((*where, "blocks"), "no such node", allowed=allowed))
    if sum(row[0] for row in schedule.blocks) > 1 << 60:
        faults.append(Fault((*where, "blocks"), "more units than can be counted", allowed="at most 2^60"))
    if any(max(path) >= n for path in schedule.routes):
        faults.append(Fault((*where, "routes"), "no such node", allowed=allowed))
    step, block, route, _ = schedule.sends.T
    for column, name, most in ((block, "block", len(schedule.blocks)), (route, "route", len(schedule.routes))):
        if len(column) and column.max() >= most:
            faults.append(Fault((*where, "sends"), f"no such {name}", str(column.max()), f"0 to {most - 1}"))
    if len(step) and (np.diff(step) < 0).any():
        faults.append(Fault((*where, "sends"), "not in the order of their steps"))
    return faults
