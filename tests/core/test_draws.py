"""The generator of draws that are made again, against its published numbers."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Draws


def test_the_numbers_are_those_of_splitmix64() -> None:
    """The first outputs for seed 1234567 (Vigna's reference code), of which 53 bits are taken."""
    outputs = (
        6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821,
    )  # fmt: skip
    assert Draws(1234567).uniform(5).tolist() == [(one >> 11) / 2.0**53 for one in outputs]


def test_a_stream_goes_on() -> None:
    """Numbers taken in two parts are those taken at once; another second seed gives others."""
    parts, whole = Draws(7), Draws(7)
    assert [*parts.uniform(3).tolist(), *parts.uniform(4).tolist()] == whole.uniform(7).tolist()
    streams = {tuple(Draws(*seeds).uniform(2).tolist()) for seeds in ((7,), (7, 0), (7, 1), (7, 1, 0), (8, 1))}
    assert len(streams) == 5


def test_what_is_drawn_is_in_its_range() -> None:
    """Permutations hold every number once; weights of 0 are never drawn; means are near what they must be."""
    draws = Draws(3)
    assert sorted(draws.permutation(50).tolist()) == list(range(50))
    assert set(draws.below(3, 200).tolist()) == {0, 1, 2}
    drawn = draws.weighted(np.array([0.0, 1.0, 0.0, 3.0]), 4000)
    assert set(drawn.tolist()) == {1, 3}
    assert abs(float((drawn == 3).mean()) - 0.75) < 0.03
    assert abs(float(draws.exponential(4000).mean()) - 1.0) < 0.06
