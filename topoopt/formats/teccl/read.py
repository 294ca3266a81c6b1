"""Reader of TE-CCL schedules (JSON): flows of chunks by epochs, demands, and the figures that the file claims."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from topoopt.core.arrays import Ints, distinct
from topoopt.core.collective import UNKNOWN, ChunkProgram, CollectiveOp, DeclaredFigures
from topoopt.core.errors import InputError
from topoopt.files.reader_fields import FieldTable, notes_of
from topoopt.files.untrusted import parsing, refusal
from topoopt.formats.schedules.builder import ProgramBuilder
from topoopt.formats.schedules.json_file import read_object
from topoopt.formats.schedules.limits import MOST_RANKS
from topoopt.formats.schedules.lines import LineError, number_table
from topoopt.formats.schedules.reader import ScheduleOptions
from topoopt.formats.schedules.timed import Piece, PieceSends, add_sends
from topoopt.formats.teccl.fractions_of_chunks import WHOLE, ChunkFlows, WholePieces, whole_pieces

MOST_PARTS = 10**9
WHAT = "a TE-CCL schedule (JSON with 7-Flows)"
FIELDS: FieldTable = {
    "1-Epoch_Duration": ("used", "seconds of an epoch, as the file claims"),
    "2-Expected_Epoch_Duration": ("noted", "before TE-CCL lengthened it"),
    "3-Epochs_Required": ("noted", "epochs of the schedule, which its flows say"),
    "4-Collective_Finish_Time": ("used", "seconds, as the file claims"),
    "5-Algo_Bandwidth": ("used", "GB/s, as the file claims"),
    "6-Demand_Met": ("used", "demands, where there are no chunk paths; else noted; times are not read"),
    "7-Flows": ("used", "what is sent in which epoch; 6-Flows in some files"),
    "6-Flows": ("used", "see 7-Flows"),
    "8-Chunk paths": ("used", "demands; 7-chunk paths in some files; the paths are those of the flows"),
    "7-chunk paths": ("used", "see 8-Chunk paths"),
    "Solver_Time": ("noted", "seconds of the solver of TE-CCL"),
    "any other": ("noted", "written by other versions of TE-CCL"),
}
SYNONYMS = (("7-Flows", "6-Flows"), ("8-Chunk paths", "7-chunk paths"))
_FLOW = re.compile(
    r"Chunk (\d{1,9}) from (\d{1,9}) traveled over (\d{1,9})->(\d{1,9})(?: with volume ([0-9.eE+-]{1,30}))?"
    r" in epoch (\d{1,9})(?: via switches ([0-9, \[\]>-]{1,200}))?\s*"
)
_DEMAND = re.compile(r"Demand at (\d{1,9}) for chunk (\d{1,9}) from (\d{1,9}) met by epoch \d+\s*")
_NUMBER = re.compile(r"\d{1,9}")


@dataclass(frozen=True, eq=False)
class TecclFile:
    """What stands in a file: flows, demands int64[d, 3] (at, chunk, from) sorted and each once, figures.

    Notes say what is not used.
    """

    flows: ChunkFlows
    demands: Ints
    stated: DeclaredFigures
    notes: tuple[str, ...]


def read_schedule(path: Path, options: ScheduleOptions) -> ChunkProgram:
    """A schedule of an AllGather or All-to-All; chunks and switches by the numbers of the file.

    Raises:
        InputError: not such a file.
    """
    file = parsed(path)
    flows, demands = file.flows, file.demands
    switches = {int(name) for way in flows.ways for name in way}
    sources = distinct(np.concatenate((flows.source, demands[:, 0], demands[:, 2])))
    ends = distinct(np.concatenate((flows.tail, flows.head)))
    strange = np.setdiff1d(ends, [*switches, *sources.tolist()])  # neither a source nor a switch
    names = np.union1d(sources, strange)
    if not 2 <= len(names) <= MOST_RANKS:
        raise refusal("wrong number of ranks", str(path), value=len(names), allowed=f"2 to {MOST_RANKS}")
    collective = options.collective or _collective(file, len(names))
    if collective not in (CollectiveOp.ALLGATHER, CollectiveOp.ALL_TO_ALL):
        allowed = "allgather, all-to-all"
        raise refusal("TE-CCL has no such collective", str(path), value=str(collective), allowed=allowed)
    builder = ProgramBuilder(str(path), tuple(map(str, names.tolist())), ("flow",))
    if len(strange):
        builder.defect("ranks", f"node {strange[0]} sends or receives, and is no source ({len(strange)} such nodes)")
    builder.notes.extend(file.notes)
    pieces = whole_pieces(flows)
    below = math.lcm(*{share.denominator for share in pieces.sizes})
    if below > MOST_PARTS:
        raise refusal("volumes without a common measure", str(path), value=below, allowed=f"parts of 1/{MOST_PARTS}")
    owner = np.repeat(np.searchsorted(names, pieces.source), np.diff(pieces.first)).tolist()
    whole = [Piece(int(share * below), (rank,)) for share, rank in zip(pieces.sizes, owner, strict=True)]
    first = add_sends(builder, whole, _sends(builder, flows, pieces, names), timed=True)
    _add_demands(builder, demands, pieces, names, np.array(first, dtype=np.int64))
    share_units = below * _most_chunks(demands)
    return builder.built(path.stem, collective, share_units * len(names), per_share=True, stated=file.stated)


def _sends(builder: ProgramBuilder, flows: ChunkFlows, pieces: WholePieces, names: Ints) -> PieceSends:
    """What is sent between ranks; what a file sends from a switch or to one is in no rank's memory."""
    number = pieces.flow
    between = np.isin(flows.tail[number], names) & np.isin(flows.head[number], names)
    number, piece = number[between], pieces.piece[between]
    via = flows.via[number]
    known = np.array([UNKNOWN] * (len(flows.ways) + 1), dtype=np.int64)
    for way in distinct(via[via >= 0]).tolist():
        known[way] = builder.way(flows.ways[way])
    tail, head = (np.searchsorted(names, end[number]) for end in (flows.tail, flows.head))
    return PieceSends(piece, tail, head, flows.epoch[number], known[via], number[:, None])


