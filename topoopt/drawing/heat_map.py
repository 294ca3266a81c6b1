"""Heat maps of what servers send each other, on a linear and a logarithmic scale."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from topoopt.core.arrays import Floats
from topoopt.drawing.format import byte_size
from topoopt.drawing.png import Colour, data_uri, palette_png, ramp
from topoopt.drawing.svg import element, joined, picture

MAX_CELLS = 256
"""Bigger matrices are summed in square blocks down to at most so many rows."""


LEVELS = 255
DECADES = 4
"""Depth of the logarithmic scale below the largest cell."""

SCALES = LOGARITHMIC, LINEAR = ("scale-log", "scale-lin")
"""What the style sheet calls them."""


STOPS: tuple[Colour, ...] = ((223, 239, 214), (140, 203, 181), (63, 151, 182), (42, 90, 155), (27, 31, 94))
"""Light to dark, distinct for the colour-blind; dark pages invert the picture."""


SIDE = 400.0
LEFT = 46.0
TOP = 34.0


def in_blocks(matrix: Floats, most: int = MAX_CELLS) -> tuple[Floats, int]:
    """The matrix summed over square blocks so that at most `most` rows remain, and the servers a block."""
    n = len(matrix)
    block = -(-n // most)
    if block <= 1:
        return matrix, 1
    starts = np.arange(0, n, block)
    return np.add.reduceat(np.add.reduceat(matrix, starts, axis=0), starts, axis=1), block


def scale_range(matrix: Floats, logarithmic: bool) -> tuple[float, float]:
    """Values at the two ends of the colour scale, for a matrix with at least one positive cell."""
    high = float(matrix.max())
    if not logarithmic:
        return 0.0, high
    return max(float(matrix[matrix > 0].min()), high / 10.0**DECADES), high


def colour_index(matrix: Floats, logarithmic: bool) -> NDArray[np.uint8]:
    """Palette index of every cell: 0 for no traffic, 1..255 along the scale."""
    low, high = scale_range(matrix, logarithmic)
    index = np.zeros(matrix.shape, dtype=np.uint8)
    some = matrix > 0
    if logarithmic:
        place = np.log(np.maximum(matrix[some], low) / low) / np.log(high / low) if high > low else np.ones(some.sum())
    else:
        place = matrix[some] / high
    index[some] = 1 + np.rint(np.clip(place, 0, 1) * (LEVELS - 1)).astype(np.uint8)
    return index


def _axis(n: int) -> Markup:
    step = 1
    while n / step > (16 if n <= 100 else 12):
        step *= 2
    cell = SIDE / n
    labels = []
    for server in range(0, n, step):
        at = (server + 0.5) * cell
        labels.append(element("text", str(server), x=LEFT + at, y=TOP - 7, text_anchor="middle"))
        labels.append(element("text", str(server), x=LEFT - 6, y=TOP + at + 4, text_anchor="end"))
    middle = TOP + SIDE / 2
    turned = element("text", "sender", x=10, y=middle, text_anchor="middle", transform=f"rotate(-90 10 {middle:.0f})")
    return joined([*labels, element("text", "receiver", x=LEFT + SIDE / 2, y=11, text_anchor="middle"), turned])


def _legend(matrix: Floats, logarithmic: bool, text_of: Callable[[float], str]) -> Markup:
    low, high = scale_range(matrix, logarithmic)
    middle = (low * high) ** 0.5 if logarithmic else high / 2
    top = TOP + SIDE + 14
    strip = palette_png(np.arange(1, LEVELS + 1, dtype=np.uint8)[None, :], [(0, 0, 0), *ramp(STOPS, LEVELS)])
    marks = ((low, 0.0, "start"), (middle, 0.5, "middle"), (high, 1.0, "end")) if high > low else ((high, 1.0, "end"),)
    texts = [
        element("text", text_of(value), x=LEFT + SIDE * place, y=top + 26, text_anchor=anchor)
        for value, place, anchor in marks
    ]
    image = element("image", href=data_uri(strip), x=LEFT, y=top, width=SIDE, height=10.0, preserveAspectRatio="none")
    return joined([image, *texts])


def heat_map(
    matrix: Floats,
    title: str,
    unit: str = "bytes",
    text_of: Callable[[float], str] = byte_size,
    scales: Sequence[str] = SCALES,
) -> Markup:
    """Picture of a matrix with at least one positive cell, on both scales, of which CSS shows one, or on one of them.

    Args:
        matrix: float64[n, n], sender by receiver.
        title: what it is.
        unit: of a cell, for the tool tips.
        text_of: a value as text, for the scale.
        scales: of `SCALES`.
    """
    n = len(matrix)
    cells, block = in_blocks(matrix)
    palette = [(0, 0, 0), *ramp(STOPS, LEVELS)]
    layers = []
    for css in scales:
        logarithmic = css == LOGARITHMIC
        uri = data_uri(palette_png(colour_index(cells, logarithmic), palette))
        image = element("image", href=uri, x=LEFT, y=TOP, width=SIDE, height=SIDE, preserveAspectRatio="none")
        layers.append(element("g", image, _legend(cells, logarithmic, text_of), class_=css))
    grid = Markup("")
    if n <= 32:
        lines = "".join(
            f"M{LEFT + i * SIDE / n:.1f} {TOP:.0f}v{SIDE:.0f}M{LEFT:.0f} {TOP + i * SIDE / n:.1f}h{SIDE:.0f}"
            for i in range(1, n)
        )
        grid = element("path", d=lines, class_="grid")
    frame = element("rect", x=LEFT, y=TOP, width=SIDE, height=SIDE, class_="frame")
    return picture(
        *layers,
        grid,
        frame,
        element("rect", x=LEFT, y=TOP, width=SIDE, height=SIDE, class_="catch"),
        _axis(n),
        label=f"{title}: {unit} from sender (row) to receiver (column)",
        viewBox=f"0 0 {LEFT + SIDE + 8:.0f} {TOP + SIDE + 48:.0f}",
        class_="heat",
        data_rows=len(cells),
        data_block=block,
        data_servers=n,
        data_unit=unit,
        data_values=base64.b64encode(cells.astype("<f4").tobytes()).decode("ascii"),
    )
