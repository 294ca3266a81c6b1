"""The job in the report: timeline, strategy table, critical path, comparison of fabrics."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.handmade import HandmadeResult, altered
from topoopt.core.job import OperatorChoice, Span
from topoopt.core.price_book import FabricPrices
from topoopt.kinds.job.plots import packed, shown_servers
from topoopt.kinds.job.tables import fabrics_table, steps_table, strategy_table
from topoopt.page.render import Table
from topoopt.page.timelines import merged_spans

Builder = Callable[..., HandmadeResult]


def texts(table: Table) -> list[list[str]]:
    """The cells of a table as they are written."""
    return [[column.text(value) for column, value in zip(table.columns, row, strict=True)] for row in table.rows]


times = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=25)


@given(times=times, rows=st.integers(1, 5))
@settings(max_examples=80)
def test_packed_bars_never_overlap(times: list[tuple[int, int]], rows: int) -> None:
    """In each row bars follow one another; none is lost; with a row each none is left out."""
    spans = [Span(-1, "allreduce", str(i), start, start + length) for i, (start, length) in enumerate(times)]
    placed, left_out = packed(spans, rows)
    assert len(placed) + left_out == len(spans)
    for row in range(rows):
        mine = sorted((span.start_ms, span.end_ms) for where, span in placed if where == row)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(mine))
    assert packed(spans, max(1, len(spans)))[1] == 0


def test_what_the_iteration_waits_for_is_drawn_first() -> None:
    """Of three AllReduces at once on two rows, the one on the critical path has one, though it starts last."""
    spans = [Span(-1, "allreduce", str(i), float(i), 10.0) for i in range(3)]
    placed, left_out = packed(spans, 2, first={spans[2]})
    assert left_out == 1
    assert {span.label for _, span in placed} == {"0", "2"}


@given(times=times)
@settings(max_examples=80)
def test_merged_transfers_cover_the_same_time(times: list[tuple[int, int]]) -> None:
    """Merged runs are apart and cover exactly the unit intervals the spans cover."""
    spans = [Span(0, "transfer", str(i), start, start + length) for i, (start, length) in enumerate(times)]
    runs = merged_spans(spans)
    covered = {t for start, length in times for t in range(start, start + length)}
    ends = [(min(s.start_ms for s in run), max(s.end_ms for s in run)) for run in runs]
    assert all(a[1] < b[0] for a, b in itertools.pairwise(ends))
    assert {t for start, end in ends for t in range(int(start), int(end))} == covered
    assert sum(len(run) for run in runs) == len(spans)


def test_big_clusters_show_the_lanes_that_matter(make_solution: Builder) -> None:
    """The servers of the critical path and the busiest ones are among the 24 lanes."""
    plain = make_solution(128, (1, 13), tables=64)
    path = (Span(101, "forward", "a", 0, 1), Span(77, "transfer", "b", 1, 2), Span(103, "backward", "c", 2, 3))
    work = tuple(Span(i, "forward", "w", 0, 1 + (i == 55) * 5) for i in range(128))
    lanes = shown_servers(
        altered(plain, evaluation=replace(plain.figures.evaluation, critical_path=path, timeline=work)).figures
    )
    assert lanes == sorted([*range(21), 55, 101, 103])
    assert shown_servers(make_solution(16).figures) == list(range(16))


def test_strategy_folds_only_what_is_alike(make_solution: Builder) -> None:
    """Tables on single servers fold; the same split on other servers does not; sums are shown."""
    plain = make_solution(4, (1,))

    def operator(name: str, kind: str, split: str, servers: tuple[int, ...]) -> OperatorChoice:
        return OperatorChoice(name, kind, split, servers, 0.5, 1.0, 1_000_000, 0)

    operators = (
        operator("e0", "embedding", "x1", (0,)),
        operator("e1", "embedding", "x1", (0,)),
        operator("e2", "embedding", "x1", (3,)),
        operator("d0", "dense", "x2", (0, 2)),
        operator("d1", "dense", "x2", (1, 3)),
        operator("d2", "dense", "x2", (1, 3)),
        operator("a", "attention", "x2", (1, 3)),
    )
    table = strategy_table(altered(plain, operators=operators).figures)
    assert [(row[0], len(table.members.get(k, ())), row[3]) for k, row in enumerate(table.rows)] == [
        ("e0 … e2", 3, "1 each, over 0,3"),
        ("d0", 0, "0,2"),
        ("d1 … d2", 2, "1,3"),
        ("a", 0, "1,3"),
    ]
    # Two tables on server 0, one on server 3: servers work side by side.
    assert texts(table)[0][4:] == ["1.000 ms", "2.000 ms", "3.000 MB"]
    assert [member[0] for member in table.members[0]] == ["e0", "e1", "e2"]


def test_long_strategies_fold_across_kinds(make_solution: Builder) -> None:
    """A data-parallel network of 150 operators whose kinds never repeat in turn is one row that counts the kinds."""
    plain = make_solution(4, (1,))
    kinds = [("conv", "norm", "relu")[i.bit_count() % 3] for i in range(150)]
    operators = tuple(
        OperatorChoice(f"op{i}", kind, "x4", (0, 1, 2, 3), 0.1, 0.1, 0, 0) for i, kind in enumerate(kinds)
    )
    table = strategy_table(altered(plain, operators=operators).figures)
    (row,) = table.rows
    assert (len(table.members[0]), row[3]) == (150, "all 4")
    assert sorted(row[1].split(", ")) == sorted(f"{kind} {kinds.count(kind)}" for kind in set(kinds))


def test_layers_that_repeat_are_shown_once(make_solution: Builder) -> None:
    """24 equal layers of six operators, split in different ways, between two others: eight rows, not 146."""
    plain = make_solution(4, (1,))
    everyone, half = (0, 1, 2, 3), (0, 2)
    layer = (("norm", "x4", everyone), ("dense", "ch2", half), ("attention", "x4", everyone), ("dense", "red2", half),
             ("add", "x4", everyone), ("dense", "x2", half))  # fmt: skip
    operators = [OperatorChoice("tokens", "embedding", "x1", (1,), 0.1, 0.1, 0, 0)]
    operators += [
        OperatorChoice(f"layer{i}_{j}", kind, split, servers, 1.0, 2.0, 1_000_000, 0)
        for i in range(24)
        for j, (kind, split, servers) in enumerate(layer)
    ]
    operators.append(OperatorChoice("output", "dense", "x1", (1,), 0.1, 0.1, 0, 0))
    table = strategy_table(altered(plain, operators=tuple(operators)).figures)
    assert [len(table.members.get(row, ())) for row in range(8)] == [0, 24, 24, 24, 24, 24, 24, 0]
    rows = texts(table)
    assert [row[2] for row in rows[1:-1]] == [split for _, split, _ in layer]
    assert rows[1][0] == "layer0_0 … layer23_0"
    assert (rows[1][4], rows[1][6]) == ("24.00 ms", "24.00 MB")


def test_longest_steps_come_first(make_solution: Builder) -> None:
    """Steps by duration, numbered by their place in the path, with their share of the iteration."""
    plain = make_solution(4, (1,))
    path = (Span(0, "forward", "a", 0, 1), Span(2, "transfer", "b 2→3", 1, 6), Span(-1, "allreduce", "c", 6, 10))
    evaluation = replace(plain.figures.evaluation, critical_path=path)
    steps = texts(steps_table(altered(plain, evaluation=evaluation).figures))
    assert [(step[0], step[1], step[3], step[6]) for step in steps] == [
        ("2", "transfer", "from server 2", "50.0 %"),
        ("3", "AllReduce", "network", "40.0 %"),
        ("1", "forward", "server 0", "10.0 %"),
    ]


def test_fabric_bars_are_proportional(make_solution: Builder) -> None:
    """Bars run from the lower bound to the slowest fabric, whose bar is full; widths go with time."""
    solution = make_solution(16)
    table = fabrics_table(solution, solution.figures)
    times_ms = [row[2] for row in table.rows]
    assert times_ms == sorted(times_ms)
    draw = table.columns[1].html
    assert draw is not None
    widths = [re.findall(r'width="([0-9.]+)%"', str(draw(row[1])))[-1] for row in table.rows]
    assert [float(width) / 100 for width in widths] == pytest.approx([ms / times_ms[-1] for ms in times_ms], abs=1e-5)
    assert [column.key for column in table.columns] == ["fabric", "bar", "iteration_time_ms", "versus", "description"]


def test_fabric_bars_tell_prices(make_solution: Builder) -> None:
    """20 ms on half a million dollars are 100 iterations a second per million; the bound has no network to pay."""
    plain = make_solution(16)
    prices = FabricPrices("book", "0" * 64, (("direct-connect", 5e5), ("fat-tree", 1e6)))
    solution = altered(plain, objective=replace(plain.objective, value=20.0), prices=prices)
    rows = {row[0]: row[5:] for row in texts(fabrics_table(solution, solution.figures))}
    assert rows["this plan"] == ["500,000", "100.0"]
    assert rows["fat-tree"][0] == "1,000,000"
    assert rows["lower bound"][0] == rows["ideal-switch"][0] == ""
