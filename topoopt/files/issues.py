"""Problems of a document before they are shown: where they are, what stands there, what is allowed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice

Path = tuple[str | int, ...]
"""Keys and list positions from the root of a document to a value."""

MAX_LISTED = 200
"""Problems shown of one file; what is beyond is counted only."""

MAX_VALUE_CHARS = 80

MAX_COMPARED = 2000
"""Names a misspelt one is compared with; a comparison takes tens of microseconds."""


@dataclass(frozen=True)
class Issue:
    """One thing wrong at `path`.

    `line` is set when it is already known (broken syntax, duplicate keys). A `general` fault is not worth telling when
    another one at the same path says more.
    """

    path: Path
    message: str
    value: str | None = None
    allowed: str | None = None
    line: int | None = None
    general: bool = False


def key_text(key: str) -> str:
    """A mapping key for people: as it is when it is a plain word, else quoted, escaped and shortened."""
    return key if re.fullmatch(r"[\w-]{1,64}", key, re.ASCII) else value_text(key)


def path_text(path: Path) -> str | None:
    """`workload.operators[3].splits[0].forward_ms`; None for the root."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{key_text(part)}" if text else key_text(part)
    return text or None


def parse_path(text: str) -> Path:
    """Inverse of `path_text` for plain keys."""
    return tuple(
        int(index) if index else key for key, index in re.findall(r"([^.\[\]]+)(?!\])|\[(\d+)\]", text) if key or index
    )


def value_text(value: object) -> str:
    """A value for people, on one line, control characters escaped, long ones shortened."""
    if isinstance(value, dict):
        return f"a mapping of {len(value)}"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and abs(value) >= 10**MAX_VALUE_CHARS:
        return f"a whole number of more than {MAX_VALUE_CHARS} digits"
    if isinstance(value, str):
        value = value[: 4 * MAX_VALUE_CHARS]
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= MAX_VALUE_CHARS else text[: MAX_VALUE_CHARS - 3] + "..."


def nearest_text(word: object, valid: Iterable[str]) -> str:
    """The valid names, led by the one that looks most like `word`."""
    names = list(islice(valid, MAX_COMPARED))
    shown = ", ".join(names[:40]) + (", ..." if len(names) > 40 else "")
    close = difflib.get_close_matches(word[:100], names, n=1) if isinstance(word, str) else []
    return f"did you mean {close[0]}? One of: {shown}" if close else f"one of: {shown}"


REMOVED: Mapping[tuple[str, str, str | None], str] = {
    ("llm-training", "time_model", None): "removed: the roofline model is the only one",
    ("llm-training", "calculon", None): "removed with time_model: calculon; the roofline model is the only one",
    ("dag-topology", "max_hops", None): (
        "removed: pods do not forward; every pair that transfers has circuits of its own"
    ),
}
"""Messages by kind, path in the file, and value (None: the field itself)."""


def said_removed(kind: object, issue: Issue) -> Issue:
    """The fault, with what replaced the field or the value where it was removed."""
    path = path_text(issue.path) or ""
    text = REMOVED.get((str(kind), path, issue.value)) or REMOVED.get((str(kind), path, None))
    return issue if text is None else replace(issue, message=text, allowed="left out")
