"""The report: bars as long as the times they stand for, every point of the front, words where there is nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.support.hierarchical_cases import instance, job, network, random_instance, solved
from topoopt.core.result import Result
from topoopt.kinds import kind_of
from topoopt.kinds.hierarchy.page import bandwidth_bars, collective_bars, collective_rows, duration, money, pareto_plot


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0 ns"), (12.5, "12.50 ns"), (7.224e8, "722.4 ms"), (1.5e9, "1.500 s"), (3e3, "3.000 µs")]
)
def test_times_in_units_that_fit(value: float, text: str) -> None:
    """Nanoseconds to seconds."""
    assert duration(value) == text


def test_money() -> None:
    """Dollars, millions."""
    assert (money(950.0), money(9.527e6)) == ("950.0 USD", "9.527 M USD")


def report(result: Result[Any, Any]) -> str:
    """The page of a result."""
    text: str = kind_of(result).pages().report(result)
    return text


def widths(markup: str) -> list[float]:
    """Widths of the coloured bars, percent."""
    return [float(text) for text in re.findall(r'width="([0-9.]+)%" height="26" class="(?:block )?f', markup)]


def test_bars_are_in_proportion() -> None:
    """Bandwidths over the largest; busy times of each dimension over the longest sum."""
    found = solved(random_instance(3)).figures
    rates = found.plan.bandwidth_gbytes_per_s
    assert widths(str(bandwidth_bars(found))) == pytest.approx([100 * one / max(rates) for one in rates], abs=1e-3)
    drawn = str(bandwidth_bars(found))
    assert set(re.findall(r'<rect x="(\d+)"', drawn)) == {"0"}
    marks = re.findall(r'y1="(\d+)" y2="(\d+)" class="mean"', drawn)
    assert marks == [(str(54 * k + 18), str(54 * k + 48)) for k in range(len(rates))]  # 2 beyond a bar of 26, both ways
    bars = collective_bars(found)
    assert len(collective_rows(found)) == len(found.collectives)
    busy = [sum(one.times_ns[k] for one in found.collectives) for k in range(len(rates))]
    assert sum(widths(str(bars))) == pytest.approx(100 * sum(busy) / max(busy), abs=0.02)


def test_every_point_of_the_front_is_drawn() -> None:
    """Its points and the solution itself; without a front, no section."""
    found = solved(random_instance(3, pareto_points=6))
    assert str(pareto_plot(found.figures)).count("<title>fastest at each cost: ") == 6
    assert "this solution" in report(found)
    assert "Time and cost" not in report(replace(found, plan=replace(found.plan, front=())))


def test_without_prices_there_is_no_cost() -> None:
    """No card for cost, no front."""
    page = report(solved(instance(network([4, 8], total_gbytes_per_s=10.0))))
    assert "cost of the network" not in page
    assert "performance per cost" not in page


def test_without_traffic_there_are_no_bars() -> None:
    """Compute alone."""
    own = job("job", {"name": "alone", "forward": {"compute_ns": 5e6}})
    page = report(solved(instance(network([4], total_gbytes_per_s=10.0), own)))
    assert re.search(r"Compute is 100\S* ?% of it", page)
    assert "Time of the collectives" not in page
