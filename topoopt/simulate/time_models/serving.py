"""The way of segments, and of rounds of rings and steps of schedules, over their links."""

from __future__ import annotations

from topoopt.core.arrays import Int32s
from topoopt.simulate.engine.lanes import Lanes, add, add_in
from topoopt.simulate.engine.queue import DETAIL_BITS
from topoopt.simulate.jit import piece
from topoopt.simulate.time_models.segments import (
    END,
    HOP_SHIFT,
    SCHEDULED,
    SEGMENT,
    STEP,
    STEP_SHIFT,
    Arrival,
    lane_of_next,
    lane_of_sent,
    segment_bytes,
    task_done,
)
from topoopt.simulate.time_models.turns import begin_chunks, put_off, take_turn


@piece
def _flow_done(x: Arrival, q: Lanes, f: int, at: float) -> bool:
    t = x.flows.task[f]
    x.tasks.end[t] = max(x.tasks.end[t], at)
    x.flows.under_way[t] -= 1
    return x.flows.under_way[t] == 0 and task_done(x, q, t, x.tasks.end[t])


@piece
def _carry(x: Arrival, link: int, amount: float, now: float) -> float:
    """Let a link carry so many bytes after those that came before; when it begins."""
    began = max(now, x.free[link])
    span = amount / x.w.link_rate[link]
    x.free[link] = began + span
    if x.record:
        x.carried[link] += amount
        x.busy[link] += span
    return float(began)


@piece
def serve_segment(x: Arrival, q: Lanes, now: float, event: int, f: int, step: int, hop: int) -> bool:
    """A segment of a transfer asks for a link of its path."""
    amount = x.flows.last_chunk[f] if step == x.flows.steps[f] - 1 else x.flows.chunk[f]
    at = x.w.path_ptr[x.flows.route[f]] + hop
    last = x.w.path_ptr[x.flows.route[f] + 1] - 1
    link = x.w.path_link[at]
    began = _carry(x, link, amount, now)
    span = amount / x.w.link_rate[link]
    if x.turns.flows[link] > 0:
        turn = max(span, segment_bytes(x) / x.w.link_rate[link]) if x.w.turns else 0.0
        began = take_turn(x.turns, link, span, turn, now, began)
    end = began + span
    if hop == 0 and step + 1 < x.flows.steps[f]:
        add_in(q, lane_of_next(x, link), end, (f << DETAIL_BITS) | ((step + 1) << STEP_SHIFT) | SEGMENT)
    if at < last:
        arrival = max(began, end - amount / x.w.link_rate[x.w.path_link[at + 1]]) + x.w.hop_latency
        add_in(q, lane_of_sent(x, link), arrival, event + (1 << HOP_SHIFT))
        return False
    x.flows.slowest[f] = max(x.flows.slowest[f], end + x.w.hop_latency)
    x.flows.left[f] -= 1
    return x.flows.left[f] == 0 and _flow_done(x, q, f, x.flows.slowest[f])


@piece
def _code(f: int, step: int, hop: int, kind: int) -> int:
    return (f << DETAIL_BITS) | (step << STEP_SHIFT) | (hop << HOP_SHIFT) | kind


@piece
def _step_asked(x: Arrival, q: Lanes, f: int, step: int, kind: int) -> bool:
    """All that a round or step asked for has its time: the next one follows, or the flow is done.

    Where segments may still put off its chunks, that is looked at when they should have been served (`END`).
    """
    due = x.flows.slowest[f] + x.flows.step_gap[f]
    if x.flows.cut[f]:
        add(q, due, _code(f, step, END, kind))
        return False
    if step + 1 < x.flows.steps[f]:
        add(q, due, _code(f, step + 1, 0, kind))
        return False
    return _flow_done(x, q, f, due + x.flows.tail[f])


@piece
def step_is_over(x: Arrival, q: Lanes, now: float, event: int, f: int, step: int, what: int) -> bool:
    """Whether the chunks of a step are served by now, as they should; if not, this is asked again when they should."""
    if x.turns.seen[f] < x.turns.gone[0]:
        x.turns.seen[f] = x.turns.gone[0]
        r, s = x.flows.route[f], x.w.schedules
        if what == SCHEDULED:
            links, first = s.link, s.load_ptr[s.hop_ptr[s.step_ptr[r]]]
            low, high = s.load_ptr[s.hop_ptr[s.step_ptr[r] + step]], s.load_ptr[s.hop_ptr[s.step_ptr[r] + step + 1]]
        else:
            links, first = x.w.member_link, x.w.member_ptr[x.w.ring_ptr[r]]
            low, high = first, x.w.member_ptr[x.w.ring_ptr[r + 1]]
        latest, slot = x.flows.slowest[f], x.turns.slots[f] - first
        for at in range(low, high):
            latest = max(latest, put_off(x.turns, slot + at, links[at], now))
        x.flows.slowest[f] = latest
    due = x.flows.slowest[f] + x.flows.step_gap[f]
    if due > now:
        add(q, due, event)
        return False
    return True


