"""Price books: the shipped one, what is refused, and that everything is said at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from topoopt.analyses.costs import book_of
from topoopt.core.errors import InputError, Problem
from topoopt.core.price_book import NIC, OCS_PORT, PARTS, PATCH_PANEL_PORT, UNITS
from topoopt.costs import DEFAULT_BOOK, SHIPPED_BOOKS, default_price_book, shipped_price_book
from topoopt.files.price_book_file import read_price_book

SHIPPED = files("topoopt.costs").joinpath(DEFAULT_BOOK)


@pytest.fixture
def document() -> dict[str, Any]:
    """The shipped book as plain data."""
    data: dict[str, Any] = YAML(typ="safe", pure=True).load(SHIPPED.read_text(encoding="utf-8"))
    return data


@pytest.fixture
def problems(tmp_path: Path) -> Callable[[Any], list[Problem]]:
    """What the reader says about a document."""

    def read(data: Any) -> list[Problem]:
        path = tmp_path / "book.json"
        path.write_text(json.dumps(data), encoding="utf-8")
        with pytest.raises(InputError) as caught:
            read_price_book(path)
        return list(caught.value.problems)

    return read


@pytest.mark.parametrize("name", SHIPPED_BOOKS)
def test_shipped_books_pass_the_validating_reader(name: str) -> None:
    """What is loaded without validation is what the reader of users' books makes of the same file, and has a name."""
    book = read_price_book(str(files("topoopt.costs").joinpath(SHIPPED_BOOKS[name])))
    assert book == shipped_price_book(name) == book_of(Path(name))
    assert book.sha256 == shipped_price_book(name).sha256
    assert {part.name: part.source for part in book.parts if not part.source} == {}
    assert set(UNITS) == set(PARTS)


def test_ports_of_the_devices() -> None:
    """A patch panel has 1008 ports, an optical circuit switch 384 and 10 ms."""
    panel, switch = (default_price_book().device(part) for part in (PATCH_PANEL_PORT, OCS_PORT))
    assert panel is not None
    assert switch is not None
    assert (panel.ports, switch.ports, switch.switching_time_s) == (1008, 384, 0.01)


def test_rates_in_any_order_are_the_same_book(document: dict[str, Any], tmp_path: Path) -> None:
    """The order of the rows does not matter."""
    document["parts"]["nic"]["by_rate"].reverse()
    path = tmp_path / "book.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    assert read_price_book(path) == default_price_book()


def test_another_price_is_another_book(document: dict[str, Any], tmp_path: Path) -> None:
    """The hash tells books apart, and prices come through."""
    document["parts"]["nic"]["by_rate"][3]["usd"] = 700
    path = tmp_path / "book.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    book = read_price_book(path)
    assert book.sha256 != default_price_book().sha256
    assert book.quote(NIC, 100.0).usd == 700.0


def test_everything_wrong_is_said_at_once(document: dict[str, Any], problems: Callable[[Any], list[Problem]]) -> None:
    """Unknown part, wrong unit, negative price, missing rate, other currency, unknown device port: one message each."""
    parts = document["parts"]
    parts["tranceiver"] = parts["transceiver"]
    parts["fibre"]["unit"] = "foot"
    parts["ocs_port"]["usd"] = -1
    del parts["nic"]["by_rate"][2]
    parts["fibre"]["length_m"] = {"least": 10, "most": 1}
    document["currency"] = "EUR"
    document["devices"]["patch-panel"]["port_part"] = "nic"
    found = {problem.path: problem for problem in problems(document)}
    assert found["parts.tranceiver"].message == "unknown part"
    assert "transceiver" in (found["parts.tranceiver"].allowed or "")
    assert (found["parts.fibre.unit"].message, found["parts.fibre.unit"].allowed) == ("wrong unit", "metre")
    assert found["parts.ocs_port.usd"].message == "out of range"
    assert found["parts.nic.by_rate"].message == "missing rate 40 Gbit/s"
    assert found["parts.fibre.length_m"].message == "least is above most"
    assert found["currency"].allowed == "USD"
    assert "patch_panel_port" in (found["devices.patch-panel.port_part"].allowed or "")
    assert found["devices"].message == "no device with ports of patch_panel_port"
    assert len(found) == 8


@pytest.mark.parametrize("part", PARTS)
def test_no_part_may_be_left_out(part: str, document: dict[str, Any], problems: Callable[[Any], list[Problem]]) -> None:
    """Each part is needed for some network."""
    del document["parts"][part]
    assert [(problem.path, problem.message) for problem in problems(document)] == [(f"parts.{part}", "missing")]


def test_a_rate_twice(document: dict[str, Any], problems: Callable[[Any], list[Problem]]) -> None:
    """Two prices for one rate are refused."""
    rows = document["parts"]["switch_port"]["by_rate"]
    rows.append(dict(rows[0]))
    assert [problem.message for problem in problems(document)] == ["the same rate twice"]


@pytest.mark.parametrize("data", [[], 7, {}, {"parts": 3, "devices": []}, {"parts": {"fibre": {"length_m": 3}}}])
def test_no_price_book_at_all(data: object, problems: Callable[[Any], list[Problem]]) -> None:
    """Documents of another shape are refused, never a traceback."""
    assert problems(data)
