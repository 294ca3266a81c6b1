"""The rows of `topoopt fabrics`: a strategy searched on each fabric, beside a direct-connect plan."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from solvers.heuristics.baselines import FabricSearch, JobOnFabrics, left_out
from solvers.heuristics.strategy.anneal import memory_capacity
from solvers.heuristics.strategy.anneal_kernel import quick_bounds
from solvers.stop import Stop, first_part
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.fabric_row import PLAN, FabricRow
from topoopt.core.instance import DEFAULT_FABRICS, CoOptimisation, FabricChoice
from topoopt.core.solution import Solution
from topoopt.core.strategy import Strategy
from topoopt.simulate.evaluate import bandwidth_tax, breakdown, simulate
from topoopt.simulate.fabrics import FABRICS, direct_connect_network
from topoopt.simulate.lower import build_task_graph, strategy_arrays, workload_arrays
from topoopt.simulate.network import Network
from topoopt.verify import check_solution

RELATIVE = 1e-9


def named_fabrics(instance: CoOptimisation, names: Sequence[str] | None) -> tuple[FabricChoice, ...]:
    """Fabrics of a comparison, in order.

    Args:
        instance: whose list the names are looked up in, before the table.
        names: labels of the instance, or names of the table; None: the list of the instance, or the whole table if it
            has none of its own.

    Raises:
        InputError: all unknown names.
    """
    if names is None:
        own = instance.baselines.fabrics
        return own if own != DEFAULT_FABRICS else tuple(map(FabricChoice, FABRICS))
    known = {name: FabricChoice(name) for name in FABRICS} | {each.name: each for each in instance.baselines.fabrics}
    wrong = [name for name in names if name not in known]
    if wrong or not names:
        allowed = ", ".join(known)
        raise InputError([Problem("no such fabric", path="--fabrics", value=n, allowed=allowed) for n in wrong or [""]])
    return tuple(known[name] for name in dict.fromkeys(names))


def plan_row(instance: CoOptimisation, solution: Solution) -> FabricRow:
    """The row of a direct-connect plan, simulated again.

    Raises:
        InputError: it solves another instance.
        CheckError: the checker rejects it.
    """
    if solution.instance_sha256 != instance.sha256:
        value, allowed = solution.name, f"a solution of {instance.name}, as it is now"
        raise InputError([Problem("solves another instance", path="--solution", value=value, allowed=allowed)])
    violations = check_solution(instance, solution)
    if violations:
        raise CheckError("\n".join(f"the plan: {violation}" for violation in violations))
    plan = solution.plan
    network = direct_connect_network(instance.cluster, plan.topology, plan.routes, plan.rings)
    text = f"direct connect: {plan.topology.origin or 'topology of the plan'}, strategy and topology searched together"
    return _row(PLAN, text, instance, plan.strategy, network)


def _row(name: str, text: str, instance: CoOptimisation, strategy: Strategy, network: Network) -> FabricRow:
    graph = build_task_graph(instance.cluster, instance.workload, strategy)
    outcome = simulate(graph, network)
    parts = breakdown(graph, outcome)
    used = outcome.link_bytes[outcome.link_bytes > 0]
    return FabricRow(
        name=name,
        outcome="found",
        description=text,
        iteration_time_ms=outcome.iteration_time_ms,
        compute_ms=parts.compute_ms,
        model_parallel_ms=parts.model_parallel_ms,
        allreduce_ms=parts.allreduce_ms,
        idle_ms=parts.idle_ms,
        links_per_byte=bandwidth_tax(graph, outcome) if len(used) else None,
        fullest_over_mean=float(used.max() / np.mean(used)) if len(used) else None,
    )


def fabric_rows(
    instance: CoOptimisation, search: FabricSearch, found: Sequence[Strategy], stop: Stop
) -> Iterator[FabricRow]:
    """Rows one by one; after Ctrl-C no more, and a time limit is shared evenly among the fabrics still to come.

    Raises:
        CheckError: a network breaks a law, or the time of the search is not that of its strategy simulated again.
    """
    job = JobOnFabrics(instance.cluster, instance.workload, found, search)
    arrays, capacity = workload_arrays(instance.cluster, instance.workload), memory_capacity(instance.cluster)
    for place, (choice, options) in enumerate(search.fabrics):
        if stop.interrupted.is_set():
            return
        began = time.monotonic()
        mine = stop if stop.deadline is None else first_part(stop, 1 / (len(search.fabrics) - place), np.inf)
        try:
            best = job.on(choice, options, mine)
        except InputError as error:
            yield FabricRow(choice.name, "left out", left_out(choice, error))
            continue
        if quick_bounds(arrays, *strategy_arrays(best.strategy), capacity)[1] > 0:
            text = f"{best.description}: no strategy found fits into the memory of the servers"
            yield FabricRow(choice.name, "left out", text, proposals=best.proposals, wall_s=time.monotonic() - began)
            continue
        row = _row(choice.name, best.description, instance, best.strategy, best.network)
        again = row.iteration_time_ms or 0.0
        if abs(again - best.iteration_time_ms) > RELATIVE * again:
            text = f"{choice.name}: the search says {best.iteration_time_ms!r} ms, the simulation {again!r}"
            raise CheckError(text)
        reason = mine.reason() if best.proposals < search.proposals else None
        yield replace(
            row,
            outcome="found" if reason is None else reason.value,
            proposals=best.proposals,
            wall_s=time.monotonic() - began,
        )
