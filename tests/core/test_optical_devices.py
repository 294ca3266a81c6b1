"""Delays as text and by the name of a device."""

from __future__ import annotations

import pytest

from topoopt.core.errors import InputError
from topoopt.core.switching import OPTICAL_DEVICES, delay_text, parse_delay


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("10us", 0.01),
        ("10 µs", 0.01),
        ("3.8ns", 3.8e-6),
        ("1e-3s", 1.0),
        ("2min", 120_000.0),
        ("0ms", 0.0),
        ("60s", 6e4),
    ],
)
def test_durations(text: str, ms: float) -> None:
    """A number and its unit, in milliseconds."""
    assert parse_delay(text) == ms


def test_devices_of_the_specification() -> None:
    """Delays and ports of section (h): a name stands for its delay."""
    expected = {
        "3d-mems": (10.0, 384),
        "2d-mems": (0.0115, 300),
        "silicon-photonics": (0.0009, 256),
        "tunable-lasers": (3.8e-6, 128),
        "rotornet": (0.01, 64),
    }
    for name, (delay, ports) in expected.items():
        assert OPTICAL_DEVICES[name] == (pytest.approx(delay), ports)
        assert parse_delay(f" {name.upper()}") == OPTICAL_DEVICES[name][0]
    assert OPTICAL_DEVICES["patch-panel"][1] == 1008
    assert OPTICAL_DEVICES["patch-panel"][0] >= 60_000


@pytest.mark.parametrize("text", ["", "10", "-1us", "nan ms", "inf s", "1e999s", "abacus", "1 us 2"])
def test_what_is_no_delay(text: str) -> None:
    """No unit, a sign, not finite, an unknown device: refused with what is allowed."""
    with pytest.raises(InputError, match="3d-mems"):
        parse_delay(text)


@pytest.mark.parametrize(
    ("ms", "text"), [(0.0115, "11.5 us"), (60_000.0, "1 min"), (90_000.0, "90 s"), (3.8e-6, "3.8 ns"), (0.0, "0 ns")]
)
def test_delays_for_people(ms: float, text: str) -> None:
    """The unit that suits."""
    assert delay_text(ms) == text
