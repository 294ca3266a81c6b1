"""Schedules of AllReduces of groups of servers in solution files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from topoopt.core.group_schedule import GroupSchedule
from topoopt.files.faults import Fault, Path
from topoopt.files.fields import MAX_SERVERS
from topoopt.files.file_part import FilePart, Listed
from topoopt.files.schedule_part import SchedulePart, schedule_faults
from topoopt.files.solution_head import Text
from topoopt.files.topology_part import Server

MAX_PIECES = 4096

MOST_STEPS = (1 << 16) - 1
"""Steps of a schedule that are simulated."""

_MOST = 50
"""Faults that are reported."""


class GroupSchedulePart(FilePart):
    """What AllReduces of a group run on whose payloads are of some sizes."""

    core = GroupSchedule

    members: Annotated[Listed[Server], Field(max_length=MAX_SERVERS)]
    from_bytes: int = Field(ge=0, le=1 << 60)
    below_bytes: int | None = Field(ge=1, le=1 << 60, description="payloads of fewer bytes; null: any more")
    method: Text
    pieces: int = Field(ge=1, le=MAX_PIECES, description="of every block, each a step behind the one before")
    schedule: SchedulePart


def group_schedule_faults(schedules: Sequence[GroupSchedulePart], n: int, base: Path) -> list[Fault]:
    """What the schema cannot state: servers that there are, each once; indices in range; as many steps as can be."""
    faults: list[Fault] = []
    for index, one in enumerate(schedules):
        where: Path = (*base, index)
        bad = next((server for server in one.members if server >= n), None)
        if bad is not None:
            faults.append(Fault((*where, "members"), "no such server", str(bad), f"servers 0 to {n - 1}"))
        elif len(set(one.members)) < len(one.members):
            faults.append(Fault((*where, "members"), "a server more than once", allowed="each server once"))
        faults += schedule_faults(one.schedule, n, (*where, "schedule"))
        steps = int(one.schedule.sends[:, 0].max(initial=0)) + one.pieces
        if steps > MOST_STEPS:
            faults.append(Fault(where, "too many steps", str(steps), f"at most {MOST_STEPS}"))
        if len(faults) > _MOST:
            break
    return faults
