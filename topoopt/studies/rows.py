"""One row of the table of results: factors, verdict, figures and what the run took."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from topoopt.core.comparison import Scalar

TIMES = ("solve_wall_s", "wall_s", "cpu_s", "peak_memory_mib", "finished_at")
"""Columns that differ between two runs of the same thing; they come last, and comparisons leave them out."""

LONGEST_LIST = 16
"""Numbers of a list that get a column each."""

_LEFT_OUT = {"solution", "report", "notes", "versions", "wall_s", "exit_code", "problems", "error", "kind", "name"}
_OWN = {
    "objective",
    "bound",
    "claimed_bound",
    "check",
    "status",
    "stopped_by",
    "gap",
    "method",
    "seed",
    "instance_sha256",
}


def row_of(run: Mapping[str, Any], record: Mapping[str, Any] | None) -> dict[str, Scalar]:
    """The row of a planned run; `record` is its run.json, None if it was not run."""
    output = _mapping((record or {}).get("output"))
    objective, bound, claimed, check = (
        _mapping(output.get(key)) for key in ("objective", "bound", "claimed_bound", "check")
    )
    row: dict[str, Scalar] = {
        "run": run["identity"],
        "instance": run["instance"],
        "kind": _scalar(output.get("kind")),
        "command": " ".join(run["command"]),
        "method": run["method"],
        "seed": run["seed"],
        "repetition": run["repetition"],
    }
    for path, value in run["factors"].items():
        row.setdefault(path, value)
    row |= {
        "outcome": "missing" if record is None else record.get("outcome"),
        "reason": "" if record is None else record.get("reason"),
        "status": _scalar(output.get("status")),
        "stopped_by": _scalar(output.get("stopped_by")),
        "objective": _number(objective.get("value")),
        "objective_name": _scalar(objective.get("name")),
        "objective_unit": _scalar(objective.get("unit")),
        "bound": _number(bound.get("value")),
        "proved_by": _scalar(bound.get("proved_by")),
        "claimed_bound": _number(claimed.get("value")),
        "claimed_by": _scalar(claimed.get("proved_by")),
        "gap": _number(output.get("gap")),
        "check": _scalar(check.get("ok")),
        "ran_method": _scalar(output.get("method")),
        "instance_sha256": _scalar(output.get("instance_sha256")),
        "versions": json.dumps(output["versions"], sort_keys=True) if "versions" in output else None,
    }
    for key, value in output.items():
        if key not in _OWN and key not in _LEFT_OUT:
            _spread(row, key, value)
    record = record or {}
    row["solve_wall_s"] = _number(output.get("wall_s"))
    for name in TIMES[1:]:
        row[name] = record.get(name)
    return {_text(name): _cell(value) for name, value in row.items()}


def _text(text: str) -> str:
    """Text that every file can hold: half characters, which JSON can name, are written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _cell(value: Scalar) -> Scalar:
    """A value that a table can hold: whole numbers beyond all floats are text."""
    if isinstance(value, int) and abs(value) >= 2**1023:
        return str(value)
    return _text(value) if isinstance(value, str) else value


def _mapping(value: object) -> Mapping[str, Any]:
    """A part of the output; what should be a mapping and is none is empty."""
    return value if isinstance(value, Mapping) else {}


def _scalar(value: object) -> Scalar:
    """What can stand in a cell; anything else as text."""
    return value if value is None or isinstance(value, str | int | float | bool) else json.dumps(value)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) >= 2**1023:
        return None
    return float(value)


def _spread(row: dict[str, Scalar], key: str, value: object) -> None:
    """A figure of the output in columns of its own: mappings by key, short lists of numbers by place."""
    if value is None or isinstance(value, str | int | float | bool):
        row.setdefault(key, value)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            _spread(row, f"{key}.{name}", inner)
    elif isinstance(value, list) and len(value) <= LONGEST_LIST and all(_number(item) is not None for item in value):
        for place, item in enumerate(value):
            row.setdefault(f"{key}.{place}", item)
    elif isinstance(value, list) and len(value) <= LONGEST_LIST and all(isinstance(item, Mapping) for item in value):
        for item in value:  # each is named by its first field
            label, *others = item.items() if item else [("", None)]
            for name, inner in others:
                _spread(row, f"{key}.{label[1]}.{name}", inner)
