"""check_solution accepts an honest solution and names every figure that is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.job.strategy_program import prove
from tests.support.honest_solution import honest_solution, rows_of
from tests.support.verify_cases import twelve_servers, with_arrays
from topoopt.core.bill import FabricPrices
from topoopt.core.cluster import LinkDirection
from topoopt.core.demand import AllReduceDemand
from topoopt.core.job import CoOptimisation
from topoopt.core.job_solution import (
    Baseline,
    ConvergencePoint,
    Span,
)
from topoopt.core.proofs import Argument, Bound
from topoopt.core.solution import Objective
from topoopt.core.strategy import Strategy, StrategyCertificate
from topoopt.core.verdict import Status
from topoopt.kinds.job.strategy_bound import program_of
from topoopt.verify.job.check import check_solution
from topoopt.verify.job.choices import choices_of
from topoopt.verify.job.instance_bounds import best_bound, instance_bounds
from topoopt.verify.job.strategy_certificate import strategy_bound
from topoopt.verify.job.strategy_laws import strategy_laws
from topoopt.verify.laws.findings import CheckDepth

QUICK = CheckDepth(events=0)

INSTANCE, SOLUTION = honest_solution()


def priced(*usd):
    """The solution with these prices."""
    return replace(SOLUTION, prices=FabricPrices("by hand", "0" * 64, usd))


def based(time_ms, fabric="ideal-switch", strategy=SOLUTION.plan.strategy):
    """The same strategy on another fabric."""
    return Baseline(fabric, time_ms, "by hand", strategy)


def codes(solution, instance=INSTANCE):
    """The set of codes reported."""
    return {violation.code for violation in check_solution(instance, solution, QUICK).violations}


def test_honest_solution_is_accepted():
    """Figures worked out by hand agree with those recomputed."""
    assert check_solution(INSTANCE, SOLUTION).violations == ()


def evaluated(**changes):
    """The solution with another evaluation."""
    return replace(SOLUTION, evaluation=replace(SOLUTION.evaluation, **changes))


def stretched(factor):
    """The critical path, all its times so much longer."""
    path = SOLUTION.evaluation.critical_path
    return tuple(replace(step, start_ms=step.start_ms * factor, end_ms=step.end_ms * factor) for step in path)


def slower(**changes):
    """The solution at 100 ms with a late AllReduce, then changed."""
    path = SOLUTION.evaluation.critical_path
    late = Span(-1, "allreduce", "layer", path[-1].end_ms, 100.0)
    slow = replace(
        SOLUTION,
        objective=Objective("iteration_time", 100.0, "ms"),
        evaluation=replace(
            SOLUTION.evaluation,
            critical_path=(*path, late),
        ),
        convergence=(ConvergencePoint(0, "start", 100.0),),
        initial_ms=100.0,
    )
    return replace(slow, **changes)


def test_a_slow_plan_consistent_in_itself_passes_a_quick_check_alone():
    """Nothing contradicts a late AllReduce but the simulation, which a quick check leaves out and says so."""
    quick = check_solution(INSTANCE, slower(), QUICK)
    assert quick.ok
    left_out = [left.figure.split()[0] for left in quick.not_recomputed]
    assert left_out == ["first", "iteration", *["baseline"] * 4, "prices"]
    full = check_solution(INSTANCE, slower())
    assert {each.code for each in full.violations} == {"iteration-time", "critical-path"}
    assert all(not left.figure.startswith("iteration") for left in full.not_recomputed)


def at(array, index, factor):
    """A copy with one entry multiplied."""
    copy = array.copy()
    copy[index] *= factor
    return copy


@pytest.mark.parametrize(
    ("solution", "code"),
    [
        (replace(SOLUTION, name="five"), "identity"),
        (replace(SOLUTION, kind="placement"), "identity"),
        (replace(SOLUTION, workload_name="three-layers"), "identity"),
        (replace(SOLUTION, samples=9), "identity"),
        (replace(SOLUTION, instance_sha256="cd" * 32), "instance-sha256"),
        (replace(SOLUTION, cluster=replace(SOLUTION.cluster, link_gbps=9.0)), "cluster"),
        (replace(SOLUTION, cluster=replace(SOLUTION.cluster, links=LinkDirection.UNIDIRECTIONAL)), "cluster"),
        (replace(SOLUTION, objective=Objective("iteration_time", 4.0, "ms")), "critical-path"),
        (replace(SOLUTION, objective=Objective("iteration_time", float("nan"), "ms")), "objective"),
        (evaluated(critical_path=()), "critical-path"),
        (evaluated(critical_path=SOLUTION.evaluation.critical_path[:-1]), "critical-path"),
        (evaluated(critical_path=SOLUTION.evaluation.critical_path[::-1]), "critical-path"),
        (evaluated(critical_path=stretched(0.9)), "critical-path"),
        (
            replace(SOLUTION, demand=replace(SOLUTION.demand, model_parallel_bytes=np.zeros((4, 4)))),
            "demand",
        ),
        (replace(SOLUTION, demand=replace(SOLUTION.demand, model_parallel_bytes=np.zeros((3, 3)))), "demand"),
        (replace(SOLUTION, demand=replace(SOLUTION.demand, allreduce=())), "demand-groups"),
        (
            replace(SOLUTION, demand=replace(SOLUTION.demand, allreduce=(AllReduceDemand((0, 1, 2, 3), 16417.0),))),
            "demand-groups",
        ),
        (replace(SOLUTION, demand=replace(SOLUTION.demand, allreduce=SOLUTION.demand.allreduce * 2)), "demand-groups"),
        (evaluated(link_bytes=at(SOLUTION.evaluation.link_bytes, 3, 1.01)), "link-bytes"),
        (evaluated(link_bytes=SOLUTION.evaluation.link_bytes[:-1]), "link-bytes"),
        (evaluated(link_bytes=np.full(8, 1.01e6 * SOLUTION.objective.value)), "link-utilisation"),
        (evaluated(link_bytes=np.full(8, np.nan)), "link-utilisation"),
        (replace(SOLUTION, bound=replace(SOLUTION.bound, value=SOLUTION.bound.value * 1.0001)), "bound-claim"),
        (replace(SOLUTION, bound=Bound(3.9, Argument.COMPUTE_WORK)), "gap"),
        (replace(SOLUTION, bound=Bound(float("nan"), Argument.COMPUTE_WORK)), "gap"),
        (replace(SOLUTION, bound=Bound(1.0, Argument.COMPUTE_WORK), status=Status.OPTIMAL), "status"),
        (replace(SOLUTION, status=Status.INFEASIBLE), "status"),
        (replace(SOLUTION, initial_ms=0.1), "bound"),
        (replace(SOLUTION, initial_ms=None), "convergence"),
        (
            replace(SOLUTION, operators=(replace(SOLUTION.operators[0], memory_bytes=7), *SOLUTION.operators[1:])),
            "operators",
        ),
        (replace(SOLUTION, baselines=(based(1.0),)), "baseline"),
        (replace(SOLUTION, baselines=(based(float("nan")),)), "baseline"),
        (replace(SOLUTION, baselines=(based(4.0, fabric="torus-2d"),)), "baseline"),
        (replace(SOLUTION, baselines=(based(4.0), based(4.0))), "baseline"),
        (replace(SOLUTION, baselines=(based(4.0, strategy=Strategy(())),)), "baseline"),
        (priced(("ideal-switch", 2.0)), "prices"),
        (priced(("direct-connect", 1.0), ("direct-connect", 2.0)), "prices"),
        (priced(("direct-connect", 1.0), ("fat-tree", 2.0)), "prices"),
        (priced(("direct-connect", -1.0)), "prices"),
        (priced(("direct-connect", float("nan"))), "prices"),
        (replace(SOLUTION, plan=replace(SOLUTION.plan, rings=())), "ring-missing"),
        (
            replace(SOLUTION, plan=replace(SOLUTION.plan, topology=with_arrays(SOLUTION.plan.topology, degree=3))),
            "topology-cluster",
        ),
    ],
)
def test_dishonest_figures_are_named(solution, code):
    """Every figure is recomputed."""
    assert code in codes(solution)


def test_only_the_wrong_figure_is_named():
    """One wrong figure does not blame the others."""
    assert codes(evaluated(link_bytes=at(SOLUTION.evaluation.link_bytes, 3, 1.01))) == {"link-bytes"}
    assert codes(replace(SOLUTION, demand=replace(SOLUTION.demand, allreduce=()))) == {"demand-groups"}


def test_beating_a_bound_is_an_error_with_the_bound_named():
    """3.74 ms is consistent in itself, but table and layer cannot run in less than 3.75 ms."""
    fast = replace(
        SOLUTION,
        objective=Objective("iteration_time", 3.74, "ms"),
        bound=Bound(1.0, Argument.COMPUTE_WORK),
        initial_ms=4.0,
    )
    violations = [violation for violation in check_solution(INSTANCE, fast).violations if violation.code == "bound"]
    assert violations
    assert any("critical path" in violation.message for violation in violations)


def test_a_plan_just_above_the_free_bound_is_held_against_its_own_bound():
    """Split in four, the transfers of this plan cannot be hidden, though another plan might have none."""
    lowest = max(bound.value for bound in instance_bounds(INSTANCE.cluster, INSTANCE.workload))
    assert lowest <= 3.75
    value = 3.75 * (1 + 1e-7)
    fast = replace(
        slower(),
        objective=Objective("iteration_time", value, "ms"),
    )
    violation = next(each for each in check_solution(INSTANCE, fast).violations if each.code == "bound")
    assert "traffic" in violation.message or "bytes" in violation.message


def test_optimal_solutions_match_their_bound():
    """A one-operator job that reaches the bound may be called optimal."""
    found = best_bound(INSTANCE.cluster, INSTANCE.workload)
    claimed = replace(SOLUTION, status=Status.OPTIMAL, bound=replace(found, value=SOLUTION.objective.value))
    assert "bound-claim" in codes(claimed)


junk = st.one_of(st.none(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=3), st.just(()), st.just({}))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.sampled_from(
        [
            ("objective", "value"),
            ("bound", "value"),
            ("demand", "model_parallel_bytes"),
            ("demand", "allreduce"),
            ("evaluation", "link_bytes"),
            ("evaluation", "critical_path"),
            *((None, name) for name in ("plan", "demand", "evaluation", "objective", "bound", "cluster", "status")),
            *((None, name) for name in ("convergence", "instance_sha256", "baselines")),
        ]
    ),
    junk,
)
def test_junk_in_any_field_is_a_violation(where, value):
    """A field of any type is reported, never raised (no baselines are fine)."""
    part, name = where
    if part is None:
        broken = replace(SOLUTION, **{name: value})
    else:
        broken = replace(SOLUTION, **{part: replace(getattr(SOLUTION, part), **{name: value})})
    harmless = (name == "baselines" and value in ((), {}, "")) or (
        part == "bound" and isinstance(value, int | float) and 0 <= value <= SOLUTION.bound.value
    )
    assert check_solution(INSTANCE, broken).violations or harmless or (name == "diameter" and value == 2)


def test_prices_of_simulated_fabrics_are_accepted():
    """The plan's network first, and baselines that are there; of a book not at hand, so they are not recounted."""
    solution = replace(priced(("direct-connect", 4.0), ("ideal-switch", 9.5)), baselines=(based(4.0),))
    findings = check_solution(INSTANCE, solution, QUICK)
    assert findings.ok
    assert "prices" in {left.figure for left in findings.not_recomputed}


