"""The report of routing and topology solutions: right figures, escaped, self-contained, small, whole at the rims."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import topoopt
from tests.support.network_cases import NetworkResult, on_links, on_network, one_proof, one_routing
from tests.support.report_page import Page
from tests.support.smallest import solution_of
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import RoutingProblem, SourceFlow, TopologyProblem
from topoopt.core.proofs import Argument, Bound, Status, StopReason
from topoopt.core.result import CheckResult, Objective, Result
from topoopt.core.topology import Topology
from topoopt.kinds.network.figures import NetworkFigures, moore_counts, moore_hops
from topoopt.kinds.network.page import LISTED_ARCS, arc_table, bottleneck_text, distance_table, page
from topoopt.page.render import to_html

SECTIONS = {"headline", "topology", "load-of-the-links", "distances", "demand", "provenance"}
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


def demand_of(topology: Topology, flow: NDArray[np.float64]) -> NDArray[np.float64]:
    """What of the flow of each source stays at each server."""
    stays = SourceFlow(flow).staying(topology)
    return np.where(stays < 1e-9, 0.0, stays)


def solved(
    topology: Topology,
    flow: NDArray[np.float64],
    lengths: list[float],
    *,
    link_gbps: float | None = None,
    **fields: Any,
) -> NetworkResult:
    """A solution with a given flow; the bound is theta unless another is given."""
    theta = float((flow.sum(axis=0) / topology.multiplicity).max())
    demand = demand_of(topology, flow)
    chosen = fields.get("kind") == "topology"
    n, d = topology.servers, topology.degree
    problem = (
        TopologyProblem("case", n, d, topology.links, demand, link_gbps=link_gbps)
        if chosen
        else RoutingProblem("case", topology, demand, link_gbps=link_gbps)
    )
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
        "problem": problem,
        "plan": on_links(topology, flow) if chosen else one_routing(flow),
        "certificates": one_proof(np.array(lengths)),
        "instance_sha256": "cafe",
        "versions": (("topoopt", "1.2.3"),),
        "notes": ("assumed so",),
    }
    return Result(**{**values, **fields})


def cycle(**fields: Any) -> NetworkResult:
    """Four servers in a directed cycle, two links from 0 to 1; 0 sends 3 to 2, 2 sends 1 to 3.

    Loads of a link: 1.5 on 0 -> 1, 3 on 1 -> 2, 1 on 2 -> 3, 0 on 3 -> 0. The length of 1 -> 2 alone proves theta >= 3.
    """
    switches = [[1, 2, 3, 0], [1, -1, -1, -1]]
    topology = network([(0, 1, 2), (1, 2, 1), (2, 3, 1), (3, 0, 1)], 4, 2, switches=switches)
    flow = np.zeros((4, 4))
    flow[0, [0, 1]] = 3.0
    flow[2, 2] = 1.0
    return solved(topology, flow, [0.0, 1.0, 0.0, 0.0], **fields)


def regular(n: int, offsets: tuple[int, ...], *, two_way: bool) -> NetworkResult:
    """A circulant on which every server sends 1 to each neighbour."""
    steps = sorted({p % n for p in offsets} | ({-p % n for p in offsets} if two_way else set()))
    topology = network([(i, (i + p) % n, 1) for i in range(n) for p in steps], n, len(steps), two_way=two_way)
    flow = (topology.arcs[:, 0][None, :] == np.arange(n)[:, None]).astype(float)
    switches = np.array([[(i + p) % n for i in range(n)] for p in steps], dtype=np.int32)
    lit = replace(topology, switches=switches)
    return solved(lit, flow, [1.0] * len(topology.arcs), kind="topology")


def rendered(result: NetworkResult) -> str:
    """The page of a result."""
    return to_html(page(result), result)


def cell(page: str, heading: str) -> str:
    """Text of the value of the card with this title."""
    found = re.search(rf"<h3>{re.escape(heading)}</h3><p class=\"value\">([^<]*)</p>", page)
    assert found is not None, heading
    return found[1]


def test_figures_of_a_cycle_by_hand() -> None:
    """Loads, prices, implied demand, hops and means, each worked out on paper."""
    figures: NetworkFigures = cycle().figures
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
    dark = network([(0, 1, 2), (1, 2, 1), (2, 3, 1), (3, 0, 1)], 4, 2)
    whole = rendered(solved(dark, cycle().plan.flows[0].flow, [0.0, 1.0, 0.0, 0.0]))
    assert cell(whole, "theta, largest link utilisation") == "3.000"
    assert cell(whole, "lambda, throughput") == "0.3333"
    assert cell(whole, "gap to the bound") == "0.0 %"
    assert cell(whole, "independent check") == "passed"
    assert cell(whole, "diameter") == "3 hops"
    assert cell(whole, "mean hops of all pairs") == "2.000"
    assert cell(whole, "mean hops of the demand") == "1.750"
    assert cell(whole, "mean utilisation over theta") == "46.7 %"  # 1.4 of 3
    text = Page(whole).text
    for shown in (
        "1 arc of 4 is at the largest utilisation, and 1 arc has a price in its proof",
        "All arcs with a length in the proof are full: theta cannot fall unless some of them gain capacity",
        "4.000 link capacities in all between 2 ordered pairs of 12",
        "Server 0 sends most, 3.000; server 2 receives most, 3.000",
        "There are no detours",
        "theta, 3 link capacity",
        "4711", "cafe", "topoopt 1.2.3", "assumed so", "topoopt explain",
    ):  # fmt: skip
        assert shown in text, shown
    assert 'id="optical-switches"' not in whole


def test_rate_of_the_links_is_shown_where_it_is_known() -> None:
    """In Gbit/s, and colours of load mean trouble; a solution without one says nothing about it, and has no red."""
    with_rate, without = rendered(cycle(link_gbps=100.0)), rendered(cycle())
    assert "100 Gbit/s each way" in Page(with_rate).text
    assert "Gbit/s" not in Page(without).text
    assert re.search(r'class="lk \w+ u5"', with_rate)
    assert not re.search(r'class="lk \w+ u[345]"', without)
    assert "above two thirds" in Page(without).text


def test_page_says_how_far_a_topology_is_from_its_bound() -> None:
    """With theta 3 and a bound of 2 for all topologies the gap is a third; the bound's argument is named."""
    open_case = cycle(status=Status.FEASIBLE, kind="topology", bound=Bound(2.0, Argument.TWO_LAYER, 100))
    whole = rendered(open_case)
    assert cell(whole, "gap to the bound") == "33.3 %"
    text = Page(whole).text
    assert "Theta 3.000; no network is below 2.000 (proven)." in text
    assert "two-layer distances" in text
    assert "feasible" in text


