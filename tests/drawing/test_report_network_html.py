"""The report of routing and topology solutions: right figures, escaped, self-contained, small, whole at the rims."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.network_cases import on_network, one_routing
from tests.support.report_page import Page, without_terms
from tests.support.smallest import solution_of
from topoopt.core.cluster import LinkDirection
from topoopt.core.network_solution import NetworkSolution, RoutedNetwork
from topoopt.core.proofs import Argument, Bound
from topoopt.core.solution import CheckResult, Objective
from topoopt.core.topology import Topology
from topoopt.core.verdict import Status, StopReason
from topoopt.kinds.network.figures import NetworkFigures, moore_counts
from topoopt.kinds.network.hops import hop_rows, moore_hops
from topoopt.kinds.network.links import LISTED_ARCS, network_links
from topoopt.kinds.network.report import drawn_links, render_network_html
from topoopt.kinds.network.solution_file import SOLUTION_FILE

SECTIONS = {"headline", "topology", "links", "distances", "demand", "provenance"}
EVIL = "<img src=x onerror=alert(1)>"


def network(
    arcs: list[tuple[int, int, int]], servers: int, degree: int, *, two_way: bool = False, switches: Any = None
) -> Topology:
    """A topology of arcs (tail, head, parallel links)."""
    rows = np.array(sorted(arcs), dtype=np.int32)
    dark = np.full((degree, servers), -1, dtype=np.int32)
    return Topology(
        servers=servers,
        degree=degree,
        links=LinkDirection.BIDIRECTIONAL if two_way else LinkDirection.UNIDIRECTIONAL,
        arcs=rows[:, :2].copy(),
        multiplicity=rows[:, 2].copy(),
        switches=dark if switches is None else np.array(switches, dtype=np.int32),
        origin="by hand",
    )


def solved(topology: Topology, flow: NDArray[np.float64], lengths: list[float], **fields: Any) -> NetworkSolution:
    """A solution with a given flow; the bound is theta unless another is given."""
    theta = float((flow.sum(axis=0) / topology.multiplicity).max())
    values: dict[str, Any] = {
        "name": "case",
        "kind": "routing",
        "status": Status.OPTIMAL,
        "stopped_by": StopReason.CONVERGED,
        "objective": Objective("theta", theta, "link capacity"),
        "bound": Bound(theta, Argument.ARC_LENGTHS),
        "check": CheckResult(True, ()),
        "seed": 4711,
        "method": "simplex",
        "network": RoutedNetwork(topology, one_routing(flow, np.array(lengths)), theta),
        "instance_sha256": "cafe",
        "versions": (("topoopt", "1.2.3"),),
        "notes": ("assumed so",),
    }
    return NetworkSolution(**{**values, **fields})


def cycle(**fields: Any) -> NetworkSolution:
    """Four servers in a directed cycle, two links from 0 to 1; 0 sends 3 to 2, 2 sends 1 to 3.

    Loads of a link: 1.5 on 0 -> 1, 3 on 1 -> 2, 1 on 2 -> 3, 0 on 3 -> 0. The length of 1 -> 2 alone proves theta >= 3.
    """
    topology = network([(0, 1, 2), (1, 2, 1), (2, 3, 1), (3, 0, 1)], 4, 2)
    flow = np.zeros((4, 4))
    flow[0, [0, 1]] = 3.0
    flow[2, 2] = 1.0
    return solved(topology, flow, [0.0, 1.0, 0.0, 0.0], **fields)


def regular(n: int, offsets: tuple[int, ...], *, two_way: bool) -> NetworkSolution:
    """A circulant on which every server sends 1 to each neighbour."""
    steps = sorted({p % n for p in offsets} | ({-p % n for p in offsets} if two_way else set()))
    topology = network([(i, (i + p) % n, 1) for i in range(n) for p in steps], n, len(steps), two_way=two_way)
    flow = (topology.arcs[:, 0][None, :] == np.arange(n)[:, None]).astype(float)
    switches = np.array([[(i + p) % n for i in range(n)] for p in steps], dtype=np.int32)
    lit = replace(topology, switches=switches)
    return solved(lit, flow, [1.0] * len(topology.arcs), kind="topology")


def cell(page: str, heading: str) -> str:
    """Text of the value of the card with this title."""
    found = re.search(rf"<h3>{re.escape(heading)}</h3><p class=\"value\">([^<]*)</p>", without_terms(page))
    assert found is not None, heading
    return found[1]


def test_figures_of_a_cycle_by_hand() -> None:
    """Loads, prices, implied demand, hops and means, each worked out on paper."""
    figures = NetworkFigures(cycle())
    assert figures.utilisation.tolist() == [1.5, 3.0, 1.0, 0.0]
    assert figures.relative == pytest.approx([0.5, 1.0, 1 / 3, 0.0])
    assert figures.full.tolist() == [False, True, False, False]
    assert figures.prices.tolist() == [0.0, 1.0, 0.0, 0.0]
    expected = np.zeros((4, 4))
    expected[0, 2], expected[2, 3] = 3.0, 1.0
    assert figures.demand.tolist() == expected.tolist()
    assert figures.hops.tolist() == [[0, 1, 2, 3], [3, 0, 1, 2], [2, 3, 0, 1], [1, 2, 3, 0]]
    assert figures.travelled_hops == figures.least_hops == pytest.approx(7 / 4)
    assert figures.mean_utilisation == pytest.approx(7 / 5)


def test_page_shows_the_figures_of_the_solution() -> None:
    """Headline, arcs and provenance carry the very numbers of the solution."""
    page = render_network_html(cycle())
    assert cell(page, "theta, largest link utilisation") == "3.000"
    assert cell(page, "lambda, throughput") == "0.3333"
    assert cell(page, "gap to the lower bound") == "0.0 %"
    assert cell(page, "independent check") == "passed"
    assert cell(page, "diameter") == "3 hops"
    assert cell(page, "mean hops of all pairs") == "2.000"
    assert cell(page, "mean hops of the demand") == "1.750"
    assert cell(page, "mean utilisation over theta") == "46.7 %"  # 1.4 of 3
    text = Page(page).text
    for shown in (
        "Arcs at the largest utilisation (to 0.1 %): 1 of 4",
        "proof of the bound: 1, all of them full: theta cannot fall unless some of them gain capacity",
        "4.000 link capacities in all between 2 ordered pairs of 12",
        "Server 0 sends most, 3.000; server 2 receives most, 3.000",
        "there are no detours",
        "theta, 3 link capacity",
        "4711", "cafe", "topoopt 1.2.3", "assumed so", "topoopt check INSTANCE solution.json",
    ):  # fmt: skip
        assert shown in text, shown
    assert 'id="switches"' not in page


def test_rate_of_the_links_is_shown_where_it_is_known() -> None:
    """In Gbit/s; a solution without one says nothing about it."""
    assert "100 Gbit/s each way" in Page(render_network_html(cycle(link_gbps=100.0))).text
    assert "Gbit/s" not in Page(render_network_html(cycle())).text


def test_page_says_how_far_a_topology_is_from_its_bound() -> None:
    """With theta 3 and a bound of 2 for all topologies the gap is a third; the bound's argument is named."""
    open_case = cycle(status=Status.FEASIBLE, kind="topology", bound=Bound(2.0, Argument.TWO_LAYER, 100))
    page = render_network_html(open_case)
    assert cell(page, "gap to the lower bound") == "33.3 %"
    text = Page(page).text
    assert "theta ≥ 2.000 for every topology allowed, proved by: two-layer distances" in text
    assert "status: feasible" in text
    assert "theta ≥ 3.000, proved by lengths of the arcs" in text