@piece
def chunks_done(x: Arrival, q: Lanes, f: int, at: float, what: int) -> bool:
    """The last step of a flow of chunks is over; True: everything is."""
    r, s = x.flows.route[f], x.w.schedules
    if what == SCHEDULED:
        links = s.link
        low, high = s.load_ptr[s.hop_ptr[s.step_ptr[r]]], s.load_ptr[s.hop_ptr[s.step_ptr[r + 1]]]
    else:
        links = x.w.member_link
        low, high = x.w.member_ptr[x.w.ring_ptr[r]], x.w.member_ptr[x.w.ring_ptr[r + 1]]
    for place in range(low, high):
        x.turns.flows[links[place]] -= 1
    return _flow_done(x, q, f, at + x.flows.tail[f])


@piece
def _begin_chunks(x: Arrival, f: int, step: int, links: Int32s, low: int, high: int) -> None:
    """The chunks of a step begin to ask; over its time their flow asks for links[low:high]."""
    x.turns.seen[f] = x.turns.gone[0]
    if step == 0:
        for at in range(low, high):
            begin_chunks(x.turns, links[at], x.free[links[at]])


@piece
def serve_step(x: Arrival, q: Lanes, now: float, event: int, f: int, step: int, hop: int) -> bool:
    """All members of a ring ask for the link at this hop of their paths."""
    amount = x.flows.chunk[f]
    first, last = x.w.ring_ptr[x.flows.route[f]], x.w.ring_ptr[x.flows.route[f] + 1]
    low, high = x.w.member_ptr[first], x.w.member_ptr[last]
    cut, slot = x.flows.cut[f], x.turns.slots[f] - low
    if cut and hop == 0:
        _begin_chunks(x, f, step, x.w.member_link, low, high)
    latest_start, latest_end, more = now, 0.0, False
    if high - low == last - first and not x.record:  # one hop per member: their links stand in a row
        for at in range(low, high):
            link = x.w.member_link[at]
            freed = max(now, x.free[link]) + amount / x.w.link_rate[link]
            x.free[link] = freed
            if cut:
                x.turns.end[slot + at], x.turns.ahead_then[slot + at] = freed, x.turns.ahead[link]
            latest_end = max(latest_end, freed)
    else:
        for m in range(first, last):
            at = x.w.member_ptr[m] + hop
            if at < x.w.member_ptr[m + 1]:
                more = more or at + 1 < x.w.member_ptr[m + 1]
                link = x.w.member_link[at]
                latest_start = max(latest_start, _carry(x, link, amount, now))
                latest_end = max(latest_end, x.free[link])
                if cut:
                    x.turns.end[slot + at], x.turns.ahead_then[slot + at] = x.free[link], x.turns.ahead[link]
    x.flows.slowest[f] = max(x.flows.slowest[f], latest_end)
    if more:
        add(q, latest_start + x.w.hop_latency, event + (1 << HOP_SHIFT))
        return False
    return _step_asked(x, q, f, step, STEP)


@piece
def serve_scheduled(x: Arrival, q: Lanes, now: float, event: int, f: int, step: int, hop: int) -> bool:
    """All messages of a step of a schedule ask for the links at this hop of their routes."""
    s = x.w.schedules
    at = s.step_ptr[x.flows.route[f]] + step
    low = s.load_ptr[s.hop_ptr[s.step_ptr[x.flows.route[f]]]]
    cut, slot = x.flows.cut[f], x.turns.slots[f] - low
    if cut and hop == 0:
        _begin_chunks(x, f, step, s.link, low, s.load_ptr[s.hop_ptr[s.step_ptr[x.flows.route[f] + 1]]])
    latest_start, latest_end = now, now
    hops = s.hop_ptr[at + 1] - s.hop_ptr[at]
    if hop < hops:
        for load in range(s.load_ptr[s.hop_ptr[at] + hop], s.load_ptr[s.hop_ptr[at] + hop + 1]):
            link, amount = s.link[load], x.flows.chunk[f] * s.share[load]
            latest_start = max(latest_start, _carry(x, link, amount, now))
            latest_end = max(latest_end, x.free[link])
            if cut:
                x.turns.end[slot + load], x.turns.ahead_then[slot + load] = x.free[link], x.turns.ahead[link]
    x.flows.slowest[f] = max(x.flows.slowest[f], latest_end)
    if hop + 1 < hops:
        add(q, latest_start + x.w.hop_latency, event + (1 << HOP_SHIFT))
        return False
    return _step_asked(x, q, f, step, SCHEDULED)
