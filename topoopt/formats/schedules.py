"""Schedules of collectives in the formats of others are read to programs by a table of readers. Programs are built of
actions as a reader meets them, or of sends of whole pieces at stated times. Schedules in files of other tools as
instances: the same collective over the links that they use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from topoopt.core.arrays import MIB, Bools, Ints, distinct
from topoopt.core.collective import (
    ALL_RANKS,
    UNKNOWN,
    CellRange,
    ChunkProgram,
    CollectiveOp,
    DeclaredFigures,
    Defect,
    Messages,
)
from topoopt.core.errors import InputError, Problem
from topoopt.core.process import PlugIns
from topoopt.core.rated_network import RatedNetwork
from topoopt.files.documents import Document, parse_json
from topoopt.files.issues import value_text
from topoopt.files.untrusted import parsing, read_text, refusal
from topoopt.formats.table import Imported, Importer, NameOption, name_of, require_positive

MAX_FILE_BYTES = 512 * MIB
MAX_NODES = 30_000_000
MOST_CELLS = 20_000_000
MOST_ACTIONS = 4_000_000
MOST_RANKS = 8192
MOST_SHOWN = 5


def read_object(path: Path, what: str) -> tuple[dict[str, Any], Document]:
    """Plain data of a file, and the file as a document, which knows their lines.

    Raises:
        InputError: no such file, too large, broken, no object at its top.
    """
    text = read_text(path, MAX_FILE_BYTES, what)
    with parsing(str(path), what):
        read = parse_json(text, MAX_NODES)
    if read.issues:
        problems = [
            Problem(issue.message, str(path), issue.line, None, issue.value, issue.allowed)
            for issue in read.issues[:20]
        ]
        raise InputError(problems)
    if not isinstance(read.data, dict):
        raise refusal(f"not {what}", str(path), allowed="an object at the top")
    return read.data, replace(read, file=str(path))


@dataclass(frozen=True)
class ScheduleOptions:
    """What a file may not say.

    Attributes:
        collective: None: as the file says.
        root: rank of a broadcast or a reduction.
    """

    collective: CollectiveOp | None = None
    root: int = 0


ScheduleReader = Callable[[Path, ScheduleOptions], ChunkProgram]
"""Raises InputError: not such a file. What is wrong with the schedule itself stands in the program."""


def no_collective(file: str, value: object) -> InputError:
    """An error about a file that does not say what it is to do."""
    allowed = "one of allreduce, allgather, reduce-scatter, all-to-all, broadcast, reduce, by --collective"
    missing = "the file names no collective" if value is not None else "the file names no collective: coll is missing"
    return refusal(missing, file, value=value, allowed=allowed)


SHARED = frozenset({CollectiveOp.ALLGATHER, CollectiveOp.REDUCE_SCATTER, CollectiveOp.ALL_TO_ALL})
"""Those whose vector has an equal share of every rank."""

NAMES = {
    "allreduce": CollectiveOp.ALLREDUCE,
    "allgather": CollectiveOp.ALLGATHER,
    "reducescatter": CollectiveOp.REDUCE_SCATTER,
    "alltoall": CollectiveOp.ALL_TO_ALL,
    "broadcast": CollectiveOp.BROADCAST,
    "reduce": CollectiveOp.REDUCE,
}


def collective_named(text: str) -> CollectiveOp | None:
    """The collective that a name of any spelling means: all_gather, AllGather, all-gather(n=8)."""
    plain = "".join(letter for letter in text.partition("(")[0].lower() if letter.isalpha())
    return NAMES.get(plain)


def parameters_of(text: str) -> dict[str, str]:
    """Parameters in a name such as Broadcast(n=8,root=0)."""
    rows = [
        parameter.partition("=")
        for parameter in text.partition("(")[2].removesuffix(")").split(",")
        if parameter.strip()
    ]
    return {key.strip(): value.strip() for key, _, value in rows}


def inputs(collective: CollectiveOp, ranks: int, chunks: int, root: int) -> Iterator[tuple[int, int, int]]:
    """Rows (rank, chunk of its input, label); `chunks` of the whole vector, in an All-to-All of that of each rank."""
    share = chunks // ranks
    for rank in range(ranks):
        if collective is CollectiveOp.ALLGATHER:
            yield from ((rank, chunk, rank * share + chunk) for chunk in range(share))
        elif collective is CollectiveOp.ALL_TO_ALL:
            yield from ((rank, chunk, rank * chunks + chunk) for chunk in range(chunks))
        elif collective is not CollectiveOp.BROADCAST or rank == root:
            yield from ((rank, chunk, chunk) for chunk in range(chunks))


def outputs(collective: CollectiveOp, ranks: int, chunks: int, root: int) -> Iterator[tuple[int, int, int, int]]:
    """Rows (rank, chunk of its output, label, whose part or ALL_RANKS)."""
    share = chunks // ranks
    for rank in range(ranks):
        if collective is CollectiveOp.ALLGATHER:
            yield from ((rank, chunk, chunk, chunk // share) for chunk in range(chunks))
        elif collective is CollectiveOp.ALL_TO_ALL:
            for source in range(ranks):
                first = source * chunks + rank * share
                yield from ((rank, source * share + own, first + own, source) for own in range(share))
        elif collective is CollectiveOp.REDUCE_SCATTER:
            yield from ((rank, chunk, rank * share + chunk, ALL_RANKS) for chunk in range(share))
        elif collective is CollectiveOp.ALLREDUCE:
            yield from ((rank, chunk, chunk, ALL_RANKS) for chunk in range(chunks))
        elif collective is CollectiveOp.BROADCAST:
            yield from ((rank, chunk, chunk, root) for chunk in range(chunks))
        elif rank == root:
            yield from ((rank, chunk, chunk, ALL_RANKS) for chunk in range(chunks))


SCHEDULES: Mapping[str, ScheduleReader] = PlugIns(
    {
        "msccl": "topoopt.formats.msccl:read_schedule",
        "mscclpp": "topoopt.formats.mscclpp:read_schedule",
        "teccl": "topoopt.formats.teccl:read_schedule",
        "forestcoll": "topoopt.formats.sccl:read_trees",
        "sccl": "topoopt.formats.sccl:read_schedule",
        "chakra": "topoopt.formats.chakra.read:read_schedule",
    }
)
"""The formats of `topoopt collective audit`."""


MOST_DIGITS = 9
AT_ONCE = 10_000
"""Lines whose letters stay in the cache of a processor."""


class LineError(ValueError):
    """A line that does not match."""

    def __init__(self, index: int) -> None:
        super().__init__(f"line {index}")
        self.index = index


def number_table(lines: Sequence[str], pattern: re.Pattern[str], groups: Sequence[int]) -> Ints:
    """int64[lines, groups], the numbers in groups of a pattern.

    Args:
        pattern: for whole lines; each of the groups is a run of up to nine digits, and no other part of the pattern
            asks for certain digits.

    Raises:
        LineError: the first line that is of no such form.
    """
    tables = [np.zeros((0, len(groups)), dtype=np.int64)]
    for begin in range(0, len(lines), AT_ONCE):
        try:
            tables.append(_part_table(lines[begin : begin + AT_ONCE], pattern, groups))
        except LineError as error:
            raise LineError(begin + error.index) from None
    return np.concatenate(tables)


def _part_table(lines: Sequence[str], pattern: re.Pattern[str], groups: Sequence[int]) -> Ints:
    separator = next((index for index, line in enumerate(lines) if "\0" in line), None)
    if separator is not None:
        raise LineError(separator)
    letters = np.frombuffer("\0".join(lines).encode("ascii", "replace"), dtype=np.uint8)
    digit = (letters - ord("0")) < 10  # unsigned: what is below becomes large
    edges = np.flatnonzero(np.diff(digit, prepend=False, append=False))
    first, last = edges[::2], edges[1::2]
    digits = last - first
    shapes = _shapes(letters, digit, first)
    numbers = {shape: number for number, shape in enumerate(dict.fromkeys(shapes))}
    tables = [_places(pattern.fullmatch(shape), shape, groups) for shape in numbers]
    rows = np.array(tables, dtype=np.int64)[np.fromiter(map(numbers.__getitem__, shapes), np.int64, len(shapes))]
    wrong = rows[:, 0] < 0
    ends = np.concatenate(([0], np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)) + 1)[:-1]))
    index = np.where(wrong[:, None], 0, np.searchsorted(first, ends)[:, None] + rows)
    if not len(digits):
        raise LineError(0)
    wrong |= (digits[index] > MOST_DIGITS).any(axis=1)
    if wrong.any():
        raise LineError(int(np.argmax(wrong)))
    return _values(letters, digit)[index]


def _shapes(letters: NDArray[np.uint8], digit: Bools, first: Ints) -> list[str]:
    kept = ~digit
    kept[first] = True
    zeros = letters.copy()
    zeros[first] = ord("0")
    return zeros[kept].tobytes().decode("ascii").split("\0")


def _places(match: re.Match[str] | None, shape: str, groups: Sequence[int]) -> tuple[int, ...]:
    return tuple(-1 if match is None else shape.count("0", 0, match.start(group)) for group in groups)


def _values(letters: NDArray[np.uint8], digit: Bools) -> Ints:
    """Value of every run of digits; of those with more than 18 any."""
    spaced = np.where(digit, letters, np.uint8(ord(" ")))
    return np.fromstring(spaced.tobytes(), dtype=np.int64, sep=" ")


Row = tuple[int, ...]


class RowStore:
    """Rows of one width, in the order in which they are added."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._tables: list[Ints] = []
        self._before = 0
        self._single: list[Row] = []

    def append(self, row: Row) -> None:
        self._single.append(row)

    def extend(self, rows: Iterable[Row]) -> None:
        self._single.extend(rows)

    def add(self, *columns: Ints | int) -> None:
        """Many, by their columns; a number stands for a column of it."""
        rows = np.column_stack(np.broadcast_arrays(*columns)).astype(np.int64, copy=False)
        self._tables = [self.table(), rows]
        self._before += len(self._single) + len(rows)
        self._single = []

    def __len__(self) -> int:
        return self._before + len(self._single)

    def __getitem__(self, number: int) -> Row:
        if number >= self._before:
            return self._single[number - self._before]
        return tuple(self.table()[number].tolist())

    def __iter__(self) -> Iterator[Row]:
        yield from map(tuple, self.table().tolist())

    def table(self) -> Ints:
        """int64[rows, width]."""
        single = np.array(self._single, dtype=np.int64).reshape(-1, self._width)
        return np.concatenate((*self._tables, single))