def test_fullest_arcs_come_first() -> None:
    """By load a link, then by weight in the proof, with the length as part of the longest."""
    rows = network_links(NetworkFigures(cycle())).rows
    assert [(row.arc, row.links, row.load, row.relative, row.length, row.price) for row in rows] == [
        ("1 → 2", 1, "3.000", "100.0 %", "1.000", "100.0 %"),
        ("0 → 1", 2, "1.500", "50.0 %", "0", "0.0 %"),
        ("2 → 3", 1, "1.000", "33.3 %", "0", "0.0 %"),
        ("3 → 0", 1, "0", "0.0 %", "0", "0.0 %"),
    ]
    assert len(network_links(NetworkFigures(regular(16, (1, 5), two_way=True))).rows) == LISTED_ARCS


def test_a_bound_that_is_not_reached_promises_nothing() -> None:
    """When the lengths prove less than theta, the page does not say what would lower theta."""
    assert "cannot fall" not in network_links(NetworkFigures(on_network(cycle(), routing_bound=2.5))).bottleneck


@pytest.mark.parametrize(
    ("degree", "two_way", "n", "counts", "least"),
    [
        # Petersen graph: degree 3, 10 servers, 3 and 6 away: the Moore bound met, mean (3 + 12) / 9.
        (3, True, 10, [3, 6, 0], (2, 15 / 9)),
        (2, False, 8, [2, 4, 1], (3, 13 / 7)),
        (1, False, 4, [1, 1, 1], (3, 2.0)),
        (1, True, 4, [1, 0, 0], None),
    ],
)
def test_moore_tree(degree: int, two_way: bool, n: int, counts: list[int], least: tuple[int, float] | None) -> None:
    """Known counts of the Moore tree; with one fibre pair each no more than two servers are connected."""
    topology = network([(0, 1, 1), (1, 0, 1)], n, degree, two_way=two_way)
    assert moore_counts(topology, 3) == counts
    found = moore_hops(topology)
    assert found is None if least is None else found == (least[0], pytest.approx(least[1]))


