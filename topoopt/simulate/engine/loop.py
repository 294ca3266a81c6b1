"""The loop of all event simulations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from topoopt.simulate.engine.queue import Queue, first_time, is_crowded, take, with_room
from topoopt.simulate.jit import piece
from topoopt.simulate.views import borrowed

State = TypeVar("State")


@piece
def run(
    x: State,
    q: Queue,
    limit: float,
    most: int,
    next_change: Callable[[State], float],
    serve: Callable[[State, Queue, float], float],
    handle: Callable[[State, Queue, float, int], bool],
    settle: Callable[[State, Queue], bool],
) -> float:
    """Go from event to event until none is left, the next is later than `limit`, or it is over.

    Args:
        x: everything a model keeps, as its pieces take it.
        q: events.
        limit: last time that counts.
        most: events that one event may add at most.
        next_change: when something happens on the links by itself; infinity: never.
        serve: lets the links carry until that time; returns the time up to which events are taken together.
        handle: does what an event with this time and code says; True: it is over.
        settle: after all that happens at one time, takes the links anew into account; True: it is over.

    Returns:
        The time of the next event, infinity if there is none; -infinity if it is over.
    """
    x = borrowed(x)
    owner = q
    q = borrowed(owner)
    while True:
        upcoming = min(first_time(q), next_change(x))
        if upcoming > limit or upcoming == np.inf:
            return upcoming
        together = serve(x, q, upcoming)
        while first_time(q) <= together:
            if is_crowded(q, most):
                owner = with_room(owner, most)  # of the owner, which must outlive what is borrowed of it
                q = borrowed(owner)
            at = q.time[0]
            if handle(x, q, at, take(q)):
                return -np.inf
        if settle(x, q):
            return -np.inf


@piece
def never(x: State) -> float:
    """`next_change` of links on which nothing happens by itself."""
    return np.inf


@piece
def nothing_flows(x: State, q: Queue, at: float) -> float:
    """`serve` of such links."""
    return at


@piece
def go_on(x: State, q: Queue) -> bool:
    """`settle` where there is nothing to settle."""
    return False