def test_simulated_solution_is_accepted():
    """The simulator's own evaluation of the twelve-server plan passes every check."""
    from topoopt.simulate.demand import demand_of
    from topoopt.simulate.fabrics import direct_connect_network
    from topoopt.simulate.lower import build_task_graph
    from topoopt.simulate.time_models.evaluate import evaluate

    cluster, workload, plan = twelve_servers()
    graph = build_task_graph(cluster, workload, plan.strategy)
    evaluation = evaluate(graph, direct_connect_network(cluster, plan.topology, plan.routes, plan.rings))
    instance = CoOptimisation("twelve", cluster, workload, sha256="ef" * 32)
    solution = replace(
        SOLUTION,
        name="twelve",
        objective=Objective("iteration_time", evaluation.iteration_time_ms, "ms"),
        bound=best_bound(cluster, workload),
        cluster=cluster,
        workload_name="twelve",
        samples=24,
        plan=plan,
        operators=rows_of(workload, plan),
        convergence=(ConvergencePoint(0, "start", evaluation.iteration_time_ms),),
        demand=demand_of(graph),
        evaluation=evaluation,
        initial_ms=evaluation.iteration_time_ms,
        baselines=(),
        instance_sha256="ef" * 32,
    )
    assert check_solution(instance, solution).violations == ()


