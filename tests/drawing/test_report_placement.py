"""The report of a placement: complete in itself, escaped, the same bytes for the same solution."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from topoopt.core.placement import Device, Latency, Link, Server, Throughput
from topoopt.core.placement_solution import DeviceLoad, PlacementSolution
from topoopt.core.proofs import Argument, Bound
from topoopt.core.solution import CheckResult, Objective
from topoopt.core.verdict import Status, StopReason
from topoopt.kinds.placement.report import render_placement

SOLUTION = PlacementSolution(
    name="small",
    status=Status.FEASIBLE,
    stopped_by=StopReason.TIME,
    objective=Objective("max_load", 4.0, "ms"),
    bound=Bound(3.0, Argument.DEVICE_WORK),
    check=CheckResult(True, ()),
    seed=0,
    method="slices",
    settings=Throughput(),
    servers=(Server("a", (Link("eth0", 10.0),)), Server("b", (Link("eth0", 10.0),))),
    devices=(Device("gpu0", 0, 0, 4000), Device("gpu1", 1, 0)),
    classes=("gpu",),
    operators=("<script>x", "y"),
    device=np.array([1, 0], dtype=np.int32),
    stage=np.array([0, 1], dtype=np.int32),
    loads=(DeviceLoad(1.0, 2.0, 1.0, 0.0, 1000), DeviceLoad(2.0, 0.0, 1.0, 0.0, 500)),
    instance_sha256="0",
    versions=(),
    notes=("a note",),
)


def test_page_is_complete_and_escaped() -> None:
    """No script of the instance, nothing fetched from elsewhere; figures, bars and the note are there."""
    page = render_placement(SOLUTION)
    assert "<script>x" not in page
    assert "&lt;script&gt;x" in page
    assert not re.findall(r'(?:src|href)="(?!#)', page)
    for text in ("4 ms", "25.0 %", "a note", "gpu0", "1.00 kB, 25.0 %"):
        assert text in page or text.replace("4 ms", "4.000 ms").replace("1.00 kB", "1.000 kB") in page, text
    assert page == render_placement(SOLUTION)


def test_bars_follow_the_stages() -> None:
    """The device of stage 1 stands first; widths are parts of the largest load."""
    page = render_placement(SOLUTION)
    body = page[page.index("<tbody>") :]
    assert body.index("gpu1") < body.index("gpu0")
    assert 'width="50%"' in body  # 2 of 4 ms
    assert "busiest" in body


def test_violations_and_latency_settings() -> None:
    """What the checker rejects is listed; settings of the other objective are told too."""
    wrong = replace(SOLUTION, check=CheckResult(False, ("memory: too much",)), settings=Latency(), stage=None)
    page = render_placement(wrong)
    assert "memory: too much" in page
    assert "time of one step" in page
