"""A small valid file of every format with a table of fields, and for each field that is used another value."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from topoopt.core.errors import InputError
from topoopt.formats.schedules import SCHEDULES, ScheduleOptions
from topoopt.formats.table import IMPORTERS, Imported

Change = tuple[Sequence[str | int], Any]
"""Where, and what stands there instead."""

Read = tuple[object, tuple[str, ...]]
"""What is read, as plain data, and notes."""


def plain(value: object) -> object:
    """Anything that a reader gives, as data that `==` compares."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value) if one.name != "source"}
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def changed(content: Any, change: Change) -> Any:
    """Content with one thing different; of XML elements by tag and number, attributes by `@name`."""
    path, value = change
    made = copy.deepcopy(content)
    at = made
    for key in path[:-1]:
        at = at.findall(key) if isinstance(at, ElementTree.Element) else at[key]
    if isinstance(at, ElementTree.Element):
        at.set(str(path[-1])[1:], str(value))
    else:
        at[path[-1]] = value
    return made


@dataclass(frozen=True)
class ReaderCase:
    """A reader, what it reads here, and another value for each field that it uses.

    Attributes:
        checked: fields of which another value is refused, as they must agree with something else.
    """

    content: Any
    read: Callable[[Path], Read]
    others: Mapping[str, Change]
    checked: frozenset[str] = frozenset()
    file: str = "file.json"
    beside: Mapping[str, bytes] = field(default_factory=dict)

    def outcome(self, content: Any, folder: Path) -> Read | InputError:
        """What is read of a content, or why it is refused."""
        for name, data in self.beside.items():
            (folder / name).write_bytes(data)
        xml = isinstance(content, ElementTree.Element)
        (folder / self.file).write_text(ElementTree.tostring(content, "unicode") if xml else json.dumps(content))
        try:
            return self.read(folder / self.file)
        except InputError as error:
            return error


def importing(name: str, **options: Any) -> Callable[[Path], Read]:
    """By an importer."""

    def read(path: Path) -> Read:
        made: Imported = IMPORTERS[name](path, **options)
        return made.document, made.notes

    return read


def auditing(name: str) -> Callable[[Path], Read]:
    """By a reader of schedules; what it notes is part of what it reads."""

    def read(path: Path) -> Read:
        program = SCHEDULES[name](path, ScheduleOptions())
        return plain(program), program.notes

    return read


def libra(role: str) -> Callable[[Path], Read]:
    """One of the files of LIBRA, the others as they are."""

    def read(path: Path) -> Read:
        names = {
            "network": "network.yml",
            "cost_model": "cost.yml",
            "communicator": "ranks.yml",
            "workload": "work.txt",
        }
        files = {key: path.parent / name for key, name in names.items()}
        made = IMPORTERS["libra"](**{**files, role: path}, total_gbytes_per_s=100.0, name="x")
        return made.document, made.notes

    return read


PLAN_BLOCK = {
    "id": 0,
    "channels": [{"channel_type": "memory", "channel_ids": [0]}, {"channel_type": "switch", "channel_ids": [0]}],
    "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0]}],
    "ops": [
        {
            "name": "put", "channel_type": "memory", "tbg_info": {"tb_id": 0, "tbg_size": 1},
            "src_buff": [{"type": "i", "index": 0, "size": 1}],
            "dst_buff": [{"buffer_id": 0, "index": 0, "size": 1}],
        },
        {"name": "signal", "channel_type": "memory", "channel_ids": [0]},
        {"name": "wait", "channel_type": "memory", "channel_ids": [0]},
        {"name": "barrier", "barrier_id": 0, "num_threadblocks": 2},
        {"name": "glres", "channel_type": "switch", "reduce_op": "sum",
         "src_buff": [{"switch_channel_id": 0, "index": 1, "size": 1}],
         "dst_buff": [{"switch_channel_id": 0, "index": 1, "size": 1}]},
        {"name": "copy", "src_buff": [{"type": "i", "index": 0, "size": 1}],
         "dst_buff": [{"type": "s", "index": 0, "size": 1}]},
        {"name": "pipeline", "iter_context": {"unit_size": 1, "num_chunks": 1}, "ops": [
            {"name": "sem_acquire", "semaphore_ids": [0]}]},
    ],
}  # fmt: skip


def _plan() -> dict[str, Any]:
    gpus = [
        {
            "id": rank, "input_chunks": 2, "output_chunks": 2, "scratch_chunks": 2,
            "channels": [
                {"channel_type": "memory", "connected_to": [1 - rank, 1 - rank]},
                {"channel_type": "switch", "buffer_type": "i", "rank_groups": [{"size": 2, "ranks": [0, 1]}]},
                {"channel_type": "switch", "buffer_type": "o", "rank_groups": [[0, 1]]},
            ],
            "remote_buffers": [{"rank": 1 - rank, "type": t, "access_channel_types": ["memory"]} for t in "si"],
            "semaphores": [{"init_value": 1}, {"init_value": 0}],
            "threadblocks": [copy.deepcopy(PLAN_BLOCK)],
        }
        for rank in range(2)
    ]  # fmt: skip
    more = {"protocol": "Simple", "reuse_resources": True, "buffer_alignment": 16, "num_threads_per_block": 1024}
    sizes = {"use_double_scratch_buffer": False, "min_message_size": 0, "max_message_size": 10}
    return {"name": "p", "collective": "allreduce", "inplace": False, "gpus": gpus, **more, **sizes}


