"""The formats of schedules that are read: a line each."""

from __future__ import annotations

from collections.abc import Mapping

from topoopt.core.process import PlugIns
from topoopt.formats.schedules.reader import ScheduleReader

SCHEDULES: Mapping[str, ScheduleReader] = PlugIns(
    {
        "msccl": "topoopt.formats.msccl.schedule:read_schedule",
        "mscclpp": "topoopt.formats.mscclpp.read:read_schedule",
        "teccl": "topoopt.formats.teccl.read:read_schedule",
        "forestcoll": "topoopt.formats.forestcoll.read:read_schedule",
        "sccl": "topoopt.formats.sccl.read:read_schedule",
        "chakra": "topoopt.formats.chakra.collective_read:read_schedule",
    }
)
"""The formats of `topoopt collective audit`."""