ChunkCells = Callable[[int, str, int], int | None]
"""Cell of a chunk of a buffer (i, o or s) of a rank; None where there is no such chunk."""


@dataclass
class ProgramBuilder:
    """Actions, cells and messages, until all are there; rows as `ChunkProgram` and `Messages` have them.

    Attributes:
        actions: rows (rank that executes it, its chain, place in the file ...).
    """

    file: str
    ranks: tuple[str, ...]
    place_words: tuple[str, ...]
    buffers: list[CellRange] = field(default_factory=list)
    actions: RowStore = field(init=False)
    moves: RowStore = field(default_factory=lambda: RowStore(3))
    edges: RowStore = field(default_factory=lambda: RowStore(2))
    sent: RowStore = field(default_factory=lambda: RowStore(7))
    paths: dict[tuple[str, ...], int] = field(default_factory=dict)
    start: RowStore = field(default_factory=lambda: RowStore(3))
    required: RowStore = field(default_factory=lambda: RowStore(3))
    defects: list[Defect] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cells: int = 0
    _defect_counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.actions = RowStore(2 + len(self.place_words))

    def buffer(self, rank: int, name: str, count: int) -> int:
        """A new buffer; its first cell.

        Raises:
            InputError: too many cells.
        """
        first = self.cells
        self.cells += count
        if self.cells > MOST_CELLS:
            raise refusal("too many pieces", self.file, value=self.cells, allowed=f"at most {MOST_CELLS}")
        if count:
            self.buffers.append((rank, name, first, count))
        return first

    def begin(self, cell: ChunkCells, collective: CollectiveOp, chunks: int, root: int) -> None:
        """What every rank has at the start."""
        for rank, chunk, label in inputs(collective, len(self.ranks), chunks, root):
            if (here := cell(rank, "i", chunk)) is None:
                self.defect("range", f"rank {rank} has no chunk {chunk} of its input")
            else:
                self.start.append((here, label, root if collective is CollectiveOp.BROADCAST else rank))

    def end(self, cell: ChunkCells, collective: CollectiveOp, chunks: int, root: int) -> None:
        """What every rank must have in the end."""
        for rank, chunk, label, whose in outputs(collective, len(self.ranks), chunks, root):
            if (here := cell(rank, "o", chunk)) is None:
                self.defect("range", f"rank {rank} has no chunk {chunk} of its output")
            else:
                self.required.append((here, label, whose))

    def action(self, location: tuple[int, ...], home: int, chain: int) -> int:
        """A new action.

        Raises:
            InputError: too many.
        """
        if len(self.actions) >= MOST_ACTIONS:
            raise refusal("too many actions", self.file, allowed=f"at most {MOST_ACTIONS}")
        self.actions.append((home, chain, *location))
        return len(self.actions) - 1

    def single_action(self, location: tuple[int, ...], home: int) -> int:
        """A new action that is a chain of its own.

        Raises:
            InputError: too many.
        """
        return self.action(location, home, -1 - len(self.actions))

    def single_actions(self, places: Ints, homes: Ints) -> int:
        """New actions, each a chain of its own; the number of the first.

        Args:
            places: int64[k, p]; homes: int64[k].

        Raises:
            InputError: too many.
        """
        first = len(self.actions)
        if first + len(places) > MOST_ACTIONS:
            raise refusal("too many actions", self.file, allowed=f"at most {MOST_ACTIONS}")
        self.actions.add(homes, -1 - first - np.arange(len(places)), *places.T)
        return first

    def location(self, action: int) -> tuple[int, ...]:
        """Where an action stands in the file."""
        return self.actions[action][2:]

    def path_index(self, via: tuple[str, ...]) -> int:
        return self.paths.setdefault(via, len(self.paths))

    def message(
        self,
        action: int,
        tail: int,
        head: int,
        units: int,
        *,
        piece: int,
        epoch: int = UNKNOWN,
        via: tuple[str, ...] | None = None,
    ) -> None:
        path = UNKNOWN if via is None else self.path_index(via)
        self.sent.append((action, tail, head, units, epoch, piece, path))

    def defect(self, law: str, message: str) -> None:
        """Something wrong; of many of one law the first few are kept."""
        self._defect_counts[law] = self._defect_counts.get(law, 0) + 1
        if self._defect_counts[law] <= MOST_SHOWN:
            self.defects.append(Defect(law, message))

    def built(
        self,
        name: str,
        collective: CollectiveOp,
        vector_units: int,
        *,
        per_share: bool,
        declared: DeclaredFigures | None = None,
        topology: RatedNetwork | None = None,
        exact: bool = True,
    ) -> ChunkProgram:
        hidden = [(law, count - MOST_SHOWN) for law, count in self._defect_counts.items() if count > MOST_SHOWN]
        sent, moves, actions = self.sent.table(), self.moves.table(), self.actions.table()
        narrow = [sent[:, column].astype(np.int32) for column in (1, 2, 4, 6)]
        return ChunkProgram(
            name,
            collective,
            self.ranks,
            vector_units,
            per_share,
            tuple(self.buffers),
            self.start.table(),
            self.required.table(),
            self.place_words,
            actions[:, 2:].astype(np.int32),
            actions[:, 1].copy(),
            actions[:, 0].astype(np.int32),
            moves[np.argsort(moves[:, 0], kind="stable")],
            _different(self.edges.table(), len(actions)),
            Messages(sent[:, 0], narrow[0], narrow[1], sent[:, 3], narrow[2], sent[:, 5], narrow[3]),
            tuple(self.paths),
            declared or DeclaredFigures(),
            (*self.defects, *(Defect(law, f"{count} more of the kind") for law, count in hidden)),
            tuple(dict.fromkeys(self.notes)),
            topology,
            exact,
        )


