"""The summary in the terminal and as JSON."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from tests.support.handmade import HandmadeResult, altered, report
from tests.support.make_solution import with_one_arc
from topoopt.core.cluster import LinkSharing
from topoopt.core.job import Baseline, OperatorChoice, Span
from topoopt.core.price_book import FabricPrices
from topoopt.core.process import be_verbose
from topoopt.core.proofs import Argument, Bound, Status
from topoopt.core.result import CheckResult, Objective
from topoopt.kinds import kind_named
from topoopt.kinds.job import page

Builder = Callable[..., HandmadeResult]


def printed(solution: HandmadeResult, width: int = 150, *, full: bool = False) -> str:
    """What a user sees, with `--verbose` if it is to be full."""
    out = io.StringIO()
    pages = kind_named("co-optimisation").pages()
    be_verbose(full)
    pages.show(Console(file=out, width=width, color_system=None), solution, 1.0)
    be_verbose(False)
    return out.getvalue()


def figures(solution: HandmadeResult) -> dict[str, Any]:
    """What programs get."""
    return dict(kind_named("co-optimisation").pages().figures(solution.problem, solution))


def answer(solution: HandmadeResult) -> str:
    """The first sentence."""
    return page.answer(solution, solution.figures)


def test_figures_have_the_keys_and_values_of_the_solution(make_solution: Builder) -> None:
    """Every key that only this kind has, with unrounded values."""
    solution = make_solution(16)
    found = figures(solution)
    for name in solution.figures.traffic_summary():
        found.pop(name)
    assert found == {
        "iteration_time_ms": solution.objective.value,
        "breakdown_ms": {
            "compute": solution.figures.breakdown.compute_ms,
            "model_parallel": solution.figures.breakdown.model_parallel_ms,
            "allreduce": solution.figures.breakdown.allreduce_ms,
            "idle": solution.figures.breakdown.idle_ms,
            "exposed_communication": solution.figures.breakdown.exposed_communication_ms,
            "busiest_server_compute": solution.figures.busiest_server_compute_ms,
        },
        "bandwidth_tax": solution.figures.bandwidth_tax,
        "diameter": 4,
        "mean_hops": pytest.approx(32 / 15),  # {1, 5} on 16: 4, 6, 4, 1 servers at 1..4 hops
        "diameter_bound": pytest.approx(8.0),  # 4 * 16^(1/4)
        "initial_ms": solution.log.initial_ms,
        "link_sharing": "fifo",
        "gpu_memory_gib": {"needed": 0.75, "limit": None},  # a table of 3 GiB a server of 4 GPUs
        "baselines_ms": {line.fabric: line.iteration_time_ms for line in solution.figures.baselines},
        "prices": None,
    }


def test_figures_are_strict_json(make_solution: Builder) -> None:
    """Infinite and undefined values become null, since JSON has no word for them."""
    plain = make_solution(4, (1,))
    odd = altered(
        with_one_arc(plain),
        baselines=(replace(plain.figures.baselines[0], iteration_time_ms=float("inf")),),
    )
    back = json.loads(json.dumps(figures(odd), allow_nan=False))
    assert (back["diameter"], back["mean_hops"]) == (None, None)
    assert back["baselines_ms"]["ideal-switch"] is None


def test_terminal_shows_the_figures(make_solution: Builder) -> None:
    """Values set by hand appear: time, terms, bound and who proved it, gap, distances, tax, ratios, verdict."""
    plain = make_solution(16)
    spent = sum(each.forward_ms + each.backward_ms for each in plain.figures.operators if 3 in each.servers)
    solution = altered(
        plain,
        objective=Objective("iteration time", 50.0, "ms"),
        bound=replace(plain.bound, value=40.0, argument=Argument.WORK_AND_WIRE),
        initial_ms=75.0,
        evaluation=replace(
            plain.figures.evaluation,
            link_bytes=plain.figures.evaluation.link_bytes * 1.111 / plain.figures.bandwidth_tax,
            critical_path=(
                Span(0, "forward", "a", 0.0, 30.0),
                Span(0, "transfer", "b", 30.0, 42.5),
                Span(-1, "allreduce", "c", 42.5, 50.0),
            ),
        ),
        operators=(*plain.figures.operators, OperatorChoice("a", "dense", "x1", (3,), 20.0, 8.0 - spent, 0, 0)),
        baselines=(
            replace(plain.figures.baselines[0], iteration_time_ms=25.0),
            replace(plain.figures.baselines[1], iteration_time_ms=170.0),
        ),
    )
    text = printed(solution, full=True)
    for shown in (
        "50.00 ms",
        "compute 30.00 + model-parallel 12.50 + AllReduce 7.500 ms",
        "computes 28.00 ms",
        "60.0 % of it is the forward pass of a on server 0.",
        "75.00 ms",
        "40 ms, proved by: work and wire bytes",
        "4 (bound 8.000), 2.133 hops on average",
        "1.11×",
        "0.50×",
        "3.40×",
        "embedding_0 … embedding_15",
        "passed",
    ):
        assert shown in text, shown


def test_terminal_orders_fabrics_by_time(make_solution: Builder) -> None:
    """Fastest first, so that the place of the plan is seen at a glance."""
    text = printed(make_solution(16))
    lines = text[text.index("against this plan") :].splitlines()[2:]
    rows = [line.strip().split("  ")[0] for line in lines if " ms " in line][:6]
    assert rows == ["lower bound", "ideal-switch", "this plan", "random-regular", "starting plan", "fat-tree"]


def test_terminal_never_reads_names_as_markup(make_solution: Builder) -> None:
    """Square brackets in names are printed, neither styled nor failing."""
    plain = make_solution(4, (1,))
    operators = plain.figures.operators
    odd = altered(
        with_one_arc(plain),
        name="[red]job[/red]",
        workload_name="[/nope]",
        operators=tuple(replace(op, name=f"[bold]{i}", kind="[link=x]") for i, op in enumerate(operators)),
        check=CheckResult(False, ("[/x] bad",)),
    )
    text = printed(odd, full=True)
    for shown in ("[red]job[/red]", "[/nope]", "[link=x]", "[/x] bad", "1 violation"):
        assert shown in text, shown


def test_terminal_cuts_long_lists(make_solution: Builder) -> None:
    """Many different operators and violations are counted rather than poured out."""
    plain = make_solution(16)
    operators = tuple(
        replace(plain.figures.operators[0], name=f"op_{i}", kind=f"kind{i}", split=f"x{1 + i % 7}") for i in range(100)
    )
    solution = altered(plain, operators=operators, check=CheckResult(False, tuple(f"violation {i}" for i in range(25))))
    text = printed(solution)
    assert "more with --verbose: strategy" in text
    assert "25 violations" in text
    assert len(text.splitlines()) < 55
    assert len(printed(solution, full=True).splitlines()) > 120


@pytest.mark.parametrize("width", [60, 80, 200])
def test_terminal_fits_the_width(make_solution: Builder, width: int) -> None:
    """No line is longer than the terminal is wide."""
    text = printed(make_solution(128, (1, 13), tables=64), width)
    assert max(len(line) for line in text.splitlines()) <= width


def test_terminal_bears_edges(handmade: ModuleType, make_solution: Builder) -> None:
    """Two servers without model-parallel traffic and baselines; a time of zero."""
    small = make_solution(2, (1,), model_parallel=False, baselines=False)
    assert "model-parallel 0 B" in printed(small)
    zero = altered(
        small,
        objective=Objective("iteration time", 0.0, "ms"),
        evaluation=replace(small.figures.evaluation, critical_path=()),
    )
    assert "0 ms along the critical path" in printed(zero)


def test_traffic_in_a_few_numbers(make_solution: Builder) -> None:
    """Shares of path lengths sum to one, and all bytes carried are the demand times the hops it takes."""
    solution = make_solution(16)
    found = solution.figures.traffic_summary()
    shares = solution.figures.path_hop_shares
    assert sum(shares.values()) == pytest.approx(1.0)
    assert found["mean_path_hops"] == pytest.approx(sum(count * share for count, share in shares.items()))
    table = solution.plan.routes
    by_hand: dict[int, float] = {}
    for pair, (source, target) in enumerate(zip(table.source, table.target, strict=True)):
        for path in range(table.pair_ptr[pair], table.pair_ptr[pair + 1]):
            hops = int(table.path_ptr[path + 1] - table.path_ptr[path]) - 1
            amount = solution.figures.demand.model_parallel_bytes[source, target] * table.share[path]
            by_hand[hops] = by_hand.get(hops, 0.0) + float(amount)
    total = sum(by_hand.values())
    assert shares == pytest.approx({hops: amount / total for hops, amount in by_hand.items() if amount > 0})
    loads = sorted(solution.figures.evaluation.link_bytes)
    assert found["link_bytes"]["max"] == loads[-1]
    assert found["link_bytes"]["p50"] == loads[(len(loads) + 1) // 2 - 1]
    assert found["link_bytes"]["mean"] == pytest.approx(sum(loads) / len(loads))


def test_one_sentence_answers_first(make_solution: Builder) -> None:
    """What the network gains over the fat-tree, at which price, and what is proven; else over the start."""
    plain = make_solution(16)
    tree = replace(plain.figures.baselines[0], fabric="fat-tree", iteration_time_ms=80.0)
    solution = altered(
        plain,
        objective=Objective("iteration time", 50.0, "ms"),
        bound=replace(plain.bound, value=40.0),
        initial_ms=75.0,
        baselines=(tree,),
        prices=FabricPrices("by-hand", "ef" * 32, (("direct-connect", 1000.0), ("fat-tree", 1010.0))),
    )
    proven = "no plan on these servers can be more than 1.25× faster (proven)."
    assert (
        answer(solution) == f"One iteration takes 50.00 ms, 1.60× faster than on a fat-tree of the same price; {proven}"
    )
    dear = altered(solution, prices=FabricPrices("by-hand", "ef" * 32, (("direct-connect", 1e3), ("fat-tree", 2e3))))
    assert "on a fat-tree at 2.00× the price" in answer(dear)
    assert "faster than on a fat-tree; " in answer(altered(solution, prices=None))
    alone = altered(solution, baselines=())
    assert answer(alone) == f"One iteration takes 50.00 ms, 1.50× faster than data parallelism; {proven}"
    assert answer(altered(alone, initial_ms=None)) == f"One iteration takes 50.00 ms; {proven}"
    optimal = altered(alone, status=Status.OPTIMAL)
    assert answer(optimal).endswith("no plan on these servers is faster (proven).")
    near = altered(alone, bound=replace(plain.bound, value=49.8))
    assert answer(near).endswith("no plan on these servers can be more than 0.4 % faster (proven).")
    assert f'<p class="answer">{answer(solution)} ' in report(solution)


def test_the_order_of_traffic_is_shown_where_a_plan_has_one(make_solution: Builder) -> None:
    """Two classes are for the operator to set; order of arrival is what links do by themselves."""
    plain = make_solution(16)
    first = altered(plain, cluster=replace(plain.figures.cluster, link_sharing=LinkSharing.TRANSFERS_FIRST))
    assert figures(first)["link_sharing"] == "transfers-first"
    assert "link sharing" not in printed(plain)
    assert re.search(r"link sharing +transfers-first", printed(first))


def test_what_may_close_the_gap_is_shown(make_solution: Builder) -> None:
    """As on the card of the report: 40 of 100 ms are not proven; the switch needs 95 or 65."""
    plain = make_solution(16)
    rate = plain.figures.cluster.degree * plain.figures.cluster.link_gbps
    for limit_ms, likelier in ((95.0, "a better bound"), (65.0, "a better plan")):
        switch = Baseline("ideal-switch", limit_ms, f"one switch, {rate:g} Gbit/s per server", plain.plan.strategy)
        case = altered(
            plain,
            objective=replace(plain.objective, value=100.0),
            bound=Bound(60.0, Argument.COMPUTE_WORK),
            baselines=(switch,),
        )
        assert re.search(f"gap likelier closed by +{likelier}", printed(case))
    assert "likelier" not in printed(altered(plain, baselines=()))


def test_memory_is_shown_and_an_impossible_start_is_not_compared(make_solution: Builder) -> None:
    """Needed and there, per GPU; data parallelism that does not fit is in no table and on no card."""
    plain = make_solution(16)
    limited = altered(plain, cluster=replace(plain.figures.cluster, gpu_memory_bytes=80 * 2**30), initial_ms=None)
    text = printed(limited)
    assert "0.750 GiB of 80.00 GiB of each GPU on the fullest server" in text
    assert "starting plan" not in text
    assert "0.750 GiB of each GPU on the fullest server, not checked against a limit" in printed(plain)
    found = figures(limited)
    assert found["gpu_memory_gib"] == {"needed": 0.75, "limit": 80.0}
    assert found["initial_ms"] is None
    assert "starting plan" not in report(limited)
    assert "starting plan" in report(plain)
