"""Cyclic orders of AllReduce groups: all of them, those to begin with, and the refusal of groups that are none."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np

from formulations.job.allreduce_mix import Order, RingGroup
from solvers.job.ring_pricing import arithmetic_orders
from topoopt.core.errors import InputError, Problem
from topoopt.core.routing import Demand

ALL_ORDERS_SIZE = 4
"""Groups of up to so many members start with every order."""


def ring_groups(demand: Demand, scale: float, known: Sequence[Sequence[Order]] | None = None) -> tuple[RingGroup, ...]:
    """Groups of a demand with volumes divided by `scale` and orders to begin with: all of small groups, else coprime
    steps and those `known`."""
    groups = []
    for number, group in enumerate(demand.allreduce):
        orders = [normal(order) for order in (known[number] if known is not None else ())]
        members = sorted(group.members)
        if len(members) <= ALL_ORDERS_SIZE:
            orders += every_order(members)
        else:
            orders += [normal([members[i] for i in order]) for order in arithmetic_orders(len(members))]
        volume = group.wire_bytes_per_member / scale
        groups.append(RingGroup(tuple(group.members), volume, tuple(dict.fromkeys(orders))))
    return tuple(groups)


def every_order(members: Sequence[int]) -> list[Order]:
    """All cyclic orders of a group, each once: (k - 1)! of them."""
    first, *rest = sorted(members)
    return [(first, *order) for order in permutations(rest)]


def normal(order: Sequence[int]) -> Order:
    """The rotation that begins with the smallest member."""
    at = list(order).index(min(order))
    return (*order[at:], *order[:at])


def check_groups(servers: int, demand: Demand, known: Sequence[Sequence[Order]] | None) -> None:
    """Raise InputError, with all problems, for a demand of another size, bad groups, or orders that are none."""
    n = servers
    problems = []
    if demand.servers != n:
        problems.append(Problem("demand is for another cluster", value=f"{demand.servers} servers", allowed=str(n)))
    for number, group in enumerate(demand.allreduce):
        where, members = f"allreduce[{number}]", group.members
        if len(set(members)) < max(len(members), 2) or not all(0 <= server < n for server in members):
            problems.append(Problem("not two or more different servers", path=where, value=str(members)))
        if not (np.isfinite(group.payload_bytes) and group.payload_bytes >= 0):
            problems.append(Problem("payload must be finite and not negative", path=where))
        if known is not None and any(sorted(order) != sorted(members) for order in known[number]):
            problems.append(Problem("an order does not visit every member once", path=where))
    if problems:
        raise InputError(problems)
