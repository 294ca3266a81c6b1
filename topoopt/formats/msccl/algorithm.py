"""MSCCL algorithms (XML) as they are written: ranks, thread blocks, steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from topoopt.core.collective import CollectiveOp
from topoopt.files.documents import Document
from topoopt.files.reader_fields import FieldTable, notes_of
from topoopt.files.untrusted import parsing, read_xml_text, refusal
from topoopt.formats.schedules.limits import MAX_FILE_BYTES, MOST_RANKS
from topoopt.formats.schedules.reader import ScheduleOptions, no_collective
from topoopt.formats.schedules.states import SHARED, collective_named

WHAT = "an MSCCL algorithm (XML: algo, gpu, tb, step)"
FIELDS: FieldTable = {
    "@name": ("used", "name of the program"),
    "@coll": ("used", "which collective, unless --collective says it"),
    "@ngpus": ("used", "number of ranks"),
    "@nchunksperloop": ("used", "chunks of the vector"),
    "@nchannels": ("used", "number of channels"),
    "@inplace": ("used", "whether input and output are one buffer"),
    "@proto": ("used", "LL is known to give wrong data, which a note says"),
    "@maxBytes": ("used", "above it the runtime takes NCCL, which a note says"),
    "@minBytes": ("noted", "below it the runtime takes NCCL"),
    "@outofplace": ("noted", "whether the runtime takes it for buffers apart"),
    "@nthreads": ("noted", "threads of a block"),
    "@redop": ("noted", "every reduction is read as a sum"),
    "gpu[].@id": ("used", "rank"),
    "gpu[].@i_chunks": ("used", "chunks of the input"),
    "gpu[].@o_chunks": ("used", "chunks of the output"),
    "gpu[].@s_chunks": ("used", "chunks of the scratch"),
    "gpu[].copy[].@i_off": ("used", "chunk of the input that is copied before"),
    "gpu[].copy[].@o_off": ("used", "where it is copied to"),
    "gpu[].tb[].@id": ("used", "thread block"),
    "gpu[].tb[].@send": ("used", "rank it sends to"),
    "gpu[].tb[].@recv": ("used", "rank it receives from"),
    "gpu[].tb[].@chan": ("used", "channel"),
    "gpu[].tb[].step[].@s": ("used", "number of the step"),
    "gpu[].tb[].step[].@type": ("used", "what it does"),
    "gpu[].tb[].step[].@srcbuf": ("used", "buffer it reads"),
    "gpu[].tb[].step[].@srcoff": ("used", "chunk it reads first"),
    "gpu[].tb[].step[].@dstbuf": ("used", "buffer it writes"),
    "gpu[].tb[].step[].@dstoff": ("used", "chunk it writes first"),
    "gpu[].tb[].step[].@cnt": ("used", "chunks"),
    "gpu[].tb[].step[].@depid": ("used", "thread block it waits for"),
    "gpu[].tb[].step[].@deps": ("used", "step it waits for"),
    "gpu[].tb[].step[].@hasdep": ("used", "whether it is waited for"),
    "any other": ("noted", "written for other runtimes"),
}
RECEIVES = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
SENDS = frozenset({"s", "rcs", "rrs", "rrcs"})
LOCAL = frozenset({"cpy", "re", "ra", "nop"})
TYPES = RECEIVES | SENDS | LOCAL
MOST_COUNT = 1_000_000


@dataclass(frozen=True)
class MscclStep:
    """A step of a thread block; `waits` is (block, step) or None."""

    number: int
    kind: str
    source: tuple[str, int]
    target: tuple[str, int]
    count: int
    waits: tuple[int, int] | None
    waited_for: bool


@dataclass(frozen=True)
class MscclBlock:
    """A thread block with its peers, -1 where there is none."""

    number: int
    send: int
    receive: int
    channel: int
    steps: tuple[MscclStep, ...]


@dataclass(frozen=True)
class Gpu:
    """A rank: chunks of its buffers i, o, s, and (from, to) of chunks that are copied from i to o before."""

    chunks: Mapping[str, int]
    copies: tuple[tuple[int, int], ...]
    blocks: tuple[MscclBlock, ...]


@dataclass(frozen=True)
class MscclAlgorithm:
    """An algorithm; `chunks` of the whole vector, in an All-to-All of that of each rank; notes of what is not used."""

    name: str
    collective: CollectiveOp
    chunks: int
    channels: int
    in_place: bool
    most_bytes: int
    attributes: Mapping[str, str]
    gpus: tuple[Gpu, ...]
    notes: tuple[str, ...]


def parsed(path: Path, options: ScheduleOptions) -> MscclAlgorithm:
    """An algorithm.

    Raises:
        InputError: not such a file.
    """
    with parsing(str(path), WHAT):
        root = ElementTree.fromstring(read_xml_text(path, MAX_FILE_BYTES))
        if root.tag != "algo":
            raise refusal(f"not {WHAT}", str(path), value=root.tag)
        collective = options.collective or collective_named(root.attrib.get("coll", ""))
        if collective is None:
            raise no_collective(str(path), root.attrib.get("coll"))
        listed = sorted(root.findall("gpu"), key=lambda gpu: int(gpu.attrib["id"]))
        ranks, chunks = int(root.attrib["ngpus"]), _whole(root.attrib["nchunksperloop"], 1)
        if not 2 <= ranks <= MOST_RANKS or [int(gpu.attrib["id"]) for gpu in listed] != list(range(ranks)):
            allowed = f"each of 0 to ngpus - 1 once, 2 to {MOST_RANKS} of them"
            raise refusal("wrong ranks", str(path), value=f"{len(listed)} gpu, ngpus {ranks}", allowed=allowed)
        if collective in SHARED and chunks % ranks:
            raise refusal("no equal shares of all ranks", str(path), value=f"nchunksperloop {chunks}, {ranks} ranks")
        return MscclAlgorithm(
            root.attrib.get("name", path.stem),
            collective,
            chunks,
            int(root.attrib.get("nchannels", "1")),
            root.attrib.get("inplace", "0") == "1",
            int(root.attrib.get("maxBytes") or 0),
            dict(root.attrib),
            tuple(_gpu(one) for one in listed),
            notes_of(Document(str(path), root, lambda _: {}), FIELDS),
        )


def _whole(text: str, low: int) -> int:
    number = int(text)
    if not low <= number <= MOST_COUNT:
        raise ValueError(f"{text} is no number from {low} to {MOST_COUNT}")
    return number


def _gpu(element: ElementTree.Element) -> Gpu:
    chunks = {name: _whole(element.attrib.get(f"{name}_chunks", "0"), 0) for name in "ios"}
    copies = tuple((_whole(one.attrib["i_off"], 0), _whole(one.attrib["o_off"], 0)) for one in element.findall("copy"))
    blocks = tuple(
        MscclBlock(
            int(one.attrib["id"]),
            int(one.attrib["send"]),
            int(one.attrib["recv"]),
            int(one.attrib["chan"]),
            tuple(_step(step.attrib) for step in one.findall("step")),
        )
        for one in element.findall("tb")
    )
    return Gpu(chunks, copies, blocks)


def _step(given: Mapping[str, str]) -> MscclStep:
    kind = given["type"]
    if kind not in TYPES:
        raise ValueError(f"no such type of step: {kind}")
    waits = int(given["depid"]), int(given["deps"])
    ends = []
    for end in ("src", "dst"):
        name = given[f"{end}buf"]
        if name not in ("i", "o", "s"):
            raise ValueError(f"no such buffer: {name}")
        ends.append((name, int(given[f"{end}off"])))
    count = _whole(given["cnt"], 0)
    waited = given["hasdep"] == "1"
    return MscclStep(int(given["s"]), kind, ends[0], ends[1], count, None if waits[0] < 0 else waits, waited)
