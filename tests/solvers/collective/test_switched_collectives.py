"""Collectives whose circuits are set anew between their steps: by hand, by enumeration, by the checker."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from solvers.collective.schedules import NEIGHBOURS, least_time, step_time_s, steps_of
from topoopt.core.collective import SteppedCollective, SwitchedCollective
from topoopt.verify.collective import check_circuits

EIGHT = SwitchedCollective("halving-doubling", 8, 2, 8.0, 1.0, 0.0)
"""Vector of 8 bytes, 1 byte a second and circuit, two ports."""


def test_halving_and_doubling_by_hand() -> None:
    """Six steps of 4, 2, 1, 1, 2 and 4 bytes to partners i xor 1, 2, 4, 4, 2, 1.

    On the ring 4 bytes to the next rank take 4 s, 2 bytes over two hops 4 s, 1 byte to the other side, half by each
    way, 2 s: 20 s there and back. Partners joined: 2 + 1 + 0.5, 7 s there and back, circuits set five times.
    """
    found = least_time(EIGHT, 0.1)
    assert found.never_s == pytest.approx(20.0)
    assert found.time_s == pytest.approx(7.5)
    assert found.times_set == 5
    assert found.circuits == (-1, -2, -4, -4, -2, -1)
    assert found.every_s == pytest.approx(7.5)
    # All five save 13 s, 2.6 s each; without the first one, whose step stays on the ring, four save 11 s.
    assert found.break_even_s == pytest.approx(11 / 4)
    assert least_time(EIGHT, 2.74).time_s == pytest.approx(9.0 + 4 * 2.74)
    assert least_time(EIGHT, 2.76).time_s == pytest.approx(20.0)


def test_ring_is_never_switched() -> None:
    """2 (n - 1) steps of 1/2n of the vector to either side."""
    found = least_time(replace(EIGHT, collective="ring"), 0.0)
    assert found.time_s == pytest.approx(14 * 0.5)
    assert (found.times_set, found.break_even_s) == (0, 0.0)


def test_all_to_all_by_hand() -> None:
    """One byte to each: 1, 2, 3 and, half by each way, 2 s on the ring; 1, 1, 1 and 0.5 on circuits of their own.

    Circuits of distance 3 carry distance 4 over four hops, half by each way: 1 + 2 + 1 + 2 with one set.
    """
    asked = replace(EIGHT, collective="all-to-all")
    assert least_time(asked, 0.0).time_s == pytest.approx(3.5)
    assert least_time(asked, 10.0).time_s == pytest.approx(8.0)
    found = least_time(asked, 1.9)
    assert found.time_s == pytest.approx(min(1 + 2 + 1.9 + 1 + 2, 8.0))
    assert found.break_even_s == pytest.approx(2.0)


def test_no_schedule_is_faster_and_the_checker_agrees() -> None:
    draw = random.Random(5)
    for _ in range(60):
        ranks = draw.choice([2, 3, 4, 5, 6, 7, 8])
        names: list[SteppedCollective] = ["all-to-all", "ring"] + (
            ["halving-doubling"] * 3 if ranks in (2, 4, 8) else []
        )
        asked = SwitchedCollective(
            draw.choice(names), ranks, draw.choice([2, 4]), draw.uniform(1, 9), 1.0, draw.random()
        )
        delay_s = draw.choice([0.0, draw.random(), 3 * draw.random()])
        found = least_time(asked, delay_s)
        assert check_circuits(asked, found).ok, (asked, found, check_circuits(asked, found))
        steps = steps_of(asked)
        states = sorted({NEIGHBOURS, *(distance for distance, _ in steps)})
        if len(states) ** len(steps) > 20_000:
            continue
        best = float("inf")
        for circuits in itertools.product(states, repeat=len(steps)):
            sets = sum(a != b for a, b in itertools.pairwise((NEIGHBOURS, *circuits)))
            times = (step_time_s(asked, *step, one) for step, one in zip(steps, circuits, strict=True))
            best = min(best, sum(times) + sets * delay_s)
        assert found.time_s == pytest.approx(best)


def test_the_checker_finds_what_is_wrong() -> None:
    found = least_time(EIGHT, 0.1)
    for wrong, code in (
        (replace(found, time_s=7.0), "figure"),
        (replace(found, circuits=(1,) * 6, time_s=20.0), "optimum"),
        (replace(found, circuits=(3,) * 6), "circuits"),
        (replace(found, steps=found.steps[1:]), "steps"),
    ):
        assert code in {one.code for one in check_circuits(EIGHT, wrong).violations}
