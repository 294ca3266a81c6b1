"""Steps on rails after interfaces failed: by hand, by the checker, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulate.test_switching import DENSE, EXPERTS, ON_DEMAND, PROVISIONED
from tests.support.cli_cases import run
from tests.support.paths import INSTANCES
from tests.support.switched_steps import fastest_step
from topoopt.core.switching import EVERY_STAGE, ImpairedStep, RailJob, SwitchedStep, SwitchMode
from topoopt.simulate.switching import failed_figures
from topoopt.verify.llm_training.rail_steps import check_failed


def broken(job: RailJob, delay_s: float, mode: SwitchMode, rank: int, left: float) -> tuple[SwitchedStep, ImpairedStep]:
    """The fastest plan of ports, and its step with a part of the interfaces left."""
    known, step = fastest_step(job, delay_s, mode)
    return step, failed_figures(job, known, step, rank, left)


@pytest.mark.parametrize(
    ("delay_s", "mode", "rank", "due"),
    [
        (0.0, PROVISIONED, 0, 10.25),  # sent by 2, backward to 5, sent by 6, backward to 8, reduced in 2
        (0.0, PROVISIONED, 1, 9.25),  # the same way, reduced in 1 by stage 0
        (0.4, ON_DEMAND, 0, 11.05),  # the two exposed switches
        (0.0, PROVISIONED, EVERY_STAGE, 10.25),
    ],
)
def test_half_of_the_interfaces_by_hand(delay_s: float, mode: SwitchMode, rank: int, due: float) -> None:
    """The dense job takes 8.25; hops of 0.5 take 1, gradients of 1 take 2."""
    _, found = broken(DENSE, delay_s, mode, rank, 0.5)
    assert found.step_s == pytest.approx(due)
    assert found.electrical_s == pytest.approx(due - (0.8 if mode == ON_DEMAND else 0.0))


@pytest.mark.parametrize("job", [DENSE, EXPERTS])
@pytest.mark.parametrize("rank", [EVERY_STAGE, 0, 1])
def test_the_checker_follows_failures_too(job: RailJob, rank: int) -> None:
    """It agrees, and objects to other figures; nothing failed is the step itself."""
    for delay_s, mode in ((0.4, PROVISIONED), (0.7, ON_DEMAND)):
        step, found = broken(job, delay_s, mode, rank, 0.75)
        assert found.step_s >= step.step_s
        assert check_failed(job, step, 4, 1, found) == ()
        assert check_failed(job, step, 4, 1, replace(found, step_s=found.step_s * 1.001))
        assert check_failed(job, step, 4, 1, replace(found, electrical_s=found.electrical_s * 0.999))
        assert check_failed(job, step, 4, 2, found)
        assert broken(job, delay_s, mode, rank, 1.0)[1].step_s == step.step_s


def test_options() -> None:
    """At least one interface of a server is left; other kinds have no rails."""
    file = INSTANCES / "tiny-8.yaml"
    refused = run("reconfigure", file, "--set", "failed=1", "--json")
    assert refused.code == 2
    assert "for training jobs only" in refused.stdout + refused.stderr


def test_a_study_with_failures(tmp_path: Path) -> None:
    """A job of one strategy: all places in the JSON object, words and page say the worst."""
    file = tmp_path / "job.yaml"
    text = (INSTANCES / "llm-training" / "rails-32.yaml").read_text()
    pinned = "strategy: {tensor: 4, pipeline: 2, data: 4, micro_batch: 2, zero: 1, schedule: 1f1b, recompute: none}\n"
    begin, end = text.index("strategy:"), text.index("switching:")
    file.write_text(text[:begin] + pinned + text[end:])
    page = tmp_path / "page.html"
    told = run("reconfigure", file, "--delays", "3ms", "--set", "failed=1", "--output", page, "--json")
    assert told.code == 0, told.stderr
    rails = json.loads(told.stdout)["rails"]
    assert [one["rank"] for one in rails["failures"]] == [EVERY_STAGE, 0, 1]
    assert all(rails["shown"]["step_s"] <= one["step_s"] for one in rails["failures"])
    assert rails["failed"] == 1
    assert "1 whole rail dead" in page.read_text()
    refused = run("reconfigure", file, "--delays", "3ms", "--set", "failed=4", "--json")
    assert refused.code == 2
    assert "no interface of the server would be left" in refused.stdout + refused.stderr
