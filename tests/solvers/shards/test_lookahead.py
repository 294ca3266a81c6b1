"""Look-ahead wiring: starts worked out by hand, and what a second side can never make worse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.shards import wire
from tests.support.shard_cases import pairs, rings
from topoopt.core.optical_layer import Shard, block_layer
from topoopt.core.shard_wiring import PlannedJob, WiredJob
from topoopt.verify.shards.wiring import wiring_violations

LAYER = block_layer(4, 1, 4, 0.01)
PANEL, TURN = 120.0, 0.5


def ring(name: str, servers: tuple[int, ...], known_s: float = 0.0, duration_s: float = 1000.0) -> PlannedJob:
    """One interface, all servers."""
    return PlannedJob(name, rings(len(servers), 1), Shard(servers, (0,)), known_s, duration_s)


def test_the_next_job_is_wired_while_the_present_one_runs() -> None:
    """a starts when its panel is set; b, known from the start, when a ends and the switches turn."""
    plan = [ring("a", (0, 1, 2, 3)), ring("b", (0, 1, 2, 3))]
    a, b = wire(LAYER, plan, PANEL, TURN)
    assert (a.start_s, a.end_s) == (120.5, 1120.5)
    assert (b.ready_s, b.wirings[0].done_s, b.delay_s) == (1120.5, 120.0, 0.5)
    assert (a.provisioned, b.provisioned, b.circuits) == (0, 4, 4)
    a, b = wire(LAYER, plan, PANEL, sides=1)
    assert (a.start_s, b.ready_s, b.delay_s, b.provisioned) == (120.0, 1120.0, 120.0, 0)


def test_a_job_known_late_is_wired_late() -> None:
    """Known 20 s before the servers are free: 100 s of the panel's time are left."""
    plan = [ring("a", (0, 1)), ring("b", (0, 1), known_s=1100.5)]
    b = wire(LAYER, plan, PANEL, TURN)[1]
    assert (b.ready_s, b.delay_s) == (1120.5, 100.5)


def test_unlike_sides_cannot_be_joined_in_advance() -> None:
    """0, 1 run their second job on side 1, and 2, 3 their first on side 0: a ring of all has no side left for it."""
    plan = [
        ring("a", (0, 1), duration_s=100.0),
        ring("b", (0, 1), duration_s=900.0),
        ring("c", (2, 3), duration_s=1000.0),
        ring("d", (0, 1, 2, 3)),
    ]
    a, b, c, d = wire(LAYER, plan, PANEL, TURN)
    assert (a.end_s, b.start_s, b.end_s, c.end_s) == (220.5, 221.0, 1121.0, 1120.5)
    # side 0 is left by c at 1120.5, side 1 by b at 1121.0: the first one is wired when c ends
    assert d.provisioned == 0
    assert d.start_s == 1120.5 + PANEL + TURN


def test_components_are_wired_apart() -> None:
    """Pairs within 0, 1 and 2, 3 take unlike sides in advance, where a ring of all could not."""
    plan = [
        ring("a", (0, 1), duration_s=100.0),
        ring("b", (0, 1), duration_s=900.0),
        ring("c", (2, 3), duration_s=1000.0),
        PlannedJob("d", pairs(4, [(0, 1), (2, 3)]), Shard((0, 1, 2, 3), (0,)), 0.0, 10.0),
    ]
    d = wire(LAYER, plan, PANEL, TURN)[3]
    assert (d.provisioned, d.delay_s) == (4, 0.5)


@given(st.integers(0, 10**6), st.integers(1, 8))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_second_side_never_delays(seed: int, jobs: int) -> None:
    """With switches that turn in no time, every job starts no later with two sides than with one, and never early."""
    rng = np.random.default_rng(seed)
    plan = [
        ring(
            str(k),
            tuple(rng.permutation(4)[: int(rng.integers(2, 5))].tolist()),
            float(rng.integers(0, 200)),
            float(rng.integers(0, 300)),
        )
        for k in range(jobs)
    ]
    two, one = wire(LAYER, plan, PANEL), wire(LAYER, plan, PANEL, sides=1)
    assert wiring_violations(LAYER, plan, two, PANEL, 0.0, 2) == ()
    assert wiring_violations(LAYER, plan, one, PANEL, 0.0, 1) == ()
    for with_two, with_one in zip(two, one, strict=True):
        assert with_two.start_s <= with_one.start_s
        assert with_two.start_s >= with_two.ready_s
        assert with_one.delay_s >= 0


def test_bad_times_and_shards_are_refused() -> None:
    """Not finite, below 0, no side, a shard of another size."""
    for arguments in ((-1.0, 0.0, 2), (float("inf"), 0.0, 2), (1.0, -1.0, 2), (1.0, 0.0, 0)):
        with pytest.raises(ValueError, match="times are finite"):
            wire(LAYER, [], arguments[0], arguments[1], sides=arguments[2])
    with pytest.raises(ValueError, match="job a"):
        wire(LAYER, [ring("a", (0, 1), duration_s=float("nan"))], 1.0)
    with pytest.raises(ValueError, match="does not fit"):
        wire(LAYER, [PlannedJob("a", rings(3, 1), Shard((0, 1), (0,)), 0.0, 1.0)], 1.0)
    assert wire(LAYER, [], 1.0) == ()


def test_the_checker_rejects_corrupted_wiring() -> None:
    """Early starts, overlapping fibres and servers, circuits left out or set twice, sides that are none."""
    plan = [ring("a", (0, 1, 2, 3)), ring("b", (0, 1, 2, 3), known_s=5.0)]
    wired = wire(LAYER, plan, PANEL, TURN)
    a, b = wired
    (only,) = b.wirings

    def codes(*jobs: WiredJob, sides: int = 2) -> set[str]:
        return {found.code for found in wiring_violations(LAYER, plan, jobs, PANEL, TURN, sides)}

    assert codes(a, b) == set()
    assert codes(a) == codes(b, a) == {"jobs"}
    assert "start" in codes(replace(a, start_s=100.0, end_s=1100.0), b)
    assert "start" in codes(a, replace(b, ready_s=1.0))
    assert "end" in codes(a, replace(b, end_s=b.end_s + 1))
    assert codes(a, replace(b, start_s=500.0, end_s=1500.0)) == {"start", "server"}
    assert codes(a, replace(b, wirings=(replace(only, side=0),))) == {"fibre"}
    assert codes(a, replace(b, wirings=(replace(only, side=2),))) == {"side"}
    assert codes(a, b, sides=1) == {"side"}
    assert codes(a, replace(b, wirings=(replace(only, done_s=60.0),))) == {"panel"}
    assert codes(a, replace(b, wirings=(replace(only, begin_s=0.0, done_s=120.0),))) == {"panel"}
    assert codes(a, replace(b, wirings=())) == {"circuits"}
    assert codes(a, replace(b, wirings=(only, replace(only, side=1)))) >= {"circuits"}
    assert codes(a, replace(b, wirings=(replace(only, servers=(0, 1)),))) == {"circuits"}
    assert codes(a, replace(b, wirings=(replace(only, circuits=3),))) == {"circuits"}
