"""Building blocks of the report: numbers and server sets as text, elements, ticks, pictures of matrices."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from topoopt.core.result import Result
from topoopt.page.charts import decade_ticks, element, palette_png, percentage, ramp, ticks
from topoopt.page.text import byte_size, compared, number, percent, ratio, server_set, shortened

Builder = Callable[..., Result[Any, Any]]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (20.3149, "20.31"),
        (123.456, "123.5"),
        (12345.6, "12,346"),
        (0.84, "0.840"),
        (0.0042, "0.0042"),
        (0.00001, "<0.0001"),
        (-1.5, "−1.500"),
        (123_456_789_012_345.0, "123,456,789,012,345"),
        (4.31942e16, "4.319 × 10¹⁶"),
        (math.inf, "∞"),
        (math.nan, "n/a"),
    ],
)
def test_numbers_are_rounded_sensibly(value: float, text: str) -> None:
    """Four digits, never more decimals than matter."""
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (999, "999 B"), (33_554_432, "33.55 MB"), (1e9, "1.000 GB"), (2048, "2.048 kB"), (4.4e13, "44.00 TB")],
)
def test_sizes_are_decimal(value: float, text: str) -> None:
    """Decimal units, as link rates are."""
    assert byte_size(value) == text


def test_fractions_and_quotients() -> None:
    """Percentages keep one decimal, tiny ones are not shown as nothing, ratios keep two."""
    assert percent(0.18) == "18.0 %"
    assert percent(0.0001) == "<0.1 %"
    assert percent(-0.00001) == "0.0 %"
    assert ratio(1.306) == "1.31×"
    assert ratio(12.34) == "12.3×"
    assert ratio(6.8366e198) == "6.84 × 10¹⁹⁸ times"
    assert ratio(math.nan) == "n/a"
    assert compared(10, 24.1) == ("2.41× faster", "2.41× faster than")
    assert compared(24, 10) == ("2.40× slower", "2.40× slower than")
    assert compared(10, 10.01) == ("equal", "as fast as")
    assert compared(0, 10) == ("–", "not comparable with")


@pytest.mark.parametrize(
    ("servers", "n", "text"),
    [
        (range(16), 16, "all 16"),
        ((8, 0, 4, 12), 16, "0,4,8,12"),
        ((5,), 16, "5"),
        ((0,), 1, "0"),
        (range(64), 128, "0–63"),
        (range(0, 128, 2), 128, "0,2,…,126 (64)"),
        ((0, 1, 3, 7, 8, 9, 11), 16, "0,1,3,… (7)"),
        ((), 16, "none"),
    ],
)
def test_server_sets_are_compact(servers: tuple[int, ...], n: int, text: str) -> None:
    """Everyone, short lists, ranges, progressions, and the rest by their first members."""
    assert server_set(tuple(servers), n) == text


@given(text=st.text(max_size=80), limit=st.integers(2, 40))
@settings(max_examples=60)
def test_shortened_keeps_to_the_limit(text: str, limit: int) -> None:
    """Never longer than the limit, and untouched when it fits."""
    short = shortened(text, limit)
    assert len(short) == min(len(text), limit)
    assert short == text or (short.count("…") > text.count("…") - len(text) and short[0] == text[0])


def test_svg_elements_escape_text_and_attributes() -> None:
    """Quotes and tags in values cannot break out."""
    made = str(element("text", "<b>&", x=1.50, y=0, class_='a"b', stroke_width=2, title=None))
    assert made == '<text x="1.5" y="0" class="a&#34;b" stroke-width="2">&lt;b&gt;&amp;</text>'
    assert percentage(0.1234567) == "12.346%"


@given(low=st.floats(-1e6, 1e6), span=st.floats(1.0, 1e6), target=st.integers(1, 12))
@settings(max_examples=60)
def test_ticks_are_round_and_inside(low: float, span: float, target: int) -> None:
    """Ticks lie in the range, at equal distances, and are not more than asked for (plus one end)."""
    found = ticks(low, low + span, target)
    assert len(found) <= target + 1
    assert all(low - 1e-6 * span <= tick <= low + span * (1 + 1e-6) for tick in found)
    gaps = np.diff(found)
    assert np.allclose(gaps, gaps[0], rtol=1e-6, atol=1e-9) if len(gaps) else True
    assert decade_ticks(0.5, 2000.0) == [1.0, 10.0, 100.0, 1000.0]


def test_png_shows_the_indices() -> None:
    """An independent decoder reads back size, colours and transparency."""
    index = np.array([[0, 1, 2], [2, 1, 0]], dtype=np.uint8)
    palette = [(0, 0, 0), (10, 20, 30), (200, 100, 50)]
    image = Image.open(io.BytesIO(palette_png(index, palette))).convert("RGBA")
    assert image.size == (3, 2)
    assert image.getpixel((0, 0))[3] == 0
    assert image.getpixel((1, 0)) == (10, 20, 30, 255)
    assert image.getpixel((0, 1)) == (200, 100, 50, 255)
    assert ramp(((0, 0, 0), (100, 200, 50)), 3) == [(0, 0, 0), (50, 100, 25), (100, 200, 50)]
