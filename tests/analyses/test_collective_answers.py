"""The sentences that begin `collective bound` and `collective audit`."""

from __future__ import annotations

import pytest

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