def test_distances_of_a_directed_cycle() -> None:
    """4 pairs at each of 1, 2, 3 hops; of the demand of 4, 3 goes two hops; degree 2 would allow 8 and 4 pairs."""
    rows = hop_rows(NetworkFigures(cycle()))
    assert [(row.hops, row.pairs, row.moore, row.demand) for row in rows] == [
        ("1", 4, "8", "25.0 %"),
        ("2", 4, "4", "75.0 %"),
        ("3", 4, "0", "0.0 %"),
    ]


def test_long_distances_are_summed() -> None:
    """A directed ring of 100: 99 distances in at most 16 rows, 9,900 pairs in all."""
    rows = hop_rows(NetworkFigures(regular(100, (1,), two_way=False)))
    assert len(rows) <= 16
    assert rows[0].hops == "1–7"
    assert rows[-1].hops == "99"
    assert sum(row.pairs for row in rows) == 9900


def test_servers_without_a_path() -> None:
    """Two pairs of servers that never meet: 8 of 12 ordered pairs have no path, and the page says so."""
    topology = network([(0, 1, 1), (1, 0, 1), (2, 3, 3), (3, 2, 1)], 4, 3)
    flow = np.zeros((4, 4))
    flow[[0, 1, 2], [0, 1, 2]] = (1.0, 2.0, 3.0)
    page = render_network_html(solved(topology, flow, [0, 1, 0, 0]))
    assert cell(page, "diameter") == "–"
    assert hop_rows(NetworkFigures(solved(topology, flow, [0, 1, 0, 0])))[-1].pairs == 8
    assert "no path" in Page(page).text
    assert not re.search(r"\b(nan|inf|None)\b", Page(page).text)


def rims() -> dict[str, NetworkSolution]:
    """Solutions at the rims of what a page must bear."""
    pair = network([(0, 1, 1), (1, 0, 1)], 2, 1, two_way=True)
    ring = cycle()
    return {
        "two servers": solved(pair, np.array([[1.0, 0.0], [0.0, 2.0]]), [0, 1]),
        "16 both ways": regular(16, (1, 5), two_way=True),
        "16 one way": regular(16, (1, 3, 9), two_way=False),
        "parallel": ring,
        "128 both ways": regular(128, (1, 5, 13, 39), two_way=True),
        "128 one way": regular(128, (1, 5, 13, 39), two_way=False),
        "no lengths": on_network(cycle(), lengths=np.zeros(4)),
        "rejected": cycle(check=CheckResult(False, tuple(f"fault {i}" for i in range(80))), status=Status.UNKNOWN),
        "long name": cycle(name="x" * 3000),
    }


