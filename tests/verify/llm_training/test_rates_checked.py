"""Rates of families beside schedules of AllReduces: derived from the file, whatever rates the file states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from solvers.llm_training import evaluation, plan
from tests.support.llm_plans import with_fabric, with_network
from tests.support.valid_solutions import written
from topoopt.core.collective import GroupSchedule
from topoopt.core.errors import InputError
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import FabricPlan, GroupReduction
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.proofs import Status
from topoopt.core.result import Decides, Result
from topoopt.kinds.files import converted
from topoopt.kinds.pipeline import solve
from topoopt.verify.checker import BeyondWorkError, CheckDepth, ViolationLog, WorkBudget
from topoopt.verify.llm_training.check import check_llm_training
from topoopt.verify.llm_training.networks import FamilySeconds, in_pieces, network_rates, part_kept

STATED = Path(__file__).parents[4] / "shared" / "data" / "false_claims" / "stated_rates"

CASES = [
    (fabric, context, pipeline)
    for fabric in ("random-regular", "torus-2d", "direct-connect")
    for context, pipeline in ((2, 2), (2, 4), (4, 2))
]
"""Fabrics, and families that send at the same time as stages do."""


@cache
def problem_of(fabric: str, context: int, pipeline: int) -> LlmTrainingProblem:
    """Eight servers of one GPU, whose links are slow."""
    problem = written(f"""{{schema_version: 1, kind: llm-training, name: case,
      model: {{layers: 8, hidden: 1024, ffn_hidden: 4096, heads: 16, kv_heads: 4, vocabulary: 32000}},
      batch: {{sequences: 32, length: 2048}},
      cluster: {{servers: 8, gpus_per_server: 1, device: a100, gpu_memory_gib: 80, intra_server_gbps: 2400,
                 degree: 4, interfaces: per-server, link_gbps: 12.5, message_latency_us: 2, hop_latency_us: 1}},
      strategy: {{tensor: 1, context: {context}, pipeline: [{pipeline}], zero: 0, micro_batch: 1}},
      overlap: {{pipeline: true, data: true}}, fabrics: [{fabric}],
      search: {{top: 1, allreduce: best, rank_map: in-order}}}}""")
    assert isinstance(problem, LlmTrainingProblem)
    return problem


@cache
def solved(fabric: str, context: int, pipeline: int) -> Result[Any, Any]:
    """As the product solves it."""
    found = solve(problem_of(fabric, context, pipeline))
    assert isinstance(found, Result)
    return found


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_claimed_of_an_honest_solution(case: tuple[str, int, int]) -> None:
    """Every rate is derived."""
    check = solved(*case).check
    assert check.violations == ()
    assert check.claimed == ()
    assert check.not_recomputed == ()


@pytest.mark.parametrize("case", CASES)
def test_families_that_are_said_to_share_nothing_are_refused(
    case: tuple[str, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole solution made with the rates alone, so that all its figures agree with each other."""
    honest = solved(*case)
    for module in (evaluation, plan):
        monkeypatch.setattr(module, "shared_rates", lambda problem, strategy, loads, rates: rates)
    forged = solve(problem_of(*case))
    assert isinstance(forged, Result)
    assert forged.objective.value < honest.objective.value * (1 - 1e-6)
    assert forged.status is Status.UNKNOWN
    assert {text.split(":")[0] for text in forged.check.violations} == {"objective"}


def test_the_figures_of_each_family_are_those_of_the_checker() -> None:
    """Bytes, rates alone and beside others, hops, what they reduce on."""
    problem = problem_of("torus-2d", 2, 4)
    figures = solved("torus-2d", 2, 4).figures.fabrics[0]
    sound = network_rates(ViolationLog(), problem, figures.plan, WorkBudget())
    assert sound is not None
    loads, alone, shared, _ = sound
    assert {load.dimension for load in figures.loads} == set(loads)
    for load in figures.loads:
        family, own = load.dimension, loads[load.dimension]
        assert load.gbytes_per_s == pytest.approx(alone[family] / 1e9, rel=1e-9)
        assert load.shared_gbytes_per_s == pytest.approx(shared[family] / 1e9, rel=1e-9)
        assert (load.hops, load.method, load.rounds) == (own.hops, own.method, own.rounds)


def _with(outcome: FabricPlan, **changes: Any) -> FabricPlan:
    return with_network(outcome, **changes)


def _codes(problem: LlmTrainingProblem, outcome: FabricPlan, budget: WorkBudget | None = None) -> set[str]:
    findings = ViolationLog()
    network_rates(findings, problem, outcome, budget or WorkBudget())
    return {violation.code for violation in findings.violations()}


def test_the_file_of_the_false_claim_is_refused() -> None:
    """Of format 2, whose figures do not hold any more; the claim itself is forged anew above, from (torus-2d, 2, 4)."""
    if not STATED.is_dir():
        pytest.skip(f"{STATED} is not there")
    with pytest.raises(InputError, match="new time model"):
        converted(STATED / "lie.json", STATED / "instance.yaml", CheckDepth())


