"""What an audit of a schedule answers, in one sentence: whether it is right, its rate, and what none exceeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topoopt.drawing.format import counted, percent, precise

CONDITIONS = {
    "valid": "The schedule is right",
    "valid-with-multicast": "The schedule is right only where switches copy",
    "valid-with-relaying": "The schedule is right only where ranks may pass on what is not for them",
}
"""What verdicts mean."""


def audit_answer(document: Mapping[str, Any]) -> str:
    """The verdict, with the figures that were computed; a wrong schedule has none."""
    job = f"{document['collective']} of {counted(document['ranks'], 'rank')}"
    if document["verdict"] == "invalid":
        reasons = counted(len(document["reasons"]), "reason")
        return f"The schedule is wrong as {job} ({reasons}): its figures prove nothing."
    text = f"{CONDITIONS[document['verdict']]}, as {job}"
    recomputed, bound = document["recomputed"], document["bound"]
    rate = None if recomputed is None else recomputed["algbw_gbytes_per_s"]
    if rate is not None:
        text += f": {precise(rate)} GB/s, {percent(recomputed['part_of_bound'])} of what no schedule exceeds (proven)"
    elif bound is not None:
        text += f"; no schedule exceeds {precise(bound['algbw_gbytes_per_s'])} GB/s (proven), its own rate is not known"
    else:
        text += "; how fast it is was not examined"
    return f"{text}."
