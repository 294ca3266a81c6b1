"""Fields and values that instance files had once, and what stands in their place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from topoopt.files.faults import Fault, path_text

REMOVED: Mapping[tuple[str, str, str | None], str] = {
    ("llm-training", "time_model", None): "removed: the roofline model is the only one",
    ("llm-training", "calculon", None): "removed with time_model: calculon; the roofline model is the only one",
    ("dag-topology", "max_hops", None): (
        "removed: pods do not forward; every pair that transfers has circuits of its own"
    ),
}
"""Messages by kind, path in the file, and value (None: the field itself)."""


def said_removed(kind: object, fault: Fault) -> Fault:
    """The fault, with what replaced the field or the value where it was removed."""
    path = path_text(fault.path) or ""
    text = REMOVED.get((str(kind), path, fault.value)) or REMOVED.get((str(kind), path, None))
    return fault if text is None else replace(fault, message=text, allowed="left out")