def _different(edges: Ints, actions: int) -> Ints:
    return np.column_stack(np.divmod(distinct(edges[:, 0] * max(actions, 1) + edges[:, 1]), max(actions, 1)))


NOBODY, BEFORE = -2, -1
"""Which send brought a piece to a rank: none, or it was there before."""


@dataclass(frozen=True)
class Piece:
    """What is sent whole: its size, and the ranks that have (a part of) it before."""

    units: int
    holders: tuple[int, ...]
    summed: bool = False


@dataclass(frozen=True, eq=False)
class PieceSends:
    """Sends of pieces, int64[k] each.

    Attributes:
        piece, tail, head: what is sent, from which rank to which.
        epoch: when it starts.
        way: through which switches, a number of the builder; UNKNOWN: not stated.
        places: int64[k, p], where each stands in the file.
    """

    piece: Ints
    tail: Ints
    head: Ints
    epoch: Ints
    path: Ints
    places: Ints

    @classmethod
    def of_rows(cls, rows: Sequence[Row], words: int) -> PieceSends:
        """Of rows (piece, tail, head, epoch, way, place ...), a place of so many numbers."""
        table = np.array(rows, dtype=np.int64).reshape(-1, 5 + words)
        piece, tail, head, epoch, path = table[:, :5].T
        return cls(piece, tail, head, epoch, path, table[:, 5:])

    def taken(self, order: Ints) -> PieceSends:
        """Those of some numbers, in that order."""
        return PieceSends(*(getattr(self, name)[order] for name in self.__dataclass_fields__))


