"""The messages of a program on a network: their routes, what links carry, and how long the program takes.

Times are those without barriers, step by step, and in epochs, where every window of a link must hold what starts in it.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import ceil, floor

import numpy as np

from topoopt.core.arrays import Bools, Floats, Int32s, Ints
from topoopt.core.collective import UNKNOWN, ChunkProgram, Defect
from topoopt.core.rated_network import RatedNetwork
from topoopt.verify.laws.schedules import Order

MOST_SHOWN = 5


@dataclass(frozen=True, eq=False)
class MessageRoutes:
    """Which links messages take.

    Attributes:
        arcs: int64[w, h], arcs of each different way in order, -1 after the last.
        route: int32[k], of each message; -1: there is none.
        defects: links that do not exist.
        firsts: bool[k] for each hop, whether no earlier message took the same bytes over that link in that epoch.
    """

    arcs: Ints
    route: Int32s
    defects: tuple[Defect, ...]
    firsts: tuple[Bools, ...]

    def hop(self, number: int) -> Ints:
        """int64[k], link of each message in a hop; -1: none."""
        return np.where(self.route >= 0, self.arcs[self.route, number], -1)

    @property
    def hops(self) -> int:
        """How many links the longest route has."""
        return int(self.arcs.shape[1])


def routed(program: ChunkProgram, network: RatedNetwork, node: Ints, switch: dict[str, int]) -> MessageRoutes:
    """The way of every message: through the stated switches, else direct, else through the fewest switches.

    Args:
        node: int64[ranks], node of every rank of the program.
        switch: node of every switch that the file names.
    """
    messages = program.messages
    ranks, vias = len(program.ranks), len(program.vias) + 1
    keys = (messages.tail.astype(np.int64) * ranks + messages.head) * vias + messages.via + 1
    keys, which = np.unique(keys, return_inverse=True)
    different = np.column_stack((keys // vias // ranks, keys // vias % ranks, keys % vias - 1))
    number = {(tail, head): arc for arc, (tail, head) in enumerate(network.arcs.tolist())}
    rows: list[list[int]] = []
    wrong: dict[int, str] = {}
    for row, (tail, head, via) in enumerate(different.tolist()):
        ends = int(node[tail]), int(node[head])
        if via == UNKNOWN:
            path = _through_switches(network, number, *ends)
        else:
            stops = [ends[0], *(switch.get(name, -1) for name in program.vias[via]), ends[1]]
            path = _joined(network, number, stops)
        arcs = [number.get(hop, -1) for hop in itertools.pairwise(path or [])]
        if not arcs or min(arcs) < 0:
            through = f" through switch {', '.join(program.vias[via])}" if via != UNKNOWN else ""
            wrong[row] = f"no link {program.ranks[tail]} -> {program.ranks[head]}{through}"
            arcs = []
        rows.append(arcs)
    width = max(map(len, rows), default=0)
    table = np.full((len(rows), max(width, 1)), -1, dtype=np.int64)
    for row, arcs in enumerate(rows):
        table[row, : len(arcs)] = arcs
    route = np.asarray(which, dtype=np.int32).reshape(-1).copy()
    unroutable = np.zeros(len(rows), dtype=np.bool_)
    unroutable[list(wrong)] = True
    missing = unroutable[route]
    defects = []
    for row, text in list(wrong.items())[:MOST_SHOWN]:
        own = np.flatnonzero(route == row)
        where = program.place(int(messages.action[own[0]]))
        defects.append(Defect("link", f"{text}: {len(own)} of {len(messages)} sends, the first at {where}"))
    if len(wrong) > MOST_SHOWN:
        total = int(missing.sum())
        defects.append(Defect("link", f"{len(wrong) - MOST_SHOWN} more links do not exist ({total} sends in all)"))
    route[missing] = -1
    unmarked = MessageRoutes(table, route, tuple(defects), ())
    return replace(unmarked, firsts=_first_copies(program, unmarked))


def _joined(network: RatedNetwork, number: dict[tuple[int, int], int], stops: list[int]) -> list[int] | None:
    path = stops[:1]
    for hop in itertools.pairwise(stops):
        between = _through_switches(network, number, *hop)
        if between is None:
            return None
        path += between[1:]
    return path


def _through_switches(
    network: RatedNetwork, number: dict[tuple[int, int], int], tail: int, head: int
) -> list[int] | None:
    if (tail, head) in number:
        return [tail, head]
    units = network.units.tolist()
    out: dict[int, list[int]] = {}
    for start, end in number:
        out.setdefault(start, []).append(end)
    layer: dict[int, tuple[int, list[int]]] = {tail: (1 << 62, [tail])}
    seen = {tail}
    while layer:
        following: dict[int, tuple[int, list[int]]] = {}
        for start, (rate, path) in layer.items():
            for end in out.get(start, ()):
                if end in seen or not (end == head or network.is_switch[end]):
                    continue
                narrow = min(rate, units[number[start, end]])
                if end not in following or narrow > following[end][0]:
                    following[end] = narrow, [*path, end]
        if head in following:
            return following[head][1]
        seen |= set(following)
        layer = following
    return None


def _first_copies(program: ChunkProgram, routes: MessageRoutes) -> tuple[Bools, ...]:
    """bool[k] for each hop: whether no earlier message took the same bytes over that link at the same time."""
    messages = program.messages
    if not len(messages) or messages.epoch.max() == UNKNOWN:
        return (np.ones(len(messages), dtype=np.bool_),) * routes.hops
    firsts = []
    for hop in range(routes.hops):
        key = routes.hop(hop)
        for column in (messages.tail, messages.piece, messages.epoch):  # to one number, told apart again and again
            different = np.unique(column, return_inverse=True)[1]
            key = np.unique(key * (int(different.max()) + 1) + different, return_inverse=True)[1]
        first = np.zeros(len(messages), dtype=np.bool_)
        first[np.unique(key, return_index=True)[1]] = True
        firsts.append(first | (messages.epoch == UNKNOWN))
    return tuple(firsts)


def copies_in_switches(routes: MessageRoutes) -> bool:
    """Whether some link carries the same bytes of a rank more than once in an epoch: switches that copy spare that."""
    return not all(bool(first.all()) for first in routes.firsts)


def link_units(program: ChunkProgram, network: RatedNetwork, routes: MessageRoutes) -> tuple[Ints, Ints]:
    """int64[m] each, units over every link: every copy by itself, and copies that a switch could make counted once."""
    single, multicast = (np.zeros(len(network.arcs), dtype=np.int64) for _ in range(2))
    for hop, first in enumerate(routes.firsts):
        arc = routes.hop(hop)
        used = arc >= 0
        np.add.at(single, arc[used], program.messages.units[used])
        np.add.at(multicast, arc[used & first], program.messages.units[used & first])
    return single, multicast


@dataclass(frozen=True)
class ProgramTimes:
    """us: without barriers, with a barrier after every step, and of the fullest link; and how many steps."""

    makespan_us: float
    step_us: float
    busy_us: float
    steps: int


def program_times(
    program: ChunkProgram,
    network: RatedNetwork,
    order: Order,
    routes: MessageRoutes,
    unit_us: Floats,
    message_us: float,
    *,
    multicast: bool,
) -> ProgramTimes:
    """Times of a program that has been found sound.

    Args:
        unit_us: float64[m], us of a unit on each link.
        message_us: of every message besides.
        multicast: bytes that one rank sends several others in one epoch go over a common link once.
    """
    step = message_steps(program, order)
    steps = int(step.max(initial=-1)) + 1
    messages = program.messages
    load = np.zeros((steps, len(network.arcs)), dtype=np.int64) if steps * len(network.arcs) <= 30_000_000 else None
    busy = np.zeros(len(network.arcs), dtype=np.int64)
    slow = np.zeros(len(messages))
    for hop, first in enumerate(routes.firsts):
        arc = routes.hop(hop)
        slow[arc >= 0] += network.latency_us[arc[arc >= 0]]
        used = (arc >= 0) & (first | (not multicast))
        np.add.at(busy, arc[used], messages.units[used])
        if load is not None:
            np.add.at(load, (step[used], arc[used]), messages.units[used])
    slowest = np.zeros(steps)
    np.maximum.at(slowest, step, slow)
    by_step = float("nan")
    if load is not None:
        by_step = float(((load * unit_us).max(axis=1, initial=0.0) + slowest + message_us).sum())
    return ProgramTimes(
        _makespan(program, order, routes, unit_us, slow + message_us, multicast=multicast),
        by_step,
        float((busy * unit_us).max(initial=0.0)),
        steps,
    )


def message_steps(program: ChunkProgram, order: Order) -> Ints:
    """int64[k], step of every message: its epoch, else how many messages must come before it."""
    messages = program.messages
    if len(messages) and messages.epoch.min() != UNKNOWN:
        return np.unique(messages.epoch, return_inverse=True)[1].astype(np.int64).reshape(-1)
    sends = np.zeros(len(program.places), dtype=np.int64)
    sends[messages.action] = 1
    after = [0] * len(program.places)  # messages up to the end of each action
    adds, first, earlier = sends.tolist(), order.first.tolist(), order.earlier.tolist()
    for action in order.actions.tolist():
        most = 0
        for other in earlier[first[action] : first[action + 1]]:
            most = max(most, after[other])
        after[action] = most + adds[action]
    return np.array(after, dtype=np.int64)[messages.action] - 1


def _makespan(
    program: ChunkProgram, order: Order, routes: MessageRoutes, unit_us: Floats, slow: Floats, *, multicast: bool
) -> float:
    """When the last action has ended: each begins when those before it have, messages take turns on links.

    Of messages that wait for a link the one that was ready first goes first. Switches pass on while they receive;
    latencies are added at the end.
    """
    send = _sender(program, routes, unit_us, slow, multicast=multicast)
    begin, later = _following(order)
    waiting = np.diff(order.first).tolist()
    ready = [0.0] * len(waiting)
    turns = np.full(len(waiting), UNKNOWN, dtype=np.int64)
    turns[program.messages.action] = program.messages.epoch
    by_turn = np.lexsort((np.arange(len(turns)), turns))
    turn = np.empty_like(by_turn)
    turn[by_turn] = np.arange(len(turns))
    action_of, turn_of = by_turn.tolist(), turn.tolist()
    # Actions that are ready at once stand in one heap, and moments in another: many actions share few moments.
    together = {0.0: np.sort(turn[np.diff(order.first) == 0]).tolist()}
    moments = [0.0]
    end = 0.0
    while moments:
        now = heapq.heappop(moments)
        heap = together[now]
        while heap:
            action = action_of[heapq.heappop(heap)]
            done = send(action, now)
            end = max(end, done)
            for following in later[begin[action] : begin[action + 1]]:
                ready[following] = max(ready[following], done)
                waiting[following] -= 1
                if waiting[following] == 0:
                    moment = ready[following]
                    if moment not in together:
                        together[moment] = []
                        heapq.heappush(moments, moment)
                    heapq.heappush(together[moment], turn_of[following])
        del together[now]
    return end


def _following(order: Order) -> tuple[list[int], list[int]]:
    """Those after action k are later[begin[k]:begin[k + 1]], in the order of their numbers."""
    count = len(order.position)
    action = np.repeat(np.arange(count), np.diff(order.first))
    by_earlier = np.argsort(order.earlier, kind="stable")
    begin = np.concatenate(([0], np.cumsum(np.bincount(order.earlier, minlength=count))))
    return begin.tolist(), action[by_earlier].tolist()


def _sender(
    program: ChunkProgram, routes: MessageRoutes, unit_us: Floats, slow: Floats, *, multicast: bool
) -> Callable[[int, float], float]:
    """Return what occupies links in turn: (action, moment) -> when what it sends has come; the moment for nothing."""
    messages = program.messages
    by_action = np.argsort(messages.action, kind="stable")
    begin = np.searchsorted(messages.action[by_action], np.arange(len(program.places) + 1)).tolist()
    different = [[arc for arc in row if arc >= 0] for row in routes.arcs.tolist()]
    paths = [different[route] if route >= 0 else [] for route in routes.route[by_action].tolist()]
    units, slow_us, us = messages.units[by_action].tolist(), slow[by_action].tolist(), unit_us.tolist()
    free = [0.0] * len(unit_us)
    columns = (messages.tail[by_action], messages.piece[by_action], messages.epoch[by_action])
    copies = multicast and bool((messages.epoch != UNKNOWN).any())
    keys = list(zip(*(column.tolist() for column in columns), strict=True)) if copies else []
    copied: dict[tuple[int, tuple[int, int, int]], tuple[float, float]] = {}

    def send(action: int, began: float) -> float:
        done = began
        for number in range(begin[action], begin[action + 1]):
            leave = sent = began
            same = keys[number] if keys and keys[number][2] != UNKNOWN else None
            for arc in paths[number]:
                if same is not None and (arc, same) in copied:
                    leave, last = copied[arc, same]
                else:
                    leave = max(leave, free[arc])
                    last = free[arc] = leave + units[number] * us[arc]
                    if same is not None:
                        copied[arc, same] = leave, last
                sent = max(sent, last)
            done = max(done, sent + slow_us[number])
        return done

    return send


SLACK = 1e-6
"""Part of a window by which files round."""

NEGLIGIBLE = 0.1
"""Part of an epoch up to which a latency is left out (alpha_threshold of TE-CCL)."""


def full_windows(
    program: ChunkProgram,
    network: RatedNetwork,
    routes: MessageRoutes,
    unit_us: Floats,
    epoch_us: float,
    *,
    multicast: bool,
) -> list[Defect]:
    """Windows of epochs in which more starts on a link than fits; a chunk of more than an epoch takes several (TE-CCL).

    Args:
        unit_us: float64[m], us of a unit on each link.
    """
    messages = program.messages
    length = np.full(len(network.arcs), 1.0)  # of the longest message on each link, in epochs
    for hop in range(routes.hops):
        arc = routes.hop(hop)
        used = arc >= 0
        np.maximum.at(length, arc[used], messages.units[used] * unit_us[arc[used]] / epoch_us)
    kappa = np.ceil(length * (1 - SLACK)).astype(np.int64)
    shift = np.zeros(len(messages), dtype=np.int64)
    starts: list[Ints] = []  # rows (arc, epoch, units)
    for hop, first in enumerate(routes.firsts):
        arc = routes.hop(hop)
        counted = (arc >= 0) & (first if multicast else True)
        starts.append(np.column_stack((arc, messages.epoch + shift, messages.units))[counted])
        there = arc >= 0
        late = kappa + np.ceil(_latency_us(network, epoch_us) / epoch_us * (1 - SLACK)).astype(np.int64)
        shift[there] += late[arc[there]]
    return list(_overfull(network, kappa, _fullest(np.concatenate(starts), kappa, unit_us, epoch_us)))


def _fullest(starts: Ints, kappa: Ints, unit_us: Floats, epoch_us: float) -> dict[int, tuple[float, int]]:
    """Of links that are given more than fits: how many times that in the fullest window, and its first epoch."""
    if not len(starts):
        return {}
    order = np.lexsort((starts[:, 1], starts[:, 0]))
    arc, epoch, units = starts[order].T
    epoch = epoch - epoch.min()
    last = int(epoch.max()) + int(kappa.max()) + 1
    moment = arc * last + epoch
    summed = np.concatenate(([0], np.cumsum(units)))
    end = np.searchsorted(moment, moment + kappa[arc], side="left")
    begin = np.searchsorted(moment, moment, side="left")
    part = (summed[end] - summed[begin]) * unit_us[arc] / (kappa[arc] * epoch_us)
    worst: dict[int, tuple[float, int]] = {}
    for index in np.flatnonzero(part > 1 + SLACK)[::-1].tolist():  # of equal ones the first epoch
        if part[index] >= worst.get(int(arc[index]), (0.0, 0))[0]:
            worst[int(arc[index])] = float(part[index]), int(starts[order[index], 1])
    return worst


def _latency_us(network: RatedNetwork, epoch_us: float) -> Floats:
    return np.where(network.latency_us <= NEGLIGIBLE * epoch_us, 0.0, network.latency_us)


def _overfull(network: RatedNetwork, kappa: Ints, worst: dict[int, tuple[float, int]]) -> Iterator[Defect]:
    for arc, (part, epoch) in sorted(worst.items(), key=lambda entry: -entry[1][0])[:MOST_SHOWN]:
        tail, head = (network.names[node] for node in network.arcs[arc])
        span = int(kappa[arc])
        epochs = f"epoch {epoch}" if span == 1 else f"epochs {epoch} to {epoch + span - 1}"
        yield Defect("capacity", f"link {tail} -> {head} is given {part:.4g} times what it carries in {epochs}")
    if len(worst) > MOST_SHOWN:
        yield Defect("capacity", f"{len(worst) - MOST_SHOWN} more links are given too much")


def early_departures(
    program: ChunkProgram, network: RatedNetwork, routes: MessageRoutes, unit_us: Floats, epoch_us: float
) -> list[Defect]:
    """Messages that leave before what they carry can have come, however fast switches pass it on.

    The epoch of a message through stated switches may be that of any of its links: one epoch is asked for.
    """
    messages = program.messages
    transit = np.zeros(len(messages))
    for hop in range(routes.hops):
        arc = routes.hop(hop)
        used = arc >= 0
        transit[used] = np.maximum(transit[used], messages.units[used] * unit_us[arc[used]])
    for hop in range(routes.hops):
        arc = routes.hop(hop)
        used = arc >= 0
        transit[used] += _latency_us(network, epoch_us)[arc[used]]
    transit[messages.via != UNKNOWN] = epoch_us
    start = np.full(len(program.places), np.nan)
    start[messages.action] = messages.epoch * epoch_us
    there = np.zeros(len(program.places))
    there[messages.action] = messages.epoch * epoch_us + transit
    late, early = program.after[:, 0], program.after[:, 1]
    wrong = np.flatnonzero(start[late] < there[early] - SLACK * epoch_us)
    defects = [
        Defect(
            "causality",
            f"{program.place(int(late[k]))} leaves {floor((there[early[k]] - start[late[k]]) * 1e3 + 0.5) / 1e3:g} us "
            f"before it has come ({program.place(int(early[k]))})",
        )
        for k in wrong[:MOST_SHOWN].tolist()
    ]
    if len(wrong) > MOST_SHOWN:
        defects.append(Defect("causality", f"{len(wrong) - MOST_SHOWN} more leave too early"))
    return defects


def last_epoch_end_us(
    program: ChunkProgram, network: RatedNetwork, routes: MessageRoutes, unit_us: Floats, epoch_us: float
) -> float:
    """End of the epoch in which the last message has come at the earliest, links one after the other as in TE-CCL.

    The epoch of a message through stated switches may be that of any of its links: one epoch is asked for.
    """
    messages = program.messages
    ends = messages.epoch.astype(np.int64)
    for hop in range(routes.hops):
        arc = routes.hop(hop)
        used = (arc >= 0) & (messages.via == UNKNOWN)
        latency = _latency_us(network, epoch_us)[arc[used]]
        late = np.ceil((messages.units[used] * unit_us[arc[used]] + latency) / epoch_us - SLACK)
        ends[used] += late.astype(np.int64)
    ends[messages.via != UNKNOWN] += 1
    return float(ceil(ends.max(initial=0)) * epoch_us)