def _add_demands(builder: ProgramBuilder, demands: Ints, pieces: WholePieces, names: Ints, first: Ints) -> None:
    """Every piece of a chunk where it is due."""
    chunk = pieces.source * 10**9 + pieces.chunk
    order = np.argsort(chunk)
    wanted = demands[:, 2] * 10**9 + demands[:, 1]
    place = np.searchsorted(chunk[order], wanted)
    place = np.minimum(place, max(len(chunk) - 1, 0))
    sent = chunk[order][place] == wanted if len(chunk) else np.zeros(len(wanted), dtype=np.bool_)
    for at, number, source in demands[~sent].tolist():
        builder.defect("result", f"chunk {number} of node {source}, due at node {at}, is never sent")
    group = order[place[sent]]
    count = np.diff(pieces.first)[group]
    piece = np.repeat(pieces.first[group] - np.cumsum(count) + count, count) + np.arange(count.sum())
    at, source = (np.repeat(np.searchsorted(names, demands[sent, column]), count) for column in (0, 2))
    builder.due.add(first[at] + piece, piece, source)


def parsed(path: Path) -> TecclFile:
    """Flows, demands and figures of a file.

    Raises:
        InputError: not such a file; the first line that is no flow.
    """
    document, source = read_object(path, WHAT)
    notes = notes_of(source, FIELDS)
    for names in SYNONYMS:
        if all(name in document for name in names):
            raise refusal("the same thing under two names", str(path), value=", ".join(names), allowed="one of them")
    if "6-Demand_Met" in document and any(name in document for name in SYNONYMS[1]):
        notes = (*notes, "not used: 6-Demand_Met, as demands are those of the chunk paths")
    with parsing(str(path), WHAT):
        lines = next((document[key] for key in ("7-Flows", "6-Flows") if key in document), None)
        if not isinstance(lines, list):
            raise refusal("no flows", str(path), allowed=WHAT)
        flows = _flows(lines, str(path))
        demands = _demands(document, str(path))
        stated = _stated(document)
    return TecclFile(flows, demands, stated, notes)