def test_fullest_arcs_come_first() -> None:
    """By load a link, then by weight in the proof, with the length as part of the longest."""
    table = arc_table(cycle().figures)
    assert [
        tuple(column.text(value) for column, value in zip(table.columns, row, strict=True)) for row in table.rows
    ] == [
        ("1 → 2", "1", "3.000", "100.0 %", "1.000", "100.0 %"),
        ("0 → 1", "2", "1.500", "50.0 %", "0", "0.0 %"),
        ("2 → 3", "1", "1.000", "33.3 %", "0", "0.0 %"),
        ("3 → 0", "1", "0", "0.0 %", "0", "0.0 %"),
    ]
    assert len(arc_table(regular(16, (1, 5), two_way=True).figures).rows) == LISTED_ARCS


def test_a_bound_that_is_not_reached_promises_nothing() -> None:
    """When the lengths prove less than theta, the page does not say what would lower theta."""
    reached, missed = cycle(), cycle(bound=Bound(2.5, Argument.ARC_LENGTHS), status=Status.FEASIBLE)
    assert "cannot fall" in bottleneck_text(reached, reached.figures)
    assert "cannot fall" not in bottleneck_text(missed, missed.figures)


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
    rows = distance_table(cycle().figures).rows
    assert [(hops, pairs, moore, demand) for hops, pairs, _, moore, demand, _ in rows] == [
        ("1", 4, 8, 0.25),
        ("2", 4, 4, 0.75),
        ("3", 4, 0, 0.0),
    ]


def test_long_distances_are_summed() -> None:
    """A directed ring of 100: 99 distances in at most 16 rows, 9,900 pairs in all."""
    rows = distance_table(regular(100, (1,), two_way=False).figures).rows
    assert len(rows) <= 16
    assert rows[0][0] == "1–7"
    assert rows[-1][0] == "99"
    assert sum(row[1] for row in rows) == 9900


def test_servers_without_a_path() -> None:
    """Two pairs of servers that never meet: 8 of 12 ordered pairs have no path, and the page says so."""
    topology = network([(0, 1, 1), (1, 0, 1), (2, 3, 3), (3, 2, 1)], 4, 3)
    flow = np.zeros((4, 4))
    flow[[0, 1, 2], [0, 1, 2]] = (1.0, 2.0, 3.0)
    result = solved(topology, flow, [0, 1, 0, 0])
    whole = rendered(result)
    assert cell(whole, "diameter") == "–"
    assert distance_table(result.figures).rows[-1][:2] == ("no path", 8)
    assert "no path" in Page(whole).text
    assert not re.search(r"\b(nan|inf|None)\b", Page(whole).text)


