"""The sentences that begin `collective bound` and `collective audit`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import written_schedules as written
from tests.support.cli_cases import run

BOXES = "preset: dgx-a100, boxes: 2"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--collective", "reduce-scatter"), "346.667 GB/s for ReduceScatter"),
        (("--collective", "all-to-all"), "3.125 GB/s for each ordered pair of an All-to-All"),
        (
            (),
            "346.667 GB/s for AllGather or ReduceScatter, 173.333 GB/s for AllReduce and 3.125 GB/s for each ordered "
            "pair of an All-to-All",
        ),
    ],
)
def test_bounds_of_two_boxes(words: tuple[str, ...], said: str) -> None:
    """Two DGX A100 by hand: 325 GB/s into a GPU carry 15/16 of the vector, an AllReduce does so twice, and the 200 GB/s
    out of a box are shared by 64 ordered pairs.
    """
    whole = f"No schedule over these 16 ranks exceeds {said} (proven)."
    command = ("collective", "bound", BOXES, *words)
    assert run(*command, "--json").json["answer"] == whole
    assert " ".join(run(*command).stdout.split()).startswith(whole)


RING_3 = "links: [[0, 1, 10], [1, 2, 10], [2, 0, 10]]"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            ("--topology", RING_3, "--bytes", "3MB"), 0,
            "The schedule is right, as allgather of 3 ranks: 15 GB/s, 100.0 % of what no schedule exceeds (proven).",
        ),
        (
            ("--topology", RING_3), 0,
            "The schedule is right, as allgather of 3 ranks; no schedule exceeds 15 GB/s (proven), its own rate is not "
            "known.",
        ),
        ((), 0, "The schedule is right, as allgather of 3 ranks; semantics only, how fast it is was not examined."),
        (
            ("--topology", RING_3, "--bytes", "3MB", "--set", "claim=16GB/s"), 6,
            "The schedule is wrong as allgather of 3 ranks (",
        ),
    ],
)  # fmt: skip
def test_audits_of_a_ring(words: tuple[str, ...], code: int, said: str, tmp_path: Path) -> None:
    """Two thirds of the vector come in by one link of 10 GB/s, so 15 GB/s at best, which the ring reaches."""
    file = written.msccl(tmp_path / "r.xml", "allgather", 3, written.ring_allgather(3), sizes=(1, 3))
    command = ("collective", "audit", file, "--format", "msccl", *words)
    found = run(*command, "--json")
    assert (found.code, found.json["answer"][: len(said)]) == (code, said)
    assert " ".join(run(*command).stdout.split()).startswith(found.json["answer"])
    if code:
        assert found.json["answer"].endswith(f"({len(found.json['reasons'])} reasons): its figures prove nothing.")


def test_an_audit_says_where_switches_must_copy(tmp_path: Path) -> None:
    """Four GPUs at a switch send to three others in one epoch each: one uplink carries what it may only with copies."""
    ranks = [1, 2, 3, 4]
    listed = [f"0 of {a}: {a}>{b} @{a - 1} via 0" for a in ranks for b in ranks if a != b]
    file = written.teccl(tmp_path / "t.json", listed, written.everyone(ranks), epochs=5, gbytes=4e-5)
    links = [[a, 0, 10] for a in ranks] + [[0, a, 10] for a in ranks]
    command = (
        "collective",
        "audit",
        file,
        "--format",
        "teccl",
        "--topology",
        f"links: {links}, switches: [0]",
        "--json",
    )
    assert (
        run(*command)
        .json["answer"]
        .startswith("The schedule is right only where switches copy, as allgather of 4 ranks")
    )
    assert (
        run(*command, "--set", "multicast=true")
        .json["answer"]
        .startswith("The schedule is right, as allgather of 4 ranks")
    )
