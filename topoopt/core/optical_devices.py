"""Optical switches by name, and durations as text: how long circuits take to change."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from topoopt.core.errors import InputError, Problem


@dataclass(frozen=True)
class OpticalDevice:
    """A kind of optical switch (device table of the TopoOpt paper, NSDI'23, quoted from memory).

    Attributes:
        delay_ms: reconfiguration delay.
        ports: of one device.
    """

    delay_ms: float
    ports: int


OPTICAL_DEVICES: Mapping[str, OpticalDevice] = {
    "tunable-lasers": OpticalDevice(3.8e-6, 128),
    "silicon-photonics": OpticalDevice(900e-6, 256),
    "rotornet": OpticalDevice(0.010, 64),
    "2d-mems": OpticalDevice(0.0115, 300),
    "3d-mems": OpticalDevice(10.0, 384),
    "patch-panel": OpticalDevice(120_000.0, 1008),
}
"""Reconfiguration delays and port counts; a robotic patch panel takes "minutes", two are assumed."""

_UNITS_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3, "min": 60e3}
_DURATION = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*(ns|us|ms|s|min)", re.ASCII)


def parse_delay(text: str) -> float:
    """Milliseconds of `10us`, `1.5 ms`, `0s` or of a device's name.

    Raises:
        InputError: neither a duration with its unit nor a known device.
    """
    word = text.strip().lower().replace("µ", "u")
    if word in OPTICAL_DEVICES:
        return OPTICAL_DEVICES[word].delay_ms
    match = _DURATION.fullmatch(word)
    if match is None or not math.isfinite(float(match[1])):
        allowed = "a number of ns, us, ms, s or min (10us), or " + ", ".join(OPTICAL_DEVICES)
        raise InputError([Problem("neither a duration nor a known device", value=repr(text), allowed=allowed)])
    return float(f"{float(match[1]) * _UNITS_MS[match[2]]:.12g}")  # 3.8 ns is 3.8e-6 ms, not a neighbour of it


def delay_text(delay_ms: float) -> str:
    """`10 us`, `2 min`: the largest unit that leaves a number of 1 or more, four digits; minutes if they are whole."""
    minutes = delay_ms / _UNITS_MS["min"]
    if minutes >= 1 and minutes == round(minutes):
        return f"{minutes:.4g} min"
    for unit in ("s", "ms", "us", "ns"):
        if delay_ms >= _UNITS_MS[unit] * (1 - 1e-12):
            return f"{delay_ms / _UNITS_MS[unit]:.4g} {unit}"
    return f"{delay_ms / _UNITS_MS['ns']:.4g} ns"


def devices_text() -> str:
    """All devices with their delays, for help texts."""
    return ", ".join(f"{name} {delay_text(device.delay_ms)}" for name, device in OPTICAL_DEVICES.items())