class _Held(NamedTuple):
    """What a rank has of a piece: the parts of which ranks, and the actions that brought them."""

    parts: int
    brought: tuple[int, ...] = ()


def add_sends(builder: ProgramBuilder, pieces: Sequence[Piece], sends: PieceSends, *, timed: bool) -> list[int]:
    """Put pieces and sends into a program; of each rank the cell of its first piece, the others follow.

    Args:
        timed: whether epochs are times; otherwise they only say what comes first.
    """
    count = len(pieces)
    first = [builder.buffer(rank, "piece", count) for rank in range(len(builder.ranks))]
    holders = [
        (first[rank] + number, number, rank if piece.summed else piece.holders[0])
        for number, piece in enumerate(pieces)
        for rank in piece.holders
    ]
    builder.start.extend(holders)
    ordered = sends.taken(np.argsort(sends.epoch, kind="stable"))
    units = np.array([piece.units for piece in pieces], dtype=np.int64)[ordered.piece]
    if any(piece.summed for piece in pieces):
        held = {cell: _Held(1 << owner) for cell, _, owner in holders}
        again = _sums(builder, pieces, ordered, units, held, first, timed=timed)
    else:
        again = _copies(builder, ordered, units, [cell for cell, _, _ in holders], first, timed=timed)
    if again:
        builder.notes.append(f"{again} sends bring what is there already")
    return first


