"""`topoopt cost`: clusters by size, instance and solution; price books; what cannot be cabled; files and refusals."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from ruamel.yaml import YAML

from tests.support.cli_cases import chain, job, refusals, run, write
from tests.support.paths import INSTANCES
from topoopt.costs import DEFAULT_BOOK, FABRIC_COSTS

SIZE = ("--servers", 128, "--degree", 4, "--link-gbps", 100)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def book(tmp_path: Path) -> Callable[..., Path]:
    """Writes the shipped prices with optical devices of so many ports, or otherwise changed."""

    def make(ports: int | None = None, **prices: float) -> Path:
        data: dict[str, Any] = YAML(typ="safe", pure=True).load(
            files("topoopt.costs").joinpath(DEFAULT_BOOK).read_text(encoding="utf-8")
        )
        for device in data["devices"].values():
            device["ports"] = ports or device["ports"]
        for part, usd in prices.items():
            data["parts"][part]["usd"] = usd
        return write(tmp_path, data, "book.json")

    return make


@pytest.fixture(scope="module")
def solution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan of six servers with two interfaces: the only connected network is one ring."""
    folder = tmp_path_factory.mktemp("plan")
    assert run("solve", write(folder, job(6, 2, chain(3))), "--output", folder / "out").code == 0
    return folder / "out" / "solution.json"


def test_every_fabric_of_a_size() -> None:
    """All fabrics of the table are there, or why not; totals are the sums of their bills and of the known prices."""
    found = run("cost", *SIZE, "--json")
    document = found.json
    assert found.code == 0
    assert {*document["fabrics"], *document["unavailable"]} == set(FABRIC_COSTS) - {"clos"}  # no switches are stated
    assert set(document["unavailable"]) == {"hypercube", "regional-circuits", "torus-3d"}
    for fabric in document["fabrics"].values():
        assert fabric["usd"] == pytest.approx(sum(line["usd"] for line in fabric["bill"]))
        assert fabric["usd_per_server"] == pytest.approx(fabric["usd"] / 128)
    direct = document["fabrics"]["direct-connect"]
    assert direct["usd"] == 128 * 4 * (678 + 99 + 150 + 25 + 200)
    assert direct["devices"]["devices"] == 2  # 8 planes of 128 ports, 7 of them on a panel
    assert document["fabrics"]["fat-tree"]["usd"] == pytest.approx(direct["usd"])
    assert document["fabrics"]["fat-tree"]["port_gbps"] == pytest.approx(200 * 4608 / 4323)
    assert (document["book"]["name"], document["counting"]) == ("prices-2023", "ports")


def test_rates_of_equal_cost_against_any_fabric() -> None:
    """Set to the cost of the ideal switch, each fabric costs as much at the rate that is told."""
    document = run("cost", *SIZE, "--set", "equal_to=ideal-switch", "--json").json
    reference = document["fabrics"]["ideal-switch"]["usd"]
    for name in ("direct-connect", "direct-connect-ocs", "random-regular"):
        rate = document["fabrics"][name]["equal_cost_port_gbps"]
        again = run("cost", *SIZE[:4], "--link-gbps", rate, "--fabrics", name, "--json").json
        assert again["fabrics"][name]["usd"] == pytest.approx(reference)


def test_text_names_parts_and_what_is_not_known() -> None:
    """People see bills, devices, how it was counted, and which parts have no power in the book."""
    found = run("cost", *SIZE)
    assert found.code == 0
    assert "patch panel port" not in found.stdout
    found = run("cost", *SIZE, "--verbose")
    for text in ("patch panel port", "589,824", "213.2 Gbit/s", "left out: hypercube", "power not in the price book"):
        assert text in found.stdout


