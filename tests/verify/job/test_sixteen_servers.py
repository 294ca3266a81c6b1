"""Shipped jobs on 16 servers: a plan takes the simulator of the checker so few events that it is done in seconds."""

from __future__ import annotations

import pytest

from solvers.job.methods import run_method
from solvers.stop import Stop
from tests.support.paths import INSTANCES
from topoopt.kinds.files import read_instance
from topoopt.verify.checker import ViolationLog
from topoopt.verify.job.plan import inspect_plan
from topoopt.verify.job.simulation import events_of, flows_of, plan_network, simulate_rounds, task_count, tasks_of

MOST_EVENTS = 1_000_000
"""Plain Python goes through more than 100 000 in a second: within 30 s on a machine three times slower than that."""

JOBS = sorted(path.stem for path in INSTANCES.glob("*-16.yaml"))
QUICK = ("bert-16", "ncf-16", "vgg-16")
"""Those whose plans are made in a few seconds."""


def test_jobs_of_all_models_are_there() -> None:
    assert len(JOBS) >= 8


@pytest.mark.parametrize("job", [pytest.param(job, marks=[] if job in QUICK else pytest.mark.heavy) for job in JOBS])
def test_a_plan_is_simulated_again_within_a_million_events(job: str) -> None:
    """To the end, with the time of the compiled engine."""
    instance = read_instance(INSTANCES / f"{job}.yaml")
    cluster, workload = instance.cluster, instance.workload
    found = run_method("alternating", cluster, workload, budget=20, seed=0, stop=Stop())
    findings = ViolationLog()
    seen = inspect_plan(findings, cluster, workload, found.plan)
    assert findings.clean
    assert seen.parts is not None
    assert seen.traffic is not None
    tasks, network = tasks_of(workload, seen.parts, seen.traffic), plan_network(cluster, found.plan)
    assert task_count(seen.parts, seen.traffic) == len(tasks)
    flows = flows_of(tasks, network)
    # A flow asks all its links anew in every segment or round.
    asked = sum(
        len(hop) for of_task in flows for flow in of_task for step in range(flow.steps) for hop in flow.at(step)
    )
    assert events_of(tasks, network) == len(tasks) + asked < MOST_EVENTS
    assert simulate_rounds(tasks, flows, network).total_ms == found.iteration_time_ms
