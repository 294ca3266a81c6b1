"""Reader of SCCL algorithms (JSON of msccl-tools): steps of rounds, sends of addresses, and the topology they are for.

In these files `links[dst][src]` is the number of chunks a link takes in a round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from topoopt.core.chunk_program import ALL_RANKS, UNKNOWN, ChunkProgram
from topoopt.core.collective import REDUCING, CollectiveOp
from topoopt.core.rated_network import RatedNetwork
from topoopt.files.untrusted import parsing, refusal
from topoopt.formats.schedules.builder import ProgramBuilder
from topoopt.formats.schedules.json_file import read_object
from topoopt.formats.schedules.limits import MOST_RANKS
from topoopt.formats.schedules.reader import ScheduleOptions, no_collective
from topoopt.formats.schedules.states import collective_named
from topoopt.formats.schedules.timed import Piece, PieceSends, add_sends

WHAT = "an SCCL algorithm (JSON with msccl_type algorithm)"


def read_schedule(path: Path, options: ScheduleOptions) -> ChunkProgram:
    """An algorithm; steps are synchronous.

    Raises:
        InputError: not such a file.
    """
    document = read_object(path, WHAT)
    if document.get("msccl_type") != "algorithm":
        raise refusal(f"not {WHAT}", str(path), value=document.get("msccl_type"), allowed="algorithm")
    with parsing(str(path), WHAT):
        return _program(path, document, options)


def _program(path: Path, document: Mapping[str, Any], options: ScheduleOptions) -> ChunkProgram:
    wanted = document["collective"]
    ranks = whole(wanted["nodes"], 2, MOST_RANKS)
    name = str(wanted.get("runtime_name") or wanted["name"])
    collective = options.collective or collective_named(name) or collective_named(str(wanted["name"]))
    if collective is None:
        raise no_collective(str(path), name)
    chunks: dict[int, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {}
    for chunk in wanted["chunks"]:
        ends = [tuple(sorted(whole(rank, 0, ranks - 1) for rank in chunk[key])) for key in ("pre", "post")]
        chunks.setdefault(whole(chunk["addr"], 0, 10**9), []).append((ends[0], ends[1]))
    builder = ProgramBuilder(str(path), tuple(map(str, range(ranks))), ("step", "send"))
    addresses = sorted(chunks)
    number = {address: place for place, address in enumerate(addresses)}
    summed = collective in REDUCING
    pieces = [Piece(1, tuple(dict.fromkeys(r for pre, _ in chunks[a] for r in pre)), summed) for a in addresses]
    if any(not piece.holders for piece in pieces):
        raise refusal("a chunk that no rank has", str(path), allowed=WHAT)
    sends = [
        (number[whole(address, 0, 10**9)], *(whole(end, 0, ranks - 1) for end in ends), step, UNKNOWN, step, place)
        for step, one in enumerate(document["steps"])
        for place, (address, *ends) in enumerate(one["sends"])
    ]
    first = add_sends(builder, pieces, PieceSends.of_rows(sends, 2), timed=False)
    for address in addresses:
        for rank in sorted({rank for _, post in chunks[address] for rank in post}):
            whose = ALL_RANKS if summed else pieces[number[address]].holders[0]
            builder.due.append((first[rank] + number[address], number[address], whose))
    builder.notes.extend(_odd_maps(document, chunks, ranks))
    units = len(pieces) // ranks if collective is CollectiveOp.ALL_TO_ALL else len(pieces)
    topology = document.get("topology")
    network = None
    if isinstance(topology, Mapping):
        links, switches = topology["links"], topology.get("switches") or []
        _check_rounds(builder, document["steps"], links, switches)
        network = None if switches else network_of_links(links, str(topology.get("name", "")))
    return builder.built(
        str(document.get("name") or path.stem), collective, max(units, 1), per_share=False, topology=network
    )


def _odd_maps(
    document: Mapping[str, Any], chunks: Mapping[int, Sequence[tuple[tuple[int, ...], tuple[int, ...]]]], ranks: int
) -> list[str]:
    """Maps from ranks to addresses that are not what the chunks say; composed algorithms are known to have such."""
    notes = []
    for end, key in enumerate(("input_map", "output_map")):
        stated = {int(rank): sorted(addresses) for rank, addresses in (document.get(key) or {}).items()}
        for rank in range(ranks) if stated else ():
            due = sorted(address for address, ends in chunks.items() if any(rank in one[end] for one in ends))
            if (given := stated.get(rank, [])) != due:
                notes.append(
                    f"{key} gives rank {rank} the addresses {_listed(given)}, its chunks {_listed(due)}: "
                    "converters that go by the map make something else of the algorithm"
                )
                break
    return notes


def _listed(numbers: Sequence[int]) -> str:
    """Up to eight of them."""
    return ", ".join(map(str, numbers[:8])) + (" ..." if len(numbers) > 8 else "") if numbers else "none"


def whole(value: object, low: int, high: int) -> int:
    """A whole number within limits.

    Raises:
        ValueError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{value!r} is no whole number from {low} to {high}")
    return value


def network_of_links(links: Sequence[Sequence[int]], name: str) -> RatedNetwork | None:
    """Network of links[dst][src], one GB/s for every chunk a round; None where some rank cannot be reached."""
    rows = [
        (tail, head, Fraction(whole(rate, 0, 10**6)))
        for head, row in enumerate(links)
        for tail, rate in enumerate(row)
        if rate
    ]
    network = RatedNetwork.of_links([False] * len(links), rows, origin=name or "topology of the file")
    return network if rows and network.unreachable() is None else None


def _check_rounds(
    builder: ProgramBuilder, steps: Sequence[Any], links: Sequence[Sequence[int]], switches: Sequence[Any]
) -> None:
    """No more sends over a link, or through a switch, than the rounds of a step take."""
    shared = [
        (frozenset(sources), frozenset(targets), whole(rate, 0, 10**6), str(name))
        for sources, targets, rate, name in switches
    ]
    for number, step in enumerate(steps):
        rounds = whole(step["rounds"], 1, 10**6)
        load: dict[tuple[int, int], int] = {}
        for _, tail, head in step["sends"]:
            load[tail, head] = load.get((tail, head), 0) + 1
        for (tail, head), count in load.items():
            rate = whole(links[head][tail], 0, 10**6)
            if rate == 0:
                builder.defect("link", f"no link {tail} -> {head}, which carries {count} sends in step {number}")
            elif count > rate * rounds:
                text = f"link {tail} -> {head} is given {count} sends in step {number}, it takes {rate * rounds}"
                builder.defect("capacity", text)
        for sources, targets, rate, name in shared:
            through = sum(count for (tail, head), count in load.items() if tail in sources and head in targets)
            if through > rate * rounds:
                text = f"switch {name} is given {through} sends in step {number}, it takes {rate * rounds}"
                builder.defect("capacity", text)