def rims() -> dict[str, NetworkResult]:
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
    text = rendered(rims()[case])
    whole = Page(text)
    assert whole.issues == []
    assert whole.stack == []
    assert len(set(whole.ids)) == len(whole.ids)
    assert set(whole.ids) >= SECTIONS
    for tag, attributes in whole.elements:
        for name in ("src", "href"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:image/png;base64,")), (tag, name)
        assert tag not in {"link", "iframe", "object", "embed", "base"}
    assert {a["href"] for tag, a in whole.elements if tag == "a"} <= {f"#{name}" for name in whole.ids}
    assert not re.search(r"https?://|@import", text)
    assert not re.search(r"\b(nan|inf|None)\b", whole.text)


def test_rejection_is_an_alarm() -> None:
    """A solution the checker rejects says so, with its violations, the long list cut with its count."""
    text = Page(rendered(rims()["rejected"])).text
    assert "80 violations, listed below" in text
    assert "fault 0" in text
    assert "… and 30 more." in text


def test_every_text_field_is_escaped() -> None:
    """A tag put into each free text never becomes an element."""
    dirty = replace(
        cycle(kind="topology"),
        plan=replace(cycle(kind="topology").plan, origin=EVIL),
        name=EVIL,
        method=EVIL,
        instance_sha256=EVIL,
        versions=((EVIL, EVIL),),
        notes=(EVIL,),
        objective=Objective(EVIL, 3.0, EVIL),
        check=CheckResult(False, (EVIL,)),
    )
    whole = Page(rendered(dirty))
    assert whole.issues == []
    assert not any(tag == "img" or "onerror" in attributes for tag, attributes in whole.elements)
    assert whole.text.count(EVIL) > 8


def test_switches_are_shown_where_there_are_any() -> None:
    """Every optical switch of a topology with its permutation, ready to copy."""
    whole = Page(rendered(regular(16, (1, 5), two_way=True)))
    lists = [a["data-copy"] for tag, a in whole.elements if tag == "button" and "data-copy" in a]
    assert len(lists) == 4
    assert lists[0] == "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,0]"
    assert "server i → i + 5 (mod 16)" in whole.text


def test_size_stays_small() -> None:
    """128 servers of degree 8 below 1 MB: above 64 servers links are a matrix, of very many in blocks."""
    large = rendered(rims()["128 both ways"])
    assert len(large.encode()) < 1_000_000
    assert 'class="topology' not in large
    assert large.count('class="heat"') == 2
    n, steps = 1100, tuple(range(1, 11))
    many = rendered(regular(n, steps, two_way=False))
    assert len(many.encode()) < 2_000_000
    assert (many.count('class="topology'), many.count('class="heat"')) == (0, 2)
    assert "A cell is the sum over 5 × 5 servers." in many


def test_same_solution_same_bytes(tmp_path: Path) -> None:
    """The report of a solution read back from its file is the report of the solution."""
    solution = solution_of("topology")
    topoopt.write_solution(solution, tmp_path / "solution.json")
    assert rendered(topoopt.read_solution(tmp_path / "solution.json")) == rendered(solution)


def test_no_number_stands_twice_on_the_first_screen() -> None:
    """Answer, cause and cards: theta of the answer is the only one that a card repeats."""
    made = page(cycle())
    cards = [fact.text(fact.value) for fact in made.facts if fact.name and fact.card]
    assert len(cards) == len(set(cards))


def test_several_demands_show_their_mean_and_the_worst() -> None:
    """The worst is the one with the largest theta; each has a picture of its own, beside the thetas of all."""
    solution = solution_of("topology of several demands")
    figures: NetworkFigures = solution.figures
    worst = max(range(len(figures.thetas)), key=lambda k: figures.thetas[k])
    assert figures.worst == worst
    # What is delivered of the mean of all is the mean of what is delivered of each.
    total = sum(float(flow.staying(figures.topology).sum()) for flow in figures.flows)
    assert figures.demand.sum() == pytest.approx(total / len(figures.thetas))
    whole = rendered(solution)
    assert whole.count('class="heat"') == 2
    assert f"Demand {worst}, the worst: " in Page(whole).text
    assert "Mean of all demands" not in rendered(cycle())