def test_a_bound_with_a_certificate_is_held_to_it():
    """Its own bound is accepted; more than it, none at all, a spoilt one and a plan that beats it are not."""
    cluster, workload = INSTANCE.cluster, INSTANCE.workload
    certificate = StrategyCertificate(
        prove(program_of(strategy_laws(cluster, workload, choices_of(cluster, workload))))
    )
    bound = strategy_bound(cluster, workload, certificate)
    assert 3.75 <= bound.value <= SOLUTION.objective.value
    proven = replace(SOLUTION, bound=bound, certificate=certificate)
    assert codes(proven) == set()
    claimed = slower(bound=replace(bound, value=1.01 * bound.value), certificate=certificate)
    assert codes(claimed) == {"bound-claim"}
    assert codes(replace(proven, certificate=None)) == {"bound-claim"}
    assert codes(replace(proven, certificate=StrategyCertificate(()))) == {"certificate", "bound-claim"}
    assert codes(replace(proven, certificate="nonsense")) == {"certificate", "bound-claim"}
    faster = replace(SOLUTION, initial_ms=0.9 * bound.value, certificate=certificate)
    assert "bound" in codes(faster)


@pytest.mark.parametrize("argument", Argument)
def test_a_bound_by_whatever_argument_is_what_that_argument_proves(argument):
    """Bound = value and status = optimal is rejected for all; only what the formulas of the instance prove passes."""
    forged = replace(SOLUTION, bound=Bound(SOLUTION.objective.value, argument), status=Status.OPTIMAL)
    assert codes(forged) == {"bound-claim"}
    proven = {bound.argument: bound for bound in instance_bounds(INSTANCE.cluster, INSTANCE.workload)}
    if argument in proven:
        assert codes(replace(SOLUTION, bound=proven[argument])) == set()
