"""The page of a placement: complete in itself, escaped, the same bytes for the same result."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from topoopt.core.placement import (
    Device,
    GraphOperator,
    Latency,
    Link,
    PlacementPlan,
    PlacementProblem,
    Server,
    Tensor,
    Throughput,
)
from topoopt.core.proofs import Argument, Bound, Status, StopReason
from topoopt.core.result import CheckResult, Objective, Result
from topoopt.kinds import kind_named

PROBLEM = PlacementProblem(
    name="small",
    classes=("gpu",),
    operators=(GraphOperator("<script>x", (3.0,), 500), GraphOperator("y", (1.0,), 1000)),
    tensors=(Tensor(0, (1,), 1_250_000),),  # 1 ms at 10 Gbit/s
    servers=(Server("a", (Link("eth0", 10.0),)), Server("b", (Link("eth0", 10.0),))),
    devices=(Device("gpu0", 0, 0, 4000), Device("gpu1", 1, 0)),
    objective=Throughput(),
)
RESULT: Result[Any, Any] = Result(
    name="small",
    kind="placement",
    status=Status.FEASIBLE,
    stopped_by=StopReason.TIME,
    objective=Objective("max_load", 4.0, "ms"),
    bound=Bound(3.0, Argument.DEVICE_WORK),
    check=CheckResult(True, ()),
    seed=0,
    method="slices",
    instance_sha256="0",
    versions=(),
    notes=("a note",),
    problem=PROBLEM,
    plan=PlacementPlan(device=np.array([1, 0], dtype=np.int32)),
)


def page_of(result: Result[Any, Any]) -> str:
    """The page as HTML."""
    return kind_named("placement").pages().report(result)


def test_page_is_complete_and_escaped() -> None:
    """No script of the instance, nothing fetched from elsewhere; figures, bars and the note are there."""
    page = page_of(RESULT)
    assert "<script>x" not in page
    assert "&lt;script&gt;x" in page
    assert not re.findall(r'(?:src|href)="(?!#)', page)
    for text in ("4.000 ms", "25.0 %", "a note", "gpu0", "1.000 kB, 25.0 %"):
        assert text in page, text
    assert page == page_of(RESULT)


def test_the_cause_is_the_second_sentence() -> None:
    """The busiest device, and what occupies it."""
    page = page_of(RESULT)
    assert "Device gpu1 is the busiest: 75.0 % of its work is compute, of which &lt;script&gt;x takes 100.0 %." in page


def test_bars_follow_the_stages() -> None:
    """The device of stage 1 stands first; widths are parts of the largest load."""
    page = page_of(RESULT)
    body = page[page.index("<tbody>") :]
    assert body.index("gpu1") < body.index("gpu0")
    assert 'width="25%"' in body  # 1 of 4 ms


def test_violations_and_schedules() -> None:
    """What the checker rejects is listed; a schedule is drawn, with what its critical path consists of."""
    problem = replace(PROBLEM, objective=Latency())
    plan = replace(RESULT.plan, start_ms=np.array([0.0, 4.0]))
    objective = Objective("makespan", 5.0, "ms")
    step = replace(RESULT, problem=problem, plan=plan, objective=objective)
    assert "memory: too much" in page_of(replace(step, check=CheckResult(False, ("memory: too much",))))
    page = page_of(step)
    assert "time of one step" in page
    assert "Schedule of one step" in page
    words = re.sub("<[^>]*>", "", page)
    assert "80.0 % of it is compute on the critical path" in words
    assert "20.0 % is 1 transfer." in words
