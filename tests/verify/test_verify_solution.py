"""The checker of jobs accepts an honest result and names what is wrong with any other; figures are those by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.job.strategy_program import prove
from tests.support.honest_solution import honest_figures, honest_solution
from tests.support.plan_bounds import best_bound
from tests.support.verify_cases import twelve_servers, with_arrays
from topoopt.core.cluster import LinkSharing
from topoopt.core.job import ComparedStrategy, CoOptimisation, JobPlan, OtherFabrics, strategy_certificate
from topoopt.core.proofs import Argument, Bound, Status
from topoopt.core.result import Certificate, Objective
from topoopt.core.workload import Strategy, StrategyCertificate
from topoopt.kinds.job.figures import JobFigures
from topoopt.kinds.job.methods import program_of
from topoopt.verify.checker import CheckDepth
from topoopt.verify.job.bounds import instance_bounds
from topoopt.verify.job.check import CHECKER, strategy_bound
from topoopt.verify.job.least_times import choices_of
from topoopt.verify.job.strategy_laws import strategy_laws

QUICK = CheckDepth(events=0)

INSTANCE, SOLUTION = honest_solution()


def planned(**changes):
    """The result with another plan."""
    return replace(SOLUTION, plan=replace(SOLUTION.plan, **changes))


def compared(*rows):
    """The result with these (fabric, strategy) compared."""
    return planned(comparison=OtherFabrics(0, "", tuple(ComparedStrategy(*row) for row in rows)))


def codes(solution, instance=INSTANCE):
    """The set of codes reported."""
    return {violation.code for violation in CHECKER(instance, solution, QUICK).violations}


def test_honest_solution_is_accepted():
    """Figures worked out by hand agree with those recomputed."""
    assert CHECKER(INSTANCE, SOLUTION).violations == ()


def test_figures_are_those_worked_out_by_hand():
    """Demand, link loads, bars and critical path of the simulator, none of which is stored."""
    own, figures = honest_figures(), JobFigures(INSTANCE, SOLUTION.plan)
    np.testing.assert_array_equal(figures.demand.model_parallel_bytes, own.model_parallel_bytes)
    assert [(group.members, group.payload_bytes) for group in figures.demand.allreduce] == [
        ((0, 1, 2, 3), own.group_bytes)
    ]
    assert figures.evaluation.link_bytes == pytest.approx(own.link_bytes)
    assert figures.operators == own.operators
    for made, by_hand in (
        (figures.evaluation.timeline, own.timeline),
        (figures.evaluation.critical_path, own.critical_path),
    ):
        assert sorted((s.lane, s.kind, s.label) for s in made) == sorted((s.lane, s.kind, s.label) for s in by_hand)
        ends = {(s.lane, s.kind, s.label, round(s.end_ms, 9)) for s in made}
        assert ends == {(s.lane, s.kind, s.label, round(s.end_ms, 9)) for s in by_hand}
    assert figures.objective.value == pytest.approx(SOLUTION.objective.value)


def slower(**changes):
    """The result at 100 ms, then changed."""
    return replace(replace(SOLUTION, objective=Objective("iteration_time", 100.0, "ms")), **changes)


def test_a_slow_time_passes_a_quick_check_alone():
    """Nothing contradicts a long iteration but the simulation, which a quick check leaves out and says so."""
    quick = CHECKER(INSTANCE, slower(), QUICK)
    assert quick.ok
    assert [left.figure for left in quick.not_recomputed] == ["iteration time"]
    full = CHECKER(INSTANCE, slower())
    assert {violation.code for violation in full.violations} == {"iteration-time"}
    assert full.not_recomputed == ()


@pytest.mark.parametrize(
    ("solution", "code"),
    [
        (replace(SOLUTION, name="five"), "identity"),
        (replace(SOLUTION, kind="placement"), "identity"),
        (replace(SOLUTION, instance_sha256="cd" * 32), "instance-sha256"),
        (replace(SOLUTION, objective=Objective("makespan", SOLUTION.objective.value, "ms")), "objective"),
        (replace(SOLUTION, objective=Objective("iteration_time", SOLUTION.objective.value, "us")), "objective"),
        (replace(SOLUTION, objective=Objective("iteration_time", float("nan"), "ms")), "bound"),
        (replace(SOLUTION, bound=replace(SOLUTION.bound, value=SOLUTION.bound.value * 1.0001)), "bound"),
        (replace(SOLUTION, bound=Bound(3.9, Argument.COMPUTE_WORK)), "bound"),
        (replace(SOLUTION, bound=Bound(float("nan"), Argument.COMPUTE_WORK)), "bound"),
        (replace(SOLUTION, bound=Bound(1.0, Argument.COMPUTE_WORK), status=Status.OPTIMAL), "status"),
        (replace(SOLUTION, status=Status.INFEASIBLE), "status"),
        (planned(link_sharing=LinkSharing.FAIR), "link-sharing"),
        (compared(("torus-2d", SOLUTION.plan.strategy)), "comparison"),
        (compared(*[("ideal-switch", SOLUTION.plan.strategy)] * 2), "comparison"),
        (compared(("fat-tree", SOLUTION.plan.strategy), ("ideal-switch", SOLUTION.plan.strategy)), "comparison"),
        (compared(("ideal-switch", Strategy(()))), "comparison"),
        (planned(rings=()), "ring-missing"),
        (planned(topology=with_arrays(SOLUTION.plan.topology, degree=3)), "topology-cluster"),
    ],
)
def test_what_is_wrong_is_named(solution, code):
    """Whatever a result states is held against instance and plan."""
    assert code in codes(solution)


def test_fabrics_of_the_instance_may_be_compared():
    """With a legal strategy; their times follow, and are not checked."""
    assert codes(compared(("ideal-switch", SOLUTION.plan.strategy), ("fat-tree", SOLUTION.plan.strategy))) == set()


def test_beating_a_bound_is_an_error_with_the_bound_named():
    """3.74 ms is consistent in itself, but table and layer cannot run in less than 3.75 ms."""
    fast = replace(
        SOLUTION,
        objective=Objective("iteration_time", 3.74, "ms"),
        bound=Bound(1.0, Argument.COMPUTE_WORK),
    )
    violations = [violation for violation in CHECKER(INSTANCE, fast).violations if violation.code == "bound"]
    assert violations
    assert any("critical path" in violation.message for violation in violations)


def test_a_plan_just_above_the_free_bound_is_held_against_its_own_bound():
    """Split in four, the transfers of this plan cannot be hidden, though another plan might have none."""
    lowest = max(bound.value for bound in instance_bounds(INSTANCE.cluster, INSTANCE.workload))
    assert lowest <= 3.75
    value = 3.75 * (1 + 1e-7)
    fast = replace(SOLUTION, objective=Objective("iteration_time", value, "ms"))
    violation = next(each for each in CHECKER(INSTANCE, fast).violations if each.code == "bound")
    assert "traffic" in violation.message or "bytes" in violation.message


def test_optimal_solutions_match_their_bound():
    """A one-operator job that reaches the bound may be called optimal."""
    found = best_bound(INSTANCE.cluster, INSTANCE.workload)
    claimed = replace(SOLUTION, status=Status.OPTIMAL, bound=replace(found, value=SOLUTION.objective.value))
    assert "bound" in codes(claimed)


junk = st.one_of(st.none(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=3), st.just(()), st.just({}))


@settings(max_examples=150)
@given(
    st.sampled_from(
        [
            ("objective", "value"),
            ("bound", "value"),
            ("plan", "strategy"),
            ("plan", "topology"),
            ("plan", "routes"),
            ("plan", "rings"),
            ("plan", "schedules"),
            ("plan", "link_sharing"),
            ("plan", "comparison"),
            *((None, name) for name in ("plan", "objective", "bound", "status", "certificates", "instance_sha256")),
        ]
    ),
    junk,
)
def test_junk_in_any_field_is_a_violation(where, value):
    """A field of any type is reported, never raised (no schedules and no comparison are fine)."""
    part, name = where
    if part is None:
        broken = replace(SOLUTION, **{name: value})
    else:
        broken = replace(SOLUTION, **{part: replace(getattr(SOLUTION, part), **{name: value})})
    harmless = (name in ("schedules", "certificates") and value in ((), {}, "")) or (
        part == "bound" and isinstance(value, int | float) and 0 <= value <= SOLUTION.bound.value
    )
    harmless |= name == "comparison" and value is None
    assert CHECKER(INSTANCE, broken).violations or harmless


def test_simulated_solution_is_accepted():
    """The simulator's own evaluation of the twelve-server plan passes every check."""
    cluster, workload, plan = twelve_servers()
    problem = CoOptimisation("twelve", cluster, workload, sha256="ef" * 32)
    own = JobPlan.of(plan, cluster.link_sharing)
    solution = replace(
        SOLUTION,
        name="twelve",
        objective=JobFigures(problem, own).objective,
        bound=best_bound(cluster, workload),
        plan=own,
        instance_sha256="ef" * 32,
    )
    assert CHECKER(problem, solution).violations == ()