def _copies(
    builder: ProgramBuilder, sends: PieceSends, units: Ints, filled: Sequence[int], first: Sequence[int], *, timed: bool
) -> int:
    base = builder.single_actions(sends.places, sends.tail)
    action = base + np.arange(len(sends.piece))
    epochs = sends.epoch if timed else UNKNOWN
    builder.sent.add(action, sends.tail, sends.head, units, epochs, sends.piece, sends.path)
    cells = np.array(first, dtype=np.int64)
    source, target = cells[sends.tail] + sends.piece, cells[sends.head] + sends.piece
    fills, brought = _first_fills(source, target, sends.epoch, filled, builder.cells)
    builder.moves.add(action[fills], target[fills], source[fills])
    builder.edges.add(action[brought >= 0], base + brought[brought >= 0])
    for k in np.flatnonzero(brought == NOBODY).tolist():
        _sent_too_early(builder, sends.places[k].tolist(), int(sends.piece[k]), int(sends.tail[k]))
    return len(sends.piece) - len(fills) - int((brought == NOBODY).sum())


def _first_fills(source: Ints, target: Ints, epoch: Ints, filled: Sequence[int], cells: int) -> tuple[Ints, Ints]:
    """Which sends fill a cell first, and int64[k] the send that each has its piece from, BEFORE or NOBODY."""
    holds = [NOBODY] * cells
    for cell in filled:
        holds[cell] = BEFORE
    epochs = epoch.tolist()
    fills, brought = [], []
    for number, (tail, head, now) in enumerate(zip(source.tolist(), target.tolist(), epochs, strict=True)):
        came = holds[tail]
        if came >= 0 and epochs[came] >= now:
            came = NOBODY
        brought.append(came)
        if came != NOBODY and holds[head] == NOBODY:
            holds[head] = number
            fills.append(number)
    return np.array(fills, dtype=np.int64), np.array(brought, dtype=np.int64)