def test_instances_and_solutions_have_the_same_bill(tmp_path: Path, solution: Path) -> None:
    """A co-optimisation by its instance, its solution and its size; a topology by its instance at a given rate."""
    five = {"schema_version": 1, "name": "five", "kind": "topology", "servers": 6, "degree": 2,
            "links": "bidirectional", "demand": {"family": "uniform"}}  # fmt: skip
    bills = [
        run("cost", write(tmp_path, job(6, 2, chain(3))), "--json").json["fabrics"],
        run("cost", solution, "--json").json["fabrics"],
        run("cost", "--servers", 6, "--degree", 2, "--link-gbps", 100, "--json").json["fabrics"],
        run("cost", write(tmp_path, five), "--link-gbps", 100, "--json").json["fabrics"],
    ]
    assert all(found["direct-connect"]["bill"] == bills[0]["direct-connect"]["bill"] for found in bills)
    refused = run("cost", write(tmp_path, five), "--json")
    assert refused.code == 2
    assert refused.json["problems"][0]["message"] == "the file has no rate of links"


def test_prices_of_the_user_count(book: Callable[..., Path]) -> None:
    """Free panel ports: direct connect is cheaper by 200 USD an interface, and the hash of the book differs."""
    document = run("cost", *SIZE, "--prices", book(patch_panel_port=0), "--json").json
    assert document["fabrics"]["direct-connect"]["usd_per_server"] == pytest.approx(4608 - 4 * 200)
    assert document["book"]["sha256"] != run("cost", *SIZE, "--json").json["book"]["sha256"]


def test_a_ring_that_does_not_fit_on_one_device(solution: Path, book: Callable[..., Path]) -> None:
    """Six servers in a ring on devices of four ports: exit code 3, the bill is told all the same, and why."""
    found = run("cost", solution, "--prices", book(ports=4), "--json")
    assert found.code == 3
    document = found.json
    assert (document["status"], document["exit_code"]) == ("infeasible", 3)
    assert document["fabrics"]["direct-connect"]["usd"] > 0
    devices = document["fabrics"]["direct-connect"]["devices"]
    assert (devices["cabled"], devices["devices_per_plane"]) == (False, 2)
    assert "6 servers take 2 devices of 4 ports" in document["error"]
    text = run("cost", solution, "--prices", book(ports=4))
    assert text.code == 3
    assert "CANNOT BE CABLED" in text.stdout
    assert "direct-connect cannot be cabled" in text.stderr


def test_only_fabrics_asked_for_must_be_cabled(solution: Path, tmp_path: Path) -> None:
    """With panels of 1008 ports but circuit switches of 4, only who asks for the switches is refused."""
    data = YAML(typ="safe", pure=True).load(files("topoopt.costs").joinpath(DEFAULT_BOOK).read_text(encoding="utf-8"))
    data["devices"]["3d-mems-ocs"]["ports"] = 4
    prices = write(tmp_path, data, "book.json")
    assert run("cost", solution, "--prices", prices).code == 0
    assert run("cost", solution, "--prices", prices, "--fabrics", "direct-connect,direct-connect-ocs").code == 3
    assert run("cost", solution, "--prices", prices, "--fabrics", "direct-connect").code == 0


def test_more_servers_than_any_device_has_ports() -> None:
    """2000 servers: counted, and said that circuits cannot join all of them."""
    found = run("cost", "--servers", 2000, "--degree", 4, "--link-gbps", 100, "--json")
    devices = found.json["fabrics"]["direct-connect"]["devices"]
    assert found.code == 0
    assert (devices["cabled"], devices["devices_per_plane"]) == (None, 2)
    assert "fall into 2 clusters" in devices["reason"]


def test_a_rate_beyond_the_book_is_a_multiple() -> None:
    """800 Gbit/s are four links of 200 with all their parts, and the notes say so."""
    document = run("cost", "--servers", 10, "--degree", 1, "--link-gbps", 800, "--json").json
    direct = document["fabrics"]["direct-connect"]
    assert direct["usd"] == pytest.approx(10 * 4 * (815 + 198 + 150 + 225))
    assert direct["notes"] == ["800 Gbit/s is beyond the price book: counted as 4 links of 200 Gbit/s"]


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        ((), ["--servers", "--degree", "--link-gbps"]),
        (("--servers", 16), ["--degree", "--link-gbps"]),
        ((*SIZE, "--fabrics", "fat-tree,fat-tre", "--set", "equal_to=gold"), ["--fabrics", "--set equal_to"]),
        ((*SIZE, "--set", "counting=beans"), ["--set counting"]),
        ((*SIZE, "--output", "/nowhere/a.csv", "--output", "/tmp/plot.doc"), ["--output", "--output"]),
        ((*SIZE, "--fabrics", "hypercube"), [None]),
    ],
)
def test_refusals(words: tuple[object, ...], paths: list[str | None]) -> None:
    """Half a size, unknown names, files that cannot be written, a fabric that does not exist: all said, exit code 2."""
    found = run("cost", *words, "--json")
    assert found.code == 2
    assert [path for path, _, _ in refusals(found.json)] == paths


