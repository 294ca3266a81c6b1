"""Networks of language models are checked whole: their form, what every family gets of them, and the times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import IDEAL_SWITCH, FabricOutcome
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.files.documents import Document
from topoopt.files.yaml_document import parse_yaml
from topoopt.kinds.instance_file import build_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.verify.laws.findings import ViolationLog
from topoopt.verify.llm_training.check import check_llm_training
from topoopt.verify.llm_training.drawn_links import check_drawn_links, expander_links
from topoopt.verify.llm_training.forms import check_form

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
def solved(case: str) -> tuple[LlmTrainingProblem, LlmTrainingSolution]:
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
    """Two pieces of code that share nothing agree on every rate and time; other strategies have no network left."""
    problem, solution = solved(case)
    assert [one.fabric for one in solution.fabrics] == list(problem.fabrics)
    assert solution.check.violations == ()
    assert all(one.figure.startswith("times of the next best") for one in solution.check.not_recomputed)


def _network(**fields: object) -> Callable[[FabricOutcome], FabricOutcome]:
    return lambda one: replace(one, plan=replace(one.plan, network=replace(one.plan.network, **fields)))  # type: ignore[arg-type]


def _changed(place: int, **fields: float) -> Callable[[FabricOutcome], FabricOutcome]:
    """A figure of a load times a number."""

    def change(one: FabricOutcome) -> FabricOutcome:
        loads = list(one.plan.network.loads)
        loads[place] = replace(loads[place], **{k: v * getattr(loads[place], k) for k, v in fields.items()})  # type: ignore[arg-type]
        return _network(loads=tuple(loads))(one)

    return change


def _links(change: Callable[[list[tuple[int, int, int]]], object]) -> Callable[[FabricOutcome], FabricOutcome]:
    def changed(one: FabricOutcome) -> FabricOutcome:
        rows = list(one.plan.network.links)
        change(rows)
        return _network(links=tuple(rows))(one)

    return changed


CHANGES: dict[str, Callable[[FabricOutcome], FabricOutcome]] = {
    "a link less": _links(lambda rows: rows.pop()),
    "a link doubled": _links(lambda rows: rows.append((*rows.pop()[:2], 7))),
    "faster links": lambda one: _network(link_gbps=2 * one.plan.network.link_gbps)(one),
    "slower links": lambda one: _network(link_gbps=one.plan.network.link_gbps / 2)(one),
    "a rate beside others": _changed(0, shared_gbytes_per_s=0.999),
    "a rate alone": _changed(-1, gbytes_per_s=0.999),
    "bytes": _changed(0, bytes_sent=1.001),
    "seconds": _changed(-1, seconds=0.999),
    "hops": _changed(0, hops=2),
    "the time": lambda one: replace(one, breakdown=replace(one.breakdown, forward=0.999 * one.breakdown.forward)),
    "another note": lambda one: replace(one, note="2 x 2 x 3 torus"),
    "no load": _network(loads=()),
    "a split": _network(degree_split=(("data", 3),)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("case", ["experts", "one-way links"])
def test_a_changed_network_is_rejected(case: str, change: str) -> None:
    """On every fabric."""
    problem, solution = solved(case)
    for place, one in enumerate(solution.fabrics):
        if one.fabric == IDEAL_SWITCH:
            continue
        fabrics = list(solution.fabrics)
        fabrics[place] = CHANGES[change](one)
        assert fabrics[place] != one
        findings = check_llm_training(problem, replace(solution, fabrics=tuple(fabrics)))
        assert not findings.ok, (one.fabric, change)


def test_bounds_on_other_fabrics_are_proven() -> None:
    """A larger one, a smaller one, and one too few; that of the first fabric is the bound of the solution."""
    problem, solution = solved("experts")
    assert solution.fabric_bounds_s == (solution.bound.value, *solution.other_bounds_s)
    assert len(solution.other_bounds_s) == len(problem.fabrics) - 1
    for place, bound in enumerate(solution.other_bounds_s):
        for factor in (0.999, 1.001):
            bounds = list(solution.other_bounds_s)
            bounds[place] = factor * bound
            findings = check_llm_training(problem, replace(solution, other_bounds_s=tuple(bounds)))
            assert {law.code for law in findings.violations} == {"bound"}
    assert not check_llm_training(problem, replace(solution, other_bounds_s=solution.other_bounds_s[1:])).ok


def test_a_fabric_is_what_it_is_called() -> None:
    """Links of one fabric under the name of another: only names of the same links, and of any regular graph."""
    problem, solution = solved("stages of chunks")
    rails, drawn = {"rail-fat-tree", "rail-only"}, {"random-regular", "expander"}
    for one in solution.fabrics:
        for other in problem.fabrics:
            if other == one.fabric or {one.fabric, other} <= rails or other in drawn:
                continue
            renamed = replace(one, plan=replace(one.plan, network=replace(one.plan.network, fabric=other)))
            findings = ViolationLog()
            assert not check_form(findings, problem, renamed), (one.fabric, other)
            assert not findings.clean


def test_an_expander_is_drawn_again() -> None:
    """Any other links are rejected, those of another seed and of another regular graph; and so is another seed."""
    problem, solution = solved("stages of chunks")
    place, one = next((k, one) for k, one in enumerate(solution.fabrics) if one.fabric == "expander")
    regular = next(one for one in solution.fabrics if one.fabric == "random-regular").plan.network.links
    degree = problem.cluster.degree
    drawn = [tuple((*ends, n) for ends, n in sorted(expander_links(8, degree, seed).items())) for seed in (1, 2)]
    assert drawn[0] == one.plan.network.links
    for links in (regular, drawn[1]):
        fabrics = list(solution.fabrics)
        fabrics[place] = _network(links=links)(one)
        findings = ViolationLog()
        check_drawn_links(findings, problem, replace(solution, fabrics=tuple(fabrics)))
        assert not findings.clean
    assert not check_llm_training(problem, replace(solution, seed=2)).ok


def test_strategies_on_fabrics_are_of_the_space() -> None:
    """One whose passes are in an order that the instance does not allow is rejected."""
    problem, solution = solved("stages")
    one = solution.fabrics[0]
    strategy = replace(one.plan.strategy, zero=0)
    changed = replace(one, plan=replace(one.plan, strategy=strategy))
    findings = check_llm_training(problem, replace(solution, fabrics=(changed, *solution.fabrics[1:])))
    assert "strategy" in {law.code for law in findings.violations}
