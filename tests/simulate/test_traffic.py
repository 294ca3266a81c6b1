"""Traffic on the links, by counting: against hand-made cases, a walk in plain Python, and the simulator."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.handmade import altered
from tests.support.make_solution import make_solution
from topoopt.analyses.traffic import load_quantiles, plan_traffic, traffic_html, traffic_svg
from topoopt.core.errors import CheckError
from topoopt.core.result import Result
from topoopt.simulate.network import traffic_figures


def plain_bytes(solution: Result[Any, Any]) -> dict[tuple[int, int], float]:
    """Bytes of each arc, path by path."""
    routes, total = solution.plan.routes, dict.fromkeys(map(tuple, solution.plan.topology.arcs.tolist()), 0.0)
    for row, (i, j) in enumerate(zip(routes.source.tolist(), routes.target.tolist(), strict=True)):
        for path in range(routes.pair_ptr[row], routes.pair_ptr[row + 1]):
            nodes = routes.path(path)
            for arc in itertools.pairwise(nodes):
                total[arc] += solution.figures.demand.model_parallel_bytes[i, j] * float(routes.share[path])
    for wanted in solution.figures.demand.allreduce:
        k = len(wanted.members)
        for ring in next(group for group in solution.plan.rings if group.members == wanted.members).rings:
            for nodes in ring.paths:
                for arc in itertools.pairwise(nodes):
                    total[arc] += 2 * (k - 1) / k * wanted.payload_bytes * ring.share
    return total


@pytest.mark.parametrize(("n", "distances"), [(16, (1, 5)), (12, (1, 5)), (8, (1, 3, 4)), (2, (1,)), (3, (1,))])
def test_link_bytes_are_those_of_every_path(n: int, distances: tuple[int, ...]) -> None:
    """Arc by arc the sum over all paths and rings; tax and mean hops follow from them."""
    solution = make_solution(n, distances)
    found = plan_traffic(solution)
    plain = plain_bytes(solution)
    count = solution.plan.topology.multiplicity
    arcs = list(map(tuple, solution.plan.topology.arcs.tolist()))
    expected = [plain[arc] / many for arc, many in zip(arcs, count.tolist(), strict=True) for _ in range(many)]
    assert found.link_bytes == pytest.approx(expected)
    demanded = solution.figures.demand.allreduce_wire_bytes + solution.figures.demand.model_parallel_bytes.sum()
    assert found.bandwidth_tax == pytest.approx(sum(plain.values()) / demanded)
    assert found.byte_hops.sum() == pytest.approx(1.0)
    assert found.pair_hops.sum() == pytest.approx(1.0)
    carried = found.mean_byte_hops * found.model_parallel_bytes if found.mean_byte_hops else 0.0
    assert carried == pytest.approx(found.model_parallel_link_bytes.sum())


def test_no_model_parallel_traffic() -> None:
    """AllReduce of all servers alone, over direct rings: tax 1, no path lengths of bytes."""
    solution = make_solution(16, (1, 5), model_parallel=False)
    everyone = tuple(group for group in solution.figures.demand.allreduce if len(group.members) == 16)
    demand, plan = replace(solution.figures.demand, allreduce=everyone), solution.plan
    found = traffic_figures("x", "", demand, plan.topology, plan.routes, plan.rings)
    assert found.bandwidth_tax == pytest.approx(1.0)
    assert (len(found.byte_hops), found.mean_byte_hops, found.model_parallel_to_allreduce) == (0, None, 0.0)
    assert "Link loads" in traffic_html(found)


def test_link_loads_that_are_not_those_of_the_plan() -> None:
    """Recorded link bytes that the demand does not explain are a failed check."""
    solution = make_solution()
    wrong = replace(solution.figures.evaluation, link_bytes=solution.figures.evaluation.link_bytes * 1.001)
    with pytest.raises(CheckError, match="bytes of the links"):
        plan_traffic(altered(solution, evaluation=wrong))


def test_a_pair_without_a_route_is_refused() -> None:
    """Demand that has no way is not dropped silently."""
    solution = make_solution(16, (1, 5))
    everyone = replace(solution.figures.demand, model_parallel_bytes=np.ones((16, 16)) - np.eye(16))
    plan = solution.plan
    whole = plan.routes
    last = whole.pair_ptr[-2]
    routes = replace(
        whole,
        source=whole.source[:-1],
        target=whole.target[:-1],
        pair_ptr=whole.pair_ptr[:-1],
        share=whole.share[:last],
        path_ptr=whole.path_ptr[: last + 1],
        node=whole.node[: whole.path_ptr[last]],
    )
    with pytest.raises(ValueError, match="no route"):
        traffic_figures("x", "", everyone, plan.topology, routes, plan.rings)


def test_quantiles_of_loads_are_nearest_ranks() -> None:
    """Every load with its rank; many links thin out to the ends and evenly spaced ranks between."""
    assert load_quantiles(np.array([3.0, 1.0, 2.0, 2.0])) == ((1.0, 0.25), (2.0, 0.5), (2.0, 0.75), (3.0, 1.0))
    many = load_quantiles(np.arange(5000.0))
    assert (many[0], many[-1], len(many)) == ((0.0, 1 / 5000), (4999.0, 1.0), 400)


def test_pictures_escape_names() -> None:
    """A name from a file never becomes markup; both pictures stand alone."""
    found = replace(plan_traffic(make_solution()), name="<script>alert(1)</script>")
    for text in (traffic_svg(found), traffic_html(found)):
        assert "<script>alert" not in text
        assert "http://www.w3.org/2000/svg" in text or "<svg" in text