def test_refused_files(tmp_path: Path, solution: Path) -> None:
    """A price book with an unknown part, a kind without a bill, a size beside a file, no file at all."""
    prices = tmp_path / "book.yaml"
    text = files("topoopt.costs").joinpath(DEFAULT_BOOK).read_text(encoding="utf-8")
    prices.write_text(text.replace("  fibre:", "  fiber:"), encoding="utf-8")
    found = run("cost", *SIZE, "--prices", prices, "--json")
    assert found.code == 2
    assert {(path, message) for path, _, message in refusals(found.json)} == {
        ("parts.fiber", "unknown part"),
        ("parts.fibre", "missing"),
    }
    assert all(problem["line"] for problem in found.json["problems"])
    assert run("cost", solution, "--servers", 4, "--json").json["problems"][0]["message"] == "not beside a file"
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"kind": "allocation-solution"}))
    assert "not counted" in run("cost", other, "--json").json["error"]
    assert run("cost", tmp_path / "none.yaml").code == 2


def test_csv_and_plots(tmp_path: Path) -> None:
    """The CSV has every line of every bill; plots have four panels, one more for another degree and rate."""
    table, picture, page = tmp_path / "bill.csv", tmp_path / "plot.svg", tmp_path / "plot.html"
    document = run("cost", *SIZE, "--output", table, "--output", picture, "--json").json
    with table.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert sum(float(row["usd"]) for row in rows) == pytest.approx(
        sum(fabric["usd"] for fabric in document["fabrics"].values())
    )
    tree = ElementTree.parse(picture).getroot()
    titles = [text.text for text in tree.iter(f"{SVG}text") if (text.text or "").startswith("d = ")]
    assert titles == ["d = 4, 100 Gbit/s", "d = 4, 200 Gbit/s", "d = 8, 100 Gbit/s", "d = 8, 200 Gbit/s"]
    words = ("--servers", 64, "--degree", 6, "--link-gbps", 40, "--set", "counting=devices", "--output", page)
    assert run("cost", *words).code == 0
    html = page.read_text(encoding="utf-8")
    assert html.startswith("<!doctype html>")
    assert "d = 6, 40 Gbit/s" in html
    assert html.count("<figcaption>") == html.count('class="vega"') == 5