def _sent_too_early(builder: ProgramBuilder, location: Sequence[int], piece: int, tail: int) -> None:
    where = ", ".join(f"{word} {at}" for word, at in zip(builder.place_words, location, strict=True))
    builder.defect("causality", f"{where} sends piece {piece} from rank {builder.ranks[tail]}, which has it not yet")


def _sums(
    builder: ProgramBuilder,
    pieces: Sequence[Piece],
    sends: PieceSends,
    units: Ints,
    held: dict[int, _Held],
    first: Sequence[int],
    *,
    timed: bool,
) -> int:
    """Sends in order of their epochs where pieces are summed; how many bring nothing new."""
    columns = (sends.piece, sends.tail, sends.head, sends.epoch, sends.path, units)
    rows = list(zip(*(column.tolist() for column in columns), map(tuple, sends.places.tolist()), strict=True))
    again = low = 0
    while low < len(rows):
        high = low
        while high < len(rows) and rows[high][3] == rows[low][3]:
            high += 1
        again += _epoch(builder, pieces, rows[low:high], held, first, timed=timed)
        low = high
    return again


def _epoch(
    builder: ProgramBuilder,
    pieces: Sequence[Piece],
    rows: Sequence[tuple[int, int, int, int, int, int, Row]],
    held: dict[int, _Held],
    first: Sequence[int],
    *,
    timed: bool,
) -> int:
    coming: list[tuple[int, int, int, int, Row, _Held]] = []
    readers: dict[int, list[int]] = {}
    for piece, tail, head, epoch, path, units, row_index in rows:
        action = builder.single_action(row_index, tail)
        origin, cell = first[tail] + piece, first[head] + piece
        source = held.get(origin, _Held(0))
        builder.edges.extend((action, action_before) for action_before in source.brought)
        builder.sent.append((action, tail, head, units, epoch if timed else UNKNOWN, piece, path))
        readers.setdefault(origin, []).append(action)
        coming.append((piece, action, origin, cell, row_index, source))
    again = 0
    for (piece, tail, head, *_), (_, action, origin, cell, row_index, source) in zip(rows, coming, strict=True):
        there = held.get(cell, _Held(0))
        if source.parts and source.parts | there.parts == there.parts and not pieces[piece].summed:
            again += 1
            continue
        if not source.parts:
            _sent_too_early(builder, row_index, piece, tail)
            continue
        if not pieces[piece].summed:
            builder.moves.append((action, cell, origin))
            held[cell] = _Held(source.parts, (action,))
            continue
        adds = there.parts & ~source.parts != 0
        taken = builder.single_action(row_index, head)
        between = builder.buffer(head, "message", 1)
        builder.moves.extend(((action, between, origin), (taken, cell, between)))
        if adds:
            builder.moves.append((taken, cell, cell))
        builder.edges.extend(
            (taken, action_before)
            for action_before in (action, *there.brought, *readers.get(cell, ()))
            if action_before != taken
        )
        held[cell] = _Held(there.parts | source.parts, (taken,))
    return again