def test_what_is_kept_beside_another_family() -> None:
    """By hand: what both load rises until it is full; who waits half of its time fills half of a link."""
    whole, half = FamilySeconds({(0, 1): 1.0}, 1.0, 1), FamilySeconds({(0, 1): 1.0}, 1.0, 1, waits=1.0)
    apart = FamilySeconds({(1, 0): 1.0}, 1.0, 1)
    both = FamilySeconds({(0, 1): 0.5, (1, 0): 1.0}, 1.0, 1)
    for one, other, part in (
        (whole, whole, 1 / 2),
        (half, whole, 2 / 3),  # 3/2 of the link together
        (whole, half, 2 / 3),
        (half, half, 1.0),
        (half, apart, 1.0),
        (both, apart, 1 / 2),
        (apart, both, 1 / 2),
        (both, whole, 2 / 3),
        (whole, both, 2 / 3),
    ):
        assert part_kept(one, other) == pytest.approx(part)
    # The second is stopped at a half by the third's link, the first goes on until its link is full.
    assert part_kept(FamilySeconds({(0, 1): 1.0, (1, 0): 0.0}, 1.0, 1), both) == pytest.approx(2 / 3)


@pytest.mark.parametrize("pieces", [1, 2, 3, 5])
def test_pieces_follow_a_step_behind_each_other(pieces: int) -> None:
    """Sums of the table moved by so many steps."""
    units = np.array([[3, 0, 2], [0, 7, 1]])
    due = np.zeros((2, 3 + pieces - 1), dtype=np.int64)
    for late in range(pieces):
        due[:, late : late + 3] += units
    assert in_pieces(units, pieces).tolist() == due.tolist()


def _schedules(outcome: FabricPlan, change: Callable[[GroupSchedule], GroupSchedule]) -> FabricPlan:
    made = tuple(
        replace(own, groups=tuple(GroupReduction.of(change(one)) for one in own.schedules))
        for own in outcome.network.schedules
    )
    return _with(outcome, schedules=made)


def _sends(change: Callable[[str, Any], Any]) -> Callable[[GroupSchedule], GroupSchedule]:
    def changed(one: GroupSchedule) -> GroupSchedule:
        own = one.schedule.sends
        sends = type(own)(*(change(name, getattr(own, name)) for name in own.__dataclass_fields__))
        return replace(one, schedule=replace(one.schedule, sends=sends))

    return changed


def _units(one: GroupSchedule) -> GroupSchedule:
    blocks = one.schedule.blocks
    return replace(one, schedule=replace(one.schedule, blocks=replace(blocks, units=blocks.units * (1 << 58))))


PADDED: dict[str, Callable[[GroupSchedule], GroupSchedule]] = {
    "a message twice": _sends(lambda name, column: np.append(column, column[-1:])),
    "a message less": _sends(lambda name, column: column[:-1]),
    "a step of nothing": _sends(lambda name, column: column + 1 if name == "step" else column),
    "a late last step": _sends(lambda name, column: column * 1_000_000 if name == "step" else column),
    "a route that none takes": lambda one: replace(
        one, schedule=replace(one.schedule, routes=(*one.schedule.routes, one.schedule.routes[0]))
    ),
    "more units than can be counted": _units,
    "no pieces": lambda one: replace(one, pieces=0),
}


def _scheduled() -> tuple[LlmTrainingProblem, FabricPlan]:
    """One whose gradients are reduced on schedules."""
    problem, outcome = problem_of("random-regular", 2, 2), solved("random-regular", 2, 2).plan.fabrics[0]
    assert [own.dimension for own in outcome.network.schedules] == [F.DATA]
    return problem, outcome


@pytest.mark.parametrize("change", PADDED)
def test_padded_schedules_are_refused_before_they_are_executed(change: str) -> None:
    """Whatever no group needs; no work is done, and none is left out."""
    problem, outcome = _scheduled()
    findings = ViolationLog()
    network_rates(findings, problem, _schedules(outcome, PADDED[change]), WorkBudget(0))
    assert {violation.code for violation in findings.violations()} == {"schedules"}
    assert not findings.left_out


def test_a_message_in_place_of_another_is_found_by_executing() -> None:
    """As many as are due, one of them twice."""
    problem, outcome = _scheduled()
    twice = _sends(lambda name, column: np.append(column[:-1], column[-2:-1]))
    assert any(code.startswith("schedule-") for code in _codes(problem, _schedules(outcome, twice)))


@pytest.mark.parametrize("pieces", [None, 10**9])
def test_schedules_beyond_the_work_of_a_check_leave_the_value_claimed(pieces: int | None) -> None:
    """By a small limit, and by pieces that no memory holds."""
    problem, outcome = _scheduled()
    wide = _schedules(outcome, lambda one: one if pieces is None else replace(one, pieces=pieces))
    with pytest.raises(BeyondWorkError):
        network_rates(ViolationLog(), problem, wide, WorkBudget(1) if pieces is None else WorkBudget())
    solution = with_fabric(solved("random-regular", 2, 2), 0, wide)
    findings = check_llm_training(problem, solution, CheckDepth(events=200) if pieces is None else CheckDepth())
    assert "the plan" in {one.figure for one in findings.not_recomputed if one.decides is Decides.VALUE}
