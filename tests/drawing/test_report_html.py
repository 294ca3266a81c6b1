"""The HTML report: self-contained, escaped, well formed, complete, and showing the solution's own figures."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from tests.support.handmade import HandmadeResult, altered, report
from tests.support.report_page import Page
from topoopt.core.cluster import LinkDirection
from topoopt.core.job import Plan
from topoopt.core.proofs import Status
from topoopt.core.result import CheckResult, Objective
from topoopt.core.topology import Topology

SECTIONS = (
    "headline",
    "time",
    "topology",
    "strategy",
    "traffic",
    "links",
    "timeline",
    "critical-path",
    "search",
    "switches",
    "rings-and-routes",
    "provenance",
)

Builder = Callable[..., HandmadeResult]


def edge_cases(handmade: ModuleType) -> dict[str]:
    """Solutions at the rims of what a report must bear."""
    make: Builder = handmade.make_solution
    plain = make(16)
    still = replace(
        plain.figures.evaluation,
        link_bytes=np.zeros_like(plain.figures.evaluation.link_bytes),
        timeline=(),
        critical_path=(),
    )
    demand = replace(plain.figures.demand, model_parallel_bytes=np.zeros((16, 16)), allreduce=())
    return {
        "two servers": make(2, (1,)),
        "one server": make(1, (), model_parallel=False),
        "no model-parallel traffic": make(16, model_parallel=False),
        "no baselines": make(16, baselines=False),
        "empty timeline": altered(plain, evaluation=replace(plain.figures.evaluation, timeline=(), critical_path=())),
        "zero time": altered(
            plain,
            objective=replace(plain.objective, value=0.0),
            bound=replace(plain.bound, value=0.0),
            evaluation=still,
            demand=demand,
            initial_ms=0.0,
            convergence=(),
        ),
        "no operators": altered(plain, operators=()),
        "infinite baseline": altered(
            plain, baselines=(replace(plain.figures.baselines[0], iteration_time_ms=float("inf")),)
        ),
        "not connected": handmade.with_one_arc(plain),
        "many violations": altered(plain, check=CheckResult(False, tuple(f"fault {i}" for i in range(80)))),
        "long name": altered(plain, name="x" * 5000, workload_name="[bold]" * 300),
        "one switch dark": with_dark_switch(plain),
        "unidirectional": handmade_unidirectional(plain),
    }


def with_dark_switch(solution: HandmadeResult) -> HandmadeResult:
    """The same solution with a fifth switch without a single link."""
    topology = solution.plan.topology
    switches = np.vstack([topology.switches, np.full(topology.servers, -1, dtype=np.int32)])
    return altered(solution, plan=replace(solution.plan, topology=replace(topology, switches=switches, degree=5)))


def handmade_unidirectional(solution: HandmadeResult) -> HandmadeResult:
    """The same arcs read as single fibres."""
    topology: Topology = replace(solution.plan.topology, links=LinkDirection.UNIDIRECTIONAL)
    plan: Plan = replace(solution.plan, topology=topology)
    return altered(solution, plan=plan)


CASES = (
    "two servers",
    "one server",
    "no model-parallel traffic",
    "no baselines",
    "empty timeline",
    "zero time",
    "no operators",
    "infinite baseline",
    "not connected",
    "many violations",
    "long name",
    "one switch dark",
    "unidirectional",
)


@pytest.fixture(scope="module")
def pages(make_solution: Builder) -> dict[int, str]:
    """Reports at three sizes."""
    return {
        4: report(make_solution(4, (1,))),
        16: report(make_solution(16, (1, 5))),
        128: report(make_solution(128, (1, 5, 13, 39), tables=64)),
    }


@pytest.mark.parametrize("n", [4, 16, 128])
def test_page_needs_no_second_file(pages: dict[int, str], n: int) -> None:
    """Nothing is loaded: every address is a place in the page or inline data, and no address scheme appears."""
    page = pages[n]
    for tag, attributes in Page(page).elements:
        for name in ("src", "href", "xlink:href", "action", "data", "poster", "srcset"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:image/png;base64,")), (tag, name)
        assert tag not in {"link", "iframe", "object", "embed", "base"}
    assert not re.search(r"https?://|@import|//cdn", page)
    assert set(re.findall(r"url\(([^)]*)\)", page)) <= {"#arrow"}


@pytest.mark.parametrize("n", [4, 16, 128])
def test_page_is_well_formed(pages: dict[int, str], n: int) -> None:
    """Every tag is closed in order, no attribute and no id occurs twice."""
    page = Page(pages[n])
    assert page.issues == []
    assert page.stack == []
    assert len(set(page.ids)) == len(page.ids)


@pytest.mark.parametrize("n", [4, 16, 128])
def test_all_sections_are_there_and_linked(pages: dict[int, str], n: int) -> None:
    """Each section has its anchor, and every link of the menu leads to one."""
    page = Page(pages[n])
    assert set(SECTIONS) <= set(page.ids)
    targets = {a["href"] for tag, a in page.elements if tag == "a"}
    assert targets <= {f"#{name}" for name in page.ids}


def test_names_cannot_inject(handmade: ModuleType, pages: dict[int, str]) -> None:
    """An operator named like a script and a kind with quotes stay text, in tables and in drawings alike."""
    page = Page(pages[16])
    assert sum(tag == "script" for tag, _ in page.elements) == 1
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert handmade.NASTY_NAME in page.text
    assert handmade.NASTY_KIND in page.text
    assert "DLRM <16 & more>" in page.text
    assert "<script>alert" not in pages[16]


def test_every_text_field_is_escaped(make_solution: Builder) -> None:
    """A tag put into each free text of a solution never becomes an element."""
    evil = "<img src=x onerror=alert(1)>"
    plain = make_solution(4, (1,))
    dirty = altered(
        plain,
        name=evil,
        workload_name=evil,
        method=evil,
        instance_sha256=evil,
        versions=((evil, evil),),
        notes=(evil,),
        objective=Objective(evil, 1.0, evil),
        check=CheckResult(False, (evil,)),
        operators=tuple(replace(op, name=evil, kind=evil, split=evil) for op in plain.figures.operators),
        baselines=tuple(replace(line, fabric=evil, description=evil) for line in plain.figures.baselines),
        convergence=tuple(replace(point, phase=evil) for point in plain.log.points),
        plan=replace(plain.plan, topology=replace(plain.plan.topology, origin=evil)),
        evaluation=replace(
            plain.figures.evaluation,
            time_model=evil,
            timeline=tuple(replace(span, label=evil) for span in plain.figures.evaluation.timeline),
            critical_path=tuple(replace(span, label=evil) for span in plain.figures.evaluation.critical_path),
        ),
    )
    page = Page(report(dirty))
    assert page.issues == []
    assert not any(tag == "img" or "onerror" in attributes for tag, attributes in page.elements)
    assert page.text.count(evil) > 20


def test_headline_figures_are_those_of_the_solution(make_solution: Builder) -> None:
    """Values chosen by hand appear with four digits: time, bound, gap, speed-ups, tax, hops, provenance."""
    plain = make_solution(16)
    chosen = altered(
        plain,
        objective=Objective("iteration time", 123.456, "ms"),
        bound=replace(plain.bound, value=61.728),
        evaluation=replace(
            plain.figures.evaluation,
            link_bytes=plain.figures.evaluation.link_bytes * 1.047 / plain.figures.bandwidth_tax,
        ),
        initial_ms=246.912,
        baselines=(
            replace(plain.figures.baselines[0], iteration_time_ms=98.7648),
            replace(plain.figures.baselines[1], iteration_time_ms=370.368),
        ),
        seed=4711,
    )
    text = Page(report(chosen)).text
    for shown in (
        "123.5 ms",
        "61.73 ms",
        "50.0 %",
        "3.00× faster than on a fat-tree",
        "2.00×",
        "0.80×",
        "1.05×",
        "2.133",  # {1, 5} on 16: 32/15 hops
        "4711",
        "123.456 ms",
        chosen.instance_sha256,
        "50.0 % below",
    ):
        assert shown in text, shown


def test_tables_show_operators_switches_rings_and_routes(pages: dict[int, str]) -> None:
    """The 16-server circulant {1, 5}: what its tables must say, worked out by hand."""
    page = Page(pages[16])
    for shown in (
        "embedding_0 … embedding_15",
        "1 each, over all 16",
        "0,2,…,14 (8)",
        "server i → i + 5 (mod 16)",
        "server i → i − 1 (mod 16)",
        "across: 32 links",
        "32 fibre pairs (64 arcs), bidirectional",
        "+5, carries 25.0 %",
        "4 (bound d·n^(1/d) = 8.000)",
        "240 ordered pairs over 240 paths",
    ):
        assert shown in page.text, shown
    lists = [a["data-copy"] for tag, a in page.elements if tag == "button" and "data-copy" in a]
    assert lists[0] == "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,0]"
    assert len(lists) == 4


def test_verdict_names_the_violations(make_solution: Builder) -> None:
    """A rejected plan is called rejected, with its violations; an accepted one shows no alarm."""
    bad = Page(report(make_solution(4, (1,), check=CheckResult(False, ("server 3 sends 5 arcs",)))))
    assert "violations" in bad.ids
    assert "server 3 sends 5 arcs" in bad.text
    assert "1 violation, listed below" in bad.text
    good = Page(report(make_solution(4, (1,))))
    assert "violations" not in good.ids
    assert "passed" in good.text


def test_optimal_is_said(make_solution: Builder) -> None:
    """A plan at its bound reads as optimal with gap 0."""
    plain = make_solution(4, (1,))
    best = altered(plain, status=Status.OPTIMAL, bound=replace(plain.bound, value=plain.objective.value))
    text = Page(report(best)).text
    assert "no plan on these servers is faster (proven)" in text
    assert "0.0 %" in text


def test_same_solution_same_bytes(make_solution: Builder, pages: dict[int, str]) -> None:
    """Two reports of equal solutions built apart are identical."""
    assert report(make_solution(16, (1, 5))) == pages[16]


def test_size_stays_small(pages: dict[int, str]) -> None:
    """128 servers of degree 8: below 3 MB, and 16 servers below 0.5 MB."""
    assert len(pages[128].encode()) < 3_000_000
    assert len(pages[16].encode()) < 500_000


def test_big_cluster_limits_the_lanes_and_says_so(pages: dict[int, str]) -> None:
    """24 of 128 servers are drawn in the timeline, in words too; 16 servers are drawn in full."""
    assert "24 of 128 servers are drawn" in Page(pages[128]).text
    assert len(re.findall(r">server \d+</text>", pages[128])) == 24
    assert len(re.findall(r">server \d+</text>", pages[16])) == 16
    assert "servers are drawn" not in pages[16]


@pytest.mark.parametrize("case", CASES)
def test_edge_cases_render(handmade: ModuleType, case: str) -> None:
    """Odd solutions still give a well-formed page without NaN, infinity or None in it."""
    cases = edge_cases(handmade)
    assert set(cases) == set(CASES)
    page = Page(report(cases[case]))
    assert page.issues == []
    assert page.stack == []
    assert {"headline", "time", "topology", "strategy", "switches", "provenance"} <= set(page.ids)
    assert not re.search(r"\b(nan|inf|None)\b", page.text)
    for _, attributes in page.elements:
        for name in ("x", "y", "width", "height", "x1", "x2", "y1", "y2", "cx", "cy", "d"):
            assert not re.search(r"nan|inf", attributes.get(name) or ""), (case, name)


def test_sections_with_nothing_in_them_are_left_out(handmade: ModuleType) -> None:
    """No empty section, no sentence that says so; long lists say how much is left out."""
    cases = edge_cases(handmade)
    missing = {
        "empty timeline": {"timeline", "critical-path"},
        "zero time": {"timeline", "critical-path", "links", "traffic", "search"},
        "one server": {"traffic", "links"},
    }
    for case, sections in missing.items():
        assert not sections & set(Page(report(cases[case])).ids), case
    assert "compared, not checked" not in Page(report(cases["no baselines"])).text
    said = {"many violations": "… and 30 more.", "one switch dark": "all ports dark", "unidirectional": "across: "}
    for case, words in said.items():
        assert words in Page(report(cases[case])).text, case