def test_a_bound_with_a_certificate_is_held_to_it():
    """Its own bound is accepted; more than it, none at all, a spoilt one and a plan that beats it are not."""
    cluster, workload = INSTANCE.cluster, INSTANCE.workload
    laws = strategy_laws(cluster, workload, choices_of(cluster, workload))
    proof = StrategyCertificate(prove(program_of(laws)))
    certificate = strategy_certificate(proof, [law.name for law in laws.laws])
    bound = strategy_bound(cluster, workload, proof)
    assert 3.75 <= bound.value <= SOLUTION.objective.value
    proven = replace(SOLUTION, bound=bound, certificates=(certificate,))
    assert codes(proven) == set()
    claimed = slower(bound=replace(bound, value=1.01 * bound.value), certificates=(certificate,))
    assert codes(claimed) == {"bound"}
    assert codes(replace(proven, certificates=())) == {"bound"}
    assert codes(replace(proven, certificates=(certificate, certificate))) == {"certificate"}
    assert codes(replace(proven, certificates=("nonsense",))) == {"certificate", "bound"}
    assert codes(replace(SOLUTION, certificates=(certificate,))) == set()
    assert codes(replace(SOLUTION, certificates=(Certificate(Argument.LINK_PRICES, {}),))) == {"certificate"}


