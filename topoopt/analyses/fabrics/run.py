"""The rows of `topoopt fabrics`: a strategy searched on each fabric, beside a direct-connect plan."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from solvers.job.annealing import overflow_bytes
from solvers.job.fabrics import FabricSearch, JobOnFabrics, left_out
from solvers.stop import Stop, first_part
from topoopt.analyses.fabrics.circuit_rows import CircuitSearch, circuit_row
from topoopt.core.comparison import PLAN, FabricRow
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.job import DEFAULT_FABRICS, CoOptimisation, FabricChoice, JobPlan
from topoopt.core.result import Result
from topoopt.core.workload import Strategy
from topoopt.kinds.job.methods import fabric_problems
from topoopt.simulate.circuits import DYNAMIC_FABRICS, Phase, Stage, simulate_stages
from topoopt.simulate.fabrics import FABRICS, FabricOptions, plan_network
from topoopt.simulate.lower import build_task_graph
from topoopt.simulate.network import Network
from topoopt.simulate.time_models.evaluate import bandwidth_tax, breakdown, simulate
from topoopt.verify.checker import BRIEF
from topoopt.verify.job.check import CHECKER

RELATIVE = 1e-9


def named_fabrics(instance: CoOptimisation, names: Sequence[str] | None) -> tuple[FabricChoice, ...]:
    """Fabrics of a comparison, in order.

    Args:
        instance: whose list the names are looked up in, before the table.
        names: labels of the instance, names of the table, or of demand-driven circuits; None: the list of the instance,
            or the whole table if it has none of its own.

    Raises:
        InputError: all unknown names; or what is wrong with the list of the instance.
    """
    problems = fabric_problems(instance)
    if problems:
        raise InputError(problems)
    if names is None:
        own = instance.baselines.fabrics
        return own if own != DEFAULT_FABRICS else tuple(map(FabricChoice, FABRICS))
    known = {name: FabricChoice(name) for name in (*FABRICS, *DYNAMIC_FABRICS)}
    known |= {each.name: each for each in instance.baselines.fabrics}
    wrong = [name for name in names if name not in known]
    if wrong or not names:
        allowed = ", ".join(known)
        raise InputError([Problem("no such fabric", path="--fabrics", value=n, allowed=allowed) for n in wrong or [""]])
    return tuple(known[name] for name in dict.fromkeys(names))


def plan_row(
    instance: CoOptimisation, solution: Result[CoOptimisation, JobPlan], *, flow_level: bool = False
) -> FabricRow:
    """The row of a direct-connect plan, simulated again; also by the flow-level model if asked for.

    Raises:
        InputError: it solves another instance.
        CheckError: the checker rejects it.
    """
    if solution.instance_sha256 != instance.sha256:
        value, allowed = solution.name, f"a solution of {instance.name}, as it is now"
        raise InputError([Problem("solves another instance", path="--solution", value=value, allowed=allowed)])
    violations = CHECKER(instance, solution, BRIEF).violations
    if violations:
        raise CheckError("\n".join(f"the plan: {violation}" for violation in violations))
    plan, instance = solution.plan, instance.shared_as(solution.plan.link_sharing)
    network = plan_network(instance.cluster, plan)
    text = f"direct connect: {plan.topology.origin or 'topology of the plan'}, strategy and topology searched together"
    return _row(PLAN, text, instance, plan.strategy, network, flow_level=flow_level)


def _row(
    name: str, text: str, instance: CoOptimisation, strategy: Strategy, network: Network, *, flow_level: bool
) -> FabricRow:
    graph = build_task_graph(instance.cluster, instance.workload, strategy)
    outcome = simulate(graph, network)
    parts = breakdown(graph, outcome)
    used = outcome.link_bytes[outcome.link_bytes > 0]
    flow_level_ms = None
    if flow_level:
        flow_level_ms = simulate_stages(graph, [Stage(tuple(Phase), network)], 0.0).iteration_time_ms
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
        flow_level_ms=flow_level_ms,
    )


def fabric_rows(
    instance: CoOptimisation,
    choices: Sequence[FabricChoice],
    search: FabricSearch,
    found: Sequence[Strategy],
    stop: Stop,
    circuits: CircuitSearch | None = None,
) -> Iterator[FabricRow]:
    """Rows one by one; after Ctrl-C no more, and a time limit is shared evenly among the fabrics still to come.

    Args:
        instance: the job.
        choices: in order; those of `DYNAMIC_FABRICS` by `circuits`, all others by `search`.
        search: with the options of the others.
        found: strategies to try first.
        stop: looked at between fabrics and in the searches.
        circuits: None only if no choice is demand-driven; with it every row has its flow-level time as well.

    Raises:
        CheckError: a network breaks a law, or the time of the search is not that of its strategy simulated again.
    """
    job = JobOnFabrics(instance.cluster, instance.workload, found, search)
    options = {choice.name: each for choice, each in search.fabrics}
    for place, choice in enumerate(choices):
        if stop.interrupted.is_set():
            return
        mine = stop if stop.deadline is None else first_part(stop, 1 / (len(choices) - place), np.inf)
        try:
            if choice.fabric in DYNAMIC_FABRICS and circuits is not None:
                yield circuit_row(job.job, choice.fabric, circuits, mine)
            else:
                yield _searched(instance, job, choice, options[choice.name], mine, flow_level=circuits is not None)
        except InputError as error:
            yield FabricRow(choice.name, "left out", left_out(choice, error))


def _searched(
    instance: CoOptimisation,
    job: JobOnFabrics,
    choice: FabricChoice,
    options: FabricOptions,
    stop: Stop,
    *,
    flow_level: bool,
) -> FabricRow:
    """The row of a fabric that stays as it is.

    Raises:
        InputError: the cluster has no such fabric.
        CheckError: as `fabric_rows`.
    """
    began = time.monotonic()
    best = job.on(choice, options, stop)
    if overflow_bytes(job.job.arrays, best.strategy, job.job.capacity) > 0:
        text = f"{best.description}: no strategy found fits into the memory of the servers"
        return FabricRow(choice.name, "left out", text, proposals=best.proposals, wall_s=time.monotonic() - began)
    row = _row(choice.name, best.description, instance, best.strategy, best.network, flow_level=flow_level)
    again = row.iteration_time_ms or 0.0
    if abs(again - best.iteration_time_ms) > RELATIVE * again:
        text = f"{choice.name}: the search says {best.iteration_time_ms!r} ms, the simulation {again!r}"
        raise CheckError(text)
    reason = stop.reason() if best.proposals < job.search.proposals else None
    return replace(
        row,
        outcome="found" if reason is None else reason.value,
        proposals=best.proposals,
        wall_s=time.monotonic() - began,
    )