BLOCK = ("gpus", 0, "threadblocks", 0)
OPS = (*BLOCK, "ops")


def _mscclpp_others() -> dict[str, Change]:
    """Another value for the fields of an operation, outside a pipeline and in one."""
    made: dict[str, Change] = {}
    rows: dict[str, tuple[int, tuple[str | int, ...], Any]] = {
        "name": (1, ("name",), "nop"),
        "channel_type": (2, ("channel_type",), "switch"),
        "channel_ids[]": (1, ("channel_ids",), []),
        "src_buff[].type": (5, ("src_buff", 0, "type"), "o"),
        "src_buff[].buffer_id": (5, ("src_buff", 0), {"buffer_id": 0, "index": 0, "size": 1}),
        "src_buff[].switch_channel_id": (4, ("src_buff", 0), {"type": "i", "index": 1, "size": 1}),
        "src_buff[].index": (0, ("src_buff", 0, "index"), 1),
        "src_buff[].size": (0, ("src_buff", 0, "size"), 2),
        "dst_buff[].type": (5, ("dst_buff", 0, "type"), "o"),
        "dst_buff[].buffer_id": (0, ("dst_buff", 0), {"type": "s", "index": 0, "size": 1}),
        "dst_buff[].switch_channel_id": (4, ("dst_buff", 0), {"type": "i", "index": 1, "size": 1}),
        "dst_buff[].index": (0, ("dst_buff", 0, "index"), 1),
        "dst_buff[].size": (0, ("dst_buff", 0, "size"), 2),
        "tbg_info.tb_id": (0, ("tbg_info",), {"tb_id": 1, "tbg_size": 2}),
        "tbg_info.tbg_size": (0, ("tbg_info", "tbg_size"), 2),
        "semaphore_ids[]": (3, (), {"name": "sem_acquire", "semaphore_ids": [1]}),
        "barrier_id": (3, ("barrier_id",), 1),
        "num_threadblocks": (3, ("num_threadblocks",), 1),
    }
    for name, (number, inner, value) in rows.items():
        made[f"gpus[].threadblocks[].ops[].{name}"] = (*OPS, number, *inner), value
        operation = changed([PLAN_BLOCK["ops"][number]], ((0, *inner), value))[0]  # type: ignore[index]
        made[f"gpus[].threadblocks[].ops[].ops[].{name}"] = (*OPS, 6, "ops"), [operation]
    # In a pipeline, what stands there before has no effect that another value of these alone would change.
    for name, number in (("name", 5), ("channel_type", 1), ("channel_ids[]", 1)):
        operation = PLAN_BLOCK["ops"][number]  # type: ignore[index]
        made[f"gpus[].threadblocks[].ops[].ops[].{name}"] = (*OPS, 6, "ops"), [operation]
    return made


MSCCLPP = ReaderCase(
    _plan(),
    auditing("mscclpp"),
    {
        "name": (["name"], "q"),
        "collective": (["collective"], "allgather"),
        "inplace": (["inplace"], True),
        "gpus[].id": (["gpus", 0, "id"], 1),
        "gpus[].input_chunks": (["gpus", 0, "input_chunks"], 4),
        "gpus[].output_chunks": (["gpus", 0, "output_chunks"], 4),
        "gpus[].scratch_chunks": (["gpus", 0, "scratch_chunks"], 4),
        "gpus[].channels[].channel_type": (["gpus", 0, "channels", 0, "channel_type"], "port"),
        "gpus[].channels[].connected_to[]": (["gpus", 0, "channels", 0, "connected_to"], []),
        "gpus[].channels[].buffer_type": (["gpus", 0, "channels", 1, "buffer_type"], "o"),
        "gpus[].channels[].buff": (
            ["gpus", 0, "channels", 1], {"channel_type": "switch", "buff": "o", "rank_groups": [{"ranks": [0, 1]}]}),
        "gpus[].channels[].rank_groups[].ranks[]": (["gpus", 0, "channels", 1, "rank_groups", 0, "ranks"], [1]),
        "gpus[].channels[].rank_groups[][]": (["gpus", 0, "channels", 1, "rank_groups"], [[1]]),
        "gpus[].remote_buffers[].rank": (["gpus", 0, "remote_buffers", 0, "rank"], 0),
        "gpus[].remote_buffers[].type": (["gpus", 0, "remote_buffers", 0, "type"], "o"),
        "gpus[].semaphores[].init_value": (["gpus", 0, "semaphores", 0, "init_value"], 0),
        "gpus[].threadblocks[].id": ([*BLOCK, "id"], 1),
        "gpus[].threadblocks[].channels[].channel_type": ([*BLOCK, "channels", 0, "channel_type"], "port"),
        "gpus[].threadblocks[].channels[].channel_ids[]": ([*BLOCK, "channels", 0, "channel_ids"], [1]),
        "gpus[].threadblocks[].remote_buffer_refs[].access_channel_type": (
            [*BLOCK, "remote_buffer_refs", 0, "access_channel_type"], "port"),
        "gpus[].threadblocks[].remote_buffer_refs[].remote_buffer_ids[]": (
            [*BLOCK, "remote_buffer_refs", 0, "remote_buffer_ids"], [1]),
        **_mscclpp_others(),
    },
    frozenset({
        "gpus[].id", "gpus[].threadblocks[].remote_buffer_refs[].access_channel_type",
        "gpus[].threadblocks[].channels[].channel_type",
    }),
)  # fmt: skip