FileArgument = Annotated[Path, typer.Argument(help="File of the schedule; a folder or prefix of .et files.")]
RateOption = Annotated[float, typer.Option(help="Gbit/s of every link, which the file does not say.")]
BytesOption = Annotated[int, typer.Option("--bytes", min=1, help="The whole vector, which the file does not say.")]
CollectiveOption = Annotated[str | None, typer.Option(help="Where the file does not say.")]
RootOption = Annotated[int, typer.Option(min=0, help="Rank of a broadcast or reduction.")]


def collective_document(
    name: str, topology: dict[str, Any], collective: CollectiveOp, vector_bytes: int, **more: Any
) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "kind": "collective",
        "name": name,
        "topology": topology,
        "collective": collective.value,
        "bytes": vector_bytes,
        **more,
    }


def _importer(reader: str, what: str) -> Importer:
    def run(
        file: FileArgument,
        link_gbps: RateOption = 8.0,
        vector_bytes: BytesOption = 1 << 30,
        collective: CollectiveOption = None,
        root: RootOption = 0,
        name: NameOption = None,
    ) -> Imported:
        require_positive("--link-gbps", link_gbps)
        wanted = None if collective is None else collective_named(collective)
        if collective is not None and wanted is None:
            raise refusal("no such collective", "--collective", value=value_text(collective))
        program = SCHEDULES[reader](file, ScheduleOptions(wanted, root))
        return _imported(program, name or name_of(file), link_gbps / 8, vector_bytes, root, str(file))

    run.__doc__ = f"{what} as an instance: the same collective over the links that it uses."
    return run


def _imported(
    program: ChunkProgram, name: str, link_gbytes_per_s: float, vector_bytes: int, root: int, file: str
) -> Imported:
    pairs = sorted(set(zip(program.messages.tail.tolist(), program.messages.head.tolist(), strict=True)))
    if not pairs:
        raise refusal("a schedule that sends nothing", file)
    ranks = len(program.ranks)
    topology = {"links": [[*pair, link_gbytes_per_s] for pair in pairs], "nodes": ranks}
    single = program.collective in (CollectiveOp.BROADCAST, CollectiveOp.REDUCE)
    more = {"root": root} if single else {}
    size = int(program.declared.vector_bytes or vector_bytes)
    document = collective_document(name, topology, program.collective, size, **more)
    notes = ["the file states no network: every pair of ranks that it uses is a link", *program.notes]
    if program.defects:
        notes.append(f"the schedule is wrong ({program.defects[0].message}): see collective audit")
    figures = {"collective": program.collective.value, "ranks": ranks, "links": len(pairs)}
    line = f"{program.collective.value} of {ranks} ranks over {len(pairs)} links"
    return Imported(document, line, figures, tuple(notes))


MSCCL: Importer = _importer("msccl", "An MSCCL algorithm (XML)")
MSCCLPP: Importer = _importer("mscclpp", "An MSCCL++ execution plan (JSON)")
ASTRASIM: Importer = _importer("chakra", "A custom collective of ASTRA-sim (Chakra traces)")
