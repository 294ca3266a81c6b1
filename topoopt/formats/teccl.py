"""TE-CCL (JSON) states inputs, which become instances, and schedules, whose flows of chunks become programs."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from topoopt.core.arrays import Ints, distinct
from topoopt.core.collective import UNKNOWN, ChunkProgram, CollectiveOp, DeclaredFigures
from topoopt.core.errors import InputError
from topoopt.core.rated_network import MI250
from topoopt.files.issues import Issue, nearest_text, value_text
from topoopt.files.reader_fields import FieldTable, notes_of
from topoopt.files.untrusted import parsing, refusal
from topoopt.formats.schedules import (
    MOST_RANKS,
    LineError,
    Piece,
    PieceSends,
    ProgramBuilder,
    ScheduleOptions,
    add_sends,
    collective_document,
    number_table,
    read_object,
)
from topoopt.formats.table import Imported, Importer, NameOption, name_of

WHOLE = Fraction(1)


@dataclass(frozen=True, eq=False)
class ChunkFlows:
    """Parts of chunks that go over links or through switches, int64[k] each, in the order of the file.

    Attributes:
        chunk, source: which chunk of which node.
        tail, head: nodes at the ends.
        epoch: when it starts.
        volume: index into `volumes`, whose first is the whole chunk.
        via: index into `paths`, switches between by their names; -1: none are stated.
    """

    chunk: Ints
    source: Ints
    tail: Ints
    head: Ints
    epoch: Ints
    volume: Ints
    via: Ints
    volumes: tuple[Fraction, ...]
    paths: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class WholePieces:
    """Chunks cut so that every flow carries whole pieces.

    Attributes:
        source, chunk: int64[g], of which node which chunk, as they come first.
        first: int64[g + 1], pieces of chunk g are first[g] to first[g + 1] - 1.
        sizes: of every piece, in chunks.
        piece, flow: int64[s], which piece each send carries, and in which flow.
    """

    source: Ints
    chunk: Ints
    first: Ints
    sizes: tuple[Fraction, ...]
    piece: Ints
    flow: Ints


_PartFlow = tuple[int, int, int, Fraction, int]
"""A flow of a part of a chunk: its number, tail, head, volume, epoch."""


def whole_pieces(flows: ChunkFlows) -> WholePieces:
    """Pieces, and which of them each flow carries.

    A flow of a part of a chunk takes what came first to its tail and has not been sent on; of what is not there it
    takes the beginning of the chunk, so that an executor finds that it is not there.
    """
    keys, begin, which = np.unique(flows.source * 10**9 + flows.chunk, return_index=True, return_inverse=True)
    appearance = np.argsort(begin)
    number = np.empty_like(appearance)
    number[appearance] = np.arange(len(keys))
    group = number[which.reshape(-1)]
    parted = np.zeros(len(keys), dtype=np.bool_)
    parted[group[flows.volume != 0]] = True
    sizes: list[Sequence[Fraction]] = [(WHOLE,)] * len(keys)
    plain = np.flatnonzero(~parted[group])
    rows = [np.column_stack((group[plain], np.zeros(len(plain), dtype=np.int64), plain))]  # chunk, piece in it, flow
    for cut in np.flatnonzero(parted).tolist():
        own = np.flatnonzero(group == cut)
        sizes[cut], carried = _cut(flows, own)
        rows.append(np.array([(cut, *piece) for piece in carried], dtype=np.int64).reshape(-1, 3))
    first = np.concatenate(([0], np.cumsum([len(piece) for piece in sizes]))).astype(np.int64)
    table = np.concatenate(rows)
    table = table[np.argsort(table[:, 0], kind="stable")]
    sources, chunks = np.divmod(keys[appearance], 10**9)
    every = tuple(itertools.chain.from_iterable(sizes))
    return WholePieces(sources, chunks, first, every, first[table[:, 0]] + table[:, 1], table[:, 2])


def _cut(flows: ChunkFlows, own: Ints) -> tuple[list[Fraction], list[tuple[int, int]]]:
    """Sizes of the pieces of a chunk of which parts are sent, and rows (piece, flow)."""
    columns = (own, flows.tail[own], flows.head[own], flows.volume[own], flows.epoch[own])
    rows = zip(*(column.tolist() for column in columns), strict=True)
    parts = [(index, tail, head, flows.volumes[volume], epoch) for index, tail, head, volume, epoch in rows]
    taken = _intervals(int(flows.source[own[0]]), parts)
    ends = sorted({end for _, low, high in taken for end in (low, high)} | {Fraction(0), Fraction(1)})
    spans = list(itertools.pairwise(ends))
    carried = [
        (k, flow[0])
        for flow, begin, stop in taken
        for k, (low, high) in enumerate(spans)
        if begin <= low and high <= stop
    ]
    return [high - low for low, high in spans], carried


def _intervals(source: int, flows: Sequence[_PartFlow]) -> list[tuple[_PartFlow, Fraction, Fraction]]:
    """Which part of the chunk each flow takes, low and high end."""
    here: dict[int, list[tuple[Fraction, Fraction, int]]] = {source: [(Fraction(0), Fraction(1), -1)]}
    taken: list[tuple[_PartFlow, Fraction, Fraction]] = []
    for flow in sorted(flows, key=lambda item: item[4]):
        _, tail, head, volume, epoch = flow
        left = min(volume, Fraction(1))
        kept: list[tuple[Fraction, Fraction, int]] = []
        for low, high, since in here.get(tail, ()):
            some = min(left, high - low) if since < epoch else Fraction(0)
            if some:
                taken.append((flow, low, low + some))
                here.setdefault(head, []).append((low, low + some, epoch))
                left -= some
            if low + some < high:
                kept.append((low + some, high, since))
        here[tail] = kept
        if left > Fraction(1, 1000):
            taken.append((flow, Fraction(0), left))
    return taken


FINEST = 10**6
"""Parts of a chunk to which volumes are read."""

MOST_PARTS = 10**9
"""Parts of a chunk in which fractions near to volumes are counted."""

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
    declared: DeclaredFigures
    notes: tuple[str, ...]


def read_schedule(path: Path, options: ScheduleOptions) -> ChunkProgram:
    """A schedule of an AllGather or All-to-All; chunks and switches by the numbers of the file.

    Raises:
        InputError: not such a file.
    """
    file = parsed(path)
    flows, demands = file.flows, file.demands
    switches = {int(name) for switch_names in flows.paths for name in switch_names}
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
    if below > MOST_PARTS:  # decimals as they are written, not the fractions that they are near to
        digits = tuple(Fraction(round(volume * FINEST), FINEST) for volume in flows.volumes)
        pieces, below = whole_pieces(replace(flows, volumes=digits)), FINEST
    owner = np.repeat(np.searchsorted(names, pieces.source), np.diff(pieces.first)).tolist()
    whole = [Piece(int(share * below), (rank,)) for share, rank in zip(pieces.sizes, owner, strict=True)]
    first = add_sends(builder, whole, _sends(builder, flows, pieces, names), timed=True)
    _add_demands(builder, demands, pieces, names, np.array(first, dtype=np.int64))
    share_units = below * _most_chunks(demands)
    return builder.built(path.stem, collective, share_units * len(names), per_share=True, declared=file.declared)


def _sends(builder: ProgramBuilder, flows: ChunkFlows, pieces: WholePieces, names: Ints) -> PieceSends:
    number = pieces.flow
    between = np.isin(flows.tail[number], names) & np.isin(flows.head[number], names)
    number, piece = number[between], pieces.piece[between]
    via = flows.via[number]
    paths = np.array([UNKNOWN] * (len(flows.paths) + 1), dtype=np.int64)
    for path in distinct(via[via >= 0]).tolist():
        paths[path] = builder.path_index(flows.paths[path])
    tail, head = (np.searchsorted(names, end[number]) for end in (flows.tail, flows.head))
    return PieceSends(piece, tail, head, flows.epoch[number], paths[via], number[:, None])


def _add_demands(builder: ProgramBuilder, demands: Ints, pieces: WholePieces, names: Ints, first: Ints) -> None:
    chunk = pieces.source * 10**9 + pieces.chunk
    order = np.argsort(chunk)
    wanted = demands[:, 2] * 10**9 + demands[:, 1]
    index = np.searchsorted(chunk[order], wanted)
    index = np.minimum(index, max(len(chunk) - 1, 0))
    sent = chunk[order][index] == wanted if len(chunk) else np.zeros(len(wanted), dtype=np.bool_)
    for at, number, source in demands[~sent].tolist():
        builder.defect("result", f"chunk {number} of node {source}, due at node {at}, is never sent")
    group = order[index[sent]]
    count = np.diff(pieces.first)[group]
    piece = np.repeat(pieces.first[group] - np.cumsum(count) + count, count) + np.arange(count.sum())
    at, source = (np.repeat(np.searchsorted(names, demands[sent, column]), count) for column in (0, 2))
    builder.required.add(first[at] + piece, piece, source)


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
        declared = _declared_figures(document)
    return TecclFile(flows, demands, declared, notes)


def _flows(lines: list[Any], file: str) -> ChunkFlows:
    texts = list(map(str, lines))

    def refused(index: int) -> InputError:
        return refusal(f"flow {index} cannot be read", file, value=lines[index], allowed=_FLOW.pattern)

    try:
        numbers = number_table(texts, _FLOW, (1, 2, 3, 4, 6))
    except LineError as error:
        raise refused(error.index) from None
    volume, via = np.zeros(len(texts), dtype=np.int64), np.full(len(texts), UNKNOWN, dtype=np.int64)
    volumes, paths = {WHOLE: 0}, dict[tuple[str, ...], int]()
    for index, text in enumerate(texts):
        if " volume " not in text and " via " not in text:
            continue
        match = _FLOW.fullmatch(text)
        part = WHOLE if match is None or match[5] is None else _volume(match[5])
        if match is None or part is None:
            raise refused(index)
        volume[index] = volumes.setdefault(part, len(volumes))
        if switches := tuple(_NUMBER.findall(match[7] or "")):
            via[index] = paths.setdefault(switches, len(paths))
    chunk, source, tail, head, epoch = numbers.T
    return ChunkFlows(chunk, source, tail, head, epoch, volume, via, tuple(volumes), tuple(paths))


def _volume(text: str) -> Fraction | None:
    """Part of a chunk, rounded as files round; None beyond any sense."""
    volume = Fraction(text)
    near = volume.limit_denominator(10_000)
    if abs(near - volume) * FINEST > Fraction(1, 2):  # no such fraction, written with as many digits as files have
        near = Fraction(round(volume * FINEST), FINEST)
    return near if 0 < near <= 10**6 else None


def _demands(document: Mapping[str, Any], file: str) -> Ints:
    listed = next((document[key] for key in ("8-Chunk paths", "7-chunk paths") if key in document), None)
    if isinstance(listed, dict):
        texts = list(listed)
        try:
            rows = number_table(texts, _DEMAND, (1, 2, 3))
        except LineError as error:
            text = texts[error.index]
            raise refusal("a demand cannot be read", file, value=text, allowed=_DEMAND.pattern) from None
    else:
        met = document.get("6-Demand_Met")
        if not isinstance(met, dict):
            raise refusal("no demands", file, allowed="8-Chunk paths or 6-Demand_Met")
        demands = [
            (at, chunk, source) for at, sources in met.items() for source in sources for chunk in sources[source]
        ]
        read = [[_numbered(text) for text in texts] for texts in demands]
        rows = np.array(read, dtype=np.int64).reshape(-1, 3)
    return _rows_once(rows)


def _numbered(text: str) -> int:
    """The number of `GPU 3` or `Chunk 0`."""
    match = re.fullmatch(r"(?:GPU|Chunk) (\d{1,9})", text)
    if match is None:
        raise ValueError(f"{text!r} is no GPU or chunk with its number")
    return int(match[1])


def _rows_once(rows: Ints) -> Ints:
    ordered = rows[np.lexsort(rows.T[::-1])]
    fresh = np.ones(len(ordered), dtype=np.bool_)
    fresh[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return ordered[fresh]


def _declared_figures(document: Mapping[str, Any]) -> DeclaredFigures:
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


NDV2 = (
    (0, 1, 2), (0, 2, 1), (0, 3, 1), (0, 4, 2), (1, 2, 1), (1, 3, 2), (1, 5, 1), (2, 3, 2), (2, 6, 2), (3, 7, 1),
    (4, 5, 2), (4, 6, 1), (4, 7, 1), (5, 6, 1), (5, 7, 2), (6, 7, 2),
)  # fmt: skip
"""NVLinks (25 GB/s) of a chassis and of its DGX1 in the numbering of TE-CCL, not that of a DGX-1: ends, number."""

Row = tuple[int, int, float]


PeerMachine = tuple[list[Row], int, tuple[int, ...], float]
"""Links (tail, head, GB/s), number of nodes, which are switches, and the least latency of a link, us."""


def _both(rows: list[Row]) -> list[Row]:
    return rows + [(head, tail, rate) for tail, head, rate in rows]


def _ndv2(chassis: int, side: int) -> PeerMachine:
    """Two chassis: links 0 -> 9 and 8 -> 1; more: a switch 0 that GPU 0 of each sends to and GPU 1 receives from."""
    first = 0 if chassis <= 2 else 1
    inside = [
        (first + 8 * box + near, first + 8 * box + other, 25.0 * count)
        for box in range(chassis)
        for near, other, count in NDV2
    ]
    rows = _both(inside)
    if chassis == 2:
        rows += [(0, 9, 12.5), (8, 1, 12.5)]
    elif chassis > 2:
        rows += [row for box in range(chassis) for row in ((8 * box + 1, 0, 12.5), (0, 8 * box + 2, 12.5))]
    return rows, 8 * chassis + first, (0,) if first else (), 0.7


def _dgx1(chassis: int, side: int) -> PeerMachine:
    """One box whatever is asked for, with the same NVLinks as a chassis of NDv2."""
    return _both([(near, other, 25.0 * count) for near, other, count in NDV2]), 8, (), 0.0


def _dgx2(chassis: int, side: int) -> PeerMachine:
    """Two chassis whatever is asked for: NVSwitches 0 and 17, odd GPUs to even ones of the other."""
    rows = _both([(17 * box + 1 + gpu, 17 * box, 125.0) for box in range(2) for gpu in range(16)])
    rows += [(17 * box + 2 + 2 * k, 17 * (1 - box) + 1 + 2 * k, 12.5) for box in range(2) for k in range(8)]
    return rows, 34, (0, 17), 0.35


def _amd(chassis: int, side: int) -> PeerMachine:
    """Sixteen dies a chassis; several: a leaf switch for every two, all at a spine, which is node 0."""
    if chassis == 1:
        return _both([(near, other, 50.0 * count) for near, other, count in MI250]), 16, (), 0.0
    rows: list[Row] = []
    leaves = []
    for box in range(chassis):
        first = 1 + 24 * box
        rows += [(first + near, first + other, 50.0 * count) for near, other, count in MI250]
        for pair in range(8):
            leaf = first + 16 + pair
            leaves.append(leaf)
            rows += [(first + 2 * pair, leaf, 25.0), (first + 2 * pair + 1, leaf, 25.0), (leaf, 0, 25.0)]
    return _both(rows), 1 + 24 * chassis, (0, *leaves), 0.0


def _mesh(chassis: int, side: int) -> PeerMachine:
    """A square without links across the ends of rows."""
    across = [(side * i + j, side * i + j + 1, 100.0) for i in range(side) for j in range(side - 1)]
    down = [(side * i + j, side * (i + 1) + j, 100.0) for i in range(side - 1) for j in range(side)]
    return _both([*across, *down]), side * side, (), 0.0


MACHINES: Mapping[str, Callable[[int, int], PeerMachine]] = {
    "DGX1": _dgx1,
    "NDv2": _ndv2,
    "DGX2": _dgx2,
    "AMD": _amd,
    "Mesh": _mesh,
}
"""Name -> network of so many chassis; of a mesh, nodes a side."""

FIXED_CHASSIS: Mapping[str, int] = {"DGX1": 1, "DGX2": 2, "Mesh": 1}
"""Those that are of so many chassis whatever is asked for."""


INPUT = "an input of TE-CCL (JSON with TopologyParams and InstanceParams)"
COLLECTIVES = {1: CollectiveOp.ALLGATHER, 2: CollectiveOp.ALL_TO_ALL}
INPUT_FIELDS: FieldTable = {
    "TopologyParams.name": ("used", "DGX1, NDv2, DGX2, AMD or Mesh"),
    "TopologyParams.chassis": ("used", "how many; refused where the network is always of another number"),
    "TopologyParams.chunk_size": ("used", "GB of a chunk"),
    "TopologyParams.alpha[]": ("used", "latency of links and of links at switches, seconds: the least of them"),
    "TopologyParams.side_length": ("used", "nodes a side of a Mesh; noted for others"),
    "GurobiParams": ("noted", "settings of the solver of TE-CCL"),
    "InstanceParams.collective": ("used", "1 allgather, 2 all-to-all"),
    "InstanceParams.num_chunks": ("used", "chunks from each node to each other"),
    "InstanceParams.switch_copy": ("used", "whether switches copy; where there are switches"),
    "InstanceParams.switch_to_gpu_link_on": ("noted", "whether links from switches take time; here they do"),
    "InstanceParams.epoch_type": ("noted", "how TE-CCL cuts time; instances do not"),
    "InstanceParams.epoch_duration": ("noted", "how TE-CCL cuts time"),
    "InstanceParams.epoch_multiplier": ("noted", "how TE-CCL cuts time"),
    "InstanceParams.num_epochs": ("noted", "how TE-CCL cuts time"),
    "InstanceParams.epsilon": ("noted", "of the objective of TE-CCL"),
    "InstanceParams.alpha_threshold": ("noted", "below which TE-CCL takes latencies for none"),
    "InstanceParams.alpha_epoch_duration_ratio_max": ("noted", "how TE-CCL cuts time"),
    "InstanceParams.objective_type": ("noted", "of the program of TE-CCL"),
    "InstanceParams.solution_method": ("noted", "of the solver of TE-CCL"),
    "InstanceParams.symmetry": ("noted", "constraint on the flows of TE-CCL"),
    "InstanceParams.warmstart": ("noted", "file to start from"),
    "InstanceParams.debug": ("noted", "output of TE-CCL"),
    "InstanceParams.debug_output_file": ("noted", "output of TE-CCL"),
    "InstanceParams.schedule_output_file": ("noted", "output of TE-CCL"),
    "InstanceParams.lower": ("noted", "output of TE-CCL"),
    "InstanceParams.lower_xml": ("noted", "output of TE-CCL"),
}
MOST_CHASSIS = 256
MOST_SIDE = 64


def import_input(
    file: Annotated[Path, typer.Argument(help="Input of TE-CCL (JSON).")], name: NameOption = None
) -> Imported:
    """An input of TE-CCL as an instance; nodes are numbered as there, so that its schedules can be audited on it."""
    document, lines = read_object(file, INPUT)
    if not {"TopologyParams", "InstanceParams"} <= document.keys():
        raise refusal(f"not {INPUT}", str(file), allowed="TopologyParams, InstanceParams")
    notes = list(notes_of(lines, INPUT_FIELDS, _chassis_issues(document["TopologyParams"])))
    with parsing(str(file), INPUT):
        topology, instance = document["TopologyParams"], document["InstanceParams"]
        machine = str(topology["name"])
        if machine not in MACHINES:
            allowed = nearest_text(machine, MACHINES)
            raise refusal("no such network", str(file), value=value_text(machine), allowed=allowed)
        chassis = _whole(topology.get("chassis", 1), MOST_CHASSIS)
        side = _whole(topology.get("side_length", 4), MOST_SIDE) if machine == "Mesh" else 1
        links, nodes, switches, least_us = MACHINES[machine](chassis, side)
        ranks = nodes - len(switches)
        chunks = _whole(instance.get("num_chunks", 1), 10**6)
        size = round(float(topology["chunk_size"]) * 1e9 * chunks * ranks)
        number = instance["collective"]
        if number not in COLLECTIVES:
            raise refusal(
                "no such collective", str(file), value=value_text(number), allowed="1 allgather, 2 all-to-all"
            )
        latency = _latency_us(topology, least_us)
    section = {"links": [list(row) for row in links], "nodes": nodes, "switches": list(switches)}
    more = {"switches": {"multicast": True}} if switches and instance.get("switch_copy") else {}
    imported = collective_document(
        name or name_of(file), section, COLLECTIVES[number], size, latency_us={"link": latency, "message": 0.0}, **more
    )
    if machine != "Mesh" and "side_length" in topology:
        notes.append(f"not used: TopologyParams.side_length, which {machine} does not have")
    if not switches and "switch_copy" in instance:
        notes.append(f"not used: InstanceParams.switch_copy, as {machine} has no switches here")
    alphas = topology.get("alpha") or ()
    if len({float(alpha) for alpha in alphas}) > 1:
        shown = ", ".join(f"{float(alpha):g}" for alpha in alphas)
        notes.append(f"TopologyParams.alpha ({shown} s): the least is taken for every link, so that bounds hold")
    elif not alphas:
        notes.append(
            f"the file states no alpha: {machine} is taken with the least of its latencies, so that bounds hold"
        )
    figures = {"collective": COLLECTIVES[number].value, "ranks": ranks, "links": len(links)}
    return Imported(imported, f"{figures['collective']} of {ranks} ranks on {machine}", figures, tuple(notes))


def _chassis_issues(topology: object) -> list[Issue]:
    """A number of chassis that a network of TE-CCL does not heed."""
    given = topology if isinstance(topology, dict) else {}
    machine, chassis = str(given.get("name")), given.get("chassis")
    allowed = FIXED_CHASSIS.get(machine)
    if allowed is None or chassis is None or chassis == allowed:
        return []
    text = f"{machine} of TE-CCL is always of one size"
    return [Issue(("TopologyParams", "chassis"), text, value_text(chassis), str(allowed))]


def _whole(value: object, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ValueError(f"{value!r} is no whole number from 1 to {most}")
    return value


def _latency_us(topology: Mapping[str, Any], default: float) -> float:
    given = [float(alpha) for alpha in topology.get("alpha") or ()]
    least = min(given) * 1e6 if given else default
    if not 0 <= least <= 1e6:
        raise ValueError(f"{least} us is no latency")
    return least


IMPORTER: Importer = import_input
