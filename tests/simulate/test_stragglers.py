"""Steps on rails with a stage that lags behind: by hand, and by the checker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulate.test_switching import DENSE, EXPERTS, ON_DEMAND, PROVISIONED
from tests.support.switched_steps import fastest_step
from topoopt.core.switching import ImpairedStep, RailJob, SwitchedStep, SwitchMode
from topoopt.simulate.switching import straggler_figures
from topoopt.verify.llm_training.rail_steps import check_straggler


def slow(
    job: RailJob, delay_s: float, mode: SwitchMode, rank: int, slowdown: float
) -> tuple[SwitchedStep, ImpairedStep]:
    """The fastest plan of ports, and its step with a slow stage."""
    known, step = fastest_step(job, delay_s, mode)
    return step, straggler_figures(job, known, step, rank, slowdown)


@pytest.mark.parametrize(
    ("delay_s", "mode", "rank", "due"),
    [
        (0.4, PROVISIONED, 0, 11.25),  # forward to 2, back at 6, backward to 10, reduced by 11
        (0.4, PROVISIONED, 1, 11.25),  # there at 1.5, 6 of computing, back at 8, backward to 10, reduced by 11
        (0.4, ON_DEMAND, 1, 12.05),  # the two exposed switches
        (2.0, PROVISIONED, 0, 11.25),  # circuits are there at 1.75, before the slow pass ends
        (2.0, PROVISIONED, 1, 12.0),  # sent from 1.75, back at 8.75, the ring at 10.75 as the backward pass ends
    ],
)
def test_a_stage_twice_as_slow_by_hand(delay_s: float, mode: SwitchMode, rank: int, due: float) -> None:
    """The dense job: 11.25 on the electrical network, whichever of its two stages is slow."""
    _, found = slow(DENSE, delay_s, mode, rank, 2.0)
    assert found.step_s == pytest.approx(due)
    assert found.electrical_s == pytest.approx(11.25)


@pytest.mark.parametrize("job", [DENSE, EXPERTS])
@pytest.mark.parametrize("rank", [0, 1])
def test_the_checker_follows_slow_stages_too(job: RailJob, rank: int) -> None:
    """It agrees, and objects to other figures."""
    for delay_s, mode in ((0.4, PROVISIONED), (0.7, ON_DEMAND)):
        step, found = slow(job, delay_s, mode, rank, 1.3)
        assert check_straggler(job, step, 1.3, found) == ()
        assert check_straggler(job, step, 1.3, replace(found, step_s=found.step_s * 1.001))
        assert check_straggler(job, step, 1.3, replace(found, electrical_s=found.electrical_s * 0.999))
        assert check_straggler(job, step, 1.2, found)
