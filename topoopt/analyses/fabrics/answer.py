"""What a comparison of fabrics answers, in one sentence: which is fastest, and the direct-connect plan beside it."""

from __future__ import annotations

from collections.abc import Sequence

from topoopt.core.comparison import FLOW_LEVEL, PLAN, FabricRow
from topoopt.drawing.format import milliseconds
from topoopt.drawing.sentences import compared


def answer(rows: Sequence[FabricRow]) -> str:
    """Times of one time model alone are compared: by the flow-level model where every fabric has one."""
    flows = any(row.time_model == FLOW_LEVEL for row in rows)
    times = {row.name: row.flow_level_ms if flows else row.iteration_time_ms for row in rows}
    known = {name: time for name, time in times.items() if time is not None}
    if not known:
        return "The job has a time on none of the fabrics."
    best = min(known, key=lambda name: known[name])
    text = f"The job is fastest on {_named(best)}: {milliseconds(known[best])} an iteration"
    others = [name for name in known if name != best]
    if best != PLAN and PLAN in known:
        words = compared(known[PLAN], known[best])[1]
        return f"{text}; the direct-connect plan takes {milliseconds(known[PLAN])}, {words} that{_left(rows, known)}."
    if not others:
        return f"{text}{_left(rows, known)}."
    second = min(others, key=lambda name: known[name])
    return f"{text}, {compared(known[best], known[second])[1]} on {_named(second)}{_left(rows, known)}."


def _named(name: str) -> str:
    return "the direct-connect plan" if name == PLAN else name


def _left(rows: Sequence[FabricRow], known: dict[str, float]) -> str:
    missing = len(rows) - len(known)
    return f"; {missing} of {len(rows)} fabrics have no time" if missing else ""
