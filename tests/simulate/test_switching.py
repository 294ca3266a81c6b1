"""Steps whose circuits are set anew inside them: cases by hand, bounds by enumeration, the checker on both."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace
from typing import get_args

import pytest

from solvers.stop import Stop
from solvers.switching import fastest_ports
from topoopt.core.parallelism import PipelineSchedule
from topoopt.core.switching import (
    Boundary,
    PortSplit,
    PortUse,
    RailExchange,
    RailJob,
    StagePorts,
    SwitchedStep,
    SwitchMode,
    changes_of,
)
from topoopt.simulate.switching import (
    RailShares,
    electrical_s,
    events_of,
    exchange_share,
    follow,
    hop_share,
    plans_of,
    rail_orders,
    ring_share,
    same_delay,
)
from topoopt.verify.checker import ViolationLog
from topoopt.verify.llm_training import rail_steps as check
from topoopt.verify.llm_training.rails import Follower, all_plans

DENSE = RailJob(
    schedule=PipelineSchedule.ONE_F_ONE_B,
    ranks=2,
    chunks=1,
    micro_batches=1,
    forward_s=(1.0, 1.0),
    inputs_s=(2.0, 2.0),
    weights_s=(0.0, 0.0),
    exchange=None,
    inside=None,
    hop_s=(0.0, 0.5),
    layers=(1, 1),
    reduced_s=(1.0, 1.0),
    gathered_s=(0.0, 0.0),
    optimizer_s=0.25,
    blocking=False,
    overlapped=True,
    data_servers=4,
    expert_servers=1,
    ports=2,
    circuit_share=1.0,
)
"""Forward 0-1, sent by 1.5, forward 1.5-2.5, backward to 4.5, sent by 5, backward to 7, reduced by 8, step by 8.25."""

TOKENS = RailExchange((1.0, 1.0), 0.0, 0.0, 0.25, 0.5)
EXPERTS = replace(
    DENSE,
    exchange=(TOKENS, TOKENS),
    inside=PortUse.EXPERT,
    reduced_s=(0.0, 0.0),
    optimizer_s=0.0,
    data_servers=1,
    expert_servers=4,
)
"""Forward 0-2, sent by 2.5, forward to 4.5, backward to 7.5, sent by 8, backward to 11."""

ON_DEMAND, PROVISIONED = "on-demand", "provisioned"


def step_s(job: RailJob, delay_s: float, mode: SwitchMode) -> float:
    """Of the fastest plan."""
    found = fastest_ports(job, rail_orders(job), delay_s, mode, Stop())
    assert found is not None
    _, step_s, bound_s = found
    assert bound_s <= step_s
    return step_s


@pytest.mark.parametrize(
    ("job", "delay_s", "mode", "due"),
    [
        (DENSE, 0.0, ON_DEMAND, 8.25),
        (DENSE, 0.4, PROVISIONED, 8.25),  # behind the optimizer and the first pass, and behind the last one
        (DENSE, 2.0, PROVISIONED, 9.0),  # circuits between stages at -0.25 + 2, 0.75 after the first pass
        (DENSE, 3.0, PROVISIONED, 11.0),  # 1.75 of the first; the last backward pass ends 8.75, the ring is there 9.75
        (DENSE, 0.4, ON_DEMAND, 9.05),  # two exposed switches: before the first hop, and before gradients are reduced
        (EXPERTS, 0.0, PROVISIONED, 11.0),
        (EXPERTS, 0.4, PROVISIONED, 11.95),  # whole behind the first pass, 0.15 behind a head of 0.25, whole at last
        (EXPERTS, 0.4, ON_DEMAND, 12.6),  # four exposed
    ],
)
def test_steps_by_hand(job: RailJob, delay_s: float, mode: SwitchMode, due: float) -> None:
    assert step_s(job, delay_s, mode) == pytest.approx(due, rel=1e-12)


def test_electrical_network_by_hand() -> None:
    assert electrical_s(DENSE, rail_orders(DENSE)) == pytest.approx(8.25, rel=1e-12)
    assert electrical_s(EXPERTS, rail_orders(EXPERTS)) == pytest.approx(11.0, rel=1e-12)


def test_two_servers_a_stage_need_no_switching() -> None:
    """One port to the other stage, one to the other replica: split for good, at any delay."""
    job = replace(DENSE, data_servers=2)
    found = fastest_ports(job, rail_orders(job), 1000.0, ON_DEMAND, Stop())
    assert found is not None
    assert found[1] == pytest.approx(8.25, rel=1e-12)
    assert all(one.kept for one in found[0])


def test_slow_circuits_make_the_split_a_matter_of_the_delay() -> None:
    """Four ports of half the rate: a split for good reduces with one ring, which passes both ways at full rate."""
    job = replace(DENSE, ports=4, circuit_share=0.25)
    # All ports: a hop over four circuits takes 0.5, both rings give the whole rate. Split for good: a hop over two
    # circuits takes 1 s twice, and a ring half the rate: 2 s more for the first stage's gradients.
    assert step_s(job, 0.0, ON_DEMAND) == pytest.approx(8.25, rel=1e-12)
    assert step_s(job, 10.0, ON_DEMAND) == pytest.approx(1 + 1 + 1 + 2 + 1 + 2 + 2 + 0.25, rel=1e-12)
    assert step_s(job, 0.1, ON_DEMAND) == pytest.approx(8.45, rel=1e-12)


@pytest.mark.parametrize(
    ("servers", "ports", "due"),
    [(2, 1, 1.0), (2, 2, 1.0), (4, 2, 1.0), (8, 2, 14 / 16), (16, 2, 30 / 64), (8, 4, 1.0)],
)
def test_exchange_on_a_ring(servers: int, ports: int, due: float) -> None:
    """All pairs of a ring sent the shorter way: the load of an arc counted one pair after the other."""
    assert exchange_share(servers, ports, 1.0) == pytest.approx(due, rel=1e-12)
    if servers > 2:
        load = [0.0] * (2 * servers)
        for source, target in itertools.permutations(range(servers), 2):
            ahead = (target - source) % servers
            for way, hops, part in ((0, ahead, ahead < servers - ahead), (1, servers - ahead, ahead > servers - ahead)):
                share = 0.5 if 2 * ahead == servers else float(part)
                for hop in range(hops):
                    at = (source + (hop if way == 0 else -1 - hop)) % servers
                    load[way * servers + at] += share / (servers - 1)
        assert min(1.0, ports // 2 / max(load)) == pytest.approx(due, rel=1e-12)


def test_rates_of_rings_and_hops() -> None:
    assert (ring_share(8, 2, 0.25), ring_share(2, 1, 0.25), ring_share(1, 0, 0.25)) == (0.5, 0.25, 1.0)
    assert (hop_share(2, 2, 0.5), hop_share(1, 2, 0.5), hop_share(0, 0, 0.5)) == (0.5, 1.0, 1.0)


def random_job(draw: random.Random) -> RailJob:
    """A small job with anything in it."""
    ranks = draw.choice([1, 2, 3, 4])
    names = PipelineSchedule
    schedules = [names.ONE_F_ONE_B, names.GPIPE, names.ZB_H1, names.ZB_2P]
    inside = draw.choice([None, None, PortUse.EXPERT, PortUse.DATA])

    def seconds() -> tuple[float, ...]:
        return tuple(draw.uniform(0.1, 2.0) for _ in range(ranks))

    exchange = tuple(
        RailExchange(
            (draw.random(), draw.random()), draw.random(), 0.01, 0.05 * draw.random(), 0.05 * draw.random(),
            inside is PortUse.DATA,
        )
        for _ in range(ranks)
    )  # fmt: skip
    ends = 0.0 if inside is PortUse.DATA else 1.0
    return replace(
        DENSE,
        schedule=draw.choice(schedules) if ranks > 1 else schedules[0],
        ranks=ranks,
        micro_batches=draw.randint(1, 6),
        forward_s=seconds(),
        inputs_s=seconds(),
        weights_s=seconds(),
        exchange=None if inside is None else exchange,
        inside=inside,
        hop_s=(0.01, draw.random()),
        layers=tuple(draw.randint(1, 3) for _ in range(ranks)),
        reduced_s=tuple(ends * draw.random() for _ in range(ranks)),
        gathered_s=tuple(ends * draw.choice([0.0, 0.1]) for _ in range(ranks)),
        blocking=draw.random() < 0.3,
        overlapped=draw.random() < 0.5,
        data_servers=draw.choice([2, 4]) if inside is PortUse.DATA else draw.choice([1, 2, 4]),
        expert_servers=draw.choice([2, 4, 8]) if inside is PortUse.EXPERT else 1,
        ports=draw.choice([2, 3, 4]),
        circuit_share=draw.choice([1.0, 0.5, 0.25]),
    )


def test_the_search_finds_what_enumeration_does_and_the_checker_agrees() -> None:
    draw = random.Random(17)
    switched, proven = 0, 0
    for _ in range(30):
        job, delay_s, mode = random_job(draw), draw.choice([0.0, 0.05, 0.7]), draw.choice(get_args(SwitchMode))
        known, menus = rail_orders(job), [plans_of(job, rank) for rank in range(job.ranks)]
        assert [set(menu) for menu in menus] == [set(all_plans(job, rank)) for rank in range(job.ranks)]
        found = fastest_ports(job, known, delay_s, mode, Stop())
        if found is None:  # ports in turn, where greedy rounds let neighbours send to each other at once
            assert job.schedule is PipelineSchedule.ZB_2P
            for plan in itertools.product(*menus):
                with pytest.raises(ValueError, match="wait for each other"):
                    Follower(job, plan, delay_s, demand=mode == ON_DEMAND).step()
            continue
        fastest, step_s, bound_s = found
        assert 0.95 * step_s < bound_s <= step_s
        proven += bound_s > step_s * (1 - 1e-9)
        plans = list(itertools.product(*menus))
        demand = mode == ON_DEMAND
        times = [Follower(job, plan, delay_s, demand=demand).step() for plan in plans[:: 1 + len(plans) // 20]]
        assert step_s <= min(times) * (1 + 1e-9)
        step = switched_step(job, fastest, delay_s, mode, bound_s)
        log = ViolationLog()
        check.check_step(log, job, step)
        assert log.clean, (log.shown, job)
        switched += step.switches > 0
    assert switched > 10
    assert proven > 25


def test_ports_are_set_when_the_checker_has_them_set() -> None:
    """On drawn jobs and plans of ports."""
    draw = random.Random(5)
    seen: Counter[Boundary] = Counter()
    for _ in range(80):
        job, delay_s, mode = random_job(draw), draw.choice([0.0, 0.05, 0.7]), draw.choice(get_args(SwitchMode))
        for _ in range(4):
            plan = tuple(draw.choice(plans_of(job, rank)) for rank in range(job.ranks))
            try:
                followed = Follower(job, plan, delay_s, demand=mode == ON_DEMAND)
                followed.step()
            except ValueError:  # passes wait for each other
                continue
            step = switched_step(job, plan, delay_s, mode, 0.0)
            changes = changes_of(step.events)
            seen.update(one.boundary for one in changes)
            expected = sorted(followed.changes)
            rows = sorted((one.rank, one.boundary, one.after, one.begin_s) for one in changes)
            assert [row[:3] for row in rows] == [row[:3] for row in expected], (job, plan, delay_s, mode)
            assert [row[3] for row in rows] == pytest.approx([row[3] for row in expected], rel=1e-6, abs=1e-9)
    assert min(seen[boundary] for boundary in get_args(Boundary)) > 10


def switched_step(
    job: RailJob, plan: tuple[StagePorts, ...], delay_s: float, mode: SwitchMode, bound_s: float
) -> SwitchedStep:
    """With its events."""
    known, shares, delays = rail_orders(job), RailShares.of(job, plan), same_delay(delay_s)
    step = follow(job, known, shares, plan, delays, mode)
    at_once = follow(job, known, shares, plan, same_delay(0.0), mode).step_s
    events = events_of(job, known, plan, delays, step)
    count = sum(one.what == "switch" for one in events)
    electrical = electrical_s(job, known)
    return SwitchedStep(mode, delay_s, plan, step.step_s, electrical, bound_s, count, step.step_s - at_once, events)


def test_the_checker_finds_what_is_wrong() -> None:
    plan = (StagePorts(PortSplit(2), PortSplit(2), PortSplit(0, 2)),) * 2
    good = switched_step(DENSE, plan, 0.4, PROVISIONED, 8.25)

    def codes(step: SwitchedStep) -> set[str]:
        log = ViolationLog()
        check.check_step(log, DENSE, step)
        return {one.code for one in log.shown}

    assert codes(good) == set()
    assert codes(replace(good, step_s=8.2)) == {"figure", "bound"}
    assert codes(replace(good, bound_s=8.3)) == {"bound"}
    wide = StagePorts(PortSplit(2, 1), PortSplit(2, 1), PortSplit(0, 2))
    assert codes(replace(good, plan=(wide, wide))) == {"ports"}
    place = next(at for at, one in enumerate(good.events) if one.what == "switch")
    late = replace(good.events[place], begin_s=1.2, end_s=1.6)
    moved = (*good.events[:place], late, *good.events[place + 1 :])
    assert "dark" in codes(replace(good, events=moved))
    place = next(at for at, one in enumerate(good.events) if one.what == "send")
    early = replace(good.events[place], begin_s=0.9, end_s=1.4)
    moved = (*good.events[:place], early, *good.events[place + 1 :])
    assert "events" in codes(replace(good, events=moved))
    assert codes(replace(good, events=good.events[:place] + good.events[place + 1 :])) == {"events"}


def test_windows_of_the_boundaries() -> None:
    """1.25 s behind the step of the optimizer and the first pass; 2 s behind the last hop."""
    plan = (StagePorts(PortSplit(2), PortSplit(2), PortSplit(0, 2)),) * 2
    known, shares = rail_orders(DENSE), RailShares.of(DENSE, plan)
    for boundary, window in (("data-to-pipeline", 1.25), ("pipeline-to-data", 2.0)):
        inside, beyond = (
            follow(DENSE, known, shares, plan, {**same_delay(0.0), boundary: window + more}, PROVISIONED).step_s
            for more in (0.0, 0.1)
        )
        assert inside == pytest.approx(8.25)
        assert beyond == pytest.approx(8.35)
