"""Networks of language models are checked whole: their form, what every family gets of them, and the times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from tests.support.llm_plans import with_fabric, with_network, with_shapes
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import IDEAL_SWITCH, FabricPlan, ShapeVerdict, shape_outcomes
from topoopt.core.result import Result
from topoopt.core.switching import PortSplit, StagePorts
from topoopt.files.documents import Document, parse_yaml
from topoopt.kinds.files import build_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.llm_training.figures import fabric_bounds_s
from topoopt.kinds.pipeline import solve
from topoopt.verify.checker import ViolationLog
from topoopt.verify.llm_training.check import check_llm_training
from topoopt.verify.llm_training.networks import check_drawn_links, check_form, expander_links

DENSE = "{layers: 24, hidden: 2048, ffn_hidden: 8192, heads: 16, kv_heads: 4, vocabulary: 32000}"
EXPERTS = (
    "{layers: 8, hidden: 2048, ffn_hidden: 4096, heads: 16, kv_heads: 8, vocabulary: 32000, "
    "experts: {count: 32, per_token: 4, hidden: 1024}}"
)
TWO_WAY = (
    "[direct-connect, torus-3d, rail-fat-tree, rail-only, fat-tree, torus-2d, hypercube, random-regular, expander]"
)
FEW = "[direct-connect, fat-tree]"
SOME = "[direct-connect, torus-3d, rail-only, fat-tree]"
ONE_WAY = "[direct-connect, generalized-kautz, rail-only]"
CASES = {
    "stages": (DENSE, "pipeline: [4], schedule: [zb-h1], zero: [1]", "{}", "per-gpu", 8, TWO_WAY),
    "stages of chunks": (DENSE, "pipeline: [2], schedule: [interleaved], zero: [0]", "{}", "per-server", 6, TWO_WAY),
    "nothing hidden": (
        DENSE, "pipeline: [4], schedule: [gpipe], zero: [1]", "{data: false, pipeline: false}", "per-gpu", 6, FEW,
    ),
    "replicas": (DENSE, "pipeline: [1], zero: [3]", "{}", "per-gpu", 6, FEW),
    "experts": (EXPERTS, "pipeline: [2], expert: [8], schedule: [1f1b], zero: [1]", "{}", "per-server", 6, SOME),
    "one-way links": (EXPERTS, "pipeline: [1, 4], expert: [4], schedule: [1f1b]", "{}", "per-server", 4, ONE_WAY),
}  # fmt: skip


@cache
def solved(case: str) -> tuple[LlmTrainingProblem, Result[Any, Any]]:
    """Eight servers of two GPUs."""
    model, space, overlap, owner, degree, fabrics = CASES[case]
    links = "unidirectional" if fabrics == ONE_WAY else "bidirectional"
    text = f"""{{schema_version: 1, kind: llm-training, name: case, model: {model},
      batch: {{sequences: 64, length: 4096}},
      cluster: {{servers: 8, gpus_per_server: 2, device: h100, gpu_memory_gib: 80, intra_server_gbps: 400,
                 degree: {degree}, interfaces: {owner}, link_gbps: 50, links: {links}}},
      strategy: {{tensor: [1], context: [1], micro_batch: [1], recompute: [none], {space}}},
      overlap: {overlap}, fabrics: {fabrics}, search: {{top: 2, seed: 1}}}}"""
    problem = build_instance(Document("case.yaml", parse_yaml(text, 10_000).data, lambda _: {}))
    return problem, solve(problem, SolveOptions(seed=1))


@pytest.mark.parametrize("case", CASES)
def test_every_fabric_is_recomputed(case: str) -> None:
    """Two pieces of code that share nothing agree on every time."""
    problem, solution = solved(case)
    assert [one.fabric for one in solution.plan.fabrics] == list(problem.fabrics)
    assert solution.check.violations == ()
    assert solution.check.not_recomputed == ()


def _network(**fields: object) -> Callable[[FabricPlan], FabricPlan]:
    return lambda one: with_network(one, **fields)


def _links(change: Callable[[list[tuple[int, int, int]]], object]) -> Callable[[FabricPlan], FabricPlan]:
    def changed(one: FabricPlan) -> FabricPlan:
        rows = list(one.network.links)
        change(rows)
        return _network(links=tuple(rows))(one)

    return changed


CHANGES: dict[str, Callable[[FabricPlan], FabricPlan]] = {
    "a link less": _links(lambda rows: rows.pop()),
    "a link doubled": _links(lambda rows: rows.append((*rows.pop()[:2], 7))),
    "faster links": lambda one: _network(link_gbps=2 * one.network.link_gbps)(one),
    "slower links": lambda one: _network(link_gbps=one.network.link_gbps / 2)(one),
    "another form": _network(form="2 x 2 x 3 torus"),
    "ports of rails": lambda one: replace(one, ports=(StagePorts(PortSplit(2), PortSplit(2), PortSplit(2)),)),
    "a server twice": _network(places=(0, *range(7))),
    "a split": _network(degree_split=(("data", 3),)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("case", ["experts", "one-way links"])
def test_a_changed_network_is_rejected(case: str, change: str) -> None:
    """On every fabric."""
    problem, solution = solved(case)
    for place, one in enumerate(solution.plan.fabrics):
        if one.fabric == IDEAL_SWITCH:
            continue
        findings = check_llm_training(problem, with_fabric(solution, place, CHANGES[change](one)))
        assert not findings.ok, (one.fabric, change)


def test_bounds_on_other_fabrics_are_proven() -> None:
    """A larger one, a smaller one, and one too few; that of the first fabric is the bound of the solution."""
    problem, solution = solved("experts")
    first, *others = fabric_bounds_s(solution)
    assert first == solution.bound.value
    assert len(others) == len(problem.fabrics) - 1
    for place, bound in enumerate(others):
        for factor in (0.999, 1.001):
            bounds = [*others[:place], factor * bound, *others[place + 1 :]]
            findings = check_llm_training(problem, with_shapes(solution, bounds_s=bounds))
            assert {law.code for law in findings.violations} == {"bound"}
    assert not check_llm_training(problem, with_shapes(solution, bounds_s=others[1:])).ok


def test_lines_of_the_certificate_are_derived() -> None:
    """A count, bytes, a verdict, a line less, a line twice."""
    problem, solution = solved("experts")
    lines = shape_outcomes(solution.certificates)
    place = next(k for k, line in enumerate(lines) if line.verdict is ShapeVerdict.SEARCHED)
    own = lines[place]
    assert own.least_bytes is not None
    for changed in (
        (replace(own, records=own.records - 1),),
        (replace(own, fitting=own.fitting - 1),),
        (replace(own, least_bytes=own.least_bytes * 0.999),),
        (replace(own, verdict=ShapeVerdict.MEMORY),),
        (),
        (own, own),
    ):
        other = with_shapes(solution, (*lines[:place], *changed, *lines[place + 1 :]))
        assert not check_llm_training(problem, other).ok, changed


def test_a_fabric_is_what_it_is_called() -> None:
    """Links of one fabric under the name of another: only names of the same links, and of any regular graph."""
    problem, solution = solved("stages of chunks")
    rails, drawn = {"rail-fat-tree", "rail-only"}, {"random-regular", "expander"}
    for one in solution.plan.fabrics:
        for other in problem.fabrics:
            if other == one.fabric or {one.fabric, other} <= rails or other in drawn:
                continue
            renamed = with_network(one, fabric=other)
            findings = ViolationLog()
            assert not check_form(findings, problem, renamed), (one.fabric, other)
            assert not findings.clean


def test_an_expander_is_drawn_again() -> None:
    """Any other links are rejected, those of another seed and of another regular graph; and so is another seed."""
    problem, solution = solved("stages of chunks")
    one = next(one for one in solution.plan.fabrics if one.fabric == "expander")
    regular = next(one for one in solution.plan.fabrics if one.fabric == "random-regular").network.links
    degree = problem.cluster.degree
    drawn = [tuple((*ends, n) for ends, n in sorted(expander_links(8, degree, seed).items())) for seed in (1, 2)]
    assert drawn[0] == one.network.links
    for links in (regular, drawn[1]):
        findings = ViolationLog()
        check_drawn_links(findings, problem, _network(links=links)(one).network, solution.seed)
        assert not findings.clean
    assert not check_llm_training(problem, replace(solution, seed=2)).ok


def test_strategies_on_fabrics_are_of_the_space() -> None:
    """One whose passes are in an order that the instance does not allow is rejected."""
    problem, solution = solved("stages")
    one = solution.plan.fabrics[0]
    changed = replace(one, strategy=replace(one.strategy, zero=0))
    findings = check_llm_training(problem, with_fabric(solution, 0, changed))
    assert "strategy" in {law.code for law in findings.violations}
