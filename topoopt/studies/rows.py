"""One row of the table of results: factors, verdict, figures and what the run took."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from topoopt.core.study import Scalar

TIMES = ("solve_wall_s", "wall_s", "cpu_s", "peak_memory_mib", "finished_at")
"""Columns that differ between two runs of the same thing; they come last, and `diff` and `reproduce` leave them out."""

LONGEST_LIST = 16
"""Numbers of a list that get a column each."""

_LEFT_OUT = {"solution", "report", "notes", "versions", "wall_s", "exit_code", "problems", "error", "kind", "name"}
_OWN = {"objective", "bound", "check", "status", "stopped_by", "gap", "method", "seed", "instance_sha256"}


def row_of(run: Mapping[str, Any], record: Mapping[str, Any] | None) -> dict[str, Scalar]:
    """The row of a planned run; `record` is its run.json, None if it was not run."""
    output = (record or {}).get("output") or {}
    objective, bound, check = (output.get(key) or {} for key in ("objective", "bound", "check"))
    row: dict[str, Scalar] = {
        "run": run["identity"],
        "instance": run["instance"],
        "kind": output.get("kind"),
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
        "status": output.get("status"),
        "stopped_by": output.get("stopped_by"),
        "objective": _number(objective.get("value")),
        "objective_name": objective.get("name"),
        "objective_unit": objective.get("unit"),
        "bound": _number(bound.get("value")),
        "proved_by": bound.get("proved_by"),
        "gap": _number(output.get("gap")),
        "check": check.get("ok"),
        "ran_method": output.get("method"),
        "instance_sha256": output.get("instance_sha256"),
        "versions": json.dumps(output["versions"], sort_keys=True) if "versions" in output else None,
    }
    for key, value in output.items():
        if key not in _OWN and key not in _LEFT_OUT:
            _spread(row, key, value)
    record = record or {}
    row["solve_wall_s"] = _number(output.get("wall_s"))
    for name in TIMES[1:]:
        row[name] = record.get(name)
    return row


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


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
