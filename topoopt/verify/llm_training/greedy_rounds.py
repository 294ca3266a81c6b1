"""The greedy rounds of ZB-2P (Qi et al., arXiv:2401.10241, section 4) again, in whole numbers.

Warm-up until the first micro-batch is back or the memory of 2p micro-batches is full; then on every rank one forward
and one backward pass a round, gradients of weights in the gaps, and early where memory or the rank that idles most asks
for it. Three switches; of the eight orders the first whose slowest rank is done soonest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

from topoopt.core.leaving import end_if_left
from topoopt.verify.llm_training.pass_orders import Pass

DIGITS = 9
"""Of times that rounds are planned with."""

HELD = {"F": 34, "I": -2, "W": -32}
"""Bytes over s b h that a pass leaves behind (table 2)."""


class _Rounds:
    def __init__(self, cost: Mapping[str, Sequence[int]], hop: int, m: int, switches: tuple[bool, bool, bool]) -> None:
        self.cost, self.hop, self.m, self.p = cost, hop, m, len(cost["F"])
        self.early, self.backward_first, self.greedy = switches
        p = self.p
        self.room = 2 * p * HELD["F"]
        self.done = {kind: [0] * p for kind in HELD}
        self.ends: dict[str, list[list[int]]] = {kind: [[] for _ in range(p)] for kind in ("F", "I")}
        self.free, self.idle, self.held = [0] * p, [0] * p, [0] * p
        self.begun = [0] * p
        self.order: list[list[Pass]] = [[] for _ in range(p)]

    def due(self, kind: str, j: int) -> int:
        """When what the next pass waits for has come."""
        i = self.done[kind][j]
        if kind == "F" and j > 0:
            return self.ends["F"][j - 1][i] + self.hop
        if kind == "I" and j < self.p - 1:
            return self.ends["I"][j + 1][i] + self.hop
        return 0

    def do(self, kind: str, j: int) -> None:
        """The next pass of a kind."""
        begin = max(self.free[j], self.due(kind, j) if kind != "W" else 0)
        if self.done["F"][j]:
            self.idle[j] += begin - self.free[j]
        else:
            self.begun[j] = begin
        self.free[j] = begin + self.cost[kind][j]
        if kind != "W":
            self.ends[kind][j].append(self.free[j])
        self.held[j] += HELD[kind]
        self.order[j].append((kind, self.done[kind][j], j))
        self.done[kind][j] += 1

    def warm_up(self) -> None:
        """Forward passes before the first backward one."""
        p, m = self.p, self.m
        for j in range(p):
            self.do("F", j)
        more, back = [0] * p, self.free[p - 1] + self.cost["I"][p - 1]
        for j in reversed(range(p - 1)):
            held, end, come = self.held[j], self.free[j], back + self.hop
            while 1 + more[j] < m and held + HELD["F"] <= self.room:
                if (end + self.cost["F"][j] > come) if self.early else (end >= come):
                    break
                held += HELD["F"]
                end += self.cost["F"][j]
                more[j] += 1
            back = max(end, come) + self.cost["I"][j]
        for j in range(1, p):
            if more[j] >= more[j - 1] and 1 + more[j] < m:
                more[j] = max(0, more[j - 1] - 1)
            more[j] = min(more[j], more[j - 1])
        for j in range(p):
            for _ in range(more[j]):
                self.do("F", j)
        for j in reversed(range(p)):
            self.do("I", j)

    def goes_ahead(self, j: int) -> bool:
        """Whether a forward pass comes in this round."""
        done = self.done
        if done["F"][j] >= self.m:
            return False
        if j == self.p - 1 or not self.backward_first or done["F"][j] < done["F"][j + 1] + 2:
            return True
        behind = self.free[j + 1] + self.cost["F"][j + 1] + self.cost["I"][j + 1] + self.hop
        if self.free[j] >= behind:
            return False
        held, spent = self.held[j] + HELD["F"], 0
        for _ in range(done["I"][j] - done["W"][j]):
            if held <= self.room:
                break
            held += HELD["W"]
            spent += self.cost["W"][j]
        if self.free[j] + self.cost["F"][j] + spent <= behind:
            return True
        return behind - self.free[j] > max(self.idle) - self.idle[j]

    def fill(self, kind: str, j: int) -> bool:
        """Gradients of weights before the next pass; whether memory suffices."""
        done = self.done
        while self.held[j] + HELD[kind] > self.room:
            if done["W"][j] >= done["I"][j]:
                return False
            self.do("W", j)
        come = self.due(kind, j)
        while done["W"][j] < done["I"][j] and self.free[j] + self.cost["W"][j] <= come:
            self.do("W", j)
        late = self.greedy or come - self.free[j] > max(self.idle) - self.idle[j]
        if late and done["W"][j] < done["I"][j] and self.free[j] < come:
            self.do("W", j)
        return True

    def run(self, least: int | None) -> bool:
        """All passes; whether memory suffices, and no rank needs as long as `least`."""
        self.warm_up()
        work = [self.m * sum(self.cost[kind][j] for kind in HELD) for j in range(self.p)]
        for _ in range(1, self.m):
            end_if_left()
            if least is not None and max(map(sum, zip(work, self.idle, strict=True))) >= least:
                return False
            go = [self.goes_ahead(j) for j in range(self.p)]
            for j in range(self.p):
                if all(go[j:]):
                    if not self.fill("F", j):
                        return False
                    self.do("F", j)
            for j in reversed(range(self.p)):
                if not self.fill("I", j):
                    return False
                while j == 0 and self.done["F"][0] == self.m and self.done["W"][0] < self.done["I"][0]:
                    self.do("W", 0)
                self.do("I", j)
        for j in range(self.p):
            while self.done["W"][j] < self.m:
                self.do("W", j)
        return True


def planned_order(times: Mapping[str, Sequence[float]], hop_s: float, m: int) -> list[list[Pass]]:
    """Passes of every rank, by seconds of `DIGITS` digits.

    Args:
        times: of F, I and W on every rank, seconds.

    Raises:
        ValueError: the memory never suffices.
    """
    most = max(hop_s, *(max(row) for row in times.values()))
    unit = 10.0 ** (DIGITS - 1 - math.floor(math.log10(most)))
    cost = {kind: [round(value * unit) for value in row] for kind, row in times.items()}
    return greedy_order(cost, round(hop_s * unit), m)


def greedy_order(cost: Mapping[str, Sequence[int]], hop: int, m: int) -> list[list[Pass]]:
    """Passes of every rank.

    Args:
        cost: of F, I and W on every rank.

    Raises:
        ValueError: the memory never suffices.
    """
    best: tuple[int, list[list[Pass]]] | None = None
    for early, backward_first, greedy in product((True, False), repeat=3):
        rounds = _Rounds(cost, hop, m, (early, backward_first, greedy))
        if not rounds.run(None if best is None else best[0]):
            continue
        span = max(end - begin for end, begin in zip(rounds.free, rounds.begun, strict=True))
        if best is None or span < best[0]:
            best = span, rounds.order
    if best is None:
        raise ValueError("greedy rounds do not fit")
    return best[1]