def test_plots_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has its tables, no SVG file is written, and one line names the extra."""
    monkeypatch.setattr("topoopt.page.vega.find_spec", lambda name: None)
    picture, page = tmp_path / "plot.svg", tmp_path / "plot.html"
    answer = run("cost", *SIZE, "--output", picture, "--json")
    assert answer.code == 0
    assert answer.json["plot"] is None
    assert not picture.exists()
    assert answer.stderr.count("topoopt[studies]") == 1
    assert run("cost", *SIZE, "--output", page).code == 0
    html = page.read_text(encoding="utf-8")
    assert "topoopt[studies]" in html
    assert "<figcaption>" not in html
    assert "Figures, million USD" in html


def test_schema_of_price_books() -> None:
    """`topoopt schema price-book` prints the shape of such files."""
    found = run("describe", "price-book", "--schema", "--json")
    assert found.code == 0
    assert found.json["properties"]["kind"]["const"] == "price-book"


def test_prices_in_solve(tmp_path: Path, book: Callable[..., Path]) -> None:
    """Prices of plan and baselines, and what a million dollars buy; a dearer book makes the fat-tree faster."""
    instance = write(tmp_path, job(6, 2, chain(3)))
    found = run("solve", instance, "--output", tmp_path / "out", "--json").json
    prices = found["prices"]
    assert set(prices["usd"]) == {"direct-connect", *found["baselines_ms"]}
    assert prices["usd"]["direct-connect"] == pytest.approx(6 * 2 * 1152)
    assert prices["usd"]["fat-tree"] == pytest.approx(prices["usd"]["direct-connect"])
    assert prices["usd"]["ideal-switch"] == pytest.approx(6 * 2 * 2657)
    assert prices["usd"]["random-regular"] == pytest.approx(6 * 2 * (678 + 99 + 75))
    worth = prices["iterations_per_s_per_million_usd"]
    for fabric, time_ms in {"direct-connect": found["iteration_time_ms"], **found["baselines_ms"]}.items():
        assert worth[fabric] == pytest.approx(1e9 / time_ms / prices["usd"][fabric])
    dear = book(patch_panel_port=1000)
    words = ("solve", instance, "--output", tmp_path / "dear", "--prices", dear, "--json")
    again = run(*words).json
    assert again["iteration_time_ms"] == found["iteration_time_ms"]
    assert again["baselines_ms"]["fat-tree"] < found["baselines_ms"]["fat-tree"]
    assert again["prices"]["book_sha256"] != prices["book_sha256"]
    assert run("check", instance, tmp_path / "dear" / "solution.json").code == 0
    text = run("solve", instance, "--output", tmp_path / "out", "--force").stdout
    assert "USD" in text


def test_worth_in_compare(tmp_path: Path) -> None:
    """A column where the network has a price, empty for kinds without; prices for those are refused."""
    ring = {"schema_version": 1, "name": "ring", "kind": "routing", "demand": {"family": "uniform"},
            "topology": {"family": "ring", "servers": 4}}  # fmt: skip
    files_ = (write(tmp_path, job(4, 2, chain(2))), write(tmp_path, ring, "ring.json"))
    found = run("compare", *files_, "--methods", "data-parallel,simplex", "--budget", 20, "--json").json
    worth = {(row["instance"], row["method"]): row["iterations_per_s_per_million_usd"] for row in found["runs"]}
    value = next(row["value"] for row in found["runs"] if row["outcome"] == "feasible" and row["unit"] == "ms")
    assert worth["case", "data-parallel"] == pytest.approx(1e9 / value / (4 * 2 * 1152))
    assert worth["ring", "simplex"] is None
    prices = str(files("topoopt.costs").joinpath(DEFAULT_BOOK))
    assert run("compare", files_[1], "--prices", prices).code == 2
    assert run("solve", files_[1], "--output", tmp_path / "o", "--prices", prices).code == 2


def test_a_language_model_in_training(tmp_path: Path) -> None:
    """Its cluster is counted; with a solution each fabric says what an iteration takes there, and what money buys."""
    case = tmp_path / "llm.yaml"
    text = (INSTANCES / "llm-training" / "small-16.yaml").read_text()
    text = text.replace("context: [1, 2]", "context: 1, pipeline: 4, recompute: none").replace(
        "[0, 1, 2], micro", "0, micro"
    )
    case.write_text(text.replace("[ideal-switch]", "[rail-only, ideal-switch]"))
    priced = run("cost", case, "--fabrics", "direct-connect,rail-only", "--json").json
    assert (priced["servers"], priced["degree"], priced["link_gbps"]) == (4, 4, 25.0)
    assert "iteration_time_s" not in priced["fabrics"]["rail-only"]
    solved = run("solve", case, "-o", tmp_path, "--json").json
    found = run("cost", tmp_path / "solution.json", "--json").json["fabrics"]
    for one in solved["fabrics"]:
        own = found[one["fabric"]]
        assert own["iteration_time_s"] == one["iteration_time_s"]
        bought = 1e6 / own["usd"] / one["iteration_time_s"]
        assert own["iterations_per_s_per_million_usd"] == pytest.approx(bought)
    assert found["rail-only"]["usd"] == priced["fabrics"]["rail-only"]["usd"]
    assert "an iteration takes" in run("cost", tmp_path / "solution.json").stdout
    other = run("cost", tmp_path / "solution.json", "--link-gbps", 100, "--json").json["fabrics"]
    assert "iteration_time_s" not in other["rail-only"]
