"""Plans of moves executed step by step beside the jobs that stay, with every state checked."""

from __future__ import annotations

from collections.abc import Sequence

from topoopt.core.optical_layer import OpticalLayer, ShardShape
from topoopt.core.shard_moves import MovePlan, RunningJob
from topoopt.verify.laws.findings import Findings, Violation, differs
from topoopt.verify.shards.shards import PlacedJob, shard_violations


def move_violations(
    layer: OpticalLayer,
    running: Sequence[RunningJob],
    waiting: ShardShape,
    plan: MovePlan,
    closed: Sequence[int] = (),
) -> tuple[Violation, ...]:
    """All laws a plan breaks; empty when it can be executed and its figures are right.

    The laws: who moves runs, can move, moves once, and from where it is; the shards that stand after each step can
    stand together (`shard_violations`); so can the waiting job beside them at the end; no shard given anew has a closed
    server; cost and delay are what the pauses make; the bound is not above the cost.

    Args:
        layer: the switches.
        running: all jobs with shards.
        waiting: shape of the job the moves are for.
        plan: the moves.
        closed: servers that are busy or broken without a job here.
    """
    findings = Findings()
    findings.guard("plan", "the plan", lambda: _execute(findings, layer, running, waiting, plan, closed))
    return findings.violations()


def _execute(
    findings: Findings,
    layer: OpticalLayer,
    running: Sequence[RunningJob],
    waiting: ShardShape,
    plan: MovePlan,
    closed: Sequence[int],
) -> None:
    jobs = {job.name: job for job in running}
    now = {job.name: job.shard for job in running}
    moved: set[str] = set()
    cost = delay = 0.0
    _stand(findings, layer, [PlacedJob(name, jobs[name].shape, shard) for name, shard in now.items()], "before")
    for number, step in enumerate(plan.steps):
        for move in step:
            if move.name not in jobs:
                findings.add("move", f"step {number}: there is no job {move.name}")
                return
            if move.name in moved or now[move.name] != move.before:
                findings.add("move", f"step {number}: job {move.name} moves twice, or is elsewhere")
            if jobs[move.name].pause_s == float("inf"):
                findings.add("move", f"step {number}: job {move.name} cannot move")
            moved.add(move.name)
            now[move.name] = move.after
            cost += jobs[move.name].pause_s * jobs[move.name].shape.arcs.shape[1]
        if step:
            delay += max(jobs[move.name].pause_s for move in step)
        placed = [PlacedJob(name, jobs[name].shape, shard) for name, shard in now.items()]
        _stand(findings, layer, placed, f"after step {number}")
    names = set(now)
    name = "waiting"
    while name in names:
        name += "'"
    last = [PlacedJob(key, jobs[key].shape, shard) for key, shard in now.items()]
    _stand(findings, layer, [*last, PlacedJob(name, waiting, plan.shard)], "at the end")
    anew = set(plan.shard.servers).union(*(now[key].servers for key in moved))
    for server in sorted(anew & set(closed)):
        findings.add("closed", f"server {server} is given to a job, and is not to be had")
    if differs(plan.cost_server_s, cost):
        findings.add("cost", f"{plan.cost_server_s} server-seconds stated, the pauses make {cost}")
    if differs(plan.delay_s, delay):
        findings.add("delay", f"{plan.delay_s} s stated, the pauses make {delay}")
    if not plan.bound_server_s <= cost * (1 + 1e-9):
        findings.add("bound", f"{plan.bound_server_s} server-seconds are said to be least, these moves cost {cost}")


def _stand(findings: Findings, layer: OpticalLayer, placed: list[PlacedJob], when: str) -> None:
    for violation in shard_violations(layer, placed):
        findings.add(violation.code, f"{when}: {violation.message}")
