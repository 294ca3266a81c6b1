"""`topoopt describe topology FAMILY`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli_cases import refusals, run


@pytest.mark.parametrize(
    ("servers", "degree", "distances", "diameter", "mean_hops"),
    [
        (12, 4, {1, 5}, 3, 1.818),
        (16, 8, {1, 3, 5, 9}, 2, 1.467),
        (128, 4, {1, 13}, 10, 5.622),
        (128, 8, {1, 5, 13, 39}, 5, 2.961),
        (432, 8, {1, 5, 23, 95}, 7, 4.088),
    ],
)
def test_distances_of_the_reference(
    servers: int, degree: int, distances: set[int], diameter: int, mean_hops: float
) -> None:
    """Ring distances, diameter and mean hops of the released code, and the bound d n^(1/d)."""
    words = ("--servers", servers, "--degree", degree, "--json")
    result = run("describe", "topology", "totient-flexnet", *words)
    assert result.code == 0
    both_ways = {min(offset, servers - offset) for offset in result.json["offsets"]}
    assert both_ways == {min(p, servers - p) for p in distances}
    assert len(result.json["offsets"]) == degree
    assert result.json["diameter"] == diameter
    assert result.json["mean_hops"] == pytest.approx(mean_hops, abs=5e-4)
    assert result.json["diameter_bound"] == pytest.approx(degree * servers ** (1 / degree))


def test_one_way_ring() -> None:
    """One one-way interface: a ring, n - 1 hops across, n / 2 on average; the text says the same."""
    words = ("describe", "topology", "totient", "--servers", 7, "--degree", 1, "--links", "unidirectional")
    result = run(*words, "--json")
    assert result.code == 0
    assert (result.json["offsets"], result.json["diameter"]) == ([1], 6)
    assert result.json["mean_hops"] == pytest.approx(3.5)
    told = run(*words).stdout
    assert "offsets [1]" in told
    assert "diameter 6" in told


def test_one_two_way_interface_joins_two_servers_only() -> None:
    """Degree 1 is a cable between two servers; more of them cannot be joined: exit code 3."""
    pair = run("describe", "topology", "totient", "--servers", 2, "--degree", 1, "--json")
    assert (pair.code, pair.json["diameter"]) == (0, 1)
    result = run("describe", "topology", "totient", "--servers", 12, "--degree", 1, "--json")
    assert (result.code, result.json["status"]) == (3, "infeasible")


def test_wrong_values() -> None:
    """Unknown names are listed together; numbers out of range are refused."""
    words = ("describe", "topology", "totient")
    result = run(*words, "--servers", 12, "--links", "radio", "--json")
    assert result.code == 2
    assert [path for path, _, _ in refusals(result.json)] == ["--degree", "--links"]
    for servers, degree in ((1, 4), (10**9, 4), (12, 0), (12, 65)):
        assert run("describe", "topology", "totient", "--servers", servers, "--degree", degree, "--json").code == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        # The released code's 20/11 hops; four servers at one hop and seven at two are 18/11.
        (
            ("totient-flexnet", 12, 4, "bidirectional"),
            "On totient-flexnet of 12 servers with 4 interfaces each any server reaches any other in 3 hops (no "
            "topology has less than 2), on average in 1.818 (at most 1.11× the least there can be).",
        ),
        # A Kautz graph: three servers at one hop and eight at two, 19/11.
        (
            ("generalized-kautz", 12, 3, "unidirectional"),
            "On generalized-kautz of 12 servers with 3 interfaces each any server reaches any other in 2 hops (the "
            "least there can be), on average in 1.727 (the least there can be).",
        ),
        # A one-way ring: 1 to 6 hops.
        (
            ("moore", 7, 1, "unidirectional"),
            "No topology of 7 servers with 1 interface each has a diameter below 6 hops or a mean below 3.500 "
            "(proven).",
        ),
    ],
)
def test_metrics_begin_with_their_answer(words: tuple[str, int, int, str], said: str) -> None:
    """Diameter and mean hops counted by hand, beside the Moore bound; in the JSON object and in the terminal."""
    family, servers, degree, links = words
    command = ("describe", "topology", family, "--servers", servers, "--degree", degree, "--links", links)
    assert run(*command, "--json").json["answer"] == said
    assert " ".join(run(*command).stdout.split()).startswith(said)


def test_a_picture_of_the_links(tmp_path: Path) -> None:
    """SVG, of circulants and others; not of a bound, and not over a file that is there."""
    size = ("--servers", 12, "--degree", 4, "--links", "unidirectional")
    for family, circles in (("totient", 12), ("generalized-kautz", 24)):  # servers of a Kautz graph stand on both sides
        file = tmp_path / f"{family}.svg"
        words = ("describe", "topology", family, *size, "-o", file)
        assert run(*words).code == 0
        assert file.read_text(encoding="utf-8").count("<circle") == circles
        assert run(*words).code == 2
        assert run(*words, "--force").code == 0
    refused = run("describe", "topology", "moore", "--servers", 12, "--degree", 4, "-o", tmp_path / "moore.svg")
    assert refused.code == 2