@pytest.mark.parametrize("case", rims())
def test_page_is_whole_and_needs_nothing_else(case: str) -> None:
    """Well formed, all sections linked, nothing loaded from anywhere, no NaN."""
    text = render_network_html(rims()[case])
    page = Page(text)
    assert page.faults == []
    assert page.stack == []
    assert len(set(page.ids)) == len(page.ids)
    assert set(page.ids) >= SECTIONS
    for tag, attributes in page.elements:
        for name in ("src", "href"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:image/png;base64,")), (tag, name)
        assert tag not in {"link", "iframe", "object", "embed", "base"}
    assert {a["href"] for tag, a in page.elements if tag == "a"} <= {f"#{name}" for name in page.ids}
    assert not re.search(r"https?://|@import", text)
    assert not re.search(r"\b(nan|inf|None)\b", page.text)


def test_rejection_is_an_alarm() -> None:
    """A solution the checker rejects says so, with its violations, the long list cut with its count."""
    page = Page(render_network_html(rims()["rejected"]))
    assert "80 violations, listed below" in page.text
    assert "fault 0" in page.text
    assert "… and 30 more." in page.text


def test_every_text_field_is_escaped() -> None:
    """A tag put into each free text never becomes an element."""
    dirty = replace(
        on_network(cycle(), topology=replace(cycle().topology, origin=EVIL)),
        name=EVIL,
        method=EVIL,
        instance_sha256=EVIL,
        versions=((EVIL, EVIL),),
        notes=(EVIL,),
        objective=Objective(EVIL, 3.0, EVIL),
        check=CheckResult(False, (EVIL,)),
    )
    page = Page(render_network_html(dirty))
    assert page.faults == []
    assert not any(tag == "img" or "onerror" in attributes for tag, attributes in page.elements)
    assert page.text.count(EVIL) > 9


def test_switches_are_shown_where_there_are_any() -> None:
    """Every optical switch of a topology with its permutation, ready to copy."""
    page = Page(render_network_html(regular(16, (1, 5), two_way=True)))
    lists = [a["data-copy"] for tag, a in page.elements if tag == "button" and "data-copy" in a]
    assert len(lists) == 4
    assert lists[0] == "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,0]"
    assert "server i → i + 5 (mod 16)" in page.text


def test_size_stays_small() -> None:
    """128 servers of degree 8 below 1 MB; of more than 10,000 links the fullest are drawn, and the page says so."""
    assert len(render_network_html(rims()["128 both ways"]).encode()) < 1_000_000
    n, steps = 1100, tuple(range(1, 11))
    big = regular(n, steps, two_way=False)
    flow = big.flow.flow.copy()
    flow[7] *= 5.0
    big = replace(on_network(big, flow=flow), objective=Objective("theta", 5.0, "link capacity"))
    every, drawn = drawn_links(NetworkFigures(big))
    assert (len(every), len(drawn)) == (11_000, 10_000)
    assert {link.tail for link in every} - {7} != set()
    assert sum(link.tail == 7 for link in drawn) == 10
    text = render_network_html(big)
    assert "The 1,000 least used links are not drawn." in text
    assert len(text.encode()) < 6_000_000


def test_same_solution_same_bytes(tmp_path: Path) -> None:
    """The report of a solution read back from its file is the report of the solution."""
    solution = cycle()
    SOLUTION_FILE.write(solution, tmp_path / "solution.json")
    assert render_network_html(SOLUTION_FILE.read(tmp_path / "solution.json")) == render_network_html(solution)


def test_several_demands_show_their_mean_and_the_worst() -> None:
    """The worst is the one with the largest theta; each has a picture of its own, beside the thetas of all."""
    solution = solution_of("topology of several demands")
    worst = max(range(len(solution.thetas)), key=lambda k: solution.thetas[k])
    figures = NetworkFigures(solution)
    assert figures.worst_demand[0] == worst
    # What is delivered of the mean of all is the mean of what is delivered of each.
    whole = sum(float(flow.staying(solution.topology).sum()) for flow in figures.flows)
    assert figures.demand.sum() == pytest.approx(whole / len(solution.thetas))
    page = render_network_html(solution)
    assert page.count('class="heat"') == 2
    assert f"Demand {worst}, the worst: " in Page(page).text
    assert "Mean of all demands" not in render_network_html(cycle())
