"""`topoopt collective find`: the front, its bounds and its files; the atlas, each entry computed anew."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from solvers.stop import Stop
from tests.support.cli_cases import run
from tests.support.make_atlas import DEGREES, SIZES, atlas_text, rebuilt
from topoopt.analyses.collective.search import (
    AllReduceCost,
    ScoredTopology,
    Wanted,
    atlas,
    find_front,
    front,
    parsed_atlas,
    recipe_text,
    scored,
    topology_limits,
)
from topoopt.core.cluster import LinkDirection
from topoopt.kinds.files import read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve

F = Fraction
PAIRS, SINGLE = LinkDirection.BIDIRECTIONAL, LinkDirection.UNIDIRECTIONAL
EVERY = 23
"""Of the entries of the atlas, one in so many is computed anew in quick runs."""


def found(*arguments: str) -> dict[str, Any]:
    """The JSON object of a run that succeeds."""
    result = run("collective", "find", *arguments, "--json")
    assert result.code == 0, result.stderr
    return result.json


def check_entry(wanted: Wanted, one: ScoredTopology) -> None:
    """The figures stated are those of the recipe, and no better than any bound."""
    again = scored(one.recipe, wanted)
    assert again is not None, (wanted, one)
    assert (again.steps, again.bandwidth) == (one.steps, one.bandwidth), (wanted, one)
    assert again.all_to_all == pytest.approx(one.all_to_all, rel=1e-6), (wanted, one)
    limits = topology_limits(wanted)
    assert one.steps >= limits.steps, (wanted, one)
    assert one.bandwidth >= limits.bandwidth, (wanted, one)
    assert one.all_to_all <= limits.all_to_all * (1 + 1e-7), (wanted, one)


def test_some_entries_of_the_atlas_computed_anew() -> None:
    """One in many, of up to 400 servers: steps, loads and rates from the recipe alone."""
    entries = [(wanted, one) for wanted, entries in atlas().items() for one in entries if wanted.servers <= 400]
    assert len(entries) > 500
    for wanted, one in entries[::EVERY]:
        check_entry(wanted, one)


def test_haar_graphs_of_the_atlas_computed_anew() -> None:
    """Those of up to 256 servers."""
    entries = [(wanted, one) for wanted, found in atlas().items() for one in found if one.recipe["family"] == "haar"]
    assert len(entries) > 10
    for wanted, one in entries:
        if wanted.servers <= 256:
            check_entry(wanted, one)


@pytest.mark.heavy
def test_all_entries_of_the_atlas_computed_anew() -> None:
    """Each of them."""
    for wanted, entries in atlas().items():
        for one in entries:
            check_entry(wanted, one)


def test_the_atlas_is_complete_and_has_fronts() -> None:
    """Degrees 2 to 8 and both kinds of links for all its sizes; no entry is dominated by another; it reads back."""
    known = atlas()
    assert atlas_text(known) == atlas_text(parsed_atlas(atlas_text(known)))
    due = {Wanted(n, d, links) for n in SIZES for d in DEGREES if d < n for links in LinkDirection}
    assert set(known) == due
    assert max(SIZES) == 1024
    for wanted, entries in known.items():
        assert entries, wanted
        assert front(entries) == list(entries), wanted


# n, d, links, and of the front: steps, factor that are reached or bettered (published fronts, searches of others).
KNOWN = [
    (1024, 4, SINGLE, 5, F(341, 256)),
    (1024, 4, SINGLE, 6, F(261, 256)),
    (1024, 4, SINGLE, 7, F(1023, 1024)),
    (1024, 4, PAIRS, 8, F(1023, 1024)),
    (64, 4, SINGLE, 4, F(63, 64)),
    (64, 4, PAIRS, 5, F(63, 64)),
    (32, 4, SINGLE, 3, F(31, 32)),
    (8, 2, SINGLE, 3, F(7, 8)),
    (9, 3, SINGLE, 2, F(8, 9)),
    (13, 4, SINGLE, 2, F(12, 13)),
    (16, 2, SINGLE, 5, F(15, 16)),
    (16, 4, SINGLE, 3, F(15, 16)),
    (10, 3, PAIRS, 2, F(9, 10)),
    (50, 7, PAIRS, 2, F(49, 50)),
    (30, 3, PAIRS, 4, F(29, 30)),
    # Cubic networks of a power of two: as random ones, whose diameter is about log2 n + log2 ln n + 1.
    (256, 3, PAIRS, 11, F(255, 256)),
    (1024, 3, PAIRS, 13, F(1023, 1024)),
]


@pytest.mark.parametrize(("n", "d", "links", "steps", "factor"), KNOWN)
def test_the_atlas_knows_what_is_published(n: int, d: int, links: LinkDirection, steps: int, factor: Fraction) -> None:
    """For every one some entry has no more steps and no larger factor."""
    assert any(one.steps <= steps and one.bandwidth <= factor for one in atlas()[Wanted(n, d, links)])


# 2 T_L alpha + 2 T_B P / B for 12.5 GB/s a link and 2 us a step, by hand.
@pytest.mark.parametrize(
    ("n", "one", "size", "time_us"),
    [
        (64, ScoredTopology({}, 4, F(63, 64), 1.0), 10**6, 16 + 2 * 63 / 64 * 20),
        (64, ScoredTopology({}, 4, F(63, 64), 1.0), 10**8, 16 + 2 * 63 / 64 * 2000),
        (1024, ScoredTopology({}, 7, F(1023, 1024), 1.0), 10**6, 28 + 2 * 1023 / 1024 * 20),
    ],
)
def test_times_of_allreduce(n: int, one: ScoredTopology, size: int, time_us: float) -> None:
    assert AllReduceCost(size, 12.5, 2.0).time_us(Wanted(n, 4, SINGLE), one) == pytest.approx(time_us)


def test_the_front_by_command(tmp_path: Path) -> None:
    """Bounds, gaps, times and files; the network that is written has the figures that are stated."""
    files = [tmp_path / name for name in ("net.graphml", "front.csv", "page.html")]
    options = (
        "--servers",
        "12",
        "--degree",
        "4",
        "--bytes",
        "1 MB",
        "--link-gbps",
        "100",
        "--set",
        "latency_us=2",
    )
    document = found(*options, *(word for file in files for word in ("-o", str(file))))
    assert document["limits"] == {"steps": 2, "bandwidth_factor": "11/12", "all_to_all_rate": pytest.approx(4 / 18)}
    best = document["front"][document["best"]]
    assert (best["steps"], best["bandwidth_factor"], best["steps_above_moore"], best["bandwidth_gap"]) == (
        2, "11/12", 0, 0.0,
    )  # fmt: skip
    assert best["allreduce_us"] == pytest.approx(8 + 2 * 11 / 12 * 20)
    bounds = run("collective", "bound", str(files[0]), "--set", "breadth_first=true", "--json").json
    assert (bounds["ranks"], bounds["steps"], bounds["bandwidth_factor"]) == (12, 2, "11/12")
    assert bounds["allgather_rate"] == pytest.approx(12.5 * 4 * 12 / 11)
    assert files[1].read_text().count("\n") == 1 + len(document["front"])
    page = files[2].read_text()
    assert "12 servers, 4 links each" in page
    assert "11/12" in page


def test_a_schedule_on_what_was_found_takes_the_time_stated(tmp_path: Path) -> None:
    """The network that is written, solved and checked as an instance: 2 T_L alpha + 2 T_B M / (d b)."""
    options = (
        "--servers",
        "20",
        "--degree",
        "3",
        "--bytes",
        "1.2 MB",
        "--link-gbps",
        "40",
        "--set",
        "latency_us=3",
    )
    document = found(*options, "--output", str(tmp_path / "net.graphml"))
    instance = {
        "schema_version": 1, "kind": "collective", "name": "x", "collective": "allreduce", "bytes": 1_200_000,
        "topology": {"file": "net.graphml"}, "latency_us": {"link": 3},
    }  # fmt: skip
    (tmp_path / "x.json").write_text(json.dumps(instance))
    solution = solve(read_instance(tmp_path / "x.json"), SolveOptions(method="bfb"))
    assert solution.check.ok, solution.check.violations
    best = document["front"][document["best"]]
    assert solution.figures.steps == 2 * best["steps"]
    assert solution.figures.time_us == pytest.approx(best["allreduce_us"], rel=1e-3)


def test_a_recipe_is_a_section_of_instances() -> None:
    """The text that is printed is understood by `collective bound`, nested ones too."""
    one = {"family": "line-graph", "of": {"family": "product", "factors": [{"family": "ring", "servers": 3}] * 2}}
    result = run("collective", "bound", recipe_text(one), "--set", "breadth_first=true", "--json")
    bounds = result.json
    assert (bounds["ranks"], bounds["steps"], bounds["bandwidth_factor"]) == (36, 3, "1")


def test_preferences() -> None:
    """12 servers with 3 single fibres: two steps with a larger factor, or three with the least."""
    choose = {
        prefer: found("--servers", "12", "--degree", "3", "--prefer", prefer)
        for prefer in ("steps", "bandwidth", "all-to-all")
    }
    entries = choose["steps"]["front"]
    best = {prefer: entries[document["best"]] for prefer, document in choose.items()}
    assert best["steps"]["steps"] == min(one["steps"] for one in entries)
    assert best["bandwidth"]["bandwidth_factor_value"] == min(one["bandwidth_factor_value"] for one in entries)
    assert best["all-to-all"]["all_to_all_rate"] == max(one["all_to_all_rate"] for one in entries)
    timed = ("--servers", "12", "--degree", "3", "--prefer", "time", "--bytes")
    small, large = (found(*timed, size, "--set", "latency_us=5") for size in ("1 B", "1 GB"))
    assert small["front"][small["best"]]["steps"] == best["steps"]["steps"]
    assert large["front"][large["best"]]["bandwidth_factor"] == best["bandwidth"]["bandwidth_factor"]


@pytest.mark.parametrize(
    ("n", "d", "links"), [(2, 1, PAIRS), (3, 1, SINGLE), (3, 2, PAIRS), (67, 3, SINGLE), (67, 3, PAIRS)]
)
def test_sizes_beside_the_atlas(n: int, d: int, links: LinkDirection) -> None:
    """Two and three servers, and a prime number: found by a search where the atlas has nothing, within the bounds."""
    one = find_front(Wanted(n, d, links), Stop(), visits=None if n < 10 else 200_000, seed=0)
    assert one.searched is (n != 3 or d != 2)
    for entry in one.entries:
        check_entry(one.wanted, entry)


def test_an_odd_number_of_fibre_pairs() -> None:
    """Nine servers cannot have three fibre pairs each; with two a server they make a ring, of the third nothing."""
    one = find_front(Wanted(9, 3, PAIRS), Stop(), visits=None, seed=0)
    assert one.preferred.recipe["family"] == "ring"
    assert (one.preferred.steps, one.preferred.bandwidth) == (4, F(4, 3))


def test_limits_keep_what_there_is() -> None:
    """No time at all: well-known topologies alone, exit code 4."""
    result = run("collective", "find", "--servers", "67", "--degree", "3", "--time-limit", "0", "--json")
    assert result.code == 4
    assert {one["topology"]["family"] for one in result.json["front"]} <= {"generalized-kautz", "de-bruijn"}


def test_the_atlas_made_anew() -> None:
    """The same seed and effort make the same table; a stop keeps what was made; what is known is never lost."""
    made = [rebuilt([3, 4, 6], [2, 3], Stop(), known={}, visits=20_000, seed=0, tell=lambda _: None) for _ in range(2)]
    assert atlas_text(made[0]) == atlas_text(made[1])
    assert set(made[0]) == {
        Wanted(n, d, links) for n, d in ((3, 2), (4, 2), (4, 3), (6, 2), (6, 3)) for links in LinkDirection
    }
    better = {Wanted(6, 2, SINGLE): [ScoredTopology({"family": "ring", "servers": 6}, 1, F(1, 2), 1.0)]}
    kept = rebuilt([6], [2], Stop(), known=better, visits=10_000, seed=0, tell=lambda _: None)
    assert kept[Wanted(6, 2, SINGLE)] == better[Wanted(6, 2, SINGLE)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--servers", "4", "--degree", "4"), "more links than others"),
        (("--servers", "8", "--degree", "1", "--links", "bidirectional"), "cannot connect 8 servers"),
        (("--servers", "8", "--degree", "2", "--links", "both"), "unknown links"),
        (("--servers", "8", "--degree", "2", "--prefer", "time"), "a time needs a size"),
        (("--servers", "8", "--degree", "2", "--bytes", "many"), "not a size"),
        (("--servers", "8", "--degree", "2", "--output", "x.json"), "unknown format"),
        (("--servers", "8", "--degree", "2", "--output", "nowhere/x.html"), "cannot be written"),
        (("--servers", "8", "--degree", "2", "--output", "x.txt"), "unknown format"),
    ],
)
def test_refusals(arguments: tuple[str, ...], message: str) -> None:
    """Exit code 2 with the option, its value and what is allowed."""
    result = run("collective", "find", *arguments)
    assert result.code == 2
    assert message in result.stderr