def test_a_certificate_with_any_array_changed_proves_no_more():
    """An array that is missing, of another type or longer is refused by name; other numbers prove what they prove."""
    cluster, workload = INSTANCE.cluster, INSTANCE.workload
    laws = strategy_laws(cluster, workload, choices_of(cluster, workload))
    certificate = strategy_certificate(StrategyCertificate(prove(program_of(laws))), [law.name for law in laws.laws])
    bound = Bound(SOLUTION.objective.value, Argument.STRATEGY_PROGRAM)
    for name, array in certificate.arrays.items():
        for spoilt in (None, array.astype(object), np.append(array, 0), array[:-1]):
            if spoilt is not None and len(spoilt) == len(array) == 0:
                continue
            arrays = {key: value for key, value in certificate.arrays.items() if key != name}
            other = Certificate(Argument.STRATEGY_PROGRAM, arrays if spoilt is None else {**arrays, name: spoilt})
            assert "bound" in codes(replace(SOLUTION, bound=bound, certificates=(other,))), (name, spoilt)


@pytest.mark.parametrize("argument", Argument)
def test_a_bound_by_whatever_argument_is_what_that_argument_proves(argument):
    """Bound = value and status = optimal is rejected for all; only what the formulas of the instance prove passes."""
    forged = replace(SOLUTION, bound=Bound(SOLUTION.objective.value, argument), status=Status.OPTIMAL)
    assert codes(forged) == {"bound"}
    proven = {bound.argument: bound for bound in instance_bounds(INSTANCE.cluster, INSTANCE.workload)}
    if argument in proven:
        assert codes(replace(SOLUTION, bound=proven[argument])) == set()
