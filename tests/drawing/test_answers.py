"""The sentence that begins the terminal, the JSON object and the page: from numbers, for every kind and question."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.cli_cases import run
from tests.support.gallery import QUESTIONS, said_of
from tests.support.paths import INSTANCES
from tests.support.shared_cases import fat_tree
from tests.support.smallest import SMALLEST, problem_of, solution_of
from topoopt.analyses.resilience.report import answer as failures_answer
from topoopt.analyses.resilience.report import faster_text
from topoopt.core.network import NetworkProblem, RoutingPlan
from topoopt.core.outcomes import Failure, FailureOutcome, Resilience
from topoopt.core.proofs import Argument, Bound, Status
from topoopt.core.result import CheckResult, Objective
from topoopt.kinds import KINDS, kind_of
from topoopt.page.text import by_how_much, compared, full, possible_improvement, rejection


def answer_of(solution: Any) -> str:
    """The sentence of a solution."""
    return kind_of(solution).pages().answer(solution)


def flat(text: str) -> str:
    """Without the ends of lines of a terminal."""
    return " ".join(text.split())


def is_a_sentence(text: str) -> bool:
    """One line that ends in a full stop, the only one that a space follows."""
    return text.endswith(".") and "\n" not in text and not re.search(r"[.!?] ", text)


def test_every_kind_is_among_the_cases() -> None:
    """So that what follows is about each of them, those to come included."""
    assert {problem_of(case).kind for case in SMALLEST} == set(KINDS)


@pytest.mark.parametrize("case", SMALLEST)
def test_an_answer_begins_report_and_notebook(case: str) -> None:
    """One sentence with a figure, before the first section."""
    solution = solution_of(case)
    said = answer_of(solution)
    assert is_a_sentence(said)
    assert re.search(r"\d", said)
    page = kind_of(solution).pages().report(solution)
    shown = re.search(r'<p class="answer">(.*?)</p>', page, re.DOTALL)
    assert shown is not None
    assert flat(re.sub(r"<[^>]*>", "", shown.group(1))).startswith(said)  # what is only claimed follows
    assert shown.start() < page.index("<section")
    assert said in solution._repr_html_()


@pytest.mark.parametrize("case", SMALLEST)
def test_what_the_checker_rejects_answers_nothing(case: str) -> None:
    """No figure of such a plan is told as if it were true."""
    wrong = replace(solution_of(case), check=CheckResult(False, ("a link is missing",)))
    assert answer_of(wrong) == "The independent check rejects this result (1 violation): its figures prove nothing."


def test_an_answer_begins_the_terminal(tmp_path: Path) -> None:
    """The same sentence in the terminal, before all else, and in the JSON object."""
    command = ("solve", INSTANCES / "networks" / "k4-4.yaml", "--output", tmp_path, "--force")
    said = "The demand does not fit: the busiest link would need 250 % of its capacity"
    assert flat(run(*command).stdout).startswith(said)
    assert run(*command, "--json").json["answer"].startswith(said)


@pytest.mark.parametrize("name", QUESTIONS)
def test_further_questions_begin_with_their_answer(name: str, tmp_path: Path) -> None:
    """In the JSON object, in the terminal, and on the page."""
    said, printed = said_of(name, tmp_path)
    assert said.endswith(".")
    # Wall-clock times differ from run to run.
    assert flat(printed)[:40] == flat(said)[:40]
    assert re.search(r"\d", said)


def test_times_are_compared_in_words() -> None:
    """Factors on the side that is larger than 1; half a percent is level."""
    assert compared(50.0, 80.0) == ("1.60× faster", "1.60× faster than")
    assert compared(80.0, 50.0) == ("1.60× slower", "1.60× slower than")
    assert compared(100.0, 100.4) == ("equal", "as fast as")
    assert compared(0.0, 1.0) == ("–", "not comparable with")
    assert by_how_much(1.004) == "0.4 %"
    assert by_how_much(1.25) == "1.25×"


@pytest.mark.parametrize(
    ("value", "text"), [(2.04, "204 %"), (9.0, "900 %"), (0.5964, "59.6 %"), (1.0, "100 %"), (1.0004, "100.04 %")]
)
def test_utilisations_never_read_as_full_when_they_are_not(value: float, text: str) -> None:
    """Three digits, and more where they would hide an excess."""
    assert full(value) == text


def test_room_is_what_is_proven() -> None:
    """Nothing better where it is optimal, the bound's factor where it is not, nothing where there is no bound."""
    plain = replace(
        solution_of("routing"), objective=Objective("theta", 5.0, ""), bound=Bound(4.0, Argument.LAYERED_MOORE)
    )
    opened = replace(plain, status=Status.FEASIBLE)
    assert possible_improvement(plain, "plan", "faster") == "no plan is faster (proven)"
    assert possible_improvement(opened, "plan", "faster") == "no plan can be more than 1.25× faster (proven)"
    nothing = replace(opened, bound=Bound(0.0, Argument.LAYERED_MOORE))
    assert possible_improvement(nothing, "plan", "faster") == "how much faster another plan could be is not known"
    upper = replace(opened, objective=Objective("algbw", 5.0, "GB/s"), bound=Bound(5.2, Argument.LAYERED_MOORE))
    assert possible_improvement(upper, "plan", "better") == "no plan can be more than 4.0 % better (proven)"
    claimed = replace(opened, bound=replace(opened.bound, derived=False))
    assert (
        possible_improvement(claimed, "plan", "faster")
        == "no plan can be more than 1.25× faster (claimed, not verified)"
    )
    assert rejection(CheckResult(True, ())) == ""


