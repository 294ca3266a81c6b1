"""Ways to damage a file: bytes, text and, where it is JSON or YAML, its structure. Drawn with a seed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from ruamel.yaml import YAML

NUMBERS: tuple[Any, ...] = (
    0, -1, 1, 2, 3, 255, 65536, 2**31, 2**53 + 1, 2**63, 10**30, 10**400, 0.0, -0.0, -1.5, 0.5, 1e-320, 1e-9, 1e9, 1e16,
    1e30, 1e300, 1.7e308,
)  # fmt: skip
TEXTS: tuple[str, ...] = (
    "", " ", "x", "auto", "1e5", "NaN", "inf", "-1", "../../etc/passwd", "/dev/zero", "a" * 5000, "\x1b[31mred\x1b[0m",
    "\u202etxt", "é", "\x00", "<script>alert(1)</script>", "{}", "[]", "!!python/object:os.system", "&a *a", "null",
)  # fmt: skip
BITS_AND_PIECES = (
    b"\x00", b"\xff", b"\xff\xff\xff\xff", b"\x00\x00\x00\x80", b"9" * 40, b"-", b"1e999", b"NaN", b"\n", b"\r\n",
    b"\t",
    b",", b";", b'"', b"'", b"{", b"}", b"[", b"]", b":", b"&x", b"*x", b"!!", b"<!DOCTYPE a>", b"\xef\xbb\xbf",
    b"\xc3",
    b"\x1b[2J", b"#", b"|", b"---\n", b"PK\x03\x04", b"\x93NUMPY", b"PAR1",
)  # fmt: skip

Draw = np.random.Generator


def damaged(content: bytes, draw: Draw) -> bytes:
    """The content with one to four changes to its bytes or its structure."""
    if draw.random() < 0.6:
        made = restructured(content, draw)
        if made is not None:
            return made
    for _ in range(int(draw.integers(1, 5))):
        content = BYTE_CHANGES[int(draw.integers(len(BYTE_CHANGES)))](content, draw)
    return content


def _place(content: bytes, draw: Draw) -> int:
    return int(draw.integers(len(content) + 1))


def _flip(content: bytes, draw: Draw) -> bytes:
    if not content:
        return b"\x00"
    at = _place(content[:-1], draw)
    return content[:at] + bytes([content[at] ^ (1 << int(draw.integers(8)))]) + content[at + 1 :]


def _cut(content: bytes, draw: Draw) -> bytes:
    return content[: _place(content, draw)]


def _drop(content: bytes, draw: Draw) -> bytes:
    at = _place(content, draw)
    return content[:at] + content[at + int(draw.integers(1, 64)) :]


def _put(content: bytes, draw: Draw) -> bytes:
    at = _place(content, draw)
    piece = BITS_AND_PIECES[int(draw.integers(len(BITS_AND_PIECES)))]
    over = len(piece) if draw.random() < 0.5 else 0
    return content[:at] + piece + content[at + over :]


def _repeat(content: bytes, draw: Draw) -> bytes:
    at = _place(content, draw)
    part = content[at : at + int(draw.integers(1, 200))]
    return content[:at] + part * int(draw.integers(2, 20)) + content[at:]


def _swap(content: bytes, draw: Draw) -> bytes:
    one, two = sorted((_place(content, draw), _place(content, draw)))
    size = min(two - one, int(draw.integers(1, 100)))
    return (
        content[:one]
        + content[two : two + size]
        + content[one + size : two]
        + content[one : one + size]
        + content[two + size :]
    )


def _line(content: bytes, draw: Draw) -> bytes:
    lines = content.splitlines(keepends=True)
    if not lines:
        return content
    at = int(draw.integers(len(lines)))
    return b"".join(lines[:at] + ([] if draw.random() < 0.5 else [lines[at]] * 2) + lines[at + 1 :])


BYTE_CHANGES: tuple[Callable[[bytes, Draw], bytes], ...] = (_flip, _cut, _drop, _put, _put, _repeat, _swap, _line)


def restructured(content: bytes, draw: Draw) -> bytes | None:
    """JSON of the document with one to three values changed, or None where it is no document."""
    document = _parsed(content)
    if not isinstance(document, dict | list) or not document:
        return None
    document = copy.deepcopy(document)
    for _ in range(int(draw.integers(1, 4))):
        _change(document, draw)
    try:
        return json.dumps(document).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError):
        return None


@lru_cache(maxsize=1024)
def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        pass
    if len(content) > 20_000:
        return None
    try:
        return YAML(typ="safe", pure=True).load(content.decode())
    except Exception:  # whatever the library raises, it is no document
        return None


def _change(document: Any, draw: Draw) -> None:
    """One value somewhere below replaced, dropped, repeated or moved."""
    here, key = document, _any_key(document, draw)
    while isinstance(here[key], dict | list) and here[key] and draw.random() < 0.85:
        here, key = here[key], _any_key(here[key], draw)
    choice = draw.random()
    if choice < 0.12:
        del here[key]
    elif choice < 0.2 and isinstance(here, list):
        here.insert(int(draw.integers(len(here) + 1)), copy.deepcopy(here[key]))
    elif choice < 0.25 and isinstance(here, dict):
        here[f"{key}x"] = here.pop(key)
    else:
        here[key] = _other(here[key], draw)


def _any_key(document: Any, draw: Draw) -> Any:
    if isinstance(document, dict):
        return list(document)[int(draw.integers(len(document)))]
    return int(draw.integers(len(document)))


def _other(value: Any, draw: Draw) -> Any:
    """Another value, often of the same type and close to it."""
    choice = draw.random()
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float) and choice < 0.25:
        factor = float(draw.choice([0.5, 2.0, -1.0, 1e-6, 1e6]))
        return value * factor if abs(value) < 1e300 else -value  # integers of JSON may be larger than any double
    if isinstance(value, int | float) and choice < 0.5:
        return value + int(draw.choice([-1, 1]))
    if isinstance(value, list) and choice < 0.5:
        return value[: len(value) // 2] if choice < 0.25 else value * 3
    if choice < 0.75:
        return NUMBERS[int(draw.integers(len(NUMBERS)))]
    if choice < 0.9:
        return TEXTS[int(draw.integers(len(TEXTS)))]
    return [None, True, [], {}, [[]], {"a": 1}, [1, 2, 3]][int(draw.integers(7))]
