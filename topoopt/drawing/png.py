"""A palette PNG from an array of indices: the smallest exact picture of a big matrix."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

Colour = tuple[int, int, int]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def palette_png(index: NDArray[np.uint8], palette: list[Colour]) -> bytes:
    """Bytes of a PNG (8 bits a pixel) of `index` uint8[height, width]; colour 0 is transparent."""
    height, width = index.shape
    rows = np.zeros((height, width + 1), dtype=np.uint8)  # the first byte of a row says: not filtered
    rows[:, 1:] = index
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", bytes(channel for colour in palette for channel in colour)),
            _chunk(b"tRNS", b"\x00"),
            _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
            _chunk(b"IEND", b""),
        )
    )


def data_uri(png: bytes) -> str:
    """The picture as a `data:` address, so that the page needs no second file."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def ramp(stops: tuple[Colour, ...], size: int) -> list[Colour]:
    """`size` >= 2 colours at equal distances along the stops."""
    position = np.linspace(0, len(stops) - 1, size)
    table = np.array(stops, dtype=np.float64)
    channels = [np.interp(position, np.arange(len(stops)), table[:, channel]) for channel in range(3)]
    return [(int(r), int(g), int(b)) for r, g, b in np.rint(np.stack(channels, axis=1))]