def _flows(lines: list[Any], file: str) -> ChunkFlows:
    """Every line as a flow."""
    texts = list(map(str, lines))

    def refused(place: int) -> InputError:
        return refusal(f"flow {place} cannot be read", file, value=lines[place], allowed=_FLOW.pattern)

    try:
        numbers = number_table(texts, _FLOW, (1, 2, 3, 4, 6))
    except LineError as error:
        raise refused(error.place) from None
    volume, via = np.zeros(len(texts), dtype=np.int64), np.full(len(texts), UNKNOWN, dtype=np.int64)
    volumes, ways = {WHOLE: 0}, dict[tuple[str, ...], int]()
    for place, text in enumerate(texts):
        if " volume " not in text and " via " not in text:
            continue
        found = _FLOW.fullmatch(text)
        part = WHOLE if found is None or found[5] is None else _volume(found[5])
        if found is None or part is None:
            raise refused(place)
        volume[place] = volumes.setdefault(part, len(volumes))
        if switches := tuple(_NUMBER.findall(found[7] or "")):
            via[place] = ways.setdefault(switches, len(ways))
    chunk, source, tail, head, epoch = numbers.T
    return ChunkFlows(chunk, source, tail, head, epoch, volume, via, tuple(volumes), tuple(ways))


def _volume(text: str) -> Fraction | None:
    """Part of a chunk, rounded as files round; None beyond any sense."""
    volume = Fraction(text)
    return volume.limit_denominator(10_000) if 0 < volume <= 10**6 else None


def _demands(document: Mapping[str, Any], file: str) -> Ints:
    """int64[d, 3], rows (at, chunk, from) in order, each once."""
    listed = next((document[key] for key in ("8-Chunk paths", "7-chunk paths") if key in document), None)
    if isinstance(listed, dict):
        texts = list(listed)
        try:
            rows = number_table(texts, _DEMAND, (1, 2, 3))
        except LineError as error:
            text = texts[error.place]
            raise refusal("a demand cannot be read", file, value=text, allowed=_DEMAND.pattern) from None
    else:
        met = document.get("6-Demand_Met")
        if not isinstance(met, dict):
            raise refusal("no demands", file, allowed="8-Chunk paths or 6-Demand_Met")
        told = [(at, chunk, source) for at, sources in met.items() for source in sources for chunk in sources[source]]
        read = [[_numbered(text) for text in texts] for texts in told]
        rows = np.array(read, dtype=np.int64).reshape(-1, 3)
    return _rows_once(rows)


def _numbered(text: str) -> int:
    """The number of `GPU 3` or `Chunk 0`.

    Raises:
        ValueError: another text.
    """
    found = re.fullmatch(r"(?:GPU|Chunk) (\d{1,9})", text)
    if found is None:
        raise ValueError(f"{text!r} is no GPU or chunk with its number")
    return int(found[1])


def _rows_once(rows: Ints) -> Ints:
    """Rows in order, each once."""
    ordered = rows[np.lexsort(rows.T[::-1])]
    fresh = np.ones(len(ordered), dtype=np.bool_)
    fresh[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return ordered[fresh]


def _stated(document: Mapping[str, Any]) -> DeclaredFigures:
    epoch, time, rate = (
        None if document.get(key) is None else float(document[key])
        for key in ("1-Epoch_Duration", "4-Collective_Finish_Time", "5-Algo_Bandwidth")
    )
    for value in (epoch, time, rate):
        if value is not None and not 0 < value < 1e15:
            raise ValueError(f"{value} is no time or rate")
    size = None if time is None or rate is None else round(time * rate * 1e9, 3)
    return DeclaredFigures(size, None if time is None else time * 1e6, rate, None if epoch is None else epoch * 1e6)


def _collective(file: TecclFile, ranks: int) -> CollectiveOp:
    """All-to-All when every chunk is for one node; AllGather when for all others."""
    chunks = distinct(file.demands[:, 2] * 10**9 + file.demands[:, 1])
    single = ranks > 2 and len(chunks) == len(file.demands)
    return CollectiveOp.ALL_TO_ALL if single else CollectiveOp.ALLGATHER


def _most_chunks(demands: Ints) -> int:
    """Chunks of a share (of what goes to one node, in an All-to-All): the most that a node is to get of another."""
    pairs = np.sort(demands[:, 0] * 10**9 + demands[:, 2])
    begin = np.flatnonzero(np.concatenate((np.ones(min(len(pairs), 1), dtype=np.bool_), pairs[1:] != pairs[:-1])))
    return int(np.diff(np.concatenate((begin, [len(pairs)]))).max(initial=1))
