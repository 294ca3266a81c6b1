"""The fabric of regional circuits: rates by hand, what uses circuits, what the checker refuses, bad input."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from solvers.llm_training.plan import regional_problems
from tests.support.cli_cases import run
from tests.support.llm_plans import with_fabric, with_network
from topoopt.core.llm_training_plan import REGIONAL, ServerRoute, TrafficFamily
from topoopt.core.result import Result
from topoopt.kinds.files import read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.verify.llm_training.check import check_llm_training

CASE = """
schema_version: 1
kind: llm-training
name: experts
model: {hidden: 1024, layers: 8, heads: 16, ffn_hidden: 4096, vocabulary: 32000,
  experts: {count: 8, per_token: 2, hidden: 4096}}
batch: {sequences: 64, length: 1024}
cluster: {servers: 16, gpus_per_server: 1, device: h100, intra_server_gbps: 3600, degree: 8, link_gbps: 100,
  optical_interfaces: 6}
strategy: {tensor: 1, context: 1, pipeline: 2, chunks: 1, data: 8, expert: 8, zero: 0, micro_batch: 1, schedule: 1f1b,
  recompute: none, order: [tensor, context, data, pipeline]}
fabrics: [regional-circuits, ideal-switch]
"""


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Result[Any, Any]]:
    """Two stages of eight servers, each an expert group."""
    file = tmp_path_factory.mktemp("experts") / "experts.yaml"
    file.write_text(CASE)
    problem: Any = read_instance(file)
    return problem, solve(problem, SolveOptions())


def test_rates_by_hand(solved: tuple[Any, Result[Any, Any]]) -> None:
    """Tokens as on one switch of all eight interfaces, seven eighths of them to others; all else over two.

    A server's 7 peers: with six circuits of B, what they leave goes over 2 B, together 8 B.
    """
    problem, solution = solved
    assert solution.check.ok
    first, other = solution.figures.fabrics
    rate = 100 * 0.125 * problem.device.reached.network
    gets = {load.dimension: load.gbytes_per_s for load in first.loads}
    assert gets[TrafficFamily.EXPERT] == pytest.approx(8 * rate)
    assert gets[TrafficFamily.PIPELINE] == pytest.approx(2 * rate)
    assert gets[TrafficFamily.DATA] == pytest.approx(2 * rate)
    assert first.iteration_time_s >= other.iteration_time_s


def test_circuits_join_regions_within_interfaces(solved: tuple[Any, Result[Any, Any]]) -> None:
    """Six at most, both ways, stages apart; other families take the switch."""
    network = solved[1].plan.network
    circuits = [row for row in network.links if 16 not in row[:2]]
    assert all(one // 8 == other // 8 for one, other, _ in circuits)
    for server in range(16):
        assert sum(count for tail, _, count in circuits if tail == server) <= 6
    assert all(route.path[1] == 16 for route in network.routes)
    assert any(len(route.path) == 2 for route in network.token_routes)


def altered(solution: Result[Any, Any], **changes: Any) -> Result[Any, Any]:
    return with_fabric(solution, 0, with_network(solution.plan.fabrics[0], **changes))


def test_the_checker_refuses_what_is_no_regional_network(solved: tuple[Any, Result[Any, Any]]) -> None:
    """More circuits than interfaces, one between regions, one that leads one way, other traffic over circuits."""
    problem, solution = solved
    network = solution.plan.network
    assert network.fabric == REGIONAL
    circuits = [row for row in network.links if 16 not in row[:2]]
    one, other, count = circuits[0]
    doubled = tuple((a, b, 7 * c if {a, b} == {one, other} else c) for a, b, c in network.links)
    one_way = tuple((a, b, c + 1 if (a, b) == (one, other) else c) for a, b, c in network.links)
    across = (*network.links, (0, 8, 1), (8, 0, 1))
    fewer = tuple((a, b, c - 1 if 16 in (a, b) else c) for a, b, c in network.links)
    for links, said in ((doubled, "more than 6"), (one_way, "one way"), (across, "no tokens"), (fewer, "other links")):
        found = check_llm_training(problem, altered(solution, links=links))
        assert any(said in violation.message for violation in found.violations), said
    shifted = tuple(
        ServerRoute((one, other), 1.0) if (route.path[0], route.path[-1]) == (one, other) else route
        for route in network.routes
    )
    assert (one, other) in {(route.path[0], route.path[-1]) for route in shifted}
    assert not check_llm_training(problem, altered(solution, routes=shifted)).ok
    assert count >= 1


def test_bad_input(tmp_path: Path) -> None:
    """No interface left; none on the optical switch."""
    file = tmp_path / "wrong.yaml"
    file.write_text(CASE.replace("optical_interfaces: 6", "optical_interfaces: 8"))
    assert "cluster.optical_interfaces" in run("validate", file).stdout
    file.write_text(CASE.replace(",\n  optical_interfaces: 6", ""))
    said = run("solve", file, "--output", tmp_path)
    assert said.code == 2
    assert "cluster.optical_interfaces of 1 to 7" in said.stderr


@pytest.mark.parametrize(
    ("degree", "optical", "allowed"),
    [
        (1, 0, "degree above 1"),
        (2, 0, "cluster.optical_interfaces of 1 to 1"),
        (4, 4, "cluster.optical_interfaces of 1 to 3"),
    ],
)
def test_interfaces_on_both_switches_are_needed(degree: int, optical: int, allowed: str) -> None:
    """What is allowed is said, and is possible."""
    cluster: Any = SimpleNamespace(degree=degree, optical_interfaces=optical)
    assert [problem.allowed for problem in regional_problems(cluster)] == [allowed]
