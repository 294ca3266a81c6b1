"""MSCCL++ execution plans (JSON) as they are written, references resolved: which rank, buffer or channel is meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topoopt.core.collective import CollectiveOp
from topoopt.files.untrusted import parsing, refusal
from topoopt.formats.schedules.json_file import read_object
from topoopt.formats.schedules.limits import MOST_RANKS
from topoopt.formats.schedules.reader import ScheduleOptions, no_collective
from topoopt.formats.schedules.states import SHARED, collective_named

WHAT = "an MSCCL++ execution plan (JSON: name, collective, gpus)"
MOST_CHUNKS = 1_000_000


@dataclass(frozen=True)
class Range:
    """Chunks of a buffer (i, o or s) of ranks; several ranks stand for a switch that reduces or copies."""

    ranks: tuple[int, ...]
    buffer: str
    index: int
    size: int


@dataclass(frozen=True)
class Operation:
    """An operation: what it reads and writes, and its channels as (type, number at the rank)."""

    name: str
    sources: tuple[Range, ...]
    targets: tuple[Range, ...]
    channels: tuple[tuple[str, int], ...]
    given: Mapping[str, Any]


@dataclass(frozen=True)
class PlanBlock:
    """A thread block."""

    number: int
    channels: int
    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class PlanRank:
    """A rank: chunks of its buffers, and the other end of every channel by type."""

    chunks: Mapping[str, int]
    connected: Mapping[str, tuple[int, ...]]
    blocks: tuple[PlanBlock, ...]
    semaphores: tuple[int, ...]


@dataclass(frozen=True)
class ExecutionPlan:
    """A plan; `chunks` of the whole vector, in an All-to-All of that of each rank."""

    name: str
    collective: CollectiveOp
    chunks: int
    in_place: bool
    ranks: tuple[PlanRank, ...]


def parsed(path: Path, options: ScheduleOptions) -> ExecutionPlan:
    """A plan.

    Raises:
        InputError: not such a file.
    """
    document = read_object(path, WHAT)
    with parsing(str(path), WHAT):
        collective = options.collective or collective_named(str(document["collective"]))
        if collective is None:
            raise no_collective(str(path), document["collective"])
        gpus = document["gpus"]
        ids = [gpu["id"] for gpu in gpus]
        if not 2 <= len(gpus) <= MOST_RANKS or ids != list(range(len(gpus))):
            raise refusal(
                "wrong ranks", str(path), value=ids[:20], allowed="gpus 0, 1, ... in their order, two or more"
            )
        ranks = tuple(_rank(gpu, len(gpus)) for gpu in gpus)
        largest = max(max(rank.chunks["i"], rank.chunks["o"]) for rank in ranks)
        if largest < 1 or (collective in SHARED and largest % len(gpus)):
            raise refusal("no equal shares of all ranks", str(path), value=f"{largest} chunks, {len(gpus)} ranks")
        name = str(document.get("name") or path.stem)
        return ExecutionPlan(name, collective, largest, bool(document.get("inplace", True)), ranks)


def _whole(value: object, most: int = MOST_CHUNKS) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ValueError(f"{value!r} is no number from 0 to {most}")
    return value


def _rank(gpu: Mapping[str, Any], ranks: int) -> PlanRank:
    chunks = {letter: _whole(gpu.get(f"{name}_chunks", 0)) for letter, name in zip("ios", BUFFERS, strict=True)}
    connected: dict[str, list[int]] = {}
    switches: list[tuple[str, tuple[int, ...]]] = []
    for channel in gpu.get("channels", ()):
        kind = str(channel["channel_type"])
        if kind == "switch":
            for group in channel["rank_groups"]:
                members = group["ranks"] if isinstance(group, Mapping) else group
                switches.append((_letter(channel["buffer_type"]), tuple(_whole(rank, ranks - 1) for rank in members)))
        else:
            connected.setdefault(kind, []).extend(_whole(rank, ranks - 1) for rank in channel["connected_to"])
    remote = [(_whole(one["rank"], ranks - 1), _letter(one["type"])) for one in gpu.get("remote_buffers", ())]
    blocks = tuple(_block(one, int(gpu["id"]), remote, switches) for one in gpu["threadblocks"])
    counters = tuple(_whole(one.get("init_value", 0)) for one in gpu.get("semaphores", ()))
    return PlanRank(chunks, {kind: tuple(ends) for kind, ends in connected.items()}, blocks, counters)


BUFFERS = ("input", "output", "scratch")


def _letter(text: object) -> str:
    letter = str(text)[:1]
    if letter not in ("i", "o", "s"):
        raise ValueError(f"no such buffer: {text}")
    return letter


def _block(
    block: Mapping[str, Any],
    rank: int,
    remote: Sequence[tuple[int, str]],
    switches: Sequence[tuple[str, tuple[int, ...]]],
) -> PlanBlock:
    """Operations with what the block's own lists refer to."""
    channels = {str(one["channel_type"]): [_whole(k) for k in one["channel_ids"]] for one in block.get("channels", ())}
    refs = {
        str(one["access_channel_type"]): [_whole(k) for k in one["remote_buffer_ids"]]
        for one in block.get("remote_buffer_refs", ())
    }

    def meant(buffer: Mapping[str, Any], kind: str) -> Range:
        index, size = _whole(buffer["index"]), _whole(buffer.get("size", 1))
        if "type" in buffer:
            return Range((rank,), _letter(buffer["type"]), index, size)
        if "buffer_id" in buffer:
            owner, letter = remote[refs[kind][_whole(buffer["buffer_id"])]]
            return Range((owner,), letter, index, size)
        letter, members = switches[channels["switch"][_whole(buffer["switch_channel_id"])]]
        return Range(members, letter, index, size)

    def operation(given: Mapping[str, Any]) -> Operation:
        kind = str(given.get("channel_type", "memory"))
        return Operation(
            str(given["name"]),
            tuple(meant(one, kind) for one in given.get("src_buff", ())),
            tuple(meant(one, kind) for one in given.get("dst_buff", ())),
            tuple((kind, channels[kind][_whole(k)]) for k in given.get("channel_ids", ()) if kind != "switch"),
            given,
        )

    listed: list[Mapping[str, Any]] = []
    for given in block["ops"]:
        listed += given["ops"] if given["name"] == "pipeline" else [given]
    used = sum(len(ids) for ids in channels.values())
    return PlanBlock(_whole(block["id"]), used, tuple(operation(given) for given in listed))
