"""Reader of TE-CCL schedules (JSON): flows of chunks by epochs, demands, and the figures that the file claims."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from operator import itemgetter
from pathlib import Path
from typing import Any

from topoopt.core.chunk_program import ChunkProgram, StatedFigures
from topoopt.core.collective import CollectiveOp
from topoopt.files.untrusted import parsing, refusal
from topoopt.formats.schedules.builder import ProgramBuilder
from topoopt.formats.schedules.json_file import read_object
from topoopt.formats.schedules.limits import MOST_RANKS
from topoopt.formats.schedules.reader import ScheduleOptions
from topoopt.formats.schedules.timed import Piece, TimedSend, add_sends
from topoopt.formats.teccl.fractions_of_chunks import WHOLE, ChunkFlow, whole_pieces

MOST_PARTS = 10**9
WHAT = "a TE-CCL schedule (JSON with 7-Flows)"
_FLOW = re.compile(
    r"Chunk (\d{1,9}) from (\d{1,9}) traveled over (\d{1,9})->(\d{1,9})(?: with volume ([0-9.eE+-]{1,30}))?"
    r" in epoch (\d{1,9})(?: via switches ([0-9, \[\]>-]{1,200}))?\s*"
)
_DEMAND = re.compile(r"Demand at (\d{1,9}) for chunk (\d{1,9}) from (\d{1,9}) met by epoch \d+\s*")
_NUMBER = re.compile(r"\d{1,9}")


@dataclass(frozen=True)
class TecclFile:
    """What stands in a file: flows, demands (at, chunk, from), figures."""

    flows: tuple[ChunkFlow, ...]
    demands: frozenset[tuple[int, int, int]]
    stated: StatedFigures


def read_schedule(path: Path, options: ScheduleOptions) -> ChunkProgram:
    """A schedule of an AllGather or All-to-All; chunks and switches by the numbers of the file.

    Raises:
        InputError: not such a file.
    """
    file = parsed(path)
    sources = {flow.source for flow in file.flows} | {end for one in _pairs(file.demands) for end in one}
    via = {name for way in {flow.via for flow in file.flows} for name in way or ()}
    ends = {end for link in {(flow.tail, flow.head) for flow in file.flows} for end in link}
    names = sorted(sources | (ends - {int(one) for one in via}))
    if not 2 <= len(names) <= MOST_RANKS:
        raise refusal("wrong number of ranks", str(path), value=len(names), allowed=f"2 to {MOST_RANKS}")
    rank = {name: place for place, name in enumerate(names)}
    collective = options.collective or _collective(file, len(names))
    if collective not in (CollectiveOp.ALLGATHER, CollectiveOp.ALL_TO_ALL):
        allowed = "allgather, all-to-all"
        raise refusal("TE-CCL has no such collective", str(path), value=str(collective), allowed=allowed)
    builder = ProgramBuilder(str(path), tuple(map(str, names)), ("flow",))
    if missing := sorted(end for end in ends - sources if str(end) not in via):
        builder.defect("ranks", f"node {missing[0]} sends or receives, and is no source ({len(missing)} such nodes)")
    pieces, sends = whole_pieces(file.flows)
    number = {key: place for place, key in enumerate(pieces)}
    below = math.lcm(*(share.denominator for share in pieces.values()))
    if below > MOST_PARTS:
        raise refusal("volumes without a common measure", str(path), value=below, allowed=f"parts of 1/{MOST_PARTS}")
    first = add_sends(
        builder,
        [Piece(int(share * below), (rank[source],)) for (source, _, _), share in pieces.items()],
        [
            TimedSend(number[key], rank[flow.tail], rank[flow.head], flow.epoch, (flow.place,), flow.via)
            for key, flow in sends
            if flow.tail in rank and flow.head in rank
        ],
        timed=True,
    )
    parts: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for key in pieces:
        parts.setdefault(key[:2], []).append(key)
    for at, chunk, source in sorted(file.demands):
        for key in parts.get((source, chunk), ()):
            builder.due.append((first[rank[at]] + number[key], number[key], rank[source]))
        if (source, chunk) not in parts:
            builder.defect("result", f"chunk {chunk} of node {source}, due at node {at}, is never sent")
    share_units = below * _chunks(file)
    return builder.built(path.stem, collective, share_units * len(names), per_share=True, stated=file.stated)


def parsed(path: Path) -> TecclFile:
    """Flows, demands and figures of a file.

    Raises:
        InputError: not such a file; every line that is no flow, up to twenty.
    """
    document = read_object(path, WHAT)
    with parsing(str(path), WHAT):
        lines = next((document[key] for key in ("7-Flows", "6-Flows") if key in document), None)
        if not isinstance(lines, list):
            raise refusal("no flows", str(path), allowed=WHAT)
        flows = _flows(lines, str(path))
        demands = frozenset(_demands(document, str(path)))
        stated = _stated(document)
    return TecclFile(flows, demands, stated)


def _flows(lines: list[Any], file: str) -> tuple[ChunkFlow, ...]:
    """Every line as a flow."""
    found = [_FLOW.fullmatch(str(line)) for line in lines]
    if None in found:
        place = found.index(None)
        raise refusal(f"flow {place} cannot be read", file, value=lines[place], allowed=_FLOW.pattern)
    parts = [one.groups() for one in found if one is not None]
    if not parts:
        return ()
    chunk, source, tail, head, volume, epoch, via = zip(*parts, strict=True)
    volumes = {text: WHOLE if text is None else _volume(text) for text in set(volume)}
    wrong = next((place for place, text in enumerate(volume) if volumes[text] is None), None)
    if wrong is not None:
        raise refusal(f"flow {wrong} cannot be read", file, value=lines[wrong], allowed=_FLOW.pattern)
    ways = {text: None if text is None else tuple(_NUMBER.findall(text)) or None for text in set(via)}
    numbers = [map(int, column) for column in (chunk, source, tail, head)]
    shares, switches = map(volumes.get, volume), map(ways.get, via)
    rows = zip(range(len(lines)), *numbers, shares, map(int, epoch), switches, strict=True)
    return tuple(map(ChunkFlow._make, rows))


def _volume(text: str) -> Fraction | None:
    """Part of a chunk, rounded as files round; None beyond any sense."""
    volume = Fraction(text)
    return volume.limit_denominator(10_000) if 0 < volume <= 10**6 else None


def _demands(document: Mapping[str, Any], file: str) -> Iterator[tuple[int, int, int]]:
    listed = next((document[key] for key in ("8-Chunk paths", "7-chunk paths") if key in document), None)
    if isinstance(listed, dict):
        for text in listed:
            found = _DEMAND.fullmatch(text)
            if found is None:
                raise refusal("a demand cannot be read", file, value=text, allowed=_DEMAND.pattern)
            yield int(found[1]), int(found[2]), int(found[3])
        return
    met = document.get("6-Demand_Met")
    if not isinstance(met, dict):
        raise refusal("no demands", file, allowed="8-Chunk paths or 6-Demand_Met")
    for at, sources in met.items():
        for source, chunks in sources.items():
            for chunk in chunks:
                yield tuple(int(_NUMBER.findall(text)[0]) for text in (at, chunk, source))  # type: ignore[misc]


def _stated(document: Mapping[str, Any]) -> StatedFigures:
    epoch, time, rate = (
        None if document.get(key) is None else float(document[key])
        for key in ("1-Epoch_Duration", "4-Collective_Finish_Time", "5-Algo_Bandwidth")
    )
    for value in (epoch, time, rate):
        if value is not None and not 0 < value < 1e15:
            raise ValueError(f"{value} is no time or rate")
    size = None if time is None or rate is None else round(time * rate * 1e9, 3)
    return StatedFigures(size, None if time is None else time * 1e6, rate, None if epoch is None else epoch * 1e6)


def _collective(file: TecclFile, ranks: int) -> CollectiveOp:
    """All-to-All when every chunk is for one node; AllGather when for all others."""
    wanted = Counter(map(itemgetter(2, 1), file.demands))
    single = ranks > 2 and all(count == 1 for count in wanted.values())
    return CollectiveOp.ALL_TO_ALL if single else CollectiveOp.ALLGATHER


def _chunks(file: TecclFile) -> int:
    """Chunks of a share (of what goes to one node, in an All-to-All)."""
    return max(_pairs(file.demands).values(), default=1)


def _pairs(demands: Iterable[tuple[int, int, int]]) -> Counter[tuple[int, int]]:
    """How many chunks every node is to get of every other, by (at, from)."""
    return Counter(map(itemgetter(0, 2), demands))