def test_networks_say_whether_the_demand_fits() -> None:
    """Theta above 1 does not fit, and 1/theta of it does; Gbit/s where the rate of a link is known."""
    base = replace(solution_of("routing"), status=Status.FEASIBLE, bound=Bound(1.7, Argument.LAYERED_MOORE))

    def loaded(*thetas: float) -> RoutingPlan:
        (flow,) = base.plan.flows
        return RoutingPlan(flows=tuple(replace(flow, flow=flow.flow * t / base.figures.theta) for t in thetas))

    def said(theta: float, problem: NetworkProblem = base.problem, **changes: Any) -> str:
        objective = Objective("theta", theta, "")
        return answer_of(replace(base, plan=loaded(theta), objective=objective, problem=problem, **changes))

    assert said(2.04) == (
        "The demand does not fit: the busiest link would need 204 % of its capacity, so 49 % of the demand fits; "
        "no routing over these links can carry more than 1.20× as much (proven)."
    )
    assert "would need 204 % of its capacity (204.0 of 100.0 Gbit/s), so 49 %" in said(
        2.04, replace(base.problem, link_gbps=100.0)
    )
    assert said(0.5, bound=Bound(0.48, Argument.LAYERED_MOORE)) == (
        "The demand fits: the busiest link is 50 % full, and 2.00× as much would fit; "
        "no routing over these links can carry more than 4.2 % more (proven)."
    )
    assert "the busiest link is 100 % full; " in said(1.0, bound=Bound(0.9, Argument.LAYERED_MOORE))
    assert "no routing over these links carries more (proven)" in said(2.0, status=Status.OPTIMAL)
    two = replace(base.problem, demand=np.stack([base.problem.demand] * 2), routing="adapted")
    several = replace(base, plan=loaded(0.25, 0.5), objective=Objective("worst-theta", 0.5, ""), problem=two)
    assert answer_of(several).startswith("The worst of 2 demands fits: the busiest link is 50 % full, and 2.00×")


def test_topologies_for_a_demand_without_unit_have_a_score() -> None:
    """Nothing fits or does not fit; with a rate of the links it does."""
    best = solution_of("topology")
    assert answer_of(best) == ("Theta 3.000; no network of these servers and interfaces is below it (proven).")
    opened = replace(best, status=Status.FEASIBLE, bound=Bound(2.5, Argument.LAYERED_MOORE))
    assert answer_of(opened) == "Theta 3.000; no network is below 2.500 (proven)."
    nothing = replace(opened, bound=Bound(0.0, Argument.LAYERED_MOORE))
    assert answer_of(nothing) == "Theta 3.000; nothing is proven of other networks."
    assert "does not fit" in answer_of(replace(opened, problem=replace(best.problem, link_gbps=100.0)))


def test_answers_of_the_other_kinds() -> None:
    """Known optima: five at 50 Gbit/s on a line of shared links; fixed sums of the figures of the others."""
    assert answer_of(solution_of("allocation")) == (
        "5 transfers share 250.0 Gbit/s: the slowest gets 50.00 Gbit/s; no allocation is better (proven)."
    )
    placed = solution_of("placement")
    slow = replace(placed, objective=Objective("max_load", 12.0, "ms"), bound=replace(placed.bound, value=10.0))
    slow = replace(slow, status=Status.FEASIBLE)
    assert answer_of(slow) == (
        "The pipeline finishes a micro-batch every 12.00 ms on 3 of 3 devices; "
        "no placement on these devices can be more than 1.20× faster (proven)."
    )
    split = solution_of("hierarchical-bandwidth")
    figures = split.figures
    gain = figures.equal_time_ns / figures.time_ns
    assert re.match(
        rf"One iteration takes [\d.]+ \S+ on a network of .* USD, {gain:.2f}× faster than the same bandwidth split "
        r"equally with .*× the performance per cost; ",
        answer_of(split),
    )
    shared = solution_of("shared-cluster")
    first = shared.plan.schedules[0]
    arrival = shared.figures.jobs.arrival_s[first.job]
    problem = replace(shared.problem, fabrics=(shared.problem.fabrics[0], fat_tree("tree")))
    later = replace(first, end_s=arrival + 2.5 * (first.end_s - arrival))

    def both(second: Any) -> Any:
        return replace(shared, problem=problem, plan=replace(shared.plan, schedules=(first, second)))

    assert ", on average, 2.50× faster than on tree; " in answer_of(both(later))
    alone = replace(shared, problem=problem, plan=replace(shared.plan, schedules=(first,)))
    assert "than on" not in answer_of(alone).split(";")[0]
    cut = replace(later, unfinished=later.job[:1], cut_s=float(later.end_s.max()))
    assert "than on" not in answer_of(both(cut)).split(";")[0]


def test_a_failure_that_seems_to_help_is_explained() -> None:
    """A slow-down below 1 says that the plan's own routes are not the best; none is told where none is below."""

    def study(value: float) -> Resilience:
        outcome = FailureOutcome(Failure(((0, 1),), (), ()), 0, 2, 1.5, 0, 0, 0, value, "rebalance")
        return Resilience("job", "co-optimisation", "iteration_time", "ms", 10.0, links=(outcome,))

    assert failures_answer(study(9.0)) == (
        "After the best repair the worst failure of one link leaves the time 10.0 % below that of the plan, whose own "
        "routes are not the best."
    )
    assert faster_text(study(9.0)).startswith("A slow-down below 1 (1 failure): a failure cannot help; ")
    assert failures_answer(study(15.0)) == (
        "After the best repair the worst failure of one link raises the time to 1.50× (link 0-1)."
    )
    assert "raises the time by 4.0 %" in failures_answer(study(10.4))
    assert faster_text(study(10.4)) == ""
